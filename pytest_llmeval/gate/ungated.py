"""Describe the metrics that the gate does not look at."""

from __future__ import annotations

from pytest_llmeval.gate.comparison import UngatedComparison
from pytest_llmeval.gate.figures import FEWEST_UNITS_FOR_T, Extent, measure
from pytest_llmeval.gate.pairing import Pairing, pair_up
from pytest_llmeval.gate.ratios import ratio, ratios
from pytest_llmeval.gate.scoring import off_scale
from pytest_llmeval.gate.sides import Subject
from pytest_llmeval.stats.significance.paired import paired_test


def describe_ungated(subject: Subject, *, alpha: float) -> UngatedComparison | None:
    """Say how a metric differs, without a verdict.

    Args:
        subject: a function that both runs have, and the metric.
        alpha: what may lie beyond each end of the interval, in (0, 0.5).

    Returns:
        None where no case has a value on both sides.
    """
    pairing = pair_up(subject)
    if not pairing.pairs:
        return None
    extent = measure(pairing)
    interval = _interval(pairing, extent, alpha=alpha)
    return UngatedComparison(
        function=subject.function,
        metric=subject.metric,
        better=subject.better,
        scale=subject.scale,
        cases=extent.cases,
        changed=extent.changed,
        difference=extent.difference,
        baseline_mean=off_scale(extent.baseline_mean, subject.scale),
        mean=off_scale(extent.mean, subject.scale),
        interval=interval,
        interval_level=1 - 2 * alpha if interval else None,
        ratio=ratio(extent.difference, subject),
        ratio_interval=ratios(interval, subject) if interval else None,
    )


def _interval(pairing: Pairing, extent: Extent, *, alpha: float) -> tuple[float, float] | None:
    if extent.whole_units < FEWEST_UNITS_FOR_T:
        return None
    differences = [pair.difference for pair in pairing.changed]
    ends = paired_test(differences, extent.unit_labels, alpha=alpha).interval
    return (extent.share * ends[0], extent.share * ends[1]) if ends else None
