"""The rate of false alarms of the gate on this very suite: deal two runs from one, and count.

Each trial of a dealt run is any trial of its case, also one that was dealt already. A split of the
trials into halves is right on average, but not for the suite at hand: with eight cases of four
trials it called two in five healthy suites ill.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_llmeval.stats.arrays import FloatArray, np, special
from pytest_llmeval.stats.exact import exact_within_case, seeded, sign_flip
from pytest_llmeval.stats.expected import DRIFT_LEVEL, drift_p
from pytest_llmeval.stats.intervals import dof_of_units, negligible, wilson_interval
from pytest_llmeval.stats.sample import FEWEST_REPEATS, HITS, CaseScores
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T, jackknife_errors

if TYPE_CHECKING:
    from numpy.typing import NDArray

# the cases that share their chance: the scores of each
Unit = list[list[float]]
Test = Literal["paired-t", "exact-within-case", "sign-flip"]

# with the t-test, unless that would deal too many trials
DEALS = 2000
# before a suite is called ill; the first look alone calls 1 in 40 healthy suites ill
DEALS_BEFORE_AN_ALARM = 5000
# a permutation test runs for every deal
EXACT_DEALS = 200
SHUFFLED_DEALS = 100
# a large suite is dealt less often: 20,000 trials take a second
MOST_DEALT = 10_000_000
# of the Monte-Carlo error bar, beyond each end
BEYOND = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """The false alarms of the default test on a run that is compared with itself.

    Attributes:
        method: the test that was run on every deal.
        cases: how many were dealt, with two or more trials each.
        left_out: how many cases have fewer.
        deals: how often two runs were dealt.
        alarms: how often the test called one run worse than the other.
        interval: of the rate of alarms, 95 %, as the deals are few.
        drift_p: chance that repeats differ as much without drift; None if nobody can tell.
    """

    method: Test
    cases: int
    left_out: int
    deals: int
    alarms: int
    interval: tuple[float, float]
    drift_p: float | None

    @property
    def rate(self) -> float:
        """The share of deals with an alarm, in [0, 1]."""
        return self.alarms / self.deals

    @property
    def drifts(self) -> bool:
        """Whether repeats differ by more than chance."""
        return self.drift_p is not None and self.drift_p < DRIFT_LEVEL


def self_check(
    samples: Sequence[Sequence[float]], units: Sequence[int] | None = None, *, alpha: float = 0.05
) -> SelfCheck | None:
    """Deal two runs from the trials of each case at random, and run the default test.

    Nothing differs between the two, so alarms should be as rare as the level says. Cases of one
    unit are dealt alike, so that trials of one index go on sharing what they share. The deals are
    seeded by the scores: the same run gives the same answer. Where alarms look more frequent than
    the level, 5,000 new deals take the place of the first ones.

    Args:
        samples: the scores of each case by trial index, finite.
        units: the unit of each case; a case each if not given.
        alpha: one-sided level of the test, in (0, 0.5).

    Returns:
        The check; None if no case has two trials.
    """
    repeated = _repeated(samples, units)
    if not repeated:
        return None
    dealt = sorted(map(_regardless_of_order, repeated))
    random = seeded(score for unit in dealt for sample in unit for score in sample)
    test = _test_of(dealt)
    deals = min(DEALS, _affordable(dealt, test))
    alarms = _alarms(dealt, test, random, alpha=alpha, deals=deals)
    if wilson_interval(alarms, deals, alpha=BEYOND)[0] > alpha:
        deals = DEALS_BEFORE_AN_ALARM
        alarms = _alarms(dealt, test, random, alpha=alpha, deals=deals)
    cases = sum(map(len, dealt))
    return SelfCheck(
        method=test,
        cases=cases,
        left_out=len(samples) - cases,
        deals=deals,
        alarms=alarms,
        interval=wilson_interval(alarms, deals, alpha=BEYOND),
        drift_p=drift_p(_sums_in_step(repeated).tolist()),
    )


def _repeated(samples: Sequence[Sequence[float]], units: Sequence[int] | None) -> list[Unit]:
    """Return the units of the cases with two trials or more."""
    labels = range(len(samples)) if units is None else units
    by_unit: defaultdict[int, Unit] = defaultdict(list)
    for label, sample in zip(labels, samples, strict=True):
        if len(sample) >= FEWEST_REPEATS:
            by_unit[label].append(list(sample))
    return list(by_unit.values())


def _regardless_of_order(unit: Unit) -> Unit:
    """Sort the cases of a unit; and trials, where no other case has its own of that index."""
    return sorted(unit) if len(unit) > 1 else [sorted(unit[0])]


def _sums_in_step(units: Sequence[Unit]) -> FloatArray:
    """Return the summed scores of each unit in the repeats that every case has."""
    fewest = min(len(sample) for unit in units for sample in unit)
    return np.array([np.sum([sample[:fewest] for sample in unit], axis=0) for unit in units])


def _test_of(units: Sequence[Unit]) -> Test:
    """Return the test that the gate would take."""
    sizes = [len(unit) for unit in units]
    if dof_of_units(sizes) + 1 >= FEWEST_UNITS_FOR_T:
        return "paired-t"
    return "exact-within-case" if max(sizes) == 1 else "sign-flip"


def _affordable(units: Sequence[Unit], test: Test) -> int:
    """Return how many deals are made at first."""
    trials = [score for unit in units for sample in unit for score in sample]
    if test == "paired-t":
        return max(EXACT_DEALS, MOST_DEALT // len(trials))
    shuffled = test == "exact-within-case" and not HITS.issuperset(trials)
    return SHUFFLED_DEALS if shuffled else EXACT_DEALS


def _alarms(
    units: Sequence[Unit], test: Test, random: np.random.Generator, *, alpha: float, deals: int
) -> int:
    """Count the deals whose first run the test calls worse, a bounded number at a time."""
    if test == "exact-within-case":
        samples = [unit[0] for unit in units]
        return sum(_exact_alarm(samples, random, alpha=alpha) for _ in range(deals))
    sizes, most, alarms = [len(unit) for unit in units], _affordable(units, test), 0
    for done in range(0, deals, most):
        differences = _differences(units, random, deals=min(most, deals - done))
        if test == "paired-t":
            alarms += _t_alarms(differences, sizes, alpha=alpha)
        else:
            sums = np.add.reduceat(differences, _starts(sizes), axis=1)
            alarms += sum(sign_flip(row).worse < alpha for row in sums)
    return alarms


def _exact_alarm(
    samples: Sequence[Sequence[float]], random: np.random.Generator, *, alpha: float
) -> bool:
    dealt = [random.choice(sample, size=(2, len(sample))).tolist() for sample in samples]
    cases = [CaseScores(baseline=tuple(before), current=tuple(after)) for before, after in dealt]
    return exact_within_case(cases).worse < alpha


def _differences(units: Sequence[Unit], random: np.random.Generator, *, deals: int) -> FloatArray:
    """Deal two runs of all cases, the cases of a unit alike; shape (n_deals, n_cases)."""
    columns = []
    for unit in units:
        dealt: dict[int, NDArray[np.int64]] = {}
        for sample in unit:
            size = len(sample)
            if size not in dealt:
                dealt[size] = random.integers(size, size=(2, deals, size))
            baseline, current = np.asarray(sample, dtype=np.float64)[dealt[size]].mean(axis=2)
            columns.append(current - baseline)
    return np.stack(columns, axis=1)


def _t_alarms(differences: FloatArray, sizes: Sequence[int], *, alpha: float) -> int:
    """Run the paired t-test over units on every row; where all moved alike, count signs."""
    means = np.mean(differences, axis=1)
    residuals = np.add.reduceat(differences - means[:, np.newaxis], _starts(sizes), axis=1)
    errors = jackknife_errors(residuals, sizes)
    zero = negligible([differences.max(), differences.min()])
    spread = errors > zero
    t = means[spread] / errors[spread]
    by_t = int(np.count_nonzero(special.stdtr(dof_of_units(sizes), t) < alpha))
    alike = int(np.count_nonzero(means[~spread] < -zero)) if 0.5 ** len(sizes) < alpha else 0
    return by_t + alike


def _starts(sizes: Sequence[int]) -> list[int]:
    """Return the column at which each unit starts."""
    return list(itertools.accumulate(sizes[:-1], initial=0))
