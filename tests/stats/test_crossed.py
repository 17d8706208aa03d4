from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from pytest_llmeval.stats.t_tests import crossed_test, mean_squares, paired_test

quick = settings(max_examples=60)
Tables = NDArray[np.float64]


@st.composite
def tables(draw: st.DrawFn) -> Tables:
    shape = draw(st.integers(2, 8)), draw(st.integers(2, 5))
    numbers = draw(
        st.lists(st.integers(-20, 20), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1])
    )
    return np.array(numbers, dtype=float).reshape(shape) / 20


def test_mean_squares_are_those_of_an_analysis_of_variance() -> None:
    table = np.random.default_rng(3).normal(size=(7, 4))
    cases, wordings = np.indices(table.shape)
    data = pd.DataFrame({"d": table.ravel(), "case": cases.ravel(), "wording": wordings.ravel()})
    expected = anova_lm(ols("d ~ C(case) + C(wording)", data).fit())["mean_sq"]
    found = mean_squares(table)
    assert found == pytest.approx(tuple(expected))


@quick
@given(tables())
def test_exchanging_the_sides_of_a_crossed_table_mirrors_the_result(table: Tables) -> None:
    found, other = crossed_test(table), crossed_test(-table)
    assert found.tails.worse == pytest.approx(other.tails.better, rel=1e-9)


@quick
@given(tables(), st.randoms(use_true_random=False))
def test_order_of_cases_and_wordings_changes_nothing(table: Tables, random: object) -> None:
    other = crossed_test(table[::-1, ::-1])
    assert crossed_test(table).tails.worse == pytest.approx(other.tails.worse, rel=1e-7)


@quick
@given(tables(), st.floats(0.1, 100))
def test_scale_of_a_crossed_table_changes_no_p(table: Tables, scale: float) -> None:
    found, scaled = crossed_test(table), crossed_test(scale * table)
    assert found.tails.worse == pytest.approx(scaled.tails.worse, rel=1e-6)


@quick
@given(tables())
def test_nothing_that_a_crossed_table_gives_is_not_a_number(table: Tables) -> None:
    found = crossed_test(table)
    figures = [found.standard_error, found.tails.worse, found.tails.better]
    assert np.isfinite(figures + list(found.interval or ())).all()


@quick
@given(tables())
def test_the_spread_is_never_below_what_cases_or_wordings_alone_give(table: Tables) -> None:
    of_cases, of_wordings, _ = mean_squares(table)
    least = np.sqrt(max(of_cases, of_wordings) / table.size)
    assert crossed_test(table).standard_error >= least * (1 - 1e-9) - 1e-12


@quick
@given(tables())
def test_degrees_of_freedom_are_never_below_those_of_the_fewer_factor_alone(table: Tables) -> None:
    dof = crossed_test(table).dof
    assert dof is None or dof >= min(table.shape) - 1


def test_two_wordings_that_disagree_leave_about_one_degree_of_freedom() -> None:
    table = np.column_stack([np.full(30, -0.4), np.zeros(30)])
    table += np.random.default_rng(2).normal(scale=0.02, size=table.shape)
    assert crossed_test(table).dof == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize(
    ("shift", "worse", "better"), [(-0.1, 0.125, 1.0), (0.1, 1.0, 0.125), (0.0, 1.0, 1.0)]
)
def test_a_table_without_spread_has_the_p_of_as_many_like_signs_as_wordings(
    shift: float, worse: float, better: float
) -> None:
    found = crossed_test(np.full((6, 3), shift))
    assert (found.statistic, found.dof, found.interval, found.standard_error) == (
        None,
        None,
        None,
        0.0,
    )
    assert (found.tails.worse, found.tails.better) == (worse, better)


def test_a_wording_effect_is_not_taken_for_a_finding() -> None:
    random = np.random.default_rng(4)
    alarms = naive = 0
    for _ in range(400):
        table = random.normal(scale=0.08, size=3) + random.normal(scale=0.25, size=(50, 3))
        alarms += crossed_test(table).tails.worse < 0.05
        naive += paired_test(table.mean(axis=1)).tails.worse < 0.05
    assert alarms / 400 < 0.08
    assert naive / 400 > 0.12
