"""Subtests of a trial: one that fails is a failure of its trial, and has no report of its own.

What the fixture ``subtests`` does of itself, pytest's as well as that of pytest-subtests, is right
for a test: it counts and reports each failure, and the session fails. In a trial that is a miss.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from pytest_llmeval.engine.trial.outcome import Failure, is_skip
from pytest_llmeval.errors import parts_of

SUBTESTS = "subtests"  # the fixture
_HOMES = ("_pytest.subtests", "pytest_subtests")


def take_over_subtests(
    subtests: Any, note_failure: Callable[[Failure], None], *, is_debugged: bool
) -> None:
    """Let a trial know of the subtests that fail in it.

    Args:
        subtests: value of the fixture; that of another plugin stays as it is.
        note_failure: of the trial that asked for it.
        is_debugged: --pdb is to stop at a failure.
    """
    if type(subtests).__module__.startswith(_HOMES):
        subtests.test = partial(_subtest, None if is_debugged else note_failure)


def _ends_alone(error: BaseException) -> bool:
    ends_it = isinstance(error, Exception | pytest.fail.Exception | pytest.skip.Exception)
    return ends_it and not isinstance(error, pytest.exit.Exception)


@contextmanager
def _subtest(
    note_failure: Callable[[Failure], None] | None, msg: str | None = None, **labels: Any
) -> Iterator[None]:
    """Swallow what ends a subtest alone, as pytest does: the trial goes on after it.

    Args:
        note_failure: of the trial; None where a failure is to end it.
        msg: what the test calls the subtest.
        **labels: likewise.
    """
    __tracebackhide__ = True
    named = ", ".join(f"{name}={reprlib.repr(value)}" for name, value in labels.items())
    parts = ("" if msg is None else f"[{msg}]", f"({named})" if named else "")
    name = " ".join(filter(None, parts))
    try:
        yield
    except BaseException as error:
        if not all(map(_ends_alone, parts_of(error))):
            raise
        if is_skip(error) or isinstance(error, pytest.xfail.Exception):
            return
        if name:
            error.add_note(f"in subtest {name}")
        if note_failure is None:
            raise
        note_failure(pytest.ExceptionInfo.from_exception(error))
