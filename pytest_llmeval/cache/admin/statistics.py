"""How much a cache holds, and of what."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from pytest_llmeval.cache.admin.contents import StoredDraw, draws_in
from pytest_llmeval.cache.requests import Told
from pytest_llmeval.cache.storage.store import Store
from pytest_llmeval.cache.stored_requests import kept_requests, requests_of

Origin = tuple[str, str]
UNKNOWN = "?"


@dataclass(slots=True)
class Share:
    """What one model at one host has: replies of every generation, and their bytes."""

    replies: int = 0
    size: int = 0


@dataclass(slots=True)
class Contents:
    """What is in a cache.

    Attributes:
        requests: keys that have a reply.
        slots: by request and slot, how many generations there are; a replay finds the newest.
        spares: replies that a session paid for while another was first.
        refused: rows that this plugin did not write.
        size: bytes of the values.
        oldest: when the first was paid for, UTC; "" if that is not known. ``newest`` likewise.
        shares: by model asked and host.
    """

    requests: set[str] = field(default_factory=set)
    slots: Counter[tuple[str, str]] = field(default_factory=Counter)
    spares: int = 0
    refused: int = 0
    size: int = 0
    oldest: str = ""
    newest: str = ""
    shares: defaultdict[Origin, Share] = field(default_factory=lambda: defaultdict(Share))


def count(store: Store) -> Contents:
    """Count what is in a cache.

    Raises:
        CacheUnusable: it cannot be read.
    """
    origins = {key: _origin(kept.told) for key, kept in kept_requests(requests_of(store))}
    contents = Contents()
    for draw in draws_in(store.rows()):
        _add(contents, draw, origins.get(draw.at.key))
    return contents


def _add(contents: Contents, draw: StoredDraw, origin: Origin | None) -> None:
    contents.size += draw.size
    if draw.row is None:
        contents.refused += 1
        return
    contents.requests.add(draw.at.key)
    if draw.at.generation is None:
        contents.spares += 1
    else:
        contents.slots[draw.at.key, draw.at.slot] += 1
    created = draw.row.created
    contents.oldest = min(filter(None, (contents.oldest, created)), default="")
    contents.newest = max(contents.newest, created)
    served = str(draw.row.reply.facts.get("model", UNKNOWN))
    share = contents.shares[origin or (served, UNKNOWN)]
    share.replies += 1
    share.size += draw.size


def _origin(told: Told) -> Origin:
    body = told["body"]
    model = body.get("model") if isinstance(body, dict) else None
    if told["provider"] == "function":
        model = told["path"]
    return f"{told['provider']}/{model or UNKNOWN}", str(told["origin"]) or "-"
