"""Several comparisons in one session: how much each p-value is worth among the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pytest_llmeval.gate.significance import Significance
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.multiplicity import benjamini_hochberg, fixed_sequence, holm

ADJUST = {"holm": holm, "bh": benjamini_hochberg}

# a test function and a metric of it
Name = tuple[str, str]


def adjusted_together(
    tests: Mapping[Name, Significance], rules: GateRules
) -> dict[Name, Significance]:
    """Adjust the p-values of all tests of a session.

    What ``rules.order`` names is tested in that order, each at the full level as long as all
    before it were found. The others come after, adjusted together, and count only if all
    that were named did. Each function on each gated metric is a member of the family.

    Args:
        tests: every comparison that was tested.
        rules: the order, and how the others are adjusted.
    """
    ranked = [name for entry in rules.order for name in tests if bears(entry, *name)]
    named = list(dict.fromkeys(ranked))
    rest = [name for name in tests if name not in named]
    worse = _adjusted({name: tests[name].p for name in tests}, named, rest, rules)
    better = _adjusted({name: tests[name].p_improved for name in tests}, named, rest, rules)
    return {
        name: replace(
            found,
            p_adjusted=worse[name],
            p_improved_adjusted=better[name],
            family_size=len(tests),
            penalty=1 if name in named else len(rest),
        )
        for name, found in tests.items()
    }


def bears(entry: str, function: str, metric: str) -> bool:
    """Tell whether an entry names a function, with the metric behind a colon or without."""
    bare = entry.removesuffix(f":{metric}")
    return function == bare or function.endswith(f"::{bare}")


def _adjusted(
    p_values: Mapping[Name, float], named: Sequence[Name], rest: Sequence[Name], rules: GateRules
) -> dict[Name, float]:
    in_turn = dict(zip(named, fixed_sequence([p_values[name] for name in named]), strict=True))
    floor = max(in_turn.values(), default=0.0)
    together = ADJUST[rules.multiplicity]([p_values[name] for name in rest])
    return in_turn | {name: max(floor, p) for name, p in zip(rest, together, strict=True)}
