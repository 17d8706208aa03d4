"""Replies by request key and slot: replayed if they are stored, paid for and kept if not."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_llmeval.cache.failures import CacheUnusable, RowRefused
from pytest_llmeval.cache.locks import ForkGuard, fork_safe_lock
from pytest_llmeval.cache.process_locks import Claims
from pytest_llmeval.cache.reply import (
    Accepts,
    Answer,
    Fact,
    Row,
    StoredReply,
    accept_any,
    decode,
    encode,
)
from pytest_llmeval.cache.single_flight import Flights
from pytest_llmeval.cache.stored_requests import Telling
from pytest_llmeval.errors import CacheError, ReplayMiss
from pytest_llmeval.ranges import CacheMode
from pytest_llmeval.records import Slot

if TYPE_CHECKING:
    from pytest_llmeval.cache.key import Canonical
    from pytest_llmeval.cache.storage.group_commit import NewRow
    from pytest_llmeval.cache.storage.store import Store

__all__ = ["Answer", "Fact", "Replies", "StoredReply"]

SUCCESS = range(200, 300)


class Replies:
    """Every reply that was ever paid for.

    A draw may have several generations (rows ``key/slot/0``, ``key/slot/1``, ...): ``refresh``
    adds one, lookups take the newest, none is ever changed or removed. Who asks for a draw that
    another thread or process is paying for waits for it. Where that cannot be seen, and two pay
    at the same moment, one wins; the other's reply is kept under ``key/slot/spare/draw``.

    Safe for threads, for several processes on one directory, and across a fork. Nothing is
    opened, and diskcache is not even imported, before the first lookup.

    Args:
        directory: ``.llmeval``; replies lie in its folder ``cache``.
        mode: what to do with a hit and with a miss.
        session: name of this session, the same in all its worker processes.
        warn: is told of refused rows, of a cache that is damaged or cannot be used, and of a
            process that was waited for in vain.
        patience: seconds to wait for a draw that another process is paying for.
    """

    def __init__(
        self,
        directory: Path,
        *,
        mode: CacheMode,
        session: str,
        warn: Callable[[str], None],
        patience: float = 600.0,
    ) -> None:
        self._directory = directory
        self._mode = mode
        self._session = session
        self._warn = warn
        self._warned: set[str] = set()
        self._store: Store | None = None
        self._is_closed = False
        self._lock = fork_safe_lock()
        self._begins = ForkGuard()
        self._flights = Flights()
        warn_late = partial(self._warn_once, "late")
        self._claims = Claims(directory, patience=patience, warn=warn_late)
        self._telling = Telling(session)

    @property
    def only_replays(self) -> bool:
        """Whether nothing is paid for: a miss is an error."""
        return self._mode == "replay"

    def lookup(
        self,
        key: str,
        slot: Slot,
        *,
        request: Canonical | None = None,
        accepts: Accepts = accept_any,
    ) -> StoredReply | None:
        """Replay a draw, without waiting for replies that are being stored.

        Args:
            key: that of the request.
            slot: which draw of the request.
            request: what is asked, so that a miss can name what is most like it.
            accepts: which stored replies may be replayed; any other counts as not there.

        Returns:
            The reply; None if it has to be paid for.

        Raises:
            ReplayMiss: mode ``replay``, and no reply is stored.
            CacheError: mode ``replay``, and the cache cannot be read.
        """
        self._is_closed = False
        stored = self._stored(key, slot, accepts)
        if stored is None and self.only_replays:
            raise ReplayMiss(self._miss(key, slot, request))
        return stored

    def pay(
        self,
        key: str,
        slot: Slot,
        call: Callable[[], Answer],
        *,
        request: Canonical | None = None,
        accepts: Accepts = accept_any,
        on_loop: bool = False,
    ) -> StoredReply:
        """Pay for a draw that ``lookup`` did not find, and keep it.

        Whoever else asks for it meanwhile, in this process or another, waits and pays nothing.

        Args:
            key: that of the request.
            slot: which draw of the request.
            call: makes the call; whatever it raises passes unchanged, also to the other threads
                that wait for it, and nothing is stored.
            request: what is asked; kept with its first reply.
            accepts: as for ``lookup``.
            on_loop: the call goes on only while an event loop runs. Those who ask without may
                be what holds the loop up, so the two do not wait for each other.

        Returns:
            The reply; unless a warning said otherwise or ``close`` came between, it is on disk
            by now. ``replayed`` is True if somebody else has paid for it. If somebody else paid
            as well and was first, it is theirs, with ``replayed`` False.

        Raises:
            TypeError, ValueError: the answer is not 2xx, or its facts are no JSON scalars.
        """
        if self._mode == "off" or self._is_closed:
            return _paid(call)
        session = self._session if self._mode == "refresh" else ""  # it replays its own draws only
        name = f"{key}/{slot}/{session}/{'loop' if on_loop else 'thread'}"
        pay = partial(self._pay_alone, name, key, slot, call, request=request, accepts=accepts)
        return self._flights.share(name, pay)

    def get_or_call(self, key: str, slot: Slot, call: Callable[[], Answer]) -> StoredReply:
        """Replay a draw, or pay for it and keep it: ``lookup``, else ``pay``.

        Raises:
            Exception: as these two.
        """
        stored = self.lookup(key, slot)
        return self.pay(key, slot, call) if stored is None else stored

    def find(self, key: str, slot: Slot, draw: str) -> StoredReply | None:
        """Look an old draw up by its id, in every generation; None in mode ``off``.

        Raises:
            CacheError: mode ``replay``, and the cache cannot be read.
        """
        rows = self._tolerant(self._every_row(f"{key}/{slot}", draw))
        return next((row.reply for row in rows if row.reply.draw == draw), None)

    def close(self) -> None:
        """Close the database; the next lookup opens it again.

        A reply that comes only now, to a trial that was given up at Ctrl-C, is not kept: its
        thread may be stopped anywhere, and must find no database to open.
        """
        self._is_closed = True
        self._claims.close()
        if self._store is not None:
            self._store.close()

    def _stored(self, key: str, slot: Slot, accepts: Accepts) -> StoredReply | None:
        rows = self._tolerant(self._generations(f"{key}/{slot}"))
        return next((row.reply for row in reversed(rows) if self._may_replay(row, accepts)), None)

    def _pay_alone(
        self,
        name: str,
        key: str,
        slot: Slot,
        call: Callable[[], Answer],
        *,
        request: Canonical | None,
        accepts: Accepts,
    ) -> StoredReply:
        """Pay while no other process does, unless one has done so since the lookup."""
        with self._claims.claimed(name):
            stored = self._stored(key, slot, accepts)
            if stored is not None:
                return stored
            return self._keep(key, slot, _paid(call), request=request, accepts=accepts)

    def _may_replay(self, row: Row, accepts: Accepts) -> bool:
        is_own = self._mode != "refresh" or row.session == self._session
        return is_own and accepts(row.reply)

    def _tolerant(self, rows: Iterator[Row]) -> list[Row]:
        """Read what can be read: a cache that cannot be used is an empty one, but for a replay."""
        if self._mode == "off":
            return []
        try:
            return list(rows)
        except CacheUnusable as exc:
            if self.only_replays:
                raise
            self._warn_unusable(exc)
            return []

    def _generations(self, name: str) -> Iterator[Row]:
        """Read every generation of a draw, oldest first; they have no gaps."""
        generations = count()
        while True:  # two at a time: nearly always there is one
            names = (f"{name}/{next(generations)}", f"{name}/{next(generations)}")
            for row_name, found in zip(names, self._opened().find(*names), strict=True):
                if found is None:
                    return
                try:
                    yield self._row(row_name, found)
                except RowRefused:
                    continue

    def _every_row(self, name: str, draw: str) -> Iterator[Row]:
        yield from self._generations(name)
        with contextlib.suppress(RowRefused):
            spare = self._read(f"{name}/spare/{draw}")
            if spare is not None:
                yield spare

    def _read(self, name: str) -> Row | None:
        (found,) = self._opened().find(name)
        return None if found is None else self._row(name, found)

    def _row(self, name: str, found: bytes | RowRefused) -> Row:
        try:
            if isinstance(found, RowRefused):
                raise found
            return decode(found)
        except RowRefused as exc:
            self._warn_refused(name, exc)
            raise

    def _keep(
        self,
        key: str,
        slot: Slot,
        reply: StoredReply,
        *,
        request: Canonical | None,
        accepts: Accepts,
    ) -> StoredReply:
        if self._mode == "off" or self._is_closed:
            return reply
        name = f"{key}/{slot}"
        try:
            value = encode(reply, session=self._session)
            beside = self._telling.beside(self._opened(), key, request)
            winner = self._file(name, value, beside=beside, accepts=accepts)
            if winner is None:
                return reply
            self._opened().add(f"{name}/spare/{reply.draw}", value)
        except (CacheUnusable, RowRefused) as exc:
            self._warn_unusable(exc)
            return reply
        return replace(winner.reply, replayed=False)

    def _file(
        self, name: str, value: bytes, *, beside: Sequence[NewRow], accepts: Accepts
    ) -> Row | None:
        """Store as the next generation, unless another process has just stored this draw.

        Args:
            name: of the draw.
            value: of the row.
            beside: rows to store along with it.
            accepts: which row of the other process counts as this draw.

        Returns:
            The row of the other process, None if ours was stored.
        """
        generation = 0
        while True:
            row_name = f"{name}/{generation}"
            try:
                if self._opened().add(row_name, value, beside=beside):
                    if self._is_found(name, generation):
                        return None
                    generation = 0  # all was cleared since the generation before was seen
                    continue
                row = self._read(row_name)
            except RowRefused:
                generation += 1
                continue
            if row is not None and self._may_replay(row, accepts):
                return row
            if row is not None:  # else the cache was set aside meanwhile: leave no gap in the new
                generation += 1

    def _is_found(self, name: str, generation: int) -> bool:
        """Whether a lookup gets as far as this generation: it ends at the first that is missing."""
        return not generation or self._opened().find(f"{name}/{generation - 1}") != [None]

    def _opened(self) -> Store:
        with self._lock:
            if self._store is None:
                with self._begins:  # a child forked meanwhile would wait for the import for ever
                    from pytest_llmeval.cache.storage.store import Store

                    self._store = Store(self._directory, warn=self._warn)
            return self._store

    def _miss(self, key: str, slot: Slot, request: Canonical | None) -> str:
        # The first 300 characters are what the section shows: what differs comes first.
        if self._tolerant(self._generations(f"{key}/{slot}")):
            why = "; what an earlier version stored there is no answer of a model"
        else:
            why = self._telling.of_miss(self._opened(), key, request)
        return (
            f"no reply is stored for draw {slot} of request {key[:12]}{why}. "
            "--llm-cache=replay makes no call. Pay for it once:  pytest --llm-cache=auto "
            f"(looked in {self._directory / 'cache'})"
        )

    def _warn_refused(self, name: str, refusal: RowRefused) -> None:
        self._warn_once(
            "refused",
            f"row {name} of the cache {self._directory / 'cache'} is not one that this plugin "
            f"wrote: {refusal}. It was left where it is and counts as missing; further ones are "
            "not reported. Who else can write there? See SECURITY.md.",
        )

    def _warn_unusable(self, exc: CacheError) -> None:
        self._warn_once(
            "unusable", f"{exc}. Calls are made and paid for, but not every reply can be kept."
        )

    def _warn_once(self, kind: str, message: str) -> None:
        with self._lock:
            is_new = kind not in self._warned
            self._warned.add(kind)
        if is_new:
            self._warn(message)


def _paid(call: Callable[[], Answer]) -> StoredReply:
    answer = call()
    if answer.status not in SUCCESS:
        raise ValueError(f"only a 2xx answer can be a reply, not one of {answer.status}")
    return StoredReply.fresh(answer)
