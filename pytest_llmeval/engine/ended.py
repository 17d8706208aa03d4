"""The result of a trial that has ended."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

from pytest_llmeval.records import Outcome, Trial


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
