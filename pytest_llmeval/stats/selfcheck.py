"""How often would the gate cry wolf on this very suite? Deal one run into two, and count."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from pytest_llmeval.stats.exact import CaseScores, exact_within_case
from pytest_llmeval.stats.intervals import wilson_interval
from pytest_llmeval.stats.paired import negligible
from pytest_llmeval.stats.repeats import Drift, in_step, repeat_drift

FloatArray = NDArray[np.float64]

DEALS = 2000
# the exact test is run anew for every deal
EXACT_DEALS = 200
# a large suite is dealt less often: 20,000 trials take a second
MOST_DEALT = 10_000_000
# where the gate changes from the exact test to the t-test
FEWEST_CASES_FOR_T = 6
FEWEST_REPEATS = 2
# of the Monte-Carlo error bar, beyond each end
BEYOND = 0.025


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCheck:
    """What the default test says of a run held against itself.

    Attributes:
        method: the test that was run on every deal.
        cases: that were dealt: those with two or more trials.
        left_out: cases with fewer.
        deals: how often the trials were dealt.
        alarms: how often the test called one half worse than the other.
        interval: of the rate of alarms, 95 %: what so few deals leave open.
        drift: whether repeats differ by more than chance; None if it cannot be told.
    """

    method: str
    cases: int
    left_out: int
    deals: int
    alarms: int
    interval: tuple[float, float]
    drift: Drift | None

    @property
    def rate(self) -> float:
        """The share of deals with an alarm, in [0, 1]."""
        return self.alarms / self.deals


def self_check(
    samples: Sequence[Sequence[float]], *, alpha: float = 0.05, deals: int = DEALS
) -> SelfCheck | None:
    """Deal the trials of each case into two halves at random, and run the default test.

    Nothing differs between the halves, so alarms should be as rare as the level says. Of
    an odd number of trials one, drawn anew each time, is left out. The draws are seeded by
    the scores: the same run gives the same answer.

    Args:
        samples: the scores of each case by trial index, finite.
        alpha: one-sided level of the test, in (0, 0.5).
        deals: how many at most with the t-test, >= 1. Fewer, but 200 at least, where that
            would deal more than 10 million trials; 200 at most with the exact test.

    Returns:
        The check; None if no case has two trials.
    """
    repeated = [sample for sample in samples if len(sample) >= FEWEST_REPEATS]
    if not repeated:
        return None
    # any order of cases and trials is dealt alike
    dealt = sorted(sorted(sample) for sample in repeated)
    random = _seeded(dealt)
    if len(dealt) < FEWEST_CASES_FOR_T:
        method, deals = "exact-within-case", min(deals, EXACT_DEALS)
        alarms = sum(_exact_alarm(dealt, random, alpha=alpha) for _ in range(deals))
    else:
        method = "paired-t"
        affordable = MOST_DEALT // sum(map(len, dealt))
        deals = min(deals, max(EXACT_DEALS, affordable))
        alarms = _t_alarms(_differences(dealt, random, deals=deals), alpha=alpha)
    return SelfCheck(
        method=method,
        cases=len(dealt),
        left_out=len(samples) - len(dealt),
        deals=deals,
        alarms=alarms,
        interval=wilson_interval(alarms, deals, alpha=BEYOND),
        drift=repeat_drift(in_step(repeated)),
    )


def _exact_alarm(
    samples: Sequence[Sequence[float]], random: np.random.Generator, *, alpha: float
) -> bool:
    cases = []
    for sample in samples:
        shuffled, half = random.permutation(sample).tolist(), len(sample) // 2
        cases.append(
            CaseScores(there=tuple(shuffled[:half]), here=tuple(shuffled[half : 2 * half]))
        )
    return exact_within_case(cases).worse < alpha


def _differences(
    samples: Sequence[Sequence[float]], random: np.random.Generator, *, deals: int
) -> FloatArray:
    """Deal all cases that have equally many trials at once; shape (n_deals, n_cases)."""
    by_size: defaultdict[int, list[Sequence[float]]] = defaultdict(list)
    for sample in samples:
        by_size[len(sample)].append(sample)
    columns = []
    for size, alike in sorted(by_size.items()):
        signs = np.zeros(size)
        signs[: size // 2], signs[size // 2 : size // 2 * 2] = 1.0, -1.0
        for sample in alike:
            dealt = random.permuted(np.tile(signs, (deals, 1)), axis=1)
            columns.append(dealt @ np.asarray(sample, dtype=np.float64) / (size // 2))
    return np.stack(columns, axis=1)


def _t_alarms(differences: FloatArray, *, alpha: float) -> int:
    """Run the paired t-test on every row; where all cases moved alike, count signs."""
    cases = differences.shape[1]
    means = np.mean(differences, axis=1)
    errors = np.std(differences, axis=1, ddof=1) / np.sqrt(cases)
    zero = negligible(differences)
    spread = errors > zero
    t = means[spread] / errors[spread]
    by_t = int(np.count_nonzero(special.stdtr(cases - 1, t) < alpha))
    alike = int(np.count_nonzero(means[~spread] < -zero)) if 0.5**cases < alpha else 0
    return by_t + alike


def _seeded(samples: Sequence[Sequence[float]]) -> np.random.Generator:
    text = ",".join(repr(float(score)) for sample in samples for score in sample)
    return np.random.default_rng(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big"))
