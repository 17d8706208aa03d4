"""A test that was chosen: what it gives, and what it says to data that it does not fit."""

from __future__ import annotations

from typing import get_args

import pytest

from pytest_llmeval.gate.results import Verdict
from pytest_llmeval.reports.reasons import worded
from pytest_llmeval.settings import MARGIN_TESTS, AnyTest, FixedTest, GateRules, GateTest
from pytest_llmeval.stats.methods import TESTS
from pytest_llmeval.stats.sample import CaseScores, Sample
from tests.gate.builders import compared, judged, runs, scored_runs

FELL = [("p", "m")] * 8 + [("m", "p")] + [("p", "p")] * 6
SPREAD = [0.2, 0.1, 0.15, 0.3, 0.25, 0.05, 0.12, 0.22]


def rules(test: GateTest) -> GateRules:
    return GateRules(test=test)


@pytest.mark.parametrize("test", ["sign-flip", "mcnemar", "mcnemar-exact", "mcnemar-mid-p"])
def test_the_chosen_test_decides_and_the_interval_stays(test: GateTest) -> None:
    found = compared(*runs(FELL), rules(test))
    letters = {"p": 1.0, "m": 0.0}
    cases = [CaseScores(baseline=(letters[a],), current=(letters[b],)) for a, b in FELL]
    expected = TESTS[test].run(Sample(cases=cases))
    default = compared(*runs(FELL))

    assert (found.effect.method, found.evidence.t) == (test, None)
    assert (found.evidence.p, found.evidence.p_improved) == pytest.approx(
        (expected.tails.worse, expected.tails.better)
    )
    assert (found.evidence.statistic, found.evidence.dof) == (
        pytest.approx(expected.statistic),
        expected.dof,
    )
    assert found.verdict is Verdict.REGRESSED
    assert found.evidence.interval == default.evidence.interval
    assert found.evidence.smallest_detectable_drop == default.evidence.smallest_detectable_drop


def test_a_ratio_can_be_chosen_for_scores_above_0() -> None:
    baseline = [[one, one] for one in SPREAD]
    current = [[one * 0.8 * (1 + 0.01 * at)] * 2 for at, one in enumerate(SPREAD)]
    found = compared(*scored_runs(baseline, current), rules("log-ratio"))
    assert (found.effect.method, found.scale, found.better) == ("log-ratio", "log", "higher")
    assert found.verdict is Verdict.REGRESSED
    assert found.evidence.ratio is not None
    assert 0.8 < found.evidence.ratio < 0.87
    assert found.effect.difference is not None
    assert found.effect.difference < 0


@pytest.mark.parametrize("scale", [0.1, 50])
def test_scale_changes_no_p_of_a_ratio(scale: float) -> None:
    current = [[0.9 * one, 0.8 * one] for one in SPREAD[::-1]]
    plain = judged(*scored_runs([[one] for one in SPREAD], current), rules("log-ratio"))
    scaled = [[scale * score for score in one] for one in current]
    found = judged(*scored_runs([[scale * one] for one in SPREAD], scaled), rules("log-ratio"))
    assert found.evidence.p == pytest.approx(plain.evidence.p, rel=1e-6)


def test_a_ratio_without_spread_has_no_interval() -> None:
    found = judged(*scored_runs([[2.0, 2.0]] * 7, [[1.0, 1.0]] * 7), rules("log-ratio"))
    assert found.evidence.statistic is None
    assert found.evidence.p == 0.5**7
    # they fell by the factor by which scores of a case differ; one case more by its half
    assert found.evidence.ratio_interval is not None
    assert found.evidence.ratio_interval[0] == pytest.approx(0.5, abs=0.02)


def test_a_ratio_does_not_take_unlike_repeats_for_a_change() -> None:
    # the mean of more skewed draws is no better a guess of the same thing
    baseline, current = [[1.0, 4.0] * 3, [2.0, 9.0] * 3] * 4, [[1.0, 4.0], [2.0, 9.0]] * 4
    found = judged(*scored_runs(baseline, current), rules("log-ratio"))
    assert (found.effect.difference, found.evidence.p_improved) == (0.0, 1.0)


def test_a_ratio_of_a_score_of_0_is_refused() -> None:
    baseline = [[one, one] for one in SPREAD]
    current = [[0.0, one] for one in SPREAD]
    found = compared(*scored_runs(baseline, current), rules("log-ratio"))
    assert (found.verdict, found.row) == (Verdict.NOT_COMPARABLE, 4)
    assert worded(found.why) == (
        "the test log-ratio does not fit: it compares ratios, and 8 scores of score are not "
        "above 0: use paired-t"
    )


def test_repeats_do_not_fit_a_test_of_single_draws() -> None:
    found = compared(*runs([("pp", "mm")] * 8), rules("mcnemar-exact"))
    assert (found.verdict, found.row) == (Verdict.NOT_COMPARABLE, 4)
    assert worded(found.why) == (
        "the test mcnemar-exact does not fit: it pairs single trials, and 8 cases were "
        "repeated: use paired-t"
    )


def test_where_all_moved_alike_their_signs_are_all_there_is() -> None:
    found = compared(*runs([("pp", "mm")] * 8), rules("sign-flip"))
    assert (found.effect.method, found.evidence.p) == ("same-shift", 0.5**8)


def test_below_six_units_the_exact_test_takes_over() -> None:
    found = compared(*runs([("p", "m")] * 5), rules("mcnemar"))
    assert (found.effect.method, found.evidence.p) == ("exact-within-case", 0.5**5)


def test_sign_flip_is_kept_below_six_units() -> None:
    found = compared(*runs([("pp", "mm")] * 5), rules("sign-flip"))
    assert (found.effect.method, found.evidence.p) == ("sign-flip", 0.5**5)


def test_so_few_signs_cannot_show_a_drop_among_many_functions() -> None:
    found = compared(*runs([*[("pp", "pm")] * 3, *[("pp", "mm")] * 3]), rules("sign-flip"))
    assert found.evidence.smallest_detectable_drop is not None
    strict = GateRules(test="sign-flip", alpha=0.01)
    few = compared(*runs([*[("pp", "pm")] * 3, *[("pp", "mm")] * 3]), strict)
    assert few.evidence.smallest_detectable_drop is None


def test_a_drop_that_would_show_is_not_enough_where_the_interval_reaches_further() -> None:
    current = [[0.5 - 0.05 + 0.229 * (-1) ** at] * 2 for at in range(40)]
    found = compared(*scored_runs([[0.5, 0.5]] * 40, current), rules("sign-flip"))
    assert found.evidence.smallest_detectable_drop is not None
    assert found.evidence.smallest_detectable_drop < 0.1
    assert found.verdict is Verdict.INCONCLUSIVE


def test_an_interval_says_more_than_the_drop_that_would_show() -> None:
    found = compared(*runs([("p" * 10, "p" * 9 + "m"), ("p" * 9 + "m", "p" * 10)] * 20))
    chosen = compared(
        *runs([("p" * 10, "p" * 9 + "m"), ("p" * 9 + "m", "p" * 10)] * 20), rules("sign-flip")
    )
    assert (chosen.verdict, chosen.evidence.ruled_out_by) == (
        found.verdict,
        found.evidence.ruled_out_by,
    )
    assert chosen.evidence.ruled_out_by == "interval"


# --- tests that are not for a gate ---------------------------------------------------------

DRIFTED = [("pppp", "pppm"), ("pmpp", "mmpp"), ("pppp", "pmpm"), ("ppmm", "ppmp")] * 2


@pytest.mark.parametrize("test", get_args(FixedTest))
@pytest.mark.parametrize("cases", [8, 3])
def test_a_test_of_these_cases_is_run_at_any_number_of_them(test: FixedTest, cases: int) -> None:
    some = DRIFTED[:cases]
    found = compared(*runs(some), GateRules(test=test))
    letters = {"p": 1.0, "m": 0.0}
    before, after = (
        [tuple(map(letters.__getitem__, one)) for one in side] for side in zip(*some, strict=True)
    )
    sample = [CaseScores(baseline=a, current=b) for a, b in zip(before, after, strict=True)]
    expected = TESTS[test].run(Sample(cases=sample))

    default = compared(*runs(some))
    assert (found.effect.method, found.evidence.t) == (test, None)
    assert (found.evidence.p, found.evidence.p_improved) == pytest.approx(
        (expected.tails.worse, expected.tails.better)
    )
    assert (found.evidence.statistic, found.evidence.dof) == (
        pytest.approx(expected.statistic),
        expected.dof,
    )
    if found.verdict is default.verdict:  # else one end gives way to the verdict
        assert found.evidence.interval == default.evidence.interval
    if cases == len(DRIFTED):
        assert found.evidence.smallest_detectable_drop == default.evidence.smallest_detectable_drop
        assert default.evidence.statistic == default.evidence.t is not None


def test_every_test_can_be_chosen_by_hand() -> None:
    assert set(get_args(AnyTest)) == {*MARGIN_TESTS, *TESTS}


def test_a_single_case_of_many_trials_is_a_table_of_hits() -> None:
    baseline, current = "p" * 400 + "m" * 100, "p" * 347 + "m" * 153
    found = compared(*runs([(baseline, current)]), GateRules(test="chi-square-plain"))
    assert found.evidence.p == pytest.approx(0.000115 / 2, abs=1e-6)
    assert found.verdict is Verdict.REGRESSED
    assert found.evidence.interval is None


def test_a_test_of_these_cases_needs_no_consent_where_repeats_are_fewer_here() -> None:
    fewer = [("p" * 10, "ppppm"), ("p" * 9 + "m", "ppppp"), ("p" * 10, "ppmmm")] * 4
    found = compared(*runs(fewer), GateRules(test="welch"))
    assert found.evidence.p_within_case is not None
    assert found.evidence.p is not None
    assert found.evidence.p != found.evidence.p_within_case
