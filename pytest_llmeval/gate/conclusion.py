"""Conclusion on one test function and metric: what is tested, and the record of the result."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from pytest_llmeval.gate import decision_table
from pytest_llmeval.gate.changes import ChangeKind, common_trials
from pytest_llmeval.gate.describe import interval_of_side, mean_of_cases, never_recorded
from pytest_llmeval.gate.family import Family
from pytest_llmeval.gate.looks import Looked
from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.remedies import remedies
from pytest_llmeval.gate.results import (
    EditedCase,
    Effect,
    Evidence,
    Fact,
    FunctionComparison,
    Method,
    Row,
    Verdict,
    ends_off_scale,
    off_scale,
    ratio_of,
)
from pytest_llmeval.gate.scoring import FunctionScores, Side
from pytest_llmeval.gate.significance import Examined, shrunk, significance, tied_repeats
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.t_tests import paired_test

# independent units, repeats or wordings are lacking, and neither remedy adds them
WITHOUT_REMEDY: tuple[Method, ...] = ("sign-flip", "crossed", "whole-repeats")
T_TESTS: tuple[Method, ...] = ("paired-t", "log-ratio", "crossed")
CHANGE_KINDS: tuple[ChangeKind, ...] = ("request", "redrawn", "score", "unseen")


def conclude_new(
    side: Side, metric: str, baseline: Side | None, *, partial: bool, rules: GateRules
) -> FunctionComparison:
    """Make the record of a function that the baseline does not have, or of a metric here alone.

    Args:
        side: the function.
        metric: that is gated here.
        baseline: the function there, which does not gate the metric; None if it is new.
        partial: the run did not come to every case.
        rules: of the gate.
    """
    scores = FunctionScores(side, metric)
    found = mean_of_cases(scores, side.cases, alpha=rules.alpha)
    unrecorded = never_recorded([side], metric)
    return FunctionComparison(
        function=side.function,
        metric=metric,
        better=scores.better,
        verdict=Verdict.NOT_COMPARABLE if unrecorded else Verdict.NEW,
        row=Row.NOTHING_IN_COMMON if unrecorded else Row.NEW,
        why=unrecorded,
        fails=bool(unrecorded),
        partial=partial,
        effect=Effect(
            baseline_cases=len(baseline.cases) if baseline else 0,
            mean=found.mean if found else None,
            mean_interval=found.interval if found else None,
        ),
        trials=scores.counts(),
        only_here=tuple(side.cases),
    )


def conclude_gone(side: Side, metric: str, *, why: Fact | None) -> FunctionComparison:
    """Make the record of a function that only the baseline has.

    Args:
        side: the function in the baseline.
        metric: that the baseline gates.
        why: the reason to miss the function; None if it was given up.
    """
    scores = FunctionScores(side, metric)
    return FunctionComparison(
        function=side.function,
        metric=metric,
        better=scores.better,
        verdict=Verdict.NOT_COMPARABLE if why else Verdict.GONE,
        row=Row.ONLY_IN_BASELINE,
        why=why,
        fails=bool(why),
        effect=Effect(baseline_cases=len(side.cases)),
        baseline_trials=scores.counts(),
        only_in_baseline=tuple(side.cases),
    )


def examine(pairing: Pairing) -> Examined | FunctionComparison:
    """Test whether the changed cases fell; where nothing can be tested, conclude."""
    decision = decision_table.nothing_to_compare(pairing)
    if decision:
        return _written(pairing, decision)
    repeats = tied_repeats(pairing)
    decision = decision_table.too_much_lost(pairing)
    decision = decision or decision_table.cannot_test(pairing, repeats=repeats)
    if decision is None:
        return significance(pairing, repeats=repeats)
    if not pairing.pairs:
        return _written(pairing, decision)
    verdict = decision_table.VERDICTS[decision[0]]
    evidence = Evidence(
        interval=(0.0, 0.0) if verdict is Verdict.UNCHANGED else None,
        # without a test the share of the changed cases is all that can rule a drop out
        ruled_out_by="share" if verdict is Verdict.NO_SIGNIFICANT_CHANGE else None,
    )
    effect = effect_of(pairing, has_sides=True)
    return _written(pairing, decision, effect, _with_ratios(pairing, evidence))


def conclude(tested: Examined, family: Family, *, looks: Looked | None) -> FunctionComparison:
    """Make the record of a tested comparison, with its verdict.

    Args:
        tested: one function and metric.
        family: the adjusted p-values of all comparisons that were tested.
        looks: at the comparison, of which the result is the last; None without early ones.
    """
    pairing, method, found = tested
    adjusted, penalty = family[tested.name], len(family)
    judged = decision_table.judge(tested, adjusted, penalty=penalty, looks=looks)
    # below six units sign-flip is run where the exact test does not fit, or was not wanted
    within = None if (method, found.interval) == ("sign-flip", None) else pairing.within_case
    evidence = Evidence(
        t=found.statistic if method in T_TESTS else None,
        statistic=found.statistic,
        dof=found.dof,
        p=found.tails.worse,
        p_improved=found.tails.better,
        p_adjusted=adjusted.worse,
        p_improved_adjusted=adjusted.better,
        family_size=penalty,
        interval=judged.interval,
        interval_level=1 - 2 * pairing.rules.alpha if judged.interval else None,
        smallest_detectable_drop=judged.smallest_drop,
        ruled_out_by=judged.ruled_out_by,
        p_within_case=within.worse if within else None,
        identical_repeats=pairing.identical_repeats,
    )
    if judged.row == Row.OPEN and method not in WITHOUT_REMEDY:
        cases, repeats = remedies(pairing, penalty=penalty)
        evidence = replace(evidence, settle_cases=cases, settle_repeats=repeats)
    effect = replace(effect_of(pairing, has_sides=True), method=method)
    decision, evidence = (judged.row, judged.why), _with_ratios(pairing, evidence)
    one = _written(pairing, decision, effect, evidence)
    return replace(one, looks=looks.looks) if looks else one


def describe_ungated(pairing: Pairing) -> FunctionComparison:
    """Make the record of a metric that is described and decides nothing.

    Args:
        pairing: with at least one common case.
    """
    interval, alpha = None, pairing.rules.alpha
    if not pairing.lacks_units:
        found = paired_test(pairing.differences, pairing.units, alpha=alpha)
        interval = shrunk(found.interval, pairing.share)
    evidence = Evidence(interval=interval, interval_level=1 - 2 * alpha if interval else None)
    return FunctionComparison(
        function=pairing.baseline.function,
        metric=pairing.metric,
        better=pairing.baseline.better,
        scale=pairing.scale,
        verdict=Verdict.NOT_GATED,
        row=Row.UNGATED,
        effect=effect_of(pairing),
        evidence=_with_ratios(pairing, evidence),
    )


def _written(
    pairing: Pairing,
    decision: decision_table.Decision,
    effect: Effect | None = None,
    evidence: Evidence | None = None,
) -> FunctionComparison:
    row, why = decision
    baseline, collected, scale = pairing.baseline, pairing.collected.cases, pairing.scale
    edited = pairing.edits.shown
    only_here = tuple(c for c in collected if c not in baseline.side.cases and c not in edited)
    known = {*collected, *edited.values()}
    ran = [case for case in only_here if case in pairing.current.side.cases]
    new = mean_of_cases(pairing.current, ran, alpha=pairing.rules.alpha)
    pairs = {pair.case: pair for pair in pairing.pairs}
    missing = tuple(case for case in baseline.side.cases if case not in known)
    return FunctionComparison(
        function=baseline.function,
        metric=pairing.metric,
        better=baseline.better,
        scale=scale,
        verdict=decision_table.VERDICTS[row],
        row=row,
        why=why,
        fails=decision_table.turns_red(decision_table.VERDICTS[row], pairing.rules),
        partial=pairing.partial,
        effect=effect or _sizes(pairing),
        evidence=evidence or Evidence(),
        baseline_trials=pairing.baseline_counts(),
        trials=pairing.current.counts(),
        only_here=only_here,
        only_here_mean=off_scale(new.mean, scale) if new else None,
        only_here_interval=ends_off_scale(new.interval, scale) if new else None,
        only_in_baseline=missing if pairing.in_full else (),
        deselected=() if pairing.in_full else missing,
        mismatched=pairing.edits.mismatched,
        inputs_changed=pairing.edits.compared,
        edited=tuple(_edited(pairing, case, was) for case, was in edited.items()),
        compared=tuple(pairs[case] for case in baseline.side.cases if case in pairs),
    )


def _edited(pairing: Pairing, case: str, was: str) -> EditedCase:
    sides = pairing.baseline.of_case.get(was), pairing.current.of_case.get(case)
    is_replayed = case in pairing.edits.own
    if is_replayed and sides[0] and sides[1]:  # the same replies, however they were scored
        sides = common_trials(sides[0], sides[1])
    means = [off_scale(one.mean, pairing.scale) if one else None for one in sides]
    return EditedCase(
        case=case, was=was, is_replayed=is_replayed, baseline_mean=means[0], mean=means[1]
    )


def _sizes(pairing: Pairing) -> Effect:
    kinds = Counter(pair.kind for pair in pairing.changed)
    return Effect(
        cases=len(pairing.pairs),
        baseline_cases=len(pairing.baseline.side.cases),
        changed=len(pairing.changed),
        touched=len(pairing.touched),
        changed_kinds={kind: kinds[kind] for kind in CHANGE_KINDS if kinds[kind]},
    )


def effect_of(pairing: Pairing, *, has_sides: bool = False) -> Effect:
    """Measure both sides and their difference.

    Args:
        pairing: with at least one common case.
        has_sides: estimate the mean of each side by itself, too.
    """
    spread, pairs = pairing.spread, pairing.pairs
    # the mean to which a case's difference adds; a replayed case counts all trials of the baseline
    before = [pair.baseline if pair.kind else pair.every_baseline for pair in pairs]
    after = [pair.current if pair.kind else pair.every_baseline for pair in pairs]
    mean = math.fsum(scored.mean for scored in before) / len(pairs)
    current_mean = mean + pairing.sign * pairing.difference
    sides = [interval_of_side(pairing, side) if has_sides else None for side in (before, after)]
    return replace(
        _sizes(pairing),
        units=spread.units if spread else 0,
        effective_units=spread.effective_units if spread else 0.0,
        difference=pairing.difference,
        difference_changed=spread.mean if spread else None,
        baseline_mean=off_scale(mean, pairing.scale),
        mean=off_scale(current_mean, pairing.scale),
        baseline_mean_interval=sides[0],
        mean_interval=sides[1],
    )


def _with_ratios(pairing: Pairing, evidence: Evidence) -> Evidence:
    """Add the ratios and the number of wordings of the comparison."""
    ratio, ratios = None, None
    if pairing.scale == "log":
        ratio = ratio_of(pairing.sign * pairing.difference)
        ends = sorted(ratio_of(pairing.sign * end) for end in evidence.interval or ())
        ratios = (ends[0], ends[1]) if ends else None
    wordings = {pairing.case(pair).wording for pair in pairing.pairs} - {None}
    return replace(evidence, ratio=ratio, ratio_interval=ratios, wordings=len(wordings))
