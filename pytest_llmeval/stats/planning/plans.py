"""A plan: what a suite finds now, and what more cases or more repeats would buy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pytest_llmeval.stats.planning.power import within_case_variance
from pytest_llmeval.stats.planning.suite_size import (
    Components,
    Design,
    Point,
    cases_needed,
    curve,
    power_of,
    repeats_needed,
    smallest_drop,
)

REPEATS = (1, 2, 3, 5, 10, 20, 30)
TIMES_THE_CASES = (0.5, 1, 2, 3, 5, 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class CasesPoint:
    """What a number of cases buys, with the repeats of the design."""

    cases: int
    point: Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a comparison finds, and what would be needed.

    Attributes:
        design: the comparison as it is.
        drop: true mean drop that is to be found, > 0.
        wanted: the chance to find it that is wanted, in (0, 1).
        power: the chance to find it now.
        smallest_drop: found with 80 % power now; None if nothing is.
        cases: that would be needed with these repeats; None above a million.
        repeats: that would be needed here with these cases; None if no number would do.
        repeats_on_both_sides: the same, with a baseline of as many.
        by_repeats: what numbers of repeats buy.
        by_cases: what numbers of cases buy.
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
    by_cases: tuple[CasesPoint, ...]


def plan(design: Design, *, drop: float, power: float) -> Plan:
    """Work out what a comparison finds and what would be needed.

    Args:
        design: with whole numbers of cases and repeats.
        drop: true mean drop that is to be found, > 0.
        power: the chance to find it that is wanted, in (0, 1).
    """
    needed = cases_needed(design, drop=drop, power=power)
    repeats = repeats_needed(design, drop=drop, power=power)
    return Plan(
        design=design,
        drop=drop,
        wanted=power,
        power=power_of(design, drop=drop),
        smallest_drop=smallest_drop(design),
        cases=needed,
        repeats=repeats,
        repeats_on_both_sides=repeats_needed(design, drop=drop, power=power, baseline_too=True),
        by_repeats=curve(design, drop=drop, repeats=_grid(REPEATS, design.here, repeats)),
        by_cases=tuple(
            CasesPoint(cases=number, point=_with_cases(design, number, drop=drop))
            for number in _grid(
                [round(design.cases * times) for times in TIMES_THE_CASES], design.cases, needed
            )
        ),
    )


def _grid(usual: Sequence[int], *more: float | None) -> list[int]:
    """Return the usual numbers, and those that are asked about."""
    return sorted({*usual, *(int(number) for number in more if number is not None)} - {0})


def _with_cases(design: Design, cases: int, *, drop: float) -> Point:
    [point] = curve(replace(design, cases=cases), drop=drop, repeats=[int(design.here)])
    return point


def recorded_components(
    samples: Sequence[Sequence[float]], *, drop: float, pass_scores: bool
) -> Components | None:
    """Estimate the components of a drop from a single run.

    One run does not tell how unlike its cases would fall. Each is taken to lose the same
    share of its score, so that cases differ as far as they did in that run.

    Args:
        samples: the scores of each case, at least one case with at least one score each.
        drop: true mean drop, from 0 to the mean.
        pass_scores: the scores are 0 and 1: then the spread after the drop is known.

    Returns:
        The components; None if no case has two scores, or with fewer than two cases.

    Source:
        Moments of a two-level model, as for ``estimated_components``: the variance of the
        true means is that of the seen ones less what chance adds. For pass scores the
        spread of rates p (1 - f) follows from the means of p and p^2 (algebra).
    """
    within = within_case_variance(samples)
    if within is None or len(samples) < 2:  # noqa: PLR2004 - a spread needs two
        return None
    means = [float(np.mean(sample)) for sample in samples]
    mean = float(np.mean(means))
    share = drop / abs(mean) if mean else 0.0
    noise = within * float(np.mean([1 / len(sample) for sample in samples]))
    between = max(0.0, float(np.var(means, ddof=1)) - noise)
    after = within
    if pass_scores:
        kept = 1 - share
        after = max(0.0, kept * (mean - kept * (mean - within)))
    return Components(within_there=within, within_here=after, between=share**2 * between)
