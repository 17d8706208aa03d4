from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pytest_llmeval.stats.multiplicity import benjamini_hochberg, holm
from tests.stats.reference import vector

quick = settings(max_examples=60)

p_values = st.lists(st.floats(0, 1), max_size=8)


def test_adjusted_p_values_agree_with_statsmodels_multipletests() -> None:
    holms = vector("holm")
    assert holm(holms["given"]["p"]) == pytest.approx(holms["expected"]["adjusted"], abs=1e-12)


def test_adjusted_p_values_keep_the_order_in_which_they_were_given() -> None:
    assert holm([0.04, 0.01]) == pytest.approx([0.04, 0.02])


def test_no_test_at_all_adjusts_nothing() -> None:
    assert holm([]) == ()


def test_adjusted_p_values_never_exceed_one() -> None:
    assert holm([0.6, 0.9]) == (1.0, 1.0)


def test_a_larger_p_never_has_a_smaller_adjusted_one() -> None:
    assert holm([0.02, 0.021]) == pytest.approx([0.04, 0.04])


@quick
@given(p_values)
def test_adjusting_never_makes_a_p_smaller(values: list[float]) -> None:
    assert all(after >= before for before, after in zip(values, holm(values), strict=True))


@quick
@given(p_values)
def test_order_of_the_tests_does_not_matter(values: list[float]) -> None:
    assert holm(values[::-1])[::-1] == holm(values)


@quick
@given(p_values.filter(len), st.floats(0.001, 0.2))
def test_benjamini_hochberg_agrees_with_statsmodels(values: list[float], alpha: float) -> None:
    expected = multipletests(values, alpha=alpha, method="fdr_bh")[1]
    assert benjamini_hochberg(values) == pytest.approx(list(expected), rel=1e-9)


@settings(max_examples=10)  # theirs takes 50 ms
@given(p_values.filter(len))
def test_holm_agrees_with_statsmodels(values: list[float]) -> None:
    assert holm(values) == pytest.approx(list(multipletests(values, method="holm")[1]), rel=1e-9)


@quick
@given(p_values)
def test_benjamini_hochberg_lies_between_the_p_and_holm(values: list[float]) -> None:
    for p, found, strict in zip(values, benjamini_hochberg(values), holm(values), strict=True):
        assert p <= found * (1 + 1e-12)
        assert found <= strict * (1 + 1e-12)


def test_no_test_at_all_adjusts_nothing_by_benjamini_hochberg_either() -> None:
    assert benjamini_hochberg([]) == ()
