"""A process that runs in the foreground of this one, and is interrupted with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

PATIENCE = 3  # how often Ctrl-C is passed on before the process is killed
_ENDING = ("SIGTERM", "SIGHUP")


class Terminated(BaseException):
    """This process was told to end."""


def run_child(command: Sequence[str], *, folder: Path, environ: Mapping[str, str]) -> int:
    """Run a process to its end; it writes where this one writes.

    It is in a group of its own: Ctrl-C at the terminal comes here alone and is passed on once,
    as it is where this process alone is interrupted.

    Returns:
        Its exit code.

    Raises:
        KeyboardInterrupt: this process was interrupted; the other one has ended.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    process = subprocess.Popen(  # noqa: S603 - this very interpreter, and no shell
        command, cwd=folder, env=environ, stdin=subprocess.DEVNULL, start_new_session=True
    )
    try:
        return process.wait()
    except KeyboardInterrupt:
        _interrupt(process)
        raise
    finally:
        if process.poll() is None:
            _signal(process, signal.SIGKILL)
            process.wait()


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a process, and wait until it has recorded what it has; again at each Ctrl-C."""
    for _ in range(PATIENCE):
        _signal(process, signal.SIGINT)
        with suppress(KeyboardInterrupt):
            process.wait()
            return


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextmanager
def ended_in_order() -> Iterator[None]:
    """Let what is done here be tidied up before a signal ends this process."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    known = [getattr(signal, name) for name in _ENDING if hasattr(signal, name)]
    ending = [number for number in known if signal.getsignal(number) is signal.SIG_DFL]
    received: list[int] = []

    def end(number: int, _frame: FrameType | None) -> None:
        received.append(number)
        raise Terminated

    for number in ending:
        signal.signal(number, end)
    try:
        with suppress(Terminated):
            yield
    finally:
        for number in ending:
            signal.signal(number, signal.SIG_DFL)
        if received:
            os.kill(os.getpid(), received[0])
