"""Note which files this process opens, and name those of another working tree.

A path in a variable or in a file of settings leads a run of the base to the files of the branch.
What is imported is looked at in ``child``.
"""

from __future__ import annotations

import filecmp
import os
import re
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.engine.compat import INSTALLED
from pytest_llmeval.engine.rerun.relocation import OF_TOOLS, Relocation
from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import ask, change

# Events of Python, and which of their values names files: a name, or a command line.
_NAMES = {
    "open": 0, "sqlite3.connect": 0, "os.system": 0, "subprocess.Popen": 1, "os.posix_spawn": 1,
}  # fmt: skip
_URI = re.compile(r"^file:(//)?|\?[^/]*$")  # a database may be named by one
# After these a link may be gone that led to a file.
_TAKE_AWAY = frozenset(("os.remove", "os.rename", "shutil.rmtree"))
_OPENED = pytest.StashKey["OpenedFiles"]()


class OpenedFiles:
    """The files that this process opened to read them, since it was made."""

    def __init__(self) -> None:
        self._written: set[str] = set()
        self._resolved: set[str] = set()
        sys.addaudithook(self._note)  # Python never lets go of a hook of that kind

    def _note(self, event: str, given: tuple[Any, ...]) -> None:
        if event in _TAKE_AWAY:
            self._resolve()
        if event not in _NAMES:
            return
        with suppress(OSError, ValueError, TypeError):  # a descriptor, a folder that is gone
            if event == "open" and given[2] & os.O_WRONLY:
                return
            named = given[_NAMES[event]]
            is_file = event in ("open", "sqlite3.connect")
            names = [_URI.sub("", os.fsdecode(named))] if is_file else _words(named)
            folder = os.getcwd()  # noqa: PTH109 - quick
            if event == "subprocess.Popen" and given[2] is not None:
                folder = os.path.join(folder, os.fsdecode(given[2]))  # noqa: PTH118
            self._written.update(os.path.join(folder, name) for name in names)  # noqa: PTH118

    @property
    def files(self) -> set[Path]:
        """The opened files that still exist, with links resolved."""
        self._resolve()
        # False, and no error, for a word of a command line that can name no file
        return {Path(name) for name in self._resolved if os.path.isfile(name)}  # noqa: PTH113

    def _resolve(self) -> None:
        """Follow the links to what was opened, while they are there."""
        written = self._written.copy()  # other threads may open files
        for name in written:
            with suppress(ValueError):
                self._resolved.add(os.path.realpath(name))
        self._written -= written

    def of_others(
        self, relocation: Relocation, copied: Collection[str], loaded: Collection[str]
    ) -> Iterator[str]:
        """Name opened files of another working tree, or copied from it, that differ in the base.

        Args:
            relocation: of the base's working tree.
            copied: data that was installed from the checkout, beside its packages.
            loaded: files of modules.
        """
        files, base = self.files, relocation.worktree
        listed = ask(relocation.checkout, "worktree", "list", "--porcelain") or ""
        lines = (line.partition("worktree ") for line in listed.splitlines())
        others = {Path(os.path.realpath(top)) for _, word, top in lines if word}
        for top in {relocation.checkout, *others} - {base}:
            inside = {file.relative_to(top) for file in files if file.is_relative_to(top)}
            tracked = list(_tracked(top))
            inside.update(_elsewhere(files, tracked, top=top))
            known = {name for name in inside if (base / name).is_file()}
            added = inside.intersection(tracked) - known
            differing = {name for name in known if not _is_like(top / name, base / name)}
            yield from (str(top / name) for name in added | differing)
        shared = sorted(set(copied).intersection(map(str, files)))
        blobs = (ask(base, "ls-tree", "-r", "HEAD") or "").split() if shared else ()
        for name in shared:
            if ask(base, "hash-object", "--no-filters", "--", name) not in blobs:
                yield name
        self._resolve()
        yield from _built({*map(str, files), *loaded}, relocation)
        self._written.clear()  # what was opened for this is nothing that an eval read

    def ignored(self, relocation: Relocation) -> tuple[str, ...]:
        """Name the opened files that git ignores, relative to the top of the checkout."""
        top = relocation.checkout
        inside = (file.relative_to(top) for file in self.files if file.is_relative_to(top))
        names = [file.as_posix() for file in inside if not OF_TOOLS.search(file.as_posix())]
        given = "".join(f"{name}\0" for name in names)
        with suppress(GitFailed):  # as it does where none is ignored
            found = change(top, "check-ignore", "--stdin", "-z", given=given).split("\0")
            return tuple(sorted(filter(None, found)))
        return ()


def _tracked(top: Path) -> Iterator[Path]:
    return map(Path, (ask(top, "ls-files", "-z") or "").split("\0"))


def _elsewhere(files: Collection[Path], tracked: Collection[Path], *, top: Path) -> Iterator[Path]:
    """Name the tracked files that were opened in another place: a second mount, a hard link."""
    names = {file.name for file in files}
    known = {_identity(top / name): name for name in tracked if name.name in names}
    for file in files:
        name = known.get(_identity(file))
        if name is not None and name.name == file.name:
            yield name


def _identity(file: Path) -> tuple[int, int]:
    with suppress(OSError):
        found = file.stat()
        return found.st_dev, found.st_ino
    return 0, 0


def _is_like(file: Path, other: Path) -> bool:
    return other.is_file() and filecmp.cmp(file, other, shallow=False)


def _built(files: Collection[str], relocation: Relocation) -> Iterator[str]:
    """Name the files of installed packages that are as in the checkout and not as in the base.

    Where a package was built by an earlier job, nothing but its files says where it is from.
    """
    parts = {file: INSTALLED.split(file)[-1] for file in files if INSTALLED.search(file)}
    tracked: dict[str, list[Path]] = {}
    for name in _tracked(relocation.checkout) if parts else ():
        tracked.setdefault(name.name, []).append(name)
    for file, inner in parts.items():
        for name in tracked.get(Path(file).name, ()):
            if f"/{name.as_posix()}".endswith(f"/{inner}") and Path(file).stat().st_size:
                here, there = relocation.checkout / name, relocation.worktree / name
                if _is_like(Path(file), here) and not _is_like(Path(file), there):
                    yield file


def _words(command: Any) -> list[str]:
    """Split the command line of another process, which reads the files that it names."""
    one = isinstance(command, str | bytes | os.PathLike)
    line = " ".join(map(os.fsdecode, [command] if one else command))
    return line.replace("=", " ").replace("'", " ").replace('"', " ").split()


def opened_files(config: pytest.Config) -> OpenedFiles:
    """Return what a process opened since it asked for it first."""
    if _OPENED not in config.stash:
        config.stash[_OPENED] = OpenedFiles()
    return config.stash[_OPENED]
