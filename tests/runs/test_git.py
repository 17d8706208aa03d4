from __future__ import annotations

import os
import stat
import subprocess
import time
from pathlib import Path

import pytest

from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import (
    GitState,
    change,
    first_parents,
    lacks_text,
    near_names,
    parents,
    read_state,
    relative_root,
    resolve,
    tracked_below,
    unknown_files,
)
from tests.runs.conftest import Project


def commit_of(project, name):
    ref = resolve(name, top=project.top)
    return None if ref is None else ref.commit


# --- the state at session start ----------------------------------------------------------


def test_a_clean_branch(project):
    assert project.state == GitState(
        top=project.top,
        commit=project.head,
        tree=project.git("rev-parse", "HEAD^{tree}"),
        branch="main",
        dirty=False,
        shallow=False,
    )


def test_a_branch_with_a_slash_keeps_its_name(project):
    project.git("switch", "--quiet", "--create", "feature/shorter")
    assert project.state.branch == "feature/shorter"


def test_a_branch_is_named_plainly_beside_a_tag_of_its_name(project):
    project.git("tag", "main")
    assert project.state.branch == "main"


def test_a_detached_head_has_no_branch(project):
    project.git("switch", "--quiet", "--detach")
    assert project.state.branch is None
    assert project.state.commit == project.head


def test_a_changed_tracked_file_is_dirty(project):
    (project.top / "prompt.txt").write_text("Name it.\n")
    assert project.state.dirty
    assert project.state.changed == ("prompt.txt",)


def test_each_file_that_makes_a_tree_dirty_is_named_once(project):
    project.git("mv", "prompt.txt", "a new name.txt")
    (project.top / "new.txt").write_text("new\n")
    project.git("add", "new.txt")
    assert sorted(project.state.changed) == ["a new name.txt", "new.txt"]


def test_a_staged_file_is_dirty(project):
    (project.top / "new.txt").write_text("new\n")
    project.git("add", "new.txt")
    assert project.state.dirty


def test_an_untracked_file_is_not_dirty(project):
    (project.top / "new.txt").write_text("new\n")
    assert not project.state.dirty


@pytest.mark.parametrize("flag", ["assume-unchanged", "skip-worktree"])
def test_a_file_that_git_is_not_to_look_at_is_dirty(project, flag):
    (project.top / "pä per.txt").touch()
    project.commit()
    project.git("update-index", f"--{flag}", "pä per.txt")
    assert project.state.hidden == project.state.changed == ("pä per.txt",)
    assert project.state.dirty


def test_a_file_that_a_sparse_checkout_leaves_out_is_not_dirty(project):
    (project.top / "prompt.txt").unlink()
    project.git("update-index", "--skip-worktree", "prompt.txt")
    assert project.state.hidden == ()
    assert not project.state.dirty


def test_a_status_that_fails_counts_as_dirty(project):
    (project.top / ".git" / "index").write_bytes(b"no index")
    assert project.state.dirty


def test_the_state_is_that_of_the_whole_tree_when_asked_in_a_subfolder(project):
    (project.top / "prompt.txt").write_text("Name it.\n")
    folder = project.top / "evals"
    folder.mkdir()
    assert read_state(folder) == project.state


def test_a_folder_that_looks_like_a_bare_repository_is_not_read(project):
    """A branch could bring one with a main of its own."""
    project.git("init", "--quiet", "--bare", "svc")
    project.git("--git-dir=svc", "config", "core.worktree", str(project.top))
    project.git("--git-dir=svc", "config", "core.bare", "false")

    state = read_state(project.top / "svc")

    assert state.is_refused
    assert state.lack.endswith("(safe.bareRepository is 'explicit')")


def test_a_repository_without_commits(tmp_path):
    state = Project(tmp_path / "fresh").begin().state
    assert (state.top, state.absent) == (tmp_path / "fresh", None)
    assert (state.commit, state.tree, state.branch) == (None, None, "main")


def test_no_repository(tmp_path):
    state = read_state(tmp_path)
    assert state == GitState(top=None, absent=f"{tmp_path} is in no git repository")


def test_no_git(project, no_git):
    state = project.state
    assert state.top is None
    assert state.absent == "git cannot be run (not installed, or not on the PATH)"


@pytest.mark.skipif(os.name == "nt", reason="there a file is no program by its mode")
def test_a_git_that_cannot_be_run(project, monkeypatch, tmp_path):
    broken = tmp_path / "bin" / "git"
    broken.parent.mkdir()
    broken.write_bytes(b"\x00no program")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(broken.parent))
    assert "git cannot be run" in (project.state.absent or "")


def test_what_git_complains_of_is_passed_on_in_one_line(project):
    (project.top / ".git" / "config").write_text("[core\n")
    absent = project.state.absent or ""
    assert f"git does not read {project.top}: fatal: bad config line 1" in absent
    assert "\n" not in absent


def test_the_variables_of_a_hook_do_not_mislead(project, monkeypatch, tmp_path):
    folder = project.top / "evals"
    folder.mkdir()
    expected = project.state
    monkeypatch.setenv("GIT_DIR", str(project.top / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index of the hook"))
    assert read_state(folder) == expected


@pytest.mark.parametrize("how", ["LITERAL", "GLOB", "NOGLOB", "ICASE"])
def test_variables_about_pathspecs_do_not_mislead(how, project, monkeypatch):
    (project.top / "store").mkdir()
    (project.top / "store" / "run").touch()
    project.commit()
    monkeypatch.setenv(f"GIT_{how}_PATHSPECS", "1")
    assert tracked_below((project.top / "STORE",), top=project.top) == (("STORE", "store/run"),)
    assert not lacks_text("llm_eval", commit=project.head, top=project.top)


def test_reading_the_state_takes_no_lock_and_changes_nothing(project):
    index = project.top / ".git" / "index"
    os.utime(project.top / "prompt.txt", (0, 0))  # git status would note that it looked
    before = index.read_bytes()
    assert not project.state.dirty
    assert index.read_bytes() == before


def test_a_worktree_is_a_tree_of_its_own(project, tmp_path):
    project.git("worktree", "add", "--quiet", "-b", "other", str(tmp_path / "other"))
    (tmp_path / "other" / "prompt.txt").write_text("Name it.\n")
    state = read_state(tmp_path / "other")
    assert (state.top, state.branch, state.dirty) == (tmp_path / "other", "other", True)
    assert not project.state.dirty


def test_a_shallow_clone_is_told(project, tmp_path):
    project.commit()
    clone = shallow_clone(project, tmp_path / "clone")
    assert clone.state.shallow
    assert not project.state.shallow


def shallow_clone(project, folder):
    url = f"file://{project.top}"
    subprocess.run(["git", "clone", "--quiet", "--depth=1", url, str(folder)], check=True)
    return Project(folder)


# --- rootpath ----------------------------------------------------------------------------


def test_rootpath_at_the_top_is_a_dot(project):
    assert relative_root(project.top, top=project.top) == "."


def test_rootpath_in_a_subfolder(project):
    assert relative_root(project.top / "packages" / "bot", top=project.top) == "packages/bot"


def test_rootpath_without_git_is_a_dot(tmp_path):
    assert relative_root(tmp_path, top=None) == "."


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_rootpath_by_way_of_a_link(project, tmp_path):
    (project.top / "bot").mkdir()
    (tmp_path / "link").symlink_to(project.top)
    assert relative_root(tmp_path / "link" / "bot", top=project.top) == "bot"


# --- what a name means -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "full_name"),
    [
        ("main", "refs/heads/main"),
        ("heads/main", "refs/heads/main"),
        ("refs/heads/main", "refs/heads/main"),
        ("HEAD", "refs/heads/main"),
        ("@", "refs/heads/main"),
        ("light", "refs/tags/light"),
        ("annotated", "refs/tags/annotated"),
        ("HEAD~0", None),
        ("main^0", None),
        ("main~0", None),
    ],
)
def test_a_name_is_resolved(name, full_name, project):
    project.git("tag", "light")
    project.git("tag", "--annotate", "--message=one", "annotated")
    ref = resolve(name, top=project.top)
    assert ref is not None
    assert (ref.commit, ref.full_name) == (project.head, full_name)


def test_a_hash_is_a_commit_and_no_ref(project):
    for length in (40, 12):
        ref = resolve(project.head[:length], top=project.top)
        assert ref is not None
        assert (ref.commit, ref.full_name) == (project.head, None)


def test_a_branch_goes_before_a_tag_of_its_name(project):
    project.git("tag", "twice")
    project.git("switch", "--quiet", "--create", "twice")
    second = project.commit()
    ref = resolve("twice", top=project.top)
    assert ref is not None
    assert (ref.commit, ref.full_name) == (second, "refs/heads/twice")


def test_a_branch_that_looks_like_a_hash_is_a_branch(project):
    name = project.head[:7]
    project.git("switch", "--quiet", "--create", name)
    second = project.commit()
    assert commit_of(project, name) == second


def test_a_branch_that_looks_like_a_description_is_a_branch(project):
    name = f"v1-1-g{project.head[:7]}"
    project.git("switch", "--quiet", "--create", name)
    second = project.commit()
    assert commit_of(project, name) == second


def test_a_branch_that_only_origin_has_is_found(project):
    project.git("update-ref", "refs/remotes/origin/release", "HEAD")
    ref = resolve("release", top=project.top)
    assert ref is not None
    assert ref.full_name == "refs/remotes/origin/release"
    assert commit_of(project, "origin/release") == project.head


def test_ones_own_branch_goes_before_that_of_origin(project):
    project.git("update-ref", "refs/remotes/origin/main", "HEAD")
    second = project.commit()
    assert commit_of(project, "main") == second


def test_a_detached_head_is_a_ref(project):
    project.git("switch", "--quiet", "--detach")
    ref = resolve("HEAD", top=project.top)
    assert ref is not None
    assert (ref.commit, ref.full_name) == (project.head, "HEAD")


@pytest.mark.parametrize(
    "name",
    [
        "",
        "nosuch",
        "--help",
        "-h",
        "--output=stolen",
        "--all",
        "^main",
        "main..main",
        "main...main",
        "main:prompt.txt",
        ":/commit",
        "main main",
        "main\n",
        "ma\x00in",
        "mai*",
        "mai?",
        "m[a]in",
        "main^!",
        "main^@",
        "main^{tree}",
        "\ud800",
        "0" * 40,
        "name" * 2000,
    ],
)
def test_what_is_no_name_of_a_commit_is_nothing(name, project):
    assert resolve(name, top=project.top) is None
    names = {entry.name for entry in project.top.iterdir()}
    assert names == {".git", "commit-1.txt", "prompt.txt", "test_evals.py"}


def test_a_blob_is_no_commit(project):
    assert resolve(project.git("rev-parse", "HEAD:prompt.txt"), top=project.top) is None


# --- history -----------------------------------------------------------------------------


def test_a_commit_that_another_one_replaces_is_still_itself(project):
    first, second, third = project.head, project.commit(), project.commit()
    project.git("replace", "--graft", third, first)
    assert first_parents(third, top=project.top, at_most=50) == (second, first)
    assert parents(third, top=project.top) == (second,)


def test_first_parents_leave_out_what_was_merged(project):
    begin = project.head
    project.git("switch", "--quiet", "--create", "feature")
    project.commit()
    project.git("switch", "--quiet", "main")
    second = project.commit()
    project.git("merge", "--quiet", "--no-ff", "--message=merge", "feature")
    assert first_parents(project.head, top=project.top, at_most=50) == (second, begin)


def test_first_parents_are_at_most_so_many(project):
    commits = [project.commit() for _ in range(4)]
    found = first_parents(commits[-1], top=project.top, at_most=2)
    assert found == (commits[2], commits[1])


def test_the_first_commit_has_no_parents(project):
    assert first_parents(project.head, top=project.top, at_most=50) == ()


def test_near_names(project):
    project.git("branch", "release-1")
    project.git("update-ref", "refs/remotes/origin/release-2", "HEAD")
    assert near_names("mian", top=project.top) == ("main",)
    assert set(near_names("relase-1", top=project.top)) == {"release-1", "release-2"}
    assert near_names("zzz", top=project.top) == ()


# --- files that git does not know ---------------------------------------------------------


def test_files_that_are_tracked_or_ignored_are_known(project, tmp_path):
    project.commit()
    (project.top / ".git" / "info" / "exclude").write_text("ignored.py\n")
    known = [project.top / "prompt.txt", project.top / "ignored.py", tmp_path / "elsewhere.py"]
    assert unknown_files(known, top=project.top) == ()


def test_other_files_are_unknown_whatever_their_names(project):
    new = [project.top / "b.py", project.top / "tools" / "pä per\n.py"]
    assert unknown_files([*new, project.top / "prompt.txt"], top=project.top) == (
        "b.py",
        "tools/pä per\n.py",
    )


@pytest.fixture
def inner(project):
    """A submodule at which git was told not to look."""
    inner = Project(project.top / "vendor" / "inner")
    inner.top.mkdir(parents=True)
    inner.git("init", "--quiet")
    (inner.top / "lib.py").write_text("TONE = 'kind'")
    (inner.top / ".gitignore").write_text("ignored.py")
    inner.commit()
    (project.top / ".gitmodules").write_text(
        '[submodule "inner"]\npath = vendor/inner\nurl = ./inner\nignore = all\n'
    )
    project.git("add", ".gitmodules", "vendor/inner")
    project.git("config", "submodule.inner.active", "true")
    project.commit()
    return inner


def test_a_submodule_is_asked_for_its_own_files(project, inner):
    files = [inner.top / name for name in ("lib.py", "ignored.py", "new.py")]
    assert unknown_files([*files, project.top / "a.py"], top=project.top) == (
        "a.py",
        "vendor/inner/new.py",
    )


def test_files_in_the_place_of_a_submodule_that_is_not_here_are_unknown(project, inner):
    (inner.top / ".git").rename(project.top / "kept.git")
    assert unknown_files([inner.top / "lib.py"], top=project.top) == ("vendor/inner/lib.py",)


def test_a_submodule_is_dirty_whatever_gitmodules_says(project, inner):
    (inner.top / "cache.pyc").touch()
    assert not project.state.dirty
    (inner.top / "lib.py").write_text("TONE = 'rude'")
    assert project.state.dirty
    inner.git("commit", "--quiet", "--all", "--message=rude")
    assert project.state.dirty


def test_a_file_of_a_submodule_that_git_is_not_to_look_at_is_dirty(project, inner):
    inner.git("update-index", "--assume-unchanged", "lib.py")
    assert project.state.hidden == ("vendor/inner/lib.py",)


def test_outside_git_no_file_is_unknown(tmp_path):
    assert unknown_files([tmp_path / "a.py"], top=None) == ()
    assert unknown_files([], top=tmp_path) == ()


@pytest.mark.skipif(os.name == "nt", reason="there are no groups of processes there")
def test_a_git_that_takes_too_long_is_stopped_with_its_helpers(tmp_path, monkeypatch):
    helper = tmp_path / "helper.pid"
    git = tmp_path / "bin" / "git"
    git.parent.mkdir()
    git.write_text(
        f"#!/bin/sh\nsleep 3600 &\necho $! > {helper}.new\nmv {helper}.new {helper}\nwait\n"
    )
    git.chmod(0o755)
    monkeypatch.setenv("PATH", f"{git.parent}{os.pathsep}{os.environ['PATH']}")

    with pytest.raises(GitFailed, match="no answer within 1 s"):
        change(tmp_path, "fetch", seconds=1)

    while is_running(helper.read_text().strip()):  # a moment longer, though it was killed
        time.sleep(0.01)


def is_running(process: str) -> bool:
    try:
        state = Path("/proc", process, "stat").read_text().split()[2]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"  # whoever inherits it may leave it a zombie for a while
