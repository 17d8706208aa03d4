"""Trials that patch overlap, and each finds what it patched and no more."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.engine.isolation.patching import APP, INI, MODEL, SUITE
from tests.forked import run_forked

CASES = 66


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(slow=MODEL, app=APP)
    pytester.makeini(INI)
    return pytester


MODES = {
    "overlapping": (),
    "inline": ("--llm-concurrency=1",),
    "three": ("--llm-concurrency=3",),
    "captured-by-sys": ("--capture=sys",),
}


@pytest.mark.parametrize("mode", MODES.values(), ids=MODES)
def test_the_suite_passes_in_every_mode(project: pytest.Pytester, mode: tuple[str, ...]) -> None:
    project.makepyfile(test_suite=SUITE)

    result = project.runpytest("-p", "no:cacheprovider", "-v", *mode)

    result.assert_outcomes(passed=CASES + 1)
    assert str(result.stdout).count("4/4 passed") == CASES


def test_patching_makes_no_case_serial(project: pytest.Pytester) -> None:
    project.makepyfile(test_suite=SUITE)

    result = project.runpytest("-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["3 cases ran serially: monkeypatch of os (3)"])


def passed(project: pytest.Pytester, test: str, *arguments: str) -> pytest.RunResult:
    """Run a test file that must pass; return what it printed."""
    project.makepyfile(test_it=PRELUDE + dedent(test))
    result = project.runpytest("-p", "no:cacheprovider", "-v", *arguments)
    assert result.ret == 0, str(result.stdout)
    return result


PRELUDE = """
import logging, os, pathlib, sys, time
import app, pytest
from pytest_llmeval import llm_eval, waiting

PARAMS = pytest.mark.parametrize("n", range(3))
"""


def test_what_a_wider_fixture_patches_stays_and_is_undone_at_its_end(
    project: pytest.Pytester,
) -> None:
    passed(
        project,
        """
        @pytest.fixture(scope="module")
        def wide(tmp_path_factory):
            with pytest.MonkeyPatch.context() as patcher:
                patcher.setattr(app, "MODE", "wide")
                patcher.setenv("LLMEVAL_WIDE", "set")
                patcher.chdir(tmp_path_factory.mktemp("wide"))
                logging.root.setLevel(logging.INFO)
                yield
                assert app.MODE == "wide"
            logging.root.setLevel(logging.WARNING)

        @PARAMS
        @llm_eval(repeats=4, min_score=1)
        def test_it(llm, n, monkeypatch, request):
            monkeypatch.setattr(app, "MODE", n)
            llm.ask(f"before {n}")
            request.getfixturevalue("wide")
            llm.ask(f"after {n}")
            assert "wide" in os.getcwd() and os.environ["LLMEVAL_WIDE"] == "set"
            assert logging.root.level == logging.INFO

        @PARAMS
        @llm_eval(repeats=4, min_score=1)
        def test_all_others_see_it(llm, n, wide, monkeypatch):
            assert app.MODE == "wide"
            llm.ask(f"others {n}")
            assert app.MODE == "wide" and "wide" in os.getcwd()
            monkeypatch.setattr(app, "MODE", n)
            llm.ask(f"others again {n}")
            assert app.MODE == n

        def test_it_is_still_there():
            assert app.MODE == "wide"
        """,
    )


def test_what_is_not_there_says_so_at_the_line_of_the_test(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_it=PRELUDE
        + dedent(
            """
            @llm_eval(repeats=2, min_score=1)
            def test_it(llm, monkeypatch):
                llm.ask("before")
                monkeypatch.setattr(app, "MISSING", 1)
            """
        )
    )

    result = project.runpytest("-p", "no:cacheprovider")

    result.stdout.fnmatch_lines([">*monkeypatch.setattr(app, ?MISSING?, 1)", "E*MISSING*"])
    result.stdout.no_fnmatch_line("*patches.py*")


def test_calls_of_a_trial_that_patches_more_than_the_project_are_not_overlapped(
    project: pytest.Pytester,
) -> None:
    result = passed(
        project,
        """
        @PARAMS
        @llm_eval(repeats=3, min_score=1)
        def test_it(llm, n, monkeypatch):
            monkeypatch.setattr("slow.WAIT", lambda seconds: None)
            monkeypatch.setattr(time, "sleep", lambda seconds: None)
            llm.ask(f"{n}")

        @llm_eval(repeats=3, min_score=1)
        def test_modules(llm, monkeypatch):
            monkeypatch.setitem(sys.modules, "unheard_of", app)
            llm.ask("modules")

        @llm_eval(repeats=3, min_score=1)
        def test_project(llm, monkeypatch):
            monkeypatch.setattr(app, "MODE", "project")
            monkeypatch.setenv("LLMEVAL_PATCHED", "1")
            llm.ask("project")
        """,
    )

    result.stdout.fnmatch_lines(
        ["4 cases ran serially: monkeypatch of time (3), monkeypatch of sys.modules (1)"]
    )


def test_a_blocked_trial_that_patches_keeps_the_others_waiting(project: pytest.Pytester) -> None:
    result = passed(
        project,
        """
        @PARAMS
        @llm_eval(repeats=2, min_score=1)
        def test_it(llm, n, monkeypatch):
            with monkeypatch.context() as within:
                within.setattr(app, "MODE", n)
                llm.ask(f"{n}")
                time.sleep(0.4)
            monkeypatch.setattr(app, "MODE", -n)
            assert app.MODE == -n

        def test_nothing_is_left():
            assert app.MODE == "real"
        """,
    )

    result.stdout.fnmatch_lines(["3 cases ran serially: a trial blocked with what it patched (3)"])
    assert str(result.stdout).count("2/2 passed") == 3


ENDS = """
@pytest.fixture(scope="module")
def wide():
    yield
    left = f"{app.MODE} {hasattr(app, 'NEW')} {app.LOGGER.level}"
    pathlib.Path("at_the_end.txt").write_text(left)

@PARAMS
@llm_eval(repeats=5)
def test_it(llm, n, wide, monkeypatch, caplog):
    monkeypatch.setattr(app, "MODE", n)
    monkeypatch.setattr(app, "NEW", n, raising=False)
    caplog.set_level(10, logger="app")
    llm.ask(f"{n}")
    if n == 1:
        ACTION
    llm.ask(f"again {n}")
"""


@pytest.mark.parametrize(
    ("action", "arguments", "status"),
    [
        ("raise KeyboardInterrupt", (), 2),
        ("pytest.exit('enough', returncode=7)", (), 7),
        ("raise RuntimeError", ("-x",), 1),
        ("time.sleep(0.5)", (), 0),
    ],
    ids=["ctrl-c", "exit", "x", "blocked"],
)
def test_nothing_stays_patched_however_the_session_ends(
    project: pytest.Pytester, action: str, arguments: tuple[str, ...], status: int
) -> None:
    project.makepyfile(test_it=PRELUDE + ENDS.replace("ACTION", action))

    result = run_forked(project, "-p", "no:cacheprovider", *arguments)

    assert result.ret == status
    result.stdout.no_fnmatch_line("*AttributeError*")
    assert (project.path / "at_the_end.txt").read_text() == "real False 0"


def test_sessions_leave_the_class_as_it_was(project: pytest.Pytester) -> None:
    before = pytest.MonkeyPatch.__init__
    project.makepyfile(test_it=PRELUDE + "@llm_eval\ndef test_it(llm): llm.ask('x')\n")

    project.runpytest_inprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)

    assert pytest.MonkeyPatch.__init__ is before


def test_patches_of_unittest_mock_are_met_by_their_own_trial_alone(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        app="def fetch(): return 'real'",
        slow="""
        import time

        def answer(messages):
            time.sleep(0.02)
            return "yes"
        """,
        test_it="""
        import app
        import pytest
        from unittest import mock
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=4, min_score=1)
        @pytest.mark.parametrize("n", range(3))
        def test_with(llm, n):
            with mock.patch("app.fetch", return_value=f"fake {n}"):
                llm.ask(f"{n}")
                assert app.fetch() == f"fake {n}"
            with mock.patch.dict("app.__dict__", colour=n):
                llm.ask(f"dict {n}")
                assert app.colour == n

        @llm_eval(repeats=4, min_score=1)
        @pytest.mark.parametrize("n", range(3))
        @mock.patch("app.fetch", return_value="decorated")
        def test_decorated(fetch, llm, n):
            llm.ask(f"decorated {n}")
            assert app.fetch() == "decorated"

        def test_ordinary():
            assert app.fetch() == "real"
            assert not hasattr(app, "colour")
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/slow:answer\npythonpath = .\n")

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(passed=7)
    result.stdout.fnmatch_lines(["6 cases ran serially: mock.patch (6)"])


def test_a_trial_that_blocks_keeps_its_environment(
    pytester: pytest.Pytester,
) -> None:
    pytester.makepyfile(
        slow="def answer(messages): return messages[-1]['content']",
        test_it="""
        import os, time
        import pytest
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=1)
        @pytest.mark.parametrize("name", ["de", "fr"])
        def test_it(llm, monkeypatch, name):
            monkeypatch.setenv("APP_LANG", name)
            time.sleep(0.8)
            llm.ask(f"{name} -> {os.environ.get('APP_LANG')}")
        """,
    )
    pytester.makeini("[pytest]\nllm_model = function/slow:answer\npythonpath = .\n")

    result = pytester.runpytest("-p", "no:cacheprovider")

    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["2 cases ran serially: a trial blocked with what it patched (2)"])
