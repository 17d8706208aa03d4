"""Rows of another cache, taken into this one without changing what is there."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmeval.cache.admin.contents import DrawName, draws_in, parse_name
from pytest_llmeval.cache.reply import decode
from pytest_llmeval.cache.storage.queries import Change, StoredRow

Slot = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Merging:
    """What the rows of another cache add to this one.

    Attributes:
        change: for ``Store.rewrite``.
        new: draws in slots that had none.
        spare: draws in slots that had another; a replay goes on finding that one.
        known: draws that were here already.
    """

    change: Change
    new: int
    spare: int
    known: int


def merge(rows: Iterable[StoredRow], foreign: Sequence[tuple[str, bytes]]) -> Merging:
    """Work out what to add.

    Args:
        rows: all rows of this cache.
        foreign: names and values that ``read_export`` gave: checked, generations in order.
    """
    here: defaultdict[Slot, set[str]] = defaultdict(set)
    taken: set[Slot] = set()
    for stored in draws_in(rows):
        if stored.at.generation is not None:
            taken.add(stored.at[:2])
        if stored.row is not None:
            here[stored.at[:2]].add(stored.row.reply.draw)
    generations: Counter[Slot] = Counter()
    counts: Counter[str] = Counter()
    added: list[tuple[str, bytes]] = []
    for name, value in foreign:
        at = parse_name(name)
        if at is None:  # a request; one that is here stays
            added.append((name, value))
            continue
        slot, draw = at[:2], decode(value).reply.draw
        if draw in here[slot]:
            counts["known"] += 1
            continue
        here[slot].add(draw)
        is_spare = at.generation is None or slot in taken
        counts["spare" if is_spare else "new"] += 1
        generation = None if is_spare else generations[slot]
        generations[slot] += not is_spare
        added.append((_name(DrawName(*slot, generation), draw), value))
    return Merging(Change(added=added), counts["new"], counts["spare"], counts["known"])


def _name(at: DrawName, draw: str) -> str:
    place = f"spare/{draw}" if at.generation is None else at.generation
    return f"{at.key}/{at.slot}/{place}"
