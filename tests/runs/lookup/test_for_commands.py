from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_llmeval.errors import (
    BaselineError,
    BaselineNotFound,
    BaselineUnreadable,
    SettingsError,
)
from pytest_llmeval.records import Run
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.lookup.draws import draws_of_baselines, draws_of_every_run
from pytest_llmeval.runs.lookup.for_commands import (
    commits_meant,
    find_candidate,
    find_reference,
)
from pytest_llmeval.runs.lookup.refs import Baseline, Refs
from tests.runs.builders import COMMIT, make_call, make_run, make_trials

if TYPE_CHECKING:
    from tests.runs.conftest import Project


def candidate(project: Project, reference: str) -> Baseline:
    return find_candidate(reference, project.refs)


def against(project: Project, reference: str, run: Run) -> Baseline:
    return find_reference(reference, project.refs, candidate=run)


def test_a_candidate_is_named_by_file_id_last_and_commit(project: Project) -> None:
    first, last = project.record(), project.record(dirty=True)
    file = project.store.by_id(first)

    found = {name: candidate(project, name) for name in (str(file), first, "last", "main")}

    assert [each.how for each in found.values()] == ["file", "run id", "last", "commit"]
    assert [each.run.id for each in found.values()] == [first, first, last, first]
    assert found["last"].notes == ("last is dirty: tracked files differed from the commit",)


def test_a_store_that_git_tracks_is_asked_for_files_alone(project: Project) -> None:
    run_id = project.record()
    file = project.store.by_id(run_id)
    run = candidate(project, run_id).run
    project.git("add", "--force", ".llmeval/runs")

    for reference in (run_id, "last", "main"):
        with pytest.raises(SettingsError, match="git tracks"):
            candidate(project, reference)
        with pytest.raises(SettingsError, match="git tracks"):
            against(project, reference, run)
    assert candidate(project, str(file)).how == "file"


def test_no_file_takes_the_place_of_a_branch(project: Project) -> None:
    own, other = project.record(), project.record(dirty=True)
    file = project.store.by_id(other)
    assert file is not None
    for name in ("main", "other"):
        (project.top / name).write_bytes(file.read_bytes())
    project.commit()
    project.git("reset", "--quiet", "--soft", "HEAD~1")

    run = candidate(project, "main").run
    assert run.id == own
    assert against(project, "main", run).how == "commit"
    assert candidate(project, "./main").run.id == other
    with pytest.raises(SettingsError, match="it is tracked by git"):
        candidate(project, "other")


def test_a_run_of_an_outage_is_no_candidate_of_a_branch(project: Project) -> None:
    good = project.record()
    outage = project.record(trials=make_trials(20, errored=2))
    assert candidate(project, "main").run.id == good
    assert candidate(project, outage).run.id == outage


def test_a_commit_that_has_only_runs_of_an_outage_says_so(project: Project) -> None:
    outage = project.record(trials=make_trials(20, errored=2))
    run = candidate(project, outage).run

    for find in (lambda: candidate(project, "main"), lambda: against(project, project.head, run)):
        with pytest.raises(
            BaselineNotFound, match=r"will do \(.*2 of 20 trials errored\)\. Record"
        ):
            find()


def test_a_branch_without_a_run_means_the_nearest_one_before_it(project: Project) -> None:
    run_id, first = project.record(), project.head
    project.commit()
    project.record(complete=False)

    found = candidate(project, "main")
    assert (found.run.id, found.substitute, found.distance) == (run_id, True, 1)
    (note,) = (note for note in found.notes if "has no run" in note)
    assert note == f"main: {project.head[:7]} has no run, this is that of {first[:7]}, 1 behind"
    assert candidate(project, "HEAD~1").run.id == run_id
    for name in ("HEAD~0", project.head):
        with pytest.raises(
            BaselineNotFound, match=r"no run of .* will do \(passed over: run .*, incomplete: "
        ):
            candidate(project, name)


def test_what_is_judged_is_of_that_very_commit_or_of_its_files(project: Project) -> None:
    run_id, first = project.record(), project.head
    project.commit()
    with pytest.raises(BaselineNotFound, match="main: no complete run of a clean tree"):
        find_candidate("main", project.refs, exact=True)
    project.git("reset", "--quiet", "--hard", first)
    project.git("commit", "--quiet", "--amend", "--message=reworded")

    found = find_candidate("main", project.refs, exact=True)

    assert found.run.id == run_id
    assert found.notes[-1].endswith("with the same files")


def test_a_branch_that_is_at_origin_alone_is_found(project: Project) -> None:
    run_id = project.record()
    project.git("update-ref", "refs/remotes/origin/shared", "HEAD")

    assert candidate(project, "shared").run.id == run_id


def test_runs_of_a_name_are_those_of_its_own_commit_and_of_a_session(project: Project) -> None:
    base = project.head
    project.git("switch", "--quiet", "--create", "feature")
    project.commit()
    project.git("switch", "--quiet", "main")
    tip = project.commit()
    project.git("switch", "--quiet", "feature")

    assert commits_meant("main", project.refs, among={base, tip}) == {base, tip}
    assert commits_meant("main", project.refs, among={base}) == {base}
    assert commits_meant("nothing", project.refs, among={base}) == set()
    assert commits_meant(tip, project.refs, among={base}) == set()


def test_a_candidate_is_the_newest_run_that_is_no_part_of_another(project: Project) -> None:
    first = project.record(selection=("tests",))
    project.record(selection=("tests", "-k a"))
    assert candidate(project, "main").run.id == first
    everything = project.record()
    project.record(selection=("tests",))
    assert candidate(project, "main").run.id == everything
    again = project.record()
    assert candidate(project, "main").run.id == again


def test_last_is_the_newest_run_besides_the_candidate(project: Project) -> None:
    first, last = project.record(), project.record()

    assert against(project, "last", candidate(project, last).run).run.id == first
    assert against(project, "last", candidate(project, first).run).run.id == last


def test_a_branch_leads_to_its_merge_base_with_the_candidate(project: Project) -> None:
    base = project.record()
    project.git("switch", "--quiet", "--create", "side")
    project.commit()
    side = candidate(project, project.record()).run
    project.git("switch", "--quiet", "main")
    project.commit()
    ahead = project.record()

    found = against(project, "main", side)

    assert (found.run.id, found.how, found.distance, found.notes) == (base, "merge-base", 0, ())
    assert against(project, project.head, side).run.id == ahead  # a commit is that very one


def test_a_branch_leads_to_its_nearest_ancestor_with_a_run(project: Project) -> None:
    base = project.record()
    project.commit()
    project.record(dirty=True)
    project.git("switch", "--quiet", "--create", "side")
    project.commit()

    found = against(project, "main", candidate(project, project.record()).run)

    assert (found.run.id, found.distance) == (base, 1)
    assert (found.substitute, found.notes) == (True, ())


def test_a_branch_of_another_history_is_taken_at_its_own_commit(project: Project) -> None:
    base = project.record()
    project.git("switch", "--quiet", "--orphan", "other")
    project.commit()

    found = against(project, "main", candidate(project, project.record()).run)

    assert (found.run.id, found.how) == (base, "commit")


def test_a_candidate_outside_git_takes_the_commit_itself(project: Project) -> None:
    base = project.record()
    assert against(project, "main", make_run(commit=None)).run.id == base


def test_a_branch_without_a_run_is_refused(project: Project) -> None:
    project.commit()
    with pytest.raises(BaselineNotFound, match=r"or its 1 nearest ancestors in .*git switch"):
        against(project, "main", make_run(commit=project.head))


def test_a_full_hash_needs_no_repository(project: Project) -> None:
    known = project.record(commit=COMMIT)
    absent = GitState(top=None, absent="git is not here")

    assert find_candidate(COMMIT, Refs(project.store, absent)).run.id == known
    with pytest.raises(BaselineError, match=r"main: no table, .*, and git is not here. List them"):
        find_candidate("main", Refs(project.store, absent))


def test_a_name_that_leads_nowhere_is_told_what_is_near(project: Project) -> None:
    with pytest.raises(BaselineError, match=r"nor a commit, branch or tag. Did you mean main"):
        candidate(project, "mian")
    with pytest.raises(BaselineError, match="List them: llmeval list"):
        candidate(project, "zzz")
    with pytest.raises(BaselineNotFound, match=r"last: no run in .*runs. Record one: pytest"):
        candidate(project, "last")
    only = candidate(project, project.record()).run
    with pytest.raises(BaselineNotFound, match=f"last: no run besides {only.id}"):
        against(project, "last", only)


def test_a_damaged_run_file_is_refused(project: Project) -> None:
    (project.top / "noise.run").write_bytes(b"noise")
    with pytest.raises(BaselineUnreadable, match="no run file"):
        candidate(project, "noise.run")


def record(project: Project, draw: int) -> str:
    trials = make_trials(1, calls=[make_call(draw), make_call(draw + 100, draw=None)])
    return project.record(trials=trials)


def draw(index: int) -> str:
    return f"{index:032x}"


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
    found = draws_of_baselines(["main"], project.refs)
    assert found == {draw(1), draw(2), draw(3)}

    found = draws_of_baselines(["main"], replace(project.refs, reach=0))
    assert found == {draw(2), draw(3)}


def test_no_file_takes_the_place_of_a_ref(project: Project) -> None:
    file = project.store.by_id(record(project, 1))
    assert file is not None
    file.rename(project.top / "main")
    record(project, 2)
    found = draws_of_baselines(["main"], project.refs)
    assert found == {draw(2)}


def test_several_names_keep_what_each_keeps(project: Project) -> None:
    first = record(project, 1)
    project.commit()
    second = record(project, 2)
    record(project, 3)
    found = draws_of_baselines([first, second], project.refs)
    assert found == {draw(1), draw(2)}


def test_a_ref_without_a_run_is_refused(project: Project) -> None:
    with pytest.raises(BaselineNotFound, match="nothing would be kept"):
        draws_of_baselines(["main"], project.refs)


def test_a_name_that_leads_nowhere_is_refused(project: Project) -> None:
    with pytest.raises(BaselineError, match="'mian' is no run file"):
        draws_of_baselines(["mian"], project.refs)


def test_a_commit_that_is_not_in_this_clone_is_refused(project: Project) -> None:
    with pytest.raises(BaselineError, match=r"'b{40}' is no run file"):
        draws_of_baselines(["b" * 40], project.refs)


def test_a_ref_outside_git_is_refused(project: Project) -> None:
    with pytest.raises(BaselineError, match="no git here"):
        draws_of_baselines(["main"], Refs(project.store, GitState(top=None, absent="no git here")))


def test_the_beginning_of_run_ids_is_told_what_to_type(project: Project) -> None:
    first, _ = project.record(), project.record()

    with pytest.raises(BaselineError, match="is the beginning of 2 run ids: type a whole one"):
        candidate(project, first[:2])
    with pytest.raises(BaselineError, match=f"is the beginning of a run id: .* it, {first}"):
        candidate(project, first[:-1])
