from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats.intervals import unit_sums
from pytest_llmeval.stats.methods import TESTS
from pytest_llmeval.stats.sample import CaseScores, Sample
from pytest_llmeval.stats.t_tests import paired_test
from tests.stats.reference import two_sided

quick = settings(max_examples=15)

ONE_DRAW = ("mcnemar", "mcnemar-exact", "mcnemar-mid-p")
UNPAIRED = ("chi-square", "chi-square-plain", "two-proportion-z")


def case(baseline: Sequence[float], current: Sequence[float]) -> CaseScores:
    return CaseScores(baseline=tuple(map(float, baseline)), current=tuple(map(float, current)))


def mirrored(sample: Sample) -> Sample:
    cases = [CaseScores(baseline=c.current, current=c.baseline) for c in sample.cases]
    return Sample(cases=cases, units=sample.units, sign=sample.sign)


@st.composite
def samples(draw: st.DrawFn, *, single: bool = False) -> Sample:
    """Hits and misses, as many trials of each case on both sides."""
    repeats = 1 if single else draw(st.integers(2, 4))
    score = st.integers(0, 1).map(float)
    side = st.lists(score, min_size=repeats, max_size=repeats)
    cases = draw(st.lists(st.builds(case, side, side), min_size=2, max_size=8))
    return Sample(cases=cases, sign=draw(st.sampled_from([1, -1])))


def fitting(name: str) -> st.SearchStrategy[Sample]:
    return samples(single=name in ONE_DRAW)


@pytest.mark.parametrize("name", TESTS)
@quick
@given(data=st.data())
def test_exchanging_the_sides_mirrors_the_result(name: str, data: st.DataObject) -> None:
    sample = data.draw(fitting(name))
    found, other = TESTS[name].run(sample), TESTS[name].run(mirrored(sample))
    assert found.tails.worse == pytest.approx(other.tails.better, rel=1e-9)


@pytest.mark.parametrize("name", TESTS)
@quick
@given(data=st.data())
def test_order_of_cases_changes_nothing(name: str, data: st.DataObject) -> None:
    sample = data.draw(fitting(name))
    cases = list(sample.cases)
    data.draw(st.randoms(use_true_random=False)).shuffle(cases)
    found = TESTS[name].run(sample)
    other = TESTS[name].run(Sample(cases=cases, sign=sample.sign))
    assert found.tails.worse == pytest.approx(other.tails.worse, rel=1e-7)


@pytest.mark.parametrize("name", [name for name in TESTS if name != "welch"])
@quick
@given(data=st.data())
def test_order_of_trials_changes_nothing(name: str, data: st.DataObject) -> None:
    sample = data.draw(fitting(name))
    cases = [case(c.baseline[::-1], c.current[::-1]) for c in sample.cases]
    other = TESTS[name].run(Sample(cases=cases, sign=sample.sign))
    assert TESTS[name].run(sample).tails.worse == pytest.approx(other.tails.worse, rel=1e-7)


@pytest.mark.parametrize("name", TESTS)
@quick
@given(data=st.data())
def test_the_other_direction_is_worse_where_lower_is_better(name: str, data: st.DataObject) -> None:
    sample = data.draw(fitting(name))
    turned = TESTS[name].run(Sample(cases=sample.cases, sign=-sample.sign))
    assert TESTS[name].run(sample).tails.worse == pytest.approx(turned.tails.better, rel=1e-9)


@pytest.mark.parametrize("name", TESTS)
@quick
@given(data=st.data())
def test_every_figure_is_a_finite_number_or_none(name: str, data: st.DataObject) -> None:
    found = TESTS[name].run(data.draw(fitting(name)))
    figures = [found.tails.worse, found.tails.better]
    figures += [found.statistic or 0.0, found.dof or 0.0, *(found.interval or ())]
    assert all(map(math.isfinite, figures))
    assert all(0 <= p <= 1 for p in figures[:2])


@pytest.mark.parametrize("name", ["sign-flip", "exact-within-case", "welch"])
@quick
@given(sample=samples(), shift=st.integers(-3, 3), power=st.integers(-2, 3))
def test_shift_and_scale_of_the_scores_change_no_p(
    name: str, sample: Sample, shift: int, power: int
) -> None:
    moved = [
        case(
            [2.0**power * (x + shift) for x in c.baseline],
            [2.0**power * (x + shift) for x in c.current],
        )
        for c in sample.cases
    ]
    assume(sum(len(c.baseline) for c in moved) <= 8)
    found = TESTS[name].run(Sample(cases=moved, sign=sample.sign))
    assert found.tails.worse == pytest.approx(TESTS[name].run(sample).tails.worse, rel=1e-6)


def test_cases_of_one_cluster_are_one_unit() -> None:
    cases = [case([1, 1], [0, 1]), case([1, 1], [0, 0]), case([1, 0], [1, 0]), case([1, 1], [1, 1])]
    clustered = Sample(cases=cases, units=[0, 0, 1, 1])
    assert paired_test(clustered.differences, clustered.units).dof == 1
    assert TESTS["sign-flip"].run(clustered).tails.worse == 0.5


def test_clusters_of_one_size_are_the_t_test_of_their_sums() -> None:
    random = np.random.default_rng(1)
    cases = [case(random.random(3), random.random(3)) for _ in range(12)]
    units = [at // 2 for at in range(12)]
    sums = unit_sums([c.difference(1) for c in cases], units)
    expected = stats.ttest_1samp(sums, 0, alternative="less")
    found = paired_test([c.difference(1) for c in cases], units)
    assert (found.statistic, found.dof) == (pytest.approx(expected.statistic), expected.df)
    assert found.tails.worse == pytest.approx(expected.pvalue)


def test_welch_compares_the_means_of_whole_repeats() -> None:
    cases = [case([1, 0, 1], [0, 0]), case([1, 1, 0], [0, 1])]
    found = TESTS["welch"].run(Sample(cases=cases))
    expected = stats.ttest_ind([0.0, 0.5], [1.0, 0.5, 0.5], equal_var=False)
    assert found.statistic == pytest.approx(expected.statistic)
    assert two_sided(found.tails) == pytest.approx(expected.pvalue)


@pytest.mark.parametrize("name", UNPAIRED)
def test_unpaired_tests_compare_the_pooled_rates(name: str) -> None:
    apart = [case([1, 1, 1, 1], [0]), case([0], [1, 1, 1, 0])]
    pooled = [case([1, 1, 1, 1, 0], [0, 1, 1, 1, 0])]
    assert TESTS[name].run(Sample(cases=apart)) == TESTS[name].run(Sample(cases=pooled))


def test_two_proportion_z_has_no_degrees_of_freedom_and_the_sign_of_the_drop() -> None:
    fell = Sample(cases=[case([1, 1, 1, 0], [0, 0, 1, 0])] * 3)
    found = TESTS["two-proportion-z"].run(fell)
    assert found.dof is None
    assert found.statistic is not None
    assert found.statistic < 0
    turned = TESTS["two-proportion-z"].run(Sample(cases=fell.cases, sign=-1))
    assert turned.statistic == pytest.approx(-found.statistic)


@pytest.mark.parametrize("name", TESTS)
def test_a_clear_drop_is_worse_by_every_test_that_fits(name: str) -> None:
    single = name in ONE_DRAW
    cases = [case([1.0], [0.0]) if single else case([1] * 5, [0, 0, 0, 0, 1])] * 11
    cases += [case([1.0], [1.0]) if single else case([1, 1, 1, 1, 1], [1, 1, 1, 1, 1])]
    sample = Sample(cases=cases)
    found = TESTS[name].run(sample)
    assert TESTS[name].why_not(sample) == ""
    assert found.tails.worse < 0.01 < found.tails.better


@pytest.mark.parametrize(
    ("name", "sample", "why"),
    [
        ("exact-within-case", Sample(cases=[case([1], [0])] * 2, units=[3, 3]), "form 1 units"),
        ("mcnemar", Sample(cases=[case([1, 1], [0])]), "1 cases were repeated"),
        ("mcnemar-exact", Sample(cases=[case([0.5], [0])]), "neither 0 nor 1"),
        ("cmh", Sample(cases=[case([0.5], [0])]), "neither 0 nor 1"),
        ("welch", Sample(cases=[case([1, 1], [0, 0]), case([1], [0])]), "between 1 and 2"),
        ("welch", Sample(cases=[case([1, 1], [0])]), "the run has only 1"),
    ],
)
def test_a_test_says_why_it_does_not_fit(name: str, sample: Sample, why: str) -> None:
    assert why in TESTS[name].why_not(sample)


def test_units_of_a_case_each_fit_a_test_of_independent_cases() -> None:
    sample = Sample(cases=[case([1, 1], [0, 1])] * 2, units=[7, 3])
    assert TESTS["exact-within-case"].why_not(sample) == ""


def test_shuffling_is_seeded_by_the_scores() -> None:
    random = np.random.default_rng(1)
    cases = [case(random.random(9), random.random(9)) for _ in range(3)]
    run = TESTS["exact-within-case"].run
    assert run(Sample(cases=cases)) == run(Sample(cases=cases))
