"""Adjust the p-values of all comparisons of a session for their number."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_llmeval.gate.results import Name
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.multiplicity import benjamini_hochberg, holm
from pytest_llmeval.stats.sample import Tails

ADJUST = {"holm": holm, "bh": benjamini_hochberg}

# the comparisons of a session that were tested, and so share the error rate
Family = Mapping[Name, Tails]


def adjusted_together(tests: Family, rules: GateRules) -> Family:
    """Adjust the p-values of every comparison that was tested.

    Each function on each gated metric is a member.

    Args:
        tests: the p-values of each member.
        rules: how they are adjusted.
    """
    adjust = ADJUST[rules.multiplicity]
    worse = adjust([tails.worse for tails in tests.values()])
    better = adjust([tails.better for tails in tests.values()])
    columns = zip(tests, worse, better, strict=True)
    return {name: Tails(worse=low, better=high) for name, low, high in columns}
