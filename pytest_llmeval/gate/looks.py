"""Judge a comparison early, while its trials are made, without more false alarms.

The rule, its simulation and its limits: docs/early-stopping.md. A look takes whole rounds: as many
trials of each case. What a look finds depends on the recorded trials alone, so a run that is judged
again finds the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from pytest_llmeval.gate.pairing import Pairing
from pytest_llmeval.gate.results import Look, Method
from pytest_llmeval.gate.significance import Tested
from pytest_llmeval.stats.distributions import normal_quantile, normal_tail
from pytest_llmeval.stats.early_looks import EarlyLooks, information
from pytest_llmeval.stats.intervals import student_interval
from pytest_llmeval.stats.sample import SignificanceResult, Tails
from pytest_llmeval.stats.t_tests import FEWEST_UNITS_FOR_T

LOOKED_AT: tuple[Method, ...] = ("paired-t", "log-ratio", "same-shift")
_NO_LOOK = -8.0  # z of a look at which nothing could be tested: it spends nothing that matters
_FARTHEST = 8.0  # z of a p that is 0 or 1 in floating point


class Pair(NamedTuple):
    """A function and a metric, examined after so many repeats."""

    repeats: int
    tested: Tested | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looked:
    """What the looks at one comparison found so far.

    Attributes:
        looks: the looks at which it could be tested.
        tails: its p-values over all looks, valid whenever it stops.
        share: of the information that there is at the last of these looks.
        beyond: what may lie beyond the limit of that look, in (0, 0.5).
        beyond_at_end: likewise at the last planned look.
    """

    looks: tuple[Look, ...]
    tails: Tails
    share: float
    beyond: float
    beyond_at_end: float

    def judged(self, pairing: Pairing, found: SignificanceResult) -> SignificanceResult:
        """Return the result of the last look as one of all looks: its p-values, its interval."""
        ends = None
        if found.interval is not None and found.dof is not None:
            ends = student_interval(
                pairing.difference, found.standard_error, dof=found.dof, alpha=self.beyond
            )
        return replace(found, tails=self.tails, interval=ends)


def is_looked_at(pairing: Pairing, method: Method) -> bool:
    """Tell whether a comparison that is tested so has looks before its end."""
    return method in LOOKED_AT and pairing.whole_units >= FEWEST_UNITS_FOR_T


def looked(pairs: Sequence[Pair], *, planned: Sequence[int], alpha: float) -> Looked | None:
    """Go through the looks at one comparison so far.

    Args:
        pairs: what each look examined, the first one first; None where it could test nothing.
        planned: after how many repeats there is a look; the last are all.
        alpha: one-sided level over all looks, in (0, 0.5).

    Returns:
        The looks; None where the comparison could be tested at none of them.
    """
    tested = [(at, pair.repeats, pair.tested) for at, pair in enumerate(pairs) if pair.tested]
    if not tested:
        return None
    counts = [len(case.baseline.values) for case in tested[0][2][0].changed]
    # by the harmonic mean of the baseline's trials over the changed cases
    shares = information(len(counts) / math.fsum(1 / count for count in counts), planned)
    looks = EarlyLooks(shares)
    limits = looks.limits(alpha)
    tails = {at: found.tails for at, _, (_, _, found) in tested}
    worse = looks.sequential_p([*_z_values(tails, len(pairs), lambda one: one.worse)])
    better = looks.sequential_p([*_z_values(tails, len(pairs), lambda one: one.better)])
    told = tuple(
        Look(
            repeats=repeats,
            p=found.tails.worse,
            z=z_of(found.tails.worse),
            limit=limits[at],
            sequential_p=worse[at],
        )
        for at, repeats, (_, _, found) in tested
    )
    last = tested[-1][0]
    return Looked(
        looks=told,
        tails=Tails(worse=worse[-1], better=better[-1]),
        share=shares[last],
        beyond=normal_tail(limits[last]),
        beyond_at_end=normal_tail(limits[-1]),
    )


def _z_values(
    tails: Mapping[int, Tails], looks: int, side: Callable[[Tails], float]
) -> Iterator[float]:
    return (z_of(side(tails[at])) if at in tails else _NO_LOOK for at in range(looks))


def z_of(p: float) -> float:
    """Return the z of a one-sided p-value, within what floating point can tell from 0 and 1."""
    if p > 0.5:  # noqa: PLR2004 - the quantiles are of the upper half
        return -z_of(1 - p)
    return 0.0 if p == 0.5 else normal_quantile(max(p, normal_tail(_FARTHEST)))  # noqa: PLR2004
