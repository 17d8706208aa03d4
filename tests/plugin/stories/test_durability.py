"""Nothing that was paid for is lost, whatever becomes of the session or of its disk."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_llmeval.cache.reply import decode
from tests.forked import ForkedSession
from tests.project import Project
from tests.warm_python import PYTHON

MODEL = """
import os
import random
import time
from pathlib import Path

CALLS = os.open(Path(__file__).with_name("calls.log"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def answer(messages, *, draw):
    name = f"{messages[-1]['content']}/{draw.trial}"
    os.write(CALLS, f"{name}\\n".encode())
    time.sleep(0.005)
    return f"{name} {random.Random(name).randbytes(FILLING).hex()}"
"""

EVALS = """
import os
import pytest
from pytest_llmeval import llm_eval

SEEN = os.open("seen.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@pytest.mark.parametrize("case", range(CASES))
@llm_eval(repeats=10)
def test_it(llm, case):
    reply = llm.ask(f"{case}").text
    os.write(SEEN, reply.partition(" ")[0].encode() + b"\\n")
    assert reply.startswith(f"{case}/")
"""

# A file may not grow beyond so many bytes, as if the disk were full.
ON_A_FULL_DISK = """
import resource, sys, pytest
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
sys.exit(pytest.main(sys.argv[1:]))
"""

Session = ForkedSession | subprocess.Popen[str]
Start = Callable[..., Session]
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist")


@pytest.fixture
def start(pytester: pytest.Pytester) -> Iterator[Start]:
    """Write the evals, and start sessions of them."""
    started: list[Session] = []

    def run(*, cases: int, filling: int = 0, script: str = "", **more: object) -> Session:
        (pytester.path / "model.py").write_text(MODEL.replace("FILLING", str(filling)))
        (pytester.path / "test_it.py").write_text(EVALS.replace("CASES", str(cases)))
        pytester.makeini("[pytest]\nllm_model = function/model:answer\npythonpath = .\n")
        if not script and not more:
            output = pytester.path / f"output{len(started)}.txt"
            started.append(ForkedSession(pytester.path, *OPTIONS, output=output))
            return started[-1]
        command = ["-c", script] if script else ["-m", "pytest"]
        started.append(
            subprocess.Popen(
                [PYTHON, "-B", *command, *OPTIONS],
                cwd=pytester.path, stdout=subprocess.PIPE, text=True, **more,
            )  # type: ignore[call-overload]
        )  # fmt: skip
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()
        if isinstance(process, subprocess.Popen) and process.stdout is not None:
            process.stdout.close()


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def taken(path: Path) -> list[str]:
    """Read the lines of a log and begin a new one."""
    found = lines(path)
    os.truncate(path, 0)
    return found


def stored(folder: Path) -> set[str]:
    """Read which draws lie in the cache, by the names that the model gave them."""
    database = folder / ".llmeval" / "cache" / "cache.db"
    if not database.exists():
        return set()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        sql = "SELECT value FROM Cache WHERE key LIKE '%/%/%/%'"
        rows = connection.execute(sql).fetchall()
    texts = [json.loads(decode(value).body)["text"] for (value,) in rows]
    names = [text.partition(" ")[0] for text in texts]
    assert len(names) == len(set(names))
    return set(names)


def draws(cases: int) -> list[str]:
    return sorted(f"{case}/{trial}" for case in range(cases) for trial in range(10))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_after_a_kill_the_next_run_makes_exactly_the_missing_calls(
    pytester: pytest.Pytester, start: Start
) -> None:
    cases, kills = 40, 5
    chance = random.Random(20)  # noqa: S311 - a test
    calls = pytester.path / "calls.log"
    known: set[str] = set()
    for _ in range(kills):
        process = start(cases=cases)
        enough = chance.randrange(1, 40)
        while len(lines(calls)) < enough and process.poll() is None:
            time.sleep(0.005)
        time.sleep(chance.random() * 0.01)
        process.kill()
        process.communicate()
        made = taken(calls)
        assert known.isdisjoint(made)
        assert len(made) == len(set(made))
        now = stored(pytester.path)
        assert known | set(taken(pytester.path / "seen.log")) <= now <= known | set(made)
        known = now

    output, _ = start(cases=cases).communicate()
    assert f"{cases} passed" in output
    assert sorted(known | set(made := taken(calls))) == draws(cases)
    assert len(made) == 10 * cases - len(known)
    assert not (pytester.path / ".llmeval" / "flights.lock").exists()


def test_two_sessions_on_one_cache_lose_and_pay_twice_for_nothing(
    pytester: pytest.Pytester, start: Start
) -> None:
    cases = 20
    outputs = [process.communicate()[0] for process in [start(cases=cases), start(cases=cases)]]
    calls = pytester.path / "calls.log"
    assert all(f"{cases} passed" in output for output in outputs)
    assert sorted(taken(calls)) == draws(cases)
    assert sorted(stored(pytester.path)) == draws(cases)
    assert set(Counter(lines(pytester.path / "seen.log")).values()) == {2}

    output, _ = start(cases=cases).communicate()
    assert "0 calls made, 200 replayed" in output
    assert taken(calls) == []


@pytest.mark.skipif(os.name != "posix", reason="there are no such limits")
def test_on_a_full_disk_tests_get_their_replies_and_one_message_says_what_to_do(
    pytester: pytest.Pytester, start: Start
) -> None:
    cases = 20
    output, _ = start(cases=cases, filling=2000, script=ON_A_FULL_DISK).communicate()
    calls = pytester.path / "calls.log"
    assert f"{cases} passed" in output
    assert output.count("make room there") == 1
    assert sorted(taken(calls)) == draws(cases)
    kept = stored(pytester.path)
    assert 0 < len(kept) < 10 * cases

    output, _ = start(cases=cases, filling=2000).communicate()
    assert f"{cases} passed" in output
    assert kept.isdisjoint(made := taken(calls))
    assert sorted(kept | set(made)) == draws(cases)


def obey_modes() -> None:
    """Have the program that is started next, if it is root's, heed the modes of files."""
    if os.geteuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


@pytest.mark.skipif(sys.platform != "linux", reason="root may write anywhere")
def test_in_a_read_only_directory_nothing_is_paid_for_and_what_is_stored_is_replayed(
    pytester: pytest.Pytester, start: Start
) -> None:
    start(cases=2).communicate()
    calls, home = pytester.path / "calls.log", pytester.path / ".llmeval"
    assert sorted(taken(calls)) == draws(2)
    before = (home / "cache" / "cache.db").read_bytes()
    folders = [home, *(path for path in home.rglob("*") if path.is_dir())]
    replay = {**os.environ, "PYTEST_ADDOPTS": "--llm-cache=replay"}
    for folder in folders:
        folder.chmod(0o500)
    try:
        paid = start(cases=3, preexec_fn=obey_modes, stderr=subprocess.STDOUT)
        refused, _ = paid.communicate()
        replayed, _ = start(cases=2, preexec_fn=obey_modes, env=replay).communicate()
    finally:
        for folder in folders:
            folder.chmod(0o700)

    assert paid.returncode == pytest.ExitCode.USAGE_ERROR
    assert ".llmeval cannot be written: " in refused
    assert "is read-only" in refused
    assert "2 passed" in replayed
    assert taken(calls) == []
    assert (home / "cache" / "cache.db").read_bytes() == before


@pytest.mark.parametrize(("mode", "is_told"), [("auto", True), ("off", False)])
def test_a_disk_without_locks_is_told_before_the_first_call(
    project: Project, monkeypatch: pytest.MonkeyPatch, mode: str, is_told: bool
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.lockf", refuse)

    result = project.run("--llm-repeats=1", f"--llm-cache={mode}")

    told = "llm evals: *no file can be locked in *(No locks available)*--llm-dir*"
    begun = "test_evals.py *"
    if is_told:
        result.stdout.fnmatch_lines([told, begun])
    else:
        result.stdout.no_fnmatch_line("*can be locked*")
    assert project.calls() == 20
