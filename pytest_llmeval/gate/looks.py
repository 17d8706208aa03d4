"""Judge a comparison early, while its trials are made, without more false alarms.

The rule, its simulation and its limits: docs/early-stopping.md. A look takes whole rounds: as many
trials of each case. What a look finds depends on the recorded trials alone, so a run that is judged
again finds the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from pytest_llmeval.gate.results import Look, Method
from pytest_llmeval.gate.significance import Examined
from pytest_llmeval.stats.distributions import normal_quantile, normal_tail
from pytest_llmeval.stats.early_looks import information, sequential_p
from pytest_llmeval.stats.intervals import student_interval
from pytest_llmeval.stats.multiplicity import spending_bounds
from pytest_llmeval.stats.sample import Tails

LOOKED_AT: tuple[Method, ...] = ("paired-t", "log-ratio", "same-shift")
# z of both tails of a look at which nothing could be tested: it spends nothing that matters
_NO_LOOK = (-8.0, -8.0)
_FARTHEST = 8.0  # z of a p that is 0 or 1 in floating point


class Looked(NamedTuple):
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

    def judged(self, last: Examined) -> Examined:
        """Return the result of the last look as one of all looks: its p-values, its interval."""
        (pairing, _, found), ends = last, None
        if found.interval is not None and found.dof is not None:
            ends = student_interval(
                pairing.difference, found.standard_error, dof=found.dof, alpha=self.beyond
            )
        return last._replace(found=replace(found, tails=self.tails, interval=ends))


def is_looked_at(tested: Examined) -> bool:
    """Tell whether a comparison that is tested so has looks before its end."""
    return tested.method in LOOKED_AT and not tested.pairing.lacks_units


def looked(
    examined: Mapping[int, Examined | None], *, planned: Sequence[int], alpha: float
) -> Looked | None:
    """Go through the looks at one comparison so far.

    Args:
        examined: what each look found, by the repeats of each case, ascending; None where it could
            test nothing.
        planned: after how many repeats there is a look; the last are all.
        alpha: one-sided level over all looks, in (0, 0.5).

    Returns:
        The looks; None where the comparison could be tested at none of them.
    """
    first = next((one for one in examined.values() if one), None)
    if first is None:
        return None
    counts = [len(case.baseline.values) for case in first.pairing.changed]
    # by the harmonic mean of the baseline's trials over the changed cases
    shares = information(len(counts) / math.fsum(1 / count for count in counts), planned)
    limits = spending_bounds(shares, alpha=alpha)
    tails = [one and one.found.tails for one in examined.values()]
    z_values = [(z_of(each.worse), z_of(each.better)) if each else _NO_LOOK for each in tails]
    worse, better = (sequential_p(shares, side) for side in zip(*z_values, strict=True))
    rows = enumerate(zip(examined, tails, strict=True))
    known = [(at, repeats, each.worse) for at, (repeats, each) in rows if each]
    last = known[-1][0]
    return Looked(
        looks=tuple(
            Look(repeats=repeats, p=p, z=z_of(p), limit=limits[at], sequential_p=worse[at])
            for at, repeats, p in known
        ),
        tails=Tails(worse=worse[-1], better=better[-1]),
        share=shares[last],
        beyond=normal_tail(limits[last]),
        beyond_at_end=normal_tail(limits[-1]),
    )


def z_of(p: float) -> float:
    """Return the z of a one-sided p-value, within what floating point can tell from 0 and 1."""
    if p > 0.5:  # noqa: PLR2004 - the quantiles are of the upper half
        return -z_of(1 - p)
    return 0.0 if p == 0.5 else normal_quantile(max(p, normal_tail(_FARTHEST)))  # noqa: PLR2004
