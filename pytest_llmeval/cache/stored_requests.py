"""What was asked: kept with the first reply, and told apart when a replay finds none."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING

from pytest_llmeval.cache.key import Canonical
from pytest_llmeval.cache.nearest import Nearest, sentence
from pytest_llmeval.cache.requests import (
    PREFIX,
    KeptRequest,
    decode_request,
    encode_request,
    row_name,
    tell,
)
from pytest_llmeval.errors import CacheError, RowRefused

if TYPE_CHECKING:
    from pytest_llmeval.cache.storage.queries import NewRow, StoredRow
    from pytest_llmeval.cache.storage.store import Store

# A session that finds nothing would else read every request for each of its thousand misses.
EXPLAINED = 5  # keys a session
LOOKED_THROUGH = 2_000  # requests, the newest: some 0.2 s


class Telling:
    """The requests of one session. Safe for threads: at worst one is written or told twice.

    Args:
        session: name of the session.
    """

    def __init__(self, session: str) -> None:
        self._session = session
        self._kept: set[str] = set()
        self._explained: set[str] = set()

    def beside(self, store: Store, key: str, request: Canonical | None) -> list[NewRow]:
        """Give the row that is to be stored along with a reply; none if there is one already.

        Raises:
            CacheUnusable: the database cannot be read.
        """
        if request is None or key in self._kept:
            return []
        self._kept.add(key)
        name = row_name(key)
        try:
            value = encode_request(tell(request), session=self._session)
            is_new = store.get(name) is None
        except (RowRefused, RecursionError):  # nested so deeply that only C can follow
            return []
        return [(name, value)] if is_new and value is not None else []

    def of_miss(self, store: Store, key: str, request: Canonical | None) -> str:
        """Say what is most like a request without a reply; "" if nothing can be said."""
        if request is None or len(self._explained | {key}) > EXPLAINED:
            return ""
        self._explained.add(key)
        try:
            return self._explanation(store, key, request)
        except (CacheError, RecursionError):  # it only helps: the miss is what must be told
            return ""

    def _explanation(self, store: Store, key: str, request: Canonical) -> str:
        if store.get(row_name(key)) is not None:
            return "; the request is stored, but not this draw of it"
        told = [kept.told for _, kept in kept_requests(islice(requests_of(store), LOOKED_THROUGH))]
        nearest = Nearest(tell(request))
        other = nearest.among(told)
        if other is None:
            return ""
        return f"; the nearest stored one differs in {sentence(nearest.differences(other))}"


def requests_of(store: Store) -> Iterator[StoredRow]:
    """Read the rows of all requests, the newest first."""
    return store.rows(f"{PREFIX}*")


def kept_requests(rows: Iterable[StoredRow]) -> Iterator[tuple[str, KeptRequest]]:
    """Read keys and requests from their rows; what is refused is passed over."""
    for row in rows:
        try:
            if row.value is not None:
                yield row.name.removeprefix(PREFIX), decode_request(row.value)
        except RowRefused:
            continue
