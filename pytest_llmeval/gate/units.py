"""Which cases are independent of each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmeval.gate.changes import draws_of
from pytest_llmeval.gate.pairing import Pair


def units_of(pairs: Sequence[Pair]) -> tuple[int, ...]:
    """Number the units of common cases: cases that share chance are one unit.

    Cases share chance where they have the same draw and each of them has it on one side
    only (on both sides it cancels), or by the label that their marker gives them.

    Args:
        pairs: all common cases, changed or not: units are chained through any of them.

    Returns:
        A number for each pair; equal numbers are one unit.
    """
    return chained([(pair.cluster, _one_sided_draws(pair)) for pair in pairs])


def chained(cases: Sequence[tuple[str | None, Iterable[str]]]) -> tuple[int, ...]:
    """Number the units of cases, given the label and the draws that tie each to others."""
    leader = list(range(len(cases)))
    first_with_draw: dict[str, int] = {}
    first_with_label: dict[str, int] = {}
    for at, (cluster, draws) in enumerate(cases):
        tied_to = {first_with_draw.setdefault(draw, at) for draw in draws}
        if cluster is not None:
            tied_to.add(first_with_label.setdefault(cluster, at))
        for first in tied_to:
            one, other = _root(leader, at), _root(leader, first)
            leader[max(one, other)] = min(one, other)
    return tuple(_root(leader, at) for at in range(len(cases)))


def _one_sided_draws(pair: Pair) -> set[str]:
    return draws_of(pair.there) ^ draws_of(pair.here)


def _root(leader: list[int], at: int) -> int:
    while leader[at] != at:
        leader[at] = leader[leader[at]]  # halves the path for those that follow
        at = leader[at]
    return at
