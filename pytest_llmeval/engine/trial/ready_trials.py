"""The trials that can go on, and the event loop that is run while there is none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pytest_llmeval.engine.baton.thread_pool import Threads
from pytest_llmeval.engine.baton.trial_thread import TrialThread

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pytest_llmeval.engine.trial.event_loop import Pump
    from pytest_llmeval.engine.trial.trial import RunningTrial


class Ready:
    """A queue of trial threads; to wait for the next one is to run the event loop.

    Args:
        turn: swaps the state of the process for a trial's.

    Attributes:
        threads: where trials run, and where their calls wait.
        pump: runs the loop; None before the first async eval.
    """

    def __init__(self, turn: Callable[[RunningTrial], AbstractContextManager[None]]) -> None:
        self.threads = Threads()
        self.pump: Pump | None = None
        self._turn = turn
        self._queue: SimpleQueue[TrialThread] = SimpleQueue()

    @property
    def is_empty(self) -> bool:
        """Whether no trial can go on at the moment; only the session takes any away."""
        return self._queue.empty()

    @property
    def is_looping(self) -> bool:
        """Whether the event loop runs at the moment."""
        return self.pump is not None and self.pump.loop.is_running()

    def put(self, thread: TrialThread) -> None:
        """Note, from any thread, that a trial can be resumed."""
        self._queue.put(thread)
        if self.pump is not None:
            self.pump.stop()

    def get(self, *, timeout: float) -> TrialThread:
        """Take the next trial, without running the loop.

        Args:
            timeout: seconds to wait for one.

        Raises:
            queue.Empty: none came in that time.
        """
        return self._queue.get(block=timeout > 0, timeout=timeout or None)

    def wait(self, timeout: float | None = None) -> TrialThread:
        """Take the next trial, and run the loop until there is one.

        Args:
            timeout: seconds after which to give up, None for never.

        Raises:
            queue.Empty: none came in that time.
        """
        if self.pump is None:
            return self._queue.get(timeout=timeout)
        self.pump.run(self._queue, timeout=timeout)
        return self._queue.get_nowait()

    def pump_on(self, loop: AbstractEventLoop) -> Pump:
        """Return the pump that runs a loop from now on."""
        from pytest_llmeval.engine.trial.event_loop import Pump

        if self.pump is None or self.pump.loop is not loop:
            self.pump = Pump(loop, turn=self._turn, wake=self.put)
        return self.pump
