"""Cases of the page: the ones that were asked again, errored or fell short."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Outcome
from pytest_llmeval.reports import notation, sentences
from pytest_llmeval.reports.html import plots, side_by_side
from pytest_llmeval.reports.report import CaseEntry, ComparedFunction
from pytest_llmeval.reports.telling import AnyFunction, are_hits

Move = Literal["fell", "rose", "same", "new", "gone", "short", "errored"]
MOVES: dict[Move, str] = {
    "fell": "its mean is worse than in the baseline; some cases fall by chance alone",
    "rose": "its mean is better",
    "same": "it has new replies and the same mean",
    "new": "the baseline does not have it",
    "gone": "only the baseline has it",
    "short": "not all of its trials are right",
    "errored": "has trials that got no reply",
}
_MOST_CHOICES = 40  # values of parameters that can be chosen


class ShownCase(NamedTuple):
    """A case of the page.

    Attributes:
        case: its id.
        name: what it is called.
        move: how it moved.
        is_errored: a trial of this run got no reply.
        before: its scores in the baseline as text; "" without any.
        after: likewise of this run.
        lost: its difference, or without a baseline its mean, turned so that less is worse.
        plot: of its draws; None without scores.
    """

    case: str
    name: str
    move: Move
    is_errored: bool
    before: str = ""
    after: str = ""
    lost: float = 0.0
    plot: plots.CasePlot | None = None

    @property
    def values(self) -> tuple[str, ...]:
        """The values of its parameters, which pytest joins by hyphens."""
        brackets = re.search(r"\[(.*)\]$", self.case)
        return tuple(dict.fromkeys(brackets[1].split("-"))) if brackets else ()

    @property
    def order(self) -> tuple[bool, float, str]:
        """The sort key of cases: the worst first, cases that did not move last."""
        return self.move in ("same", "new", "gone"), self.lost, self.case


@dataclass(slots=True)
class ShownFunction:
    """The cases of a function.

    Attributes:
        entry: of the report.
        cases: the ones that moved, worst first, and then the ones that errored.
        unchanged: how many were not asked again.
        asked: what cases were asked and answered, worst first, as far as there is room.
        replies: the same as HTML, by case.
    """

    entry: AnyFunction
    cases: list[ShownCase]
    unchanged: int
    asked: list[side_by_side.ShownReplies] = field(default_factory=list)
    replies: dict[str, str] = field(default_factory=dict)


def shown_function(function: AnyFunction, errored: Collection[str]) -> ShownFunction:
    """Choose the cases of a function that the page has.

    Args:
        function: its entry in the report.
        errored: ids of its cases that have errored trials.
    """
    hit, ways = are_hits(function), dict[Move, Sequence[str]]()
    cases: Sequence[plots.AnyCase] = [case.of for case in function.moved]
    if isinstance(function, ComparedFunction):
        cases = function.compared
        ways = {"new": function.of.only_here, "gone": function.of.only_in_baseline}
    values = [value for case in cases for value in (*plots.scores_before(case), *case.scores)]
    axis = plots.case_axis(values, around=[0.0, 1.0] if hit else [])
    asked = [case for case in cases if not _is_unchanged(case) or case.case in errored]
    shown = [_shown(case, function, axis, errored, hit=hit) for case in asked]
    known = {case.case for case in cases}
    others: list[tuple[Move, str]] = [("errored", case) for case in errored if case not in known]
    others += [(move, case) for move, ids in ways.items() for case in ids if case not in errored]
    for move, case in others:
        name = notation.case_name(case, function.of)
        shown.append(ShownCase(case=case, name=name, move=move, is_errored=move == "errored"))
    shown.sort(key=lambda case: case.order)
    return ShownFunction(function, shown, sum(map(_is_unchanged, cases)))


def _is_unchanged(case: plots.AnyCase) -> bool:
    return isinstance(case, CaseEntry) and case.unchanged


def _shown(
    case: plots.AnyCase, one: AnyFunction, axis: plots.Axis, errored: Collection[str], *, hit: bool
) -> ShownCase:
    metric, better = one.of.metric, one.of.better
    before, after = "", notation.hits(case.scores, metric, are_hits=hit) if case.scores else ""
    move: Move = "short"
    lost = case.mean if better == "higher" else -case.mean
    if isinstance(case, CaseEntry):
        lost = case.difference
        move = "fell" if lost < 0 else "rose" if lost else "same"
        if case.baseline_scores and case.scores:
            before, after = sentences.scores_of_both(case, metric, are_hits=hit)
    return ShownCase(
        case=case.case,
        name=notation.case_name(case.case, one.of),
        move=move,
        is_errored=case.case in errored,
        before=before,
        after=after,
        lost=lost,
        plot=plots.case_plot(case, axis, better=better) if case.scores else None,
    )


def moves_of(shown: Sequence[ShownFunction]) -> dict[str, int]:
    """Count the cases of all functions by how they moved."""
    counts = Counter(case.move for one in shown for case in one.cases)
    return {move: counts[move] for move in MOVES if counts[move]}


def shared_values(shown: Sequence[ShownFunction]) -> list[str]:
    """Return the values of parameters that several cases have, the most frequent ones."""
    counts = Counter(value for one in shown for case in one.cases for value in case.values)
    several = [value for value, count in counts.most_common(_MOST_CHOICES) if count > 1]
    return sorted(several)


def errored_cases(judgement: Judgement) -> Mapping[str, set[str]]:
    """Return the cases of which a trial got no reply in this run, by function."""
    found = defaultdict[str, set[str]](set)
    if judgement.run is not None:
        functions = {case.id: case.function for case in judgement.run.cases}
        for trial in judgement.run.trials:
            if trial.outcome is Outcome.ERRORED:
                found[functions[trial.case]].add(trial.case)
    return found
