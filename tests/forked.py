"""Sessions in processes of their own, forked off one that has imported what they need.

A process that begins with nothing spends most of a short session on imports.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path

import pytest

PATIENCE = 300.0  # seconds until what hangs fails; no outcome hangs on it
ROOT = Path(__file__).parents[1]
if not hasattr(os, "fork"):
    pytest.skip("processes cannot be forked here", allow_module_level=True)
FORKS = multiprocessing.get_context("forkserver")
# In the process that is forked: the path of a bare interpreter.
_PATH = [entry for entry in sys.path if entry]


class ForkedSession:
    """A session of pytest in a process of its own, with what tests use of ``Popen``."""

    def __init__(
        self,
        folder: Path,
        *arguments: str | Path,
        output: Path,
        errors: Path | None = None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        """Start it.

        Args:
            folder: where it runs.
            arguments: of pytest.
            output: the file or terminal that it writes to.
            errors: the file for its errors; None is that of its output.
            environment: of its process.
        """
        start_server()
        self._output = output
        self._process = FORKS.Process(
            target=_be_pytest,
            args=(folder, [*map(str, arguments)], output, errors or output, dict(environment)),
            daemon=True,  # ended with this process, not waited for
        )
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("pytest", timeout or 0)
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait for the end; return what was written."""
        self.wait(timeout)
        return self._output.read_text(encoding="utf-8"), ""


def run_forked(
    pytester: pytest.Pytester, *arguments: str | Path, timeout: float = PATIENCE
) -> pytest.RunResult:
    """Do what ``pytester.runpytest_subprocess`` does, without imports."""
    output, errors = pytester.path / "stdout", pytester.path / "stderr"
    begin = time.monotonic()
    session = ForkedSession(Path.cwd(), *arguments, output=output, errors=errors)
    try:
        status = session.wait(timeout)
    finally:
        session.kill()
    lines = [path.read_text(encoding="utf-8").splitlines() for path in (output, errors)]
    print(*lines[0], sep="\n")
    print(*lines[1], sep="\n", file=sys.stderr)
    return pytest.RunResult(status, *lines, time.monotonic() - begin)


def start_server() -> None:
    """Start the process that is forked, if it does not run yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        patch.delenv("PYTEST_ADDOPTS", raising=False)
        patch.chdir(ROOT)
        FORKS.set_forkserver_preload(["tests.preloaded", "tests.forked"])
        forkserver.ensure_running()


def _be_pytest(
    folder: Path, arguments: list[str], output: Path, errors: Path, environment: dict[str, str]
) -> None:
    """Make this process one that was started as ``python -m pytest``."""
    for number, path in ((1, output), (2, errors)):
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOCTTY)
        os.dup2(opened, number)
        os.close(opened)
    begin_anew(folder, environment, [str(folder)])
    sys.argv = ["pytest", *arguments]
    with ended_by_ctrl_c():
        raise SystemExit(pytest.console_main())


def begin_anew(folder: Path, environment: dict[str, str], path: list[str]) -> None:
    """Make this process one that has just begun.

    Args:
        folder: where it begins.
        environment: its variables.
        path: where it looks for modules first.
    """
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.path[:] = [*path, *environment.get("PYTHONPATH", "").split(os.pathsep), *_PATH]
    tempfile.tempdir = None
    sys.executable = environment.get("WARM_PYTHON", sys.executable)
    encoding = environment.get("PYTHONIOENCODING", "utf-8")
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.FileIO(1, "w"), encoding)
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(
        io.FileIO(2, "w"), encoding, "backslashreplace", line_buffering=True
    )


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C end this process as the interpreter lets it."""
    try:
        yield
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
        raise
