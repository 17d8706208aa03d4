"""The tables of the section: a row for each test function and metric, compared or described.

Bars of text in a table show intervals of differences, all on one scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.results import FunctionComparison, FunctionDescription, Interval, Verdict
from pytest_llmeval.gate.scoring import Counted, TrialCounts
from pytest_llmeval.reports import notation, telling
from pytest_llmeval.reports.report import DescribedFunction, Side
from pytest_llmeval.reports.sentences import SMALLEST_DROP, drop_as_factor, scored_otherwise
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.settings import GateRules

CAN_FIND = "can find"
# in the order of the table; below in the order in which columns get room
_COLUMNS = (
    *("verdict", "test function", "baseline", "here", "difference", "interval", "bar"),
    *("changed", CAN_FIND, "p"),
)
_ORDER = (
    *(("verdict",), ("test function",), ("difference",), ("interval",), ("baseline", "here")),
    *(("bar",), ("changed",), (CAN_FIND,), ("p",)),
)
_ORDER_OF_DESCRIBED = ((0,), (3,), (4,), (1,), (7,), (5,), (6,), (2,))  # from the sixth: -v
_TOLD_BELOW = ("interval", CAN_FIND, "p")  # where there is no room; a sentence has the others
_NO_DROP = "none"
_NAME_WIDTH = 12  # of a side
_LEAST_NAME = 16  # of a function
_NARROWEST, _WIDEST = 15, 41  # columns of a bar
_LINE, _TARGET, _ZERO, _POINT = "━┊│●"
_ODD: tuple[Counted, ...] = ("crashed", "errored", "skipped", "without_value")
_STYLES: Mapping[Verdict, Mapping[str, bool]] = {
    Verdict.REGRESSED: notation.RED,
    Verdict.NOT_COMPARABLE: notation.RED,
    Verdict.NOT_CONFIRMED: notation.YELLOW,
    Verdict.INCONCLUSIVE: notation.YELLOW,
    Verdict.IMPROVED: notation.GREEN,
}


def style(function: FunctionComparison) -> Mapping[str, bool]:
    """Return the colour of a verdict."""
    if function.fails:
        return notation.RED
    return notation.YELLOW if function.accepted else _STYLES.get(function.verdict, {})


def side_name(side: Side) -> str:
    """Name the baseline of a comparison, in few letters."""
    reference = side.baseline.reference if side.baseline else ""
    return reference if 0 < len(reference) <= _NAME_WIDTH else "baseline"


def compared_table(
    side: Side, rules: GateRules, page: Page
) -> tuple[list[notation.Line], dict[tuple[str, str], list[str]]]:
    """Put a comparison in a table; functions without anything new are a line below it.

    Args:
        side: the comparison.
        rules: with the level of the intervals and the target.
        page: that has room for so many columns; if it is verbose each function is a row.

    Returns:
        The lines, and the cells without room, by function and metric.
    """
    compared = [one.of for one in telling.worst_first(side.compared)]
    shown = [one for one in compared if page.verbose or one.verdict is not Verdict.UNCHANGED]
    if not shown:
        return [], {}  # the first line of the section says it already
    (heading, *rows), (titles, *texts), dropped = _filled(side, shown, rules, page)
    lines = [notation.Line(), notation.Line(titles, notation.BOLD)]
    lines += [notation.Line(text, style(one)) for text, one in zip(texts, shown, strict=True)]
    if len(shown) < len(compared):
        folded = [one.function for one in compared if one.verdict is Verdict.UNCHANGED]
        count = notation.counted_comparisons(folded, besides=[one.function for one in shown])
        lines.append(notation.Line(f"{count} unchanged, all replayed"))
    left_out: dict[tuple[str, str], list[str]] = {}
    for one, row in zip(shown, rows, strict=True):
        told = left_out.setdefault((one.function, one.metric), [])
        is_settled = one.verdict is Verdict.NO_SIGNIFICANT_CHANGE
        if is_settled and one.evidence.ruled_out_by == "interval" and not page.verbose:
            continue  # the sentence says how large a drop may be
        for at in dropped:
            if row[at] and _COLUMNS[at] in _TOLD_BELOW:
                is_drop = _COLUMNS[at] == CAN_FIND and row[at] != _NO_DROP
                drop = f"{SMALLEST_DROP}: {row[at]} (4 times in 5)"
                told.append(drop if is_drop else f"{heading[at]} {row[at]}")
    return lines, left_out


def _filled(
    side: Side, shown: Sequence[FunctionComparison], rules: GateRules, page: Page
) -> tuple[list[list[str]], list[str], list[int]]:
    """Write the cells of a table, its lines, and say which columns had no room."""
    titles = {
        "verdict": "",
        "test function": notation.kind_of(one.function for one in shown),
        "baseline": side_name(side),
        "interval": f"{notation.percent(1 - 2 * rules.alpha)} interval",
    }
    kept = [group for group in _ORDER if page.verbose or group != ("p",)]
    order = [tuple(map(_COLUMNS.index, group)) for group in kept]
    rows = [titles, *(_cells(function, page, rules) for function in shown)]
    cells, texts, dropped, width = list[list[str]](), list[str](), list[int](), _NARROWEST
    for _ in range(2):  # the bars get the room that is left
        scale = scale_of(shown, rules, width=width)
        bars = [scale.heading(), *map(scale.bar, shown)] if scale else [""] * len(rows)
        rows = [row | {"bar": bar} for row, bar in zip(rows, bars, strict=True)]
        cells = [[row.get(column, column) for column in _COLUMNS] for row in rows]
        texts, dropped = page.table(cells, order, left=2, cut=(1,))
        filled = max(map(notation.columns, texts))  # more than the page where nothing can be cut
        width = min(_WIDEST, max(_NARROWEST, width + page.width - filled))
    return cells, texts, dropped


def _cells(function: FunctionComparison, page: Page, rules: GateRules) -> dict[str, str]:
    """Write the cells of a row, by column."""
    effect = function.effect
    shown = telling.figures(function, target=rules.target, with_ends=page.verbose)
    return {
        "verdict": shown.verdict,
        "test function": page.cut(notation.label(function), max(_LEAST_NAME, page.width // 3)),
        "baseline": shown.before,
        "here": shown.after,
        "difference": shown.difference,
        "interval": shown.interval,
        "changed": f"{effect.changed}/{effect.cases}" if effect.changed else "",
        CAN_FIND: _can_find(function) if telling.tells_drop(function, target=rules.target) else "",
        "p": shown.p,
    }


def _can_find(function: FunctionComparison) -> str:
    drop = function.evidence.smallest_detectable_drop
    if drop is None:  # where all cases moved alike, nobody knows how far they scatter
        return "unknown" if function.effect.method == "same-shift" else _NO_DROP
    is_log = function.scale == "log"
    return drop_as_factor(drop, function.better) if is_log else notation.number(drop)


def described_table(
    functions: Sequence[DescribedFunction], rules: GateRules, page: Page
) -> Iterator[notation.Line]:
    """Put the functions of a run that is compared with nothing in a table."""
    level, described = notation.percent(1 - 2 * rules.alpha), [one.of for one in functions]
    order = _ORDER_OF_DESCRIBED if page.verbose else _ORDER_OF_DESCRIBED[:5]
    noun = notation.kind_of(one.function for one in described)
    titles = (*(noun, "cases", "trials", "mean"), f"{level} interval")
    rows = [(*titles, "next run", "pass^k", ""), *map(_described_row, described)]
    (heading, *texts), left_out = page.table(rows, order)
    yield from (notation.Line(heading, notation.BOLD), *map(notation.Line, texts))
    meanings = {
        4: f"{level} interval: a range for the mean of other cases like these",
        5: "next run: a range for the mean of these cases, run again unchanged",
        6: "pass^k: the chance that k trials of a case all pass",
    }
    told = {at for group in order for at in group}.difference(left_out)
    shown = [at for at in meanings if at in told and any(row[at] for row in rows[1:])]
    if shown:
        yield notation.Line(" · ".join(meanings[at] for at in shown))


def _described_row(described: FunctionDescription) -> list[str]:
    counts, metric, hat = described.trials, described.metric, described.pass_hat
    are_all = described.scored_cases == described.cases  # the mean is the one of the scored cases
    cases = str(described.cases) if are_all else f"{described.scored_cases} of {described.cases}"
    trials = str(counts["scored"] + counts["errored"] + counts["skipped"])
    mean = "" if described.mean is None else notation.figure(described.mean, metric)
    ends = (notation.ends_of(each, metric) for each in (described.interval, described.prediction))
    pass_hat = "" if hat is None else f"{notation.decimals(hat.here)} (k {hat.k})"
    return [notation.label(described), cases, trials, mean, *ends, pass_hat, odd_trials(counts)]


def odd_trials(counts: TrialCounts) -> str:
    """Count the trials that do not enter a mean, or by a crash: ``2 errored, 1 without value``."""
    found = (f"{counts[outcome]} {outcome}" for outcome in _ODD if counts[outcome])
    return ", ".join(found).replace("_", " ")


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from values to columns.

    Attributes:
        low: the value at the left end; ``high`` at the right end.
        width: in columns.
    """

    low: float
    high: float
    width: int

    def drawn(
        self, ends: Interval, value: float, *, marks: Iterable[tuple[str, float]] = ()
    ) -> str:
        """Draw an interval and a value in it; marks of other values stand on the interval."""
        cells = [" "] * self.width
        low, high = map(self._at, ends)
        cells[low : high + 1] = _LINE * (high + 1 - low)
        for mark, place in marks:
            cells[self._at(place)] = mark
        cells[self._at(value)] = _POINT
        return "".join(cells)

    def _at(self, value: float) -> int:
        share = (value - self.low) / (self.high - self.low) if self.high > self.low else 0.0
        return round(share * (self.width - 1))


@dataclass(frozen=True, slots=True)
class DifferenceScale(Scale):
    """The scale of differences; ``target`` is the drop that must be ruled out, > 0."""

    target: float

    def heading(self) -> str:
        """Write the figures of the target and of 0 above their marks, where both have room."""
        cells, zero = [" "] * self.width, self._at(0.0)
        figure = f"-{notation.limit(self.target)}"
        start = max(0, self._at(-self.target) + 1 - len(figure))
        if start + len(figure) < zero:
            cells[start : start + len(figure)] = figure
        cells[zero] = "0"
        return "".join(cells)

    def bar(self, function: FunctionComparison) -> str:
        """Draw the interval of a comparison, its difference, 0 and the target; "" without any."""
        ends = _ends(function)
        if ends is None:
            return ""
        target = math.log1p(self.target) if function.scale == "log" else self.target
        marks = (_TARGET, -target), (_ZERO, 0.0)
        return self.drawn(ends, function.effect.difference or 0.0, marks=marks)


def scale_of(
    functions: Sequence[FunctionComparison], rules: GateRules, *, width: int
) -> DifferenceScale | None:
    """Find a scale with room for all intervals, 0 and the target; None if there is no interval."""
    found = [ends for ends in map(_ends, functions) if ends is not None]
    if not found:
        return None
    low = min(-rules.target, *(low for low, _ in found))
    high = max(0.0, *(high for _, high in found))
    return DifferenceScale(low=low, high=high, target=rules.target, width=width)


def _ends(function: FunctionComparison) -> Interval | None:
    difference, interval = function.effect.difference, function.evidence.interval
    if difference is None or not function.effect.changed or not function.row.is_compared:
        return None
    if interval is None or scored_otherwise(function) or not all(map(math.isfinite, interval)):
        return difference, difference
    return interval
