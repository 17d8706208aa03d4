"""Beside the plugins that people have installed: `make test-plugins`."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.correctness.outcomes import Outcomes, run_suite

PLUGINS = {
    "pytest_timeout": ("--timeout=60",),
    "pytest_rerunfailures": (),
    "pytest_cov.plugin": ("--cov=.", "--cov-report="),
    "pytest_mock": (),
    "pytest_asyncio.plugin": ("--asyncio-mode=auto",),
    "anyio.pytest_plugin": (),
    "xdist.plugin": ("-n", "2", "--dist=loadfile"),
}
NEEDED = ("pytest_timeout", "pytest_cov", "pytest_mock", "pytest_asyncio", "pytest_randomly")

pytestmark = pytest.mark.skipif(
    not all(map(find_spec, NEEDED)), reason="needs the plugins that make test-plugins installs"
)

EVALS = """
import asyncio
import time
import pytest
from pytest_llmeval import llm_eval

@pytest.mark.parametrize("n", ["a", "b", "c"])
@llm_eval(repeats=3)
def test_it(llm, n):
    llm.ask(n)
    {body}
    print("reached")

def test_ordinary():
    pass
"""
MODEL = """
import time

def answer(messages):
    with open("calls.log", "a") as log:
        log.write("x")
    time.sleep(0.05)
    return "yes"
"""
INI = """
[pytest]
llm_model = function/model:answer
pythonpath = .
filterwarnings = error
asyncio_default_fixture_loop_scope = function
"""


def outcomes(found: Outcomes) -> dict[tuple[str, str], object]:
    return {key: (r["outcome"], r.get("llm_eval")) for key, r in found.reports.items()}


def evals(pytester: pytest.Pytester, body: str = "pass") -> None:
    pytester.makepyfile(model=MODEL, test_it=EVALS.replace("{body}", body))
    pytester.makeini(INI)


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    """The suite without any other plugin."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        folder = tmp_path_factory.mktemp("alone") / "suite"
        return run_suite(
            folder, "-p", "pytest_llmeval.plugin", "--llm-concurrency=1", overlaps=False
        )


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_suite_ends_alike_beside(
    alone: Outcomes,
    plugin: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    folder = tmp_path_factory.mktemp("beside") / "suite"

    beside = run_suite(
        folder, "-p", "pytest_llmeval.plugin", "-p", plugin, *PLUGINS[plugin], overlaps=True
    )

    assert outcomes(beside) == outcomes(alone)
    assert beside.met["missed"] == set()


def test_the_suite_ends_alike_beside_all_of_them(
    alone: Outcomes, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("all") / "suite"

    beside = run_suite(folder, "--timeout=60", "--cov=.", "--cov-report=", overlaps=True)

    assert outcomes(beside) == outcomes(alone)


def test_a_trial_that_takes_too_long_fails_its_case_alone(pytester: pytest.Pytester) -> None:
    evals(pytester, "n == 'b' and time.sleep(30)")

    result = pytester.runpytest_subprocess(
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--timeout=2",
        "--timeout-method=signal",
        timeout=300,
    )

    result.assert_outcomes(passed=3, failed=1)
    result.stdout.fnmatch_lines(["*Timeout*"])


def test_the_thread_method_ends_the_process_as_ever(pytester: pytest.Pytester) -> None:
    evals(pytester, "time.sleep(30)")

    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--timeout=1", "--timeout-method=thread", timeout=300
    )

    assert result.ret == 1


def test_every_line_after_a_call_is_covered(pytester: pytest.Pytester) -> None:
    evals(pytester)

    result = pytester.runpytest_subprocess(
        "-p", "no:cacheprovider", "--cov=test_it", "--cov-report=term-missing", timeout=300
    )

    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["test_it.py * 0 * 100%"])


@pytest.mark.parametrize("seed", [1, 2])
def test_any_order_will_do(pytester: pytest.Pytester, seed: int) -> None:
    evals(pytester)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", f"--randomly-seed={seed}")

    result.assert_outcomes(passed=4)


def test_reruns_replay_the_same_draws(pytester: pytest.Pytester) -> None:
    evals(pytester, "raise OSError")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--reruns=1")

    result.assert_outcomes(failed=3, passed=1)
    result.stdout.fnmatch_lines(["*9 calls made, 0 replayed*", "*3 rerun*"])
    assert (pytester.path / "calls.log").read_text() == 9 * "x"


def test_a_shared_patcher_makes_a_case_exclusive(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        model=MODEL,
        test_it="""
        import os
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=4)
        def test_it(llm, mocker):
            mocker.patch("os.getpid", return_value=-1)
            llm.ask("mocked")
            assert os.getpid() == -1

        def test_ordinary():
            assert os.getpid() > 0
        """,
    )
    pytester.makeini(INI)

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["1 case* ran serially: mocker (1)"])


@pytest.mark.usefixtures("anyio_plugin")
@pytest.mark.parametrize("mark", ["asyncio", "anyio"])
def test_ordinary_async_tests_run_between_evals(pytester: pytest.Pytester, mark: str) -> None:
    evals(pytester)
    pytester.makepyfile(
        test_async=f"""
        import asyncio
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.fixture
        def anyio_backend():
            return "asyncio"

        @llm_eval(repeats=3)
        def test_before(llm):
            llm.ask("before")

        @pytest.mark.{mark}
        async def test_async():
            await asyncio.sleep(0.01)

        @llm_eval(repeats=3)
        def test_after(llm):
            llm.ask("after")
        """
    )

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=7)
