from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats import contingency_tables
from statsmodels.stats.proportion import proportions_ztest

from pytest_llmeval.stats.methods import (
    Table,
    chi_square_root,
    cochran_mantel_haenszel_root,
    mcnemar_exact,
    mcnemar_root,
    normal_tails,
)
from tests.stats.reference import two_sided

quick = settings(max_examples=60)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    baseline, current = draw(st.integers(1, 60)), draw(st.integers(1, 60))
    return Table(
        baseline_hits=draw(st.integers(0, baseline)),
        baseline_trials=baseline,
        current_hits=draw(st.integers(0, current)),
        current_trials=current,
    )


def unlike(table: Table) -> bool:
    return 0 < table.hits < table.trials


def as_counts(table: Table) -> list[list[int]]:
    return [
        [table.current_hits, table.current_trials - table.current_hits],
        [table.baseline_hits, table.baseline_trials - table.baseline_hits],
    ]


def mirrored(table: Table) -> Table:
    return Table(
        baseline_hits=table.current_hits,
        baseline_trials=table.current_trials,
        current_hits=table.baseline_hits,
        current_trials=table.baseline_trials,
    )


@quick
@given(tables().filter(unlike), st.booleans())
def test_chi_square_is_that_of_scipy(table: Table, corrected: bool) -> None:
    expected = stats.chi2_contingency(as_counts(table), correction=corrected)
    root = chi_square_root(table, corrected=corrected)
    assert root is not None
    assert root**2 == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
    assert two_sided(normal_tails(root)) == pytest.approx(expected.pvalue, rel=1e-9)


@quick
@given(tables().filter(unlike))
def test_two_proportion_z_is_that_of_statsmodels(table: Table) -> None:
    hits, trials = (
        [table.current_hits, table.baseline_hits],
        [table.current_trials, table.baseline_trials],
    )
    z, p = proportions_ztest(hits, trials, alternative="smaller")
    found = chi_square_root(table, corrected=False)
    assert found is not None
    assert found == pytest.approx(z, rel=1e-9, abs=1e-12)
    assert normal_tails(found).worse == pytest.approx(p, rel=1e-9)


@quick
@given(tables().filter(unlike), st.booleans())
def test_exchanging_the_sides_of_a_table_turns_the_sign(table: Table, corrected: bool) -> None:
    found = chi_square_root(table, corrected=corrected)
    other = chi_square_root(mirrored(table), corrected=corrected)
    assert found is not None
    assert other == pytest.approx(-found, rel=1e-9)


@pytest.mark.parametrize("hits", [0, 5])
def test_a_table_of_trials_that_are_all_alike_shows_nothing(hits: int) -> None:
    table = Table(baseline_hits=hits, baseline_trials=5, current_hits=hits, current_trials=5)
    assert chi_square_root(table) is chi_square_root(table, corrected=False) is None


def test_yates_correction_never_goes_beyond_zero() -> None:
    table = Table(baseline_hits=2, baseline_trials=5, current_hits=2, current_trials=6)
    assert chi_square_root(table) == 0.0
    assert two_sided(normal_tails(0.0)) == 1.0


@quick
@given(st.integers(0, 80), st.integers(0, 80))
def test_mcnemar_is_that_of_statsmodels(fell: int, rose: int) -> None:
    assume(fell != rose)
    expected = contingency_tables.mcnemar([[9, fell], [rose, 7]], exact=False, correction=True)
    root = mcnemar_root(fell, rose)
    assert root is not None
    assert root**2 == pytest.approx(expected.statistic, rel=1e-9)
    assert two_sided(normal_tails(root)) == pytest.approx(expected.pvalue, rel=1e-9)


@quick
@given(st.integers(0, 80), st.integers(0, 80))
def test_exact_mcnemar_is_that_of_statsmodels(fell: int, rose: int) -> None:
    assume(fell + rose)
    expected = contingency_tables.mcnemar([[9, fell], [rose, 7]], exact=True).pvalue
    assert two_sided(mcnemar_exact(fell, rose)) == pytest.approx(expected, rel=1e-9)


@quick
@given(st.integers(0, 80), st.integers(1, 80))
def test_mid_p_counts_what_was_seen_by_half(fell: int, rose: int) -> None:
    seen = stats.binom.pmf(rose, fell + rose, 0.5)
    exact, mid = mcnemar_exact(fell, rose), mcnemar_exact(fell, rose, mid=True)
    assert exact.worse - mid.worse == pytest.approx(seen / 2, rel=1e-9)
    assert mid.worse + mid.better == pytest.approx(1.0)


def test_more_pairs_that_fell_than_rose_are_worse() -> None:
    assert (mcnemar_root(12, 3) or 0.0) < -1.645
    assert mcnemar_exact(12, 3).worse < 0.05 < mcnemar_exact(12, 3).better


def test_as_many_pairs_that_fell_as_rose_differ_by_nothing() -> None:
    assert mcnemar_root(7, 7) == 0.0
    assert two_sided(mcnemar_exact(7, 7)) == 1.0


def test_without_a_pair_that_differs_nothing_is_shown() -> None:
    assert mcnemar_root(0, 0) is None
    assert two_sided(mcnemar_exact(0, 0)) == 1.0


def test_thousands_of_pairs_are_counted_out() -> None:
    assert mcnemar_exact(5000, 5000, mid=True).worse == pytest.approx(0.5)


@quick
@given(st.lists(tables(), min_size=1, max_size=6))
def test_cmh_is_that_of_statsmodels(strata: list[Table]) -> None:
    assume(any(map(unlike, strata)))
    expected = contingency_tables.StratifiedTable(
        [[[float(n) for n in row] for row in as_counts(table)] for table in strata]
    ).test_null_odds(correction=False)
    root = cochran_mantel_haenszel_root(strata)
    assert root is not None
    assert root**2 == pytest.approx(expected.statistic, rel=1e-9, abs=1e-12)
    assert two_sided(normal_tails(root)) == pytest.approx(expected.pvalue, rel=1e-7)


@quick
@given(st.lists(tables(), min_size=1, max_size=6))
def test_exchanging_the_sides_and_the_order_of_strata_mirrors_cmh(strata: list[Table]) -> None:
    found = cochran_mantel_haenszel_root(strata)
    other = cochran_mantel_haenszel_root([mirrored(table) for table in reversed(strata)])
    assert found is None or other == pytest.approx(-found, rel=1e-7, abs=1e-9)
    assert (found is None) == (other is None)


def test_cmh_of_strata_that_are_all_alike_shows_nothing() -> None:
    table = Table(baseline_hits=3, baseline_trials=3, current_hits=2, current_trials=2)
    assert cochran_mantel_haenszel_root([table, table]) is None
