"""The lines of a comparison: its table, and what there is to say on each function."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from pytest_llmeval.gate.results import CaseComparison, Comparison, FunctionComparison, Verdict
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import bare
from pytest_llmeval.reports import sentences
from pytest_llmeval.reports.formats import YELLOW, Line, factor, label, number
from pytest_llmeval.reports.provenance import differences
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.reports.remarks import (
    accepting_line,
    not_judged,
    nothing_matched,
    remarks,
    scope,
)
from pytest_llmeval.reports.terminal.fitting import Page
from pytest_llmeval.reports.terminal.headline import by_severity
from pytest_llmeval.reports.terminal.moved import moved_lines, told_cases
from pytest_llmeval.reports.terminal.tables import compared_table, style
from pytest_llmeval.runs.lookup.refs import Baseline

_MOST_CASES = 8  # after so many a function has one case, but under -v


def gated_lines(judgement: Judgement, page: Page) -> Iterator[Line]:
    """Word the comparison with the baseline: its table, and each function by itself."""
    assert judgement.baseline is not None  # noqa: S101 - a comparison has one
    functions = by_severity(judgement.comparison)
    lines, left_out = compared_table(judgement.baseline, functions, judgement.settings.gate, page)
    yield from lines
    shown, before = 0, None
    for function in functions:
        told = told_cases(function)
        if shown >= _MOST_CASES and function.verdict is not Verdict.NO_SIGNIFICANT_CHANGE:
            told = told if page.verbose else told[:1]
        shown += len(told)
        dropped = left_out.get((function.function, function.metric), [])
        about = [*_about(judgement, function, page, told=told, dropped=dropped)]
        is_one_more = before is function.verdict is Verdict.NEW  # each of these has a line alone
        yield from about[1:] if is_one_more else about
        before = function.verdict


def circumstances(judgement: Judgement, page: Page) -> Iterator[Line]:
    """Tell what else differs from the baseline, and what the comparison with it holds for."""
    for difference in differences(judgement):
        yield Line(f"differs from the baseline: {difference}")
    rules, comparison = judgement.settings.gate, judgement.comparison
    if comparison is None:
        return
    yield from _ungated(comparison, page)
    scopes = [*scope(comparison, rules)]
    if page.verbose and any(one.effect.mean_interval for one in comparison.functions):
        scopes.append(
            f"beside a mean: its own {1 - 2 * rules.alpha:.0%} interval, which tests nothing"
        )
    if scopes:
        yield Line(" · ".join(scopes))
    yield from (Line(f"note: {worded(note)}", YELLOW) for note in comparison.notes)
    if comparison.not_judged:
        yield Line(not_judged(comparison.not_judged), YELLOW)
    if unmatched := nothing_matched(judgement):
        yield Line(unmatched, YELLOW)


def anchored_lines(
    judgement: Judgement, anchor: Baseline, comparison: Comparison, page: Page
) -> Iterator[Line]:
    """Word the comparison with the anchor: its table, and what fails in it."""
    rules, functions = judgement.settings.gate, by_severity(comparison)
    yield from compared_table(anchor, functions, rules, page)[0]
    # the replies at hand are of the baseline
    against = replace(judgement, baseline=anchor, excerpts={})
    for one in functions:
        if one.fails:
            yield Line(f"against the anchor: {sentences.sentence(one, rules)}", style(one))
            yield from moved_lines(against, one, page, told=told_cases(one))


def _about(
    judgement: Judgement,
    function: FunctionComparison,
    page: Page,
    *,
    told: Sequence[CaseComparison],
    dropped: Sequence[str],
) -> Iterator[Line]:
    name, text = label(function), sentences.sentence(function, judgement.settings.gate)
    is_told = text not in sentences.VERDICTS.values()  # else the table has said that much
    if is_told:
        yield Line()
        prefix = "" if text.startswith(name) else f"{name}: "
        yield Line(prefix + text, style(function))
    yield from moved_lines(judgement, function, page, told=told)
    for remark in remarks(judgement, function):
        yield Line(f"  {remark}")
    if dropped:
        yield Line(f"{'  ' if is_told else f'{name}: '}{' · '.join(dropped)}")
    if accepting := accepting_line(judgement, function):
        yield Line(f"  if this drop is meant, say in the ini file  {accepting}")


def _ungated(comparison: Comparison, page: Page) -> Iterator[Line]:
    """Tell how the metrics moved that decide nothing, a line a function."""
    by_function: dict[str, list[str]] = {}
    for one in comparison.ungated:
        if one.effect.changed and (page.verbose or _has_moved(one)):
            by_function.setdefault(one.function, []).append(_moved_ungated(one))
    for function, moved in by_function.items():
        yield Line(f"not gated  {bare(function)}  {', '.join(moved)}")


def _has_moved(one: FunctionComparison) -> bool:
    """Whether the figures that are shown differ at all."""
    return f"{one.effect.baseline_mean:.3g}" != f"{one.effect.mean:.3g}"


def _moved_ungated(one: FunctionComparison) -> str:
    """Write how a metric moved: ``seconds 0.41 -> 0.52 (x1.27)``."""
    effect, evidence = one.effect, one.evidence
    moved = number(effect.difference or 0.0, signed=True)
    if evidence.ratio is not None:
        moved = factor(evidence.ratio)
    if evidence.interval:
        moved += f" {sentences.difference_interval(evidence.interval, evidence.ratio_interval)}"
    return f"{one.metric} {effect.baseline_mean:.3g} -> {effect.mean:.3g} ({moved})"
