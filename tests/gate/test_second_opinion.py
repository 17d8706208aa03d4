"""Random tables through the whole gate, each figure beside scipy's and statsmodels'."""

from __future__ import annotations

import math

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from pytest_llmeval.gate.compare import compare
from pytest_llmeval.gate.results import FunctionComparison
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.exact import exact_within_case
from pytest_llmeval.stats.sample import CaseScores
from tests.gate.builders import a_case, a_run, joined, judged, runs, scored_runs

Scores = list[list[float]]
Array = NDArray[np.float64]
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


def are_hits(*sides: Scores) -> bool:
    return {0.0, 1.0}.issuperset(score for side in sides for one in side for score in one)


def exact_p(before: Scores, after: Scores) -> tuple[float, float]:
    """The mid-p of a fall and of a rise: of hits by scipy's distribution, else the gate's own."""
    if not are_hits(before, after):
        pairs = zip(before, after, strict=True)
        cases = [CaseScores(baseline=tuple(one), current=tuple(other)) for one, other in pairs]
        found = exact_within_case(cases).mid_p
        return found.worse, found.better
    chances = np.ones(1)
    for one, other in zip(before, after, strict=True):
        n0, n1, hits = len(one), len(other), int(sum(one) + sum(other))
        chances = np.convolve(chances, stats.hypergeom.pmf(np.arange(n1 + 1), n0 + n1, hits, n1))
    seen = int(sum(map(sum, after)))
    half = chances[seen] / 2
    return float(chances[:seen].sum() + half), float(chances[seen + 1 :].sum() + half)


def lower_end(before: Scores, after: Scores, differences: Array) -> float:
    """How far the mean may have fallen: Tango's limit, or one more case that fell by a trial."""
    n0, n1, cases = len(before[0]), len(after[0]), len(differences)
    if are_hits(before, after) and n0 == n1 == 1:
        quantile, (fell, rose) = stats.t.ppf(0.95, cases - 1), (differences < 0, differences > 0)
        return brentq(tango_beyond, -1, 0, args=(fell.sum(), rose.sum(), cases, quantile))
    every = [one + other for one, other in zip(before, after, strict=True)]
    if are_hits(before, after):
        rate = (np.mean(before) + np.mean(after)) / 2
        step = 1 / n1 + (1 - rate) * max(0.0, 1 / n0 - 1 / n1)
    else:
        step = max(max(one) - min(one) for one in every) / min(n0, n1)
    samples = differences, np.append(differences, -step)
    return min(np.mean(one) - stats.t.ppf(0.95, len(one) - 1) * stats.sem(one) for one in samples)


def tango_beyond(low: float, fell: int, rose: int, cases: int, quantile: float) -> float:
    """By how much Tango's z at a difference is beyond the quantile; at -1 it is any."""
    if low == -1:
        return 1.0
    b = (2 * cases - rose + fell) * low - rose - fell
    share = (math.sqrt(b * b + 8 * cases * fell * low * (1 - low)) - b) / (4 * cases)
    variance = cases * (2 * share + low - low * low)
    z = (rose - fell - cases * low) / math.sqrt(variance) if variance > 0 else math.inf
    return float(min(z, 1e9) - quantile)


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
    tails = [float(alone.pvalue), 1 - float(alone.pvalue)]
    if moved < 6 or len(before[0]) != len(after[0]):
        tails = list(map(max, tails, exact_p(before, after)))
    assert [evidence.p, evidence.p_improved] == pytest.approx(tails, **CLOSE)
    upper = stats.t.interval(0.9, len(differences) - 1, differences.mean(), stats.sem(differences))
    assert evidence.interval is not None
    ends = float(upper[0]), float(upper[1])
    if found.verdict == "improved":
        assert evidence.interval[0] == pytest.approx(max(0.0, ends[0]), **CLOSE)
    else:
        lowest = min(0.0, lower_end(before, after, differences))
        assert evidence.interval[0] == pytest.approx(lowest, **CLOSE)
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
