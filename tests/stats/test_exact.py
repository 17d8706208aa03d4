from __future__ import annotations

import itertools
import math
import random
from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats import exact
from pytest_llmeval.stats.exact import (
    exact_within_case,
    least_within_case_p,
    sign_flip,
    split_count,
)
from pytest_llmeval.stats.sample import CaseScores, are_binary
from tests.stats.reference import vector

quick = settings(max_examples=60)


def case(baseline: Sequence[float], current: Sequence[float]) -> CaseScores:
    return CaseScores(baseline=tuple(map(float, baseline)), current=tuple(map(float, current)))


def cases_of(
    scores: st.SearchStrategy[float], *, most: int, equal: bool = False
) -> st.SearchStrategy[list[CaseScores]]:
    sizes = st.integers(1, 3)
    pair = st.tuples(sizes, sizes).flatmap(
        lambda n: st.builds(
            case,
            st.lists(scores, min_size=n[0], max_size=n[0]),
            st.lists(scores, min_size=n[0 if equal else 1], max_size=n[0 if equal else 1]),
        )
    )
    return st.lists(pair, min_size=1, max_size=most)


binary = st.sampled_from([0.0, 1.0])
eighths = st.integers(-8, 8).map(lambda n: n / 8)  # sums of them are free of rounding
tenths = st.integers(0, 10).map(lambda n: n / 10)


def by_hand(cases: Sequence[CaseScores], sign: int) -> tuple[float, float]:
    """Deal the scores of every case in every way, and count."""
    per_case = []
    for one in cases:
        pooled = one.baseline + one.current
        ways = itertools.combinations(range(len(pooled)), len(one.current))
        per_case.append(
            [
                sign
                * (
                    np.mean([pooled[at] for at in way])
                    - np.mean([pooled[at] for at in range(len(pooled)) if at not in way])
                )
                for way in ways
            ]
        )
    totals = np.array([sum(dealt) for dealt in itertools.product(*per_case)])
    seen = sum(one.difference(sign) for one in cases)
    return float(np.mean(totals <= seen + 1e-9)), float(np.mean(totals >= seen - 1e-9))


def test_difference_of_a_case_is_here_minus_baseline_times_the_sign() -> None:
    assert case([1, 0], [0, 0, 0, 1]).difference(1) == -0.25
    assert case([1, 0], [0, 0, 0, 1]).difference(-1) == 0.25


def test_eight_cases_of_five_repeats_agree_with_the_computed_reference() -> None:
    case8x5 = vector("engine_case8x5")
    sides = zip(case8x5["given"]["baseline"], case8x5["given"]["branch"], strict=True)
    found = exact_within_case([case(baseline, current) for baseline, current in sides])
    assert found.worse == pytest.approx(
        case8x5["expected"]["exact_within_case_p_one_sided"], rel=1e-9
    )


@quick
@given(cases_of(binary, most=3), st.sampled_from([1, -1]))
def test_binary_scores_are_counted_out_exactly(cases: list[CaseScores], sign: int) -> None:
    found = exact_within_case(cases, sign=sign)
    assert (found.worse, found.better) == pytest.approx(by_hand(cases, sign), rel=1e-9)


@quick
@given(cases_of(tenths, most=3), st.sampled_from([1, -1]))
def test_other_scores_are_split_in_every_way(cases: list[CaseScores], sign: int) -> None:
    found = exact_within_case(cases, sign=sign)
    assert (found.worse, found.better) == pytest.approx(by_hand(cases, sign), rel=1e-9)


@quick
@given(st.lists(eighths, min_size=2, max_size=4), st.lists(eighths, min_size=2, max_size=4))
def test_one_case_is_the_permutation_test_of_scipy(
    baseline: list[float], current: list[float]
) -> None:
    expected = stats.permutation_test(
        (current, baseline), lambda x, _: np.sum(x), alternative="less", n_resamples=np.inf
    )
    assert exact_within_case([case(baseline, current)]).worse == pytest.approx(expected.pvalue)


@quick
@given(cases_of(binary, most=4, equal=True))
def test_exchanging_sides_of_equal_repeats_exchanges_the_tails(cases: list[CaseScores]) -> None:
    found = exact_within_case(cases)
    mirrored = exact_within_case(
        [CaseScores(baseline=c.current, current=c.baseline) for c in cases]
    )
    assert found.worse == pytest.approx(mirrored.better, rel=1e-9)


@quick
@given(cases_of(tenths, most=3))
def test_a_constant_added_to_both_sides_changes_nothing(cases: list[CaseScores]) -> None:
    moved = [case([s + 3 for s in c.baseline], [s + 3 for s in c.current]) for c in cases]
    # 3 makes every score another number than 0 and 1, so the ways are counted out twice
    assert exact_within_case(moved).worse == pytest.approx(exact_within_case(cases).worse)


@quick
@given(cases_of(tenths, most=4), st.randoms(use_true_random=False))
def test_order_of_cases_and_trials_changes_nothing(
    cases: list[CaseScores], random: random.Random
) -> None:
    others = [
        case(random.sample(c.baseline, len(c.baseline)), random.sample(c.current, len(c.current)))
        for c in random.sample(cases, len(cases))
    ]
    assert exact_within_case(others) == exact_within_case(cases)


def test_cases_of_unlike_size_are_counted_out_together() -> None:
    cases = [case([1, 1, 1], [0, 1]), case([1, 1], [0]), case([1, 0, 1], [0, 0])]
    assert exact_within_case(cases).worse == pytest.approx(by_hand(cases, 1)[0], rel=1e-9)


def unlike_sizes(baseline: range, current: range, *, each: int) -> list[CaseScores]:
    random = np.random.default_rng(2)
    sizes = itertools.product(baseline, current, range(each))
    return [case(random.random(n) < 0.6, random.random(m) < 0.55) for n, m, _ in sizes]


def convolved(cases: list[CaseScores]) -> tuple[float, float]:
    """The chances of a lower total than was seen, and of that total, in whole fractions."""
    totals = {Fraction(0): Fraction(1)}
    for one in cases:
        n, m, hits = len(one.baseline), len(one.current), int(sum(one.baseline + one.current))
        dealt = {
            Fraction(x, m) - Fraction(hits - x, n): Fraction(
                math.comb(m, x) * math.comb(n, hits - x), math.comb(n + m, hits)
            )
            for x in range(max(0, hits - n), min(m, hits) + 1)
        }
        sums: defaultdict[Fraction, Fraction] = defaultdict(Fraction)
        for total, value in itertools.product(totals, dealt):
            sums[total + value] += totals[total] * dealt[value]
        totals = sums
    seen = sum(
        (
            Fraction(int(sum(c.current)), len(c.current))
            - Fraction(int(sum(c.baseline)), len(c.baseline))
            for c in cases
        ),
        Fraction(0),
    )
    lower = sum(chance for total, chance in totals.items() if total < seen)
    return float(lower), float(totals[seen])


@pytest.mark.unmeasured
@pytest.mark.parametrize("sign", [1, -1])
def test_hits_of_many_unlike_sizes_are_convolved(sign: int) -> None:
    cases = unlike_sizes(range(7, 9), range(3, 5), each=2)
    lower, same = convolved(cases)
    found = exact_within_case(cases, sign=sign)
    worse, better = (lower + same, 1 - lower)[::sign]
    assert (found.worse, found.better, found.seen) == pytest.approx(
        (worse, better, same), abs=1e-12
    )
    assert found.mid_p.worse == pytest.approx(worse - same / 2, abs=1e-12)
    assert found.mid_p.better == pytest.approx(better - same / 2, abs=1e-12)


def test_hits_of_twelve_unlike_sizes_that_all_fell_have_no_floor_of_shuffles() -> None:
    sizes = itertools.product(range(7, 11), range(3, 6), range(3))
    fallen = [case([1] * n, [0] * m) for n, m, _ in sizes]
    assert exact_within_case(fallen).worse == pytest.approx(
        math.prod(1 / math.comb(len(c.baseline) + len(c.current), len(c.current)) for c in fallen)
    )


def test_too_many_totals_of_unlike_sizes_are_drawn_instead() -> None:
    cases = unlike_sizes(range(7, 14), range(17, 20), each=8)
    found = exact_within_case(cases)
    differences = [c.difference(1) for c in cases]
    variances = [
        np.var(c.baseline + c.current, ddof=1) * (1 / len(c.baseline) + 1 / len(c.current))
        for c in cases
    ]
    normal = stats.norm.cdf(sum(differences) / np.sqrt(sum(variances)))
    assert found.worse == pytest.approx(normal, abs=0.02)
    assert found.worse * 10_000 == pytest.approx(round(found.worse * 10_000))
    assert exact_within_case(cases) == found
    mirrored = exact_within_case(cases, sign=-1)
    assert (mirrored.worse, mirrored.better) == (found.better, found.worse)


@quick
@given(cases_of(tenths, most=3))
def test_mid_p_counts_half_of_what_was_seen(cases: list[CaseScores]) -> None:
    found = exact_within_case(cases)
    assert found.seen == pytest.approx(found.worse + found.better - 1)
    assert found.mid_p.worse == pytest.approx((found.worse + 1 - found.better) / 2)


@pytest.mark.unmeasured
def test_no_two_cases_are_dealt_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[int] = []
    roll = np.roll
    monkeypatch.setattr(
        exact.np, "roll", lambda dealt, by: (places.append(int(by)), roll(dealt, by))[1]
    )
    random = np.random.default_rng(3)
    exact_within_case([case(random.random(6), random.random(3)) for _ in range(900)])
    assert len(set(places)) == len(places) == 900  # drawn with replacement 39 would be alike


def test_more_than_20_000_splits_are_counted_where_few_totals_differ() -> None:
    baseline, current = [0.1 * n for n in range(10)], [0.05, 0.31, 0.22, 0.18, 0.07]
    one = case(baseline, current)
    assert split_count([one, one]) > 20_000
    counted = exact_within_case([one])
    assert counted.worse == pytest.approx(by_hand([one], 1)[0])
    pair = exact_within_case([one, one])
    expected = two_alike(one)
    assert pair.worse == pytest.approx(expected, rel=1e-9)


def two_alike(one: CaseScores) -> float:
    pooled = np.array(one.baseline + one.current)
    dealt = np.array(list(itertools.combinations(range(15), 5)))
    current = pooled[dealt].sum(axis=1)
    differences = current / 5 - (pooled.sum() - current) / 10
    totals = np.add.outer(differences, differences)
    return float(np.mean(totals <= 2 * one.difference(1) + 1e-9))


def test_cases_with_too_many_splits_are_shuffled_by_themselves() -> None:
    random = np.random.default_rng(3)
    one = case(random.random(12), random.random(12) - 0.25)
    found = exact_within_case([one])
    expected = stats.ttest_ind(one.current, one.baseline, alternative="less").pvalue
    assert found.worse == pytest.approx(expected, abs=0.01)
    assert found.worse + found.better == pytest.approx(1.0, abs=0.001)


def test_cases_without_spread_change_no_shuffle() -> None:
    random = np.random.default_rng(8)
    cases = [case(random.random(10), random.random(5)) for _ in range(3)]
    level = [case([0.3] * 10, [0.3] * 2) for _ in range(50)]
    assert exact_within_case(cases + level) == exact_within_case(cases)


def test_cases_of_which_none_has_a_spread_show_nothing() -> None:
    found = exact_within_case([case([0.3, 0.3], [0.3]), case([0.7], [0.7])])
    assert (found.worse, found.better) == (1.0, 1.0)


@pytest.mark.parametrize("size", [(10, 1), (10, 5), (20, 10), (7, 7)])
def test_shuffles_of_many_cases_are_those_of_the_normal_law(size: tuple[int, int]) -> None:
    random = np.random.default_rng(9)
    cases = [case(random.random(size[0]), random.random(size[1])) for _ in range(300)]
    variances = [
        np.var(c.baseline + c.current, ddof=1) * (1 / size[0] + 1 / size[1]) for c in cases
    ]
    z = sum(c.difference(1) for c in cases) / np.sqrt(sum(variances))
    assert exact_within_case(cases).worse == pytest.approx(stats.norm.cdf(z), abs=0.015)


def test_rare_scores_are_shuffled_as_hits_are_counted_out() -> None:
    random = np.random.default_rng(10)
    hits = [case(random.random(10) < 0.05, random.random(1) < 0.05) for _ in range(400)]
    halves = [case([s / 2 for s in c.baseline], [s / 2 for s in c.current]) for c in hits]
    counted, shuffled = exact_within_case(hits), exact_within_case(halves)
    assert shuffled.worse == pytest.approx(counted.worse, abs=0.01)
    assert shuffled.better == pytest.approx(counted.better, abs=0.01)


def test_shuffles_are_the_same_in_whatever_order_cases_and_trials_come() -> None:
    random = np.random.default_rng(4)
    cases = [case(random.random(8), random.random(8)) for _ in range(4)]
    others = [case(c.baseline[::-1], c.current[::-1]) for c in cases[::-1]]
    assert exact_within_case(others) == exact_within_case(cases)


def test_least_shuffled_p_is_one_in_ten_thousand() -> None:
    broken = [case([0.9 + n / 100 for n in range(10)], [0.1] * 10) for _ in range(5)]
    assert exact_within_case(broken).worse == 1e-4


def test_least_p_of_binary_scores_keeps_the_baseline_as_it_is() -> None:
    cases = [case([1, 1, 0], [1, 1]), case([1, 1], [1])]
    broken = [case([1, 1, 0], [0, 0]), case([1, 1], [0])]
    assert least_within_case_p(cases) == pytest.approx(by_hand(broken, 1)[0])
    assert least_within_case_p(cases) == pytest.approx(3 / 10 / 3)


def test_least_p_where_lower_is_better_is_that_of_all_ones() -> None:
    cases = [case([0, 0, 1], [0, 0])]
    assert least_within_case_p(cases, sign=-1) == pytest.approx(3 / 10)


def test_least_p_of_a_baseline_that_never_passed_is_one() -> None:
    assert least_within_case_p([case([0, 0, 0], [1, 1])]) == pytest.approx(1.0)


def test_least_p_of_other_scores_is_one_split_of_all() -> None:
    assert least_within_case_p([case([0.1, 0.5, 0.4], [0.2, 0.2])]) == pytest.approx(1 / 10)


def test_least_p_of_shuffled_scores_is_one_in_ten_thousand() -> None:
    many = [case([0.1 * n for n in range(10)], [0.2] * 10)]
    assert least_within_case_p(many) == pytest.approx(1e-4)


def test_only_zeros_and_ones_are_binary() -> None:
    assert are_binary([case([0, 1], [1])])
    assert not are_binary([case([0, 1], [0.5])])
    assert not are_binary([case([-1, 1], [1])])


def test_sign_flips_of_eight_units_agree_with_the_computed_reference() -> None:
    case8x5 = vector("engine_case8x5")
    sides = zip(case8x5["given"]["baseline"], case8x5["given"]["branch"], strict=True)
    sums = [case(baseline, current).difference(1) for baseline, current in sides]
    assert sign_flip(sums).worse == pytest.approx(
        case8x5["expected"]["sign_flip_exact_p_one_sided"], abs=1e-12
    )


@quick
@given(st.lists(eighths, min_size=2, max_size=8))
def test_sign_flips_are_the_permutation_test_of_scipy(sums: list[float]) -> None:
    expected = stats.permutation_test(
        (sums,), np.sum, permutation_type="samples", alternative="less", n_resamples=np.inf
    )
    assert sign_flip(sums).worse == pytest.approx(expected.pvalue)


@quick
@given(st.lists(tenths.map(lambda t: t - 0.5), min_size=1, max_size=8))
def test_exchanging_the_sides_exchanges_the_tails_of_sign_flips(sums: list[float]) -> None:
    assert sign_flip(sums).worse == sign_flip([-s for s in sums]).better


def test_twelve_units_are_flipped_in_every_way_and_thirteen_are_drawn() -> None:
    assert sign_flip([-0.1] * 12).worse == 0.5**12
    drawn = 10_000 * sign_flip([-0.1] * 13).worse  # counted out it were 1.22
    assert drawn == pytest.approx(round(drawn))
    assert 1 <= drawn <= 8


def test_drawn_signs_agree_with_all_signs() -> None:
    sums = [-0.3, 0.1, -0.2, 0.25, -0.4, 0.15, -0.05, 0.3, -0.1, -0.35, 0.2, -0.15, -0.25]
    totals = np.array(list(itertools.product((-1, 1), repeat=13))) @ np.array(sums)
    found = sign_flip(sums)
    assert found.worse == pytest.approx(np.mean(totals <= sum(sums) + 1e-9), abs=0.01)
    assert sign_flip(sums[::-1]) == found


# large scores, whose totals are rounded by more than small ones


def test_the_split_that_was_seen_counts_itself_however_large_the_scores() -> None:
    case = CaseScores(
        baseline=(95406760.08093376, 114305232.29356316), current=(31127713.472707957,)
    )
    assert exact_within_case([case]).worse == pytest.approx(1 / 3)


def test_the_signs_that_were_seen_count_themselves_however_large_the_sums() -> None:
    sums = [-1141441.6666666667, -2439787.3333333335, -843331.5714285715, -2063157.0]
    assert sign_flip(sums).worse == pytest.approx(1 / 16)


def test_thousands_of_cases_are_counted_out_as_the_normal_law_says() -> None:
    random = np.random.default_rng(6)
    rates = random.beta(4, 1.5, size=(3000, 1))
    baseline, current = ((random.random((3000, 6)) < rates).astype(float) for _ in range(2))
    cases = [case(t, h) for t, h in zip(baseline.tolist(), current.tolist(), strict=True)]
    both = np.concatenate([baseline, current], axis=1)
    spread = np.sqrt(np.sum(both.var(axis=1, ddof=1)) * 2 / 6)
    # half a hit for continuity
    z = (sum(c.difference(1) for c in cases) + 1 / 6) / spread
    assert exact_within_case(cases).worse == pytest.approx(stats.norm.cdf(z), abs=0.002)


def test_what_is_never_reached_is_left_out_without_a_trace() -> None:
    cases = [case([1] * 9, [0] * 9)] * 40  # the ends are as rare as 1e-187
    found = exact_within_case(cases)
    assert found.worse < 1e-99
    assert found.better == pytest.approx(1.0)
    level = [case([1, 0, 1], [1, 0, 1])] * 500
    middle = exact_within_case(level)
    assert middle.worse == pytest.approx(middle.better, rel=1e-9)


def test_many_units_are_drawn_in_parts_of_a_bounded_size() -> None:
    sums = np.random.default_rng(7).normal(size=1000)
    z = sums.sum() / np.sqrt(np.sum(sums**2))
    assert sign_flip(sums).worse == pytest.approx(stats.norm.cdf(z), abs=0.02)
