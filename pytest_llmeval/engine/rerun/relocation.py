"""Places of this checkout, and the same places in a worktree of another commit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pytest_llmeval.engine.rerun.installs import Install

# The repository of a git hook, coverage of processes that are begun, what pytest says of itself.
_LEFT_OUT = frozenset(
    (
        *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX"),
        *("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COVERAGE_FILE"),
        *("COV_CORE_SOURCE", "COV_CORE_CONFIG", "COV_CORE_DATAFILE", "PYTEST_CURRENT_TEST"),
    )
)
_KEPT = ("HOME",)  # credentials lie there, wherever it is


@dataclass(frozen=True, slots=True)
class Relocation:
    """Two working trees of one repository.

    Attributes:
        checkout: top of the one that the session is in, without links.
        worktree: top of the other one, likewise.
    """

    checkout: Path
    worktree: Path

    def place(self, path: Path) -> Path | None:
        """Return the same place in the worktree, None for what is not in the checkout.

        Args:
            path: absolute, as somebody wrote it, so links may lead to it.
        """
        for written in (Path(os.path.normpath(path)), Path(os.path.realpath(path))):
            if written.is_relative_to(self.worktree):
                return None
            if written.is_relative_to(self.checkout):
                return self.worktree / written.relative_to(self.checkout)
        return None

    def moved(self, text: str) -> str:
        """Replace a path by the same place in the worktree, if something is there.

        What is not in the commit, such as a virtual environment, keeps its place.
        """
        place = self.place(Path(text)) if text.startswith(os.sep) else None
        return text if place is None or not place.exists() else str(place)


def python_path(
    relocation: Relocation,
    *,
    entries: Iterable[str],
    installs: Iterable[Install],
    variable: str,
    folder: Path,
) -> tuple[str, ...]:
    """Return the entries of ``PYTHONPATH`` with which the worktree's own code is imported.

    Args:
        relocation: of the worktree.
        entries: ``sys.path`` of this process.
        installs: of projects in the checkout.
        variable: ``PYTHONPATH`` of this process.
        folder: working directory of this process.
    """
    places = (relocation.place(folder / entry) for entry in entries)
    own = [str(place) for place in places if place is not None and place.exists()]
    roots = (root for install in installs for root in install_roots(install, relocation))
    others = [entry for entry in variable.split(os.pathsep) if entry]
    kept = (entry for entry in others if relocation.moved(str(folder / entry)) not in own)
    return tuple(dict.fromkeys((*own, *map(str, roots), *kept)))


def install_roots(install: Install, relocation: Relocation) -> Iterator[Path]:
    """Yield the folders of the worktree from which the packages of an install can be imported."""
    project = relocation.place(install.project)
    if project is None or not project.is_dir():
        return
    inner = sorted(path for path in project.iterdir() if path.is_dir())
    folders = (project / "src", project, *inner)
    for name in sorted(install.names):
        held = (f for f in folders if any((f / found).is_file() for found in _forms(name)))
        root = next(held, None) or next((f for f in folders if (f / name).is_dir()), None)
        if root is not None:
            yield root


def _forms(name: str) -> Sequence[str]:
    return f"{name}/__init__.py", f"{name}.py"


def moved_environment(
    relocation: Relocation, environ: Mapping[str, str], path: Sequence[str]
) -> dict[str, str]:
    """Return the variables of a process that tests the worktree.

    Those that name places of the checkout, as ``GITHUB_WORKSPACE`` does, name the same places in
    the worktree.

    Args:
        relocation: of the worktree.
        environ: the variables of this process when it began.
        path: the entries of ``PYTHONPATH``.
    """
    moved = {
        name: text
        if name in _KEPT
        else os.pathsep.join(map(relocation.moved, text.split(os.pathsep)))
        for name, text in environ.items()
        if name not in _LEFT_OUT
    }
    moved.pop("PYTHONPATH", None)
    return {**moved, "PYTHONPATH": os.pathsep.join(path)} if path else moved
