from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from pytest_llmeval.stats import selfcheck
from pytest_llmeval.stats.selfcheck import _differences, _t_alarms, self_check
from pytest_llmeval.stats.t_tests import paired_test


def suite(cases: int, repeats: int, *, seed: int = 0) -> list[list[float]]:
    random = np.random.default_rng(seed)
    rates = random.choice([0.15, 0.5, 0.9], size=(cases, 1))
    scores: list[list[float]] = (random.random((cases, repeats)) < rates).astype(float).tolist()
    return scores


def test_a_steady_suite_cries_wolf_as_rarely_as_the_level_says() -> None:
    found = self_check(suite(60, 10))
    assert found is not None
    assert (found.method, found.cases, found.left_out, found.deals) == ("paired-t", 60, 0, 2000)
    assert 0.03 < found.rate < 0.07


def test_the_error_bar_is_that_of_so_many_deals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selfcheck, "DEALS", 500)
    found = self_check(suite(30, 6))
    assert found is not None
    ends = stats.binomtest(found.alarms, found.deals).proportion_ci(0.95, method="wilson")
    assert found.interval == pytest.approx((ends.low, ends.high))


def test_the_same_run_gives_the_same_answer_in_any_order_of_cases_and_trials() -> None:
    cases = suite(20, 6)
    found, other = self_check(cases), self_check([case[::-1] for case in cases[::-1]])
    assert found is not None
    assert other is not None
    assert (found.alarms, found.interval) == (other.alarms, other.interval)


def test_few_cases_are_judged_by_the_exact_test() -> None:
    found = self_check(suite(4, 10))
    assert found is not None
    assert (found.method, found.deals) == ("exact-within-case", 200)
    assert found.rate <= 0.09


def test_cases_that_were_not_repeated_are_left_out() -> None:
    found = self_check([*suite(8, 4), [1.0], [0.0]])
    assert found is not None
    assert (found.cases, found.left_out) == (8, 2)


def test_a_run_without_repeats_cannot_be_checked() -> None:
    assert self_check([[1.0], [0.0]]) is None


def test_a_large_suite_is_dealt_less_often() -> None:
    found = self_check(suite(2000, 20))
    assert found is not None
    assert found.deals == 250


def test_drift_between_repeats_is_told() -> None:
    cases = np.array(suite(60, 6))
    cases[:, 4:] = 0.0
    found = self_check(cases.tolist())
    assert found is not None
    assert found.drift_p is not None
    assert found.drift_p < 0.001
    assert found.drifts


def test_every_trial_may_be_dealt_again() -> None:
    cases = [[0.0, 2.0], [0.0, 0.0, 3.0]]
    dealt = _differences([[case] for case in cases], np.random.default_rng(0), deals=400)
    assert dealt.shape == (400, 2)
    assert set(np.abs(dealt[:, 0]).tolist()) == {0.0, 1.0, 2.0}
    assert set(np.abs(dealt[:, 1]).tolist()) == {0.0, 1.0, 2.0, 3.0}
    assert np.mean(dealt == 0.0, axis=0) == pytest.approx([6 / 16, 0.345], abs=0.08)


def test_small_healthy_suites_are_not_called_ill() -> None:
    found = [self_check(suite(8, 4, seed=seed)) for seed in range(60)]
    ill = [check for check in found if check is not None and check.interval[0] > 0.05]
    assert len(ill) <= 6  # split into halves, 25 of these were


def test_a_healthy_suite_that_looks_ill_is_dealt_again_5000_times() -> None:
    # of 200 such suites the first 2,000 deals call these ill
    for seed in (6, 38, 76, 103, 164, 169):
        found = self_check(suite(40, 6, seed=seed))
        assert found is not None
        assert found.deals == 5000
        assert found.interval[0] <= 0.05


def test_a_suite_that_is_ill_stays_ill_when_it_is_dealt_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 8 cases of two draws each: so few outcomes that the t-test has .013 for .01
    monkeypatch.setattr(selfcheck, "DEALS", 20_000)
    found = self_check([[1.0, 0.0]] * 8, alpha=0.01)
    assert found is not None
    assert (found.deals, found.interval[0] > 0.01) == (5000, True)


def test_scores_that_must_be_shuffled_are_dealt_less_often() -> None:
    found = self_check([[0.1, 0.5, 0.3, 0.9], [0.2, 0.4, 0.4, 0.8]])
    assert found is not None
    assert (found.method, found.deals) == ("exact-within-case", 100)


def test_alarms_are_those_of_the_paired_test() -> None:
    random = np.random.default_rng(3)
    rows = random.choice([-0.5, 0.0, 0.5], size=(200, 8))
    rows[0], rows[1], rows[2] = -0.5, 0.5, 0.0  # all cases moved alike
    expected = sum(paired_test(row).tails.worse < 0.05 for row in rows)
    assert _t_alarms(rows, [1] * 8, alpha=0.05) == expected


def test_too_few_cases_that_moved_alike_are_no_alarm() -> None:
    assert _t_alarms(np.full((3, 6), -0.5), [1] * 6, alpha=0.01) == 0


# --- cases that share their chance ---------------------------------------------------------


def shared_draws(units: int, size: int, *, repeats: int = 6) -> tuple[list[list[float]], list[int]]:
    """Units in which all cases have the very same trials, and the unit of each case."""
    samples = [case for case in suite(units, repeats) for _ in range(size)]
    return samples, [unit for unit in range(units) for _ in range(size)]


def test_cases_of_one_unit_are_dealt_alike() -> None:
    samples, _ = shared_draws(2, 3)
    dealt = _differences([samples[:3], samples[3:]], np.random.default_rng(0), deals=50)
    assert (dealt[:, :3] == dealt[:, :1]).all()
    assert (dealt[:, 3:] == dealt[:, 3:4]).all()
    assert (dealt[:, 0] != dealt[:, 3]).any()


def test_alarms_are_those_of_the_test_over_units() -> None:
    random = np.random.default_rng(3)
    rows = random.choice([-0.5, 0.0, 0.5], size=(300, 12))
    sizes = [1, 2, 1, 1, 2, 1, 3, 1]
    labels = [unit for unit, size in enumerate(sizes) for _ in range(size)]
    expected = sum(paired_test(row, labels).tails.worse < 0.05 for row in rows)
    assert 0 < expected == _t_alarms(rows, sizes, alpha=0.05)


def test_units_cry_wolf_as_rarely_as_the_level_says() -> None:
    samples, units = shared_draws(40, 3, repeats=10)
    found = self_check(samples, units)
    assert found is not None
    assert (found.method, found.cases) == ("paired-t", 120)
    assert 0.03 < found.rate < 0.07


def test_few_units_are_judged_by_their_signs() -> None:
    found = self_check(*shared_draws(5, 4))
    assert found is not None
    assert (found.method, found.cases, found.deals) == ("sign-flip", 20, 200)
    assert self_check(*shared_draws(1, 4)).alarms == 0  # type: ignore[union-attr] - has repeats


def test_what_repeats_of_a_unit_share_is_no_drift() -> None:
    samples, units = shared_draws(10, 12)
    alone, tied = self_check(samples), self_check(samples, units)
    assert alone is not None
    assert tied is not None
    assert alone.drift_p is not None
    assert tied.drift_p is not None
    assert alone.drift_p < 0.001
    assert tied.drift_p > 0.05
    assert not tied.drifts


def test_order_of_cases_and_names_of_units_change_nothing() -> None:
    samples, units = shared_draws(10, 2)
    turned = self_check(samples[::-1], [9 - unit for unit in units[::-1]])
    assert turned == self_check(samples, units)
