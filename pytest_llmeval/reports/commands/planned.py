"""Words for `llmeval plan`, with its curves."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.reports import words
from pytest_llmeval.reports.lines import aligned

if TYPE_CHECKING:
    from pytest_llmeval.stats.suite_size import Plan, Point

BAR = 30
FEWEST_FOR_T = 6


def name_of(function: FunctionScores) -> str:
    """Name the function, and the metric unless it is the plain pass rate."""
    name = function.function.rpartition("::")[2]
    return name if function.is_pass else f"{name} ({function.metric})"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFunction:
    """A plan for one test function, and what its words need beside it.

    Attributes:
        made: the plan.
        name: of what was planned for.
        mean: of it now.
        calls: that a trial makes on average; 0 if that is not known.
        sign: -1 if a drop lowers the mean, 1 if it raises it.
        log: the drops are of logarithms, where lower is better: they are told as factors.
        alike: the change is taken to act alike on all cases; else as unlike as one did.
    """

    made: Plan
    name: str
    mean: float
    calls: float
    sign: int
    log: bool = False
    alike: bool = True

    def lines(self) -> list[str]:
        """Word the plan."""
        return [*self._now(), *self._needed(), *self._curves()]

    def _now(self) -> Iterator[str]:
        made, design = self.made, self.made.design
        worse, share = f"a drop of {made.drop:g}", "loses the same share of its score"
        after = self.mean + self.sign * made.drop
        if self.log:
            worse, share = f"a rise by a factor of {math.exp(made.drop):.3g}", "rises by one factor"
            after = self.mean * math.exp(made.drop)
        texts = [f"{each:.3g}" if self.log else f"{each:.3f}" for each in (self.mean, after)]
        yield (
            f"{self.name}: {words.counted(int(design.cases), 'case')} x "
            f"{words.counted(int(design.current), 'repeat')}, baseline "
            f"{words.counted(int(design.baseline), 'repeat')}, mean {texts[0]}"
        )
        if self.alike:
            yield f"  if every case is asked anew, and each {share}:"
        else:
            spread = f"standard deviation {math.sqrt(design.components.between):.3f}"
            spread += " of logarithms" if self.log else ""
            yield (
                "  if every case is asked anew, and falls as unlike others as --like did "
                f"({spread}):"
            )
        yield f"  {worse} ({texts[0]} -> {texts[1]}) is found in {_percent(made.power)} of builds"
        if made.smallest_drop is not None:
            what = "factor" if self.log else "drop"
            smallest = self._drop(made.smallest_drop)
            yield f"  the smallest {what} found in 80 % of builds is {smallest}"
        if self.alike:
            yield "  (holds if the change acts alike on all cases)"
        if design.cases < FEWEST_FOR_T:
            yield "  (with fewer than 6 cases the gate's test is an exact one, which finds less)"

    def _needed(self) -> Iterator[str]:
        made, design = self.made, self.made.design
        yield f"  to find it in {_percent(made.wanted)} of builds:"
        if made.power >= made.wanted:
            yield "    this is enough"
            return
        if made.cases is None:
            yield f"    more than a million cases of {words.counted(int(design.current), 'repeat')}"
        else:
            paid = self._paid(made.cases * design.current)
            yield (
                f"    {made.cases} cases of {words.counted(int(design.current), 'repeat')} "
                f"({made.cases - int(design.cases)} more): {paid}"
            )
        yield self._needed_repeats(made.repeats, where="here alone")
        yield self._needed_repeats(made.repeats_on_both_sides, where="in the baseline too")

    def _needed_repeats(self, repeats: int | None, *, where: str) -> str:
        cases = words.counted(int(self.made.design.cases), "case")
        if repeats is None:
            return f"    no number of repeats of {cases} does, {where}"
        paid = self._paid(repeats * self.made.design.cases)
        return f"    {words.counted(repeats, 'repeat')} of {cases}, {where}: {paid}"

    def _drop(self, drop: float) -> str:
        return words.factor(math.exp(drop)) if self.log else f"{drop:.3f}"

    def _curves(self) -> Iterator[str]:
        unit = "calls" if self.calls else "trials"
        made, design = self.made, self.made.design
        for heading, rows, now in (
            ("repeats", [(point.repeats, point) for point in made.by_repeats], design.current),
            ("cases", [(int(point.cases), point) for point in made.by_cases], design.cases),
        ):
            marked = [self._row(number, point, now=now) for number, point in rows]
            yield ""
            smallest = "smallest factor" if self.log else "smallest drop"
            shown = aligned([[heading, unit, "found", smallest, ""], *marked], left=0)
            yield from (f"  {line}" for line in shown)

    def _row(self, number: int, point: Point, *, now: float) -> list[str]:
        bar = "#" * round(BAR * point.power)
        return [
            str(number),
            str(round(point.calls * (self.calls or 1))),
            _percent(point.power),
            "" if point.smallest_drop is None else self._drop(point.smallest_drop),
            f"{bar} <- now" if number == now else bar,
        ]

    def _paid(self, trials: float) -> str:
        """Say what a run costs: in calls, or in trials where it is not known what they ask."""
        if self.calls:
            return words.counted(round(trials * self.calls), "call") + " a run"
        return words.counted(round(trials), "trial") + " a run"


def _percent(chance: float) -> str:
    """Write a chance, never as a certainty."""
    text = f"{chance:.0%}".replace("%", " %")
    return ">99 %" if text == "100 %" else text
