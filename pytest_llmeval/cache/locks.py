"""Release locks in a forked child, and call methods there after the fork."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

_register: Callable[..., object] = getattr(os, "register_at_fork", dict)  # Windows has none

# Free in every forked child. A fork knows no session, so this is the one list that a module keeps;
# it keeps no lock alive.
_freed_in_children: weakref.WeakSet[threading.Lock] = weakref.WeakSet()


def fork_safe_lock() -> threading.Lock:
    """Make a lock that is free in a forked child, where the thread that held it is not.

    The protected object is as that thread left it, so a child must make a half-made one again. Do
    not fork while holding the lock.
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

    A fork takes the locks in the opposite order of their making. Make few: each stays registered.
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
