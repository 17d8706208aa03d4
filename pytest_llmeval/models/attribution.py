"""The trial on whose behalf the code asks that runs at the moment.

It is not handed down, as an application's own clients know nothing of trials.
What a trial starts asks for it too: tasks by their context, and threads and the work of a
``ThreadPoolExecutor`` while ``inherited_by_threads`` lasts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

    from pytest_llmeval.models.base import CurrentTrial

T = TypeVar("T")

_ASKER: ContextVar[CurrentTrial | None] = ContextVar("llmeval_asker", default=None)


def current_asker() -> CurrentTrial | None:
    """Return who asks; None where what is asked is nobody's business."""
    return _ASKER.get()


@contextmanager
def asking(asker: CurrentTrial | None) -> Iterator[None]:
    """Let what runs in here, in this thread or task, ask on this behalf."""
    token = _ASKER.set(asker)
    try:
        yield
    finally:
        _ASKER.reset(token)


@contextmanager
def inherited_by_threads() -> Iterator[None]:
    """Have a thread ask for whoever started it, and the work of a pool for who gave it."""
    from concurrent.futures import ThreadPoolExecutor

    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_owned(thread: threading.Thread) -> None:
        asker = current_asker()
        if asker is not None:
            thread.run = partial(_run, thread, thread.run, asker)  # type: ignore[method-assign]
        start(thread)

    def submit_owned(
        pool: ThreadPoolExecutor, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        return submit(pool, _work, current_asker(), function, *args, **kwargs)

    threading.Thread.start = start_owned  # type: ignore[method-assign,assignment]
    ThreadPoolExecutor.submit = submit_owned  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]
        ThreadPoolExecutor.submit = submit  # type: ignore[method-assign]


def _run(thread: threading.Thread, run: Callable[[], None], asker: CurrentTrial) -> None:
    del thread.run  # a circle, once it runs
    with asking(asker):
        run()


def _work(
    asker: CurrentTrial | None, function: Callable[..., T], /, *args: Any, **kwargs: Any
) -> T:
    with asking(asker):
        return function(*args, **kwargs)
