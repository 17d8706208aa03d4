"""The fibers that can be resumed, and what is done while there is none."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from queue import SimpleQueue
from typing import TYPE_CHECKING

from pytest_llmeval.engine.baton.trial_thread import ThreadFiber
from pytest_llmeval.engine.trial.trial import RunningTrial

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from pytest_llmeval.engine.trial.event_loop import Pump


class Ready:
    """A queue of fibers; to wait for the next one is to run the event loop.

    Attributes:
        pump: runs the loop; None before the first async eval.
    """

    def __init__(self) -> None:
        self.pump: Pump | None = None
        self._fibers: SimpleQueue[ThreadFiber] = SimpleQueue()

    @property
    def is_looping(self) -> bool:
        """Whether the event loop runs at the moment."""
        return self.pump is not None and self.pump.loop.is_running()

    def put(self, fiber: ThreadFiber) -> None:
        """Note, from any thread, that a fiber can be resumed."""
        self._fibers.put(fiber)
        if self.pump is not None:
            self.pump.stop()

    def get(self, *, timeout: float) -> ThreadFiber:
        """Take the next fiber, without running the loop.

        Args:
            timeout: seconds to wait for one.

        Raises:
            queue.Empty: none came in that time.
        """
        return self._fibers.get(block=timeout > 0, timeout=timeout or None)

    def wait(self, timeout: float | None = None) -> ThreadFiber:
        """Take the next fiber, and run the loop until there is one.

        Args:
            timeout: seconds after which to give up, None for never.

        Raises:
            queue.Empty: none came in that time.
        """
        if self.pump is None:
            return self._fibers.get(timeout=timeout)
        self.pump.run(self._fibers, timeout=timeout)
        return self._fibers.get_nowait()

    def pump_on(
        self,
        loop: AbstractEventLoop,
        *,
        turn: Callable[[RunningTrial], AbstractContextManager[None]],
    ) -> Pump:
        """Return what runs a loop from now on."""
        from pytest_llmeval.engine.trial.event_loop import Pump

        if self.pump is None or self.pump.loop is not loop:
            self.pump = Pump(loop, turn=turn, wake=self.put)
        return self.pump
