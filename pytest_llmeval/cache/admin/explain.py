"""Why the calls of a run were replayed or asked anew."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from pytest_llmeval.cache.admin.contents import draws_in
from pytest_llmeval.cache.nearest import Nearest, sentence
from pytest_llmeval.cache.requests import KeptRequest
from pytest_llmeval.cache.storage.store import Store
from pytest_llmeval.cache.stored_requests import kept_requests, requests_of
from pytest_llmeval.records import Call


@dataclass(frozen=True, slots=True)
class Explained:
    """A call and, if it was asked anew, why."""

    call: Call
    cause: str


def explain(store: Store, calls: Iterable[Call]) -> Iterator[Explained]:
    """Say of each call what became of it.

    Raises:
        CacheUnusable: the cache cannot be read.
    """
    library = _Library(store)
    causes: dict[str, str] = {}
    for call in calls:
        if call.replayed:
            yield Explained(call, "replayed")
        elif call.draw is None:
            yield Explained(call, f"got no reply ({call.reason}); such a request is not kept")
        else:
            if call.key not in causes:
                causes[call.key] = library.cause(call)
            yield Explained(call, f"asked anew: {causes[call.key]}")


class _Library:
    """The requests of a cache, the newest first, and the sessions of its draws."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._requests = list(kept_requests(requests_of(store)))

    def cause(self, call: Call) -> str:
        places = [place for place, (key, _) in enumerate(self._requests) if key == call.key]
        if not places:
            return "nothing is kept of this request (pruned, or stored by an older version)"
        request = self._requests[places[0]][1]
        if self._session_of(call) != request.session:
            return (
                "the same request was stored before, but not this draw of it, or it was refreshed"
            )
        older = [kept for _, kept in self._requests[places[0] + 1 :]]
        return self._told_apart(request, [k for k in older if k.session != request.session])

    def _session_of(self, call: Call) -> str | None:
        draws = draws_in(self._store.rows(f"{call.key}/{call.slot}/*"))
        rows = [draw.row for draw in draws if draw.row is not None]
        return next((row.session for row in rows if row.reply.draw == call.draw), None)

    def _told_apart(self, request: KeptRequest, older: Sequence[KeptRequest]) -> str:
        nearest = Nearest(request.told)
        other = nearest.among([kept.told for kept in older])
        if other is None:
            return "no older request is stored"
        return sentence(nearest.differences(other))
