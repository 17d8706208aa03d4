"""What must hold for any two runs."""

from __future__ import annotations

import dataclasses
import random
from operator import attrgetter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Comparison, FunctionComparison, Verdict
from pytest_llmeval.records import Better, Outcome, Run, Trial
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.exact import exact_within_case
from pytest_llmeval.stats.sample import CaseScores
from tests.gate.builders import CaseAndTrials, a_case, a_run, judged, runs

quick = settings(max_examples=25)

RULES = GateRules(max_gone=1.0)
ENDS = st.sampled_from("ppppmmces")
REQUESTS = st.sampled_from(["v1", "v1", "v2", "v3"])
CLUSTERS = st.sampled_from([None, None, None, "x", "y"])


@st.composite
def any_run(draw: st.DrawFn, *, ends: st.SearchStrategy[str] = ENDS, repeats: int = 0) -> Run:
    """Up to nine cases, some of which share clusters, requests or draws with others."""
    sizes = st.just(repeats) if repeats else st.integers(1, 4)
    cases = [
        a_case(
            f"c{at}",
            "".join(draw(st.lists(ends, min_size=(n := draw(sizes)), max_size=n))),
            request=draw(REQUESTS),
            draws=draw(st.sampled_from(["main", "main", "here"])),
            cluster=draw(CLUSTERS),
        )
        for at in range(draw(st.integers(1, 9)))
    ]
    return a_run(*cases)


def shuffled(run: Run, random: random.Random) -> Run:
    return dataclasses.replace(
        run,
        cases=tuple(random.sample(run.cases, len(run.cases))),
        trials=tuple(random.sample(run.trials, len(run.trials))),
    )


def without_order(comparison: Comparison) -> Comparison:
    functions = (
        dataclasses.replace(
            one,
            compared=tuple(sorted(one.compared, key=lambda case: case.case)),
            only_here=tuple(sorted(one.only_here)),
            only_in_baseline=tuple(sorted(one.only_in_baseline)),
        )
        for one in comparison.functions
    )
    by_name = tuple(sorted(functions, key=lambda one: (one.function, one.metric)))
    return dataclasses.replace(comparison, functions=by_name)


@quick
@given(any_run(), any_run(), st.randoms(use_true_random=False))
def test_order_of_cases_and_trials_changes_nothing(
    baseline: Run, run: Run, random: random.Random
) -> None:
    plain = compare(baseline, run, RULES)
    other = compare(shuffled(baseline, random), shuffled(run, random), RULES)
    assert without_order(other) == without_order(plain)


@quick
@given(any_run())
def test_a_replayed_run_is_unchanged(run: Run) -> None:
    found = judged(run, run, RULES)
    if found.row not in (3, 4):  # nothing was scored, or too much was lost
        assert (found.verdict, found.effect.difference) == (Verdict.UNCHANGED, 0.0)


@quick
@given(any_run(), any_run())
def test_figures_agree_with_each_other(baseline: Run, run: Run) -> None:
    found = judged(baseline, run, RULES)
    assert (
        sum(found.effect.changed_kinds.values())
        == found.effect.changed
        <= found.effect.cases
        == len(found.compared)
    )
    assert found.effect.units <= found.effect.changed
    assert found.effect.effective_units <= found.effect.units
    assert (
        (found.effect.method == "none")
        == (found.evidence.p is None)
        == (found.evidence.p_adjusted is None)
    )
    if found.effect.difference is not None:
        assert found.effect.baseline_mean is not None
        assert found.effect.mean == pytest.approx(
            found.effect.baseline_mean + found.effect.difference
        )
        total = sum(case.difference for case in found.compared)
        assert found.effect.difference == pytest.approx(total / found.effect.cases)
    if found.evidence.smallest_detectable_drop is not None:
        assert 0 < found.evidence.smallest_detectable_drop <= 1


@quick
@given(any_run(), any_run(), st.sampled_from([GateRules(), GateRules(margin=0.05, target=0.3)]))
def test_verdict_and_printed_interval_never_disagree(
    baseline: Run, run: Run, rules: GateRules
) -> None:
    found = judged(baseline, run, rules)
    interval = found.evidence.interval
    if interval is None or found.verdict is Verdict.UNCHANGED:
        return
    assert interval[0] <= interval[1]
    if found.verdict is Verdict.REGRESSED:
        assert interval[1] <= -rules.margin
    elif found.verdict is Verdict.IMPROVED:
        assert interval[0] >= 0
    else:
        assert interval[0] <= 0 <= interval[1]
        is_ruled_out = interval[0] > -rules.target
        assert (found.verdict is Verdict.NO_SIGNIFICANT_CHANGE) is is_ruled_out
        assert (found.evidence.ruled_out_by == "interval") is is_ruled_out


def turned_around(found: FunctionComparison) -> dict[str, object]:
    return {
        "effect.difference": -(found.effect.difference or 0.0),
        "evidence.p": found.evidence.p_improved,
        "evidence.p_improved": found.evidence.p,
        "evidence.p_adjusted": found.evidence.p_improved_adjusted,
        "evidence.t": None if found.evidence.t is None else -found.evidence.t,
    }


@quick
@given(
    any_run(ends=st.sampled_from("pm"), repeats=3), any_run(ends=st.sampled_from("pm"), repeats=3)
)
def test_exchanging_sides_of_equal_repeats_mirrors_every_figure(baseline: Run, run: Run) -> None:
    # clusters are those of the baseline, so both sides need the same
    unlabelled = [
        dataclasses.replace(
            side, cases=tuple(dataclasses.replace(case, cluster=None) for case in side.cases)
        )
        for side in (baseline, run)
    ]
    found, mirrored = judged(*unlabelled, RULES), judged(*unlabelled[::-1], RULES)
    assert (found.effect.method, found.effect.changed) == (
        mirrored.effect.method,
        mirrored.effect.changed,
    )
    for figure, expected in turned_around(mirrored).items():
        value = attrgetter(figure)(found)
        assert (value or 0) == pytest.approx(expected or 0, abs=1e-12), figure


MIRRORED = {Verdict.REGRESSED: Verdict.IMPROVED, Verdict.IMPROVED: Verdict.REGRESSED}
pairs_that_fell = st.lists(
    st.tuples(
        st.text(st.sampled_from("pppm"), min_size=3, max_size=3),
        st.text(st.sampled_from("pmmm"), min_size=3, max_size=3),
    ),
    min_size=1,
    max_size=9,
)


@quick
@given(pairs_that_fell, st.integers(0, 3))
def test_exchanging_sides_of_equal_repeats_mirrors_the_verdict(
    changed: list[tuple[str, str]], replayed: int
) -> None:
    baseline, run = runs(changed, replayed=replayed)
    found, mirrored = judged(baseline, run), judged(run, baseline)
    assert MIRRORED.get(mirrored.verdict) == (found.verdict if found.verdict in MIRRORED else None)


@quick
@given(any_run(ends=st.sampled_from("pm")), any_run(ends=st.sampled_from("pm")), st.data())
def test_an_errored_trial_more_changes_no_score(
    baseline: Run, run: Run, data: st.DataObject
) -> None:
    case = data.draw(st.sampled_from(run.cases))
    last = max(trial.index for trial in run.trials if trial.case == case.id)
    errored = Trial(case=case.id, index=last + 1, outcome=Outcome.ERRORED)
    more = dataclasses.replace(run, trials=(*run.trials, errored))
    before, after = judged(baseline, run, RULES), judged(baseline, more, RULES)
    assert after.compared == before.compared
    assert (after.verdict, after.evidence.p, after.effect.difference) == (
        before.verdict,
        before.evidence.p,
        before.effect.difference,
    )
    assert after.trials["errored"] == before.trials["errored"] + 1


@quick
@given(
    any_run(ends=st.sampled_from("pm"), repeats=3),
    any_run(ends=st.sampled_from("pm"), repeats=3),
    st.data(),
)
def test_an_errored_trial_more_in_the_baseline_changes_no_score(
    baseline: Run, run: Run, data: st.DataObject
) -> None:
    case = data.draw(st.sampled_from(baseline.cases))
    errored = Trial(case=case.id, index=3, outcome=Outcome.ERRORED)
    more = dataclasses.replace(baseline, trials=(*baseline.trials, errored))
    before, after = judged(baseline, run, RULES), judged(more, run, RULES)
    assert after.compared == before.compared
    assert (after.verdict, after.evidence.p, after.effect.difference) == (
        before.verdict,
        before.evidence.p,
        before.effect.difference,
    )


eighths = st.integers(0, 8).map(lambda n: n / 8)
samples = st.lists(
    st.tuples(st.lists(eighths, min_size=2, max_size=2), st.lists(eighths, min_size=2, max_size=2)),
    min_size=1,
    max_size=10,
)
Samples = list[tuple[list[float], list[float]]]


def scored(
    cases: Samples, *, shift: float, scale: float, better: Better = "higher"
) -> tuple[Run, Run]:
    def side(which: int, request: str) -> list[CaseAndTrials]:
        return [
            a_case(
                f"c{at}",
                scores=[shift + scale * score for score in case[which]],
                request=request,
                better=better,
            )
            for at, case in enumerate(cases)
        ]

    return a_run(*side(0, "v1")), a_run(*side(1, "v2"))


@quick
@given(samples, st.sampled_from([-2.0, 0.5, 3.0]), st.sampled_from([0.5, 1.0, 4.0]))
def test_shift_and_scale_of_all_scores_leave_t_and_p(
    cases: Samples, shift: float, scale: float
) -> None:
    plain = judged(*scored(cases, shift=0, scale=1))
    moved = judged(
        *scored(cases, shift=shift, scale=scale), GateRules(target=scale * GateRules().target)
    )
    assert (moved.effect.method, moved.verdict) == (plain.effect.method, plain.verdict)
    assert moved.evidence.t == pytest.approx(plain.evidence.t)
    assert moved.evidence.p == pytest.approx(plain.evidence.p)
    assert moved.effect.difference == pytest.approx(scale * (plain.effect.difference or 0.0))


@quick
@given(samples)
def test_a_cost_is_a_score_turned_upside_down(cases: Samples) -> None:
    score = judged(*scored(cases, shift=0, scale=1))
    cost = judged(*scored(cases, shift=0, scale=-1, better="lower"))
    assert (cost.effect.method, cost.verdict) == (score.effect.method, score.verdict)
    assert cost.effect.difference == pytest.approx(score.effect.difference)
    assert cost.evidence.p == pytest.approx(score.evidence.p)
    assert cost.evidence.p_improved == pytest.approx(score.evidence.p_improved)


triples = st.lists(eighths, min_size=3, max_size=3)


@settings(max_examples=10)  # with advice
@given(
    st.lists(st.tuples(triples, triples), min_size=1, max_size=7),
    st.randoms(use_true_random=False),
)
def test_order_of_scored_cases_changes_nothing(cases: Samples, random: random.Random) -> None:
    # four cases or five of 3 v 3 trials are shuffled: the seed must not know their order
    baseline, run = scored(cases, shift=0, scale=1)
    plain = compare(baseline, run, RULES)
    other = compare(shuffled(baseline, random), shuffled(run, random), RULES)
    assert without_order(other) == without_order(plain)


@quick
@given(samples)
def test_one_case_a_unit_is_the_paired_t_test_of_scipy(
    cases: Samples,
) -> None:
    found = judged(*scored(cases, shift=0, scale=1))
    if found.effect.method == "paired-t":
        differences = [sum(current) / 2 - sum(baseline) / 2 for baseline, current in cases]
        expected = stats.ttest_1samp(differences, 0, alternative="less")
        assert found.evidence.t == pytest.approx(expected.statistic)
        moved = sum(one.difference != 0 for one in found.compared)
        consent = exact_within_case(
            [CaseScores(baseline=tuple(old), current=tuple(new)) for old, new in cases]
        ).mid_p.worse
        p = expected.pvalue if moved > 5 else max(expected.pvalue, consent)
        assert found.evidence.p == pytest.approx(p)
