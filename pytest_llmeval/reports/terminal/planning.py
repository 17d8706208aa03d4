"""Lines of the commands that plan with recorded runs: `llmeval plan`, `until` and `selfcheck`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pytest_llmeval.errors import counted
from pytest_llmeval.gate.results import FunctionComparison, Verdict, ratio_of
from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.records import Run
from pytest_llmeval.reports import notation
from pytest_llmeval.reports.terminal.tables import odd_trials
from pytest_llmeval.stats.expected import ExpectedMean, repeats_for_width
from pytest_llmeval.stats.selfcheck import SelfCheck
from pytest_llmeval.stats.suite_size import Plan, Point

BAR = 30
FEWEST_FOR_T = 6
LOOK = "{:>7}  {:>10}  {:>7}  {:>18}  {:>6}  {:>18}  {}"
MANY_REPEATS = 10_000
MOVED = {Verdict.REGRESSED: "worse", Verdict.IMPROVED: "better"}

Found = Sequence[tuple[FunctionScores, "ExpectedMean | None"]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFunction:
    """A plan for one test function, and the facts for its words.

    Attributes:
        plan: how much is found, and what would be needed.
        name: of the function or suite.
        mean: of its scores now.
        calls: that a trial makes on average; 0 if that is not known.
        sign: -1 if a drop lowers the mean, 1 if it raises it.
        log: the drops are of logarithms, where lower is better, and are written as factors.
        alike: the change is taken to act alike on all cases; else as a recorded change did.
        tied: how many cases were recorded, and how many of these share no chance.
        notes: on the scale of the scores, and on trials that have none.
        early: repeats of each case that early looks leave on average, after the drop and where
            nothing changed; None without such looks.
    """

    plan: Plan
    name: str
    mean: float
    calls: float
    sign: int
    log: bool = False
    alike: bool = True
    tied: tuple[int, int] = (0, 0)
    notes: tuple[str, ...] = ()
    early: tuple[float, float] | None = None

    def lines(self) -> list[str]:
        """Word the plan."""
        cases, independent = self.tied
        units = f"{independent} independent ones, which find less than this"
        tied = [f"  (its {cases} cases are {units})"] if independent < cases else []
        return [*self._now(), *self._needed(), *self._curves(), *tied]

    def _now(self) -> Iterator[str]:
        plan, design = self.plan, self.plan.design
        worse, share = f"a drop of {plan.drop:g}", "loses the same share of its score"
        means = [notation.decimals(mean) for mean in (self.mean, self.mean + self.sign * plan.drop)]
        if self.log:
            ratio, share = ratio_of(plan.drop), "rises by one factor"
            worse = f"a rise by a factor of {notation.digits(ratio)}"
            means = [notation.digits(mean) for mean in (self.mean, self.mean * ratio)]
        here = f"{counted(int(design.cases), 'case')} x {_repeats(design.current)}"
        yield f"{self.name}: {here}, baseline {_repeats(design.baseline)}, mean {means[0]}"
        if self.alike:
            yield f"  if every case changes, and each {share}:"
        else:
            spread = f"standard deviation {notation.decimals(math.sqrt(design.components.between))}"
            spread += " of logarithms" if self.log else ""
            yield (f"  if every case changes, and they differ as those of --like do ({spread}):")
        yield f"  {worse} ({' -> '.join(means)}) is found in {_percent(plan.power)} of builds"
        if self.early:
            after = f"{self.early[0]:.1f} of {_repeats(design.current)} on average"
            without = f"and after {self.early[1]:.1f} if nothing changed"
            yield f"  llm_sequential stops after {after}, {without}"
        if plan.smallest_drop is not None:
            smallest = self._drop(plan.smallest_drop)
            yield f"  the smallest {self._unit} found in 80 % of builds is {smallest}"
        if self.alike:
            yield "  (a change that hurts some cases and spares others is found less often)"
        if not design.standard_error:
            yield "  (no two repeats of a case differ: how far they scatter is unknown)"
        yield from (f"  ({note})" for note in self.notes)
        if design.cases < FEWEST_FOR_T:
            yield "  (with fewer than 6 cases the gate's test is an exact one, which finds less)"

    def _needed(self) -> Iterator[str]:
        plan, design = self.plan, self.plan.design
        repeats, cases = _repeats(design.current), counted(int(design.cases), "case")
        yield f"  to find it in {_percent(plan.wanted)} of builds:"
        if plan.power >= plan.wanted:
            yield "    this is enough"
            return
        if plan.cases is None:
            yield f"    more than a million cases of {repeats}"
        else:
            more, paid = plan.cases - int(design.cases), self._paid(plan.cases * design.current)
            yield f"    {plan.cases} cases of {repeats} ({more} more): {paid}"
        both = plan.repeats_on_both_sides
        for needed, where in ((plan.repeats, "on the branch alone"), (both, "on both sides")):
            if needed is None:
                yield f"    no number of repeats of {cases} is enough {where}"
            else:
                paid = self._paid(needed * design.cases)
                yield f"    {_repeats(needed)} of {cases} {where}: {paid}"

    def _curves(self) -> Iterator[str]:
        plan, design = self.plan, self.plan.design
        unit = "calls" if self.calls else "trials"
        curves = {"repeats": (plan.by_repeats, design.current)}
        curves["cases"] = plan.by_cases, design.cases
        for heading, (points, now) in curves.items():
            rows = [[heading, unit, "found", f"smallest {self._unit}", ""]]
            rows += [self._row(point, int(getattr(point, heading)), now=now) for point in points]
            yield ""
            yield from (f"  {line}" for line in notation.aligned(rows, left=()))

    def _row(self, point: Point, number: int, *, now: float) -> list[str]:
        bar = "#" * round(BAR * point.power) + " <- now" * (number == now)
        calls = str(round(point.calls * (self.calls or 1)))
        drop = "" if point.smallest_drop is None else self._drop(point.smallest_drop)
        return [str(number), calls, _percent(point.power), drop, bar]

    @property
    def _unit(self) -> str:
        return "factor" if self.log else "drop"

    def _drop(self, drop: float) -> str:
        if not self.log and 0 <= self.mean <= 1 < drop:
            return "none"  # no score between 0 and 1 can fall so far
        return notation.factor(ratio_of(drop)) if self.log else notation.decimals(drop)

    def _paid(self, trials: float) -> str:
        """Say the cost of a run: in calls, or in trials if the calls of a trial are not known."""
        unit = "call" if self.calls else "trial"
        return f"{counted(round(trials * (self.calls or 1)), unit)} a run"


def _repeats(number: float) -> str:
    return counted(int(number), "repeat")


def _percent(chance: float) -> str:
    """Write a chance, never as a certainty."""
    text = f"{chance:.0%}".replace("%", " %")
    return ">99 %" if text == "100 %" else text


def look_heading(confidence: float) -> str:
    """Name the columns of the looks of `llmeval until`."""
    columns = "repeats", "calls paid", "mean", f"{notation.percent(confidence)} next run", "width"
    return LOOK.format(*columns, "by repeats alone", "test function")


def look_lines(repeats: int, run: Run, found: Found) -> Iterator[str]:
    """Word one look, a line for each function.

    Args:
        repeats: that were asked for.
        run: what was recorded.
        found: each function and what is expected of it; None without a score.
    """
    paid = sum(call.was_paid for trial in run.trials for call in trial.calls)
    for row, (function, expected) in enumerate(found):
        first = ("", "") if row else (str(repeats), str(paid))
        name = notation.label(function)
        if expected is None:
            yield LOOK.format(*first, "", "", "", "", f"{name}: no trial has a score")
            continue
        note = ": its repeats drift, so by them alone" if expected.drifts else ""
        intervals = (expected.interval, expected.by_repeats)
        known, by_repeats = (notation.ends(each) if each else "unknown" for each in intervals)
        width = "" if expected.width is None else notation.decimals(expected.width)
        mean = notation.decimals(expected.mean)
        yield LOOK.format(*first, mean, known, width, by_repeats, name + note)


def ending(repeats: int, found: Found, *, width: float, most: int) -> Iterator[str]:
    """Say whether the last look is enough, and what would be enough."""
    for function, expected in found:
        name = notation.label(function)
        if expected is None:
            yield f"{name}: no trial has a score, so no number of repeats is enough"
        elif expected.width is None:
            yield f"{name}: no two repeats of a case differ, so how far they scatter is unknown"
        elif expected.width > width:
            needed = repeats_for_width(expected, width=width, limit=MANY_REPEATS)
            hint = f" About {needed} would be enough: --max-repeats={needed}" if needed else ""
            wide = f"{notation.decimals(expected.width)} wide, not {width:g}"
            yield f"{name}: {wide}, at --max-repeats={most}.{hint}"
        else:
            enough = f"narrow enough with {_repeats(repeats)}"
            yield f"{name}: {enough}: {notation.decimals(expected.width)} of {width:g} allowed"
    yield "looking again does not spoil a range from 3 repeats on (docs/statistics.md)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A test function and the result of comparing it with itself.

    Attributes:
        check: runs dealt from its repeats at random; None if no case has two.
        halves: its last repeats against its first; None likewise.
    """

    function: FunctionScores
    check: SelfCheck | None
    halves: FunctionComparison | None

    @property
    def drifts(self) -> bool:
        """Whether the repeats differ by more than chance."""
        return self.check is not None and self.check.drifts

    def cries_wolf(self, alpha: float) -> bool:
        """Tell whether alarms are more frequent than the level says, beyond the error bar."""
        return self.check is not None and self.check.interval[0] > alpha

    def row(self) -> list[str]:
        """Write the cells of its row in the table."""
        check, function = self.check, self.function
        cells = [notation.label(function), str(len(function.side.cases)), str(function.repeats)]
        if check is None:
            return [*cells, "", "", "", "", "no case has two scored trials"]
        alarms = f"{check.rate:.1%}", notation.ends(check.interval, "{:.1%}".format)
        drift_p = "" if check.drift_p is None else notation.p_value(check.drift_p)
        return [*cells, str(check.deals), *alarms, drift_p, _halves(self.halves)]

    def remarks(self, alpha: float) -> Iterator[str]:
        """Say what is odd about a check, and how it differs from the gate's test."""
        check, halves, function = self.check, self.halves, self.function
        if check is None:
            return
        if self.cries_wolf(alpha):
            yield "the gate raises more false alarms than its level: do not trust a single one"
        if self.drifts:
            drift = "its repeats drift: they differ by more than chance explains"
            yield f"{drift}. Did the provider change while the run was recorded? Record it again"
        if halves is not None and halves.verdict in MOVED:
            yield f"the gate calls its second half {MOVED[halves.verdict]}"
        if odd := odd_trials(function.counts()):
            yield f"of its trials {odd}"
        if check.left_out:
            yield f"{counted(check.left_out, 'case')} with a single scored trial left out"
        if function.independent < len(function.samples):
            yield f"{len(function.samples)} cases, {function.independent} independent"
        if halves is not None and halves.effect.method == "crossed":
            yield "the gate takes its wordings as a sample, this check as they are"


def selfcheck_lines(checks: Sequence[Checked], *, alpha: float) -> Iterator[str]:
    """Word the checks.

    Args:
        checks: one for each function and metric.
        alpha: the level that the test promises.
    """
    noun = notation.kind_of(checked.function.function for checked in checks)
    heading = [noun, "cases", "repeats", "deals", "alarms", "95% error bar"]
    heading += ["drift p", "first half -> second half"]
    yield from notation.aligned([heading, *(checked.row() for checked in checks)])
    yield (
        f"alarms: how often one of two runs, dealt at random from these trials, was called worse "
        f"than the other; a level of {alpha:g} promises at most {alpha:.1%}"
    )
    for checked in checks:
        name = notation.label(checked.function)
        yield from (f"{name}: {remark}" for remark in checked.remarks(alpha))


def _halves(halves: FunctionComparison | None) -> str:
    if halves is None or halves.effect.baseline_mean is None or halves.effect.mean is None:
        return ""
    means = (halves.effect.baseline_mean, halves.effect.mean)
    text = " -> ".join(notation.figure(mean, halves.metric) for mean in means)
    p, p_improved = halves.evidence.p, halves.evidence.p_improved
    if p is None or p_improved is None:
        return text
    return f"{text} (p {notation.p_value(min(1.0, 2 * min(p, p_improved)))})"
