"""Beside libraries that swap clocks, clients, files or threads of the whole process."""

from __future__ import annotations

from importlib.util import find_spec
from textwrap import dedent

import pytest

LIBRARIES = (
    "freezegun", "time_machine", "responses", "requests_mock", "pyfakefs", "syrupy", "gevent",
    "eventlet", "pytest_dependency",
)  # fmt: skip
pytestmark = pytest.mark.skipif(
    not all(map(find_spec, LIBRARIES)), reason="needs what make test-plugins installs"
)
OPTIONS = ("-p", "pytest_llmeval.plugin", "-p", "no:cacheprovider")
INI = "[pytest]\nllm_model = function/model:answer\nllm_intercept = false\n"
MODEL = """
import time

SLEEP = time.sleep


def answer(prompt, draw):
    SLEEP(0.01)
    return "yes"
"""
# What each swaps while the trial asks, and how to tell that it did.
SWAPS = {
    "freezegun": "freezegun.freeze_time('2020-01-01')",
    "time_machine": "time_machine.travel('2020-01-01')",
    "responses": "responses.RequestsMock()",
    "requests_mock": "requests_mock.Mocker()",
    "pyfakefs": "pyfakefs.fake_filesystem_unittest.Patcher()",
}
LOOK = """
import datetime
import os
import requests

SEND, SEND_ALL = requests.adapters.HTTPAdapter.send, requests.Session.send
HERE = os.path.abspath(__file__)


def is_as_found():
    return (
        datetime.date.today().year > 2020
        and requests.adapters.HTTPAdapter.send is SEND
        and requests.Session.send is SEND_ALL
        and os.path.exists(HERE)
    )
"""
EVALS = """
import importlib
import pytest
from pytest_llmeval import llm_eval
from look import is_as_found


def swapped():
    importlib.import_module("{module}")
    import {library}
    return {swap}


@llm_eval(repeats=3, min_score=1)
@pytest.mark.parametrize("n", range(4))
def test_bystander(llm, n):
    assert is_as_found()
    llm.ask(f"bystander {{n}}")
    assert is_as_found()


@llm_eval(repeats=3, min_score=1)
def test_swaps(llm):
    llm.ask("before")
    with swapped():
        assert not is_as_found()
        llm.ask("swapped")
        assert not is_as_found()
    assert is_as_found()


@llm_eval(repeats=3, min_score=1)
async def test_awaits(async_llm):
    await async_llm.ask("awaits before")
    with swapped():
        assert not is_as_found()
        await async_llm.ask("awaits")
        assert not is_as_found()
    assert is_as_found()


@llm_eval(repeats=3, min_score=1)
@pytest.mark.parametrize("n", range(6))
async def test_async_bystander(async_llm, n):
    assert is_as_found()
    await async_llm.ask(f"async {{n}}")
    assert is_as_found()
    await async_llm.ask(f"async again {{n}}")
    assert is_as_found()
"""
FAKE_FILES = """
from pytest_llmeval import llm_eval


@llm_eval(repeats=2, min_score=1)
def test_fake(llm, fs):
    fs.create_file("/data/x.txt", contents="hello")
    llm.ask("a")
    assert open("/data/x.txt").read() == "hello"


@llm_eval(repeats=2, min_score=1)
def test_real(llm):
    llm.ask("b")
"""
SNAPSHOT = """
from pytest_llmeval import llm_eval


@llm_eval(repeats=2)
def test_a(llm, snapshot):
    assert llm.ask("a").text == snapshot
"""
DEPENDENT = """
import pytest
from pytest_llmeval import llm_eval


@pytest.mark.dependency()
@llm_eval(repeats=3)
def test_first(llm):
    llm.ask("a")


@pytest.mark.dependency(depends=["test_first"])
@llm_eval(repeats=3)
def test_second(llm):
    llm.ask("b")
"""
GREEN = """
from pytest_llmeval import llm_eval


@llm_eval(repeats=2, min_score=1)
def test_a(llm):
    llm.ask("a")
"""
PATCHES = {
    "gevent": "from gevent import monkey; monkey.patch_all()",
    "eventlet": "import eventlet; eventlet.monkey_patch()",
}


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    pytester.makefile(
        ".ini", pytest="[pytest]\nllm_model = function/model:answer\nllm_intercept = false\n"
    )
    pytester.makepyfile(model=MODEL, look=LOOK)
    return pytester


@pytest.mark.parametrize("library", SWAPS)
def test_what_a_library_swaps_in_a_body_no_other_trial_sees(
    project: pytest.Pytester, library: str
) -> None:
    swap = SWAPS[library]
    module = swap.partition("(")[0].rpartition(".")[0]
    evals = EVALS.format(library=library, module=module, swap=swap)
    project.makepyfile(test_evals=dedent(evals))

    result = project.runpytest_subprocess(*OPTIONS)

    result.assert_outcomes(passed=12)
    result.stdout.fnmatch_lines(["2 cases ran serially: * was changed (?)*"])


def test_the_cache_works_beside_a_fake_file_system(project: pytest.Pytester) -> None:
    project.makepyfile(test_evals=FAKE_FILES)

    for made, replayed in ((4, 0), (0, 4)):
        result = project.runpytest_subprocess(*OPTIONS, "-p", "pyfakefs.pytest_plugin")

        result.assert_outcomes(passed=2)
        result.stdout.fnmatch_lines(
            [f"*{made} calls made, {replayed} replayed*", "1 case ran serially: pyfakefs (1)"]
        )


def test_a_snapshot_that_differs_takes_no_section_away(project: pytest.Pytester) -> None:
    project.makepyfile(test_evals=SNAPSHOT)
    project.runpytest_subprocess(*OPTIONS, "-p", "syrupy", "--snapshot-update")
    project.makepyfile(model=MODEL.replace("yes", "no"))

    result = project.runpytest_subprocess(*OPTIONS, "-p", "syrupy", "--llm-cache=off")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["test_a *1 * 0*"])


def test_a_test_that_depends_on_another_is_not_skipped(project: pytest.Pytester) -> None:
    project.makepyfile(test_evals=DEPENDENT)

    result = project.runpytest_subprocess(*OPTIONS, "-p", "pytest_dependency")

    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("library", PATCHES)
def test_greenlets_run_serially(project: pytest.Pytester, library: str) -> None:
    project.makeconftest(PATCHES[library])
    project.makepyfile(test_evals=GREEN)

    result = project.runpytest_subprocess(*OPTIONS, timeout=60)

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"1 case ran serially: {library} (1)"])
