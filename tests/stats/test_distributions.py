"""Quantiles and tails of our own against those of scipy."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import special

from pytest_llmeval.stats.distributions import chi_square_tail, normal_quantile, student_quantile

quick = settings(max_examples=300)

# whole ones of units and repeats up to a suite of 100,000 trials, others of pooled variances
dofs = st.integers(1, 100_000) | st.floats(1, 100) | st.floats(1, 100_000)
alphas = st.floats(1e-6, 0.4999) | st.sampled_from([0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.2])


@quick
@given(dofs, alphas)
@example(1, 1e-6)
@example(200, 0.05)
@example(199.99, 0.05)
def test_quantile_of_student_is_that_of_scipy(dof: float, alpha: float) -> None:
    assert student_quantile(dof, alpha) == pytest.approx(-special.stdtrit(dof, alpha), rel=1e-10)


@quick
@given(st.integers(1, 20_000))
def test_quantile_of_the_usual_level_is_that_of_scipy_for_every_dof(dof: int) -> None:
    assert student_quantile(dof, 0.05) == pytest.approx(special.stdtrit(dof, 0.95), rel=1e-10)


@quick
@given(alphas)
def test_quantile_of_the_normal_distribution_is_that_of_scipy(alpha: float) -> None:
    assert normal_quantile(alpha) == pytest.approx(-special.ndtri(alpha), rel=1e-10)


@quick
@given(st.integers(1, 1000), st.floats(0, 5000))
@example(3, 0.0)
@example(4, 0.0)
@example(5, 1e6)
@example(9, 1e-300)
def test_tail_of_chi_square_is_that_of_scipy(dof: int, value: float) -> None:
    expected = special.chdtrc(dof, value)
    assert chi_square_tail(dof, value) == pytest.approx(expected, rel=1e-10, abs=1e-300)


@quick
@given(dofs, st.floats(0.001, 0.49))
def test_what_lies_beyond_a_quantile_has_its_chance(dof: float, alpha: float) -> None:
    assert special.stdtr(dof, -student_quantile(dof, alpha)) == pytest.approx(alpha, rel=1e-9)
