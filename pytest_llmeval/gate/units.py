"""Units: cases that share chance, by a draw, a cluster or a topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pytest_llmeval.records import Trial

# label of its cluster, digest of its topic, ids of its draws
Ties = tuple[str | None, str | None, Iterable[str]]


def draws_of(trials: Iterable[Trial]) -> set[str]:
    """Return the ids of all draws that some trials used."""
    return {call.draw for trial in trials for call in trial.calls if call.draw is not None}


def chained(cases: Sequence[Ties]) -> tuple[int, ...]:
    """Number the units of cases: cases that share chance, by whatever chain, are one unit.

    Args:
        cases: what ties each to others.

    Returns:
        A number for each case; equal numbers are one unit.
    """
    leader = list(range(len(cases)))
    first_with: dict[tuple[str, str], int] = {}
    for case, (cluster, topic, draws) in enumerate(cases):
        ties = {("draw", draw) for draw in draws}
        ties |= {("cluster", cluster)} if cluster is not None else set()
        ties |= {("topic", topic)} if topic is not None else set()
        tied_to = {first_with.setdefault(tie, case) for tie in ties}
        for first in tied_to:
            roots = _root(leader, case), _root(leader, first)
            leader[max(roots)] = min(roots)
    return tuple(_root(leader, case) for case in range(len(cases)))


def _root(leader: list[int], case: int) -> int:
    while leader[case] != case:
        leader[case] = leader[leader[case]]  # halves the path for later calls
        case = leader[case]
    return case
