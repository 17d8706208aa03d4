"""The consent of the exact test: unlike numbers of trials, few that moved, clusters and signs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from scipy import stats

from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.exact import exact_within_case
from pytest_llmeval.stats.sample import CaseScores
from tests.gate.builders import CallsOfTrial, a_call, a_case, a_run, compared, runs

LETTERS = {"p": 1.0, "m": 0.0}
RARE = [("pmmmmmmmmm", "m"), ("mmmmmmmmmm", "m")]


def mid_p(outcomes: Sequence[tuple[str, str]]) -> float:
    cases = [
        CaseScores(
            baseline=tuple(LETTERS[one] for one in before),
            current=tuple(LETTERS[one] for one in after),
        )
        for before, after in outcomes
    ]
    return exact_within_case(cases).mid_p.worse


def clustered(outcomes: Sequence[tuple[str, str]], size: int) -> FunctionComparison:
    baseline, run = (
        a_run(
            *(
                a_case(f"{at:03}", pair[side], request=request, cluster=str(at // size))
                for at, pair in enumerate(outcomes)
            )
        )
        for side, request in enumerate(("v1", "v2"))
    )
    return compared(baseline, run)


def test_three_of_fifty_that_fell_are_no_regression_and_four_are() -> None:
    for fell, p, verdict in ((3, 0.0625, "inconclusive"), (4, 0.03125, "regressed")):
        same = [("p", "p")] * 30 + [("m", "m")] * (20 - fell)
        found = compared(*runs([("p", "m")] * fell + same))
        assert (found.evidence.p, found.verdict) == (pytest.approx(p), verdict)
        assert found.evidence.p_within_case == pytest.approx(2 * p)


def test_from_six_that_moved_on_the_t_test_speaks_alone() -> None:
    found = compared(*runs([("p", "m")] * 6 + [("m", "p")] + [("p", "p")] * 43))
    assert found.evidence.t is not None
    assert found.evidence.p == pytest.approx(float(stats.t.cdf(found.evidence.t, 49)))


def test_few_that_rose_need_the_consent_too() -> None:
    found = compared(*runs([("m", "p")] * 3 + [("p", "p")] * 47))
    assert found.evidence.p_improved == pytest.approx(0.0625)
    assert found.verdict is not Verdict.IMPROVED


@pytest.mark.parametrize("here", [1, 3, 8])
def test_unlike_numbers_of_trials_need_the_consent(here: int) -> None:
    outcomes = [("ppppm", "p" * (here - 1) + "m"), ("ppppp", "p" * here), ("pmmmm", "m" * here)] * 4
    found = compared(*runs(outcomes))
    assert found.evidence.t is not None
    alone = float(stats.t.cdf(found.evidence.t, 11))
    assert found.evidence.p == pytest.approx(max(alone, mid_p(outcomes)))


def test_one_trial_against_five_that_fell() -> None:
    found = compared(*runs([("p", "pmmmm")] * 8))
    assert found.verdict is Verdict.REGRESSED
    assert found.effect.mean == pytest.approx(0.2)


@pytest.mark.parametrize("size", [1, 2])
def test_labels_tie_no_draws_so_clusters_need_the_consent_too(size: int) -> None:
    outcomes = RARE * 4 * size
    found = clustered(outcomes, size)
    assert found.evidence.p == pytest.approx(mid_p(outcomes))
    assert found.evidence.p > 0.2  # where the t-test of seven clusters or more is sure


def test_below_six_clusters_the_signs_need_it() -> None:
    outcomes = [("pmmmmmmmmm", "m")] * 10
    found = clustered(outcomes, 2)
    assert found.effect.method == "sign-flip"
    assert found.evidence.p == pytest.approx(mid_p(outcomes))
    as_many = clustered([("ppp", "ppm")] * 10, 2)
    assert as_many.evidence.p == pytest.approx(0.5**5)


@pytest.mark.parametrize("cases", [5, 8])
def test_a_chosen_sign_flip_needs_it(cases: int) -> None:
    outcomes = [("pmmmmmmmmm", "m")] * cases
    found = compared(*runs(outcomes), GateRules(test="sign-flip"))
    assert found.evidence.p == pytest.approx(mid_p(outcomes))


def pairs_that_share(own: str, world: str) -> CallsOfTrial:
    return lambda index: (a_call(own, f"{world}/{own}/{index}", trial=index),)


def sharing(outcomes: Sequence[str], world: str) -> Run:
    """Two cases each make one call of a question, with one draw a trial."""
    return a_run(
        *(
            a_case(f"{at:02}", one, calls=pairs_that_share(str(at // 2), world))
            for at, one in enumerate(outcomes)
        )
    )


def test_cases_that_share_draws_are_dealt_out_together_by_whole_repeats() -> None:
    before, after = ["pmmm", "pmmm"] * 7, ["m", "m"] * 7
    found = compared(sharing(before, "main"), sharing(after, "branch"))
    assert (found.effect.units, found.effect.method) == (7, "same-shift")
    # of each pair the four repeats of the baseline hold the pass in 4 of 5 deals
    assert found.evidence.p == pytest.approx((4 / 5) ** 7 / 2)
    assert found.evidence.p_within_case is None


def test_where_repeats_share_draws_there_is_no_exact_test() -> None:
    def one_draw(world: str) -> CallsOfTrial:
        return lambda index: (a_call("wide", f"{world}/wide", trial=None),)

    baseline, run = (
        a_run(
            *(
                a_case(
                    f"{at:02}",
                    outcomes,
                    calls=one_draw(f"{world}{at // 2}"),
                )
                for at in range(14)
            )
        )
        for world, outcomes in (("main", "pmmm"), ("branch", "m"))
    )
    found = compared(baseline, run)
    assert (found.effect.units, found.evidence.p) == (7, 0.5**7)


def test_the_interval_of_clusters_has_a_cluster_more_that_fell() -> None:
    found = clustered([("ppp", "ppp")] * 14, 2)
    interval = found.evidence.interval
    assert interval is not None
    # 15 cases: 14 zeros in seven pairs, and one that fell by a third
    assert interval[0] < -0.05
    assert found.effect.method == "same-shift"
