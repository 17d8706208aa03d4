"""The output that pytest captures, and the streams that it puts into ``sys`` for that."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pytest_llmeval.engine.isolation.part import Part

Captured = tuple[bool, dict[str, str]]  # whether it goes on, and what was read by stream


class Capture(Part[Captured]):
    """Swap what was captured, and whether pytest captures at the moment.

    Args:
        manager: pytest's plugin, None where that is switched off or is not as we know it.
    """

    def __init__(self, manager: Any) -> None:
        self._manager = manager

    def take_off(self) -> Captured:
        """Read what was captured."""
        running = self._running
        if running is None or running._state not in ("started", "suspended"):
            return False, {}
        captures = {"stdout": running.out, "stderr": running.err}
        texts = {name: one.snap() for name, one in captures.items() if one is not None}
        return running.is_started(), texts

    def put_on(self, saved: Captured) -> None:
        """Go on capturing or do not, and let what was read be as if it were captured now."""
        goes_on, texts = saved
        if self._running is not None and goes_on != self._running.is_started():
            if goes_on:
                self._manager.resume_global_capture()
            else:
                self._manager.suspend_global_capture()
        for name, stream in self._files():
            if texts.get(name):  # past what others do with the stream
                io.TextIOWrapper.write(stream, texts.pop(name))

    def fork(self, saved: Captured) -> Captured:
        """Begin with nothing."""
        return saved[0], {}

    def hand_over(self, state: Mapping[Part[Any], Any], *, to: Mapping[Part[Any], Any]) -> None:
        """Add what was read for one state to what was read for another."""
        (_, texts), (_, others) = state[self], to[self]
        for name, text in texts.items():
            others[name] = others.get(name, "") + text

    def streams(self) -> Iterator[tuple[str, Any]]:
        """Give the streams that pytest puts into ``sys``, also while it does not."""
        for name, captured in self._files():
            yield name, captured
            if getattr(sys, name) is not captured:
                yield name, getattr(sys, name)

    @property
    def goes_on(self) -> bool:
        """Whether pytest captures at the moment."""
        return bool(self._running and self._running.is_started())

    @property
    def _running(self) -> Any:
        return getattr(self._manager, "_global_capturing", None)

    def _files(self) -> Iterator[tuple[str, Any]]:
        for name, kind in (("stdout", "out"), ("stderr", "err")):
            captured = getattr(getattr(self._running, kind, None), "tmpfile", None)
            if captured is not None:  # else nothing is captured, or no trial overlaps another
                yield name, captured


class Streams(Part[tuple[bool, Any, Any]]):
    """Swap ``sys.stdout`` and ``sys.stderr``; one is None where a test deleted it.

    Args:
        capture: that puts streams of its own there while it goes on.
    """

    def __init__(self, capture: Capture) -> None:
        self._capture = capture

    def take_off(self) -> tuple[bool, Any, Any]:
        """Return whether pytest captures, and both streams."""
        return self._capture.goes_on, getattr(sys, "stdout", None), getattr(sys, "stderr", None)

    def put_on(self, saved: tuple[bool, Any, Any]) -> None:
        """Put both back."""
        _, sys.stdout, sys.stderr = saved

    def is_as(self, saved: tuple[bool, Any, Any]) -> bool:
        """Whether both are the same; in another phase of the capture pytest has its own there."""
        goes_on, stdout, stderr = self.take_off()
        return goes_on != saved[0] or (stdout is saved[1] and stderr is saved[2])
