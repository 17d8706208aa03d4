from __future__ import annotations

import gzip
import os
import re
from datetime import UTC, datetime, timedelta, timezone

import pytest

from pytest_llmeval.errors import BaselineUnreadable, SettingsError
from pytest_llmeval.runs import store as stores
from pytest_llmeval.runs.git import GitState, read_state
from pytest_llmeval.runs.store import RunStore, is_run_id, new_run_id, refuse_tracked
from tests.runs.builders import COMMIT, make_run
from tests.runs.conftest import Project

EARLY, LATE = "20261121T084100-1a2b3c", "20261121T084200-000000"


@pytest.fixture
def store(tmp_path):
    return RunStore(tmp_path / ".llmeval")


def damage_end(path):
    """The header stays good; only who reads on will notice."""
    path.write_bytes(gzip.compress(gzip.decompress(path.read_bytes())[:-9] + b"\n"))


# --- ids ---------------------------------------------------------------------------------


def test_a_run_id_tells_the_second_in_utc():
    berlin = timezone(timedelta(hours=1))
    run_id = new_run_id(datetime(2026, 11, 21, 9, 41, 0, 999_999, tzinfo=berlin))
    assert re.fullmatch(r"20261121T084100-[0-9a-f]{6}", run_id)
    assert is_run_id(run_id)


def test_two_ids_of_one_second_differ():
    now = datetime.now(UTC)
    assert len({new_run_id(now) for _ in range(5)}) > 1


@pytest.mark.parametrize("text", ["", "last", "main", f"{EARLY}\n", f"../{EARLY}", "*"])
def test_other_texts_are_no_run_ids(text):
    assert not is_run_id(text)


# --- saving ------------------------------------------------------------------------------


def test_a_run_is_saved_under_its_commit_and_loaded_again(store):
    path = store.save(make_run())
    assert path == store.directory / "runs" / COMMIT / f"{EARLY}.jsonl.gz"
    assert store.load(path) == make_run()


@pytest.mark.parametrize(
    "name",
    [
        f"runs/{COMMIT}/.{LATE}.jsonl.gz.0a1b2c3d.tmp",
        f"runs/no-commit/.{LATE}.jsonl.gz.0a1b2c3d.tmp",
        f"borrowed/{COMMIT}/{LATE}.jsonl.gz.0a1b2c3d.part",
        f"borrowed/{COMMIT}/.{LATE}.jsonl.gz.0a1b2c3d.part.0a1b2c3d.tmp",
    ],
)
def test_what_a_killed_process_left_goes_after_a_day(store, name):
    left, fresh = store.directory / name, store.directory / f"{name[:-4]}.new{name[-4:]}"
    left.parent.mkdir(parents=True)
    for file in (left, fresh):
        file.write_bytes(b"begun")
    os.utime(left, (0, 0))

    path = store.save(make_run())

    assert store.load(path) == make_run()
    assert (left.exists(), fresh.exists()) == (False, True)


def test_a_save_ends_well_where_what_was_left_cannot_be_removed(store):
    left = store.directory / "runs" / "other" / ".x.tmp"
    left.mkdir(parents=True)
    os.utime(left, (0, 0))
    assert store.load(store.save(make_run())) == make_run()


def test_a_run_outside_git_is_saved_and_loaded_too(store):
    run = make_run(commit=None, tree=None, ref=None)
    path = store.save(run)
    assert path.parent == store.directory / "runs" / "no-commit"
    assert store.load(path) == run


def test_the_directory_keeps_itself_out_of_git(store):
    store.save(make_run())
    assert (store.directory / ".gitignore").read_text() == "*\n"


# --- finding -----------------------------------------------------------------------------


def test_an_empty_store_has_nothing(store):
    assert store.at_commit(COMMIT) == stores.Listing(())
    assert store.by_id(EARLY) is None
    assert store.newest() is None
    assert not store.directory.exists()


def test_runs_of_a_commit_are_listed_newest_first(store):
    paths = [store.save(make_run(id=run_id)) for run_id in (LATE, EARLY)]
    store.save(make_run(id="20261121T084300-000000", commit="f" * 40))
    listing = store.at_commit(COMMIT)
    assert [run.path for run in listing.runs] == paths
    assert [run.header.run.id for run in listing.runs] == [LATE, EARLY]
    assert listing.notes == ()


def test_listing_reads_headers_only(store, monkeypatch):
    store.save(make_run())
    monkeypatch.setattr(stores, "read_run", None)
    assert len(store.at_commit(COMMIT).runs) == 1


def test_a_damaged_file_does_not_hide_a_good_one(store):
    store.save(make_run(id=EARLY))
    damaged = store.save(make_run(id=LATE))
    damaged.write_bytes(b"damaged")
    listing = store.at_commit(COMMIT)
    assert [run.header.run.id for run in listing.runs] == [EARLY]
    (note,) = listing.notes
    assert note.startswith(f"passed over: {damaged} is damaged")


def test_a_file_in_the_folder_of_another_commit_is_passed_over(store):
    path = store.save(make_run())
    stray = store.folder / ("f" * 40) / path.name
    stray.parent.mkdir()
    path.rename(stray)
    listing = store.at_commit("f" * 40)
    assert listing.runs == ()
    assert "not recorded for the commit of its folder" in listing.notes[0]


def test_a_half_written_file_is_not_seen(store):
    path = store.save(make_run())
    path.rename(path.with_name(f".{path.name}.0a1b2c3d.tmp"))
    assert store.at_commit(COMMIT).runs == ()
    assert store.newest() is None


def test_a_run_is_found_by_its_id(store):
    path = store.save(make_run())
    assert store.by_id(EARLY) == path
    assert store.by_id(LATE) is None


def test_an_id_is_no_pattern(store):
    store.save(make_run())
    assert store.by_id("*") is None


def test_the_files_of_all_runs_are_told_without_other_ones(store):
    assert store.files() == {}
    path = store.save(make_run(id=EARLY))
    late = store.save(make_run(id=LATE, commit=None))
    path.with_name("notes.jsonl.gz").write_bytes(b"")
    assert store.files() == {EARLY: path, LATE: late}


def test_the_newest_run_is_of_whatever_commit(store):
    store.save(make_run(id=EARLY, commit="f" * 40))
    newest = make_run(id=LATE, commit=None)
    path = store.save(newest)
    assert store.newest() == stores.FoundRun(path, newest)


def test_the_newest_run_but_this_one(store):
    store.save(make_run(id=EARLY))
    store.save(make_run(id=LATE))
    found = store.newest(excluding={LATE})
    assert found is not None
    assert found.run.id == EARLY


def test_trials_that_were_asked_again_are_not_the_newest_run(store):
    store.save(make_run(id=EARLY))
    store.save(make_run(id=LATE, made="confirm"))
    found = store.newest()
    assert found is not None
    assert found.run.id == EARLY


def test_the_newest_run_is_read_alone(store, monkeypatch):
    for second in range(5):
        store.save(make_run(id=f"20261121T08410{second}-1a2b3c"))
    read = []
    read_run = stores.read_run
    monkeypatch.setattr(stores, "read_run", lambda path: read.append(path) or read_run(path))
    store.newest()
    assert [path.name for path in read] == ["20261121T084104-1a2b3c.jsonl.gz"]


def test_a_damaged_newest_run_gives_way_to_the_one_before(store):
    store.save(make_run(id=EARLY))
    damaged = store.save(make_run(id=LATE))
    damage_end(damaged)
    found = store.newest()
    assert found is not None
    assert found.run.id == EARLY
    assert len(found.notes) == 1
    assert found.notes[0].startswith(f"passed over: {damaged} is damaged")


def test_nothing_but_damaged_runs_is_the_error_of_the_newest(store):
    for run_id in (EARLY, LATE):
        store.save(make_run(id=run_id)).write_bytes(b"")
    with pytest.raises(BaselineUnreadable, match=LATE):
        store.newest()


def test_other_files_in_the_store_are_no_runs(store):
    store.save(make_run())
    (store.folder / "no-commit").mkdir()
    (store.folder / "no-commit" / "notes.jsonl.gz").write_bytes(b"mine")
    (store.folder / "README").touch()
    found = store.newest()
    assert found is not None
    assert (found.run.id, found.notes) == (EARLY, ())


def test_every_run_is_listed_newest_first_and_a_damaged_one_told(store):
    assert store.every().runs == ()
    for run_id, commit in ((LATE, COMMIT), (EARLY, None)):
        store.save(make_run(id=run_id, commit=commit))
    (store.folder / COMMIT / "noise.jsonl.gz").write_bytes(b"noise")

    listing = store.every()

    assert [stored.header.run.id for stored in listing.runs] == [LATE, EARLY]
    assert len(listing.notes) == 1
    assert listing.notes[0].startswith("passed over: ")


def test_a_folder_of_runs_that_is_a_link_is_not_written_to(store, tmp_path):
    (tmp_path / "theirs").mkdir()
    store.directory.mkdir()
    store.folder.symlink_to(tmp_path / "theirs")
    with pytest.raises(OSError, match="runs is a symbolic link"):
        store.save(make_run())
    assert list((tmp_path / "theirs").iterdir()) == []


# --- what git tracks, and what is yet to come ---------------------------------------------


def refusal(project) -> str:
    with pytest.raises(SettingsError) as refused:
        refuse_tracked(project.store.directory, git=project.state)
    return str(refused.value)


def test_a_store_of_which_git_knows_nothing_will_do(project):
    project.record()
    refuse_tracked(project.store.directory, git=project.state)


def test_a_file_that_git_tracks_is_refused_with_what_to_type(project):
    project.record()
    project.record()
    project.git("add", "--force", ".llmeval/runs")
    line = refusal(project)
    assert re.search(r"git tracks \.llmeval/runs/\w{40}/\S+ and 1 more: ", line)
    assert line.endswith("git rm -r --cached .llmeval/runs")
    assert "\n" not in line


def test_what_else_git_tracks_in_the_directory_does_not_matter(project):
    project.record()
    project.git("add", "--force", ".llmeval/.gitignore")
    refuse_tracked(project.store.directory, git=project.state)


def test_a_folder_that_differs_in_case_is_the_same_on_some_disks(project):
    (project.top / ".LLMEVAL" / "Runs").mkdir(parents=True)
    (project.top / ".LLMEVAL" / "Runs" / "run.jsonl.gz").touch()
    project.git("add", "--force", ".LLMEVAL")
    assert ".LLMEVAL/Runs/run.jsonl.gz" in refusal(project)


def test_a_tracked_link_to_a_store_elsewhere_is_refused(project, tmp_path):
    (tmp_path / "stores" / "own").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "stores")
    project.store.directory.symlink_to(tmp_path / "link" / "own")
    refuse_tracked(project.store.directory, git=project.state)
    project.git("add", "--force", ".llmeval")
    assert refusal(project).endswith("git rm -r --cached .llmeval")


def test_a_tracked_link_that_a_job_moved_away_is_refused(project, tmp_path):
    """A recipe moves ``.llmeval`` aside and brings another one: behind a link is what it brings."""
    project.store.directory.symlink_to(tmp_path)
    project.git("add", "--force", ".llmeval")
    project.store.directory.unlink()
    project.record()
    assert refusal(project).endswith("git rm -r --cached .llmeval")


def test_a_link_that_leads_to_itself_ends(project):
    project.store.directory.symlink_to(project.store.directory)
    refuse_tracked(project.store.directory, git=project.state)


def test_an_untracked_link_to_a_tracked_folder_is_refused(project):
    (project.top / "evidence" / "runs").mkdir(parents=True)
    (project.top / "evidence" / "runs" / "run.jsonl.gz").touch()
    project.store.directory.symlink_to("evidence")
    project.git("add", "evidence")
    assert refusal(project).endswith("git rm -r --cached evidence/runs")


def test_a_submodule_in_place_of_the_store_is_refused(project):
    project.store.directory.mkdir()
    inner = Project(project.store.directory)
    inner.git("init", "--quiet")
    inner.commit()
    refuse_tracked(project.store.directory, git=project.state)
    project.git("add", "--force", ".llmeval")
    assert refusal(project).endswith("git rm -r --cached .llmeval")


def test_a_store_outside_the_working_tree_is_not_its_business(project, tmp_path):
    refuse_tracked(tmp_path / "elsewhere", git=project.state)


def test_outside_git_nothing_is_tracked(tmp_path):
    refuse_tracked(tmp_path, git=GitState(top=None, absent="no git"))


def test_a_run_from_the_future_stands_for_no_commit_and_is_not_the_last(store):
    now = datetime.now(UTC)
    honest, skewed, forged = (
        new_run_id(now + timedelta(minutes=minutes)) for minutes in (-1, 4, 6)
    )
    for run_id in (honest, skewed, forged):
        store.save(make_run(id=run_id))
    listing = store.at_commit(COMMIT)
    assert [stored.header.run.id for stored in listing.runs] == [skewed, honest]
    newest = store.newest()
    assert newest.run.id == skewed
    assert newest.notes == listing.notes
    (note,) = listing.notes
    assert note.startswith(f"passed over: run {forged}, dated {forged[:4]}-")


def test_the_name_of_a_file_does_not_make_a_run_newer(store):
    store.save(make_run(id=LATE))
    early = store.save(make_run(id=EARLY))
    early.rename(early.with_name("z.jsonl.gz"))
    assert [stored.header.run.id for stored in store.at_commit(COMMIT).runs] == [LATE, EARLY]


def test_runs_that_the_main_working_tree_tracks_are_refused_in_a_linked_one(project, tmp_path):
    project.record()
    project.git("add", "--force", ".llmeval/runs")
    project.git("worktree", "add", "--quiet", "--detach", str(tmp_path / "linked"))
    linked = read_state(tmp_path / "linked")
    with pytest.raises(SettingsError, match="git tracks"):
        refuse_tracked(project.store.directory, git=linked)
