"""Replies by request key and slot: a stored one is replayed, others are paid for and kept."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from pytest_llmeval.cache import timed_calls
from pytest_llmeval.cache.case_parameters import Parameters, keep_parameters
from pytest_llmeval.cache.flights import SingleFlight
from pytest_llmeval.cache.locks import fork_safe_lock, lock_awaited_by_forks
from pytest_llmeval.cache.process_locks import ProcessLocks
from pytest_llmeval.cache.reply import (
    Accepts,
    KeptRequest,
    NewRow,
    StoredReply,
    accept_any,
    decode,
    encode,
)
from pytest_llmeval.cache.requests import request_rows
from pytest_llmeval.errors import CacheUnusable, ReplayMiss, RowRefused
from pytest_llmeval.records import Slot
from pytest_llmeval.settings import CacheMode

if TYPE_CHECKING:
    from pytest_llmeval.cache.database import Store

__all__ = ["Replies", "StoredReply"]

T = TypeVar("T")

# The most keys of a session whose misses are explained: each explanation reads many requests, and a
# session that finds nothing has a thousand misses.
EXPLAINED = 5
_LONGEST_WHY = 220  # characters


class Replies:
    """Every reply that was ever paid for.

    A draw may have several generations (rows ``key/slot/0``, ``key/slot/1``, ...): ``refresh`` adds
    one. A lookup takes the one that a run names, else the newest; no session changes or removes
    one. A thread that asks for a draw while another thread or process pays for it waits for that
    reply. If two processes cannot see each other and both pay, the first reply to be stored is the
    draw; the other is kept under ``key/slot/spare/draw``.

    Safe for threads, for several processes on one directory, and across a fork. Nothing is
    opened, and diskcache is not even imported, before the first lookup.

    Args:
        directory: ``.llmeval``; replies lie in its folder ``cache``.
        mode: what to do with a hit and with a miss.
        session: name of this session, the same in all its worker processes.
        warn: gets messages on refused rows, on a cache that is damaged or cannot be used, and on a
            process for which a wait was in vain.
        patience: seconds to wait for a draw that another process is paying for, or for the calls
            that come before a replay.
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
        self._warning = fork_safe_lock()
        self._store: Store | None = None
        # Without this wait, a child that is forked during the import would find Python's lock on
        # the module, which no thread of the child gives back.
        self._opening = lock_awaited_by_forks()
        self._is_closed = False
        warn_late = partial(self._warn_once, "late")
        self._process_locks = ProcessLocks(directory, patience=patience, warn=warn_late)
        self._flights = SingleFlight(self._process_locks)
        self._kept_keys: set[str] = set()
        self._explained_keys: set[str] = set()
        self.patience = patience
        self._new_courses: list[tuple[str, timed_calls.Steps]] = []  # of trials that have ended
        self._keeping = fork_safe_lock()
        self._has_courses: bool | None = None  # whether any are stored; None if nobody has looked
        self._preferred: Sequence[Collection[str]] = ()
        self._parameters: Mapping[str, Parameters] = {}

    @property
    def only_replays(self) -> bool:
        """Whether the session pays for nothing, so that a miss is an error."""
        return self._mode == "replay"

    def prefer(self, *draws: Collection[str]) -> None:
        """Prefer the reply of a slot that a run names to the newest one.

        Args:
            draws: the ids that a run names; of several runs the first has precedence.
        """
        self._preferred = draws

    def named(self, several: Iterable[T], draw: Callable[[T], str]) -> list[T]:
        """Pick the items of a preferred draw, of the first run that names any; else nothing.

        Args:
            several: to pick from.
            draw: returns the id of an item's draw.
        """
        several = list(several)
        picked = ([one for one in several if draw(one) in draws] for draws in self._preferred)
        return next(filter(None, picked), [])

    def has_named(self, name: str) -> bool:
        """Tell whether a reply of a key and slot is stored that is preferred."""
        stored = self._stored(name, accept_any) if self._preferred else None
        return bool(stored and self.named([stored], attrgetter("draw")))

    def keep_parameters(self, by_digest: Mapping[str, Parameters]) -> None:
        """Keep the parameters of cases, by their digest, as soon as the cache is opened."""
        self._parameters = by_digest

    def lookup(self, request: KeptRequest, slot: Slot, *, place: str = "") -> StoredReply | None:
        """Replay a draw, without waiting for replies that are being stored.

        Args:
            request: what is asked.
            slot: which draw of the request.
            place: ``key/slot``, for who has it already.

        Returns:
            The reply; None if it has to be paid for.

        Raises:
            ReplayMiss: mode ``replay``, and no reply is stored.
            CacheError: mode ``replay``, and the cache cannot be read.
        """
        self._is_closed = False
        stored = self._stored(place or f"{request.key}/{slot}", request.accepts)
        if stored is None and self._mode == "replay":
            raise ReplayMiss(self._miss(request, slot))
        return stored

    def pay(self, request: KeptRequest, slot: Slot, *, place: str = "") -> StoredReply:
        """Pay for a draw that ``lookup`` did not find, and keep it.

        Threads and processes that ask for the draw meanwhile wait, and pay nothing; an error of the
        call reaches the threads, too. A thread that asks without an event loop may hold up the loop
        of another, so these two kinds do not wait for each other.

        Args:
            request: what is asked; kept with its first reply.
            slot: which draw of the request.
            place: as for ``lookup``.

        Returns:
            The reply; it is on disk by now, unless a warning said otherwise or ``close`` came
            between. ``replayed`` is True if somebody else has paid for it. If somebody else paid as
            well and was first, it is the other one's reply, with ``replayed`` False.

        Raises:
            TypeError, ValueError: the answer is not 2xx, or its facts are no JSON scalars.
        """
        if self._mode == "off" or self._is_closed:
            return replace(request.perform(slot), session=self._session)
        name = place or f"{request.key}/{slot}"
        session = self._session if self._mode == "refresh" else ""  # it replays its own draws only
        return self._flights.share(
            f"{name}/{session}/{'loop' if request.awaits else 'thread'}",
            partial(self._pay_alone, name, request, slot),
        )

    def courses(self, trial: str) -> list[timed_calls.Steps]:
        """Find the kept courses of a trial; none where the session wants new draws.

        Args:
            trial: its name, "" for none.
        """
        if not trial or self._mode not in ("auto", "replay"):
            return []
        if self._has_courses is False and not self._new_courses:
            return []
        own = [steps for name, steps in self._new_courses if name == trial]
        return self._stored_courses(trial) + own

    def occurrences(self, courses: Sequence[timed_calls.Steps], key: str, worker: str) -> list[int]:
        """Find which draws of a request a worker was given, in a course that is to be replayed."""
        own = [
            {
                place: step.draw
                for place, step in steps.items()
                if step.worker == worker and place.startswith(f"{key}/")
            }
            for steps in reversed(courses)
        ]
        known = list(filter(None, own))
        named = self.named(known, lambda draws: next(iter(draws.values())))
        places = next(iter(named or known), {})
        return sorted(int(place.rpartition("/")[2].rstrip("~")) for place in places)

    def keep_course(self, trial: str, steps: timed_calls.Steps) -> None:
        """Keep the course of a trial that has ended: beside the next reply, or at the end.

        Args:
            trial: its name, "" for none.
            steps: nothing where none is needed.
        """
        if trial and steps and self._mode in ("auto", "refresh"):
            with self._keeping:
                self._new_courses.append((trial, steps))

    def _stored_courses(self, trial: str) -> list[timed_calls.Steps]:
        found: list[timed_calls.Steps] = []
        name = timed_calls.course_name(trial)
        with suppress(CacheUnusable):  # a lookup of a reply tells of it
            store = self._store or self._open()
            if self._has_courses is None:  # most suites have none, which spares each trial a lookup
                self._has_courses = store.find(timed_calls.SOME_COURSE)[0] is not None
            while self._has_courses and (value := store.find(f"{name}{len(found)}")[0]) is not None:
                try:
                    found.append(timed_calls.decode_course(value))
                except RowRefused:
                    found.append({})
        return found

    def _course_rows(self) -> list[NewRow]:
        """Take the courses that wait to be kept."""
        rows: list[NewRow] = []
        with self._keeping:
            taken, self._new_courses = self._new_courses, []
        for trial, steps in taken:
            value = timed_calls.encode_course(steps)
            if value is not None:
                rows.append(
                    (f"{timed_calls.course_name(trial)}{len(self._stored_courses(trial))}", value)
                )
                rows.append((timed_calls.SOME_COURSE, value))
                self._has_courses = True
        return rows

    def close(self) -> None:
        """Close the database; the next lookup opens it again.

        A reply that comes after this, to a trial that was given up at Ctrl-C, is not kept: its
        thread may stop anywhere, and must find no database to open.
        """
        self._is_closed = True
        self._process_locks.close()
        if self._store is not None:
            with suppress(CacheUnusable):
                for name, value in self._course_rows():
                    self._store.add(name, value)
            self._store.close()

    def _stored(self, name: str, accepts: Accepts) -> StoredReply | None:
        """Find the generation of a draw to replay: the one that a run names, else the newest.

        A spare draw is replayed only where a run names it. A cache that cannot be read counts as
        empty, except in mode ``replay``.
        """
        if self._mode == "off":
            return None
        try:
            store = self._store or self._open()
            rows = store.below(f"{name}/")
        except CacheUnusable as exc:
            if self._mode == "replay":
                raise
            self._warn_unusable(exc)
            return None
        if not rows:
            return None
        found = [(row, self._replayable(row.name, row.value, accepts)) for row in rows]
        replies = {row.name[len(name) + 1 :]: reply for row, reply in found if reply}
        newest = max(filter(str.isdecimal, replies), key=int, default="")
        if list(replies) == [newest]:  # nearly always
            return replies[newest]
        named = self.named(replies.values(), attrgetter("draw"))
        return named[0] if named else replies.get(newest)

    def _replayable(
        self, name: str, found: bytes | RowRefused, accepts: Accepts
    ) -> StoredReply | None:
        """Read a row; None if it is refused or may not be replayed."""
        try:
            reply = decode(found)
        except RowRefused as exc:
            self._warn_once(
                "refused",
                f"row {name} of the cache {self._directory / 'cache'} is not one that this plugin "
                f"wrote: {exc}. It was left where it is and counts as missing; further ones are "
                "not reported. Who else can write there? See SECURITY.md.",
            )
            return None
        is_own = self._mode != "refresh" or reply.session == self._session
        return reply if is_own and accepts(reply) else None

    def _pay_alone(self, name: str, request: KeptRequest, slot: Slot) -> StoredReply:
        """Pay while nobody else does, unless another has done so since the lookup."""
        stored = self._stored(name, request.accepts)
        if stored is not None:
            return stored
        reply = replace(request.perform(slot), session=self._session)
        if self._is_closed:
            return reply
        try:
            value = encode(reply)
            store = self._store or self._open()
            beside: list[NewRow] = []
            key, canonical = request.key, request.canonical
            if canonical is not None and key not in self._kept_keys:
                self._kept_keys.add(key)
                beside += request_rows(key, canonical, session=self._session)
            if self._new_courses:
                beside += self._course_rows()
            winner = self._file(store, name, value, beside=beside, accepts=request.accepts)
            if winner is None:
                return reply
            store.add(f"{name}/spare/{reply.draw}", value)
        except (CacheUnusable, RowRefused) as exc:
            self._warn_unusable(exc)
            return reply
        return replace(winner, replayed=False)

    def _file(
        self, store: Store, name: str, value: bytes, *, beside: Sequence[NewRow], accepts: Accepts
    ) -> StoredReply | None:
        """Store as the next generation, unless another process has just stored this draw.

        Args:
            store: where to.
            name: of the draw.
            value: of the row.
            beside: rows to store along with it.
            accepts: which reply of the other process counts as this draw.

        Returns:
            The reply of the other process, None if ours was stored.
        """
        generation = 0
        while True:
            row_name = f"{name}/{generation}"
            if store.add(row_name, value, beside=beside):
                # A newer reply would fill a gap, and lookups would not take it for the newest.
                if not generation or store.find(f"{name}/{generation - 1}") != [None]:
                    return None
                generation = 0  # the cache was cleared since the generation before was seen
                continue
            (found,) = store.find(row_name)
            if found is None:  # the cache was set aside meanwhile: leave no gap in the new one
                continue
            theirs = self._replayable(row_name, found, accepts)
            if theirs is not None:
                return theirs
            generation += 1

    def _open(self) -> Store:
        with self._opening:
            if self._store is None:
                from pytest_llmeval.cache.database import Store

                self._store = Store(self._directory, warn=self._warn)
                with suppress(CacheUnusable):  # a lookup of a reply tells of it
                    keep_parameters(self._store, self._parameters)
            return self._store

    def _miss(self, request: KeptRequest, slot: Slot) -> str:
        key, canonical = request.key, request.canonical
        if self._stored(f"{key}/{slot}", accept_any) is not None:
            why = "; what an earlier version stored there is no answer of a model"
        elif canonical is None or len(self._explained_keys | {key}) > EXPLAINED:
            why = ""
        else:
            from pytest_llmeval.cache.why import explain_miss  # sqlite3

            self._explained_keys.add(key)
            why = explain_miss(self._open(), key, canonical)
        if len(why) > _LONGEST_WHY:  # the section cuts what is too long, and the cure is to be seen
            why = f"{why[:_LONGEST_WHY]}..."
        return (
            f"no reply is stored for call {slot} of request {key[:12]}{why}. "
            "Pay for it once:  pytest --llm-cache=auto  (--llm-cache=replay makes no call; "
            f"looked in {self._directory / 'cache'})"
        )

    def _warn_unusable(self, exc: CacheUnusable | RowRefused) -> None:
        self._warn_once(
            "unusable", f"{exc}. Calls are made and paid for, but not every reply can be kept."
        )

    def _warn_once(self, kind: str, message: str) -> None:
        with self._warning:
            is_new = kind not in self._warned
            self._warned.add(kind)
        if is_new:
            self._warn(message)
