"""The result of a trial that has ended, and where the results of a case do not stand."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any

import pytest

from pytest_llmeval.records import Outcome, Trial

_SHOWN = 90  # characters of the error
_JUDGES = (AssertionError, pytest.fail.Exception)  # of a reply, and not of the test's id


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The result of a trial that has ended; nothing in it holds on to the test.

    Attributes:
        exception: what left setup or call, None if the body returned.
        in_setup: the exception came from a fixture, before the body.
        fixture: name of that fixture.
        teardown_error: what left teardown.
        headline: first line of the exception, for the terminal of this session.
        longrepr: pytest's own rendering of the failure.
        sections: captured output as (phase, kind, text).
        warned: warnings that the trial gave, if it ran apart from the session's own.
        was_detached: it blocked without telling, and the others went on beside it.
        saw_others: see ``TrialThread``.
        held_for: for whose sake its calls were not overlapped: what it patched, a model.
        reached_out: it opened a connection, or sent a request that is not kept.
    """

    record: Trial
    exception: BaseException | None = None
    in_setup: bool = False
    fixture: str = ""
    teardown_error: BaseException | None = None
    headline: str = ""
    longrepr: Any = None
    sections: tuple[tuple[str, str, str], ...] = ()
    properties: tuple[tuple[str, object], ...] = ()
    warned: tuple[warnings.WarningMessage, ...] = ()
    was_detached: bool = False
    saw_others: bool = False
    held_for: str = ""
    reached_out: bool = False

    @property
    def may_have_asked(self) -> bool:
        """Whether it did something that may be a call which nobody saw."""
        return self.reached_out or self.was_detached

    def errored(self, headline: str, message: str = "") -> Ended:
        """Return it as a trial without an outcome; its message stays if none is given."""
        message = message or self.record.message
        record = replace(self.record, outcome=Outcome.ERRORED, scores={}, message=message)
        return replace(self, record=record, headline=headline)


def refused_if_made_once(ended: Sequence[Ended]) -> list[Ended]:
    """Take trials as errored where one fixture could be set up for one of them alone.

    Bags of results (pytest-harvest, pytest-evals) keep what they hold by node id, which trials
    share, and refuse a second one. That is no answer of a model, and such a run must be nobody's
    baseline. A fixture that asked a model, or that asserts, may well have failed by chance in all
    trials but one: that is a score.

    Args:
        ended: all trials of a case, by index.
    """
    failed = [
        one
        for one in ended
        if one.in_setup
        and one.record.outcome is Outcome.CRASHED
        and not (one.record.asked or one.may_have_asked)
        and not isinstance(one.exception, _JUDGES)
    ]
    kinds = {(one.fixture, type(one.exception)) for one in failed}
    if not failed or len(failed) != len(ended) - 1 or len(kinds) != 1 or not failed[0].fixture:
        return list(ended)
    indices = ", ".join(str(one.record.index) for one in failed)
    trials = f"trial {indices}" if len(failed) == 1 else f"trials {indices}"
    why = shorten(failed[0].headline, _SHOWN, placeholder="...")
    line = (
        f"fixture {failed[0].fixture} could not be set up for {trials} ({why}): it can be made "
        "once per test id, which the trials share. Return a fresh one from a fixture of this name "
        'in conftest.py; if it can be made one at a time, use concurrency="serial"'
    )
    return [one.errored(line) for one in ended]
