"""Words for `llmeval selfcheck`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.gate.scoring import FunctionScores
from pytest_llmeval.reports import words
from pytest_llmeval.reports.commands.planned import name_of
from pytest_llmeval.reports.lines import aligned

if TYPE_CHECKING:
    from pytest_llmeval.stats.selfcheck import SelfCheck

MOVED = {Verdict.REGRESSED: "worse", Verdict.IMPROVED: "better"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """A test function and what holding it against itself gave.

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


def selfcheck_lines(checks: Sequence[Checked], *, alpha: float) -> Iterator[str]:
    """Word the checks.

    Args:
        checks: one for each function and metric.
        alpha: the level that the test promises.
    """
    heading = ["test function", "cases", "repeats", "deals", "alarms", "95% error bar"]
    heading += ["drift p", "first half -> second half"]
    yield from aligned([heading, *map(_row, checks)])
    yield (
        f"alarms: how often one of two runs, dealt at random from these trials, was called worse "
        f"than the other; a level of {alpha:g} promises at most {alpha:.1%}"
    )
    for checked in checks:
        yield from _remarks(checked, alpha=alpha)


def _row(checked: Checked) -> list[str]:
    check, function = checked.check, checked.function
    cells = [name_of(function), str(len(function.side.cases)), str(function.repeats)]
    if check is None:
        return [*cells, "", "", "", "", "no case has two scored trials"]
    low, high = check.interval
    return [
        *cells,
        str(check.deals),
        f"{check.rate:.1%}",
        f"[{low:.1%}, {high:.1%}]",
        "" if check.drift_p is None else words.p_value(check.drift_p),
        _halves(checked.halves),
    ]


def _halves(halves: FunctionComparison | None) -> str:
    if halves is None or halves.effect.baseline_mean is None or halves.effect.mean is None:
        return ""
    before, after = (
        words.figure(mean, halves.metric)
        for mean in (halves.effect.baseline_mean, halves.effect.mean)
    )
    text = f"{before} -> {after}"
    p, p_improved = halves.evidence.p, halves.evidence.p_improved
    if p is None or p_improved is None:
        return text
    return f"{text} (p {words.p_value(min(1.0, 2 * min(p, p_improved)))})"


def _remarks(checked: Checked, *, alpha: float) -> Iterator[str]:
    name, check = name_of(checked.function), checked.check
    if check is None:
        return
    if checked.cries_wolf(alpha):
        yield f"{name}: the gate cries wolf more often than its level says: trust no single alarm"
    if checked.drifts:
        yield (
            f"{name}: its repeats drift: they differ by more than chance explains. Did the "
            "provider change while the run was recorded? Record it anew"
        )
    if checked.halves is not None and checked.halves.verdict in MOVED:
        yield f"{name}: the gate calls its second half {MOVED[checked.halves.verdict]}"
    if check.left_out:
        yield f"{name}: {words.counted(check.left_out, 'case')} with a single scored trial left out"
    if checked.function.independent < len(checked.function.samples):
        yield (
            f"{name}: {len(checked.function.samples)} cases, {checked.function.independent} "
            "independent"
        )
    if checked.halves is not None and checked.halves.effect.method == "crossed":
        yield f"{name}: the gate takes its wordings as a sample, this check as they are"
