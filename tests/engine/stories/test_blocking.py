"""Trials that block without telling: they count once, and run beside one another."""

from __future__ import annotations

import pytest

from tests.forked import run_forked

INI = "[pytest]\nllm_model = function/app:answer\npythonpath = .\n"
APP = """
import threading

MODE = "real"
LOCK = threading.Lock()
BEGUN, BLOCKED = threading.Event(), threading.Event()


def answer(messages):
    if messages[-1]["content"] == "when the other one is blocked":
        BLOCKED.wait(300)
    return "yes"
"""
HEAD = """
import os, random, threading, time
import pytest
import app
from pytest_llmeval import llm_eval

def note(line):
    with open("bodies.log", "a") as log: log.write(line + "\\n")
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(INI)
    pytester.makepyfile(app=APP)
    return pytester


def bodies(project: pytest.Pytester) -> list[str]:
    return (project.path / "bodies.log").read_text().split("\n")[:-1]


@pytest.mark.parametrize("patches", ["", "monkeypatch.setenv('LANG', 'de')"], ids=["", "patches"])
@pytest.mark.parametrize("asks", ["", "llm.ask(f'{n}')"], ids=["unseen", "seen"])
def test_a_trial_that_blocks_and_misses_counts_once(
    project: pytest.Pytester, patches: str, asks: str
) -> None:
    project.makepyfile(
        test_it=HEAD
        + f"""
@llm_eval(repeats=2)
@pytest.mark.parametrize("n", range(2))
def test_it(llm, monkeypatch, n):
    note("body")
    {patches}
    {asks}
    time.sleep(0.6)
    assert False
"""
    )

    result = run_forked(project, "-p", "no:cacheprovider")

    assert len(bodies(project)) == 4
    result.stdout.fnmatch_lines(["test_it * 2 * 0 *"])


@pytest.mark.parametrize("place", ["body", "fixture", "after a call", "polling"])
def test_trials_of_a_function_that_blocks_run_at_once(project: pytest.Pytester, place: str) -> None:
    project.makepyfile(
        test_it=HEAD
        + f"""
ALL = threading.Barrier(3)

def block(index):
    # The first is detached, as all others would wait for it; those meet at the barrier.
    if index == 0:
        while not app.BEGUN.wait(0.05 if "{place}" == "polling" else 30):
            pass
    else:
        app.BEGUN.set()
        ALL.wait(300)
    print(f"met {{index}}")

INDICES = iter(range(4))

@pytest.fixture
def blocking(llm):
    index = next(INDICES)
    if "{place}" == "fixture":
        block(index)
    return index

@llm_eval(repeats=4)
def test_it(llm, blocking):
    if "{place}" == "after a call":
        llm.ask("first")
    if "{place}" != "fixture":
        block(blocking)
    assert llm.ask("later").text == "no"
"""
    )

    result = run_forked(project, "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(
        ["test_it *1 * 0*", "note: *waited for something that is no model*"]
    )
    assert "BrokenBarrier" not in str(result.stdout)


def test_what_a_trial_prints_without_the_baton_is_its_own(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it=HEAD
        + """
@llm_eval(repeats=1, min_score=1)
def test_blocking(llm):
    assert app.BEGUN.wait(300)
    print("printed beside another one")
    app.BLOCKED.set()
    assert False

@llm_eval(repeats=1, min_score=1)
def test_other(llm):
    app.BEGUN.set()
    assert app.BLOCKED.wait(300)
    print("printed in turn")
    assert False
"""
    )

    result = run_forked(project, "-p", "no:cacheprovider")

    first, _, second = str(result.stdout).partition("_ test_other _")
    assert "printed beside another one" in first
    assert "printed in turn" not in first
    assert "printed beside another one" not in second.partition("short test summary")[0]


def test_what_a_trial_patches_is_not_seen_by_those_that_run_beside_it(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        test_it=HEAD
        + """
@llm_eval(repeats=1, min_score=1)
def test_blocking():
    assert app.BEGUN.wait(300)
    seen = {app.MODE for _ in range(100_000)}
    assert seen == {"real"}

@llm_eval(repeats=2, min_score=1)
def test_patching():
    app.BEGUN.set()  # whoever patches waits for those that run without the baton
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(app, "MODE", "patched")
        assert {app.MODE for _ in range(100_000)} == {"patched"}
"""
    )

    run_forked(project, "-p", "no:cacheprovider").assert_outcomes(passed=2)


@pytest.mark.parametrize(
    ("ends", "asks", "cache", "count"),
    [
        ("pass", "llm.ask('now')", "auto", 4),
        ("assert False", "llm.ask('now')", "auto", 4),
        # Other draws would be a second chance, and so would another toss.
        ("assert False", "llm.ask('now')", "off", 2),
        ("assert random.random() > 1", "", "auto", 2),
    ],
)
def test_a_case_that_ran_without_its_patches_runs_again_whatever_its_outcome(
    project: pytest.Pytester, ends: str, asks: str, cache: str, count: int
) -> None:
    project.makeconftest(
        """
        from pytest_llmeval.engine.trial import trial
        trial.LONGEST_BLOCK = 0.3
        """
    )
    project.makepyfile(
        test_it=HEAD
        + f"""
@llm_eval(repeats=1)
def test_holding(llm):
    with app.LOCK:
        llm.ask("when the other one is blocked")

@llm_eval(repeats=2)
def test_patching(llm, monkeypatch):
    note("body")
    {asks}
    monkeypatch.setenv("LANG", "de")
    app.BLOCKED.set()
    with app.LOCK:
        note(os.environ.get("LANG", "none"))
    {ends}
"""
    )

    result = run_forked(project, "-p", "no:cacheprovider", f"--llm-cache={cache}")

    assert bodies(project)[-4:] == ["body", "de"] * 2 or count == 2
    assert bodies(project).count("body") == count
    result.stdout.fnmatch_lines(["1 case ran serially: a trial blocked without what it patched*"])


@pytest.mark.parametrize(
    ("change", "read"),
    [
        ("os.environ['OWN'] = str(n)", "os.environ.get('OWN') == str(n)"),
        ("os.environ.pop('OF_ALL')", "'OF_ALL' not in os.environ"),
        ("os.chdir(path=tmp_path)", "os.getcwd() == str(tmp_path)"),
        ("random.seed(n)", "random.getstate() == random.Random(n).getstate()"),
        ("logging.getLogger('lib').setLevel(n)", "logging.getLogger('lib').level == n"),
        ("stack.enter_context(redirect_stdout(io.StringIO()))", "type(sys.stdout) is io.StringIO"),
        ("told = stack.enter_context(pytest.warns()); warnings.warn(f'{n}')", "len(told) == 1"),
    ],
)
def test_what_a_trial_changes_after_it_blocked_is_its_own(
    project: pytest.Pytester, change: str, read: str
) -> None:
    """The trials behind the first one are beside one another when they change something."""
    project.makepyfile(
        test_it=HEAD
        + f"""
import io, logging, sys, warnings
from contextlib import ExitStack, redirect_stdout

os.environ["OF_ALL"] = "yes"
MEETING = threading.Barrier(3)
INDICES = iter(range(1, 5))

@llm_eval(repeats=4)
def test_it(llm, tmp_path):
    home = os.getcwd()
    n = next(INDICES)
    if n == 1:
        assert app.BEGUN.wait(300)
    else:
        app.BEGUN.set()
        MEETING.wait(300)
    with ExitStack() as stack:
        {change}
        time.sleep(0.01)  # who runs beside it has the time to change it, too
        is_own = {read}
        llm.ask("others have their turn")
        is_still_own = {read}
    os.chdir(home)
    note(f"{{is_own and is_still_own}}")
"""
    )

    run_forked(project, "-p", "no:cacheprovider", "-W", "ignore")

    assert bodies(project) == ["True"] * 4


def test_none_runs_with_what_another_patched_when_it_goes_on_by_itself(
    project: pytest.Pytester,
) -> None:
    project.makepyfile(
        test_it=HEAD
        + """
@llm_eval(repeats=1)
def test_patching(llm, monkeypatch):
    monkeypatch.setattr(app, "MODE", "patched")
    llm.ask("when the other one is blocked")
    end = time.monotonic() + 0.2
    while time.monotonic() < end:  # has its turn, and is not blocked
        time.sleep(0.01)

INDICES = iter(range(8))

@llm_eval(repeats=8)
def test_blocking():
    n = next(INDICES)
    if n == 1:
        app.BLOCKED.set()
    time.sleep(0.4)
    modes = set()
    for _ in range(20):
        modes.add(app.MODE)
        time.sleep(0.01)
    note(f"{modes}")
"""
    )

    run_forked(project, "-p", "no:cacheprovider")

    assert bodies(project) == ["{'real'}"] * 8
