"""Draws of main's runs add up: a baseline has those of older runs that asked the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.project import EVALS, MODEL, Project, made_once

# a provider whose answers change while its name stays
MOVING = MODEL.replace(
    "< rate", "< rate * float(__import__('pathlib').Path('weather').read_text())"
)
SMALL = EVALS.replace("range(20)", "range(6)").replace("repeats=5", "repeats=3")


def record_three_times(project: Project) -> None:
    """Main has a run of 18 draws, a replay of it, and two refreshes, one of a later commit."""
    project.write(test_evals=SMALL, model=MOVING)
    (project.path / "weather").write_text("1")
    project.commit("small")
    assert project.run().ret == 0
    assert project.run().ret == 0
    assert project.run("--llm-cache=refresh").ret == 0
    (project.path / "note.md").write_text("harmless")
    project.commit("harmless")
    assert project.run("--llm-cache=refresh").ret == 0
    assert project.calls() == 54
    project.git("switch", "-qc", "side")


@pytest.fixture
def project(pytester: pytest.Pytester, originals: Path) -> Project:
    return made_once(originals / "pooled", pytester, record_three_times)


def side(project: Project, rate: float = 0.7) -> None:
    project.write(app=f'PROMPT = "Say yes to {{case}}. rate={rate}"\n')
    project.commit("another prompt")


def test_a_changed_branch_is_compared_with_the_draws_of_three_runs(project: Project) -> None:
    side(project)
    result, report = project.gate("--llm-baseline=main")

    assert "main: 9 trials a case from 3 runs" in str(result.stdout)
    (function,) = report["functions"]
    assert function["baseline_trials"]["scored"] == 54
    assert {len(case["baseline_scores"]) for case in function["compared"]} == {9}
    assert project.calls() == 18
    runs = project.runs()
    assert report["baseline"]["id"] == runs[-2].name.removesuffix(".jsonl.gz")
    assert (report["baseline"]["trials"], report["baseline"]["calls"]["made"]) == (18, 18)


def test_the_trials_of_other_functions_are_not_counted(project: Project) -> None:
    project.git("switch", "-q", "main")
    project.write(test_more=SMALL.replace("test_says_yes", "test_more").replace("Say", "Tell"))
    project.commit("an eval more")
    assert project.run().ret == 0
    project.git("switch", "-qc", "later")
    side(project)

    result, _ = project.gate("--llm-baseline=main")
    assert "main: 3 to 9 trials a case from 3 runs" in str(result.stdout)
    result, _ = project.gate("--llm-baseline=main", "test_evals.py")
    assert "main: 9 trials a case from 3 runs" in str(result.stdout)
    result, _ = project.gate("--llm-baseline=main", "test_more.py")
    assert "trials a case from" not in str(result.stdout)


def test_an_unchanged_branch_replays_the_newest_run_and_differs_by_nothing(
    project: Project,
) -> None:
    (project.path / "other.md").write_text("harmless, too")
    project.commit("nothing that an eval reads")
    for _ in range(2):
        result, report = project.gate("--llm-baseline=main", "--llm-repeats=5")
        (function,) = report["functions"]
        assert (result.ret, function["verdict"], function["changed"]) == (0, "unchanged", 0)
        assert function["difference"] == 0
    assert project.calls() == 12  # repeats that no run of main has


def test_the_ini_file_says_how_many_draws_count(project: Project) -> None:
    side(project)
    result, report = project.gate("--llm-baseline=main", "-o", "llm_baseline_repeats=5")
    assert "main: 5 trials a case from 2 runs" in str(result.stdout)
    assert report["functions"][0]["baseline_trials"]["scored"] == 30

    result, report = project.gate("--llm-baseline=main", "-o", "llm_baseline_repeats=0")
    assert "trials a case from" not in str(result.stdout)
    assert report["functions"][0]["baseline_trials"]["scored"] == 18


def test_older_runs_of_another_time_are_left_out_with_a_note(project: Project) -> None:
    project.git("switch", "-q", "main")
    (project.path / "weather").write_text("0.1")
    (project.path / "note.md").write_text("another one")
    project.commit("the provider moves")
    project.run("--llm-cache=refresh")
    project.git("switch", "-qc", "later")
    side(project)
    result, report = project.gate("--llm-baseline=main")

    assert "test_says_yes: trials of other runs are left out of the baseline" in str(result.stdout)
    assert report["functions"][0]["baseline_trials"]["scored"] == 18


def test_what_was_named_itself_is_compared_alone(project: Project) -> None:
    side(project)
    newest = project.runs()[-1].name.removesuffix(".jsonl.gz")
    result = project.run(f"--llm-baseline={newest}")
    assert "trials a case from" not in str(result.stdout)


def test_a_test_that_changed_on_main_begins_anew(project: Project) -> None:
    project.git("switch", "-q", "main")
    project.write(test_evals=SMALL.replace('== "yes"', '.strip() == "yes"'))
    project.commit("another test")
    assert project.run("--llm-cache=refresh").ret == 0
    project.git("switch", "-qc", "later")
    side(project)
    result, _ = project.gate("--llm-baseline=main")
    assert "trials a case from" not in str(result.stdout)
