"""Locks by which one process alone pays for a draw.

A draw is locked by a byte of one file, so no draw leaves a file, and the kernel releases the lock
when its holder dies. Without such locks, or in a directory that cannot be written, every process
pays for itself. ``Replies`` keeps one reply as the draw and the others as spares.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from secrets import token_hex
from typing import NamedTuple

from pytest_llmeval.cache.directory import prepare_directory
from pytest_llmeval.cache.locks import fork_safe_lock
from pytest_llmeval.originals import Clock, Files

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

FILE = "flights.lock"
SHORTEST_PAUSE, LONGEST_PAUSE = 0.001, 0.05
LAST_BYTE = 2**62
FLOCK = "hhqqi4x"  # Linux: type, whence, start, length, process


def lack_of_locks(directory: Path) -> str:
    """Say why files cannot be locked in a directory, in words for the user.

    SQLite would take the refusal of a lock for a lock of another process, and wait.

    Args:
        directory: ``.llmeval``, which need not be there yet.

    Returns:
        The fault and what to type; "" where files can be locked, or none can be made.
    """
    folder = next(each for each in (directory, *directory.parents) if _is_folder(each))
    probe = folder / f".llmeval-probe-{token_hex(8)}"
    with contextlib.suppress(OSError):
        descriptor = Files.open(probe, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with contextlib.suppress(OSError):
                Files.unlink(probe)
            if fcntl is not None:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            return (
                f"the cache of replies cannot be used: no file can be locked in {directory} "
                f"({exc.strerror or exc}), as on some network disks. Name a directory on a local "
                "disk with --llm-dir"
            )
        finally:
            Files.close(descriptor)
    return ""


def _is_folder(path: Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISDIR(Files.stat(path).st_mode)
    return False


@contextlib.contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Let one process at a time into the block; without such locks let all in.

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
    """The draws that this process has locked, among processes that share a directory.

    The kernel gives such a lock to a process, not to a thread: threads must agree among themselves
    first. No other code of the process may open the file, because closing it releases every lock.

    Args:
        directory: ``.llmeval``; the file lies there from the first lock to ``close``.
        patience: seconds to wait for another process, which may be stopped.
        warn: gets a message when this wait was in vain.
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

    def close(self) -> None:
        """Release everything, and remove the file unless another process has a lock in it."""
        with self._lock:
            if self._opened is not None:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._opened.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if self._is_in_place(self._opened):
                        Files.unlink(self._path)
                self._retired.append(self._opened.descriptor)
                self._opened = None
            while self._retired:
                Files.close(self._retired.pop())

    def take(self, name: str) -> Callable[[], object]:
        """Lock a draw, once no other process has locked it; after too long go on without a lock.

        Returns:
            A function that releases it; raises OSError where ``close`` has done so meanwhile.
        """
        digest = hashlib.sha256(name.encode()).digest()
        place = int.from_bytes(digest[:8], "big") % LAST_BYTE
        pause, end = SHORTEST_PAUSE, Clock.monotonic() + self._patience
        while self._is_usable:
            opened = self._opened
            if opened is None:
                self._open_instead(None)
                continue
            try:
                fcntl.lockf(opened.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
            except (BlockingIOError, PermissionError):  # another process has it
                pass
            except OSError:  # such a file system has no locks
                self._is_usable = False
                continue
            else:
                if self._is_in_place(opened):
                    return partial(fcntl.lockf, opened.descriptor, fcntl.LOCK_UN, 1, place)
                self._open_instead(opened)
            if Clock.monotonic() >= end:
                holder = _holder(opened.descriptor, place)
                self._warn(
                    f"{holder} waits for a reply that did not come within {self._patience:g} s "
                    "(--llm-timeout): it may be stopped. So the call was made here as well, and "
                    "of the two replies the first to be stored is kept. Others are not reported"
                )
                break
            Clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
        return lambda: None

    def _open_instead(self, known: _Opened | None) -> None:
        """Open the file, or a new one where another session or a user has removed the known one.

        A removed file stays open: other threads may have locks in it.
        """
        with self._lock:
            if self._opened is known:
                try:
                    self._opened = self._open()
                except OSError:  # no room, or no directory any more: waiting would not help
                    self._is_usable = False
                else:
                    self._retired += [] if known is None else [known.descriptor]

    def _open(self) -> _Opened:
        prepare_directory(self._directory)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW
        descriptor = Files.open(self._path, flags, 0o600)
        try:
            found = Files.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
                raise OSError(errno.EPERM, "this may be a file of somebody else")  # noqa: TRY301
            return _Opened(descriptor, found)
        except OSError:
            Files.close(descriptor)
            raise

    def _is_in_place(self, opened: _Opened) -> bool:
        """Whether the path still leads to this file."""
        with contextlib.suppress(OSError):
            found, known = Files.stat(self._path), opened.identity
            return (found.st_ino, found.st_dev) == (known.st_ino, known.st_dev)
        return False


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
