"""Files by which a project says what it needs, compared between two working trees."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_llmeval.engine.rerun.relocation import Relocation

PYPROJECT = "pyproject.toml"
_PATTERNS = (
    PYPROJECT,
    "setup.py",
    "setup.cfg",
    "*requirements*.txt",
    "*requirements*.in",
    "requirements/*.txt",
    "constraints*.txt",
    "*.lock",
    "Pipfile",
    "environment*.yml",
    "environment*.yaml",
)


def changed_dependencies(relocation: Relocation, projects: Iterable[Path]) -> tuple[str, ...]:
    """Name the files by which the worktree wants other packages than the checkout.

    Args:
        relocation: of the worktree.
        projects: folders of the checkout; the folders above them are looked at too.

    Returns:
        Their paths in the checkout, relative to its top, sorted.
    """
    found = set()
    for folder in {above for project in projects for above in _up(project, relocation)}:
        twin = relocation.worktree / folder
        names = {
            path.relative_to(base)
            for base in (relocation.checkout / folder, twin)
            for pattern in _PATTERNS
            for path in base.glob(pattern)
        }
        for name in names:
            if _wanted(relocation.checkout / folder / name) != _wanted(twin / name):
                found.add((folder / name).as_posix())
    return tuple(sorted(found))


def _up(project: Path, relocation: Relocation) -> Iterator[Path]:
    """Yield a folder and those above it, relative to the top."""
    place = relocation.place(project)
    if place is not None:
        inner = place.relative_to(relocation.worktree)
        yield from (inner, *inner.parents)


def _wanted(file: Path) -> object:
    """Read what a file says of packages; None if it is not there."""
    try:
        content = file.read_bytes()
    except OSError:
        return None
    if file.name != PYPROJECT:
        return content
    try:
        tables = tomllib.loads(content.decode())
    except ValueError:
        return content
    project, tool = tables.get("project", {}), tables.get("tool", {})
    found = [
        *(project.get(key) for key in ("dependencies", "optional-dependencies")),
        tables.get("dependency-groups"),
        *(tool.get("poetry", {}).get(key) for key in ("dependencies", "group", "extras")),
    ]
    return found if any(found) else None
