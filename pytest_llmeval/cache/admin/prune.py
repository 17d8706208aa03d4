"""Draws that may go: the only place where a reply is ever removed, and only when asked to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass

from pytest_llmeval.cache.admin.contents import StoredDraw, draws_in
from pytest_llmeval.cache.requests import row_name
from pytest_llmeval.cache.storage.queries import Change, StoredRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning(Change):
    """Draws and requests that are to go from a cache.

    Attributes:
        replies: how many go; ``size`` is their bytes.
        requests: how many requests lose their last reply.
        spared: how many are old enough, and stay because they are kept.
        left: how many stay altogether.
    """

    replies: int
    size: int
    requests: int
    spared: int
    left: int


def plan_pruning(rows: Iterable[StoredRow], *, before: str, kept: Set[str]) -> Pruning:
    """Work out what goes.

    The generations of a slot must have no gap, or lookups would end at it: those that stay
    move up. A slot that holds a row which we did not write is left as it is.

    Args:
        rows: all rows of a cache.
        before: only what was paid for before then goes, UTC as ``StoredReply.created`` has it.
        kept: ids of draws that stay, however old.
    """
    rows = list(rows)
    draws = list(draws_in(rows))
    old = {draw.name: draw for draw in draws if _is_older(draw, before)}
    locked = {draw.parsed.place for draw in draws if draw.reply is None}
    going = {
        name: draw
        for name, draw in old.items()
        if draw.parsed.place not in locked and draw.reply and draw.reply.draw not in kept
    }
    staying = [draw for draw in draws if draw.name not in going]
    keys = {draw.parsed.key for draw in going.values()} - {draw.parsed.key for draw in staying}
    names = {row.name for row in rows}
    return Pruning(
        removed=[*going, *({row_name(key) for key in keys} & names)],
        renamed=list(_moving_up(staying)),
        replies=len(going),
        size=sum(draw.size for draw in going.values()),
        requests=len(keys),
        spared=len(old) - len(going),
        left=len(staying),
    )


def _is_older(draw: StoredDraw, before: str) -> bool:
    """Whether a draw is; one that we did not write, or of unknown age, is not."""
    return draw.reply is not None and "" < draw.reply.created < before


def _moving_up(staying: Iterable[StoredDraw]) -> Iterator[tuple[str, str]]:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for draw in staying:
        if draw.parsed.generation is not None:
            places[draw.parsed.place].append(draw.parsed.generation)
    for place, generations in places.items():
        for new, old in enumerate(sorted(generations)):
            if new != old:
                yield f"{place}/{old}", f"{place}/{new}"
