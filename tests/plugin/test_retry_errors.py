"""--llm-retry-errors: the errored trials of the last run are run again, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore
from tests.project import Project, made_once

# Trials that are listed in down.txt find the provider down.
MODEL = '''
from pathlib import Path

HERE = Path(__file__).parent


def answer(messages, *, draw):
    """Says yes in every second draw."""
    question = messages[-1]["content"]
    with (HERE / "calls.log").open("a") as file:
        file.write(f"{question} {draw.trial}\\n")
    if f"{question} {draw.trial}" in (HERE / "down.txt").read_text().splitlines():
        raise ConnectionError("down")
    return "no" if draw.trial % 2 else "yes"
'''

EVALS = """
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats=4)
@pytest.mark.parametrize("case", ["a", "b", "c"])
def test_it(llm, case):
    llm.ask("first")
    assert llm.ask(case).text == "yes"

def test_ordinary():
    pass
"""


def record_errors(project: Project) -> None:
    (project.path / ".gitignore").write_text("__pycache__/\ncalls.log\ndown.txt\nout/\n")
    project.write(model=MODEL, test_evals=EVALS)
    project.commit()
    down(project, "a 1", "c 0", "c 1", "c 2", "c 3")
    project.run()
    project.calls()
    down(project)


@pytest.fixture
def project(pytester: pytest.Pytester, originals: Path) -> Project:
    """A run with an errored trial 1 of case a, and all of case c errored."""
    return made_once(originals / "errors", pytester, record_errors)


def down(project: Project, *questions: str) -> None:
    (project.path / "down.txt").write_text("\n".join(questions))


def last_run(project: Project) -> Run:
    found = RunStore(project.path / ".llmeval").newest()
    assert found is not None
    return found.run


def outcomes(run: Run) -> dict[str, str]:
    """Put the outcomes of a case's trials as letters, passed and missed and errored."""
    shown: dict[str, str] = {}
    for trial in run.trials:
        name = trial.case.partition("[")[2].rstrip("]")
        shown[name] = shown.get(name, "") + str(trial.outcome)[0]
    return shown


def usage_error(result: pytest.RunResult) -> str:
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    (line,) = [line for line in result.errlines + result.outlines if "ERROR:" in line]
    return line


def test_only_the_errored_trials_are_run_and_the_run_is_completed(project: Project) -> None:
    (file,) = project.runs()
    before = file.read_bytes()
    old = last_run(project)
    assert outcomes(old) == {"a": "pepm", "b": "pmpm", "c": "eeee"}

    result = project.run("--llm-retry-errors")

    result.assert_outcomes(passed=2, deselected=2)
    lines = (project.path / "calls.log").read_text().splitlines()
    # "first" was answered, so it is replayed: only what failed is asked for.
    assert sorted(lines) == ["a 1", "c 0", "c 1", "c 2", "c 3"]
    new = last_run(project)
    assert outcomes(new) == {"a": "pmpm", "b": "pmpm", "c": "pmpm"}
    assert (new.completes, new.complete, new.cases) == (old.id, True, old.cases)
    assert file.read_bytes() == before
    result.stdout.fnmatch_lines(
        [
            f"llm evals: completing run {old.id}: 5 trials of 2 cases run again, 7 stand",
            "3 cases x 4 repeats *5 calls made, 19 replayed*",
            f"recorded {new.id}, which completes {old.id}, for *",
        ]
    )


def test_what_was_drawn_before_keeps_its_draws(project: Project) -> None:
    def draws(run: Run) -> dict[Any, Any]:
        calls = [(t, c) for t in run.trials for c in t.calls if c.draw]
        return {(t.case, c.key, c.slot): c.draw for t, c in calls}

    before = draws(last_run(project))

    project.run("--llm-retry-errors")

    assert before.items() <= draws(last_run(project)).items()
    project.calls()
    project.run("--llm-cache=replay")  # an ordinary run finds all that the two paid for
    assert project.calls() == 0
    assert outcomes(last_run(project)) == {"a": "pmpm", "b": "pmpm", "c": "pmpm"}


def test_what_errs_again_stays_errored_and_can_be_retried_once_more(project: Project) -> None:
    first = last_run(project)
    down(project, "c 2")
    project.run("--llm-retry-errors")
    second = last_run(project)
    assert outcomes(second)["c"] == "pmem"
    down(project)
    project.calls()

    project.run("--llm-retry-errors")

    assert project.calls() == 1
    third = last_run(project)
    assert outcomes(third)["c"] == "pmpm"
    assert (second.completes, third.completes) == (first.id, second.id)


def test_a_completed_run_is_a_baseline_like_any_other(project: Project) -> None:
    project.run("--llm-retry-errors")
    completed = last_run(project)
    project.git("switch", "-qc", "branch")

    result, report = project.gate("--llm-baseline=main")

    assert result.ret == 0
    assert report["baseline"]["id"] == completed.id
    assert report["verdict"] == "unchanged"


def test_the_gate_judges_the_completed_run_as_a_whole(project: Project) -> None:
    project.run("--llm-retry-errors")
    project.git("switch", "-qc", "branch")
    project.write(test_evals=EVALS.replace("llm.ask(case)", 'llm.ask(case + "?")'))
    project.commit()
    down(project, "c? 0", "c? 1", "c? 2", "c? 3")
    result, report = project.gate("--llm-baseline=main")
    assert (result.ret, report["verdict"]) == (1, "not_comparable")
    down(project)

    result, report = project.gate("--llm-retry-errors", "--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (0, "inconclusive")
    (function,) = report["functions"]
    assert (function["cases"], function["changed"], function["trials"]["scored"]) == (3, 3, 12)


@pytest.mark.parametrize("reference", ["last", "main"])
def test_a_run_is_not_compared_with_itself_before_it_was_completed(
    project: Project, reference: str
) -> None:
    first = last_run(project)
    down(project, "c 0")
    project.run("--llm-retry-errors")
    down(project)

    result = project.run("--llm-retry-errors", f"--llm-baseline={reference}")

    line = usage_error(result)
    assert first.id not in line
    assert "recorded" in line


def test_the_last_run_before_it_is_the_one_that_last_means(project: Project) -> None:
    down(project, "b 0")
    before = last_run(project)
    project.run("--llm-cache=refresh")
    down(project)

    _, report = project.gate("--llm-retry-errors", "--llm-baseline=last")

    assert report["baseline"]["id"] == before.id


def test_with_nothing_errored_there_is_nothing_to_do(project: Project) -> None:
    project.run("--llm-retry-errors")
    runs = project.runs()
    run = last_run(project)

    result = project.run("--llm-retry-errors", "-q")

    assert result.ret == pytest.ExitCode.OK
    text = f"note: no trial of run {run.id} is errored: nothing to run again"
    assert result.outlines.count(text) == 1
    assert project.runs() == runs


@pytest.mark.parametrize(
    ("expected", "code", "verdict"), [("yes", 0, "inconclusive"), ("never", 1, "regressed")]
)
def test_with_nothing_errored_the_run_is_judged_as_it_stands(
    project: Project, expected: str, code: int, verdict: str
) -> None:
    project.run("--llm-retry-errors")
    project.git("switch", "-qc", "branch")
    asked = EVALS.replace("llm.ask(case)", 'llm.ask(case + "?")')
    project.write(test_evals=asked.replace('"yes"', f'"{expected}"'))
    project.commit()
    project.run()
    runs, run = project.runs(), last_run(project)
    project.calls()

    result, report = project.gate("--llm-retry-errors", "--llm-baseline=main")

    assert (result.ret, report["verdict"]) == (code, verdict)
    assert (project.calls(), project.runs()) == (0, runs)
    assert report["run"]["id"] == run.id
    result.stdout.fnmatch_lines(
        [
            "3 cases x 4 repeats · function/model:answer · 0 calls made, 24 replayed · *",
            f"note: no trial of run {run.id} is errored: nothing to run again",
        ]
    )


def test_a_file_that_cannot_be_collected_keeps_its_own_exit_code(project: Project) -> None:
    project.run()
    project.run("--llm-retry-errors")
    project.write(test_more="raise OSError")

    result = project.run("--llm-retry-errors", "--llm-baseline=last")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines(["could not judge: nothing was compared*"])


def test_trials_that_never_ended_are_run_too(project: Project) -> None:
    store = RunStore(project.path / ".llmeval")
    (file,) = project.runs()
    whole = store.load(file)
    file.unlink()
    kept = tuple(t for t in whole.trials if (t.case, t.index) != (whole.cases[1].id, 3))
    store.save(replace(whole, trials=kept, complete=False))

    project.run("--llm-retry-errors")

    assert outcomes(last_run(project)) == {"a": "pmpm", "b": "pmpm", "c": "pmpm"}
    assert last_run(project).complete


def test_a_retry_that_stops_early_loses_no_trial(project: Project) -> None:
    down(project, "a 1")
    project.write(
        conftest="""
        import pytest
        def pytest_runtest_logfinish(nodeid):
            if "[a]" in nodeid:
                pytest.exit("enough")
    """
    )
    project.run("--llm-retry-errors", "--llm-concurrency=1")

    assert outcomes(last_run(project)) == {"a": "pepm", "b": "pmpm", "c": "eeee"}


def test_a_retry_that_stops_within_a_case_keeps_the_rest_of_it_errored(project: Project) -> None:
    project.write(
        conftest="""
        import pytest
        ran = []
        @pytest.fixture(autouse=True)
        def stop():
            ran.append(None)
            if len(ran) == 4:  # of a one trial, of c two
                pytest.exit("enough")
    """
    )
    project.run("--llm-retry-errors", "--llm-concurrency=1")

    assert outcomes(last_run(project)) == {"a": "pmpm", "b": "pmpm", "c": "pmee"}
    assert last_run(project).complete


def test_a_case_that_is_skipped_now_keeps_what_it_had(project: Project) -> None:
    project.write(
        conftest="""
        import pytest
        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.skip("away"))
    """
    )
    project.run("--llm-retry-errors")

    assert outcomes(last_run(project)) == {"a": "pspm", "b": "pmpm", "c": "ssss"}


def test_a_failing_case_lists_the_trials_that_stand(project: Project) -> None:
    project.write(test_evals=EVALS.replace("repeats=4", "repeats=4, min_score=0.9"))
    project.commit()
    down(project, "a 1")
    project.run()
    down(project)

    result = project.run("--llm-retry-errors")

    result.assert_outcomes(failed=1, deselected=3)
    result.stdout.fnmatch_lines(["*below min_score=0.9: 2 passed, 2 missed*", "trial 3: Assert*"])


def refusal(project: Project, *arguments: str) -> str:
    return usage_error(project.run("--llm-retry-errors", *arguments))


def test_another_commit_is_refused(project: Project) -> None:
    project.write(app='PROMPT = "other"\n')
    assert "with changes" in refusal(project)
    project.commit()
    line = refusal(project)
    assert "of commit" in line
    assert "Run everything" in line
    assert project.calls() == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("test_evals.py",), "is of all tests, this session of test_evals.py"),
        (("-k", "ordinary"), "is of all tests, this session of -k ordinary"),
        (("--llm-repeats=6",), "has 6 repeats here and 4 there. Say --llm-repeats=4"),
        (("--llm-model=function/model:other",), "this session of model function/model:other"),
    ],
    ids=["paths", "k", "repeats", "model"],
)
def test_another_selection_is_refused(
    project: Project, arguments: tuple[str, ...], told: str
) -> None:
    assert told in refusal(project, *arguments)


def test_cases_that_came_since_are_refused(project: Project) -> None:
    (project.path / "test_new.py").write_text(
        "from pytest_llmeval import llm_eval\n@llm_eval\ndef test_new(): pass\n"
    )
    assert "1 case(s) are not in that run, test_new.py::test_new first" in refusal(project)


def test_without_any_run_there_is_nothing_to_complete(project: Project) -> None:
    for file in project.runs():
        file.unlink()
    assert "no run is recorded" in refusal(project)


def test_a_damaged_run_is_told_of(project: Project) -> None:
    (file,) = project.runs()
    file.write_bytes(b"no gzip")
    assert file.name in refusal(project)


def test_listing_looks_for_no_run(project: Project) -> None:
    for file in project.runs():
        file.unlink()
    assert project.run("--llm-retry-errors", "--collect-only").ret == 0
