"""Plugins that run a test again replay its draws, and its first attempt counts."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, ("flaky", "pytest_retry", "pytest_rerunfailures"))),
    reason="needs the plugins that make test-plugins installs",
)

# Two of them in one session run a test again twice over.
AGAIN = {
    "flaky.flaky_pytest_plugin": ("--force-flaky",),
    "pytest_retry.retry_plugin": ("--retries=1",),
    "pytest_rerunfailures": ("--reruns=1",),
}
EVALS = """
import pytest
from pytest_llmeval import llm_eval

ASKED = []


def answer(messages):
    with open("calls.log", "a") as log:
        log.write("x")
    return "yes"


@llm_eval(repeats=3)
def test_before(llm):
    llm.ask("before")


@llm_eval(repeats=3, min_score=1)
def test_once(llm):
    ASKED.append(llm.ask("once").text)
    assert len(ASKED) > 3


@pytest.mark.parametrize("n", ["a", "b"])
@llm_eval(repeats=3)
def test_never(llm, n):
    llm.ask(n)
    raise OSError


def test_ordinary():
    pass
"""


@pytest.mark.parametrize("plugin", AGAIN)
@pytest.mark.parametrize("workers", [(), ("-p", "xdist", "-n2")], ids=["alone", "workers"])
def test_an_eval_that_is_run_again_replays_its_draws(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    plugin: str,
    workers: tuple[str, ...],
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makepyfile(test_it=EVALS)
    pytester.makeini("[pytest]\nllm_model = function/test_it:answer\npythonpath = .")
    loaded = ("-p", "pytest_llmeval.plugin", "-p", plugin, "-p", "no:cacheprovider", *workers)

    first = pytester.runpytest_subprocess(*loaded, *AGAIN[plugin], timeout=300)
    second = pytester.runpytest_subprocess(
        *loaded, *AGAIN[plugin], "--llm-baseline=last", timeout=300
    )

    assert (pytester.path / "calls.log").read_text() == 12 * "x"
    for result in (first, second):
        found = result.parseoutcomes()
        assert (found["passed"], found["failed"]) == (3, 2)
        assert "INTERNALERROR" not in str(result.stdout) + str(result.stderr)
    first.stdout.fnmatch_lines(["test_once *1 * 0*", "*12 calls made, 0 replayed*"])
    first.stdout.fnmatch_lines(["note: cases were run again by another plugin*"])
    first.stdout.no_fnmatch_line("*attempts sent*")
    second.stdout.fnmatch_lines(["*0 calls made, 12 replayed*"])
