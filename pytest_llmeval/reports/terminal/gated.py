"""The lines of a comparison: its table, and what there is to say on each function."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmeval.gate.results import Comparison, FunctionComparison, Verdict
from pytest_llmeval.gate.scoring import bare
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.reports import sentences
from pytest_llmeval.reports.formats import RED, YELLOW, Line, factor, label, number
from pytest_llmeval.reports.reasons import why_failed, worded
from pytest_llmeval.reports.remarks import (
    accepting_line,
    not_judged,
    nothing_matched,
    remarks,
    scope,
)
from pytest_llmeval.reports.terminal.tables import COLUMNS, COLUMNS_OF_ANCHOR, compared_table, style
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules

_LISTED_CASES = 3
_LISTED_LOST = 20


def gated_lines(judgement: Judgement, comparison: Comparison) -> Iterator[Line]:
    """Word a comparison with the baseline."""
    assert judgement.baseline is not None  # noqa: S101 - a comparison has one
    rules = judgement.settings.gate
    yield Line()
    yield from compared_table(judgement.baseline, comparison, COLUMNS, rules)
    if held_for := " · ".join(scope(comparison, rules)):
        yield Line(held_for)
    yield from (Line(f"note: {worded(note)}", YELLOW) for note in comparison.notes)
    for function in comparison.functions:
        yield from _about(judgement, function)
    yield from _ungated(comparison)
    if comparison.not_judged:
        yield Line(not_judged(comparison.not_judged), YELLOW)
    if unmatched := nothing_matched(judgement):
        yield Line(unmatched, YELLOW)
    why = why_failed(comparison, rules)
    if why:
        yield Line(why, RED)


def anchored_lines(anchor: Baseline, comparison: Comparison, rules: GateRules) -> Iterator[Line]:
    """Word the comparison with the anchor: a shorter table, and what fails in it."""
    yield from compared_table(anchor, comparison, COLUMNS_OF_ANCHOR, rules)
    failing = [sentences.sentence(one, rules) for one in comparison.functions if one.fails]
    for text in filter(None, (*failing, why_failed(comparison, rules))):
        yield Line(f"against the anchor: {text}", RED)


def _about(judgement: Judgement, function: FunctionComparison) -> Iterator[Line]:
    name, text = label(function), sentences.sentence(function, judgement.settings.gate)
    if text not in sentences.VERDICTS.values():  # the table has said that much
        yield Line()
        prefix = "" if text.startswith(name) else f"{name}: "
        yield Line(prefix + text, style(function))
    for remark in (*remarks(judgement, function), *_moved_cases(judgement, function)):
        yield Line(f"  {remark}")
    if accepting := accepting_line(judgement, function):
        yield Line(f"  if this drop is meant, say in the ini file  {accepting}")


def _ungated(comparison: Comparison) -> Iterator[Line]:
    """Tell how the metrics moved that decide nothing, a line a function."""
    by_function: dict[str, list[str]] = {}
    for one in comparison.ungated:
        if one.effect.changed:
            by_function.setdefault(one.function, []).append(_moved_ungated(one))
    for function, moved in by_function.items():
        yield Line(f"not gated  {bare(function)}  {', '.join(moved)}")


def _moved_ungated(one: FunctionComparison) -> str:
    """Write how a metric moved: ``seconds 0.41 -> 0.52 (x1.27)``."""
    effect, evidence = one.effect, one.evidence
    moved = number(effect.difference or 0.0, signed=True)
    if evidence.ratio is not None:
        moved = factor(evidence.ratio)
    if evidence.interval:
        moved += f" {sentences.difference_interval(evidence.interval, evidence.ratio_interval)}"
    return f"{one.metric} {effect.baseline_mean:.3g} -> {effect.mean:.3g} ({moved})"


def _moved_cases(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    verdict, improved = function.verdict, function.verdict is Verdict.IMPROVED
    shown = []
    if verdict is Verdict.NO_SIGNIFICANT_CHANGE:
        shown = sentences.all_lost(function)
    elif improved or verdict in (Verdict.REGRESSED, Verdict.NOT_COMPARABLE, Verdict.INCONCLUSIVE):
        shown = sentences.most_moved(function, _LISTED_CASES, improved=improved)
    direction = sentences.verb(function, improved=improved)
    for case in shown[:_LISTED_LOST]:
        headline = "" if improved else judgement.headlines.get(case.case, "")
        moved = sentences.moved_case(case, function.metric)
        yield f"{direction} most  {moved}  {headline}".rstrip()
    if len(shown) > _LISTED_LOST:
        yield f"and {len(shown) - _LISTED_LOST} more that fell from all passed to all missed"
