from __future__ import annotations

import gzip
import shutil
import subprocess
from dataclasses import replace

import pytest

from pytest_llmeval.errors import (
    BaselineError,
    BaselineNotFound,
    BaselineUnlike,
    BaselineUnreadable,
    Lost,
    SettingsError,
)
from pytest_llmeval.records import Outcome
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.git import read_state
from pytest_llmeval.runs.lookup.session_baseline import find_baseline
from pytest_llmeval.settings import Settings
from tests.runs.builders import make_call, make_run, make_trials
from tests.runs.conftest import Project


def find(project, reference, *, root=".", selection=(), models=None, typed_model=None, **demands):
    return find_baseline(
        reference,
        project.refs,
        Settings(session="", typed_model=typed_model),
        root=root,
        selection=selection,
        models=models,
        **demands,
    )


def refusal(error, project, reference, **session) -> list[str]:
    """The lines of the message with which a reference is refused."""
    with pytest.raises(error) as caught:
        find(project, reference, **session)
    assert type(caught.value) is error
    return str(caught.value).split("\n")


def branch_off(project, name="shorter-prompt"):
    """A commit on a branch of its own; returns the commit it grew from."""
    base = project.head
    project.git("switch", "--quiet", "--create", name)
    (project.top / "prompt.txt").write_text("Name it.\n")
    project.commit()
    return base


def damage(path):
    """The header stays good; only who reads on will notice."""
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-9] + b"\n"))


# --- branches ----------------------------------------------------------------------------


def test_a_branch_is_held_against_the_merge_base(project):
    run_id = project.record()
    base = branch_off(project)
    baseline = find(project, "main")
    assert baseline.run == make_run(id=run_id, commit=base)
    assert baseline.path == project.store.by_id(run_id)
    assert (baseline.reference, baseline.run.commit) == ("main", base)
    assert (baseline.how, baseline.distance, baseline.notes) == ("merge-base", 0, ())


def test_what_main_did_since_does_not_count(project):
    run_id = project.record()
    branch_off(project)
    project.git("switch", "--quiet", "main")
    project.commit()
    project.record()
    project.git("switch", "--quiet", "shorter-prompt")
    assert find(project, "main").run.id == run_id


def test_a_dirty_branch_is_held_against_the_merge_base_too(project):
    run_id = project.record()
    branch_off(project)
    (project.top / "prompt.txt").write_text("Name the capital in one word.\n")
    assert find(project, "main").run.id == run_id


def test_the_merge_commit_of_a_pull_request_leads_to_main(project):
    branch_off(project)
    project.git("switch", "--quiet", "main")
    project.commit()
    run_id = project.record()
    project.git("switch", "--quiet", "--detach")
    project.git("merge", "--quiet", "--no-ff", "--message=merge", "shorter-prompt")
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.how, baseline.distance) == (run_id, "merge-base", 0)


def test_a_detached_head_has_a_merge_base_too(project):
    run_id = project.record()
    branch_off(project)
    project.git("switch", "--quiet", "--detach")
    assert find(project, "main").run.id == run_id


def test_a_tag_leads_to_its_merge_base(project):
    run_id = project.record()
    project.git("tag", "--annotate", "--message=one", "v1")
    branch_off(project)
    baseline = find(project, "v1")
    assert (baseline.run.id, baseline.how) == (run_id, "merge-base")


def test_a_branch_that_only_origin_has_will_do(project):
    run_id = project.record()
    branch_off(project)
    project.git("update-ref", "refs/remotes/origin/main", "main")
    project.git("branch", "--quiet", "--delete", "--force", "main")
    assert find(project, "main").run.id == run_id


def test_the_nearest_ancestor_stands_in_and_is_announced(project):
    run_id = project.record()
    project.commit()
    base = project.commit()
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.how, baseline.distance) == (run_id, "merge-base", 2)
    assert baseline.run.commit != base
    assert (baseline.wanted, baseline.substitute, baseline.notes) == (base, True, ())


def test_the_nearest_of_several_ancestors_is_taken(project):
    project.record()
    project.commit()
    nearer = project.record()
    project.commit()
    branch_off(project)
    assert find(project, "main").run.id == nearer


def test_an_ancestor_off_the_first_parents_does_not_stand_in(project):
    branch_off(project, "merged")
    project.record()
    project.git("switch", "--quiet", "main")
    project.commit()
    project.git("merge", "--quiet", "--no-ff", "--message=merge", "merged")
    branch_off(project)
    refusal(BaselineNotFound, project, "main")


@pytest.fixture
def long_history(project):
    """The first commit has a run, and 50 more follow it on main."""
    project.record()
    for _ in range(50):
        project.commit()
    return project


def test_the_fiftieth_ancestor_will_do(long_history):
    branch_off(long_history)
    assert find(long_history, "main").distance == 50


def test_the_fifty_first_ancestor_is_too_far(long_history):
    base = long_history.commit()
    branch_off(long_history)
    first, rerun, last = refusal(BaselineNotFound, long_history, "main")
    assert first == (
        f"--llm-baseline=main: no complete run recorded for main (merge-base {base[:7]}) "
        "or its 50 nearest ancestors in .llmeval/runs."
    )
    assert rerun == "       Run its evals now, in a worktree:  add --llm-on-missing=rerun"
    assert last == (
        "       Record one:  git switch main && pytest"
        "      or, if that has no evals, run without a comparison:  add --llm-on-missing=warn"
    )


# --- in CI ---------------------------------------------------------------------------------


def queued(project, base: str) -> CiFacts:
    """The facts of an entry of a merge queue at HEAD."""
    return CiFacts(
        provider="github", event="merge_group", commit=project.head, target="main", base=base
    )


@pytest.mark.parametrize("reference", ["main", "auto"])
def test_ci_names_the_commit(reference, project):
    base = branch_off(project)
    run_id = project.record(base)
    project.git("branch", "--quiet", "--move", "main", "trunk")
    project.ci = queued(project, base)
    baseline = find(project, reference)
    assert (baseline.run.id, baseline.how, baseline.distance) == (run_id, "named by CI", 0)
    assert (baseline.reference, baseline.notes) == ("main", ())


def test_ci_names_a_commit_without_a_run(project):
    base = branch_off(project)
    project.ci = queued(project, base)
    first, *_ = refusal(BaselineNotFound, project, "auto")
    named = f"--llm-baseline=auto: no complete run recorded for main (CI names {base[:7]})"
    assert first.startswith(named)


def test_what_ci_names_is_no_file(project):
    (project.top / "main").write_text("no run\n")
    base = branch_off(project)
    run_id = project.record(base)
    project.git("branch", "--quiet", "--move", "main", "trunk")
    project.ci = queued(project, base)
    assert find(project, "main").run.id == run_id


@pytest.mark.parametrize("reference", ["main", "other"])
def test_what_ci_says_wrongly_is_said_where_nothing_is_found(reference, project):
    project.git("branch", "--quiet", "--move", "main", "other")
    project.ci = replace(queued(project, "0" * 40), complaints=("GITHUB_SHA is empty",))
    error = BaselineError if reference == "main" else BaselineNotFound
    lines = refusal(error, project, reference)
    assert "       GITHUB_SHA is empty: the baseline is looked up as on a laptop" in lines


def test_an_unknown_branch_names_the_default_one(project):
    project.git("branch", "--quiet", "--move", "main", "trunk")
    project.ci = CiFacts(provider="github", default_branch="trunk")
    *_, todo = refusal(BaselineError, project, "main")
    assert todo.endswith("or take the default branch, trunk:  pytest --llm-baseline=auto")


def test_auto_without_a_default_branch_says_what_to_type(project):
    project.git("remote", "add", "origin", "nowhere")
    *_, said, _ = refusal(BaselineError, project, "auto")
    assert said.strip().endswith("Name it:  pytest --llm-baseline=BRANCH")


def test_a_stale_local_branch_is_named(project):
    base = branch_off(project)
    run_id = project.record(base)
    project.git("update-ref", "refs/remotes/origin/main", base)
    older = project.git("commit-tree", "-m", "older", f"{base}^{{tree}}")
    project.git("branch", "--quiet", "--force", "main", older)
    baseline = find(project, "main")
    assert baseline.run.id == run_id
    assert baseline.notes == ("the local branch main is stale: origin/main has 1 commit more",)


# --- on the branch itself ----------------------------------------------------------------


def test_a_clean_main_is_held_against_the_nearest_earlier_run(project):
    earlier = project.record()
    project.commit()
    project.record()
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.how, baseline.distance) == (earlier, "earlier commit", 1)
    assert baseline.notes == ()


def test_a_clean_main_without_an_earlier_run_is_held_against_its_own(project):
    parent = project.head
    project.commit()
    own = project.record()
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.how, baseline.distance) == (own, "this very commit", 0)
    assert baseline.notes == (
        f"passed over: 1 earlier commit without a run that will do, {parent[:7]} first of all",
    )


def test_a_dirty_main_is_held_against_its_own_run(project):
    project.record()
    project.commit()
    own = project.record()
    (project.top / "prompt.txt").write_text("Name it.\n")
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.how, baseline.notes) == (own, "this very commit", ())


def test_a_dirty_main_without_a_run_of_its_own_is_held_against_an_earlier_one(project):
    earlier = project.record()
    project.commit()
    (project.top / "prompt.txt").write_text("Name it.\n")
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.how, baseline.distance) == (earlier, "earlier commit", 1)
    assert "1 nearer commit" in baseline.notes[0]


def test_another_branch_at_the_same_commit_is_the_same_case(project):
    earlier = project.record()
    project.commit()
    project.record()
    project.git("switch", "--quiet", "--create", "same")
    assert find(project, "main").run.id == earlier


def test_head_behind_main_is_its_own_merge_base(project):
    project.record()
    project.commit()
    own = project.record()
    project.git("branch", "--quiet", "behind")
    project.commit()
    project.record()
    project.git("switch", "--quiet", "behind")
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.how) == (own, "this very commit")


# --- a commit ----------------------------------------------------------------------------


@pytest.mark.parametrize("length", [40, 10])
def test_a_commit_is_taken_exactly(length, project):
    run_id = project.record()
    commit = project.head
    project.commit()
    project.record()
    baseline = find(project, commit[:length])
    assert (baseline.run.id, baseline.how, baseline.run.commit) == (run_id, "commit", commit)


def test_an_expression_is_a_commit_taken_exactly(project):
    run_id = project.record()
    project.commit()
    assert find(project, "HEAD~1").run.id == run_id


def test_no_ancestor_stands_in_for_a_commit(project):
    project.record()
    commit = project.commit()
    project.commit()
    first, *_ = refusal(BaselineNotFound, project, commit)
    assert first.endswith(f"no complete run recorded for {commit} in .llmeval/runs.")


def test_heads_own_hash_is_this_very_commit(project):
    project.record()
    project.commit()
    own = project.record()
    baseline = find(project, project.head.upper())
    assert (baseline.run.id, baseline.how) == (own, "this very commit")


def test_a_full_hash_needs_no_git(project, no_git):
    run_id = project.record("c" * 40)
    baseline = find(project, "C" * 40)
    assert (baseline.run.id, baseline.how) == (run_id, "commit")


# --- which run of a commit ---------------------------------------------------------------


def test_the_newest_run_of_the_commit_is_taken(project):
    project.record()
    newest = project.record()
    branch_off(project)
    assert find(project, "main").run.id == newest


def test_an_older_run_with_the_same_models_goes_first(project):
    same = project.record(models=("a/x", "a/judge"))
    project.record(models=("b/y", "a/judge"))
    branch_off(project)
    baseline = find(project, "main", models=frozenset({"a/x", "a/judge"}))
    assert (baseline.run.id, baseline.notes) == (same, ())


def test_the_same_models_go_before_these_and_others(project):
    same = project.record(models=("a/x",))
    project.record(models=("a/x", "a/judge"))
    branch_off(project)
    assert find(project, "main", models=frozenset({"a/x"})).run.id == same


def test_these_models_and_others_go_before_other_models(project):
    more = project.record(models=("a/x", "a/judge"))
    project.record(models=("b/y",))
    branch_off(project)
    baseline = find(project, "main", models=frozenset({"a/x"}))
    assert (baseline.run.id, baseline.notes) == (more, ())


def test_a_run_for_which_another_model_was_typed_goes_last_and_is_named(project):
    alone = project.record(models=("a/new",), typed_model="a/new")
    branch_off(project)
    new = frozenset({"a/new"})
    baseline = find(project, "main", models=new)
    note = "--llm-model=a/new was typed for the baseline's run, and is not here"
    assert (baseline.run.id, baseline.notes) == (alone, (note,))

    project.git("switch", "--quiet", "main")
    own = project.record(models=("a/old",))
    project.record(models=("a/new",), typed_model="a/new")
    project.git("switch", "--quiet", "-")

    assert find(project, "main", models=new).run.id == own
    typed = find(project, "main", models=new, typed_model="a/new")
    assert typed.run.id not in (alone, own)
    assert typed.notes == ()


def test_the_newest_run_of_other_models_comes_with_a_warning(project):
    project.record(models=("b/y",))
    newest = project.record(models=("b/y", "b/judge"))
    branch_off(project)
    baseline = find(project, "main", models=frozenset({"a/x"}))
    assert baseline.run.id == newest
    assert baseline.notes == ("other models: it asked 'b/judge', 'b/y', this session asks 'a/x'",)


REPLAYED = make_trials(5, calls=[make_call(replayed=True)])
PAID = make_trials(10, calls=[make_call()])
DOWN = make_trials(300, errored=300, calls=[make_call(draw=None, lost=Lost.STATUS)])
CANNOT_JUDGE = "the gate may not be able to judge"


def test_a_newer_run_that_only_replayed_does_not_replace_one_that_paid(project):
    paid = project.record(trials=PAID)
    project.record(trials=REPLAYED)
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.notes) == (paid, ())


def test_a_newer_run_that_paid_for_a_part_is_taken(project):
    project.record(trials=PAID)
    newest = project.record(
        trials=make_trials(5, calls=[make_call(replayed=True)]) + PAID[5:6],
    )
    branch_off(project)
    assert find(project, "main").run.id == newest


def test_a_newer_run_without_any_call_is_taken(project):
    project.record(trials=PAID)
    newest = project.record(trials=make_trials(10))
    branch_off(project)
    assert find(project, "main").run.id == newest


def test_the_newest_of_the_runs_that_only_replayed_will_do(project):
    project.record(trials=REPLAYED)
    newest = project.record(trials=REPLAYED)
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.notes) == (newest, ())


def test_a_newer_run_without_a_provider_does_not_hide_a_good_one(project):
    good = project.record(trials=PAID)
    project.record(trials=DOWN)
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.notes) == (good, ())


def test_a_newer_run_with_a_few_errored_trials_is_taken(project):
    project.record(trials=PAID)
    newest = project.record(trials=make_trials(20, errored=1))
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.notes) == (newest, ())


CRASHED = tuple(
    replace(trial, outcome=Outcome.CRASHED, message="OSError app.py:3") for trial in make_trials(20)
)


def test_a_newer_run_that_crashed_does_not_hide_a_good_one(project):
    good = project.record(trials=PAID)
    crashed = project.record(trials=CRASHED)
    branch_off(project)
    baseline = find(project, "main")
    assert baseline.run.id == good
    (note,) = baseline.notes
    assert note.startswith(f"passed over: run {crashed} of ")
    assert note.endswith(", 20 of 20 trials of test_a crashed before they asked anything "
                         "(OSError app.py:3)")  # fmt: skip


def test_a_run_that_crashed_stands_for_no_commit(project):
    project.record(trials=CRASHED)
    branch_off(project)
    _, passed_over, *_ = refusal(BaselineNotFound, project, "main")
    assert "20 of 20 trials of test_a crashed" in passed_over


def test_skipped_trials_do_not_cover_up_errored_ones(project):
    good = project.record(trials=PAID)
    project.record(trials=make_trials(40, errored=2, skipped=30))
    branch_off(project)
    assert find(project, "main").run.id == good


def test_the_same_models_go_before_everything_else(project):
    calls = [make_call(model="a/x", replayed=True)]
    same = project.record(trials=make_trials(20, calls=calls))
    project.record(models=("b/y",))
    branch_off(project)
    assert find(project, "main", models=frozenset({"a/x"})).run.id == same


@pytest.mark.parametrize("reference", ["main", "commit"])
def test_a_run_without_a_provider_stands_for_no_ref(reference, project):
    project.record(trials=DOWN)
    named = {"commit": project.head}.get(reference, reference)
    _, passed_over, *_ = refusal(BaselineNotFound, project, named)
    assert passed_over.endswith(f"of {project.head[:7]}, 300 of 300 trials errored")


def test_the_run_before_an_outage_stands_in(project):
    good = project.record(trials=PAID)
    project.commit()
    project.record(trials=DOWN)
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.substitute, baseline.distance) == (good, True, 1)
    assert "300 of 300 trials errored" in baseline.notes[0]


@pytest.mark.parametrize("reference", ["last", "id", "file"])
def test_errored_trials_of_the_baseline_are_told_however_it_was_named(reference, project):
    run_id = project.record(trials=make_trials(50, errored=3, skipped=10))
    names = {"id": run_id, "file": str(project.store.by_id(run_id))}
    baseline = find(project, names.get(reference, reference))
    assert baseline.notes == (f"3 of 40 trials of the baseline are errored: {CANNOT_JUDGE}",)


@pytest.mark.parametrize("reference", ["main", "last"])
def test_a_few_errored_trials_of_the_baseline_are_not_told(reference, project):
    project.record(trials=make_trials(40, errored=2))
    assert find(project, reference).notes == ()


def test_a_single_errored_trial_is_not_told_as_the_gate_judges_all_the_same(project):
    project.record(trials=make_trials(10, errored=1))
    assert find(project, "last").notes == ()


def test_dirty_and_incomplete_runs_do_not_hide_a_good_one(project):
    good = project.record()
    project.record(dirty=True)
    project.record(complete=False)
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.notes) == (good, ())


def test_the_message_tells_of_dirty_and_incomplete_runs(project):
    project.record(dirty=True)
    project.record(dirty=True)
    project.record(complete=False, trials=make_run().trials[:3])
    base = branch_off(project)
    _, incomplete, dirty, *_ = refusal(BaselineNotFound, project, "main")
    assert incomplete == f"       passed over: 1 run of {base[:7]}, incomplete: 3 of 4 trials"
    unlike = f"2 runs of {base[:7]}, dirty: tracked files differed from the commit"
    assert dirty == f"       passed over: {unlike}"


def test_the_notes_tell_of_them_where_an_ancestor_stands_in(project):
    project.record()
    project.commit()
    project.record(complete=False)
    base = branch_off(project)
    assert find(project, "main").notes[0] == (
        f"passed over: 1 run of {base[:7]}, incomplete: not everything was collected"
    )


def test_a_run_of_another_commit_in_the_folder_is_not_taken(project):
    run_id = project.record("c" * 40)
    folder = project.store.folder / project.head
    folder.mkdir()
    project.store.by_id(run_id).rename(folder / f"{run_id}.jsonl.gz")
    branch_off(project)
    assert "not recorded for the commit" in refusal(BaselineNotFound, project, "main")[1]


@pytest.mark.parametrize("spoil", [damage, lambda path: path.write_bytes(b"")])
def test_a_damaged_run_gives_way_to_a_good_one(spoil, project):
    good = project.record()
    damaged = project.store.by_id(project.record())
    spoil(damaged)
    branch_off(project)
    baseline = find(project, "main")
    assert baseline.run.id == good
    assert len(baseline.notes) == 1
    assert baseline.notes[0].startswith(f"passed over: {damaged} is ")


def test_the_message_tells_of_damaged_runs_but_not_of_all(project):
    for _ in range(5):
        damage(project.store.by_id(project.record()))
    branch_off(project)
    lines = refusal(BaselineNotFound, project, "main")
    assert sum("is damaged" in line for line in lines) == 3
    assert lines[4] == "       passed over: 2 more"
    assert len(lines) == 7


# --- the same folder, the same tests -----------------------------------------------------


def test_rootpath_in_a_subfolder(project):
    run_id = project.record(root="packages/bot")
    branch_off(project)
    assert find(project, "main", root="packages/bot").run.id == run_id


def test_a_run_of_another_folder_is_unlike(project):
    project.record(root="packages/old")
    run_id = project.record(root="packages/bot")
    base = branch_off(project)
    first, second = refusal(BaselineUnlike, project, "main")
    assert first == (
        f"--llm-baseline=main: run {run_id} of {base[:7]}: "
        "it was recorded with rootdir 'packages/bot', this session has '.'."
    )
    assert second == "       Record one that fits:  pytest"


def test_a_run_of_fewer_tests_is_unlike(project):
    project.record(selection=("tests/a",))
    branch_off(project)
    first, _ = refusal(BaselineUnlike, project, "main", selection=["tests/b"])
    assert "it covers 'tests/a', this session 'tests/b'" in first


def test_a_run_of_fewer_tests_is_unlike_a_session_of_all(project):
    project.record(selection=("tests/a",))
    branch_off(project)
    first, _ = refusal(BaselineUnlike, project, "main")
    assert "it covers 'tests/a', this session everything" in first


def test_a_run_of_everything_covers_any_tests(project):
    run_id = project.record()
    branch_off(project)
    assert find(project, "main", selection=["tests/a"]).run.id == run_id


def test_an_unlike_run_does_not_hide_one_of_the_same_commit(project):
    alike = project.record()
    project.record(root="packages/bot")
    branch_off(project)
    baseline = find(project, "main")
    assert (baseline.run.id, baseline.notes) == (alike, ())


def test_an_unlike_run_gives_way_to_one_of_an_ancestor_and_is_mentioned(project):
    alike = project.record()
    project.commit()
    project.record(selection=("tests/a",))
    unlike = branch_off(project)
    baseline = find(project, "main")
    assert baseline.run.id == alike
    assert baseline.notes[0] == (
        f"passed over: 1 run of {unlike[:7]}, it covers 'tests/a', this session everything"
    )


@pytest.mark.parametrize("reference", ["last", "id", "file"])
def test_a_named_run_of_another_folder_is_unlike(reference, project):
    run_id = project.record(root="packages/bot")
    names = {"last": "last", "id": run_id, "file": str(project.store.by_id(run_id))}
    first, _ = refusal(BaselineUnlike, project, names[reference])
    assert f"run {run_id}: it was recorded with rootdir 'packages/bot'" in first


# --- named by file, by id, last ----------------------------------------------------------


def test_a_file_is_taken_as_it_is(project, tmp_path):
    stored = project.store.by_id(project.record())
    elsewhere = tmp_path / "main.jsonl.gz"
    shutil.copy(stored, elsewhere)
    baseline = find(project, str(elsewhere))
    assert (baseline.run, baseline.path) == (project.store.load(stored), elsewhere)
    assert (baseline.how, baseline.notes) == ("file", ())


def test_a_run_id_is_taken(project):
    run_id = project.record()
    project.record()
    baseline = find(project, run_id)
    assert (baseline.run.id, baseline.how) == (run_id, "run id")


def test_last_is_the_newest_run_of_any_kind(project):
    project.record()
    newest = project.record("c" * 40, dirty=True)
    baseline = find(project, "last")
    assert (baseline.run.id, baseline.how) == (newest, "last")


def test_what_a_named_run_is_is_said(project):
    run_id = project.record("c" * 40, dirty=True, complete=False, partial=("tests/a.py::test_x",))
    assert find(project, run_id).notes == (
        "dirty: tracked files differed from the commit",
        "incomplete: not everything was collected",
        "partial: not collected in full: 1 test function",
        f"recorded for commit ccccccc, HEAD is commit {project.head[:7]}",
    )


def test_a_named_run_of_no_commit_says_so(project):
    project.store.save(make_run(commit=None))
    assert find(project, "last").notes == (
        f"recorded for no commit, HEAD is commit {project.head[:7]}",
    )


def test_last_in_an_empty_store(project):
    first, second = refusal(BaselineNotFound, project, "last")
    assert first == "--llm-baseline=last: no run is recorded in .llmeval/runs."
    assert "Record one:  pytest " in second


def test_last_passes_over_a_damaged_run_and_says_so(project):
    good = project.record()
    damage(project.store.by_id(project.record()))
    baseline = find(project, "last")
    assert baseline.run.id == good
    assert baseline.notes[0].startswith("passed over: ")


@pytest.mark.parametrize("reference", ["id", "file"])
def test_a_damaged_run_that_was_named_is_the_error(reference, project):
    run_id = project.record()
    path = project.store.by_id(run_id)
    damage(path)
    (line,) = refusal(BaselineUnreadable, project, run_id if reference == "id" else str(path))
    assert line.startswith(f"{path} is damaged")


def plant(project, name):
    """Put a run of another commit into a file; returns its id."""
    run_id = project.record("c" * 40)
    (project.top / name).parent.mkdir(exist_ok=True)
    shutil.copy(project.store.by_id(run_id), project.top / name)
    project.store.by_id(run_id).unlink()
    return run_id


@pytest.mark.parametrize("reference", ["runs.jsonl.gz", "./main", "{top}/main", "../project/main"])
def test_a_file_is_meant_by_a_name_that_looks_like_a_path(reference, project):
    project.git("branch", "runs.jsonl.gz")
    project.record()
    planted = plant(project, reference.replace("{top}/", "").replace("../project/", ""))
    project.commit()  # that it is tracked does not matter then
    baseline = find(project, reference.replace("{top}", str(project.top)))
    assert (baseline.how, baseline.run.id) == ("file", planted)


def test_a_file_is_meant_by_a_path_from_the_home_directory(project, monkeypatch):
    monkeypatch.setenv("HOME", str(project.top))
    monkeypatch.setenv("USERPROFILE", str(project.top))
    plant(project, "kept")
    assert find(project, "~/kept").how == "file"


@pytest.mark.parametrize("name", ["main", "v1", "origin/main", "upstream/main", "last", "{head}"])
@pytest.mark.parametrize("is_tracked", [True, False])
def test_no_file_takes_the_place_of_what_has_its_name(name, is_tracked, project):
    own = project.record()
    project.git("tag", "v1")
    for remote in ("origin", "upstream"):
        project.git("update-ref", f"refs/remotes/{remote}/main", "main")
    name = name.format(head=project.head)
    branch_off(project)
    planted = plant(project, name)
    if is_tracked:
        project.commit()
    baseline = find(project, name)
    assert (baseline.run.id, baseline.how == "file") == (own, False)
    assert planted != own


def test_no_file_takes_the_place_of_a_run(project):
    own, other = project.record(), plant(project, "other")
    (project.top / "other").rename(project.top / own)
    assert find(project, own).run.id == own != other


def test_a_file_that_is_no_run_does_not_hide_a_branch_of_its_name(project):
    project.git("branch", "prompt.txt")
    run_id = project.record()
    branch_off(project)
    assert find(project, "prompt.txt").run.id == run_id


def test_a_file_by_any_other_name_is_refused_if_git_tracks_it(project):
    project.record()
    planted = plant(project, "origin/main")
    assert find(project, "origin/main").run.id == planted
    project.commit()
    with pytest.raises(SettingsError, match=r"it is tracked by git.* \./origin/main$"):
        find(project, "origin/main")


def test_a_folder_does_not_hide_a_branch_of_its_name(project):
    run_id = project.record()
    branch_off(project)
    (project.top / "main").mkdir()
    assert find(project, "main").run.id == run_id


def test_files_ids_and_last_need_no_git(project, no_git):
    run_id = project.record("c" * 40)
    for reference in (str(project.store.by_id(run_id)), run_id, "last"):
        assert find(project, reference).notes == ("recorded for commit ccccccc, HEAD is no commit",)


def test_a_file_that_is_no_run_is_refused_without_git_too(project, no_git):
    (line,) = refusal(BaselineUnreadable, project, "prompt.txt")
    assert line.endswith("or name another one with --llm-baseline.")


# --- what leads nowhere ------------------------------------------------------------------


def test_an_unknown_name_is_met_with_near_ones(project):
    first, second = refusal(BaselineError, project, "mian")
    assert first == (
        "--llm-baseline=mian: no file, run id, commit, branch or tag has that name, "
        "here or at origin."
    )
    assert second == "       Did you mean main?  pytest --llm-baseline=main"


def test_the_beginning_of_run_ids_is_no_name_of_a_branch(project):
    project.record()
    (line,) = refusal(BaselineError, project, "20")
    assert "--llm-baseline=20: it is the beginning of a run id: type all of it, 20" in line
    project.record()
    (line,) = refusal(BaselineError, project, "20")
    assert line.endswith("it is the beginning of 2 run ids: type a whole one (llmeval list)")


def test_an_unknown_name_like_no_other(project):
    _, second = refusal(BaselineError, project, "zzz")
    assert "git branch --all" in second
    assert second.endswith("or take the default branch, main:  pytest --llm-baseline=auto")


def test_where_no_default_branch_is_known_none_is_named(project):
    project.git("remote", "add", "origin", "nowhere")
    _, second = refusal(BaselineError, project, "zzz")
    assert second.endswith("git branch --all && git tag")


@pytest.mark.parametrize(
    "reference", ["--help", "", "a\nb", "x" * 5000, "\ud800", "^main", "ma\x00in"]
)
def test_what_can_be_no_name_is_unknown_in_two_lines(reference, project):
    first, _ = refusal(BaselineError, project, reference)
    assert "has that name" in first


def test_a_name_is_quoted_for_the_shell(project):
    first, _ = refusal(BaselineError, project, "zzz; rm x")
    assert first.startswith("--llm-baseline='zzz; rm x': ")


def test_an_unknown_run_id_is_unknown(project):
    project.record()
    refusal(BaselineError, project, "20261121T000000-000000")


def test_unrelated_histories(project):
    project.record()
    project.git("switch", "--quiet", "--orphan", "other")
    project.commit()
    first, _ = refusal(BaselineError, project, "main")
    assert "their histories are unrelated" in first


def test_no_git(project, no_git):
    first, second = refusal(BaselineError, project, "main")
    assert "git cannot be run (not installed, or not on the PATH)" in first
    assert "pytest --llm-baseline=last" in second


def test_no_repository(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, _ = refusal(BaselineError, Project(tmp_path), "main")
    assert f"{tmp_path} is in no git repository" in first


def test_no_commits(tmp_path):
    first, _ = refusal(BaselineError, Project(tmp_path / "fresh").begin(), "main")
    assert "this repository has no commit yet" in first


# --- what to type next -------------------------------------------------------------------


def recording(project, reference) -> str:
    """The command that the message advises."""
    lines = refusal(BaselineNotFound, project, reference)
    return lines[-1].partition("Record one:  ")[2].partition("      or")[0]


def test_a_merge_base_that_main_has_left_is_checked_out_by_its_hash(project):
    base = branch_off(project)
    project.git("switch", "--quiet", "main")
    project.commit()
    project.git("switch", "--quiet", "shorter-prompt")
    assert recording(project, "main") == f"git switch --detach {base[:7]} && pytest"


def test_a_tag_is_checked_out_by_its_hash(project):
    project.git("tag", "v1")
    base = branch_off(project)
    assert recording(project, "v1") == f"git switch --detach {base[:7]} && pytest"


def test_on_main_itself_pytest_alone_records_a_run(project):
    assert recording(project, "main") == "pytest"


def test_a_dirty_tree_is_put_aside_first(project):
    branch_off(project)
    (project.top / "prompt.txt").write_text("Name it now.\n")
    assert recording(project, "main") == "git stash && git switch main && pytest"


def test_what_git_does_not_look_at_comes_first(project):
    project.record(dirty=True, unseen=("prompt.txt", "a.py"))
    project.record(dirty=True, unseen=("a.py", "b.py"))
    project.git("update-index", "--skip-worktree", "prompt.txt")
    project.git("switch", "--quiet", "--create", "side")
    *_, unknown, hidden, last = refusal(BaselineNotFound, project, "main")
    assert unknown == (
        "       First:  git add a.py and 1 more and commit, or name it in .gitignore"
    )
    assert hidden == (
        "       First:  git update-index --no-assume-unchanged, or --no-skip-worktree, prompt.txt"
    )
    assert "Record one:" in last


def test_the_advice_works(project):
    branch_off(project)
    assert recording(project, "main") == "git switch main && pytest"
    project.git("switch", "--quiet", "main")
    run_id = project.record()
    project.git("switch", "--quiet", "shorter-prompt")
    assert find(project, "main").run.id == run_id


def test_a_store_elsewhere_is_named_in_full(project, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, *_ = refusal(BaselineNotFound, project, "main")
    assert f"in {project.store.folder.relative_to(tmp_path)}." in first
    (project.top / "deep").mkdir()
    monkeypatch.chdir(project.top / "deep")
    first, *_ = refusal(BaselineNotFound, project, "main")
    assert f"in {project.store.folder}." in first


# --- shallow clones and worktrees --------------------------------------------------------


@pytest.fixture
def shallow(project, tmp_path, monkeypatch):
    """A clone of depth 1 of a feature branch that two commits of main precede."""
    project.commit()
    branch_off(project)
    clone = tmp_path / "clone"
    url = f"file://{project.top}"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", url, str(clone)], check=True)
    monkeypatch.chdir(clone)
    return Project(clone)


def test_a_shallow_clone_that_lacks_the_branch_names_the_cure(shallow):
    first, second = refusal(BaselineError, shallow, "main")
    assert "This clone is shallow." in first
    assert "git fetch --unshallow" in second
    assert "fetch-depth: 0" in second


def test_a_shallow_clone_that_lacks_the_merge_base_names_the_cure(shallow):
    shallow.git("fetch", "--quiet", "--depth=1", "origin", "main:refs/remotes/origin/main")
    first, second = refusal(BaselineError, shallow, "main")
    assert first.endswith("it has no common ancestor with HEAD in this shallow clone.")
    assert "fetch-depth: 0" in second


def test_a_shallow_clone_that_lacks_the_ancestors_names_the_cure(shallow):
    first, rerun, second = refusal(BaselineError, shallow, "shorter-prompt")
    assert "no complete run recorded for shorter-prompt" in first
    assert "This clone is shallow." in first
    assert "--llm-on-missing=rerun" in rerun
    assert "fetch-depth: 0" in second


def test_a_deepened_clone_works(shallow):
    shallow.git("fetch", "--quiet", "--unshallow", "origin", "main:refs/remotes/origin/main")
    run_id = shallow.record(shallow.git("rev-parse", "origin/main"))
    baseline = find(shallow, "main")
    assert (baseline.run.id, baseline.notes) == (run_id, ())


def test_a_shallow_clone_that_has_the_merge_base_needs_no_more(project, shallow):
    base = project.git("rev-parse", "main")
    project.git("switch", "--quiet", "main")
    project.commit()
    shallow.git("fetch", "--quiet", "--depth=2", "origin", "shorter-prompt")
    shallow.git("fetch", "--quiet", "--depth=2", "origin", "main:refs/remotes/origin/main")
    run_id = shallow.record(base)
    baseline = find(shallow, "main")
    assert (baseline.run.id, baseline.notes) == (run_id, ())


def test_a_shallow_clone_warns_if_a_nearer_merge_base_may_be_cut_off(project, shallow):
    base = project.git("rev-parse", "main")
    project.git("switch", "--quiet", "--create", "side", f"{base}^")
    project.commit()
    project.git("switch", "--quiet", "shorter-prompt")
    project.git("merge", "--quiet", "--no-edit", "side")
    project.git("switch", "--quiet", "main")
    project.commit()
    shallow.git("fetch", "--quiet", "--depth=3", "origin", "shorter-prompt")
    shallow.git("checkout", "--quiet", "FETCH_HEAD")
    shallow.git("fetch", "--quiet", "--depth=2", "origin", "main:refs/remotes/origin/main")
    run_id = shallow.record(base)
    baseline = find(shallow, "main")
    assert baseline.run.id == run_id
    assert "the true merge-base may lie where history was cut off" in baseline.notes[0]


def test_an_exact_commit_does_not_care_for_history(shallow):
    run_id = shallow.record()
    assert find(shallow, shallow.head).notes == ()
    assert find(shallow, "HEAD^0").run.id == run_id


def test_a_worktree_sees_the_branches_of_its_repository(project, tmp_path):
    base = project.head
    project.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    other = Project(tmp_path / "other")
    (other.top / "prompt.txt").write_text("Name it.\n")
    other.commit()
    run_id = other.record(base)
    assert read_state(other.top).top == other.top
    assert find(other, "main").run.id == run_id


def test_a_named_run_of_a_selection_says_what_it_covers(project):
    run_id = project.record(selection=("-k a",), partial=("tests/a.py::test_x",))
    found = find(project, run_id, selection=("-k a",))
    assert found.notes == ("of '-k a' alone",)


# --- the first evals ----------------------------------------------------------------------


@pytest.fixture
def first(project):
    """Main has no eval any more, and a branch brings one."""
    (project.top / "test_evals.py").unlink()
    project.commit()
    branch_off(project)
    (project.top / "test_evals.py").write_text("from pytest_llmeval import llm_eval\n")
    project.commit()
    return project


@pytest.mark.parametrize("reference", ["main", "HEAD~1", "HEAD~2"])
def test_a_commit_without_evals_has_nothing_to_compare_with(first, reference):
    baseline = find(first, reference)
    assert baseline.how == "nothing yet"
    assert baseline.run.commit == first.git("rev-parse", reference)
    assert baseline.run.cases == ()
    (note,) = baseline.notes
    assert note == f"nothing to compare with yet: {baseline.run.commit[:7]} has no eval and no run"


def test_a_first_eval_on_main_itself_is_held_against_the_commit_before(first):
    first.git("switch", "--quiet", "main")
    first.git("merge", "--quiet", "--ff-only", "shorter-prompt")
    assert find(first, "main").how == "nothing yet"


def test_a_run_is_found_though_the_marker_comes_from_elsewhere(first):
    run_id = first.record(first.git("rev-parse", "main"))
    assert find(first, "main").run.id == run_id


@pytest.mark.parametrize("root", [".", "one", "other", "moved"])
def test_an_eval_anywhere_in_the_commit_might_be_this_ones(root, first):
    first.git("switch", "--quiet", "main")
    (first.top / "one").mkdir()
    (first.top / "one" / "marks.py").write_text("from pytest_llmeval import llm_eval as gate")
    first.commit()
    branch_off(first, "next")
    lines = refusal(BaselineNotFound, first, "main", root=root)
    assert lines[-1].endswith("run without a comparison:  add --llm-on-missing=warn")


def test_what_is_written_about_evals_is_no_eval(first):
    first.git("switch", "--quiet", "main")
    for name in ("NOTES.md", "pytest.ini", "python"):
        (first.top / name).write_text("llm_eval")
    first.commit()
    branch_off(first, "next")
    assert find(first, "main").how == "nothing yet"


def test_a_commit_that_is_not_here_is_missing(first):
    refusal(BaselineNotFound, first, "ab" * 20)


def test_a_shallow_clone_cannot_tell_where_the_evals_began(first, tmp_path, monkeypatch):
    path = tmp_path / "clone"
    first.git("switch", "--quiet", "main")
    first.git("clone", "--quiet", "--depth=1", f"file://{first.top}", str(path))
    clone = Project(path)
    clone.git("switch", "--quiet", "--create", "more")
    clone.commit()
    monkeypatch.chdir(path)
    lines = refusal(BaselineError, clone, "main")
    assert "This clone is shallow." in lines[0]
