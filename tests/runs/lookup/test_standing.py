"""Which run stands for a function, and which draws the runs of a line name."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pytest_llmeval.records import Case, Outcome, Run, Trial
from pytest_llmeval.runs.lookup.draws import draws_of_line
from pytest_llmeval.runs.lookup.standing import standing
from tests.runs.builders import make_call, make_run

if TYPE_CHECKING:
    from tests.runs.conftest import Project

A, B = "tests/test_a.py::test_a", "tests/test_b.py::test_b"


def run_of(functions: dict[str, int], **changes: Any) -> Run:
    """A run of functions with one case and one trial each, given this draw."""
    cases = tuple(Case(id=f"{name}[x]", function=name, repeats=1) for name in functions)
    trials = tuple(
        Trial(case=f"{name}[x]", index=0, outcome=Outcome.PASSED, calls=(make_call(draw),))
        for name, draw in functions.items()
    )
    return replace(make_run(**changes), cases=cases, trials=trials)


def record(project: Project, functions: dict[str, int], **changes: Any) -> str:
    run = run_of(functions)
    return project.record(cases=run.cases, trials=run.trials, **changes)


def drawn(project: Project, root: str = ".") -> set[int]:
    return {int(draw, 16) for draw in draws_of_line(project.refs, root=root)}


def test_of_each_function_the_newest_run_with_all_its_cases_stands(project: Project) -> None:
    full = record(project, {A: 1, B: 2})
    part = record(project, {B: 3}, selection=("tests/test_b.py",))
    record(project, {A: 4}, selection=("-k x",), partial=(A,))
    free = record(project, {B: 5})
    replayed = run_of({B: 5})
    calls = [replace(call, replayed=True) for trial in replayed.trials for call in trial.calls]
    trials = [replace(trial, calls=tuple(calls)) for trial in replayed.trials]
    record(project, {B: 5})
    project.record(cases=replayed.cases, trials=tuple(trials))  # it has nothing that was not there

    found = standing(project.store.every().runs)

    assert found[A].header.run.id == full
    assert found[B].header.run.id not in (full, part, free)
    assert not found[B].header.only_replayed


def test_draws_are_those_of_the_runs_that_stand_for_head(project: Project) -> None:
    record(project, {A: 1, B: 2})
    record(project, {B: 3}, selection=("tests/test_b.py",))
    record(project, {A: 4, B: 4}, dirty=True)

    assert drawn(project) == {1, 3}
    assert drawn(project, root="elsewhere") == set()


def test_what_head_has_no_run_of_is_that_of_its_ancestors(project: Project) -> None:
    record(project, {A: 1, B: 2})
    project.commit()
    record(project, {A: 3, B: 4})
    project.commit()
    record(project, {B: 5}, selection=("tests/test_b.py",))
    project.commit()

    assert drawn(project) == {3, 5}


def test_a_run_that_cannot_be_read_names_nothing(project: Project) -> None:
    name = record(project, {A: 1}, selection=("tests/test_a.py",))
    file = project.store.by_id(name)
    assert file is not None
    record(project, {B: 2}, selection=("tests/test_b.py",))
    file.write_bytes(file.read_bytes()[:-9])

    assert drawn(project) == {2}


def test_before_the_first_commit_nothing_is_named(project: Project) -> None:
    record(project, {A: 1})
    refs = project.refs
    refs.git = replace(refs.git, commit=None)

    assert draws_of_line(refs, root=".") == frozenset()
