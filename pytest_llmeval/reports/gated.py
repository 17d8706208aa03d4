"""The section of a gated session: a row for each test function, and what it means."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pytest_llmeval.gate.results import Comparison, Evidence, FunctionComparison, Method, Verdict
from pytest_llmeval.gate.scoring import bare
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.ranges import CacheMode
from pytest_llmeval.records import MEASURED_METRICS
from pytest_llmeval.reports import words
from pytest_llmeval.reports.lines import BOLD, GREEN, RED, YELLOW, Line, aligned
from pytest_llmeval.reports.reasons import why_failed, worded
from pytest_llmeval.reports.words import mean_cell
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import GateRules

_COLUMNS = (
    *("test function", "asked anew", "baseline", "here", "difference", "interval", "p"),
    *("could catch", "verdict"),
)
_COLUMNS_OF_ANCHOR = ("test function", "baseline", "here", "difference", "p", "verdict")
_LISTED_CASES = 3
_LISTED_LOST = 20
_NAME_WIDTH = 12
_BAD = (Verdict.REGRESSED, Verdict.NOT_COMPARABLE)
# what the statistic of each test that can be chosen is called
_STATISTICS: Mapping[Method, str] = {
    "sign-flip": "summed difference",
    "exact-within-case": "summed difference",
    "whole-repeats": "summed difference",
    "mcnemar": "chi-square",
    "mcnemar-exact": "draws that rose less those that fell",
    "mcnemar-mid-p": "draws that rose less those that fell",
    "welch": "t",
    "cmh": "chi-square",
    "chi-square": "chi-square",
    "chi-square-plain": "chi-square",
    "two-proportion-z": "z",
}
_UNSURE = (Verdict.INCONCLUSIVE,)
_NOT_HERE = "the baseline's cache is not here"
_WHY_REDRAWN: Mapping[CacheMode, str] = {
    "auto": _NOT_HERE,
    "replay": _NOT_HERE,
    "refresh": "--llm-cache=refresh draws everything anew",
    "off": "--llm-cache=off replays nothing",
}


def gated_lines(judgement: Judgement, comparison: Comparison) -> Iterator[Line]:
    """Word a comparison."""
    assert judgement.baseline is not None  # noqa: S101 - a comparison has one
    rules = judgement.settings.gate
    yield Line()
    yield from _table(judgement.baseline, comparison, _COLUMNS, rules)
    yield from _scope(comparison, rules)
    for function in comparison.functions:
        yield from _about(judgement, function)
    yield from _ungated(comparison)
    if comparison.not_judged:
        yield Line(words.not_judged(comparison.not_judged), YELLOW)
    if _nothing_matched(comparison) and not _is_one_run(judgement):
        yield Line(
            "no request matched the baseline's: does the prompt contain a date or a random id?",
            YELLOW,
        )
    why = why_failed(comparison, rules)
    if why:
        yield Line(why, RED)


def anchored_lines(anchor: Baseline, comparison: Comparison, rules: GateRules) -> Iterator[Line]:
    """Word the comparison with the anchor: a shorter table, and what fails in it."""
    yield from _table(anchor, comparison, _COLUMNS_OF_ANCHOR, rules)
    failing = [one for one in comparison.functions if one.fails]
    for text in (*(words.sentence(one, rules) for one in failing), why_failed(comparison, rules)):
        if text:
            yield Line(f"against the anchor: {text}", RED)


def _column(baseline: Baseline) -> str:
    name = baseline.reference
    return name if len(name) <= _NAME_WIDTH else "baseline"


def _nothing_matched(comparison: Comparison) -> bool:
    """Whether every case of the session sent requests that the baseline never sent."""
    asked = [function for function in comparison.functions if function.effect.cases]
    return bool(asked) and all(
        one.effect.changed_kinds.get("request") == one.effect.cases for one in asked
    )


def _is_one_run(judgement: Judgement) -> bool:
    """Whether two conditions of a run are compared, which ask unlike things on purpose."""
    run, baseline = judgement.run, judgement.baseline
    return run is not None and baseline is not None and run.id == baseline.run.id


def _table(
    baseline: Baseline, comparison: Comparison, columns: Sequence[str], rules: GateRules
) -> Iterator[Line]:
    titles = {
        "verdict": "",
        "baseline": _column(baseline),
        "interval": f"{1 - 2 * rules.alpha:.0%} CI",
    }
    heading = [titles.get(column, column) for column in columns]
    cells = [_cells(function) for function in comparison.functions]
    texts = aligned([heading, *([row[column] for column in columns] for row in cells)])
    yield Line(texts[0], BOLD)
    for text, function in zip(texts[1:], comparison.functions, strict=True):
        yield Line(text, _style(function.verdict))


def _cells(function: FunctionComparison) -> dict[str, str]:
    """Write the cells of a row, by column."""
    effect, evidence = function.effect, function.evidence
    log = function.scale == "log" or function.metric in MEASURED_METRICS

    def cell(value: float | None, *, signed: bool = False) -> str:
        if value is None:
            return ""
        return f"{value:.3g}" if log else words.number(value, signed=signed)

    difference = cell(effect.difference, signed=True)
    interval, p, drop = "", "", cell(evidence.smallest_detectable_drop)
    if log and evidence.ratio is not None:
        difference = words.factor(evidence.ratio)
        drop = words.detectable_factor(function)
    if words.scored_otherwise(function):  # chance has no part in it
        drop = ""
    elif effect.method != "none":
        drop = drop or "none"
        if evidence.interval is not None:
            interval = words.interval(evidence.interval, evidence.ratio_interval)
        p = words.p_value(words.p_adjusted(function))
    asked_anew = effect.changed - effect.changed_kinds.get("score", 0)
    return {
        "test function": words.label(function),
        "asked anew": f"{asked_anew}/{effect.cases}" if effect.cases else "",
        "baseline": mean_cell(effect.baseline_mean, effect.baseline_mean_interval, log=log),
        "here": mean_cell(effect.mean, effect.mean_interval, log=log),
        "difference": difference,
        "interval": interval,
        "p": p,
        "could catch": drop,
        "verdict": words.VERDICTS[function.verdict],
    }


def _scope(comparison: Comparison, rules: GateRules) -> Iterator[Line]:
    functions = comparison.functions
    family = max((function.evidence.family_size for function in functions), default=0)
    parts = []
    if family > 1:
        parts.append(f"p: {words.shared(family, rules)}, the intervals are not corrected")
    parts += words.scope(comparison)
    if any(function.effect.mean_interval for function in functions):
        parts.append(f"beside a mean: its own {1 - 2 * rules.alpha:.0%} CI, which tests nothing")
    parts += [
        f"partial: {one.effect.cases} of {one.effect.baseline_cases} cases of {words.label(one)}"
        for one in functions
        if one.partial
    ]
    if parts:
        yield Line(" · ".join(parts))
    yield from (Line(f"note: {worded(note)}", YELLOW) for note in comparison.notes)


def _about(judgement: Judgement, function: FunctionComparison) -> Iterator[Line]:
    name, text = words.label(function), words.sentence(function, judgement.settings.gate)
    if text not in words.VERDICTS.values():  # the table has said that much
        yield Line()
        prefix = "" if text.startswith(name) else f"{name}: "
        yield Line(prefix + text, _style(function.verdict))
    for remark in _remarks(judgement, function):
        yield Line(f"  {remark}")


def _ungated(comparison: Comparison) -> Iterator[Line]:
    """Tell how the metrics moved that decide nothing, a line a function."""
    by_function: dict[str, list[str]] = {}
    for one in comparison.ungated:
        if one.effect.changed:
            by_function.setdefault(one.function, []).append(words.ungated(one))
    for function, moved in by_function.items():
        yield Line(f"not gated  {bare(function)}  {', '.join(moved)}")


def _remarks(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    effect, kinds = function.effect, function.effect.changed_kinds
    if 0 < effect.changed < effect.cases:
        yield _changed_part(function)
    if 0 < effect.units < effect.changed:
        yield f"{effect.changed} changed cases, {effect.units} independent"
    if "redrawn" in kinds:
        yield (
            f"{kinds['redrawn']} cases sent the same requests but got new replies "
            f"({_WHY_REDRAWN[judgement.settings.cache]})"
        )
    if "unseen" in kinds and not _is_table(judgement):
        yield f"{kinds['unseen']} cases made no call that was seen here"
    if 0 < kinds.get("score", 0) < effect.changed:
        yield (
            f"{words.counted(kinds['score'], 'case')} of the same replies, scored otherwise: "
            f"there {words.NOT_THE_MODEL}"
        )
    if function.evidence.identical_repeats:
        yield "all repeats are identical: they are one draw"
    if effect.method == judgement.settings.gate.test in _STATISTICS:
        yield _chosen_test(effect.method, function.evidence)
    remark = words.within_case_remark(function, judgement.settings.gate)
    if remark:
        yield remark
    yield from _moved_cases(judgement, function)
    yield from _left_out(judgement, function)


def _is_table(judgement: Judgement) -> bool:
    """Whether scores alone are compared: no call of theirs could have been seen."""
    return judgement.baseline is not None and judgement.baseline.how == "table"


def _changed_part(function: FunctionComparison) -> str:
    changed = [case for case in function.compared if case.kind is not None]
    before = sum(case.baseline_mean for case in changed) / len(changed)
    after = sum(case.mean for case in changed) / len(changed)
    return f"the {len(changed)} changed cases: {before:.2f} -> {after:.2f}"


def _chosen_test(method: Method, evidence: Evidence) -> str:
    """Write the statistic of a test that was chosen; the interval beside it is the t-test's."""
    if evidence.statistic is None:
        return f"{method}: no {_STATISTICS[method]}, as nothing varies"
    text = f"{method}: {_STATISTICS[method]} = {evidence.statistic:.4g}"
    return text if evidence.dof is None else f"{text}, degrees of freedom = {evidence.dof:.4g}"


def _moved_cases(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    improved = function.verdict is Verdict.IMPROVED
    shown = []
    if function.verdict is Verdict.NO_SIGNIFICANT_CHANGE:
        shown = words.all_lost(function)
    elif improved or function.verdict in (*_BAD, *_UNSURE):
        shown = words.most_moved(function, _LISTED_CASES, improved=improved)
    word = words.verb(function, improved=improved)
    for case in shown[:_LISTED_LOST]:
        headline = "" if improved else judgement.headlines.get(case.case, "")
        yield f"{word} most  {words.moved(case, metric=function.metric)}  {headline}".rstrip()
    if len(shown) > _LISTED_LOST:
        yield f"and {len(shown) - _LISTED_LOST} more that fell from all passed to all missed"


def _left_out(judgement: Judgement, function: FunctionComparison) -> Iterator[str]:
    here, gone = len(function.only_here), len(function.only_in_baseline)
    if (here or gone) and function.verdict is not Verdict.UNCHANGED and function.effect.cases:
        mean = words.new_mean(function)
        parts = [f"{words.counted(here, 'case')} new here{mean}"] if here else []
        parts += [f"{words.counted(gone, 'case')} only in the baseline"] if gone else []
        yield f"not compared: {', '.join(parts)}"
    if function.mismatched:
        yield (
            f"{len(function.mismatched)} cases bear the same position but other parameters: "
            "not compared; give ids= to parametrize"
        )
    errored = function.trials.errored, function.baseline_trials.errored
    if any(errored):
        yield f"errored trials, not scored: {errored[0]} here, {errored[1]} in the baseline"
        yield from words.first_reason(judgement, function.function)


def _style(verdict: Verdict) -> Mapping[str, bool]:
    if verdict in _BAD:
        return RED
    if verdict in _UNSURE:
        return YELLOW
    return GREEN if verdict is Verdict.IMPROVED else {}
