"""From an examination to the record of a comparison, in the light of all others."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from pytest_llmeval.gate.comparison import (
    CaseComparison,
    ChangeKind,
    FunctionComparison,
    Scale,
    Verdict,
)
from pytest_llmeval.gate.counts import count_trials
from pytest_llmeval.gate.drops import Sensitivity, sensitivity, too_few_draws
from pytest_llmeval.gate.examination import Examination
from pytest_llmeval.gate.family import Standing
from pytest_llmeval.gate.figures import Significance
from pytest_llmeval.gate.means import Ends, intervals_of_sides, mean_of_cases
from pytest_llmeval.gate.pairing import Pair, Pairing
from pytest_llmeval.gate.ratios import ratio, ratios
from pytest_llmeval.gate.scoring import off_scale, score
from pytest_llmeval.gate.settling import settling_cases, settling_repeats
from pytest_llmeval.gate.sides import Side
from pytest_llmeval.gate.verdict import Decision, Finding, decide, never_recorded
from pytest_llmeval.settings import GateRules

CHANGE_KINDS: tuple[ChangeKind, ...] = ("request", "redrawn", "score", "unseen")


def conclude_new(
    function: str, metric: str, *, here: Side, partial: bool, rules: GateRules
) -> FunctionComparison:
    """Write down a function, or a gated metric of it, that the baseline does not have."""
    scores = score(here, metric, better=here.better(metric))
    found = mean_of_cases(here, scores, here.cases, metric=metric, alpha=rules.alpha)
    decision = never_recorded([here], metric) or Decision(row=1, verdict=Verdict.NEW)
    return FunctionComparison(
        function=function,
        metric=metric,
        better=here.better(metric),
        verdict=decision.verdict,
        row=decision.row,
        why=decision.why,
        fails=bool(decision.why),
        partial=partial,
        changed_kinds={},
        mean=found.mean if found else None,
        mean_interval=found.interval if found else None,
        trials=count_trials(here, scores, cases=here.cases),
        only_here=tuple(here.cases),
    )


def conclude_gone(function: str, metric: str, *, there: Side, why: str) -> FunctionComparison:
    """Write down a function that only the baseline has.

    Args:
        function: its name.
        metric: that the baseline gates.
        there: the function in the baseline.
        why: what to do about it; empty if it was given up.
    """
    scores = score(there, metric, better=there.better(metric))
    return FunctionComparison(
        function=function,
        metric=metric,
        better=there.better(metric),
        verdict=Verdict.NOT_COMPARABLE if why else Verdict.GONE,
        row=2,
        why=why,
        fails=bool(why),
        changed_kinds={},
        baseline_cases=len(there.cases),
        baseline_trials=count_trials(there, scores, cases=there.cases),
        only_in_baseline=tuple(there.cases),
    )


def conclude_untested(
    examined: Examination, decision: Decision, *, rules: GateRules
) -> FunctionComparison:
    """Write down a comparison that was decided without a test.

    Args:
        examined: one function and metric.
        decision: of the rows that need no test.
        rules: what the run is held against.
    """
    written = _written(examined, decision, rules=rules)
    if decision.verdict is not Verdict.UNCHANGED:
        return written
    no_change = (1.0, 1.0) if written.scale == "log" else None
    return replace(written, interval=(0.0, 0.0), ratio_interval=no_change)


def conclude_tested(
    examined: Examination,
    found: Significance,
    *,
    standing: Standing,
    rules: GateRules,
) -> FunctionComparison:
    """Give the verdict on a tested comparison and write it down.

    Args:
        examined: one function and metric.
        found: its test.
        standing: of that test among all others.
        rules: what the run is held against.
    """
    subject = examined.pairing.subject
    rules = subject.on_scale(rules)
    seen = _sensitivity(examined, found, rules=rules)
    blunt = too_few_draws(found, penalty=standing.penalty, alpha=rules.alpha, sign=subject.sign)
    finding = Finding(
        significance=found,
        p_adjusted=standing.p_adjusted,
        p_improved_adjusted=standing.p_improved_adjusted,
        smallest_drop=None if blunt else seen.smallest_drop(),
    )
    decision = decide(finding, metric=subject.metric, rules=rules)
    written = _written(examined, decision, rules=rules)
    if decision.verdict is Verdict.INCONCLUSIVE:
        written = _with_remedies(written, found, seen=seen, rules=rules)
    return replace(
        written,
        method=found.method,
        t=found.t,
        statistic=found.statistic,
        dof=found.dof,
        p=found.p,
        p_improved=found.p_improved,
        p_adjusted=finding.p_adjusted,
        p_improved_adjusted=finding.p_improved_adjusted,
        family_size=standing.family_size,
        interval=found.interval,
        ratio_interval=ratios(found.interval, subject) if found.interval else None,
        interval_level=1 - 2 * rules.alpha if found.interval else None,
        smallest_detectable_drop=finding.smallest_drop,
        p_within_case=found.p_within_case,
        identical_repeats=found.samples.identical_repeats,
    )


def _sensitivity(examined: Examination, found: Significance, *, rules: GateRules) -> Sensitivity:
    return sensitivity(
        found,
        scores_there=examined.pairing.scores_there,
        metric=examined.pairing.subject.metric,
        alpha=rules.alpha,
    )


def _with_remedies(
    written: FunctionComparison, found: Significance, *, seen: Sensitivity, rules: GateRules
) -> FunctionComparison:
    if found.method in {"sign-flip", "crossed", "whole-repeats"}:
        return (
            written  # independent units, repeats or wordings are lacking, which neither remedy adds
        )
    difference = found.extent.difference
    cases = settling_cases(seen, cases=found.extent.cases, difference=difference, rules=rules)
    repeats = None
    if not found.samples.identical_repeats:
        repeats = settling_repeats(seen, difference=difference, rules=rules)
    return replace(written, settle_cases=cases, settle_repeats=repeats)


def _written(examined: Examination, decision: Decision, *, rules: GateRules) -> FunctionComparison:
    """Write down the verdict and all that does not depend on a test."""
    pairing, extent = examined.pairing, examined.extent
    subject = pairing.subject
    there, here = subject.there.cases, subject.here.cases
    only_here = tuple(id_ for id_ in here if id_ not in there)
    ran = [id_ for id_ in only_here if id_ in pairing.here.cases]
    new = mean_of_cases(
        pairing.here, pairing.scores_here, ran, metric=subject.metric, alpha=rules.alpha
    )
    kinds = Counter(pair.kind for pair in pairing.changed)
    sides = intervals_of_sides(pairing, alpha=rules.alpha) if extent else (None, None)
    return FunctionComparison(
        function=subject.function,
        metric=subject.metric,
        better=subject.better,
        scale=subject.scale,
        verdict=decision.verdict,
        row=decision.row,
        why=decision.why,
        fails=decision.fails(rules),
        partial=subject.partial,
        cases=len(pairing.pairs),
        baseline_cases=len(there),
        changed=len(pairing.changed),
        touched=len(pairing.touched),
        changed_kinds={kind: kinds[kind] for kind in CHANGE_KINDS if kinds[kind]},
        units=extent.units if extent else 0,
        effective_units=extent.effective_units if extent else 0.0,
        difference=extent.difference if extent else None,
        difference_changed=extent.difference_changed if extent else None,
        baseline_mean=off_scale(extent.baseline_mean, subject.scale) if extent else None,
        mean=off_scale(extent.mean, subject.scale) if extent else None,
        baseline_mean_interval=sides[0],
        mean_interval=sides[1],
        ratio=ratio(extent.difference, subject) if extent else None,
        wordings=extent.wordings if extent else 0,
        ruled_out_by=decision.ruled_out_by,
        baseline_trials=pairing.counts_there(),
        trials=pairing.counts_here(),
        only_here=only_here,
        only_here_mean=off_scale(new.mean, subject.scale) if new else None,
        only_here_interval=_ends_off_scale(new.interval, subject.scale) if new else None,
        only_in_baseline=tuple(id_ for id_ in there if id_ not in here),
        mismatched=pairing.mismatched,
        compared=_compared(pairing),
    )


def _ends_off_scale(ends: Ends | None, scale: Scale) -> Ends | None:
    return None if ends is None else (off_scale(ends[0], scale), off_scale(ends[1], scale))


def _compared(pairing: Pairing) -> tuple[CaseComparison, ...]:
    by_id = {pair.case: pair for pair in pairing.pairs}
    scale = pairing.subject.scale
    return tuple(_case(by_id[id_], scale) for id_ in pairing.there.cases if id_ in by_id)


def _case(pair: Pair, scale: Scale) -> CaseComparison:
    there, here = pair.all_there.values, pair.all_here.values
    if scale == "log":
        there, here = (tuple(off_scale(value, scale) for value in side) for side in (there, here))
    return CaseComparison(
        case=pair.case,
        kind=pair.kind,
        difference=pair.difference,
        baseline_scores=there,
        scores=here,
        baseline_mean=off_scale(pair.mean_there, scale),
        mean=off_scale(pair.mean_here, scale),
    )
