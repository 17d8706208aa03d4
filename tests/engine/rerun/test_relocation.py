"""Places of the checkout become the same places of the worktree; all others stay."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pytest_llmeval.engine.rerun.relocation import (
    Install,
    Relocation,
    moved_environment,
    python_path,
)


@pytest.fixture
def trees(tmp_path: Path) -> Relocation:
    checkout, worktree = tmp_path / "checkout", tmp_path / "tmp" / "checkout"
    for top in (checkout, worktree):
        (top / "src" / "bot").mkdir(parents=True)
        (top / "src" / "bot" / "__init__.py").touch()
    (checkout / ".venv" / "lib").mkdir(parents=True)
    return Relocation(checkout, worktree)


def paths(
    trees: Relocation, *entries: str | Path, variable: str = "", **more: Install
) -> list[str]:
    found = python_path(
        trees,
        entries=list(map(str, entries)),
        installs=more.values(),
        variable=variable,
        folder=trees.checkout,
    )
    return [os.path.relpath(path, trees.worktree) for path in found]


def install(trees: Relocation, *names: str, project: str = ".") -> Install:
    folder = trees.checkout / project
    return Install(project=folder, names=frozenset(names), files=frozenset(), data=frozenset())


def test_a_place_below_a_link_to_the_checkout_is_found(trees: Relocation, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(trees.checkout)
    assert trees.place(tmp_path / "link" / "src") == trees.worktree / "src"


def test_a_link_in_the_checkout_is_that_of_the_worktree(trees: Relocation, tmp_path: Path) -> None:
    (trees.checkout / "data").symlink_to(tmp_path)
    assert trees.place(trees.checkout / "data") == trees.worktree / "data"


def test_a_worktree_in_the_checkout_is_no_place_of_it(tmp_path: Path) -> None:
    inner = Relocation(tmp_path, tmp_path / "tmp" / "tree")
    assert inner.place(tmp_path / "tmp" / "tree" / "src") is None


def test_entries_of_the_checkout_come_first_and_in_order(trees: Relocation) -> None:
    checkout = trees.checkout
    found = paths(trees, checkout / "src", "/usr/lib/python", "", checkout / ".venv" / "lib")
    assert found == ["src", "."]


def test_other_entries_of_the_variable_stay_behind_them(trees: Relocation) -> None:
    variable = os.pathsep.join(("src", "/opt/lib", "", ".venv/lib"))
    found = python_path(
        trees,
        entries=[str(trees.checkout / "src"), "/opt/lib", str(trees.checkout / ".venv/lib")],
        installs=(),
        variable=variable,
        folder=trees.checkout,
    )
    assert found == (str(trees.worktree / "src"), "/opt/lib", ".venv/lib")


@pytest.mark.parametrize("layout", ["bot/__init__.py", "bot.py", "src/bot.py", "lib/bot/a.py"])
def test_an_install_is_imported_from_where_the_worktree_has_it(tmp_path: Path, layout: str) -> None:
    trees = Relocation(tmp_path / "checkout", tmp_path / "worktree")
    file = trees.worktree / "services" / layout
    file.parent.mkdir(parents=True)
    file.touch()
    (trees.worktree / "services" / "docs").mkdir()
    root = {"src": "services/src", "lib": "services/lib"}.get(layout[:3], "services")
    assert paths(trees, bot=install(trees, "bot", "gone", project="services")) == [root]


def test_an_install_from_a_folder_that_the_worktree_lacks_adds_nothing(trees: Relocation) -> None:
    assert paths(trees, bot=install(trees, "bot", project="elsewhere")) == []


def test_variables_that_name_places_of_the_checkout_are_moved(trees: Relocation) -> None:
    checkout, worktree = trees.checkout, trees.worktree
    environ = {
        "GITHUB_WORKSPACE": str(checkout),
        "PROMPTS": str(checkout / "src" / "bot"),
        "PATH": os.pathsep.join((str(checkout / ".venv"), str(checkout / "src"), "/usr/bin")),
        "APP": f'{{"dir": "{checkout}", "x{checkout}/src": ["{checkout}/src", "{checkout}/out"]}}',
        "OPTS": f"--prompts={checkout}/src,other",
        "HOME": str(checkout),
        "GIT_DIR": str(checkout / ".git"),
        "COVERAGE_PROCESS_START": "pyproject.toml",
        "OPENAI_BASE_URL": "https://example.org/v1",
    }
    assert moved_environment(trees, environ, ("/a", "/b")) == {
        "GITHUB_WORKSPACE": str(worktree),
        "PROMPTS": str(worktree / "src" / "bot"),
        "PATH": os.pathsep.join((str(checkout / ".venv"), str(worktree / "src"), "/usr/bin")),
        "APP": f'{{"dir": "{worktree}", "x{checkout}/src": ["{worktree}/src", "{checkout}/out"]}}',
        "OPTS": f"--prompts={worktree}/src,other",
        "HOME": str(checkout),
        "OPENAI_BASE_URL": "https://example.org/v1",
        "PYTHONPATH": os.pathsep.join(("/a", "/b")),
    }


def test_no_path_leaves_the_variable_out(trees: Relocation) -> None:
    assert moved_environment(trees, {"PYTHONPATH": "src"}, ()) == {}
