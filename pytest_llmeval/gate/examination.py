"""One function and metric on both sides, as far as it can be judged by itself."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmeval.gate.figures import (
    BY_SPREAD,
    Extent,
    Significance,
    measure,
    samples_of,
    significance,
    tied_repeats,
)
from pytest_llmeval.gate.pairing import Pairing, pair_up
from pytest_llmeval.gate.scoring import score
from pytest_llmeval.gate.sides import Side, Subject
from pytest_llmeval.gate.verdict import (
    Decision,
    cannot_test,
    does_not_fit,
    never_recorded,
    nothing_in_common,
    too_much_lost,
)
from pytest_llmeval.records import MEASURED_METRICS
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.significance.methods import TESTS
from pytest_llmeval.stats.significance.sample import Sample


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """What is known of a comparison before it is seen among all others.

    Attributes:
        extent: its measures, None without a common case.
        outcome: its test; where nothing can be tested, the decision.
    """

    pairing: Pairing
    extent: Extent | None
    outcome: Significance | Decision


def examine(subject: Subject, *, rules: GateRules) -> Examination:
    """Pair, measure and, where that makes sense, test.

    Args:
        subject: what is compared.
        rules: what it is held against.
    """
    rules = subject.on_scale(rules)
    pairing = pair_up(subject)
    unfit = never_recorded((subject.there, subject.here), subject.metric) or _without_logarithm(
        subject
    )
    if unfit or not pairing.pairs:
        return Examination(
            pairing=pairing, extent=None, outcome=unfit or nothing_in_common(pairing)
        )
    extent = measure(pairing)
    repeats = tied_repeats(pairing, extent)
    outcome = (
        too_much_lost(pairing, rules=rules)
        or cannot_test(extent, repeats=repeats, metric=subject.metric, rules=rules)
        or _unfit(pairing, extent)
        or significance(pairing, extent, repeats=repeats, rules=rules)
    )
    return Examination(pairing=pairing, extent=extent, outcome=outcome)


def _without_logarithm(subject: Subject) -> Decision | None:
    """Refuse ratios of scores that may be 0; what is measured from calls never is."""
    if subject.scale == "linear" or subject.metric in MEASURED_METRICS:
        return None
    bad = sum(_not_positive(side, subject) for side in (subject.there, subject.here))
    if not bad:
        return None
    why = f"it compares ratios, and {bad} scores of {subject.metric} are not above 0"
    return does_not_fit(subject.test, f"{why}: use paired-t")


def _not_positive(side: Side, subject: Subject) -> int:
    scores = score(side, subject.metric, better=subject.better)
    return sum(value <= 0 for of_case in scores.values() for value in of_case.values)


def _unfit(pairing: Pairing, extent: Extent) -> Decision | None:
    """Ask a test that was chosen whether it fits the changed cases."""
    subject = pairing.subject
    if subject.test in BY_SPREAD:
        return None
    sample = Sample(cases=samples_of(pairing).cases, units=extent.unit_labels, sign=subject.sign)
    why = TESTS[subject.test].why_not(sample)
    return does_not_fit(subject.test, why) if why else None
