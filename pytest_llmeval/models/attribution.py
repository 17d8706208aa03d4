"""Attribution of calls to the trial that makes them, and what a trial does with them.

The trial is not handed down, as an application's own clients know nothing of trials. It is known
to the tasks that a trial starts by their context, and to its threads and the work that it gives a
``ThreadPoolExecutor`` while ``inherited_by_threads`` lasts.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import partial
from time import monotonic  # by name: a test may mock those of the module
from typing import Any, Protocol, TypeVar

from pytest_llmeval.errors import LLMEvalError
from pytest_llmeval.models.course import ASKED, WORKER, Course, running_loop, setting
from pytest_llmeval.models.strands import Asker, Branch
from pytest_llmeval.records import Call, Slot

T = TypeVar("T")


class CurrentTrial(Protocol):
    """The trial on whose behalf requests are made. Called from any thread of the test.

    Attributes:
        course: of its calls.
        function: whose trial it is; "" for what hooks do around trials.
        intercepts: clients of the application are intercepted.
        reached_out: it opened a connection.
    """

    course: Course
    function: str
    intercepts: bool
    reached_out: bool

    def slot(self, key: str, /, wanted: Iterable[int] = ()) -> Slot:
        """Take the next free occurrence of this key in this trial, one that is wanted first."""

    def record(self, call: Call, /) -> None:
        """Note how the call for a slot ended.

        The slot of a failed call is free again, so that the application's own retry of
        the same request asks for the same draw.
        """

    def refuse(self, refusal: LLMEvalError, /) -> None:
        """Note that a request of the trial was not made: how the trial ends is then no result."""

    def note_setback(self, key: str, slot: Slot, why: str, /) -> None:
        """Note that a call goes on though a provider failed an attempt, or wanted fewer calls."""

    def note_late(self) -> None:
        """Note that a reply was there, and the trial had no turn until it did not want it."""

    def deny(self, refusal: LLMEvalError, /) -> None:
        """Note that something was not sent that is no question: the trial may get over it."""

    def note_uncached(self, request: str, /, *, lost: str) -> None:
        """Note whether a request that is not kept got no reply, and why; "" if it got one."""

    def wait(self, fn: Callable[[], T], /, *, serial: bool = False) -> T:
        """Run a function that waits for the outside world, so that other trials can go on.

        Nothing may run beside one that is ``serial``.
        """

    async def wait_async(
        self, fn: Callable[[], T], /, *, awaits: bool = False, serial: bool = False
    ) -> T:
        """Await what waits for the outside, or ``awaits`` on the loop; it ends in any case."""


_ABSENT = object()
_TRIAL: ContextVar[CurrentTrial | None] = ContextVar("llmeval_trial_to_charge", default=None)
# Whether what is sent now has gone through an HTTP client that we look at: it is looked at once,
# whatever other client it goes through.
SENDING: ContextVar[bool] = ContextVar("llmeval_is_sending", default=False)


# Returns the trial to charge for the current call, or None; and charges one, or none, from now on.
trial_to_charge, charge = _TRIAL.get, _TRIAL.set


@contextmanager
def charging(trial: CurrentTrial | None, *, asked: Asker = "") -> Iterator[None]:
    """Charge a trial, or none, for the calls made in here, in this thread or task.

    Args:
        trial: it.
        asked: where the code stands that runs in here.
    """
    with setting(_TRIAL, trial), setting(ASKED, asked):
        yield


@contextmanager
def replaced(owner: Any, name: str, value: object) -> Iterator[None]:
    """Give an object another attribute for a while; its class may go on with the plain one."""
    before = vars(owner).get(name, _ABSENT)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


@contextmanager
def inherited_by_threads() -> Iterator[None]:
    """Charge the calls of a thread, or of work for a pool, to the trial that began it."""
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_owned(thread: threading.Thread) -> None:
        trial = trial_to_charge()
        if trial is not None:
            begun = trial.course.begin_other()
            thread.run = partial(_run, thread, thread.run, trial, begun)  # type: ignore[method-assign]
        with setting(_TRIAL, None):  # it waits for its beginning, which is no wait of the trial
            start(thread)

    def submit_owned(
        pool: ThreadPoolExecutor, function: Callable[..., T], /, *args: Any, **kwargs: Any
    ) -> Future[T]:
        trial = trial_to_charge()
        if trial is None:
            return submit(pool, function, *args, **kwargs)
        begun = trial.course.begin_other()  # first: the work may ask at once
        with setting(_TRIAL, None):  # a pool that has no thread for it yet waits for one in vain
            future = submit(pool, _charged, trial, begun, function, *args, **kwargs)
        if loop := running_loop():  # which is told first
            loop.call_soon(future.add_done_callback, trial.course.end_other)
        else:
            future.add_done_callback(trial.course.end_other)
        return future

    threads = replaced(threading.Thread, "start", start_owned)
    with threads, replaced(ThreadPoolExecutor, "submit", submit_owned), _noting_tasks():
        yield


@contextmanager
def _noting_tasks() -> Iterator[None]:
    """Let tasks of asyncio's loops and of uvloop's know where the code stood that began them."""
    asyncio = sys.modules.get("asyncio")  # else no test has imported it
    with ExitStack() as undoing:
        for loops in asyncio.AbstractEventLoop.__subclasses__() if asyncio else ():
            undoing.enter_context(replaced(loops, "create_task", _noted(loops.create_task)))
        yield


def _noted(create: Callable[..., Any]) -> Callable[..., Any]:
    def create_noted(loop: Any, coroutine: Any, **more: Any) -> Any:
        trial = trial_to_charge()
        if trial is None:
            return create(loop, coroutine, **more)
        begun = trial.course.branch(monotonic())
        with setting(ASKED, begun), setting(WORKER, begun.worker):
            return create(loop, coroutine, **more)  # the task has a copy of the context

    return create_noted


def _run(
    thread: threading.Thread, run: Callable[[], None], trial: CurrentTrial, asked: Branch
) -> None:
    del thread.run  # a circle, once it runs
    try:
        _charged(trial, asked, run)
    finally:
        trial.course.end_other()


def _charged(
    trial: CurrentTrial, asked: Branch, function: Callable[..., T], /, *args: Any, **kwargs: Any
) -> T:
    with charging(trial, asked=asked), setting(WORKER, asked.worker):
        return function(*args, **kwargs)
