"""Text for numbers, names and rows, of which the sentences and tables are made."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_llmeval.records import MEASURED_METRICS, PASS_METRIC, Trial, bare

if TYPE_CHECKING:
    from pytest_llmeval.gate.results import FunctionComparison, Interval

RED = {"red": True, "bold": True}
GREEN = {"green": True}
YELLOW = {"yellow": True}
BOLD = {"bold": True}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the section; ``markup`` as pytest's terminal writer takes it."""

    text: str = ""
    markup: Mapping[str, bool] = field(default_factory=dict)


def columns(text: str) -> int:
    """Count the columns of a terminal that a printable text takes: letters of the East take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(map(bool, map(unicodedata.combining, text)))


def aligned(rows: Sequence[Sequence[str]], *, left: Collection[int] = (0,)) -> list[str]:
    """Line rows up in columns.

    Args:
        rows: at least one, equally long; the first is usually the heading.
        left: the columns that are set flush left, as is the last one; the others hold figures
            and are set flush right.

    Returns:
        One line a row, without trailing blanks.
    """
    widths = [max(map(columns, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    lines = []
    for row in rows:
        cells = []
        for index, (cell, width) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (width - columns(cell))
            cells.append(cell + blanks if index in left or index == last else blanks + cell)
        lines.append("  ".join(cells).rstrip())
    return lines


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """Write ``1 case``, ``3 cases``, ``2 replies``."""
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


def short(case: str) -> str:
    """Name a case without the path of its file."""
    return case.partition("::")[2] or case


def name_of(function: str, metric: str) -> str:
    """Name a function, and the metric unless it is the plain pass rate."""
    name = bare(function)
    return name if metric == PASS_METRIC else f"{name} ({metric})"


def label(comparison: FunctionComparison) -> str:
    """Name what is compared; a function of a score table is a metric."""
    name = bare(comparison.function)
    return name if comparison.metric == name else name_of(name, comparison.metric)


def number(value: float, *, signed: bool = False) -> str:
    """Write a figure of the suite with three decimals; an exact 0 as ``0``."""
    if value == 0:
        return "0"
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def figure(value: float, metric: str) -> str:
    """Write a mean of any metric; what calls took has no usual size."""
    return f"{value:.4g}" if metric in MEASURED_METRICS else number(value)


def factor(ratio: float) -> str:
    """Write a ratio current / baseline: ``x1.27``."""
    return f"x{ratio:.3g}"


def p_value(p: float) -> str:
    """Write a p-value; below .001 that is all there is to say."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"  # noqa: PLR2004


def ends(interval: Interval, form: str = ".3f") -> str:
    """Write the ends of an interval, each in the given format: ``[0.820, 0.890]``."""
    low, high = interval
    return f"[{low:{form}}, {high:{form}}]"


def ends_of(interval: Interval | None, metric: str) -> str:
    """Write the ends of the interval of a mean, if there is one."""
    if interval is None:
        return ""
    return ends(interval, ".4g" if metric in MEASURED_METRICS else ".3f")


def mean_with_ends(mean: float | None, interval: Interval | None, *, log: bool) -> str:
    """Write a mean with its own interval: ``0.861 [0.82, 0.89]``."""
    if mean is None:
        return ""
    text = f"{mean:.3g}" if log else number(mean)
    return f"{text} {ends(interval, '.3g' if log else '.2f')}" if interval else text


def hits(scores: Sequence[float], metric: str) -> str:
    """Write pass scores as ``4/5``, others as their mean."""
    if metric == PASS_METRIC:
        return f"{sum(map(int, scores))}/{len(scores)}"
    return figure(sum(scores) / len(scores), metric)


def outcome_and_score(trial: Trial, metric: str) -> str:
    """Write how a trial ended, with its score unless the outcome tells it: ``passed 0.800``."""
    score = trial.scores.get(metric)
    if score is None or metric == PASS_METRIC:
        return str(trial.outcome)
    return f"{trial.outcome} {number(score)}"
