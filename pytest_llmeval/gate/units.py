"""Which cases are independent of each other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmeval.gate.changes import draws_of
from pytest_llmeval.gate.pairing import Pair

# label of its cluster, digest of its topic, ids of its draws
Ties = tuple[str | None, str | None, Iterable[str]]


def units_of(pairs: Sequence[Pair], *, shared: frozenset[str]) -> tuple[int, ...]:
    """Number the units of common cases: cases that share chance are one unit.

    Cases share chance where they have the same draw and each of them has it on one side
    only (on both sides it cancels), by the label that their marker gives them, or where
    they put one question in several wordings.

    Args:
        pairs: all common cases, changed or not: units are chained through any of them.
        shared: the draws that more than one case has at all; no other can tie.

    Returns:
        A number for each pair; equal numbers are one unit.
    """
    draws = [one_sided_draws(pair) if shared else () for pair in pairs]
    return chained(
        [(pair.cluster, pair.topic, own) for pair, own in zip(pairs, draws, strict=True)]
    )


def chained(cases: Sequence[Ties]) -> tuple[int, ...]:
    """Number the units of cases, given what ties each to others."""
    leader = list(range(len(cases)))
    first_with: dict[tuple[str, str], int] = {}
    for at, (cluster, topic, draws) in enumerate(cases):
        ties = {("draw", draw) for draw in draws}
        ties |= {("cluster", cluster)} if cluster is not None else set()
        ties |= {("topic", topic)} if topic is not None else set()
        tied_to = {first_with.setdefault(tie, at) for tie in ties}
        for first in tied_to:
            one, other = _root(leader, at), _root(leader, first)
            leader[max(one, other)] = min(one, other)
    return tuple(_root(leader, at) for at in range(len(cases)))


def one_sided_draws(pair: Pair) -> set[str]:
    """Return the draws that a case has in one run only: on both sides their chance cancels."""
    return draws_of(pair.there) ^ draws_of(pair.here)


def _root(leader: list[int], at: int) -> int:
    while leader[at] != at:
        leader[at] = leader[leader[at]]  # halves the path for those that follow
        at = leader[at]
    return at
