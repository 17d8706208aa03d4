"""The size of a suite: the drop that it finds, also with more cases or more repeats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytest_llmeval.stats.arrays import ArrayLike, FloatArray, np, special
from pytest_llmeval.stats.detection import (
    POWER,
    detectable_shift,
    fewest,
    power_of_t,
    within_case_variance,
)
from pytest_llmeval.stats.intervals import negligible
from pytest_llmeval.stats.sample import CaseScores

MOST_CASES = 1_000_000
MOST_REPEATS = 1000
# the numbers of repeats and of cases that a plan tabulates
REPEATS = (1, 2, 3, 5, 10, 20, 30)
TIMES_THE_CASES = (0.5, 1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class Components:
    """The components of the variance of a case's difference, each >= 0.

    Attributes:
        within_baseline: of one trial of a case, in the baseline.
        within_current: of one trial of a case, in the current run.
        between: of the true differences, from case to case.
    """

    within_baseline: float
    within_current: float
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
    baseline = within_case_variance([case.baseline for case in cases])
    current = within_case_variance([case.current for case in cases])
    if baseline is None or current is None or len(cases) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    spread = float(np.var([case.difference(1) for case in cases], ddof=1))
    noises = [baseline / len(case.baseline) + current / len(case.current) for case in cases]
    between = max(0.0, spread - float(np.mean(noises)))
    return Components(within_baseline=baseline, within_current=current, between=between)


def recorded_components(
    samples: Sequence[Sequence[float]], *, drop: float, pass_scores: bool
) -> Components | None:
    """Estimate the components of a drop from a single run.

    One run does not tell how unlike its cases would fall. Each case is taken to lose the same share
    of its score, so that cases differ as far as in that run.

    Args:
        samples: the scores of each case, at least one case with at least one score each.
        drop: true mean drop, from 0 to the mean.
        pass_scores: the scores are 0 and 1: then the spread after the drop is known.

    Returns:
        The components; None if no case has two scores, or with fewer than two cases.

    Source:
        Moments of a two-level model, as for ``estimated_components``: the variance of the true
        means is the variance of the observed means less the part of chance. For pass scores the
        spread of rates p (1 - f) follows from the means of p and p^2 (algebra).
    """
    within = within_case_variance(samples)
    if within is None or len(samples) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    means = [float(np.mean(sample)) for sample in samples]
    mean = float(np.mean(means))
    share = min(1.0, drop / abs(mean)) if mean else 0.0
    noise = within * float(np.mean([1 / len(sample) for sample in samples]))
    spread = float(np.var(means, ddof=1))
    between = max(0.0, spread - noise) if math.sqrt(spread) > negligible(means) else 0.0
    after = within
    if pass_scores:
        kept = 1 - share
        after = max(0.0, kept * (mean - kept * (mean - within)))
    return Components(within_baseline=within, within_current=after, between=share**2 * between)


def assumed_components(baseline: ArrayLike, current: ArrayLike) -> Components:
    """Work the components out from assumed pass rates.

    Args:
        baseline: shape (n_cases,), rate of each case in the baseline, in [0, 1].
        current: shape (n_cases,), rate of each case after the drop, likewise.
    """
    before, after = np.asarray(baseline, dtype=np.float64), np.asarray(current, dtype=np.float64)
    return Components(
        within_baseline=float(np.mean(before * (1 - before))),
        within_current=float(np.mean(after * (1 - after))),
        between=float(np.var(after - before)),
    )


def fallen(rates: ArrayLike, drop: float) -> FloatArray:
    """Return pass rates that fell by one factor, so that their mean fell by a drop.

    Args:
        rates: shape (n_cases,), in [0, 1], not all 0.
        drop: of the mean, from 0 to the mean.
    """
    before = np.asarray(rates, dtype=np.float64)
    after: FloatArray = before * (1 - drop / float(np.mean(before)))
    return after


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A comparison that is planned: the paired t-test on the means of cases.

    Attributes:
        cases: that will be asked again, >= 1; need not be whole.
        baseline: repeats of each in the baseline, >= 1.
        current: repeats of each in the current run, >= 1.
        components: the variances of its differences.
        alpha: one-sided level, in (0, 0.5).
    """

    cases: float
    baseline: float
    current: float
    components: Components
    alpha: float = 0.05

    @property
    def standard_error(self) -> float:
        """The error of the mean difference: root of (s2_delta + s2_w1/n1 + s2_w0/n0) / m."""
        noise = (
            self.components.within_baseline / self.baseline
            + self.components.within_current / self.current
        )
        return math.sqrt((self.components.between + noise) / self.cases)


def power_of(design: Design, *, drop: float) -> float:
    """Return the chance that a drop will be found, in [0, 1].

    Args:
        design: the comparison; one of fewer than two cases finds nothing.
        drop: true mean drop, >= 0.

    Source:
        Noncentral t. Same as statsmodels ``TTestPower`` (one-sided).
    """
    dof, error = design.cases - 1, design.standard_error
    if dof < 1:
        return 0.0
    if error <= negligible([drop]):  # without any chance every case falls, or none
        return float(drop > 0 and 0.5**design.cases < design.alpha)
    critical = float(special.stdtrit(dof, 1 - design.alpha))
    return power_of_t(drop / error, dof=dof, critical=critical)


def detectable_drop(design: Design) -> float | None:
    """Return the drop that will be found with 80 % power, > 0.

    Returns:
        The drop; None with fewer than two cases, or where nothing is assumed to vary.
    """
    if design.cases < 2 or not design.standard_error:  # noqa: PLR2004 - a spread needs two
        return None
    shift = detectable_shift(dof=int(design.cases) - 1, alpha=design.alpha)
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
    """Return how many repeats of the current run find a drop, with the cases of a design.

    Args:
        design: the comparison; its own repeats of the current run do not matter.
        drop: true mean drop, > 0.
        power: chance to find it, in (0, 1).
        baseline_too: the baseline is recorded again, with as many repeats.

    Returns:
        The smallest number, >= 1; None if 1000 would not do: then more cases are needed, or more
        repeats in the baseline.
    """

    def finds(repeats: int) -> bool:
        if not repeats:
            return False
        baseline = repeats if baseline_too else design.baseline
        return power_of(replace(design, baseline=baseline, current=repeats), drop=drop) >= power

    return fewest(finds, above=0, limit=MOST_REPEATS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A number of cases and of repeats in the current run, and what they find.

    Attributes:
        calls: cases x repeats: trials of the current run.
        power: chance to find the drop that was asked for.
        smallest_drop: found with 80 % power; None if nothing is.
    """

    cases: float
    repeats: int
    calls: int
    power: float
    smallest_drop: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The drop that a comparison finds, and the cases or repeats that it would need.

    Attributes:
        design: the comparison as it is.
        drop: true mean drop that is to be found, > 0.
        wanted: the chance to find it that is wanted, in (0, 1).
        power: the chance to find it now.
        smallest_drop: found with 80 % power now; None if nothing is.
        cases: that would be needed with these repeats; None above a million.
        repeats: of the current run that would be needed with these cases; None if no number
            would do.
        repeats_on_both_sides: the same, with as many repeats in the baseline.
        by_repeats: the drops that other numbers of repeats find.
        by_cases: the drops that other numbers of cases find.
    """

    design: Design
    drop: float
    wanted: float
    power: float
    smallest_drop: float | None
    cases: int | None
    repeats: int | None
    repeats_on_both_sides: int | None
    by_repeats: tuple[Point, ...]
    by_cases: tuple[Point, ...]


def plan(design: Design, *, drop: float, power: float) -> Plan:
    """Work out which drop a comparison finds, and the cases or repeats that it would need.

    Args:
        design: with whole numbers of cases and repeats.
        drop: true mean drop that is to be found, > 0.
        power: the chance to find it that is wanted, in (0, 1).
    """
    cases = cases_needed(design, drop=drop, power=power)
    repeats = repeats_needed(design, drop=drop, power=power)
    more_repeats = _grid(REPEATS, design.current, repeats)
    usual_cases = [round(design.cases * times) for times in TIMES_THE_CASES]
    more_cases = _grid(usual_cases, design.cases, cases)
    return Plan(
        design=design,
        drop=drop,
        wanted=power,
        power=power_of(design, drop=drop),
        smallest_drop=detectable_drop(design),
        cases=cases,
        repeats=repeats,
        repeats_on_both_sides=repeats_needed(design, drop=drop, power=power, baseline_too=True),
        by_repeats=tuple(_point(replace(design, current=one), drop=drop) for one in more_repeats),
        by_cases=tuple(_point(replace(design, cases=one), drop=drop) for one in more_cases),
    )


def _grid(usual: Sequence[int], *more: float | None) -> list[int]:
    """Return the usual numbers, and the numbers that were asked about."""
    return sorted({*usual, *(int(number) for number in more if number is not None)} - {0})


def _point(design: Design, *, drop: float) -> Point:
    return Point(
        cases=design.cases,
        repeats=int(design.current),
        calls=round(design.cases * int(design.current)),
        power=power_of(design, drop=drop),
        smallest_drop=detectable_drop(design),
    )
