from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmeval.settings import default_directory
from tests.ci.origin import run_git


@pytest.fixture
def main(tmp_path: Path) -> Path:
    """A repository with a project in a folder of it."""
    main = tmp_path / "main"
    (main / "bot").mkdir(parents=True)
    (main / "bot" / "pytest.ini").touch()
    run_git(main, "init", "--quiet", "--template=")
    run_git(main, "add", "--all")
    run_git(main, "commit", "--quiet", "--message=one")
    return main


@pytest.mark.parametrize("kind", ["absolute", "relative"])
def test_a_linked_working_tree_uses_the_place_of_the_main_one(
    kind: str, main: Path, tmp_path: Path
) -> None:
    run_git(main, "worktree", "add", "--quiet", "--detach", "../linked")
    linked = tmp_path / "linked"
    if kind == "relative":  # as newer versions of git can write it
        (linked / ".git").write_text("gitdir: ../main/.git/worktrees/linked\n")

    assert default_directory(linked, has_ini=False) == main / ".llmeval"
    assert default_directory(linked / "bot", has_ini=False) == main / ".llmeval"
    assert default_directory(linked / "bot", has_ini=True) == main / "bot" / ".llmeval"
    (linked / "new").mkdir()
    assert default_directory(linked / "new", has_ini=True) == linked / "new" / ".llmeval"


def test_other_working_trees_have_their_own_place(main: Path, tmp_path: Path) -> None:
    run_git(main, "clone", "--quiet", "--bare", "--template=", ".", "../bare.git")
    run_git(tmp_path / "bare.git", "worktree", "add", "--quiet", "--detach", "../of-bare")
    run_git(
        main,
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        str(tmp_path / "bare.git"),
        "inner",
    )
    for top in (main, tmp_path / "of-bare", main / "inner"):
        assert default_directory(top / "bot", has_ini=True) == top / "bot" / ".llmeval"
        assert default_directory(top / "bot", has_ini=False) == top / ".llmeval"


def test_without_git_the_place_is_in_rootpath(tmp_path: Path) -> None:
    assert default_directory(tmp_path / "bot", has_ini=False) == tmp_path / "bot" / ".llmeval"
