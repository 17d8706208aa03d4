"""How often the gate cries wolf, and how often it finds a drop: whole runs, judged for real.

Every rate comes with the standard error of its simulation. "At most .06" is refuted by a
rate two standard errors above; builds are added until the promised bounds are two standard
errors away, up to MOST_BUILDS. Seeds are fixed, so a rate is the same in every session.
The rates of ``make calibrate`` are in docs/statistics.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from pytest_llmeval.gate import conclusion
from pytest_llmeval.gate.results import Comparison, Verdict
from pytest_llmeval.stats.suite_size import Design, assumed_components, power_of
from tests.gate.builders import judged, scored_runs
from tests.gate.layouts import (
    Mix,
    ab_post,
    alike,
    asked_anew,
    ceiling,
    constant,
    documents_move,
    everywhere,
    fallen,
    in_clusters,
    one_of_each_pair_replayed,
    sharing,
    sharing_first_calls,
    unlike,
)
from tests.gate.simulation import Function, Layout, Rates, Share, Suite

MOST_FALSE_ALARMS = 0.06
FEWEST_FALSE_ALARMS = 0.03
POWER_OFF_BY = 0.02
BUILDS = 1000
MOST_BUILDS = 4000
FEW_BUILDS = 100

Measure = Callable[..., Share]


@pytest.fixture
def no_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what would settle an inconclusive comparison.

    It is worked out after the verdict, in up to two thirds of the time of a comparison.
    """
    monkeypatch.setattr(conclusion, "remedies", lambda *_, **__: (None, None))


def regressed(comparison: Comparison) -> bool:
    assert comparison.verdict is not Verdict.NOT_COMPARABLE
    return comparison.verdict is Verdict.REGRESSED


@pytest.fixture
def measure(
    request: pytest.FixtureRequest,
    record_property: Callable[[str, object], None],
    no_advice: None,
) -> Measure:
    """Count red builds of a suite, and print how many."""

    def share_of_red(
        suite: Suite,
        *,
        builds: int = BUILDS,
        bounds: Sequence[float] = (MOST_FALSE_ALARMS,),
        most: int = MOST_BUILDS,
    ) -> Share:
        share = suite.share(regressed, builds=builds, bounds=bounds, most=most)
        record_property("regressed", share.value)
        print(f"{request.node.name}: {share}")
        return share

    return share_of_red


def one_function(layout: Layout, rates: Rates, repeats: tuple[int, int]) -> Suite:
    return Suite(Function(layout, rates, repeats=repeats))


def are_at_most(bound: float, share: Share) -> bool:
    return share.value - 2 * share.error <= bound


def are_at_least(bound: float, share: Share) -> bool:
    return share.value + 2 * share.error >= bound


def by_repeats(*repeats: tuple[int, int]) -> pytest.MarkDecorator:
    ids = [f"{baseline} v {current}" for baseline, current in repeats]
    return pytest.mark.parametrize("repeats", repeats, ids=ids)


def by_rates(**rates: Rates) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("rates", rates.values(), ids=list(rates))


def by_layout(**layouts: Layout) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("layout", layouts.values(), ids=list(layouts))


@pytest.mark.calibration
@pytest.mark.parametrize("rate", [0.5, 0.7, 0.9])
@pytest.mark.parametrize(
    ("cases", "repeats"),
    [
        pytest.param(60, (1, 1), id="60 cases, 1 v 1"),
        pytest.param(60, (5, 5), id="60 cases, 5 v 5"),
        pytest.param(60, (10, 10), id="60 cases, 10 v 10"),
        pytest.param(60, (10, 5), id="60 cases, 10 v 5"),
        pytest.param(200, (1, 1), id="200 cases, 1 v 1"),
        pytest.param(200, (10, 5), id="200 cases, 10 v 5"),
    ],
)
def test_the_level_is_kept_and_used(
    rate: float, cases: int, repeats: tuple[int, int], measure: Measure
) -> None:
    bounds = FEWEST_FALSE_ALARMS, MOST_FALSE_ALARMS
    share = measure(one_function(asked_anew(cases), everywhere(rate), repeats), bounds=bounds)
    assert are_at_most(MOST_FALSE_ALARMS, share)
    assert are_at_least(FEWEST_FALSE_ALARMS, share)


@pytest.mark.calibration
@by_repeats((1, 1), (5, 5), (10, 5), (10, 1))
@pytest.mark.parametrize("cases", [10, 30])
@by_rates(
    half=everywhere(0.5), most=everywhere(0.9), nearly_all=everywhere(0.97), mixed=alike(ab_post)
)
def test_few_cases_seldom_cry_wolf(
    cases: int, rates: Rates, repeats: tuple[int, int], measure: Measure
) -> None:
    share = measure(one_function(asked_anew(cases), rates, repeats))
    assert are_at_most(MOST_FALSE_ALARMS, share)


@pytest.mark.calibration
@by_repeats((1, 1), (10, 10), (10, 5))
@pytest.mark.parametrize("cases", [10, 60])
@by_rates(
    ceiling=alike(ceiling),
    unlike_tenth=unlike(ab_post, 0.1),
    unlike_third=unlike(constant(0.5), 0.3),
)
def test_cases_that_differ_seldom_cry_wolf(
    cases: int, rates: Rates, repeats: tuple[int, int], measure: Measure
) -> None:
    share = measure(one_function(asked_anew(cases), rates, repeats))
    assert are_at_most(MOST_FALSE_ALARMS, share)


@pytest.mark.calibration
@by_repeats((5, 5), (10, 5))
@by_layout(
    changed_30_of_60=asked_anew(60, changed=30),
    changed_6_of_60=asked_anew(60, changed=6),
    changed_3_of_60=asked_anew(60, changed=3),
    changed_1_of_10=asked_anew(10, changed=1),
)
@by_rates(seven_tenths=everywhere(0.7), ceiling=alike(ceiling))
def test_replays_beside_changed_cases_seldom_cry_wolf(
    layout: Layout, rates: Rates, repeats: tuple[int, int], measure: Measure
) -> None:
    share = measure(one_function(layout, rates, repeats))
    assert are_at_most(MOST_FALSE_ALARMS, share)


@pytest.mark.calibration
@by_repeats((5, 5), (10, 5))
@by_layout(
    pairs_30=sharing([2] * 30),
    pairs_4=sharing([2] * 4),
    groups_of_1_2_and_5=sharing([1] * 10 + [2] * 6 + [5] * 3),
    group_of_10_beside_30=sharing([1] * 30 + [10]),
    groups_of_8_beside_40=sharing([1] * 40 + [8] * 2),
    one_of_each_pair_replayed=one_of_each_pair_replayed(20),
    first_call_of_5_replayed=sharing_first_calls(6, 5, replayed=True),
    first_call_of_all_replayed=sharing_first_calls(1, 30, replayed=True),
    first_call_of_3_redrawn=sharing_first_calls(12, 3, replayed=False),
)
def test_shared_draws_seldom_cry_wolf(
    layout: Layout, repeats: tuple[int, int], measure: Measure
) -> None:
    share = measure(one_function(layout, everywhere(0.8), repeats))
    assert are_at_most(MOST_FALSE_ALARMS, share)


@pytest.mark.calibration
@by_repeats((5, 5), (10, 5))
@pytest.mark.parametrize("clusters", [4, 8, 20])
def test_clusters_that_move_together_seldom_cry_wolf(
    clusters: int, repeats: tuple[int, int], measure: Measure
) -> None:
    share = measure(one_function(in_clusters(clusters, 5), documents_move(5), repeats))
    assert are_at_most(MOST_FALSE_ALARMS, share)


def ten_functions(repeats: tuple[int, int]) -> Suite:
    layout, rates = asked_anew(30), alike(ab_post)
    names = [f"test_{at}" for at in range(10)]
    return Suite(*(Function(layout, rates, repeats=repeats, name=name) for name in names))


@pytest.mark.calibration
@by_repeats((5, 5), (10, 5))
def test_any_of_ten_functions_seldom_cries_wolf(repeats: tuple[int, int], measure: Measure) -> None:
    assert are_at_most(MOST_FALSE_ALARMS, measure(ten_functions(repeats)))


def planned(rates: Rates, *, cases: int, repeats: tuple[int, int]) -> tuple[float, float]:
    """The mean drop, and the chance to find it by the noncentral-t plan."""
    before, after = rates(np.random.default_rng(0), 100_000)
    drop = float(np.mean(before - after))
    components = assumed_components(before, after)
    design = Design(cases=cases, baseline=repeats[0], current=repeats[1], components=components)
    return drop, power_of(design, drop=drop)


@pytest.mark.calibration
@pytest.mark.parametrize(
    ("cases", "repeats", "mix", "factor"),
    [
        pytest.param(30, (5, 5), ab_post, 0.15, id="30 cases, 5 v 5"),
        pytest.param(30, (10, 5), ab_post, 0.15, id="30 cases, 10 v 5"),
        pytest.param(60, (10, 5), ab_post, 0.10, id="60 cases, 10 v 5"),
        pytest.param(100, (1, 1), ab_post, 0.20, id="100 cases, 1 v 1"),
        pytest.param(100, (5, 5), ab_post, 0.08, id="100 cases, 5 v 5"),
        pytest.param(100, (10, 5), ceiling, 0.05, id="100 cases near the ceiling, 10 v 5"),
        pytest.param(200, (3, 3), ab_post, 0.08, id="200 cases, 3 v 3"),
    ],
)
def test_power_is_as_planned(
    cases: int, repeats: tuple[int, int], mix: Mix, factor: float, measure: Measure
) -> None:
    rates = fallen(mix, factor)
    drop, power = planned(rates, cases=cases, repeats=repeats)
    bounds = power - POWER_OFF_BY, power + POWER_OFF_BY
    share = measure(one_function(asked_anew(cases), rates, repeats), bounds=bounds)
    print(f"a drop of {drop:.3f}, planned power {power:.3f}")
    assert abs(share.value - power) <= POWER_OFF_BY + 2 * share.error


@pytest.mark.parametrize(
    ("layout", "rates"),
    [
        pytest.param(asked_anew(30), alike(ab_post), id="all asked anew, alike"),
        pytest.param(asked_anew(30, changed=15), unlike(ab_post), id="half replayed, unlike"),
        pytest.param(
            sharing([1] * 10 + [2] * 4 + [5] * 2), alike(ab_post), id="groups share draws, alike"
        ),
    ],
)
def test_no_effect_seldom_reads_regressed_in_few_builds(
    layout: Layout, rates: Rates, measure: Measure
) -> None:
    share = measure(one_function(layout, rates, (10, 5)), builds=FEW_BUILDS, most=0)
    assert are_at_most(MOST_FALSE_ALARMS, share)


def test_a_drop_is_found_as_often_as_planned_in_few_builds(measure: Measure) -> None:
    rates = fallen(ab_post, 0.15)
    share = measure(one_function(asked_anew(30), rates, (5, 5)), builds=FEW_BUILDS, most=0)
    _, power = planned(rates, cases=30, repeats=(5, 5))
    assert abs(share.value - power) <= POWER_OFF_BY + 2 * share.error


def test_any_of_ten_functions_seldom_cries_wolf_in_few_builds(measure: Measure) -> None:
    share = measure(ten_functions((5, 5)), builds=50, most=0)
    assert are_at_most(MOST_FALSE_ALARMS, share)


@pytest.mark.parametrize("cases", [200, 201])
def test_rare_scores_with_fewer_repeats_here_seldom_read_regressed_in_few_builds(
    cases: int,
) -> None:
    assert rare_scores(cases, builds=20).value <= 0.1


@pytest.mark.calibration
@pytest.mark.parametrize("cases", [100, 200, 201, 400, 1000])
def test_rare_scores_with_fewer_repeats_here_seldom_read_regressed(cases: int) -> None:
    assert are_at_most(MOST_FALSE_ALARMS, rare_scores(cases, builds=100))


def rare_scores(cases: int, *, builds: int) -> Share:
    """Scores of 0, and .5 in one trial of 250: 10 repeats in the baseline, 1 here."""
    found = 0
    for seed in range(builds):
        random = np.random.default_rng(seed)
        baseline, current = (
            (0.5 * (random.random((cases, repeats)) < 0.004)).tolist() for repeats in (10, 1)
        )
        found += judged(*scored_runs(baseline, current)).verdict is Verdict.REGRESSED
    share = Share(found=found, builds=builds)
    print(f"{cases} cases: {share}")
    return share


@pytest.mark.parametrize(
    ("layout", "cases", "changed", "units"),
    [
        (asked_anew(10, changed=3), 10, 3, 3),
        (sharing([1, 2, 5]), 8, 8, 3),
        (one_of_each_pair_replayed(4), 8, 4, 4),
        (sharing_first_calls(2, 3, replayed=True), 6, 6, 6),
        (sharing_first_calls(2, 3, replayed=False), 6, 6, 2),
        (in_clusters(2, 3), 6, 6, 2),
    ],
)
def test_layouts_look_to_the_gate_as_they_are_meant(
    layout: Layout, cases: int, changed: int, units: int
) -> None:
    (found,) = one_function(layout, everywhere(0.5), (10, 5)).comparison(0).functions
    assert (found.effect.cases, found.effect.changed, found.effect.units) == (cases, changed, units)


def test_advice_comes_after_the_verdict(request: pytest.FixtureRequest) -> None:
    suite = one_function(asked_anew(10), everywhere(0.7), (5, 5))
    with_advice = [suite.comparison(seed).verdict for seed in range(20)]
    assert Verdict.INCONCLUSIVE in with_advice
    request.getfixturevalue("no_advice")
    assert [suite.comparison(seed).verdict for seed in range(20)] == with_advice
