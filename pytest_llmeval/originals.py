"""Clocks and file functions as they were when the plugin was loaded.

A test may freeze the clock or fake the files while we look its calls up, pay for and record them.
So code that runs inside a trial takes clocks and file functions from here. Each is an attribute of
a class, because libraries replace such functions in modules, also under other names.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from pathlib import Path
from typing import Any


class Clock:
    """Clocks that no test has frozen, and the real way to sleep."""

    monotonic = staticmethod(time.monotonic)
    seconds = staticmethod(time.perf_counter)  # which no library swaps below Python
    wall = staticmethod(time.time)
    sleep = staticmethod(time.sleep)
    _kind: type[datetime] = datetime
    _zone: tzinfo = UTC
    began = time.time() - time.perf_counter()  # of ``seconds``, in seconds since 1970

    @classmethod
    def now(cls) -> datetime:
        """Return the time in UTC, by a clock that no test can set."""
        return cls._kind.fromtimestamp(cls.began + cls.seconds(), cls._zone)

    @classmethod
    def keep(cls, loop: Any) -> None:
        """Give an event loop the real clock: by a frozen one its waits would never end."""
        with suppress(AttributeError):  # a compiled loop has a clock of its own
            loop.time = cls.monotonic


class Files:
    """Functions of ``os`` on the real files."""

    close = staticmethod(os.close)
    fstat = staticmethod(os.fstat)
    listdir = staticmethod(os.listdir)
    lstat = staticmethod(os.lstat)
    makedirs = staticmethod(os.makedirs)
    mkdir = staticmethod(os.mkdir)
    open = staticmethod(os.open)
    read = staticmethod(os.read)
    stat = staticmethod(os.stat)
    unlink = staticmethod(os.unlink)
    write = staticmethod(os.write)
    _lseek = staticmethod(os.lseek)

    @classmethod
    def are_in_place(cls) -> bool:
        """Whether the files are real at the moment, and not faked."""
        return (os.open, os.stat, os.mkdir) == (cls.open, cls.stat, cls.mkdir)

    @classmethod
    def add(cls, path: Path, content: bytes, how: int) -> None:
        """Write at once to a file, and make it if needed; ``how`` has more flags of ``open``."""
        descriptor = cls.open(path, os.O_WRONLY | os.O_CREAT | how, 0o600)
        try:
            cls.write(descriptor, content)
        finally:
            cls.close(descriptor)

    @classmethod
    def tail(cls, path: Path, start: int) -> bytes:
        """Read a file from a byte on to its end; a negative start counts from there."""
        descriptor = cls.open(path, os.O_RDONLY)
        try:
            size = cls.fstat(descriptor).st_size
            begin = start if start >= 0 else max(0, size + start)
            cls._lseek(descriptor, begin, os.SEEK_SET)
            return cls.read(descriptor, size - begin)
        finally:
            cls.close(descriptor)
