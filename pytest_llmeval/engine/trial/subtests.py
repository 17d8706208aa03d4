"""Subtests: one that fails is a failure of its trial, and no report of its own.

What the fixture ``subtests`` does of itself, pytest's as well as that of pytest-subtests, is right
for a test: it counts and reports each failure, and the session fails. A trial that fails is a miss.
"""

from __future__ import annotations

import reprlib
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from pytest_llmeval.engine.trial.outcome import is_skip

if TYPE_CHECKING:
    from pytest_llmeval.engine.trial.trial import RunningTrial

FIXTURE = "subtests"
_HOMES = ("_pytest.subtests", "pytest_subtests")


def take_over(subtests: Any, trial: RunningTrial) -> None:
    """Let a trial know of the subtests that fail in it.

    Args:
        subtests: value of the fixture; that of another plugin stays as it is.
        trial: which asked for it.
    """
    if type(subtests).__module__.startswith(_HOMES):
        subtests.test = partial(_Subtest, trial)


class _Subtest:
    """What stands in the ``with`` of a subtest: the trial goes on after a failure in it.

    Args:
        trial: which asked for it.
        msg, labels: what the test calls it.
    """

    def __init__(self, trial: RunningTrial, msg: str | None = None, **labels: Any) -> None:
        self._trial = trial
        named = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in labels.items())
        parts = ("" if msg is None else f"[{msg}]", f"({named})" if named else "")
        self._name = " ".join(filter(None, parts))

    def __enter__(self) -> None:
        """Begin the subtest."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        """Swallow what ends the subtest alone, as pytest does; --pdb is to stop at a failure."""
        __tracebackhide__ = True
        ends_it = isinstance(error, Exception | pytest.fail.Exception | pytest.skip.Exception)
        if error is None or not ends_it or isinstance(error, pytest.exit.Exception):
            return False
        if is_skip(error) or isinstance(error, pytest.xfail.Exception):
            return True
        if self._name:
            error.add_note(f"in subtest {self._name}")
        if self._trial.item.config.getoption("usepdb", False):
            return False
        self._trial.note_subtest(pytest.ExceptionInfo.from_exception(error))
        return True
