"""Words on the tries of a loop at a prompt, which are compared with one baseline."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_llmeval.gate.distinct_tries import distinct_tries
from pytest_llmeval.gate.gone import BY_LAST_RUN
from pytest_llmeval.gate.results import FunctionComparison
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Run
from pytest_llmeval.reports import common_causes, next_run, telling
from pytest_llmeval.reports.notation import BOLD, Line, label, percent
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.headline import place
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules
from pytest_llmeval.transcripts.common_change import RequestChange

_LARGE = 0.4  # a share that is not written as 1 in N
_ORDER = ((0,), (1,), (5,), (2,), (4,), (6,), (3,), (7,))  # in which columns get room
_CHANGED = 2
_OF_EFFECT = ("cases", "baseline_mean", "mean", "difference")


def tries_line(judgement: Judgement) -> str:
    """Say how often luck alone would show an improvement after so many tries, and what to type.

    "" for a first try, in CI, and where nothing was paid for.
    """
    found = judgement.baseline
    if judgement.tries < 2 or found is None or judgement.comparison is None:  # noqa: PLR2004
        return ""
    typed = [each for each in judgement.typed or () if each not in BY_LAST_RUN]
    all_cases = replace(judgement, typed=judgement.typed and typed)
    way = next_run.both_again(all_cases, "--llm-cache=refresh")
    begin = f"{_ordinal(judgement.tries)} try against {place(found)}"
    luck = _luck(judgement.tries, alpha=judgement.settings.gate.alpha)
    return f"{begin}: {luck}; judge the best try once, by fresh trials:  {way}"


@dataclass(frozen=True, slots=True)
class Try:
    """What a try brought for one test function.

    Attributes:
        run: the try.
        function: the function in it, compared with the baseline.
        changes: of its requests since the try before, or since the baseline.
        cost: of the run.
    """

    run: Run
    function: FunctionComparison
    changes: tuple[RequestChange, ...]
    cost: str


def tried_entry(one: Try) -> dict[str, Any]:
    """Write a try as an entry of ``--json``; docs/report-format.md tells its keys."""
    effect, evidence = one.function.effect, one.function.evidence
    return {
        "run": one.run.id,
        "created": one.run.created,
        "function": one.function.function,
        "metric": one.function.metric,
        "changed": _first_words(one.changes),
        **{name: getattr(effect, name) for name in _OF_EFFECT},
        "interval": evidence.interval,
        "interval_level": evidence.interval_level,
        "cost": one.cost,
    }


def tried_lines(
    tries: Sequence[Try], baseline: Baseline, rules: GateRules, page: Page
) -> Iterator[Line]:
    """Put tries in a table, oldest first.

    Args:
        tries: at least one.
        baseline: the run that all were compared with.
        rules: with the level of the intervals.
        page: to which the lines are fitted.
    """
    are_several = len({label(one.function) for one in tries}) > 1
    heading = ("tried", "test function", "what changed", "cases", "mean", "difference")
    rows = [(*heading, f"{percent(1 - 2 * rules.alpha)} interval", "cost")]
    for one in tries:
        shown = telling.figures(one.function, target=rules.target)
        name = label(one.function) if are_several else ""
        changed = page.cut(_first_words(one.changes), max(20, page.width // 3))
        cases, when = str(one.function.effect.cases), one.run.created[:16].replace("T", " ")
        told = (shown.after, shown.difference, shown.interval, one.cost)
        rows.append((when, name, changed, cases, *told))
    (titles, *texts), _ = page.table(rows, _ORDER, left=3, cut=(_CHANGED,))
    yield from (Line(titles, BOLD), *map(Line, texts))
    count = len(distinct_tries({one.run.id: one.run for one in tries}.values()))
    if count > 1:
        against = f"{count} tries against {place(baseline)}, by the trials of that run alone"
        yield Line(f"{against}: {_luck(count, alpha=rules.alpha)}")


def _first_words(changes: Sequence[RequestChange]) -> str:
    """Write the words that changed first, without those around them."""
    if not changes:
        return ""
    part = changes[0].parts[0]
    first = next(at for at, piece in enumerate(part.pieces) if piece.op != " ")
    pieces = (piece for piece in part.pieces[first : first + 2] if piece.op != " ")
    return common_causes.changed_words(replace(part, pieces=tuple(pieces)))


def _luck(tries: int, *, alpha: float) -> str:
    """Say how often luck alone shows an improvement.

    Tries share the trials of their baseline, so the true share is a little smaller.
    """
    share = 1 - (1 - alpha) ** tries
    part = f"1 in {round(1 / share)}" if share < _LARGE else f"{min(9, round(10 * share))} in 10"
    return f"after {tries} tries up to {part} teams see an improvement by luck alone"


def _ordinal(number: int) -> str:
    endings = {} if number // 10 % 10 == 1 else {1: "st", 2: "nd", 3: "rd"}
    return f"{number}{endings.get(number % 10, 'th')}"
