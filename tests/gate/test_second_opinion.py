"""Random tables through the whole gate, each figure beside scipy's and statsmodels'."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import FunctionComparison
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.exact import exact_within_case
from pytest_llmeval.stats.sample import CaseScores
from tests.gate.builders import a_case, a_run, joined, judged, runs, scored_runs

Scores = list[list[float]]
CLOSE = {"rel": 1e-9, "abs": 1e-9}
TABLES, OF_CALIBRATION = 150, 10_000
pytestmark = pytest.mark.unmeasured


def a_table(random: np.random.Generator) -> tuple[Scores, Scores]:
    """Hits, tenths or any scores of 2 to 40 cases, each side with its own number of repeats."""
    cases, kind = int(random.integers(2, 41)), random.integers(3)
    rates = random.beta(2, 1, cases)
    tables = []
    for repeats in random.integers(1, 7, size=2):
        drawn = random.random((cases, int(repeats)))
        if kind == 0:
            drawn = (drawn < rates[:, np.newaxis]).astype(float)
        elif kind == 1:
            drawn = np.round(drawn, 1)
        tables.append(drawn.tolist())
    return tables[0], tables[1]


def exact_p(before: Scores, after: Scores) -> float:
    """The mid-p of a fall: of hits by scipy's hypergeometric distribution, else the gate's own."""
    if not {0.0, 1.0}.issuperset(
        score for side in (before, after) for one in side for score in one
    ):
        pairs = zip(before, after, strict=True)
        cases = [CaseScores(baseline=tuple(one), current=tuple(other)) for one, other in pairs]
        return exact_within_case(cases).mid_p.worse
    chances = np.ones(1)
    for one, other in zip(before, after, strict=True):
        n0, n1, hits = len(one), len(other), int(sum(one) + sum(other))
        chances = np.convolve(chances, stats.hypergeom.pmf(np.arange(n1 + 1), n0 + n1, hits, n1))
    seen = int(sum(map(sum, after)))
    return float(chances[:seen].sum() + chances[seen] / 2)


def agrees(before: Scores, after: Scores) -> FunctionComparison:
    """Compare every figure of a comparison with what others make of it."""
    found = judged(*scored_runs(before, after))
    means = [np.array([np.mean(one) for one in side]) for side in (before, after)]
    differences = means[1] - means[0]
    evidence, effect = found.evidence, found.effect
    assert effect.baseline_mean == pytest.approx(float(means[0].mean()), **CLOSE)
    assert effect.mean == pytest.approx(float(means[1].mean()), **CLOSE)
    assert effect.difference == pytest.approx(float(differences.mean()), **CLOSE)
    if effect.method != "paired-t":
        return found
    alone = stats.ttest_1samp(differences, 0, alternative="less")
    assert evidence.t == pytest.approx(float(alone.statistic), **CLOSE)
    moved = int(np.sum(np.abs(differences) > 1e-12))
    p = float(alone.pvalue)
    if moved < 6 or len(before[0]) != len(after[0]):
        p = max(p, exact_p(before, after))
    assert evidence.p == pytest.approx(p, **CLOSE)
    upper = stats.t.interval(0.9, len(differences) - 1, differences.mean(), stats.sem(differences))
    assert evidence.interval is not None
    ends = float(upper[0]), float(upper[1])
    if found.verdict == "improved":
        assert evidence.interval[0] == pytest.approx(max(0.0, ends[0]), **CLOSE)
    expected = min(0.0, ends[1]) if found.verdict == "regressed" else max(0.0, ends[1])
    assert evidence.interval[1] == pytest.approx(expected, **CLOSE)
    return found


def check(seed: int) -> None:
    agrees(*a_table(np.random.default_rng(seed)))


@pytest.mark.parametrize("block", range(10))
def test_random_tables_agree_with_scipy(block: int) -> None:
    for seed in range(block * TABLES // 10, (block + 1) * TABLES // 10):
        check(seed)


@pytest.mark.calibration
@pytest.mark.parametrize("block", range(20))
def test_ten_thousand_random_tables_agree_with_scipy(block: int) -> None:
    for seed in range(block * OF_CALIBRATION // 20, (block + 1) * OF_CALIBRATION // 20):
        check(seed)


def test_pairs_of_single_hits_are_mcnemars_of_statsmodels() -> None:
    random = np.random.default_rng(4)
    for _ in range(30):
        cases = int(random.integers(3, 30))
        letters = [("pm"[a], "pm"[b]) for a, b in random.integers(2, size=(cases, 2))]
        fell, rose = letters.count(("p", "m")), letters.count(("m", "p"))
        found = judged(*runs(letters))
        exact = mcnemar([[0, fell], [rose, 0]], exact=True).pvalue
        p = found.evidence.p_within_case
        assert p is not None
        if fell > rose:
            assert 2 * p == pytest.approx(float(exact), **CLOSE)


def test_clusters_are_the_robust_errors_of_statsmodels() -> None:
    random = np.random.default_rng(5)
    for _ in range(20):
        clusters, size = int(random.integers(6, 15)), int(random.integers(1, 4))
        scores = random.random((2, clusters * size, 3))
        sides = [
            a_run(
                *(
                    a_case(f"{at:03}", scores=one, request=request, cluster=str(at // size))
                    for at, one in enumerate(side.tolist())
                )
            )
            for side, request in zip(scores, ("v1", "v2"), strict=True)
        ]
        found = judged(*sides)
        differences = np.mean(scores[1], axis=1) - np.mean(scores[0], axis=1)
        groups = np.arange(clusters * size) // size
        robust = sm.OLS(differences, np.ones((len(differences), 1))).fit(
            cov_type="cluster", cov_kwds={"groups": groups, "use_correction": False}
        )
        error = float(robust.bse[0]) * math.sqrt(clusters / (clusters - 1))
        assert found.evidence.t == pytest.approx(float(differences.mean()) / error, **CLOSE)


def test_several_functions_are_adjusted_as_statsmodels_does() -> None:
    random = np.random.default_rng(6)
    both = [a_run(), a_run()]
    for at in range(5):
        for side, request in enumerate(("v1", "v2")):
            cases = (
                a_case(f"{case}", scores=one, function=f"test_{at}", request=request)
                for case, one in enumerate((random.random((8, 2)) - 0.1 * side * at).tolist())
            )
            both[side] = joined(both[side], a_run(*cases))
    found = compare(*both, GateRules()).functions
    holm = multipletests([one.evidence.p for one in found], method="holm")[1]
    assert [one.evidence.p_adjusted for one in found] == pytest.approx(holm.tolist(), **CLOSE)
