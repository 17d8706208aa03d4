"""Which cases missed or moved when they last ran."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_llmeval.records import Outcome, Trial
from pytest_llmeval.runs.lookup.missed import missed_last
from tests.runs.builders import make_run

if TYPE_CHECKING:
    from tests.runs.conftest import Project

PERU, CHAD = "tests/test_a.py::test_a[Peru]", "tests/test_a.py::test_a[Chad]"


def trials(*missed: str, score: float | None = None) -> tuple[Trial, ...]:
    """The trials of a run in which the first trial of some cases is missed, or scored lower."""
    return tuple(
        replace(
            trial,
            outcome=Outcome.PASSED if score else Outcome.MISSED,
            scores={"pass": score or 0.0},
        )
        if trial.case in missed and trial.index == 0
        else trial
        for trial in make_run().trials
    )


def found(project: Project) -> frozenset[str] | None:
    return missed_last(project.store, git=project.state, root=".", selection=())


def test_without_a_run_there_is_none(project: Project) -> None:
    assert found(project) is None


def test_a_case_of_which_a_trial_missed_counts(project: Project) -> None:
    project.record(trials=trials(PERU))
    assert found(project) == {PERU}


def test_a_case_that_moved_against_the_baseline_counts_too(project: Project) -> None:
    baseline = project.record()
    project.record(trials=trials(CHAD, score=0.5), compared_with=baseline)
    assert found(project) == {CHAD}


def test_a_baseline_that_is_not_here_moves_nothing(project: Project) -> None:
    project.record(trials=trials(CHAD, score=0.5), compared_with="20251121T084100-1a2b3c")
    assert found(project) == set()


def test_a_baseline_that_is_damaged_moves_nothing(project: Project) -> None:
    baseline = project.record("f" * 40, ref=None)
    project.record(trials=trials(CHAD, score=0.5), compared_with=baseline)
    file = project.store.by_id(baseline)
    assert file is not None
    file.write_bytes(b"no run")
    assert found(project) == set()


def test_a_case_that_only_one_side_has_did_not_move(project: Project) -> None:
    run = make_run()
    part = tuple(trial for trial in run.trials if trial.case == PERU)
    baseline = project.record(cases=run.cases[:1], trials=part)
    project.record(compared_with=baseline)
    assert found(project) == set()


def test_each_case_has_the_result_of_the_last_run_that_had_it(project: Project) -> None:
    run = make_run()
    project.record(trials=trials(PERU, CHAD))
    part = tuple(trial for trial in run.trials if trial.case == PERU)
    project.record(cases=run.cases[:1], trials=part, complete=False)
    assert found(project) == {CHAD}


def test_a_case_that_did_not_run_keeps_its_result(project: Project) -> None:
    project.record(trials=trials(PERU))
    project.record(trials=(), complete=False)
    assert found(project) == {PERU}


def test_runs_before_a_complete_one_do_not_count(project: Project) -> None:
    run = make_run()
    project.record(trials=trials(PERU, CHAD))
    part = tuple(trial for trial in run.trials if trial.case == PERU)
    project.record(cases=run.cases[:1], trials=part)
    assert found(project) == set()


def test_runs_of_other_trees_do_not_count(project: Project) -> None:
    project.record("f" * 40, ref="another", trials=trials(PERU))
    project.record(root="services/bot", trials=trials(PERU))
    project.record(made="rerun", trials=trials(PERU))
    (project.store.folder / "damaged").mkdir()
    (project.store.folder / "damaged" / "20261121T084159-1a2b3c.jsonl.gz").write_bytes(b"no run")
    assert found(project) is None


def test_a_run_of_this_branch_before_its_last_commit_counts(project: Project) -> None:
    project.record(trials=trials(PERU))
    project.commit()
    assert found(project) == {PERU}


def test_a_run_before_the_branch_was_made_counts(project: Project) -> None:
    project.record(trials=trials(PERU))
    project.git("switch", "-qc", "branch")
    project.commit()
    assert found(project) == {PERU}


def test_outside_git_all_runs_are_of_one_tree(project: Project) -> None:
    project.store.save(make_run(commit=None, tree=None, ref=None, trials=trials(PERU)))
    nowhere = replace(project.state, top=None, commit=None, branch=None)
    assert missed_last(project.store, git=nowhere, root=".", selection=()) == {PERU}
