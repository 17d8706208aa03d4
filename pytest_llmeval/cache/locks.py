"""Locks of a process that may be forked while its threads hold them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any


class ForkSafeLock:
    """A lock that nobody holds in a forked child: the threads that might are not there."""

    def __init__(self) -> None:
        self._begin()

    def __enter__(self) -> None:
        """Take it."""
        self.acquire()

    def __exit__(self, *_: object) -> None:
        """Give it back."""
        self.release()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, as any lock."""
        if self._pid != os.getpid():
            self._begin()
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        """Give it back."""
        self._lock.release()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()


class ForkGuard:
    """Makes a fork wait until no thread is inside SQLite, and threads until the fork is done.

    The child has SQLite's own locks as they are at that moment. One that another thread held
    is never given back there: every statement of the child found the database locked.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._inside = 0
        self._is_forking = False
        register: Callable[..., object] = getattr(os, "register_at_fork", partial)  # not on Windows
        # It cannot be undone, and must not keep what it calls alive.
        hold, release = weakref.WeakMethod(self.hold), weakref.WeakMethod(self.release)
        after = partial(_call, release)
        register(before=partial(_call, hold), after_in_parent=after, after_in_child=after)

    def __enter__(self) -> None:
        """Go inside."""
        with self._turn:
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        """Come out."""
        with self._turn:
            self._inside -= 1
            self._turn.notify_all()

    def hold(self) -> None:
        """Let nobody in, once everybody is out."""
        self._turn.acquire()
        self._turn.wait_for(lambda: not self._inside)
        self._is_forking = True

    def release(self) -> None:
        """Let everybody in, in the parent as in the child."""
        if self._is_forking:  # else it was made after the fork had begun
            self._is_forking = False
            self._turn.release()


def _call(method: weakref.WeakMethod[Callable[[], Any]]) -> None:
    function = method()
    if function is not None:
        function()
