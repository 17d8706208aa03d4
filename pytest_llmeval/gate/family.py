"""Several comparisons in one session: what each p-value is worth among the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.figures import Significance
from pytest_llmeval.gate.sides import Subject
from pytest_llmeval.ranges import Multiplicity
from pytest_llmeval.settings import GateRules
from pytest_llmeval.stats.multiplicity import benjamini_hochberg, fixed_sequence, holm

Adjust = Callable[[Sequence[float]], tuple[float, ...]]

ADJUST: dict[Multiplicity, Adjust] = {"holm": holm, "bh": benjamini_hochberg}


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """One test among all others.

    Attributes:
        p_adjusted: for a drop; ``p_improved_adjusted`` for an improvement.
        family_size: how many comparisons share the error rate.
        penalty: by what its p-value is multiplied where all others show nothing.
    """

    p_adjusted: float
    p_improved_adjusted: float
    family_size: int
    penalty: int


def stand_together(
    tests: Sequence[tuple[Subject, Significance]], *, rules: GateRules
) -> list[Standing]:
    """Adjust the p-values of all tests of a session.

    What ``rules.order`` names is tested in that order, each at the full level as long as all
    before it were found. The others come after, adjusted together, and count only if all
    that were named did. Each function on each gated metric is a member of the family.

    Args:
        tests: every comparison that was tested.
        rules: the order, and how the others are adjusted.

    Returns:
        Their standings, in the order given.
    """
    named = _in_declared_order([subject for subject, _ in tests], rules.order)
    rest = [at for at in range(len(tests)) if at not in set(named)]
    adjust = ADJUST[rules.multiplicity]
    worse = _adjusted([found.p for _, found in tests], named, rest, adjust)
    better = _adjusted([found.p_improved for _, found in tests], named, rest, adjust)
    return [
        Standing(
            p_adjusted=worse[at],
            p_improved_adjusted=better[at],
            family_size=len(tests),
            penalty=len(rest) if at in rest else 1,
        )
        for at in range(len(tests))
    ]


def unknown_names(subjects: Sequence[tuple[str, str]], order: Sequence[str]) -> list[str]:
    """Return the names of a declared order that no function and metric bears."""
    return [name for name in order if not any(_bears(name, *subject) for subject in subjects)]


def _in_declared_order(subjects: Sequence[Subject], order: Sequence[str]) -> list[int]:
    ranked = (
        at
        for name in order
        for at, subject in enumerate(subjects)
        if _bears(name, subject.function, subject.metric)
    )
    return list(dict.fromkeys(ranked))


def _bears(name: str, function: str, metric: str) -> bool:
    """Tell whether a name is that of a function, with the metric behind a colon or without."""
    bare = name.removesuffix(f":{metric}")
    return function == bare or function.endswith(f"::{bare}")


def _adjusted(
    p_values: Sequence[float], named: Sequence[int], rest: Sequence[int], adjust: Adjust
) -> list[float]:
    adjusted = list(p_values)
    floor = 0.0
    for at, p in zip(named, fixed_sequence([p_values[at] for at in named]), strict=True):
        adjusted[at] = floor = p
    for at, p in zip(rest, adjust([p_values[at] for at in rest]), strict=True):
        adjusted[at] = max(floor, p)
    return adjusted
