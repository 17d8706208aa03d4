"""Questions that are put in several wordings, and what the verdict is one about."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from pytest_llmeval.gate.results import FunctionComparison, Verdict
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules, GateTest
from pytest_llmeval.stats.detection import detectable_shift
from pytest_llmeval.stats.t_tests import crossed_test
from tests.gate.builders import CaseAndTrials, a_case, a_run, compared

TOPICS, WORDINGS = 8, 4
NOISE = np.random.default_rng(5)
EFFECTS = (
    NOISE.normal(0, 0.05, (TOPICS, 1))
    + NOISE.normal(0, 0.05, (1, WORDINGS))
    + NOISE.normal(0, 0.02, (TOPICS, WORDINGS))
)


def worded(case: CaseAndTrials, topic: str | None, wording: str | None) -> CaseAndTrials:
    return CaseAndTrials(dataclasses.replace(case.case, topic=topic, wording=wording), case.trials)


def crossed(
    differences: np.ndarray,  # type: ignore[type-arg]
    *,
    replayed: int = 0,
    left_out: tuple[tuple[int, int], ...] = (),
    cluster: str | None = None,
) -> tuple[Run, Run]:
    """Topics in rows, wordings in columns, all changed; and topics that were replayed."""
    baseline, current = [], []
    for (topic, wording), difference in np.ndenumerate(differences):
        if (topic, wording) in left_out:
            continue
        name = f"{topic}-{wording}"
        one = a_case(name, scores=[0.5, 0.5], cluster=cluster)
        other = a_case(name, scores=[0.5 + difference] * 2, request="v2", cluster=cluster)
        baseline.append(worded(one, f"t{topic}", f"w{wording}"))
        current.append(worded(other, f"t{topic}", f"w{wording}"))
    for at in range(replayed):
        for wording in range(differences.shape[1]):
            same = worded(a_case(f"r{at}-{wording}", scores=[0.5, 0.5]), f"r{at}", f"w{wording}")
            baseline.append(same)
            current.append(same)
    return a_run(*baseline), a_run(*current)


def judged(differences: np.ndarray, **how: object) -> FunctionComparison:  # type: ignore[type-arg]
    return compared(*crossed(differences, **how))  # type: ignore[arg-type]


def test_three_wordings_let_the_verdict_speak_of_wordings_in_general() -> None:
    found = judged(EFFECTS - 0.1)
    expected = crossed_test(EFFECTS - 0.1)

    assert (found.effect.method, found.evidence.wordings, found.effect.units) == (
        "crossed",
        WORDINGS,
        TOPICS,
    )
    assert (found.evidence.p, found.evidence.p_improved) == pytest.approx(
        (expected.tails.worse, expected.tails.better)
    )
    assert found.evidence.interval == pytest.approx(expected.interval)
    assert found.evidence.dof == pytest.approx(expected.dof)
    assert found.evidence.smallest_detectable_drop == pytest.approx(
        expected.standard_error * detectable_shift(dof=found.evidence.dof or 0.0, alpha=0.05)
    )


def test_a_table_whose_dof_is_a_fraction_of_one_by_formula_is_judged_with_that_of_its_topics() -> (
    None
):
    # an A/A comparison of the example of README: 2 topics, 3 wordings, 5 hits each
    found = judged(np.array([[0.0, 0.2, 0.4], [0.6, 0.0, -0.6]]))
    assert (found.effect.method, found.evidence.dof) == ("crossed", 1.0)
    assert found.verdict is Verdict.INCONCLUSIVE


def test_a_wording_that_reads_worse_alone_is_no_regression_of_wordings_in_general() -> None:
    one_wording = np.zeros((TOPICS, 3))
    one_wording[:, 0] = -0.2
    one_wording += 0.01 * EFFECTS[:, :3]
    found = judged(one_wording)
    assert found.effect.method == "crossed"
    assert found.verdict is not Verdict.REGRESSED
    assert (found.evidence.settle_cases, found.evidence.settle_repeats) == (None, None)


def test_replayed_topics_thin_the_effect_out() -> None:
    found = judged(EFFECTS - 0.1, replayed=8)
    expected = crossed_test(EFFECTS - 0.1)
    assert expected.interval is not None
    assert found.effect.difference == pytest.approx(np.mean(EFFECTS - 0.1) / 2)
    assert found.evidence.interval == pytest.approx([end / 2 for end in expected.interval])


def test_a_margin_is_held_against_all_cases() -> None:
    runs = crossed(EFFECTS - 0.1, replayed=8)
    found = compared(*runs, GateRules(margin=0.03))
    expected = crossed_test(EFFECTS - 0.1 + 0.06)
    assert found.evidence.p == pytest.approx(expected.tails.worse)
    assert found.evidence.t == pytest.approx(expected.statistic)


def test_wordings_without_spread_have_no_interval() -> None:
    found = judged(np.full((TOPICS, WORDINGS), -0.25))
    assert (found.effect.method, found.evidence.interval, found.evidence.t) == (
        "crossed",
        None,
        None,
    )
    assert found.evidence.p == 0.5**WORDINGS


@pytest.mark.parametrize("wordings", [1, 2])
def test_with_fewer_wordings_topics_are_the_units(wordings: int) -> None:
    found = judged(EFFECTS[:, :wordings] - 0.1)
    assert (found.effect.method, found.evidence.wordings) == ("paired-t", wordings)
    assert found.effect.units == TOPICS


def test_a_table_with_a_hole_speaks_of_these_wordings() -> None:
    found = judged(EFFECTS - 0.1, left_out=((2, 1),))
    assert (found.effect.method, found.effect.units) == ("paired-t", TOPICS)


def test_a_cell_with_two_cases_speaks_of_these_wordings() -> None:
    baseline, current = crossed(EFFECTS - 0.1)
    again = worded(a_case("again", scores=[0.5, 0.5]), "t0", "w0")
    baseline, current = (
        dataclasses.replace(run, cases=(*run.cases, again.case), trials=run.trials + again.trials)
        for run in (baseline, current)
    )
    assert compared(baseline, current).effect.method == "paired-t"


def test_a_single_topic_is_one_unit() -> None:
    found = judged(EFFECTS[:1] - 0.1)
    assert (found.verdict, found.row, found.effect.units) == (Verdict.INCONCLUSIVE, 7, 1)


def test_topics_of_one_cluster_are_no_rows() -> None:
    assert judged(EFFECTS - 0.1, cluster="doc").effect.units == 1


def test_topics_that_share_their_cluster_are_no_table() -> None:
    baseline, current = (
        dataclasses.replace(
            run,
            cases=tuple(
                dataclasses.replace(case, cluster=str(int(str(case.topic)[1:]) // 2))
                for case in run.cases
            ),
        )
        for run in crossed(EFFECTS - 0.1)
    )
    found = compared(baseline, current)
    assert found.effect.units == TOPICS / 2
    assert found.effect.method == "sign-flip"


def test_a_chosen_test_takes_topics_as_units() -> None:
    chosen: GateTest = "sign-flip"
    found = compared(*crossed(EFFECTS - 0.1), GateRules(test=chosen))
    assert (found.effect.method, found.effect.units) == (chosen, TOPICS)


def test_without_wordings_there_are_none() -> None:
    run = a_run(a_case("a", "pp"))
    assert compared(run, run).evidence.wordings == 0
