"""Locks: those that a fork leaves free, and those by which one thread alone pays for a draw.

Threads share a flight. Between processes a draw is locked by a byte of one file, so no draw leaves
a file, and the kernel releases the lock when its holder dies. Where that cannot be done (no such
locks, a directory that cannot be written) every process pays for itself and ``Replies`` keeps one
reply as the draw and the others as spares.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import secrets
import stat
import struct
import sys
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from pytest_llmeval.cache.directory import prepare_directory
from pytest_llmeval.cache.reply import StoredReply
from pytest_llmeval.errors import CallAbandoned
from pytest_llmeval.originals import Clock, Files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE = "flights.lock"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.05
LAST_BYTE = 2**62
FLOCK = "hhqqi4x"  # Linux: type, whence, start, length, process

_register: Callable[..., object] = getattr(os, "register_at_fork", dict)  # Windows has none

# Free in every forked child. A fork knows no session, so this is the one list that a module keeps;
# it keeps no lock alive.
_freed_in_children: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def fork_safe_lock() -> threading.Lock:
    """Make a lock that is free in a forked child, where the thread that held it is not.

    What the lock protects is as that thread left it: one that may be half-made must be made anew.
    Do not fork while holding it.
    """
    lock = threading.Lock()
    _freed_in_children.add(lock)
    return lock


def _free_locks() -> None:
    for lock in _freed_in_children:
        if lock.locked():
            lock.release()


_register(after_in_child=_free_locks)


def lock_awaited_by_forks() -> threading.RLock:
    """Make a lock that nobody holds while this process forks: the fork waits for it.

    Forks take the locks in the opposite order of their making. Make few: none is ever forgotten.
    """
    lock = threading.RLock()
    taken: list[bool] = []

    def give_back() -> None:
        if taken:  # else the lock was made after the fork had begun
            taken.pop()
            lock.release()

    _register(
        before=lambda: taken.append(lock.acquire()),
        after_in_parent=give_back,
        after_in_child=give_back,
    )
    return lock


def call_in_forked_children(method: Callable[[], Any]) -> None:
    """Call a method in each child that is forked while its object lives."""
    weak = weakref.WeakMethod(method)

    def call() -> None:
        alive = weak()
        if alive is not None:
            alive()

    _register(after_in_child=call)


def lack_of_locks(directory: Path) -> str:
    """Say why files cannot be locked in a directory, in words for the user.

    SQLite takes the refusal of a lock for a lock of somebody else, and waits for it.

    Args:
        directory: ``.llmeval``, which need not be there yet.

    Returns:
        What is wrong and what to type; "" where files can be locked, or none can be made.
    """
    folder = next(each for each in (directory, *directory.parents) if _is_folder(each))
    probe = folder / f".llmeval-probe-{secrets.token_hex(8)}"
    with contextlib.suppress(OSError), _opened_to_lock(probe) as descriptor:
        try:
            if fcntl is not None:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            return (
                f"the cache of replies cannot be used: no file can be locked in {directory} "
                f"({exc.strerror or exc}), as on some network disks. Name a directory on a local "
                "disk with --llm-dir"
            )
    return ""


def _is_folder(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(Files.stat(path).st_mode)
    return False


@contextlib.contextmanager
def _opened_to_lock(probe: Path) -> Iterator[int]:
    """Open a new file, which is gone again at once."""
    descriptor = Files.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        Files.unlink(probe)
        yield descriptor
    finally:
        Files.close(descriptor)


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Let one process at a time into the block; where there are no such locks let all in.

    Args:
        path: an empty file, which is made; it stays.

    Raises:
        OSError: it cannot be made.
    """
    with path.open("a") as file:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # such a file system has no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


class ProcessLocks:
    """The draws that this process has locked, of all that share a directory.

    The kernel gives such a lock to a process, not to a thread: threads must agree among themselves
    first. No other code of the process may open the file, because closing it releases every lock.

    Each process that joins writes one byte to the file: while there is one alone, nobody else has
    paid for anything.

    Args:
        directory: ``.llmeval``; the file lies there from ``join`` to ``close``.
        patience: seconds to wait for another process, which may be stopped.
        warn: is given a message when that wait was in vain.
    """

    def __init__(self, directory: Path, *, patience: float, warn: Callable[[str], None]) -> None:
        self._directory = directory
        self._patience = patience
        self._warn = warn
        self._path = directory / FILE
        self._lock = fork_safe_lock()
        self._opened: _Opened | None = None
        self._retired: list[int] = []
        self._is_usable = fcntl is not None
        self._has_seen_all = False  # that was stored: it joined before its first lookup
        call_in_forked_children(self._leave)

    def join(self) -> None:
        """Join the processes that share the directory; call this before the first lookup."""
        if self._open_first():
            self._has_seen_all = True

    @contextlib.contextmanager
    def locked(self, name: str) -> Iterator[bool]:
        """Lock a draw, once no other process has locked it, until the end of the block.

        After waiting for too long, go on without a lock.

        Yields:
            Whether another process may have paid for the draw since this one has looked it up.
        """
        digest = hashlib.sha256(name.encode()).digest()
        place = int.from_bytes(digest[:8], "big") % LAST_BYTE
        descriptor, is_alone = self._take(place)
        try:
            yield not is_alone
        finally:
            if descriptor is not None:
                with contextlib.suppress(OSError):  # closed meanwhile, and so released
                    fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, place)

    def close(self) -> None:
        """Release everything, and remove the file unless another process has a lock in it."""
        with self._lock:
            if self._opened is not None:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._opened.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if self._joined(self._opened) is not None:
                        Files.unlink(self._path)
                self._retired.append(self._opened.descriptor)
                self._opened = None
            while self._retired:
                Files.close(self._retired.pop())

    def _take(self, place: int) -> tuple[int | None, bool]:
        """Lock a byte; return by which descriptor, if any, and whether nobody else has paid."""
        has_waited = False
        pause, end = SHORTEST_PAUSE, Clock.monotonic() + self._patience
        while self._is_usable:
            opened = self._opened
            if opened is None:
                self._open_first()
                continue
            try:
                fcntl.lockf(opened.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError):  # another process has it
                has_waited = True
            except OSError:  # such a file system has no locks
                self._is_usable = False
                continue
            else:
                joined = self._joined(opened)
                if joined is not None:
                    is_alone = joined == 1 and self._has_seen_all and not has_waited
                    return opened.descriptor, is_alone
                self._retire(opened)
            if Clock.monotonic() >= end:
                holder = _holder(opened.descriptor, place)
                self._warn(
                    f"{holder} has a draw under way that did not come within {self._patience:g} s "
                    "(--llm-timeout): it may be stopped. So the draw was paid for here as well, "
                    "and of the two replies the first to be stored is kept as the draw. Others "
                    "are not reported"
                )
                return None, False
            Clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return None, False

    def _open_first(self) -> bool:
        """Open the file unless it is open; tell whether that was done now."""
        with self._lock:
            if self._opened is not None or not self._is_usable:
                return False
            try:
                self._opened = self._open()
            except OSError:
                self._is_usable = False
            return self._is_usable

    def _open(self) -> _Opened:
        self._has_seen_all = False
        prepare_directory(self._directory)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        descriptor = Files.open(self._path, flags, 0o600)
        try:
            found = Files.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise OSError(errno.EPERM, "this may be a file of somebody else")  # noqa: TRY301
            Files.write(descriptor, b"\n")
            return _Opened(descriptor, found)
        except OSError:
            Files.close(descriptor)
            raise

    def _joined(self, opened: _Opened) -> int | None:
        """Count the processes that have joined; None if the path no longer leads to this file."""
        with contextlib.suppress(OSError):
            found, known = Files.stat(self._path), opened.identity
            if (found.st_ino, found.st_dev) == (known.st_ino, known.st_dev):
                return found.st_size
        return None

    def _retire(self, opened: _Opened) -> None:
        """Open the file anew, because another session or a user has removed this one.

        The removed file stays open: other threads may have locks in it.
        """
        with self._lock:
            if self._opened is opened:
                try:
                    self._opened = self._open()
                    self._retired.append(opened.descriptor)
                except OSError:  # no room, or no directory any more: to wait would not help
                    self._is_usable = False

    def _leave(self) -> None:
        """Join anew in a forked child, so that the parent hears of it."""
        if self._opened is not None:
            self._retired.append(self._opened.descriptor)
            self._opened = None


class _Opened(NamedTuple):
    """The file that was opened."""

    descriptor: int
    identity: os.stat_result


def _holder(descriptor: int, place: int) -> str:
    """Name the process that has a lock, as far as the system tells."""
    pid = 0
    if sys.platform == "linux":
        asked = struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, place, 1, 0)
        with contextlib.suppress(OSError):
            *_, pid = struct.unpack(FLOCK, fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return f"process {pid}" if pid > 0 else "another process"


@dataclass(eq=False, slots=True)
class _Flight:
    """One call; ``under_way`` is held until it has ended, with a reply, a failure or neither."""

    under_way: threading.Lock = field(default_factory=threading.Lock)
    reply: StoredReply | None = None
    failure: Exception | None = None


class SingleFlight:
    """The calls that this process has under way, one for each name.

    The first thread makes the call. The others get its reply, as one that they did not pay for, or
    its failure: if each of them tried in turn, an outage would take as many timeouts as cases. The
    next thread makes the call only if the first was interrupted or gave the call up.

    Args:
        locks: held during a call, so that no other process makes it.
    """

    def __init__(self, locks: ProcessLocks) -> None:
        self._locks = locks
        self._forget()
        # In a forked child the calls of the parent never end.
        call_in_forked_children(self._forget)

    def _forget(self) -> None:
        self._flights: dict[str, _Flight] = {}

    def share(self, name: str, pay: Callable[[bool], StoredReply]) -> StoredReply:
        """Make a call, or wait for the same call of another thread.

        Args:
            name: of the draw.
            pay: makes the call; is told whether another process may have made it meanwhile.

        Raises:
            Exception: what ``pay`` raised, here or in the other thread.
        """
        own = _Flight()
        own.under_way.acquire()
        while (flight := self._flights.setdefault(name, own)) is not own:
            with flight.under_way:
                pass
            if flight.failure is not None:
                raise flight.failure
            if flight.reply is not None:
                return replace(flight.reply, replayed=True)
        try:
            with self._locks.locked(name) as may_be_paid:
                own.reply = pay(may_be_paid)
        except CallAbandoned:
            raise
        except Exception as exc:
            own.failure = exc
            raise
        else:
            return own.reply
        finally:
            self._flights.pop(name, None)  # gone in a child that this very call has forked
            own.under_way.release()
