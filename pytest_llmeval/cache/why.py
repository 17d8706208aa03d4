"""Explain why a request was asked again or is not stored: its difference from the nearest one."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmeval.cache import requests
from pytest_llmeval.cache.key import Canonical, value_at
from pytest_llmeval.cache.queries import RowReader
from pytest_llmeval.cache.reply import decode_or_none
from pytest_llmeval.errors import CacheError
from pytest_llmeval.records import Call

if TYPE_CHECKING:
    from pytest_llmeval.cache.database import Store

LOOKED_THROUGH = 2_000  # requests, the newest: some 0.2 s
WORDS = re.compile(r"\w+|[^\w\s]")
ABSENT = "nothing"
SHOWN = 60  # characters of a text
LEAD = 20  # of these before the place where it differs


def explain_miss(store: Store, key: str, request: Canonical) -> str:
    """Name the stored request most like one without a reply; "" if there is none."""
    try:
        if isinstance(store.find(requests.row_name(key))[0], bytes):
            return "; the request is stored, but not for this call"
        newest = islice(store.rows(f"{requests.PREFIX}*"), LOOKED_THROUGH)
        others = [stored.parts for stored in requests.stored_requests(newest)]
        difference = difference_from_nearest(requests.parts_to_keep(request), others)
    except (CacheError, RecursionError):  # the miss must be reported all the same
        return ""
    return "" if difference is None else f"; the nearest stored one differs in {difference}"


def origins_asked(database: Path) -> Iterator[tuple[str, str]]:
    """Read provider and origin of each stored request, the newest first."""
    with closing(RowReader(database)) as rows:
        for stored in requests.stored_requests(rows.below(requests.PREFIX)):
            yield str(stored.parts.get("provider")), str(stored.parts.get("origin"))


def explain_calls(store: Store, calls: Iterable[Call]) -> Iterator[tuple[Call, str]]:
    """Say of each call of a run whether it was replayed, or why it was asked again.

    Raises:
        CacheUnusable: the cache cannot be read.
    """
    stored = list(requests.stored_requests(store.rows(f"{requests.PREFIX}*")))
    causes: dict[str, str] = {}
    for call in calls:
        if call.replayed:
            yield call, "replayed"
        elif call.draw is None:
            yield call, f"got no reply ({call.reason}); such a request is not kept"
        else:
            if call.key not in causes:
                causes[call.key] = _cause(call, store, stored)
            yield call, f"asked again: {causes[call.key]}"


def _cause(call: Call, store: Store, stored: Sequence[requests.StoredRequest]) -> str:
    """Say why a call was asked again.

    Args:
        call: with a draw.
        store: where its draw lies.
        stored: all requests that are, the newest first.
    """
    keys = [request.key for request in stored]
    if call.key not in keys:
        return "nothing is kept of this request (pruned, or stored by an older version)"
    place = keys.index(call.key)
    asked = stored[place]
    rows = store.rows(f"{call.key}/{call.slot}/*")
    replies = filter(None, (decode_or_none(row.value) for row in rows))
    if asked.session not in (one.session for one in replies if one.draw == call.draw):
        return "the same request was stored before, but not for this call, or it was refreshed"
    older = [request for request in stored[place + 1 :] if request.session != asked.session]
    difference = difference_from_nearest(asked.parts, (request.parts for request in older))
    return difference or "no older request is stored"


# A field that two requests do not share, such as ``messages[0].content``; its value in the one that
# was asked and in the stored one, each None without such a field.
_Difference = tuple[str, str | None, str | None]


def difference_from_nearest(asked: requests.Parts, others: Iterable[requests.Parts]) -> str | None:
    """Say in one line where a request differs from the nearest other one; None if there is none.

    Requests of the same model and path are nearer, then requests of more common words.

    Args:
        asked: the parts of the request.
        others: stored requests; the first of equally near ones is taken.
    """
    own = dict(_fields(asked))
    words = {field: _words(text) for field, text in own.items()}

    def differences(other: requests.Parts) -> list[_Difference]:
        stored = dict(_fields(other))
        both = ((each, own.get(each), stored.get(each)) for each in {**own, **stored})
        return [each for each in both if each[1] != each[2]]

    def distance(other: requests.Parts) -> tuple[bool, int]:
        weight = 0
        for field, _, text in differences(other):
            here, there = words.get(field, Counter[str]()), _words(text or "")
            weight += 1 + (here - there).total() + (there - here).total()
        return _model(other) != _model(asked), weight

    nearest = min(others, key=distance, default=None)
    return None if nearest is None else _sentence(differences(nearest))


def _model(parts: requests.Parts) -> tuple[object, object, object]:
    return parts["provider"], parts["path"], value_at(parts["body"], "model")


def _fields(parts: requests.Parts) -> Iterator[tuple[str, str]]:
    for part, value in parts.items():
        if part == "body":
            yield from requests.flat_fields("", value)
        elif value:
            yield {"source": "code of the model"}.get(part, part), json.dumps(value)


def _words(text: str) -> Counter[str]:
    return Counter(WORDS.findall(text))


def _sentence(differences: Sequence[_Difference]) -> str:
    if not differences:
        return "they differ only in what is not kept (a value that goes by the name of a secret)"
    (field, *sides), *others = differences
    here, there = shown_apart(*sides)
    text = f"{field}: {here} here, {there} stored"
    if not others:
        return text
    fields = ", ".join(each[0] for each in others[:2])
    more = f" and {len(others) - 2} more" if len(others) > 2 else ""  # noqa: PLR2004
    return f"{text}; also {fields}{more}"


def shown_apart(one: str | None, other: str | None) -> tuple[str, str]:
    """Write two texts in one line, cut to the place where the texts part; None is ``nothing``."""
    pairs = enumerate(zip(one or "", other or "", strict=False))
    start = next((i for i, (a, b) in pairs if a != b), min(len(one or ""), len(other or "")))
    return _shown(one, start), _shown(other, start)


def _shown(text: str | None, differs_at: int) -> str:
    if text is None:
        return ABSENT
    begin = 0 if len(text) <= SHOWN else min(max(0, differs_at - LEAD), len(text) - SHOWN)
    # A stored text may hold anything, such as a terminal's escape codes.
    cut = "".join(c if c.isprintable() else "?" for c in text[begin : begin + SHOWN])
    return f"{'...' * (begin > 0)}{cut}{'...' * (begin + SHOWN < len(text))}"
