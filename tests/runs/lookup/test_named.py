from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_llmeval.errors import BaselineError, BaselineNotFound, BaselineUnreadable
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.lookup.for_commands import (
    draws_of_baselines,
    draws_of_every_run,
    run_named,
)
from tests.runs.builders import make_call, make_trials

if TYPE_CHECKING:
    from tests.runs.conftest import Project


def record(project: Project, draw: int) -> str:
    trials = make_trials(1, calls=[make_call(draw), make_call(draw + 100, draw=None)])
    return project.record(trials=trials)


def draw(index: int) -> str:
    return f"{index:032x}"


def test_a_run_is_named_by_file_id_and_last(project: Project) -> None:
    first, last = record(project, 1), record(project, 2)
    file = project.store.by_id(first)
    assert run_named(str(file), store=project.store, git=project.state).id == first
    assert run_named(first, store=project.store, git=project.state).id == first
    assert run_named("last", store=project.store, git=project.state).id == last


@pytest.mark.parametrize("name", ["last", "main", "20261121T084100-000000"])
def test_a_name_without_a_run_is_refused(project: Project, name: str) -> None:
    with pytest.raises(BaselineNotFound, match=f"no run '{name}'"):
        run_named(name, store=project.store, git=project.state)


def test_the_draws_of_every_run_are_those_that_got_a_reply(project: Project) -> None:
    assert draws_of_every_run(project.store) == frozenset()
    record(project, 1)
    project.commit()
    record(project, 2)
    assert draws_of_every_run(project.store) == {draw(1), draw(2)}


def test_a_damaged_run_is_no_run_without_draws(project: Project) -> None:
    file = project.store.by_id(record(project, 1))
    assert file is not None
    file.write_bytes(b"noise")
    with pytest.raises(BaselineUnreadable):
        draws_of_every_run(project.store)


def test_a_ref_keeps_every_run_of_its_commit_and_of_its_ancestors(project: Project) -> None:
    record(project, 1)
    project.commit()
    record(project, 2)
    record(project, 3)
    project.git("switch", "--quiet", "--create", "side")
    project.commit()
    record(project, 4)
    found = draws_of_baselines(["main"], store=project.store, git=project.state)
    assert found == {draw(1), draw(2), draw(3)}


def test_no_file_takes_the_place_of_a_ref(project: Project) -> None:
    file = project.store.by_id(record(project, 1))
    assert file is not None
    file.rename(project.top / "main")
    record(project, 2)
    found = draws_of_baselines(["main"], store=project.store, git=project.state)
    assert found == {draw(2)}


def test_several_names_keep_what_each_keeps(project: Project) -> None:
    first = record(project, 1)
    project.commit()
    second = record(project, 2)
    record(project, 3)
    found = draws_of_baselines([first, second], store=project.store, git=project.state)
    assert found == {draw(1), draw(2)}


def test_a_ref_without_a_run_is_refused(project: Project) -> None:
    with pytest.raises(BaselineNotFound, match="nothing would be kept"):
        draws_of_baselines(["main"], store=project.store, git=project.state)


def test_a_name_that_leads_nowhere_is_refused(project: Project) -> None:
    with pytest.raises(BaselineError, match="'mian' is no run file"):
        draws_of_baselines(["mian"], store=project.store, git=project.state)


def test_a_ref_outside_git_is_refused(project: Project) -> None:
    with pytest.raises(BaselineError, match="no git here"):
        draws_of_baselines(
            ["main"], store=project.store, git=GitState(top=None, absent="no git here")
        )
