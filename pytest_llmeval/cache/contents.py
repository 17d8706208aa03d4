"""Draws of a cache, row by row: counts them, and picks the ones to prune."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.queries import RowChanges
from pytest_llmeval.cache.reply import StoredReply, StoredRow, decode_or_none
from pytest_llmeval.cache.requests import PREFIX, Parts, row_name, stored_requests

NAME = re.compile(
    r"(?P<place>(?P<key>[0-9a-f]{64})/(?:shared|[0-9]{1,9})/[0-9]{1,9})"
    r"/(?:spare/[0-9a-f]{32}|(?P<generation>[0-9]{1,9}))"
)
UNKNOWN = "?"

Origin = tuple[str, str]  # a model asked for, and its host


class DrawName(NamedTuple):
    """The name of a draw's row.

    Attributes:
        key: of the request.
        place: key and slot, with which the name begins.
        generation: None for a spare draw: another session's draw has its slot.
    """

    key: str
    place: str
    generation: int | None


class StoredDraw(NamedTuple):
    """A draw in a cache.

    Attributes:
        name: of its row; ``parsed`` is the same, taken apart.
        reply: None if we did not write the row.
        size: bytes of the value.
    """

    name: str
    parsed: DrawName
    reply: StoredReply | None
    size: int


def parse_name(name: str) -> DrawName | None:
    """Take the name of a draw's row apart; None if it is not one."""
    match = NAME.fullmatch(name)
    if match is None:
        return None
    generation = match["generation"]
    return DrawName(match["key"], match["place"], None if generation is None else int(generation))


def draws_in(rows: Iterable[StoredRow]) -> Iterator[StoredDraw]:
    """Pick the draws, both the readable and the refused ones."""
    for stored in rows:
        parsed = parse_name(stored.name)
        if parsed is not None:
            reply = decode_or_none(stored.value)
            size = len(stored.value) if isinstance(stored.value, bytes) else 0
            yield StoredDraw(stored.name, parsed, reply, size)


@dataclass(slots=True)
class Contents:
    """The contents of a cache, counted.

    Attributes:
        places: how many generations each key and slot has. A replay finds the newest one, unless a
            run names another.
        requests: keys that have a reply.
        spares: replies that a session paid for while another session was first.
        refused: rows that this plugin did not write.
        size: bytes of the values.
        oldest: when the first reply was paid for, UTC; "" if not known. ``newest`` likewise.
        replies: of every generation, by model and host.
        sizes: bytes of these replies.
    """

    places: Counter[str] = field(default_factory=Counter)
    requests: set[str] = field(default_factory=set)
    spares: int = 0
    refused: int = 0
    size: int = 0
    oldest: str = ""
    newest: str = ""
    replies: Counter[Origin] = field(default_factory=Counter)
    sizes: Counter[Origin] = field(default_factory=Counter)


def count_contents(store: Store) -> Contents:
    """Count what is in a cache.

    Raises:
        CacheUnusable: it cannot be read.
    """
    requests = stored_requests(store.rows(f"{PREFIX}*"))
    origins = {request.key: _origin(request.parts) for request in requests}
    contents = Contents()
    for draw in draws_in(store.rows()):
        contents.size += draw.size
        if draw.reply is None:
            contents.refused += 1
            continue
        contents.requests.add(draw.parsed.key)
        if draw.parsed.generation is None:
            contents.spares += 1
        else:
            contents.places[draw.parsed.place] += 1
        times = contents.oldest, contents.newest, draw.reply.created
        contents.oldest = min(filter(None, times), default="")
        contents.newest = max(times)
        served = str(draw.reply.facts.get("model", UNKNOWN))
        origin = origins.get(draw.parsed.key, (served, UNKNOWN))
        contents.replies[origin] += 1
        contents.sizes[origin] += draw.size
    return contents


def _origin(parts: Parts) -> Origin:
    is_function = parts["provider"] == "function"
    model = parts["path"] if is_function else value_at(parts["body"], "model")
    return f"{parts['provider']}/{model or UNKNOWN}", str(parts["origin"]) or "-"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruning(RowChanges):
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

    The generations of a slot must have no gap, which a newer reply would fill: the generations that
    stay move up. A slot that holds a row of somebody else is left as it is.

    Args:
        rows: all rows of a cache.
        before: only draws that were paid for before this time go, UTC as in
            ``StoredReply.created``.
        kept: ids of draws that stay at any age.
    """
    rows = list(rows)
    draws = list(draws_in(rows))
    # A draw of unknown age, or that somebody else wrote, is not old.
    old = {draw.name: draw for draw in draws if draw.reply and "" < draw.reply.created < before}
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


def _moving_up(staying: Iterable[StoredDraw]) -> Iterator[tuple[str, str]]:
    places: defaultdict[str, list[int]] = defaultdict(list)
    for draw in staying:
        if draw.parsed.generation is not None:
            places[draw.parsed.place].append(draw.parsed.generation)
    for place, generations in places.items():
        for new, old in enumerate(sorted(generations)):
            if new != old:
                yield f"{place}/{old}", f"{place}/{new}"
