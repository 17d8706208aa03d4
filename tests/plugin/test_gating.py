"""Record main, change something on a branch, and see what the gate says."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.project import APP, INI, SMALL, Project, made_once, make_project
from tests.servers.openai_server import OpenAIServer, Scripted

WORSE = APP.replace("rate=0.8", "rate=0.3")
BETTER = APP.replace("rate=0.8", "rate=1.0")


def record_main(project: Project) -> None:
    project.write(test_evals=SMALL)
    project.commit("small")
    assert project.run("--llm-repeats=10").ret == 0
    assert project.calls() == 100
    project.git("switch", "-qc", "branch")


def record_few(project: Project) -> None:
    """Record main with few repeats, for tests that look at no figure, and begin a branch."""
    project.write(test_evals=SMALL.replace("repeats=3", "repeats=2"))
    project.commit()
    assert project.run().ret == 0
    project.git("switch", "-qc", "branch")


@pytest.fixture
def project(small_project: Project) -> Project:
    return small_project


@pytest.fixture
def main(pytester: pytest.Pytester, originals: Path) -> Project:
    """Main, recorded with 10 repeats, and a branch begun."""
    return made_once(originals / "main", pytester, record_main)


def only_function(report: dict[str, Any]) -> dict[str, Any]:
    (function,) = report["functions"]
    return function


def test_a_comment_edit_is_unchanged_and_free(main: Project) -> None:
    main.write(app=APP + "# a comment\n")
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 0
    assert main.calls() == 0
    assert report["verdict"] == "unchanged"
    assert only_function(report)["changed"] == 0
    calls = {"made": 0, "replayed": 30, "failed": 0, "outside": 0, "attempts": 0, "capped": 0}
    assert report["run"]["calls"] == calls
    result.stdout.fnmatch_lines(
        [
            "*= llm evals =*",
            "unchanged (all replayed, nothing new was measured): 1 function vs main@???????",
            "10 cases x 3 repeats * 0 calls made, 30 replayed*",
        ]
    )


def test_a_worse_prompt_fails_the_session(main: Project) -> None:
    main.write(app=WORSE)
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert main.calls() == 30
    assert report["verdict"] == "regressed"
    assert report["fails"] is True
    function = only_function(report)
    assert function["method"] == "paired-t"
    assert function["dof"] == 9
    assert function["difference"] < -0.3
    assert function["changed_kinds"] == {"request": 10}
    result.stdout.fnmatch_lines(
        [
            "REGRESSED: 1 function vs main@???????",
            "* test function * main * here * difference * 90% interval * 0  changed  can find",
            "REGRESSED  test_says_yes  0.???  0.???      -0.??? * 10/10 * 0.???",
            "test_says_yes fell by 0.* chance alone would do this in *",
            "  fell most *",
            "read both replies:  llmeval diff 'test_says_yes[[]*]'",
            "!* llm evals: test_says_yes fell by 0.* chance alone would do this in *!",
        ]
    )
    assert "Traceback" not in str(result.stdout) + str(result.stderr)
    assert "random id" not in str(result.stdout)  # a prompt was edited


def test_a_date_in_each_request_is_told(project: Project) -> None:
    dated = APP.replace("Say yes", "It is 2026-11-{day}. Say yes")
    project.write(app=dated.replace("{day}", "25"))
    project.commit()
    project.run()
    project.git("switch", "-qc", "tomorrow")
    project.write(app=dated.replace("{day}", "26"))
    project.commit()

    result, report = project.gate("--llm-baseline=main")

    (note,) = (note for note in report["notes"] if "random id" in note)
    assert note.startswith(
        "each request of test_says_yes differs from the baseline's only in a date"
    )
    result.stdout.fnmatch_lines([f"note: {note}"])


def test_a_better_prompt_is_improved(main: Project) -> None:
    main.write(app=BETTER)
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 0
    assert report["verdict"] == "improved"
    result.stdout.fnmatch_lines(["*test_says_yes rose by 0.*; chance alone would do this in *"])


def test_a_missing_baseline_stops_before_anything_is_run(project: Project) -> None:
    project.git("switch", "-qc", "branch")
    project.write(app=WORSE)
    project.commit()

    result = project.run("--llm-baseline=main")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert project.calls() == 0
    (line,) = [line for line in result.errlines if line.startswith("ERROR: ")]
    assert line.startswith("ERROR: --llm-baseline=main: no ")
    result.stderr.fnmatch_lines(["*git switch main && pytest*"])


def test_a_missing_baseline_may_run_ungated(project: Project) -> None:
    project.git("switch", "-qc", "branch")
    project.write(app=WORSE)
    project.commit()

    result, report = project.gate("--llm-baseline=main", "--llm-on-missing=warn")

    assert result.ret == 0
    assert report["verdict"] == "not_gated"
    told = "not gated: --llm-baseline=main: no *. Record one: git switch main && pytest"
    result.stdout.fnmatch_lines([told])


def test_a_session_without_baseline_ends_with_its_section_too(project: Project) -> None:
    result, report = project.gate()

    assert result.ret == 0
    assert report["verdict"] == "not_gated"
    (function,) = report["functions"]
    assert function["cases"] == 10
    assert 0.6 < function["mean"] < 0.95
    result.stdout.fnmatch_lines(
        [
            "compared with nothing yet: on a branch, add  --llm-baseline=main",
            "test function * cases * mean * 90% interval",
            "test_says_yes * 10 * 0.* [[]0.*, 0.*[]]*",
            "worst *",
            "10 cases x 3 repeats * function/model:answer * 30 calls made, 0 replayed*",
        ]
    )


def test_the_section_says_of_how_many_cases_its_mean_is(project: Project) -> None:
    project.write(
        test_evals="""
        import pytest
        from pytest_llmeval import llm_eval

        @pytest.mark.parametrize("n", range(4))
        @llm_eval(repeats=2)
        def test_some(n):
            if n == 3:
                pytest.skip("not today")
        """
    )

    project.run().stdout.fnmatch_lines(["test_some *3 of 4 * 1.000 *2 skipped"])


def test_more_repeats_buy_only_the_new_draws(project: Project) -> None:
    project.run()
    assert project.calls() == 30

    project.run("--llm-repeats=8")

    assert project.calls() == 50


def test_renaming_a_test_costs_nothing(main: Project) -> None:
    main.write(test_evals=SMALL.replace("test_says_yes", "test_agrees"))
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    assert main.calls() == 0
    assert result.ret == 1  # nothing could be compared: the old name is gone
    assert {f["function"]: f["verdict"] for f in report["functions"]} == {
        "test_evals.py::test_agrees": "new",
        "test_evals.py::test_says_yes": "not_comparable",
    }
    result.stdout.fnmatch_lines(["*nothing was judged*"])


def test_no_eval_collected_stays_5(main: Project) -> None:
    result = main.run("--llm-baseline=main", "-k", "nothing_like_this")

    assert result.ret == pytest.ExitCode.NO_TESTS_COLLECTED


def test_no_eval_among_ordinary_tests_fails(main: Project) -> None:
    main.write(test_plain="def test_ordinary(): pass\n")

    result = main.run("--llm-baseline=main", "test_plain.py")

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*could not judge: no eval ran here, so nothing was compared with main: if no error*"]
    )


def test_a_partial_run_is_judged_on_what_ran(main: Project) -> None:
    main.write(app=WORSE)
    main.commit()

    result, report = main.gate("--llm-baseline=main", "-k", "not case-1")

    assert result.ret == 1
    assert only_function(report)["cases"] == 9
    assert only_function(report)["partial"] is True
    result.stdout.fnmatch_lines(["*partial: 9 of 10*"])


def test_a_partial_run_is_no_baseline(project: Project) -> None:
    project.run("-k", "case-1").assert_outcomes(passed=1, deselected=9)
    project.git("switch", "-qc", "branch")

    result = project.run("--llm-baseline=main")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(
        ["ERROR: --llm-baseline=main: run *: it covers '-k case-1', this session everything."]
    )


def test_ordinary_failures_keep_their_exit_code_and_the_section_is_printed(main: Project) -> None:
    main.write(test_plain="def test_ordinary(): assert False\n", app=BETTER)
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    result.assert_outcomes(failed=1, passed=10)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert report["verdict"] == "improved"


def test_failures_of_ordinary_tests_do_not_spoil_a_baseline(project: Project) -> None:
    project.write(test_plain="def test_ordinary(): assert False\n")
    project.commit()
    project.run("--llm-repeats=10")
    project.git("switch", "-qc", "branch")

    result, report = project.gate("--llm-baseline=main", "test_evals.py")

    assert result.ret == 0
    assert report["verdict"] == "unchanged"


def test_the_margin_allows_a_small_drop(main: Project) -> None:
    main.write(app=APP.replace("rate=0.8", "rate=0.7"))
    main.commit()

    result, report = main.gate("--llm-baseline=main", "--llm-margin=0.5", "--llm-target=0.6")

    assert result.ret == 0
    assert report["verdict"] == "no_significant_change"


INCONCLUSIVE = ("--llm-baseline=main", "--llm-target=0.001")


def test_inconclusive_passes_with_a_warning(main: Project) -> None:
    main.write(app=APP.replace("Say yes", "Say yes please"))
    main.commit()

    result, report = main.gate(*INCONCLUSIVE)

    assert (result.ret, report["verdict"]) == (0, "inconclusive")
    result.stdout.fnmatch_lines(["*inconclusive: the drop may be as large as 0.*"])


def test_strict_fails_what_is_inconclusive(main: Project) -> None:
    main.write(app=APP.replace("Say yes", "Say yes please"))
    main.commit()

    result, report = main.gate(*INCONCLUSIVE, "--llm-strict")

    assert (result.ret, report["verdict"]) == (1, "inconclusive")


BROKEN_MODEL = """
def answer(messages, *, draw, **params):
    if draw.trial % {every} == 0:
        raise ConnectionError("the provider is down")
    return "yes"
answer.llm_version = "{version}"
"""


def test_a_provider_error_is_never_a_score(main: Project) -> None:
    main.write(model=BROKEN_MODEL.format(every=2, version="broken"))
    main.commit()

    result, report = main.gate("--llm-baseline=main", "-v")

    assert result.ret == 1
    function = only_function(report)
    assert function["verdict"] == "not_comparable"
    assert function["trials"]["errored"] == 20
    assert function["trials"]["missed"] == 0
    assert function["mean"] == 1.0
    result.stdout.fnmatch_lines(["*NOT COMPARABLE*", "*20*errored*"])


def test_errors_in_every_trial_are_an_error_of_the_case(project: Project) -> None:
    project.write(model=BROKEN_MODEL.format(every=1, version="down"))

    result = project.run()

    assert result.ret == 1
    result.assert_outcomes(errors=10)
    result.stdout.fnmatch_lines(["test_evals.py EEEEE*", "*the provider is down*"])


@pytest.mark.usefixtures("reruns_plugin")
def test_a_rerun_asks_only_for_what_erred(project: Project) -> None:
    project.write(
        model="""
        from pathlib import Path
        HERE = Path(__file__).parent
        def answer(messages, *, draw, **params):
            mark = HERE / f"out{draw.trial}.txt"
            with (HERE / "calls.log").open("a") as file:
                file.write("x\\n")
            if draw.trial == 1 and not mark.exists():
                mark.write_text("")
                raise ConnectionError("once")
            return "yes"
        """,
        test_evals="""
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=3, min_score=1)
        def test_once(llm):
            assert llm.ask("hi").text == "yes"
            import pathlib
            seen = pathlib.Path("seen.txt")
            n = int(seen.read_text()) if seen.exists() else 0
            seen.write_text(str(n + 1))
            assert n > 0
        """,
    )

    result = project.run("--reruns=1", "-v")

    result.assert_outcomes(passed=1)
    assert project.calls() == 4


def test_the_draws_of_a_refresh_are_new_and_kept(main: Project) -> None:
    asked = ("--llm-cache=refresh", "--llm-target=0.5")
    result, report = main.gate("--llm-baseline=main", *asked)

    assert main.calls() == 30
    function = only_function(report)
    assert function["changed_kinds"] == {"redrawn": 10}
    # The simulator gives the same text to the same draw, yet these are new draws.
    assert function["verdict"] == "no_significant_change"
    told = (
        "10 cases sent the same requests but got new replies (--llm-cache=refresh makes every call"
    )
    assert told in str(result.stdout)


@pytest.mark.parametrize(
    ("mode", "reason"),
    [("off", "--llm-cache=off replays nothing"), ("auto", "the baseline's cache is not here")],
)
def test_new_replies_to_the_same_requests_are_put_down_to_what_was_asked_for(
    main: Project, mode: str, reason: str
) -> None:
    if mode == "auto":
        shutil.rmtree(main.path / ".llmeval" / "cache")

    result = main.run("--llm-baseline=main", f"--llm-cache={mode}")

    assert f"but got new replies ({reason})" in str(result.stdout)


@pytest.mark.usefixtures("reruns_plugin")
def test_a_rerun_under_refresh_replays_the_draws_of_this_session(project: Project) -> None:
    project.run()
    project.calls()

    project.write(
        test_evals=SMALL
        + "    import pathlib\n"
        "    seen = pathlib.Path(f'{case}.txt')\n"
        "    first = not seen.exists()\n"
        "    seen.write_text('')\n"
        "    if first: raise RuntimeError('again')\n".replace("    import", "    import")
    )
    project.run("--llm-cache=refresh", "--reruns=1")

    assert project.calls() == 30


def test_replay_makes_no_call_and_a_miss_is_an_error(main: Project) -> None:
    main.write(app=WORSE)

    result = main.run("--llm-cache=replay")

    assert main.calls() == 0
    result.assert_outcomes(errors=10)
    result.stdout.fnmatch_lines(["*no reply is stored for call 0/0*"])


def test_replay_of_what_is_stored_passes(main: Project) -> None:
    result, report = main.gate("--llm-baseline=main", "--llm-cache=replay")

    assert (result.ret, report["verdict"]) == (0, "unchanged")


def test_cache_off_stores_nothing(project: Project) -> None:
    project.run("--llm-cache=off")
    project.run("--llm-cache=off")

    assert project.calls() == 60
    assert not (project.path / ".llmeval" / "cache").exists()


def test_a_broken_gate_ends_as_one_line_and_the_run_is_kept(
    main: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def boom(*_args: object, **_named: object) -> None:
        raise ZeroDivisionError("in the gate")

    # Not by its name: the package may still hold a module that pytester has forgotten.
    monkeypatch.setattr(import_module("pytest_llmeval.judging"), "compare", boom)

    result, report = main.gate("--llm-baseline=main")

    assert result.ret == 1
    assert len(main.runs()) == 2
    assert report["verdict"] == "could_not_judge"
    result.stdout.fnmatch_lines(["could not judge: ZeroDivisionError: in the gate"])
    assert "Traceback" not in str(result.stdout) + str(result.stderr)


def test_a_report_that_cannot_be_written_is_refused_before_the_first_call(main: Project) -> None:
    (main.path / "out").write_text("a file where a folder should be")
    main.calls()

    result = main.run("--llm-baseline=main", "--llm-report=out/report.json")

    assert (result.ret, main.calls(), len(main.runs())) == (4, 0, 1)
    told = "ERROR: --llm-report=*report.json cannot be written: *out is no folder. Name another*"
    result.stderr.fnmatch_lines([told])


def test_a_folder_that_cannot_be_written_is_refused_before_the_first_call(project: Project) -> None:
    taken = project.path / ".llmeval"
    taken.write_text("a file where the folder should be")

    result = project.run("--llm-cache=off")

    assert (result.ret, project.calls()) == (4, 0)
    told = "ERROR: *.llmeval cannot be written: *.llmeval is no folder. *another*--llm-dir"
    result.stderr.fnmatch_lines([told])


def test_a_replay_may_read_from_a_disk_that_nobody_can_write_to(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.run()
    monkeypatch.setattr("os.access", lambda place, mode, **_: False)

    assert project.run("--llm-cache=replay").ret == 0
    refused = project.run()

    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["ERROR: *.llmeval cannot be written: *runs is read-only. *"])


def test_the_most_it_may_cost_is_said_before_the_first_call(main: Project) -> None:
    result = main.run("--llm-baseline=main", "--llm-repeats=12")

    result.stdout.fnmatch_lines(
        [
            "llm evals: up to 120 calls to function/model:answer",
            "test_evals.py *",
        ]
    )


def test_too_few_trials_are_told_before_they_are_paid_for(main: Project) -> None:
    one = ("-k", "case-4", "--llm-cache=off")
    result = main.run("--llm-repeats=3", *one)
    result.stdout.fnmatch_lines(
        [
            "*: note: too few trials to show any drop: test_* (1 case x 3; at best 4 repeats*",
            "*py *",
        ]
    )
    # the baseline has 10 repeats: 3 more here are dealt out in 286 ways
    for enough in (["--llm-repeats=4"], ["--llm-repeats=3", "--llm-baseline=main"]):
        main.run(*enough, *one).stdout.no_fnmatch_line("*too few trials*")


def test_a_run_that_could_not_be_recorded_fails_the_session(project: Project) -> None:
    (project.path / ".llmeval").mkdir()
    (project.path / "theirs").mkdir()
    (project.path / ".llmeval" / "runs").symlink_to(project.path / "theirs")

    result = project.run()

    assert result.ret == 1
    result.stdout.fnmatch_lines(["this run could not be recorded: *", "!* llm evals: this run *"])


@pytest.mark.parametrize(
    ("arguments", "is_told"),
    [(("-O", "-m", "pytest", "--assert=plain"), True), (("-O", "-m", "pytest"), False)],
    ids=["plain", "rewritten"],
)
def test_the_section_says_that_nothing_was_asserted_under_python_o(
    project: Project, arguments: tuple[str, ...], is_told: bool
) -> None:
    done = subprocess.run(
        [sys.executable, *arguments, "-p", "no:cacheprovider", "--llm-repeats=1"],
        cwd=project.path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert ("note: nothing was asserted: python -O" in done.stdout) is is_told, done.stdout


@pytest.fixture
def before_evals(pytester: pytest.Pytester) -> Project:
    """Main has no eval yet; a branch brings the first ones."""
    project = make_project(pytester)
    project.git("rm", "-q", "test_evals.py")
    project.commit("no evals")
    project.git("switch", "-qc", "branch")
    project.write(test_evals=SMALL)
    project.commit("the first evals")
    return project


def test_the_session_that_introduces_evals_passes_with_everything_new(
    before_evals: Project,
) -> None:
    result, report = before_evals.gate("--llm-baseline=main")

    assert result.ret == 0
    assert report["verdict"] == "new"
    assert report["baseline"]["how"] == "nothing yet"
    assert report["differences"] == []
    assert "note: nothing to compare with yet: " in str(result.stdout)
    assert "differs from the baseline" not in str(result.stdout)


def test_an_eval_that_was_there_before_needs_its_run(before_evals: Project) -> None:
    before_evals.git("switch", "-q", "main")
    before_evals.write(test_other="from pytest_llmeval import llm_eval")
    before_evals.commit("an eval of which nobody recorded a run")
    before_evals.git("switch", "-q", "branch")
    before_evals.git("rebase", "-q", "main")

    result = before_evals.run("--llm-baseline=main")

    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_a_commit_that_is_not_here_is_no_first_session(before_evals: Project) -> None:
    result = before_evals.run(f"--llm-baseline={'ab' * 20}", "--llm-cache=replay")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: *no complete run recorded*"])


def test_without_any_eval_nothing_to_compare_with_is_no_pass(before_evals: Project) -> None:
    before_evals.git("rm", "-q", "test_evals.py")
    before_evals.write(test_plain="def test_ordinary(): pass")

    assert before_evals.run("--llm-baseline=main").ret == pytest.ExitCode.TESTS_FAILED


def test_a_substitute_is_named_first_and_refused_by_strict(main: Project) -> None:
    main.git("switch", "--quiet", "main")
    first = main.git("rev-parse", "HEAD")
    (main.path / "notes.txt").touch()
    wanted = main.commit()
    main.git("switch", "--quiet", "--create", "other")
    main.write(app='PROMPT = "Please say yes to {case}. rate=0.8"\n')
    main.commit()

    result, report = main.gate("--llm-baseline=main")

    stands_in = f"instead of {wanted[:7]}, 1 behind, 1 file differs*"
    result.stdout.fnmatch_lines([f"llm evals: baseline main@{first[:7]} {stands_in}"])
    baseline = report["baseline"]
    assert (baseline["wanted"], baseline["substitute"], baseline["commit"]) == (wanted, True, first)

    refused = main.run("--llm-baseline=main", "--llm-strict")
    assert refused.ret == 4
    refused.stderr.fnmatch_lines(["*could be used instead, which --llm-strict refuses."])


def test_a_provider_that_refuses_for_ever_passes_no_gate(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(pytester)
    monkeypatch.setattr("pytest_llmeval.models.limits.throttle.PATIENCE", 0.0)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    with OpenAIServer(lambda _body, _number: "yes") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        ini = INI.replace("function/model:answer", "openai/m")
        project.write(pytest_ini=ini, test_evals=SMALL)
        project.commit("asks a server")
        project.run()
        project.git("switch", "-qc", "topic")
        project.write(app=APP.replace("Say", "Do say"))
        server.then(*[Scripted(status=503)] * 1000)

        result, report = project.gate("--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (pytest.ExitCode.TESTS_FAILED, "not_comparable")
    result.stdout.fnmatch_lines(["NOT COMPARABLE: 1 function vs main@*", "*not scored: 30 here*"])
    result.stdout.fnmatch_lines(["*HTTP 503 Service Unavailable*"])
    result.stdout.no_fnmatch_line("*429*")
