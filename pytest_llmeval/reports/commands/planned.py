"""Words for `llmeval plan`, with its curves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.reports import words
from pytest_llmeval.reports.table import aligned

if TYPE_CHECKING:
    from pytest_llmeval.stats.planning.suite_size import Plan, Point

BAR = 30
FEWEST_FOR_T = 6


def name_of(function: FunctionScores) -> str:
    """Name the function, and the metric unless it is the plain pass rate."""
    name = function.function.rpartition("::")[2]
    return name if function.is_pass else f"{name} ({function.metric})"


def plan_lines(
    made: Plan,
    *,
    name: str,
    mean: float,
    calls: float,
    sign: int,
    log: bool = False,
    alike: bool = True,
) -> list[str]:
    """Word a plan.

    Args:
        made: the plan.
        name: of what was planned for.
        mean: of it now.
        calls: that a trial makes on average; 0 if that is not known.
        sign: -1 if a drop lowers the mean, 1 if it raises it.
        log: the drops are of logarithms, where lower is better: they are told as factors.
        alike: the change is taken to act alike on all cases; else as unlike as one did.
    """
    return [
        *_now(made, name=name, mean=mean, sign=sign, log=log, alike=alike),
        *_needed(made, calls),
        *_curves(made, calls, log=log),
    ]


def _now(made: Plan, *, name: str, mean: float, sign: int, log: bool, alike: bool) -> Iterator[str]:
    design = made.design
    worse, share = f"a drop of {made.drop:g}", "loses the same share of its score"
    after = mean + sign * made.drop
    if log:
        worse, share = f"a rise by a factor of {math.exp(made.drop):.3g}", "rises by one factor"
        after = mean * math.exp(made.drop)
    texts = [f"{each:.3g}" if log else f"{each:.3f}" for each in (mean, after)]
    yield (
        f"{name}: {words.counted(int(design.cases), 'case')} x "
        f"{words.counted(int(design.current), 'repeat')}, baseline "
        f"{words.counted(int(design.baseline), 'repeat')}, mean {texts[0]}"
    )
    if alike:
        yield f"  if every case is asked anew, and each {share}:"
    else:
        spread = f"standard deviation {math.sqrt(design.components.between):.3f}"
        spread += " of logarithms" if log else ""
        yield f"  if every case is asked anew, and falls as unlike others as --like did ({spread}):"
    yield f"  {worse} ({texts[0]} -> {texts[1]}) is found in {_percent(made.power)} of builds"
    if made.smallest_drop is not None:
        what = "factor" if log else "drop"
        smallest = _drop(made.smallest_drop, log=log)
        yield f"  the smallest {what} found in 80 % of builds is {smallest}"
    if alike:
        yield "  (holds if the change acts alike on all cases)"
    if design.cases < FEWEST_FOR_T:
        yield "  (with fewer than 6 cases the gate's test is an exact one, which finds less)"


def _needed(made: Plan, calls: float) -> Iterator[str]:
    design = made.design
    yield f"  to find it in {_percent(made.wanted)} of builds:"
    if made.power >= made.wanted:
        yield "    this is enough"
        return
    if made.cases is None:
        yield f"    more than a million cases of {words.counted(int(design.current), 'repeat')}"
    else:
        paid = _paid(made.cases * design.current, calls)
        yield (
            f"    {made.cases} cases of {words.counted(int(design.current), 'repeat')} "
            f"({made.cases - int(design.cases)} more): {paid}"
        )
    yield _needed_repeats(made.repeats, made, calls=calls, where="here alone")
    yield _needed_repeats(
        made.repeats_on_both_sides, made, calls=calls, where="in the baseline too"
    )


def _needed_repeats(repeats: int | None, made: Plan, *, calls: float, where: str) -> str:
    cases = words.counted(int(made.design.cases), "case")
    if repeats is None:
        return f"    no number of repeats of {cases} does, {where}"
    paid = _paid(repeats * made.design.cases, calls)
    return f"    {words.counted(repeats, 'repeat')} of {cases}, {where}: {paid}"


def _drop(drop: float, *, log: bool) -> str:
    return words.factor(math.exp(drop)) if log else f"{drop:.3f}"


def _curves(made: Plan, calls: float, *, log: bool) -> Iterator[str]:
    unit = "calls" if calls else "trials"
    design = made.design
    for heading, rows, now in (
        ("repeats", [(point.repeats, point) for point in made.by_repeats], design.current),
        ("cases", [(int(point.cases), point) for point in made.by_cases], design.cases),
    ):
        marked = [_row(number, point, calls=calls, now=now, log=log) for number, point in rows]
        yield ""
        smallest = "smallest factor" if log else "smallest drop"
        yield from _indented([[heading, unit, "found", smallest, ""], *marked])


def _indented(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield from (f"  {text}" for text in aligned(rows, left=0))


def _row(number: int, point: Point, *, calls: float, now: float, log: bool) -> list[str]:
    bar = "#" * round(BAR * point.power)
    return [
        str(number),
        str(round(point.calls * (calls or 1))),
        _percent(point.power),
        "" if point.smallest_drop is None else _drop(point.smallest_drop, log=log),
        f"{bar} <- now" if number == now else bar,
    ]


def _paid(trials: float, calls: float) -> str:
    """Say what a run costs: in calls, or in trials where it is not known what they ask."""
    if calls:
        return words.counted(round(trials * calls), "call") + " a run"
    return words.counted(round(trials), "trial") + " a run"


def _percent(chance: float) -> str:
    """Write a chance, never as a certainty."""
    text = f"{chance:.0%}".replace("%", " %")
    return ">99 %" if text == "100 %" else text
