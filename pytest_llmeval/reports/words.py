"""The sentences of the section: what a verdict means, in plain words.

Never "equal", "stable" or "safe": no suite can show that.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from pytest_llmeval.gate.results import (
    CaseComparison,
    Comparison,
    Fact,
    FunctionComparison,
    Verdict,
)
from pytest_llmeval.gate.scoring import bare
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import MEASURED_METRICS, PASS_METRIC, Outcome
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.settings import GateRules

NOT_THE_MODEL = "the test or the application changed, not the model"
_LISTED = 5

VERDICTS = {
    Verdict.REGRESSED: "REGRESSED",
    Verdict.IMPROVED: "improved",
    Verdict.NO_SIGNIFICANT_CHANGE: "no significant change",
    Verdict.INCONCLUSIVE: "inconclusive",
    Verdict.UNCHANGED: "unchanged (all replayed, nothing new was measured)",
    Verdict.NOT_COMPARABLE: "NOT COMPARABLE",
    Verdict.NEW: "new",
    Verdict.GONE: "gone",
}


def label(comparison: FunctionComparison) -> str:
    """Name the function, and the metric unless it is the plain pass rate."""
    name = bare(comparison.function)
    plain = comparison.metric in (PASS_METRIC, name)  # a function of a score table is a metric
    return name if plain else f"{name} ({comparison.metric})"


def factor(value: float) -> str:
    """Write a ratio here / baseline: ``x1.27``."""
    return f"x{value:.3g}"


def interval(ends: tuple[float, float], ratios: tuple[float, float] | None) -> str:
    """Write an interval of a difference, or of a ratio where there is one."""
    if ratios is not None:
        return f"[{', '.join(map(factor, ratios))}]"
    return "[{:+.3f}, {:+.3f}]".format(*ends)


def detectable_factor(comparison: FunctionComparison) -> str:
    """Write the smallest drop that is found as the factor that it means."""
    drop = comparison.evidence.smallest_detectable_drop
    if drop is None:
        return ""
    return factor(math.exp(drop if comparison.better == "lower" else -drop))


def shared(family: int, rules: GateRules) -> str:
    """Say how several comparisons share the error rate."""
    if rules.order:
        return f"{family} comparisons, in the order of llm_gate_order"
    name = "Holm" if rules.multiplicity == "holm" else "Benjamini-Hochberg"
    return f"{name} over {family} functions and metrics"


def scope(comparison: Comparison) -> list[str]:
    """Say once what the verdicts hold for: these cases, and this wording or any."""
    compared = [one for one in comparison.functions if one.effect.cases]
    if not compared:
        return []
    cases = {one.function: one.effect.cases for one in compared}
    if not any(one.evidence.wordings for one in compared):
        return [f"holds for {_these(sum(cases.values()))} and this wording"]
    return [
        f"{bare(function)} holds for {_wordings(cases[function], of_function)}"
        for function in cases
        for of_function in [[one for one in compared if one.function == function]]
    ]


def _wordings(cases: int, of_function: Sequence[FunctionComparison]) -> str:
    wordings = of_function[0].evidence.wordings
    these = _these(cases)
    if all(one.effect.method == "crossed" for one in of_function):
        return f"cases and wordings like these ({wordings} wordings)"
    if wordings <= 1:
        return f"{these} and this wording only"
    return f"{these} and these {wordings} wordings only"


def _these(cases: int) -> str:
    return "this case" if cases == 1 else f"these {cases} cases"


def ungated(one: FunctionComparison) -> str:
    """Write how a metric moved that decides nothing: ``seconds 0.41 -> 0.52 (x1.27)``."""
    effect, evidence = one.effect, one.evidence
    change = f"{effect.baseline_mean:.3g} -> {effect.mean:.3g}"
    moved = number(effect.difference or 0.0, signed=True)
    if evidence.ratio is not None:
        moved = factor(evidence.ratio)
    ends = f" {interval(evidence.interval, evidence.ratio_interval)}" if evidence.interval else ""
    return f"{one.metric} {change} ({moved}{ends})"


def number(value: float, *, signed: bool = False) -> str:
    """Write a figure of the suite with three decimals; an exact 0 as ``0``."""
    if value == 0:
        return "0"
    return f"{value:+.3f}" if signed else f"{value:.3f}"


def figure(value: float, metric: str) -> str:
    """Write a mean of any metric; what calls took has no usual size."""
    return f"{value:.4g}" if metric in MEASURED_METRICS else number(value)


def p_value(p: float) -> str:
    """Write a p-value; below .001 that is all there is to say."""
    return "<0.001" if p < 0.001 else f"{p:.3f}"  # noqa: PLR2004


def chance(p: float) -> str:
    """Put a p-value as how often chance alone would do the like."""
    if p < 0.001:  # noqa: PLR2004
        return "fewer than 1 of 1000 comparisons"
    return f"1 of {round(1 / p)} comparisons"


def scored_otherwise(comparison: FunctionComparison) -> bool:
    """Tell whether nothing changed but the scores of the very same replies."""
    return (
        comparison.effect.changed > 0
        and comparison.effect.changed_kinds.get("score") == comparison.effect.changed
    )


def _of_same_replies(comparison: FunctionComparison, rules: GateRules) -> str:
    """Say what a verdict means in which no reply has a part: no chance, nothing to settle."""
    change = _moved(comparison) if comparison.effect.difference else "no change on the whole"
    said = f"{VERDICTS[comparison.verdict]}: {change}"
    if comparison.verdict in (Verdict.REGRESSED, Verdict.IMPROVED):
        beyond = _beyond(rules) if comparison.verdict is Verdict.REGRESSED else ""
        said = f"{label(comparison)} {change}{beyond}"
    cases = counted(comparison.effect.changed, "case")
    return f"{said}; the same replies are scored otherwise ({cases}): {NOT_THE_MODEL}"


def sentence(comparison: FunctionComparison, rules: GateRules) -> str:  # noqa: PLR0911 - one each
    """Say what the verdict on one function means."""
    if scored_otherwise(comparison) and comparison.verdict is not Verdict.NOT_COMPARABLE:
        return _of_same_replies(comparison, rules)
    match comparison.verdict:
        case Verdict.REGRESSED:
            return f"{label(comparison)} {_moved(comparison)}{_beyond(rules)}; {_odds(comparison)}"
        case Verdict.IMPROVED:
            return f"{label(comparison)} {_moved(comparison)}; {_odds(comparison)}"
        case Verdict.UNCHANGED:
            return VERDICTS[Verdict.UNCHANGED] + _uncompared(comparison)
        case Verdict.NO_SIGNIFICANT_CHANGE:
            return f"no significant change: {_ruled_out(comparison, rules)}"
        case Verdict.INCONCLUSIVE:
            return f"inconclusive: {_open(comparison)}"
        case Verdict.NOT_COMPARABLE:
            return f"not comparable: {worded(comparison.why)}"
        case Verdict.NEW:
            return "new: the baseline has nothing of it"
        case _:
            return "gone: the baseline has it, and it was given up by llm_accept_gone"


def not_judged(functions: Sequence[Fact]) -> str:
    """Name the functions of the baseline that did not run."""
    told = []
    for one in functions[:_LISTED]:
        function, cases = one.figures
        told.append(f"{bare(str(function))} ({counted(int(cases), 'case')}, {one.why})")
    more = len(functions) - len(told)
    return f"not judged: {', '.join(told)}" + (f" and {more} more" if more else "")


def within_case_remark(comparison: FunctionComparison, rules: GateRules) -> str:
    """Point at cases that fell beyond chance where the suite as a whole did not."""
    p = comparison.evidence.p_within_case
    if p is None or p >= rules.alpha or comparison.verdict is Verdict.REGRESSED:
        return ""
    if scored_otherwise(comparison):
        return ""
    worst = most_moved(comparison, 1)
    mostly = f", mostly {moved(worst[0], metric=comparison.metric)}" if worst else ""
    return (
        f"these very cases fell beyond chance (p = {p_value(p)}){mostly}; "
        "too few cases moved to call the suite worse"
    )


def most_moved(
    comparison: FunctionComparison, count: int, *, improved: bool = False
) -> list[CaseComparison]:
    """Return the cases that fell most, or rose most, the one that moved most first."""
    sign = -1 if improved else 1
    moved_so = [case for case in comparison.compared if sign * case.difference < 0]
    return sorted(moved_so, key=lambda case: (sign * case.difference, case.case))[:count]


def all_lost(comparison: FunctionComparison) -> list[CaseComparison]:
    """Return the changed cases that went from all passed to all missed."""
    if comparison.metric != PASS_METRIC:
        return []
    return [
        case
        for case in comparison.compared
        if case.kind is not None and all(case.baseline_scores) and not any(case.scores)
    ]


def hits(scores: Sequence[float], *, metric: str) -> str:
    """Write pass scores as ``4/5``, others as their mean."""
    if metric == PASS_METRIC:
        return f"{sum(map(int, scores))}/{len(scores)}"
    return figure(sum(scores) / len(scores), metric)


def moved(case: CaseComparison, *, metric: str) -> str:
    """Write how the scores of a case changed: ``test_x[Peru]  10/10 -> 1/5``."""
    before, here = hits(case.baseline_scores, metric=metric), hits(case.scores, metric=metric)
    return f"{short(case.case)}  {before} -> {here}"


def first_reason(judgement: Judgement, function: str) -> Iterator[str]:
    """Say why the first errored trial of a function got no reply."""
    assert judgement.run is not None  # noqa: S101 - whatever is worded ran
    functions = {case.id: case.function for case in judgement.run.cases}
    for trial in judgement.run.trials:
        if functions[trial.case] == function and trial.outcome is Outcome.ERRORED:
            reasons = [call.reason for call in trial.calls if call.reason]
            seen = judgement.headlines.get(trial.case) or ", ".join(reasons) or trial.message
            yield f"first of them  {short(trial.case)}  {seen}"
            return


def counted(count: int, noun: str, nouns: str | None = None) -> str:
    """Write ``1 case``, ``3 cases``, ``2 replies``."""
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


def short(case: str) -> str:
    """Name a case without the path of its file."""
    return case.partition("::")[2] or case


def verb(comparison: FunctionComparison, *, improved: bool) -> str:
    """Return the word for a move: scores fall and rise, what should be low worsens."""
    if comparison.better == "higher":
        return "rose" if improved else "fell"
    return "improved" if improved else "worsened"


def _moved(comparison: FunctionComparison) -> str:
    effect, ratio = comparison.effect, comparison.evidence.ratio
    assert effect.difference is not None  # noqa: S101 - every judged function has one
    moved = verb(comparison, improved=effect.difference >= 0)
    if ratio is not None:
        change = f"{effect.baseline_mean:.3g} -> {effect.mean:.3g}"
        return f"{moved} by a factor of {ratio:.3g} ({change})"
    change = f"{effect.baseline_mean:.3f} -> {effect.mean:.3f}"
    return f"{moved} by {abs(effect.difference):.3f} ({change})"


def _beyond(rules: GateRules) -> str:
    return f", more than the margin of {rules.margin:g}" if rules.margin > 0 else ""


def p_adjusted(comparison: FunctionComparison) -> float:
    """Return the adjusted p of a tested comparison, for the direction that its verdict has."""
    evidence = comparison.evidence
    improved = comparison.verdict is Verdict.IMPROVED
    p = evidence.p_improved_adjusted if improved else evidence.p_adjusted
    assert p is not None  # noqa: S101 - whatever was tested has one
    return p


def _odds(comparison: FunctionComparison) -> str:
    scope = ""
    if comparison.effect.method in {"exact-within-case", "whole-repeats", "welch", "cmh"}:
        scope = f" ({_these(comparison.effect.changed)} only)"
    elif comparison.effect.method in {"chi-square", "chi-square-plain", "two-proportion-z"}:
        scope = " (if all trials were independent)"
    return f"chance alone would do this in {chance(p_adjusted(comparison))}{scope}"


def _uncompared(comparison: FunctionComparison) -> str:
    here, gone = len(comparison.only_here), len(comparison.only_in_baseline)
    if not here and not gone:
        return ""
    mean = new_mean(comparison)
    return (
        f", with {counted(here, 'case')} only here{mean}, {gone} only in the baseline: not compared"
    )


def new_mean(comparison: FunctionComparison) -> str:
    """Write the mean of the cases that only this run has: `` (mean 0.800 [0.61, 0.91])``."""
    mean, ends = comparison.only_here_mean, comparison.only_here_interval
    if mean is None:
        return ""
    return f" (mean {mean_cell(mean, ends, log=comparison.scale == 'log')})"


def mean_cell(value: float | None, ends: tuple[float, float] | None, *, log: bool) -> str:
    """Write a mean with its own interval: ``0.861 [0.82, 0.89]``."""
    if value is None:
        return ""
    text = f"{value:.3g}" if log else number(value)
    if ends is None:
        return text
    low, high = (f"{end:.3g}" if log else f"{end:.2f}" for end in ends)
    return f"{text} [{low}, {high}]"


def _ruled_out(comparison: FunctionComparison, rules: GateRules) -> str:
    drop = f"a drop of {rules.target:.2f}"
    if comparison.scale == "log":
        drop = f"a change for the worse by a factor of {1 + rules.target:g}"
    if comparison.evidence.ruled_out_by == "interval":
        return f"{drop} or more is ruled out ({1 - rules.alpha:.0%})"
    if comparison.evidence.ruled_out_by == "smallest_drop":
        return f"{drop} would have been caught in 4 of 5 builds"
    asked = f"only {comparison.effect.changed} of {comparison.effect.cases} cases were asked anew"
    return f"{asked}: {drop} is impossible"


def _why_open(comparison: FunctionComparison) -> str:
    """Say what is open where no interval tells it."""
    why = "too few cases moved to tell"
    if comparison.effect.method == "same-shift":
        why = "all cases moved alike" if comparison.effect.difference else "no case moved"
    elif comparison.effect.method == "whole-repeats":
        why = "cases share draws, and too few repeats were made to tell"
    if comparison.evidence.smallest_detectable_drop is None:
        return why
    drop = f"a drop of {comparison.evidence.smallest_detectable_drop:.2f}"
    if comparison.scale == "log":
        drop = f"a change by a factor of {detectable_factor(comparison)[1:]}"
    return f"{why}; {drop} or more would have been caught in 4 of 5 builds"


def _open(comparison: FunctionComparison) -> str:
    if comparison.why:
        return worded(comparison.why)
    parts = [_why_open(comparison)]
    if comparison.evidence.interval is not None:
        worst = max(0.0, -comparison.evidence.interval[0])
        parts = [f"the drop may be as large as {worst:.2f}"]
        if comparison.scale == "log":
            parts = [f"it may be worse by a factor of up to {math.exp(worst):.3g}"]
    needed = []
    if comparison.evidence.settle_cases:
        needed.append(f"{comparison.evidence.settle_cases} more cases")
    if comparison.evidence.settle_repeats:
        needed.append(f"{comparison.evidence.settle_repeats} repeats")
    if needed:
        parts.append(
            f"about {' or '.join(needed)} would settle it "
            "(decide on one number once: further looks add false alarms)"
        )
    return "; ".join(parts)
