"""A file is named if the worktree wants other packages by it, and not for anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_llmeval.engine.rerun.relocation import Relocation, changed_dependencies


def changed(tmp_path: Path, name: str, *, here: str | None, base: str | None) -> tuple[str, ...]:
    trees = Relocation(tmp_path / "checkout", tmp_path / "worktree")
    for top, text in ((trees.checkout, here), (trees.worktree, base)):
        (top / name).parent.mkdir(parents=True)
        if text is not None:
            (top / name).write_text(text)
    project = trees.checkout / "bots" / "evals"
    project.mkdir(parents=True, exist_ok=True)
    return changed_dependencies(trees, [project])


@pytest.mark.parametrize(
    "name", ["requirements.txt", "bots/dev-requirements.in", "uv.lock", "bots/evals/setup.cfg"]
)
def test_files_from_rootdir_up_to_the_top_are_compared(tmp_path: Path, name: str) -> None:
    assert changed(tmp_path, name, here="openai==3\n", base="openai==2\n") == (name,)


@pytest.mark.parametrize("name", ["other/requirements.txt", "bots/notes.txt"])
def test_other_files_are_not(tmp_path: Path, name: str) -> None:
    assert changed(tmp_path, name, here="a", base="b") == ()


@pytest.mark.parametrize(("here", "base"), [(None, "openai\n"), ("openai\n", None)])
def test_a_file_that_is_new_or_gone_is_named(
    tmp_path: Path, here: str | None, base: str | None
) -> None:
    assert changed(tmp_path, "requirements.txt", here=here, base=base) == ("requirements.txt",)


@pytest.mark.parametrize(
    ("here", "is_named"),
    [
        ('[project]\nversion = "2"\ndependencies = ["a"]\n', False),
        ('[project]\ndependencies = ["a"]\n[tool.ruff]\nline-length = 100\n', False),
        ('[project]\ndependencies = ["b"]\n', True),
        ('[project]\ndependencies = ["a"]\n[dependency-groups]\ntest = ["b"]\n', True),
        ('[project]\ndependencies = ["a"]\n[tool.poetry.dependencies]\nb = "1"\n', True),
        ("[project\n", True),
    ],
)
def test_of_a_pyproject_file_only_its_dependencies_count(
    tmp_path: Path, here: str, is_named: bool
) -> None:
    base = '[project]\nversion = "1"\ndependencies = ["a"]\n'
    found = changed(tmp_path, "pyproject.toml", here=here, base=base)
    assert found == (("pyproject.toml",) if is_named else ())


def test_a_pyproject_file_without_dependencies_is_as_none(tmp_path: Path) -> None:
    assert changed(tmp_path, "pyproject.toml", here="[tool.ruff]\n", base=None) == ()
