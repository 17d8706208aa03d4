"""Before anything is paid for: how many cases, how many repeats, what will be found."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from pytest_llmeval.stats.planning.power import (
    POWER,
    detectable_shift,
    fewest,
    power_of_t,
    within_case_variance,
)
from pytest_llmeval.stats.significance.exact import CaseScores
from pytest_llmeval.stats.significance.paired import negligible

FloatArray = NDArray[np.float64]

MOST_CASES = 1_000_000
MOST_REPEATS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """What makes the difference of a case vary, as variances, each >= 0.

    Attributes:
        within_there: of one trial of a case, in the baseline.
        within_here: of one trial of a case, here.
        between: of the true differences, from case to case.
    """

    within_there: float
    within_here: float
    between: float = 0.0


def estimated_components(cases: Sequence[CaseScores]) -> Components | None:
    """Estimate the components from a comparison.

    Args:
        cases: the scores of each on both sides.

    Returns:
        The components, ``between`` at least 0; None if a side has no repeats to tell
        chance from case, or with fewer than two cases.

    Source:
        s2_delta = var(d_i) - s2_w1/n1 - s2_w0/n0: moments of a two-level model, with the
        harmonic mean of unlike repeats. Miller (2024) plans with the same components.
    """
    there = within_case_variance([case.there for case in cases])
    here = within_case_variance([case.here for case in cases])
    if there is None or here is None or len(cases) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    spread = float(np.var([case.difference(1) for case in cases], ddof=1))
    noise = float(np.mean([there / len(case.there) + here / len(case.here) for case in cases]))
    return Components(within_there=there, within_here=here, between=max(0.0, spread - noise))


def assumed_components(there: ArrayLike, here: ArrayLike) -> Components:
    """Work the components out from pass rates that are assumed.

    Args:
        there: shape (n_cases,), rate of each case in the baseline, in [0, 1].
        here: shape (n_cases,), rate of each case after the drop, likewise.
    """
    before, after = np.asarray(there, dtype=np.float64), np.asarray(here, dtype=np.float64)
    return Components(
        within_there=float(np.mean(before * (1 - before))),
        within_here=float(np.mean(after * (1 - after))),
        between=float(np.var(after - before)),
    )


def fallen(rates: ArrayLike, drop: float) -> FloatArray:
    """Return pass rates that fell by one factor, so that their mean fell by a drop.

    Args:
        rates: shape (n_cases,), in [0, 1], not all 0.
        drop: of the mean, from 0 to that mean.
    """
    before = np.asarray(rates, dtype=np.float64)
    after: FloatArray = before * (1 - drop / float(np.mean(before)))
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A comparison that is planned: the paired t-test on the means of cases.

    Attributes:
        cases: that will be asked anew, >= 1; need not be whole.
        there: repeats of each in the baseline, >= 1.
        here: repeats of each here, >= 1.
        components: what makes the differences vary.
        alpha: level, in (0, 0.5).
        two_sided: test for any difference instead of a drop.
    """

    cases: float
    there: float
    here: float
    components: Components
    alpha: float = 0.05
    two_sided: bool = False

    @property
    def standard_error(self) -> float:
        """Of the mean difference: root of (s2_delta + s2_w1/n1 + s2_w0/n0) / m."""
        noise = self.components.within_there / self.there + self.components.within_here / self.here
        return math.sqrt((self.components.between + noise) / self.cases)

    @property
    def one_sided_alpha(self) -> float:
        """The level on the side of a drop."""
        return self.alpha / 2 if self.two_sided else self.alpha


def power_of(design: Design, *, drop: float) -> float:
    """Return the chance that a drop will be found, in [0, 1].

    Args:
        design: the comparison; one of fewer than two cases finds nothing.
        drop: true mean drop, >= 0. (Of a two-sided test the far tail is left out: it is no
            finding of a drop.)

    Source:
        Noncentral t. Same as statsmodels ``TTestPower`` (one-sided).
    """
    dof, error = design.cases - 1, design.standard_error
    if dof < 1:
        return 0.0
    if error <= negligible([drop]):  # no chance at all: every case falls, or none
        return float(drop > 0 and 0.5**design.cases < design.one_sided_alpha)
    critical = float(special.stdtrit(dof, 1 - design.one_sided_alpha))
    return power_of_t(drop / error, dof=dof, critical=critical)


def smallest_drop(design: Design) -> float | None:
    """Return the drop that will be found with 80 % power, > 0.

    Returns:
        It; None with fewer than two cases, or where nothing is assumed to vary.
    """
    if design.cases < 2 or not design.standard_error:  # noqa: PLR2004 - a spread needs two
        return None
    shift = detectable_shift(dof=int(design.cases) - 1, alpha=design.one_sided_alpha)
    return shift * design.standard_error


def cases_needed(design: Design, *, drop: float, power: float = POWER) -> int | None:
    """Return how many cases find a drop, with the repeats of a design.

    Args:
        design: the comparison; its own number of cases does not matter.
        drop: true mean drop, > 0.
        power: chance to find it, in (0, 1).

    Returns:
        The smallest number; None above 1,000,000.
    """
    return fewest(
        lambda cases: power_of(replace(design, cases=cases), drop=drop) >= power,
        above=1,
        limit=MOST_CASES,
    )


def repeats_needed(
    design: Design, *, drop: float, power: float = POWER, baseline_too: bool = False
) -> int | None:
    """Return how many repeats here find a drop, with the cases of a design.

    Args:
        design: the comparison; its own repeats here do not matter.
        drop: true mean drop, > 0.
        power: chance to find it, in (0, 1).
        baseline_too: the baseline is recorded anew, with as many repeats.

    Returns:
        The smallest number, >= 1; None if even 1000 would not do: then more cases are
        needed, or more repeats in the baseline.
    """

    def finds(repeats: int) -> bool:
        if not repeats:
            return False
        there = repeats if baseline_too else design.there
        return power_of(replace(design, there=there, here=repeats), drop=drop) >= power

    return fewest(finds, above=0, limit=MOST_REPEATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """What a number of repeats buys.

    Attributes:
        calls: cases x repeats: trials of this run.
        power: chance to find the drop that was asked for.
        smallest_drop: found with 80 % power; None if nothing is.
    """

    repeats: int
    calls: int
    power: float
    smallest_drop: float | None


def curve(design: Design, *, drop: float, repeats: Iterable[int]) -> tuple[Point, ...]:
    """Return what each number of repeats buys, with the cases of a design.

    Args:
        design: the comparison; its own repeats here do not matter.
        drop: true mean drop, >= 0.
        repeats: of each case here, each >= 1.
    """
    designs = [(number, replace(design, here=number)) for number in repeats]
    return tuple(
        Point(
            repeats=number,
            calls=round(design.cases * number),
            power=power_of(planned, drop=drop),
            smallest_drop=smallest_drop(planned),
        )
        for number, planned in designs
    )


def cases_needed_by_normal(
    variance: float, *, drop: float, alpha: float = 0.05, power: float = POWER, two_sided: bool
) -> float:
    """Return the number of cases by the normal formula, which is a little too hopeful.

    To be held against published numbers; ``cases_needed`` plans with the t-test that is
    used.

    Args:
        variance: of the difference of one case, omega^2 + s2_A/K_A + s2_B/K_B, >= 0.
        drop: > 0.
        alpha: level, in (0, 0.5).
        power: chance to find it, in (0, 1).
        two_sided: half the level on each side.

    Source:
        Miller (2024): (z_{alpha/2} + z_beta)^2 variance / delta^2, as cited in
        docs/statistics.md.
    """
    level = alpha / 2 if two_sided else alpha
    quantiles = float(special.ndtri(1 - level) + special.ndtri(power))
    return quantiles**2 * variance / drop**2
