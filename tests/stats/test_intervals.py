from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_llmeval.stats.intervals import mean_interval

quick = settings(deadline=None, max_examples=60)

samples = st.lists(st.integers(0, 10).map(lambda n: n / 10), min_size=2, max_size=20)


@quick
@given(samples.filter(lambda sample: len(set(sample)) > 1), st.floats(0.01, 0.4))
def test_interval_of_cases_is_the_t_interval_of_scipy(sample: list[float], alpha: float) -> None:
    expected = stats.ttest_1samp(sample, 0).confidence_interval(1 - 2 * alpha)
    found = mean_interval(sample, alpha=alpha)
    assert found.mean == pytest.approx(np.mean(sample))
    assert found.interval == pytest.approx((expected.low, expected.high))


def test_one_case_has_no_interval() -> None:
    assert mean_interval([0.5], alpha=0.05).interval is None


def test_cases_without_spread_have_no_interval() -> None:
    assert mean_interval([0.7, 0.7, 0.7], alpha=0.05).interval is None


def test_one_unit_of_several_cases_has_no_interval() -> None:
    found = mean_interval([0.5, 0.7, 0.9], [0, 0, 0], alpha=0.05)
    assert (found.interval, found.units) == (None, 1)


def test_fewer_than_two_effective_units_have_no_interval() -> None:
    found = mean_interval([0.5, 0.7, 0.9, 0.1], [0, 0, 0, 1], alpha=0.05)
    assert (found.interval, found.units) == (None, 2)


def test_cases_of_one_unit_widen_the_interval() -> None:
    sample = [0.1, 0.2, 0.5, 0.6, 0.8, 0.9]
    apart = mean_interval(sample, alpha=0.05).interval
    tied = mean_interval(sample, [0, 0, 1, 1, 2, 2], alpha=0.05).interval
    assert apart is not None
    assert tied is not None
    assert tied[1] - tied[0] > apart[1] - apart[0]
