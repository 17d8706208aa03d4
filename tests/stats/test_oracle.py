"""Every reference value, each held against the function that is meant to give it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from statsmodels.formula.api import mixedlm

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.detection import (
    POWER,
    PlannedTest,
    detectable_shift,
    smallest_score_drop,
)
from pytest_llmeval.stats.exact import exact_within_case, sign_flip
from pytest_llmeval.stats.expected import pooled_prediction, repeat_prediction
from pytest_llmeval.stats.intervals import unit_mean
from pytest_llmeval.stats.methods import (
    TESTS,
    Table,
    chi_square_root,
    cochran_mantel_haenszel_root,
    mcnemar_exact,
    mcnemar_root,
    normal_tails,
)
from pytest_llmeval.stats.multiplicity import benjamini_hochberg, e_value, holm, spending_bounds
from pytest_llmeval.stats.sample import CaseScores, Sample
from pytest_llmeval.stats.suite_size import (
    Components,
    Design,
    cases_needed,
    detectable_drop,
    estimated_components,
    power_of,
)
from pytest_llmeval.stats.t_tests import crossed_test, mean_squares, paired_test, student_tails
from tests.gate.builders import a_case, a_run, compared, scored_runs
from tests.stats import ab_post
from tests.stats.reference import Figures, two_sided, vector, vectors

Proof = Callable[[Any, Figures, Any], None]
PROOFS: dict[str, Proof] = {}


def proves(*names: str) -> Callable[[Proof], Proof]:
    def enter(proof: Proof) -> Proof:
        assert not PROOFS.keys() & set(names)
        PROOFS.update(dict.fromkeys(names, proof))
        return proof

    return enter


def cases_of(baseline: list[list[Any]], current: list[list[Any]]) -> list[CaseScores]:
    """Errored trials, null in the file, are left out."""
    return [
        CaseScores(
            baseline=tuple(float(score) for score in one if score is not None),
            current=tuple(float(score) for score in other if score is not None),
        )
        for one, other in zip(baseline, current, strict=True)
    ]


def case8x5() -> list[CaseScores]:
    given = vector("engine_case8x5")["given"]
    return cases_of(given["baseline"], given["branch"])


def of_counts(given: Any) -> tuple[float, float]:
    table = Table(
        baseline_hits=given["k1"],
        baseline_trials=given["n1"],
        current_hits=given["k2"],
        current_trials=given["n2"],
    )
    root = chi_square_root(table, corrected=given["yates"])
    assert root is not None
    return root**2, two_sided(normal_tails(root))


BALL = [name for name in vectors() if name.startswith("ball_")]
REPRODUCED = [name for name in BALL if "k1" in vector(name)["given"]]


@proves(*REPRODUCED)
def printed_cell(given: Any, expected: Figures, tolerance: Any) -> None:
    statistic, p = of_counts(given)
    chi2_printed, p_printed = expected["printed"]
    assert statistic == pytest.approx(expected["chi2"], abs=tolerance["chi2_exact"])
    assert statistic == pytest.approx(chi2_printed, abs=tolerance["chi2_vs_printed"])
    assert p == pytest.approx(expected["p"], rel=tolerance["p_rel"], abs=0)
    assert p == pytest.approx(p_printed, rel=tolerance["p_vs_printed_rel"], abs=0)


@proves(*(name for name in BALL if name not in REPRODUCED))
def cell_that_other_counts_reproduce(given: Any, expected: Figures, tolerance: Any) -> None:
    first, second = (round(percent * given["n"] / 100) for percent in given["pct"])
    n = given["n"]
    for yates, key in ((True, "at_n500_yates"), (False, "at_n500_plain")):
        as_printed = {"k1": first, "n1": n, "k2": second, "n2": n, "yates": yates}
        statistic, p = of_counts(as_printed)
        assert (round(statistic, 4), p) == pytest.approx(expected[key], rel=1e-9, abs=0)
        printed = pytest.approx(expected["printed"], rel=0.005, abs=0)
        assert (statistic, p) != printed, "these counts would do"
    likely = expected["likely"]
    statistic, p = of_counts(likely)
    assert (statistic, p) == pytest.approx((likely["chi2"], likely["p"]), rel=1e-9, abs=0)
    assert statistic == pytest.approx(expected["printed"][0], abs=tolerance["chi2_vs_printed"])
    assert p == pytest.approx(expected["printed"][1], rel=0.01, abs=0)


@proves("mcnemar_opus_gpt4t")
def pairs_of_single_draws(given: Any, expected: Figures, tolerance: Any) -> None:
    root = mcnemar_root(given["b"], given["c"])
    assert root is not None
    assert root**2 == pytest.approx(expected["chi2"], rel=1e-12)
    assert root**2 == pytest.approx(expected["printed_chi2"], abs=tolerance["abs"])
    assert two_sided(normal_tails(root)) == pytest.approx(expected["p"], rel=1e-9)
    exact = mcnemar_exact(given["b"], given["c"])
    assert two_sided(exact) == pytest.approx(expected["p_exact"], rel=1e-9)
    middle = mcnemar_exact(given["b"], given["c"], mid=True)
    assert two_sided(middle) == pytest.approx(expected["p_midp"], rel=1e-9)
    assert root**2 > expected["critical_3841"] == stats.chi2.ppf(0.95, 1)


@proves("welch_opus_gpt4t_p_from_t")
def p_of_a_t(given: Any, expected: Figures, tolerance: Any) -> None:
    p = two_sided(student_tails(given["t"], given["df"]))
    assert p == pytest.approx(expected["p_two_sided"], abs=tolerance["abs"])
    assert p == pytest.approx(expected["printed"], abs=tolerance["abs"])


@proves("blackwell_azure_openai_t")
def p_of_two_samples_of_ninety(given: Any, expected: Figures, tolerance: Any) -> None:
    p = two_sided(student_tails(given["t"], 2 * given["n"] - 2))
    assert p == pytest.approx(expected["p_two_sided_df178"], rel=1e-9)
    assert p == pytest.approx(expected["printed"], abs=tolerance["abs"])


@proves("ab_post_truth")
def true_rates_of_the_post(given: Any, expected: Figures, tolerance: Any) -> None:
    assert (given["seed"], given["m"]) == (ab_post.SEED, ab_post.CASES)
    rates, _ = ab_post.true_rates()
    assert rates.mean() == pytest.approx(expected["control"], abs=tolerance["abs"])
    treatment = rates.mean() + given["effect"]
    assert treatment == pytest.approx(expected["treatment"], abs=tolerance["abs"])
    assert [int(np.sum(rates == rate)) for rate in ab_post.RATES] == expected["counts"]


@proves("ab_post_N1")
def one_draw_a_case(given: Any, expected: Figures, tolerance: Any) -> None:
    assert tolerance["abs"] == 0
    found = ab_post.p_values(repeats=given["N"], effect=0.05)
    assert ab_post.power(found["t"]) == expected["t"]
    assert ab_post.power(found["chi2"]) == expected["chi2_yates"]
    assert ab_post.power(found["paired"]) == expected["paired_t"]


# the names of the seven tests in the entry, and in the simulation
POWERS = {
    "t": "t",
    "chi2": "chi2",
    "ols": "ols",
    "paired_stacked": "paired",
    "paired_avg": "avg",
    "mixedlm": "mixed",
    "fixed": "fixed",
}


def powers_agree(found: dict[str, Any], expected: Figures) -> None:
    for name in expected.keys() & POWERS.keys():
        assert ab_post.power(found[POWERS[name]]) == expected[name], name


def medians_agree(found: dict[str, Any], expected: Figures, within: float) -> None:
    for name, median in expected["median_p"].items():
        assert np.median(found[name]) == pytest.approx(median, abs=within), name


@proves("ab_post_N5")
def five_draws_a_case(given: Any, expected: Figures, tolerance: Any) -> None:
    found = ab_post.p_values(repeats=given["N"], effect=0.05)
    assert len(expected.keys() & POWERS.keys()) == 7
    powers_agree(found, expected)
    medians_agree(found, expected, tolerance["median_abs"])
    for pair, correlation in expected["corr"].items():
        one, other = pair.split("_")
        r = np.corrcoef(found[one], found[other])[0, 1]
        assert r == pytest.approx(correlation, abs=tolerance["corr_abs"]), pair


@proves("ab_post_N5_as_printed")
def loop_as_printed(given: Any, expected: Figures, tolerance: Any) -> None:
    found = ab_post.p_values(repeats=given["N"], effect=0.05, last_only=True)
    powers_agree(found, expected)
    medians_agree(found, expected, tolerance["median_abs"])


@proves("ab_post_effect0")
def without_an_effect(given: Any, expected: Figures, tolerance: Any) -> None:
    assert tolerance["abs"] == 0
    powers_agree(ab_post.p_values(repeats=given["N"], effect=given["effect"]), expected)


@proves("ab_post_true_power")
def larger_simulation(given: Any, expected: Figures, tolerance: Any) -> None:
    found = ab_post.true_power(given["trials"])
    for name in expected:
        assert found[name] == pytest.approx(expected[name], abs=tolerance["abs"]), name


@proves("prediction_interval_n3_0.83", "prediction_interval_n5_0.7", "prediction_interval_n3_0.8")
def prediction_of_as_many_repeats(given: Any, expected: Figures, tolerance: Any) -> None:
    found = repeat_prediction(given["samples"], confidence=given["confidence"])
    assert found is not None
    ends = expected["lower"], expected["upper"]
    assert found.interval == pytest.approx(ends, abs=tolerance["abs"])
    assert 2 * found.half_width == pytest.approx(expected["width"], abs=tolerance["abs"])


@proves("prediction_interval_nprime1")
def prediction_of_one_repeat(given: Any, expected: Figures, tolerance: Any) -> None:
    found = repeat_prediction(given["samples"], future=given["n_future"])
    assert found is not None
    assert found.half_width == pytest.approx(expected["half_width"], abs=tolerance["abs"])


@proves("pooled_prediction_interval")
def prediction_from_the_spread_within_cases(given: Any, expected: Figures, tolerance: Any) -> None:
    scores = [case.baseline for case in case8x5()]
    found = pooled_prediction(scores, future=given["n_future"])
    assert found is not None
    rel = tolerance["rel"]
    assert found.mean == pytest.approx(expected["mean"], rel=rel)
    assert found.half_width == pytest.approx(expected["half_width"], rel=rel)
    assert found.dof == pytest.approx(expected["df"], rel=rel)
    assert found.standard_deviation == pytest.approx(expected["sd_one_repeat"], rel=rel)


@proves("engine_case8x5")
def eight_cases_of_five(given: Any, expected: Figures, tolerance: Any) -> None:
    cases, rel = cases_of(given["baseline"], given["branch"]), tolerance["rel"]
    found = paired_test([case.difference(1) for case in cases], alpha=0.025)
    estimated = unit_mean([case.difference(1) for case in cases])
    assert estimated.mean == pytest.approx(expected["mean_diff"], rel=rel)
    error = estimated.standard_error
    assert found.standard_error == error == pytest.approx(expected["se"], rel=rel)
    assert found.statistic == pytest.approx(expected["t"], rel=rel)
    assert found.dof == expected["df"]
    assert found.tails.worse == pytest.approx(expected["p_regress_one_sided"], rel=rel)
    assert two_sided(found.tails) == pytest.approx(expected["p_two_sided"], rel=rel)
    assert found.interval == pytest.approx(expected["ci95"], rel=rel)
    exact = exact_within_case(cases).worse
    assert exact == pytest.approx(expected["exact_within_case_p_one_sided"], rel=rel)
    flipped = sign_flip([case.difference(1) for case in cases]).worse
    assert flipped == pytest.approx(expected["sign_flip_exact_p_one_sided"], rel=rel)
    shift = detectable_shift(dof=7, alpha=0.05) * error
    assert shift == pytest.approx(expected["mde80_one_sided"], abs=tolerance["mde_abs"])
    stacked_pairs_agree(cases, expected, rel)
    within_cases_agree(cases, expected, rel)


def stacked_pairs_agree(cases: list[CaseScores], expected: Figures, rel: float) -> None:
    found = paired_test([h - t for c in cases for t, h in zip(c.baseline, c.current, strict=True)])
    assert found.statistic == pytest.approx(expected["stacked_t"], rel=rel)
    assert 2 * found.tails.worse == pytest.approx(expected["stacked_p_two_sided"], rel=rel)


def within_cases_agree(cases: list[CaseScores], expected: Figures, rel: float) -> None:
    parts = estimated_components(cases)
    assert parts is not None
    within = Components(within_baseline=parts.within_baseline, within_current=parts.within_current)
    error = Design(cases=8, baseline=5, current=5, components=within).standard_error
    z = expected["mean_diff"] / error
    assert z == pytest.approx(expected["within_z"], rel=rel)
    assert stats.norm.cdf(z) == pytest.approx(expected["within_p_one_sided"], rel=rel)
    tables = [
        Table(
            baseline_hits=int(sum(c.baseline)),
            baseline_trials=5,
            current_hits=int(sum(c.current)),
            current_trials=5,
        )
        for c in cases
    ]
    root = cochran_mantel_haenszel_root(tables)
    assert root is not None
    assert root**2 == pytest.approx(expected["cmh_chi2"], rel=rel)
    assert two_sided(normal_tails(root)) == pytest.approx(expected["cmh_p_two_sided"], rel=rel)


@proves("identity_paired_t_equals_case_fixed_effects")
def regression_with_a_constant_for_each_case(given: Any, expected: Figures, tolerance: Any) -> None:
    cases = case8x5()
    assert given["same"] == "engine_case8x5"
    means = np.array([[np.mean(case.baseline), np.mean(case.current)] for case in cases]).ravel()
    design = np.zeros((16, 9))
    design[np.arange(16), np.arange(16) // 2] = 1
    design[1::2, 8] = 1
    fitted, residual, *_ = np.linalg.lstsq(design, means)
    error = math.sqrt(residual[0] / (16 - 9) * np.linalg.inv(design.T @ design)[8, 8])
    assert fitted[8] / error == pytest.approx(expected["t"], rel=tolerance["rel"])
    found = paired_test([case.difference(1) for case in cases])
    assert found.statistic == pytest.approx(expected["t"], rel=tolerance["rel"])


@proves("unbalanced_case_means")
def unlike_numbers_of_trials(given: Any, expected: Figures, tolerance: Any) -> None:
    sample = Sample(cases=cases_of(given["baseline"], given["branch"]))
    assert sample.differences == pytest.approx(expected["case_diffs"], abs=tolerance["abs"])
    mean = unit_mean(sample.differences).mean
    assert mean == pytest.approx(expected["mean"], abs=tolerance["abs"])
    found = paired_test(sample.differences)
    assert found.tails.worse == pytest.approx(expected["p_regress"], abs=tolerance["abs"])


@proves("degenerate_all_identical_by_cache")
def replays_only(given: Any, expected: Figures, tolerance: Any) -> None:
    run = a_run(a_case("Peru", "pp"), a_case("Lima", "pm"))
    judged = compare(run, run, GateRules())
    (function,) = judged.functions
    assert judged.verdict == expected["verdict"]
    assert function.evidence.interval == tuple(expected["ci"])
    assert judged.fails == bool(expected["exit"])
    p = paired_test(given["differences"]).tails.worse
    assert p == pytest.approx(expected["p"], abs=tolerance["abs"])


@proves("degenerate_all_zero_by_chance")
def all_zero(given: Any, expected: Figures, tolerance: Any) -> None:
    found = paired_test(given["differences"])
    assert (
        found.tails.worse
        == found.tails.better
        == pytest.approx(expected["p"], abs=tolerance["abs"])
    )


@proves("degenerate_one_case")
def one_case(given: Any, expected: Figures, tolerance: Any) -> None:
    sample = Sample(cases=cases_of(given["baseline"], given["branch"]))
    found = TESTS["exact-within-case"].run(sample).tails.worse
    assert found == pytest.approx(expected["p_exact_within_case"], abs=tolerance["abs"])
    assert compared(*scored_runs(given["baseline"], given["branch"])).effect.method == (
        "exact-within-case"
    )


@proves("degenerate_constant_nonzero", "degenerate_constant_nonzero_m3")
def all_alike(given: Any, expected: Figures, tolerance: Any) -> None:
    found = paired_test(given["differences"]).tails.worse
    assert found == pytest.approx(expected["engine_p_sign_flip"], abs=tolerance["abs"])
    if "scipy_p" in expected:
        assert expected["scipy_p"] == 0.0 < found


@proves("degenerate_nan_score")
def not_a_number(given: Any, expected: Figures, tolerance: Any) -> None:
    baseline, current = (
        [[math.nan if score is None else score for score in case] for case in given[side]]
        for side in ("baseline", "branch")
    )
    judged = compared(*scored_runs(baseline, current))
    assert expected["refused"] == (judged.verdict is Verdict.NOT_COMPARABLE)
    assert judged.trials["without_value"] + judged.baseline_trials["without_value"] > 0


@proves(*(f"replay_{flips}_of_100_changed_1_to_0" for flips in (1, 2, 3)))
def flips_of_single_draws(given: Any, expected: Figures, tolerance: Any) -> None:
    flips, cases = given["flips"], given["m"]
    found = paired_test([-1.0] * flips + [0.0] * (cases - flips))
    assert found.statistic == pytest.approx(expected["t"], rel=tolerance["rel"])
    assert found.tails.worse == pytest.approx(expected["p"], rel=tolerance["rel"])


@proves("holm")
def holm_adjusted(given: Any, expected: Figures, tolerance: Any) -> None:
    adjusted_agree(holm(given["p"]), given, expected, tolerance)


@proves("bh")
def benjamini_hochberg_adjusted(given: Any, expected: Figures, tolerance: Any) -> None:
    adjusted_agree(benjamini_hochberg(given["p"]), given, expected, tolerance)


def adjusted_agree(found: tuple[float, ...], given: Any, expected: Figures, tolerance: Any) -> None:
    assert found == pytest.approx(expected["adjusted"], abs=tolerance["abs"])
    assert [p <= given["alpha"] for p in found] == expected["reject"]


@proves("power_nct")
def power_of_a_t_test(given: Any, expected: Figures, tolerance: Any) -> None:
    found = power_of(design_of(given["m"], given["sd_diff"]), drop=-given["delta"])
    assert found == pytest.approx(expected["power"], abs=tolerance["abs"])


def design_of(cases: float, deviation: float) -> Design:
    """A comparison of which only the standard deviation of the differences is known."""
    parts = Components(within_baseline=0.0, within_current=0.0, between=deviation**2)
    return Design(cases=cases, baseline=1, current=1, components=parts)


@proves("cases_needed")
def number_of_cases(given: Any, expected: Figures, tolerance: Any) -> None:
    drop, power = -given["delta"], given["power"]
    root = optimize.brentq(
        lambda m: power_of(design_of(m, given["sd_diff"]), drop=drop) - power, 2, 1000
    )
    assert root == pytest.approx(expected["m"], abs=tolerance["abs"])
    found = cases_needed(design_of(1, given["sd_diff"]), drop=drop, power=power)
    assert found == expected["round_up"]


@proves("mde_m100_se002")
def drop_that_is_found(given: Any, expected: Figures, tolerance: Any) -> None:
    cases, error = given["m"], given["se"]
    found = detectable_drop(design_of(cases, error * math.sqrt(cases)))
    assert found == pytest.approx(expected["mde"], abs=tolerance["abs"])
    normal = (stats.norm.ppf(0.95) + stats.norm.ppf(0.8)) * error
    assert normal == pytest.approx(expected["normal_approx"], rel=1e-9)
    assert found is not None
    assert found > normal


@proves("miller_sample_size")
def number_of_cases_by_the_normal_formula(given: Any, expected: Figures, tolerance: Any) -> None:
    assert given["power"] == POWER
    planned = PlannedTest(
        baseline=np.array([2.0]),
        current=np.array([2.0]),
        alpha=given["alpha"] / 2 if given["two_sided"] else given["alpha"],
        dof=None,
        copies=expected["n"],
    )
    drop = smallest_score_drop(given["omega2"] + given["sigma2"], planned)
    assert drop == pytest.approx(given["delta"], abs=tolerance["abs"])


@proves("e_process_round")
def evidence_of_a_round(given: Any, expected: Figures, tolerance: Any) -> None:
    found = e_value(given["pair_differences"], bets=given["lambdas"])
    assert found == pytest.approx(expected["E"], rel=tolerance["rel"])


@proves("crossed_wording")
def wordings_crossed_with_cases(given: Any, expected: Figures, tolerance: Any) -> None:
    table, rel = given["d_case_by_wording"], tolerance["rel"]
    found = crossed_test(table)
    of_cases, of_wordings, residual = mean_squares(table)
    assert np.mean(table) == pytest.approx(expected["mean"], rel=rel)
    assert of_cases == pytest.approx(expected["ms_case"], rel=rel)
    assert of_wordings == pytest.approx(expected["ms_wording"], rel=rel)
    assert residual == pytest.approx(expected["ms_resid"], rel=rel)
    assert found.standard_error == pytest.approx(expected["se"], rel=rel)
    assert found.dof == pytest.approx(expected["df"], rel=rel)
    assert found.tails.worse == pytest.approx(expected["p_regress"], rel=rel)
    naive = paired_test(np.mean(table, axis=1))
    assert naive.tails.worse == pytest.approx(expected["naive_case_p"], rel=rel)


@proves("obf_5_looks_0.025", "pocock_5_looks_0.025", "obf_looks_3_5_10_baseline10")
def bounds_of_planned_looks(given: Any, expected: Figures, tolerance: Any) -> None:
    even = "ln" in given.get("spending", "")
    found = spending_bounds(
        given["tau"], alpha=given["alpha"], spending="pocock" if even else "obrien-fleming"
    )
    assert found == pytest.approx(expected["z"], abs=tolerance["abs"])
    if "published" in expected:
        assert found == pytest.approx(expected["published"], abs=tolerance["abs"])


@pytest.mark.unmeasured
@pytest.mark.parametrize(
    "name", [pytest.param(name, id=f"{name} ({v['source']})") for name, v in vectors().items()]
)
def test_reference_value_is_reproduced(name: str) -> None:
    entry = vector(name)
    expected = Figures(entry["expected"])
    PROOFS[name](entry["given"], expected, entry["tolerance"])
    assert expected.unread == set(), "these figures were held against nothing"


def test_all_108_reference_values_have_a_proof() -> None:
    assert len(vectors()) == 108
    assert PROOFS.keys() == vectors().keys()


def test_sixty_printed_cells_of_ball_et_al_reproduce_and_eleven_do_not() -> None:
    assert (len(REPRODUCED), len(BALL) - len(REPRODUCED)) == (60, 11)


def test_the_random_intercept_model_is_that_of_statsmodels() -> None:
    control, treatment = ab_post.hits(repeats=5, effect=0.05)
    both = np.concatenate([control[0], treatment[0]], axis=1)
    case, repeat = np.indices(both.shape)
    data = pd.DataFrame(
        {"hit": both.ravel(), "case": case.ravel(), "treated": (repeat >= 5).ravel().astype(int)}
    )
    fitted = mixedlm("hit ~ treated", data, groups=data["case"]).fit()
    ours = ab_post.p_values(repeats=5, effect=0.05)["mixed"][0]
    assert fitted.pvalues["treated"] == pytest.approx(ours, rel=1e-3)
