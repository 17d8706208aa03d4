"""Show how far the session is, on the terminal that pytest writes to.

Reports come in the order of collection, so pytest's own dots come late and in bursts;
this tells what goes on meanwhile: in a line below them that is redrawn, or where the
output is no terminal in a plain line now and then.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from pytest_llmeval.engine.schedule.overlap import serial_session
from pytest_llmeval.records import CaseResult, Progress

_QUIETEST = -1  # -q; nothing is shown under -qq


Wording = Callable[..., str]  # puts progress into a line of so many columns


class PlainLines:
    """Whole lines, for a log."""

    period = 30.0  # seconds from one line to the next
    width = 120

    def __init__(self, config: pytest.Config) -> None:
        self._capture: Any = config.pluginmanager.get_plugin("capturemanager")
        self._reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
        self._writer: Any = config.get_terminal_writer()

    def show(self, text: str) -> None:
        """Write the line, on a row of its own."""
        with self._without_capture():
            self._reporter.ensure_newline()
            if self._writer.width_of_current_line:  # dots under -q stand on a line of no file
                self._writer.line()
            self._writer.line(text)
            self._writer.flush()

    def close(self) -> None:
        """Leave what was written."""

    def _without_capture(self) -> AbstractContextManager[None]:
        """Write to the terminal itself: while trials run, its descriptor is captured."""
        capture = self._capture
        return capture.global_and_fixture_disabled() if capture else nullcontext()


class LiveLine(PlainLines):
    """A line below the one that pytest is writing, erased before pytest writes on.

    It is written *below* so that nothing of pytest's is ever overwritten: one row down,
    the text, one row up and back to the column. Whatever goes through pytest's writer
    erases it first, so no report, warning or traceback can meet it.
    """

    _ERASE = "\x1b[J"  # from the cursor to the end of the screen
    _REDRAW = 0.2
    _REAPPEAR = 0.05

    def __init__(self, config: pytest.Config) -> None:
        super().__init__(config)
        # What all of its output passes, and puts down what it is given: newer than pytest 8 is
        # a method beneath the one that also counts columns.
        self._passage = "write_raw" if hasattr(self._writer, "write_raw") else "write"
        self._pass_on = getattr(self._writer, self._passage)
        self._encoding: str = getattr(self._writer._file, "encoding", None) or "ascii"
        self._is_shown = False

    @property
    def period(self) -> float:  # type: ignore[override]
        """Seconds until the line is drawn again: fewer when pytest wrote, or it would flicker."""
        return self._REDRAW if self._is_shown else self._REAPPEAR

    @property
    def width(self) -> int:  # type: ignore[override]
        """All columns but the last, where some terminals break the line."""
        return int(self._writer.fullwidth) - 1

    def show(self, text: str) -> None:
        """Draw the line, over what it was before."""
        written = self._writer.width_of_current_line
        column = written % self._writer.fullwidth
        if written and not column:
            return  # at the right edge there is no telling where the cursor stands
        setattr(self._writer, self._passage, self._erase_and_write)
        back = f"\x1b[{column}C" if column else ""
        # pytest's writer would spell out the control characters beside one it cannot encode.
        text = text.encode(self._encoding, "replace").decode(self._encoding)
        self._put(f"{self._ERASE}\n\r{text}\x1b[A\r{back}")
        self._is_shown = True

    def close(self) -> None:
        """Erase the line, for good."""
        if self._is_shown:
            self._put(self._ERASE)
        setattr(self._writer, self._passage, self._pass_on)

    def _erase_and_write(self, msg: str, *, flush: bool = False, **markup: bool) -> None:
        if self._is_shown:
            self._is_shown = False
            self._writer._file.write(self._ERASE)
        self._pass_on(msg, flush=flush, **markup)

    def _put(self, text: str) -> None:
        with self._without_capture():
            self._writer._file.write(text)
            self._writer.flush()


class Estimate:
    """How long the rest takes, at the rate of the last while."""

    WINDOW = 30.0
    LEAST_SECONDS = 2.0
    LEAST_TRIALS = 5

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()

    def seconds_left(self, now: float, *, done: int, total: int) -> float | None:
        """Take in how far it is now; return seconds, None as long as they would be a guess."""
        self._seen.append((now, done))
        while len(self._seen) > 2 and now - self._seen[1][0] >= self.WINDOW:  # noqa: PLR2004
            self._seen.popleft()
        then, done_then = self._seen[0]
        seconds, trials = now - then, done - done_then
        if seconds < self.LEAST_SECONDS or trials < self.LEAST_TRIALS:
            return None
        return (total - done) * seconds / trials


class ProgressDisplay:
    """Show progress when it is time to.

    Args:
        surface: where it is shown.
        look: tells how far the session is; None as long as that is not known.
        wording: puts it into a line.
        clock: the time in seconds.
    """

    def __init__(
        self,
        surface: PlainLines,
        *,
        look: Callable[[], Progress | None],
        wording: Wording,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.surface = surface
        self._look = look
        self._wording = wording
        self._clock = clock
        self._estimate = Estimate()
        self._last = clock()

    def show_if_due(self) -> float:
        """Show how far it is, unless that was done a moment ago; called often.

        Returns:
            Seconds after which it wants to be called again.
        """
        now = self._clock()
        is_due = now - self._last >= self.surface.period
        progress = self._look() if is_due else None
        if is_due:
            self._last = now
        if progress is not None:
            left = self._estimate.seconds_left(now, done=progress.done, total=progress.total)
            line = self._wording(replace(progress, seconds_left=left), width=self.surface.width)
            self.surface.show(line)
        return self.surface.period

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Generator[None, object, object]:
        """Take the line away before the summary."""
        try:
            return (yield)
        finally:
            self.surface.close()


class WorkersProgress:
    """How far the workers of xdist are, as far as their reports tell."""

    def __init__(self) -> None:
        self.show: Callable[[], object] = nothing_to_show
        self._total = 0
        self._counts: dict[str, tuple[int, int, int]] = {}

    def look(self) -> Progress | None:
        """Sum up what was reported."""
        if not self._total:
            return None
        done, made, replayed = map(sum, zip(*self._counts.values(), strict=True))
        return Progress(done=done, total=self._total, made=made, replayed=replayed)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_logreport(
        self, report: pytest.TestReport
    ) -> Generator[None, object, object]:
        """Take in what came from a worker, and show it when pytest has written its dot."""
        self.take(report)
        result = yield
        self.show()
        return result

    def take(self, report: pytest.TestReport) -> None:
        """Count what rides on a report."""
        result: CaseResult | None = getattr(report, "llm_eval", None)
        if result is not None:
            calls = [call for trial in result.trials for call in trial.calls]
            replayed = sum(call.replayed for call in calls)
            made = sum(call.was_paid for call in calls)
            self._counts[result.case] = len(result.trials), made, replayed
            self._total = result.total or self._total


def nothing_to_show() -> float:
    """Show nothing, as the session has no output for it."""
    return inf


def show_progress(
    config: pytest.Config, *, look: Callable[[], Progress | None], wording: Wording
) -> Callable[[], float]:
    """Make what shows progress, when it is time to, as it fits the output of this session.

    Returns:
        A function to call often; it returns the seconds after which it wants to be called again.
    """
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or config.get_verbosity() < _QUIETEST:
        return nothing_to_show
    surface = LiveLine(config) if _has_screen(config, reporter) else PlainLines(config)
    display = ProgressDisplay(surface, look=look, wording=wording)
    config.pluginmanager.register(display, "llmeval-progress-display")
    return display.show_if_due


def follow_workers(config: pytest.Config, *, wording: Wording) -> None:
    """Show in the controller how far the workers are."""
    if not config.pluginmanager.has_plugin("llmeval-progress"):
        workers = WorkersProgress()
        config.pluginmanager.register(workers, "llmeval-progress")
        workers.show = show_progress(config, look=workers.look, wording=wording)


def _has_screen(config: pytest.Config, reporter: Any) -> bool:
    """Whether the output is a terminal on which nobody but pytest's own reporter writes."""
    is_terminal = bool(reporter.isatty) and os.environ.get("TERM") != "dumb"
    is_ours = type(reporter) is pytest.TerminalReporter and not serial_session(config)
    return is_terminal and is_ours and config.getoption("capture", "fd") != "tee-sys"
