"""One trial: a clone of the item that goes through pytest's own setup, call and teardown."""

from __future__ import annotations

import time
import unittest
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import pytest
from _pytest.runner import call_and_report

from pytest_llmeval.engine.clone import clone_item
from pytest_llmeval.engine.fiber import InlineFiber
from pytest_llmeval.engine.ledger import Ledger
from pytest_llmeval.records import PASS_METRIC, Outcome, Trial

Phase = Literal["setup", "call", "teardown"]
Failure = pytest.ExceptionInfo[BaseException]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """What is kept of a trial that has ended; nothing in it holds on to the test.

    Attributes:
        exception: what left setup or call, None if the body returned.
        in_setup: the exception came from a fixture, before the body.
        torn: what left teardown.
        headline: first line of the exception, for the terminal of this session.
        longrepr: pytest's own rendering of the failure.
        sections: captured output as (phase, kind, text).
    """

    record: Trial
    exception: BaseException | None
    in_setup: bool
    torn: BaseException | None
    headline: str
    longrepr: Any
    sections: tuple[tuple[str, str, str], ...]
    properties: tuple[tuple[str, object], ...]


TRIAL = pytest.StashKey["RunningTrial"]()


@dataclass
class RunningTrial:
    """A trial on its way; ``run`` takes it from its first fixture to its last.

    Attributes:
        shows_failure: whether a failure is rendered in full.
    """

    item: pytest.Function
    index: int
    shows_failure: bool = True
    ledger: Ledger = field(init=False)
    clone: pytest.Function = field(init=False)
    _raised: dict[Phase, Failure] = field(init=False, default_factory=dict)
    _longrepr: Any = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.fiber = InlineFiber(self._run_phases)
        self.ledger = Ledger(self.index, wait=self.fiber.block)
        self.clone = clone_item(self.item)
        self.clone.stash[TRIAL] = self
        self.clone.repr_failure = self._repr_failure  # type: ignore[method-assign]

    def run(self) -> Ended:
        """Run every phase.

        The session's stack of active nodes is swapped for one in which the clone stands
        where the item stands. Wider nodes share their entries, so that a module fixture
        which this trial is the first to ask for outlives it.
        """
        start = time.perf_counter()
        state = self.item.session._setupstate
        stack = state.stack
        state.stack = {node: entry for node, entry in stack.items() if node is not self.item}
        try:
            self.fiber.resume()
        finally:
            if self.clone in state.stack:  # Ctrl-C or pytest.exit: its fixtures still end here
                state.teardown_exact(self.item)
            state.stack = stack
        return self._ended(time.perf_counter() - start)

    def note(self, phase: Phase, failure: Failure | None) -> None:
        """Keep what left a phase; pytest's report would show an xfail as skipped."""
        if failure is not None:
            self._raised[phase] = failure

    def _run_phases(self) -> None:
        if self._passes("setup") and not self.item.config.getoption("setuponly", False):
            self._passes("call")
        # Not runtestprotocol(): that tears wider fixtures down once the session is to stop.
        call_and_report(self.clone, "teardown", log=False, nextitem=self.item)
        _resume_capture(self.item.config)

    def _passes(self, phase: Phase) -> bool:
        report = call_and_report(self.clone, phase, log=False)
        _resume_capture(self.item.config)
        if phase in self._raised:
            self._longrepr = report.longrepr
        return phase not in self._raised

    def _repr_failure(self, excinfo: Failure) -> Any:
        """Render what left the body: in full once a case, and a lost reply in one line.

        A full rendering reads and parses the source of every frame, 10 ms and more with
        an SDK in between, and five alike say no more than one.
        """
        if self.ledger.lost_a_reply or not self.shows_failure:
            return excinfo.exconly(tryshort=True)
        return type(self.clone).repr_failure(self.clone, excinfo)

    def _ended(self, seconds: float) -> Ended:
        failure = self._raised.get("setup") or self._raised.get("call")
        torn = self._raised.get("teardown")
        outcome = _outcome(self._raised, self.ledger)
        scores = self.ledger.scores if outcome.is_scored else {}
        if outcome.is_scored:
            scores = {PASS_METRIC: float(outcome is Outcome.PASSED), **scores}
        return Ended(
            record=Trial(
                case=self.item.nodeid,
                index=self.index,
                outcome=outcome,
                scores=scores,
                calls=self.ledger.calls,
                message=_place(failure, self.item.config.rootpath) if failure else "",
                seconds=round(seconds, 6),
            ),
            exception=failure.value if failure else None,
            in_setup="setup" in self._raised,
            torn=torn.value if torn else None,
            headline=failure.exconly(tryshort=True).partition("\n")[0] if failure else "",
            longrepr=self._longrepr,
            sections=tuple(self.clone._report_sections),
            properties=tuple(self.clone.user_properties),
        )


def _outcome(raised: dict[Phase, Failure], ledger: Ledger) -> Outcome:
    failure = raised.get("setup") or raised.get("call")
    if failure is None:
        return Outcome.PASSED
    if ledger.lost_a_reply:
        return Outcome.ERRORED
    if isinstance(failure.value, pytest.skip.Exception | unittest.SkipTest):
        return Outcome.SKIPPED
    is_miss = isinstance(failure.value, AssertionError | pytest.fail.Exception)
    return Outcome.MISSED if is_miss and "setup" not in raised else Outcome.CRASHED


def _place(failure: Failure, root: Path) -> str:
    """Type of the exception and the last line of the project's own that it left."""
    entries = [(Path(entry.path), entry.lineno + 1) for entry in failure.traceback]
    own = [(path, line) for path, line in entries if path.is_relative_to(root)]
    path, line = (own or entries)[-1]
    shown = path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name
    return f"{failure.type.__name__} {shown}:{line}"


def _resume_capture(config: pytest.Config) -> None:
    """Undo the suspension that ends a nested phase: the item's own phase goes on."""
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.resume_global_capture()
