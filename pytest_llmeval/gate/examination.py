"""One function and metric on both sides, as far as it can be judged by itself."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmeval.gate.figures import Extent, Significance, measure, significance
from pytest_llmeval.gate.pairing import Pairing, pair_up
from pytest_llmeval.gate.sides import Subject
from pytest_llmeval.gate.verdict import Decision, cannot_test, nothing_in_common, too_much_lost
from pytest_llmeval.records import GateRules


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
    pairing = pair_up(subject)
    if not pairing.pairs:
        return Examination(pairing=pairing, extent=None, outcome=nothing_in_common(pairing))
    extent = measure(pairing)
    outcome = (
        too_much_lost(pairing, rules=rules)
        or cannot_test(extent, metric=subject.metric, rules=rules)
        or significance(pairing, extent, rules=rules)
    )
    return Examination(pairing=pairing, extent=extent, outcome=outcome)
