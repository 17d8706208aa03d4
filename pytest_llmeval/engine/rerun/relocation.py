"""Find in a worktree of another commit the paths, packages and variables of this checkout.

What was installed from the checkout, editable or as a copy, is to come from the worktree; and where
the two say otherwise what they need, a run of the worktree tests with the wrong packages.
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path, PurePath
from urllib.parse import urlsplit
from urllib.request import url2pathname

# The repository of a git hook, coverage of processes that are begun, what pytest says of itself;
# and what is made anew.
_LEFT_OUT = frozenset((
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX",
    "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG", "COVERAGE_FILE", "COV_CORE_SOURCE",
    "COV_CORE_CONFIG", "COV_CORE_DATAFILE", "PYTEST_CURRENT_TEST", "PYTHONPATH",
))  # fmt: skip
# What tools leave in a checkout, relative to its top.
OF_TOOLS = re.compile(
    r"(^|/)(__pycache__|\.[^/]*(cache|venv|llmeval)|\.[tn]ox|venv|site-packages|node_modules)/"
)
# Paths in a longer text, such as JSON or an option with its value.
_PATHS = re.compile(r"""(?<![\w.~/-])/[^\s"',:;=|<>(){}\[\]]+""")
# What an editable install leaves is no copy, though it is a module too.
_HELPERS = ("__editable__", "_editable_impl_", "__pycache__", "..")
_MODULES = (".py", ".so", ".pyd")
PYPROJECT = "pyproject.toml"
_PATTERNS = (
    PYPROJECT, "setup.py", "setup.cfg", "*requirements*.txt", "*requirements*.in",
    "requirements/*.txt", "constraints*.txt", "*.lock", "Pipfile", "environment*.yml",
    "environment*.yaml",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Install:
    """A distribution that was installed from a folder, or from a file that was built in one.

    Attributes:
        project: the folder; for a file the top of the checkout.
        names: the packages and modules that it brings.
        files: what was copied, absolute and without links; of an editable install next to nothing.
        data: what was copied beside the packages, such as ``share/app/prompt.txt``, likewise.
    """

    project: Path
    names: frozenset[str]
    files: frozenset[str]
    data: frozenset[str]


def installs_from(checkout: Path) -> Iterator[Install]:
    """List what was installed from a checkout, as the installer noted it (PEP 610).

    Args:
        checkout: without links.
    """
    for each in metadata.distributions():
        origin = _origin(each)
        if origin is None or not origin.is_relative_to(checkout):
            continue
        places = {file: os.path.realpath(str(each.locate_file(file))) for file in each.files or ()}
        files = [file for file in places if not file.parts[0].startswith(_HELPERS)]
        commands = {one.name for one in each.entry_points}  # which import what the worktree has
        yield Install(
            project=origin if origin.is_dir() else checkout,
            names=frozenset(_names(each, files)),
            files=frozenset(places[file] for file in files),
            data=frozenset(
                place
                for file, place in places.items()
                if file.parts[0] == ".." and file.stem not in commands
            ),
        )


def _origin(distribution: metadata.Distribution) -> Path | None:
    """Return the place on this machine that a distribution was installed from, without links."""
    try:
        url = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "")
        parts = urlsplit(url)
    except (ValueError, TypeError, AttributeError):
        return None
    if parts.scheme != "file":
        return None
    return Path(os.path.realpath(url2pathname(parts.path)))


def _names(distribution: metadata.Distribution, files: Iterable[PurePath]) -> set[str]:
    """Name what can be imported, by the list of setuptools or by what was copied."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    copied = {file.parts[0].partition(".")[0] for file in files if file.suffix in _MODULES}
    # An editable install of hatchling lists nothing: a guess does no harm.
    guessed = distribution.name.replace("-", "_").lower()
    return {*listed, *copied} or {guessed}


@dataclass(frozen=True, slots=True)
class Relocation:
    """Two working trees of one repository.

    Attributes:
        checkout: top of the one that the session is in, without links.
        worktree: top of the other one, likewise; the same for a second session here.
        apart: a folder for what that session writes, where that is not around the worktree.
    """

    checkout: Path
    worktree: Path
    apart: Path | None = None

    @property
    def is_here(self) -> bool:
        """Whether it is one working tree."""
        return self.worktree == self.checkout

    @property
    def scratch(self) -> Path:
        """The folder for what else a session there writes."""
        return self.apart or self.worktree.parent

    def place(self, path: Path) -> Path | None:
        """Return the same place in the worktree, None for what is not in the checkout.

        Args:
            path: absolute, as somebody wrote it, so links may lead to it.
        """
        for written in (Path(os.path.normpath(path)), Path(os.path.realpath(path))):
            if written.is_relative_to(self.worktree) and not self.is_here:
                return None
            if written.is_relative_to(self.checkout):
                return self.worktree / written.relative_to(self.checkout)
        return None

    def moved(self, text: str) -> str:
        """Replace each path in a text by the same place in the worktree, if something is there.

        What is not in the commit, such as a virtual environment, keeps its place.
        """

        def at_place(path: str) -> str:
            place = self.place(Path(path)) if path.startswith(os.sep) else None
            return path if place is None or not place.exists() else str(place)

        whole = at_place(text)  # which may have any characters in it
        return _PATHS.sub(lambda found: at_place(found[0]), text) if whole == text else whole


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
        forms = (f"{name}/__init__.py", f"{name}.py")
        held = (f for f in folders if any((f / form).is_file() for form in forms))
        root = next(held, None) or next((f for f in folders if (f / name).is_dir()), None)
        if root is not None:
            yield root


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
    moved = {name: text for name, text in environ.items() if name not in _LEFT_OUT}
    for name in moved.keys() - {"HOME"}:  # credentials lie there, wherever it is
        parts = moved[name].split(os.pathsep)
        moved[name] = os.pathsep.join(map(relocation.moved, parts))
    return {**moved, "PYTHONPATH": os.pathsep.join(path)} if path else moved


def changed_dependencies(relocation: Relocation, projects: Iterable[Path]) -> tuple[str, ...]:
    """Name the files by which the worktree wants other packages than the checkout.

    Args:
        relocation: of the worktree.
        projects: folders of the checkout; the folders above them are looked at too.

    Returns:
        Their paths in the checkout, relative to its top, sorted.
    """
    here, there = relocation.checkout, relocation.worktree
    places = filter(None, map(relocation.place, projects))
    inner = {place.relative_to(there) for place in places}
    files = {
        path.relative_to(top)
        for folder in inner.union(*(one.parents for one in inner))
        for top in (here, there)
        for pattern in _PATTERNS
        for path in (top / folder).glob(pattern)
    }
    differing = (file for file in files if _wanted(here / file) != _wanted(there / file))
    return tuple(sorted(file.as_posix() for file in differing))


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
