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
        self._running: Any = getattr(manager, "_global_capturing", None)
        self._captures: dict[str, Any] = {}
        for name, kind in (("stdout", "out"), ("stderr", "err")):
            captured = getattr(self._running, kind, None)
            if hasattr(captured, "tmpfile"):  # else nothing is captured, or no trial overlaps
                self._captures[name] = captured

    def take_off(self) -> Captured:
        """Read what was captured."""
        if self._running is None or self._running._state not in ("started", "suspended"):
            return False, {}
        texts = {name: text for name, one in self._captures.items() if (text := one.snap())}
        return self.goes_on, texts

    def put_on(self, saved: Captured) -> None:
        """Go on capturing or do not, and let what was read be as if it were captured now."""
        goes_on, texts = saved
        if self._running is not None and goes_on != self.goes_on:
            if goes_on:
                self._manager.resume_global_capture()
            else:
                self._manager.suspend_global_capture()
        while texts:
            name, text = texts.popitem()  # past what others do with the stream
            io.TextIOWrapper.write(self._captures[name].tmpfile, text)

    def fork(self, saved: Captured) -> Captured:
        """Begin with nothing."""
        return saved[0], {}

    def give(self, state: Mapping[Part[Any], Any], *, to: Mapping[Part[Any], Any]) -> None:
        """Add what was read for one state to what was read for another."""
        (_, texts), (_, others) = state[self], to[self]
        for name, text in texts.items():
            others[name] = others.get(name, "") + text

    def begin_phase(self) -> None:
        """Begin a phase of a trial.

        pytest turns the capture off after every phase, so that its own report can be printed, and
        on before the next. Of a trial nothing is printed; and with 64 in flight each of those
        twelve system calls hands the interpreter's lock to another thread: 3 to 9 % more CPU.
        """
        if self._manager is not None:
            self._manager.resume_global_capture()  # a debugger leaves it off
            self._manager.activate_fixture()

    def end_phase(self, name: str, item: Any) -> None:
        """Give a trial's item what the phase printed, and leave the capture on."""
        if self._manager is not None:
            self._manager.deactivate_fixture()
            out, err = self._manager.read_global_capture()
            item.add_report_section(name, "stdout", out)
            item.add_report_section(name, "stderr", err)

    def streams(self) -> Iterator[tuple[str, Any]]:
        """Give the streams that pytest puts into ``sys``, also while it does not."""
        for name, capture in self._captures.items():
            yield name, capture.tmpfile
            if getattr(sys, name) is not capture.tmpfile:
                yield name, getattr(sys, name)

    @property
    def goes_on(self) -> bool:
        """Whether pytest captures at the moment."""
        return self._running is not None and self._running._state == "started"


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
