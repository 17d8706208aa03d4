"""Tests say what they need of an operating system."""

from __future__ import annotations

import ast
import os
import sys
from pathlib import Path

import pytest

from tests.platforms import NEEDED, needs, obstacle
from tests.warm_python import PYTHON

ROOT = Path(__file__).parents[1]
NOT_EVERYWHERE = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "termios", "tty"}


TESTS = """
import os, pytest

def end():
    os.killpg(0, 0)

@pytest.fixture
def pipe(): os.mkfifo

def test_inner():
    def inner(): os.fork()

def test_helper(): end()
def test_fixture(pipe): pass
def test_nothing(pytester, tmp_path): os.getcwd()
"""


def test_what_is_lacking_is_found_in_what_a_test_uses(pytester: pytest.Pytester) -> None:
    lacking = [(what, False, reason) for what, _, reason in NEEDED]
    items, _ = pytester.inline_genitems(pytester.makepyfile(TESTS), "-p", "pytester")

    found = {item.name: obstacle(item, lacking) for item in items}

    assert found == {
        "test_inner": "processes cannot be forked here",
        "test_helper": "there are no such signals here",
        "test_fixture": "there are no named pipes here",
        "test_nothing": None,
    }


@pytest.mark.skipif(sys.platform != "linux", reason="about Linux")
def test_nothing_is_lacking_on_linux() -> None:
    assert [reason for _, is_here, reason in NEEDED if not is_here] == []


def test_a_test_that_cannot_run_is_skipped_with_its_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makeconftest("from tests.conftest import pytest_collection_modifyitems")
    pytester.makepyfile("import os\ndef test_pipe(): os.mkfifo\ndef test_other(): pass")
    lacking = [(("mkfifo",), False, "there are no named pipes here")]
    monkeypatch.setattr("tests.platforms.obstacle.__defaults__", (lacking,))

    result = pytester.runpytest("-rs")

    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*there are no named pipes here"])


def test_a_module_that_is_not_there_skips_the_tests() -> None:
    with pytest.raises(pytest.skip.Exception, match="no locks here: no module no_such_module"):
        needs("no_such_module", "there are no locks")
    assert needs("os", "there is nothing") is os


def test_modules_that_not_every_system_has_are_imported_by_needs() -> None:
    unguarded = {}
    for path in ROOT.rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        plain = {one.name for node in body if isinstance(node, ast.Import) for one in node.names}
        named = {node.module for node in body if isinstance(node, ast.ImportFrom)}
        unguarded[path] = (plain | named) & NOT_EVERYWHERE

    assert {path for path, names in unguarded.items() if names} == set()


LIKE_WINDOWS = """
import os, signal, sys, time
import pytest
sys.modules.update(dict.fromkeys(["fcntl", "grp", "pwd", "resource", "termios"]))
for module, names in {
    time: ["clock_gettime", "pthread_getcpuclockid", "tzset"],
    os: ["fork", "killpg", "fchmod", "fchown", "mkfifo", "O_NOFOLLOW"],
    signal: ["SIGKILL", "SIGHUP", "setitimer", "pthread_sigmask"],
}.items():
    for name in names:
        delattr(module, name)
sys.exit(pytest.main(["-q", *sys.argv[1:]]))
"""

EVALS = """
import asyncio, time
from pytest_llmeval import llm_eval, waiting

def answer(messages, *, draw, **params):
    return "yes"

@llm_eval(repeats=3)
def test_blocks(llm):
    time.sleep(0.3)
    assert waiting(llm.ask, "Say yes").text == "yes"

@llm_eval(repeats=3)
async def test_awaits(async_llm):
    await asyncio.sleep(0)
    assert (await async_llm.ask("Say it")).text == "yes"
"""


def test_a_session_needs_no_name_that_windows_lacks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_evals=EVALS)
    pytester.makeini("[pytest]\npythonpath = .\nllm_model = function/test_evals:answer")
    script = pytester.path / "like_windows.py"
    script.write_text(LIKE_WINDOWS, encoding="utf-8")

    recorded = pytester.run(PYTHON, script)
    compared = pytester.run(PYTHON, script, "--llm-baseline=last")

    assert (recorded.ret, compared.ret) == (0, 0)
    recorded.stdout.fnmatch_lines(["*6 calls made*"])
    compared.stdout.fnmatch_lines(["*0 calls made, 6 replayed*"])
