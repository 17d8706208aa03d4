"""Accepted drops: a line of ``llm_accept`` lets a function fall as far as the line says, once.

A line acts where the baseline's own run did not have it. So it acts whatever commits main gets,
until one brings the line itself to main.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from pytest_llmeval.gate.decision_table import ROUNDING
from pytest_llmeval.gate.results import Comparison, Fact, FunctionComparison, Verdict, Why
from pytest_llmeval.records import Run
from pytest_llmeval.settings import ACCEPTED, accepted

# the run of a baseline, and the comparison with it
Judged = tuple[Run, Comparison]
_DIGITS = range(2, 8)  # of a bound that is printed; more of them where main has that line
_BEYOND = 0.01  # a bound past the mean, where that is 0 and main has the line


class _Line(NamedTuple):
    name: str
    sign: str
    bound: float

    def names(self, function: str, metric: str) -> bool:
        """Tell whether the entry names a metric of a function, by the end of the node id."""
        whole = f"{function}:{metric}"
        return whole == self.name or whole.endswith((f"::{self.name}", f"/{self.name}"))

    def allows(self, one: FunctionComparison) -> bool:
        """Tell whether the mean here is as good as the line asks for."""
        mean, is_turned = one.effect.mean, self.sign != _sign(one)
        if mean is None or is_turned:
            return False
        beyond = self.bound - mean if self.sign == ">=" else mean - self.bound
        return beyond <= ROUNDING


def accept(
    functions: Sequence[FunctionComparison], entries: Sequence[str], *, baseline: Run
) -> tuple[FunctionComparison, ...]:
    """Let the regressions pass that the branch accepts, and nothing else.

    Args:
        functions: with their verdicts; p-values were adjusted with those that pass.
        entries: ``function:metric >= bound``, or ``<=`` where lower is better.
        baseline: the lines that its session had are void.
    """
    passing = set()
    for line in _lines(entries):
        found = [one for one in functions if line.names(one.function, one.metric)]
        if len(found) != 1 or _had(baseline, line, found[0]):
            continue
        if found[0].verdict is Verdict.REGRESSED and line.allows(found[0]):
            passing.add((found[0].function, found[0].metric))
    return tuple(
        replace(one, accepted=True, fails=False) if (one.function, one.metric) in passing else one
        for one in functions
    )


def may_accept(function: str, entries: Sequence[str], *, baseline: Run) -> bool:
    """Tell whether an entry lets a drop of some metric of a function pass, if it is small enough.

    Args:
        function: its node id without brackets.
        entries: as of ``accept``.
        baseline: likewise.
    """
    acting = (line for line in _lines(entries) if line not in _recorded(baseline))
    return any(line.names(function, line.name.rpartition(":")[2]) for line in acting)


def notes_on_accepted(entries: Sequence[str], judged: Sequence[Judged]) -> Iterator[Fact]:
    """Tell which entries let nothing pass, and why; entries that main has already are left out.

    Args:
        entries: likewise.
        judged: the comparison with the baseline, and that with the anchor.
    """
    for line in _lines(entries):
        compared = [comparison for run, comparison in judged if line not in _recorded(run)]
        metric, entry = line.name.rpartition(":")[2], ACCEPTED.format(*line)
        functions = [one for each in compared for one in each.functions if one.metric == metric]
        left_out = [str(one.figures[0]) for each in compared for one in each.not_judged]
        found = [one for one in functions if line.names(one.function, metric)]
        named = {one.function for one in found}
        named = named or {name for name in left_out if line.names(name, metric)}
        fell = next((one for one in found if one.verdict is Verdict.REGRESSED), None)
        if compared and not named:
            yield Fact(Why.ACCEPTED_NOTHING, (entry,))
        elif len(named) > 1:
            yield Fact(Why.ACCEPTED_SEVERAL, (entry, len(named), f"{min(named)}:{metric}"))
        elif fell and line.sign != _sign(fell):
            yield Fact(Why.ACCEPTED_TURNED, (entry, metric, fell.better, _sign(fell)))
        elif fell and not line.allows(fell) and fell.effect.mean is not None:
            yield Fact(Why.ACCEPTED_LESS, (entry, f"{fell.effect.mean:.4g}"))


def accepting(name: str, one: FunctionComparison, *, baseline: Run) -> str:
    """Write the entry by which a regression passes: its bound is the worse end of the mean here.

    Args:
        name: of the function, as much as makes it the only one.
        one: a regression, with a mean.
        baseline: an entry that its session had is void, so the bound gets more digits than that
            entry.
    """
    mean, ends, sign = one.effect.mean or 0.0, one.effect.mean_interval, _sign(one)
    side = 0 if sign == ">=" else 1
    bounds = [*([ends[side]] if ends else []), mean]
    rounded = [_rounded(each, digits, up=side == 1) for each in bounds for digits in _DIGITS]
    beyond = mean + (_BEYOND if side else -_BEYOND)
    lines = [_Line(f"{name}:{one.metric}", sign, bound) for bound in (*rounded, beyond)]
    return ACCEPTED.format(
        *next((each for each in lines if not _had(baseline, each, one)), lines[-1])
    )


def _sign(one: FunctionComparison) -> str:
    return ">=" if one.better == "higher" else "<="


def _lines(entries: Sequence[str]) -> list[_Line]:
    """Read entries; an entry that an earlier version recorded accepts nothing."""
    lines = []
    for entry in entries:
        with suppress(ValueError):
            name, sign, bound = accepted(entry).rsplit(" ", 2)
            lines.append(_Line(name, sign, float(bound)))
    return lines


def _recorded(run: Run) -> list[_Line]:
    lines = run.rules.get("accept")
    return _lines(lines) if isinstance(lines, tuple) else []


def _had(baseline: Run, line: _Line, one: FunctionComparison) -> bool:
    """Tell whether the baseline's session had a line, under whichever name of the function."""
    return any(
        known[1:] == line[1:] and known.names(one.function, one.metric)
        for known in _recorded(baseline)
    )


def _rounded(value: float, digits: int, *, up: bool) -> float:
    """Round to so many digits, down or up."""
    if value == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(abs(value))) + 1 - digits)
    whole = math.ceil(value / step) if up else math.floor(value / step)
    return float(f"{whole * step:.12g}")
