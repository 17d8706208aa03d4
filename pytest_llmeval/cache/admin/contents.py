"""Draws of a cache, row by row and counted: by request, slot, generation, model and host."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from pytest_llmeval.cache.reply import StoredReply, decode_or_none
from pytest_llmeval.cache.requests import PREFIX, Parts, stored_requests
from pytest_llmeval.cache.storage.queries import StoredRow
from pytest_llmeval.cache.storage.store import Store

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
    """Pick the draws, the readable ones and those that are refused."""
    for stored in rows:
        parsed = parse_name(stored.name)
        if parsed is not None:
            reply = decode_or_none(stored.value)
            size = len(stored.value) if isinstance(stored.value, bytes) else 0
            yield StoredDraw(stored.name, parsed, reply, size)


@dataclass(slots=True)
class Contents:
    """What is in a cache.

    Attributes:
        places: how many generations each key and slot has; a replay finds the newest.
        requests: keys that have a reply.
        spares: replies that a session paid for while another was first.
        refused: rows that this plugin did not write.
        size: bytes of the values.
        oldest: when the first was paid for, UTC; "" if that is not known. ``newest`` likewise.
        replies: of every generation, by model and host.
        sizes: their bytes.
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
    body = parts["body"]
    model = body.get("model") if isinstance(body, dict) else None
    if parts["provider"] == "function":
        model = parts["path"]
    return f"{parts['provider']}/{model or UNKNOWN}", str(parts["origin"]) or "-"
