"""The tables of the section: a row for each test function and metric, compared or described."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pytest_llmeval.gate.results import (
    Comparison,
    FunctionComparison,
    FunctionDescription,
    Interval,
    Verdict,
)
from pytest_llmeval.gate.scoring import Counted
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import MEASURED_METRICS
from pytest_llmeval.reports import formats
from pytest_llmeval.reports.sentences import (
    adjusted_p,
    detectable_factor,
    difference_interval,
    scored_otherwise,
    verdict_word,
)
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules

COLUMNS = (
    *("test function", "asked anew", "baseline", "here", "difference", "interval", "p"),
    *("could catch", "verdict"),
)
COLUMNS_OF_ANCHOR = ("test function", "baseline", "here", "difference", "p", "verdict")
_NAME_WIDTH = 12
_ODD: tuple[Counted, ...] = ("crashed", "errored", "skipped")
_STYLES: Mapping[Verdict, Mapping[str, bool]] = {
    Verdict.REGRESSED: formats.RED,
    Verdict.NOT_COMPARABLE: formats.RED,
    Verdict.INCONCLUSIVE: formats.YELLOW,
    Verdict.IMPROVED: formats.GREEN,
}


def style(function: FunctionComparison) -> Mapping[str, bool]:
    """Return the colour of a verdict."""
    return formats.YELLOW if function.accepted else _STYLES.get(function.verdict, {})


def compared_table(
    baseline: Baseline, comparison: Comparison, columns: tuple[str, ...], rules: GateRules
) -> Iterator[formats.Line]:
    """Put a comparison in a table.

    Args:
        baseline: whose name is the title of its column where it is short.
        comparison: of which each function is a row.
        columns: some of ``COLUMNS``.
        rules: with the level of the intervals.
    """
    name = baseline.reference
    titles = {
        "verdict": "",
        "baseline": name if len(name) <= _NAME_WIDTH else "baseline",
        "interval": f"{1 - 2 * rules.alpha:.0%} CI",
    }
    rows = [[titles.get(column, column) for column in columns]]
    for cells in map(_cells, comparison.functions):
        rows.append([cells[column] for column in columns])
    heading, *texts = formats.aligned(rows)
    yield formats.Line(heading, formats.BOLD)
    for text, function in zip(texts, comparison.functions, strict=True):
        yield formats.Line(text, style(function))


def _cells(function: FunctionComparison) -> dict[str, str]:
    """Write the cells of a row, by column."""
    effect, evidence = function.effect, function.evidence
    log = function.scale == "log" or function.metric in MEASURED_METRICS
    asked_anew = effect.changed - effect.changed_kinds.get("score", 0)
    cells = dict.fromkeys(COLUMNS, "")
    if effect.cases:
        cells["asked anew"] = f"{asked_anew}/{effect.cases}"
    if effect.difference is not None:
        cells["difference"] = _value(effect.difference, log=log, signed=True)
        if log and evidence.ratio is not None:
            cells["difference"] = formats.factor(evidence.ratio)
    if effect.method != "none" and not scored_otherwise(function):  # else chance has no part
        cells["p"] = formats.p_value(adjusted_p(function))
        cells["could catch"] = _could_catch(function, log=log)
        if evidence.interval is not None:
            cells["interval"] = difference_interval(evidence.interval, evidence.ratio_interval)
    return cells | {
        "test function": formats.label(function),
        "baseline": formats.mean_with_ends(
            effect.baseline_mean, effect.baseline_mean_interval, log=log
        ),
        "here": formats.mean_with_ends(effect.mean, effect.mean_interval, log=log),
        "verdict": verdict_word(function),
    }


def _value(value: float, *, log: bool, signed: bool = False) -> str:
    return f"{value:.3g}" if log else formats.number(value, signed=signed)


def _could_catch(function: FunctionComparison, *, log: bool) -> str:
    drop = function.evidence.smallest_detectable_drop
    if drop is None:
        return "none"
    if log and function.evidence.ratio is not None:
        return detectable_factor(function)
    return _value(drop, log=log)


def described_table(judgement: Judgement) -> Iterator[formats.Line]:
    """Put the descriptions of a run that is compared with nothing in a table."""
    level = 1 - 2 * judgement.settings.gate.alpha
    rows = [["test function", "cases", "trials", "mean", f"{level:.0%} CI", "next run", ""]]
    heading, *texts = formats.aligned([*rows, *map(_described_row, judgement.descriptions)])
    yield formats.Line(heading, formats.BOLD)
    yield from map(formats.Line, texts)


def _described_row(described: FunctionDescription) -> list[str]:
    counts, metric = described.trials, described.metric
    are_all = described.scored_cases == described.cases  # the mean is that of the scored ones
    return [
        formats.name_of(described.function, metric),
        str(described.cases) if are_all else f"{described.scored_cases} of {described.cases}",
        str(counts["scored"] + counts["errored"] + counts["skipped"]),
        "" if described.mean is None else formats.figure(described.mean, metric),
        ends_of(described.interval, metric),
        ends_of(described.prediction, metric),
        ", ".join(f"{counts[outcome]} {outcome}" for outcome in _ODD if counts[outcome]),
    ]


def ends_of(interval: Interval | None, metric: str) -> str:
    """Write the formats.ends of an interval of a mean, if there is one."""
    if interval is None:
        return ""
    return formats.ends(interval, ".4g" if metric in MEASURED_METRICS else ".3f")
