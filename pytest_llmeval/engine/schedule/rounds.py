"""The rounds in which a test function runs its trials, so that it can stop before the last one.

A round takes as many trials of each case. After it the function is looked at: it stops, or the next
round begins. A look sees the recorded trials of whole rounds, so it does not depend on which of
them ended first. Where a round cannot be completed, all trials are run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_llmeval.engine.case_trials import CaseTrials
from pytest_llmeval.errors import listed_names
from pytest_llmeval.records import Run, bare, only_functions
from pytest_llmeval.stats.early_looks import planned_looks
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

if TYPE_CHECKING:
    from pytest_llmeval.judging import EarlyJudge

_MOST_NAMED = 3  # functions in a note
_STUCK = "a case could not run beside the others"
_PASSED_OVER = "a plugin passed a case over"
SAW_OTHERS = "a trial blocked without what it patched"
_ENDS_EARLY = "-x may end the session at its first failure"


class Rounds:
    """The rounds of one test function.

    Args:
        cases: of the function, in the order of the session, with as many repeats each.
        opening: the run that begins.
        judge: decides at the looks.
        notes: takes sentences for the section.

    Attributes:
        function: its node id.
        last: the item of its last case.
    """

    def __init__(
        self, cases: Sequence[CaseTrials], opening: Run, *, judge: EarlyJudge, notes: list[str]
    ) -> None:
        self.function, self.last = cases[0].spec.case.function, cases[-1].item
        self._cases, self._looks = list(cases), planned_looks(cases[0].repeats)
        self._opening, self._judge, self._notes = opening, judge, notes
        self._taken = 0  # looks
        self._begin(self._looks[0], is_last=False)

    def _begin(self, due: int, *, is_last: bool) -> None:
        """Let trials of lower indices than ``due`` run."""
        self._is_open = not is_last
        self._begun = self._ended = 0  # cases of which all trials that may have begun, and ended
        for case in self._cases:
            case.due, case.awaits_look = due, self._is_open
            case.looks = (due if is_last else case.repeats) if self._taken else None

    def next_case(self) -> CaseTrials | None:
        """Return the first case of which a trial may begin; None if all that may have begun."""
        while self._begun < len(self._cases):
            if self._cases[self._begun].may_begin:
                return self._cases[self._begun]
            self._begun += 1
        return None

    def is_due(self) -> bool:
        """Whether a round has ended after which the function is to be looked at."""
        while self._ended < len(self._cases) and self._cases[self._ended].due_have_ended:
            self._ended += 1
        return self._is_open and self._ended == len(self._cases)

    def look(self) -> None:
        """Look at the function after a round: it stops, or the next round begins."""
        if any(one.saw_others for case in self._cases for one in case.ended):
            self.give_up(SAW_OTHERS)  # such trials are run again, or count for nothing
            return
        records = (one.record for case in self._cases for one in case.recorded)
        run = replace(only_functions(self._opening, {self.function}), trials=tuple(records))
        try:
            is_settled = self._judge.is_settled(run, repeats=self._looks[: self._taken + 1])
        except Exception as exc:  # the trials so far are worth having, and the others too
            self.give_up(f"{type(exc).__name__}: {exc}")
            return
        self._taken += 1
        if is_settled:
            self._begin(self._looks[self._taken - 1], is_last=True)
        else:
            self._begin(self._looks[self._taken], is_last=self._taken + 1 == len(self._looks))

    def leave(self, case: CaseTrials) -> None:
        """Go on without a case that a plugin has passed over."""
        self.give_up(_PASSED_OVER)
        self._cases.remove(case)

    def give_up(self, reason: str = _STUCK) -> None:
        """Let all trials run that are left, and take no more looks."""
        if not self._is_open:
            return
        self._notes.append(no_looks([self.function], reason, after=self._taken))
        self._begin(self._looks[-1], is_last=True)


def rounds_of(
    cases: Iterable[CaseTrials],
    session: pytest.Session,
    opening: Run,
    *,
    judge: EarlyJudge | None,
    notes: list[str],
) -> Iterator[Rounds]:
    """Make the rounds of each function that can be looked at early; note why others cannot.

    Args:
        cases: of the session, in its order.
        session: after collection.
        opening: the run that begins.
        judge: decides at the looks; None where there are none.
        notes: takes sentences for the section.
    """
    if judge is None:
        return
    functions: dict[str, list[CaseTrials]] = {}
    for case in cases:
        if case.spec.case.function in judge.functions:
            functions.setdefault(case.spec.case.function, []).append(case)
    positions = {item: position for position, item in enumerate(session.items)}
    hindered: dict[str, list[str]] = {}
    for function, of_it in functions.items():
        if len(of_it) < FEWEST_UNITS_FOR_T or len(planned_looks(of_it[0].repeats)) == 1:
            continue  # there is one look, at the end
        reason = _ENDS_EARLY if session.config.getoption("maxfail", 0) else _hindrance(of_it)
        apart = positions[of_it[-1].item] - positions[of_it[0].item] + 1 - len(of_it)
        reason = reason or ("other tests stand between its cases" if apart else "")
        if reason:
            hindered.setdefault(reason, []).append(function)
        else:
            yield Rounds(of_it, opening, judge=judge, notes=notes)
    notes += [no_looks(some, reason) for reason, some in hindered.items()]


def _hindrance(cases: Sequence[CaseTrials]) -> str:
    """Say why a function cannot run in rounds; "" if it can."""
    if any(case.serial for case in cases):
        return "its trials run one after the other"
    # a worker is dealt cases by what stands before the last ::, also one in a parameter's id
    scopes = {case.item.nodeid.rpartition("::")[0] for case in cases}
    is_split = len(scopes) > 1 and hasattr(cases[0].item.config, "workerinput")
    if is_split or len({case.signature for case in cases}) > 1:
        return "its cases do not all overlap"
    return "its cases have unlike repeats" if len({case.repeats for case in cases}) > 1 else ""


def no_looks(functions: Sequence[str], reason: str, *, after: int = 0) -> str:
    """Say that functions run all their repeats, ``after`` so many looks, and why."""
    named = listed_names([*map(bare, functions)], _MOST_NAMED)
    return f"no {'further ' * bool(after)}early looks at {named}: {reason}"
