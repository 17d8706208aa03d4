"""Locks of a process that may be forked while its threads hold them."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

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


_register: Callable[..., object] = getattr(os, "register_at_fork", dict)  # Windows has none
_register(after_in_child=_free_locks)


class ForkGuard:
    """Makes a fork wait until no thread is inside SQLite, and threads until the fork is done.

    The child has SQLite's own locks as they are at that moment. One that another thread held
    is never given back there: every statement of the child found the database locked.
    """

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._inside = 0
        self._is_forking = False
        # It cannot be undone, and must not keep what it calls alive.
        hold, release = weakref.WeakMethod(self.hold), weakref.WeakMethod(self.release)
        after = partial(_call, release)
        _register(before=partial(_call, hold), after_in_parent=after, after_in_child=after)

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
