"""The warm Python of tests ends, is told things and is killed as Python is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.warm_python import warm_python

if not hasattr(os, "pidfd_open"):
    pytest.skip("processes cannot be awaited here", allow_module_level=True)


def run(*arguments: str, given: str = "") -> tuple[int, str, str]:
    done = subprocess.run(
        [warm_python(), *arguments], input=given, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("print(input() + '!')", 0, "hello!\n"),
        ("raise SystemExit(3)", 3, ""),
        ("import os; os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
        ("import os; os.kill(os.getpid(), 15)", -signal.SIGTERM, ""),
        ("raise KeyboardInterrupt", -signal.SIGINT, ""),
    ],
)
def test_it_ends_as_what_it_runs(code: str, status: int, output: str) -> None:
    assert run("-u", "-c", code, given="hello\n")[:2] == (status, output)


def test_an_error_is_shown_and_ends_it_with_1() -> None:
    status, _, errors = run("-c", "import sys\nraise ValueError(sys.argv)", "one")
    assert (status, errors.splitlines()[-1]) == (1, "ValueError: ['-c', 'one']")


def test_a_file_is_run_with_its_folder_first(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import sys; print(sys.path[0], sys.argv[1:], __name__)")
    expected = f"{tmp_path} ['one'] __main__\n"
    assert run(str(script), "one")[:2] == (0, expected)


def test_what_it_does_not_know_is_run_by_python() -> None:
    assert run("-E", "-c", "import sys; print(sys.executable)")[:2] == (0, f"{sys.executable}\n")


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="it is Python itself")
@pytest.mark.parametrize(
    ("sent", "status"), [(signal.SIGINT, 7), (signal.SIGTERM, -signal.SIGTERM)]
)
def test_signals_reach_it(sent: signal.Signals, status: int, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import time\ntry:\n    print('ready', flush=True)\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    raise SystemExit(7)"
    )
    with subprocess.Popen(
        [warm_python(), "-m", "script"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(sent)
        assert process.wait(300) == status


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="it is Python itself")
def test_to_kill_it_kills_what_it_runs() -> None:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    with subprocess.Popen([warm_python(), "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
        # Its output ends when the last process is gone that could write to it.
        assert process.stdout.read() == b""
