"""Note which files this process opens, and name those of another working tree.

A path in a variable or in a file of settings leads a run of the base to the files of the branch.
What is imported is looked at in ``child``.
"""

from __future__ import annotations

import filecmp
import os
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.engine.rerun.relocation import OF_TOOLS, Relocation
from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import ask, change

# Events of Python, and which of their values names files: a name, or a command line.
_NAMES = {
    "open": 0, "sqlite3.connect": 0, "os.system": 0, "subprocess.Popen": 1, "os.posix_spawn": 1,
}  # fmt: skip
_OPENED = pytest.StashKey["OpenedFiles"]()


class OpenedFiles:
    """The files that this process opened to read them, since it was made."""

    def __init__(self) -> None:
        self._written: set[str] = set()
        sys.addaudithook(self._note)  # Python never lets go of a hook of that kind

    def _note(self, event: str, given: tuple[Any, ...]) -> None:
        if event not in _NAMES:
            return
        with suppress(OSError, ValueError, TypeError):  # a descriptor, a folder that is gone
            if event == "open" and given[2] & os.O_WRONLY:
                return
            named = given[_NAMES[event]]
            is_file = event in ("open", "sqlite3.connect")
            names = [os.fsdecode(named)] if is_file else _words(named)
            folder = os.getcwd()  # noqa: PTH109 - quick
            self._written.update(os.path.join(folder, name) for name in names)  # noqa: PTH118

    @property
    def files(self) -> set[Path]:
        """The opened files that still exist, with links resolved."""
        found = (Path(os.path.realpath(name)) for name in self._written.copy())
        return {file for file in found if file.is_file()}

    def of_others(self, relocation: Relocation, copied: Collection[str]) -> Iterator[str]:
        """Name opened files of another working tree, or copied from it, that differ in the base.

        Args:
            relocation: of the base's working tree.
            copied: data that was installed from the checkout, beside its packages.
        """
        files, base = self.files, relocation.worktree
        listed = ask(relocation.checkout, "worktree", "list", "--porcelain") or ""
        lines = (line.partition("worktree ") for line in listed.splitlines())
        others = {Path(os.path.realpath(top)) for _, word, top in lines if word}
        for top in {relocation.checkout, *others} - {base}:
            for file in (file for file in files if file.is_relative_to(top)):
                twin = base / file.relative_to(top)
                if twin.is_file() and not filecmp.cmp(file, twin, shallow=False):
                    yield str(file)
        shared = sorted(set(copied).intersection(map(str, files)))
        known = (ask(base, "ls-tree", "-r", "HEAD") or "").split() if shared else ()
        for name in shared:
            if ask(base, "hash-object", "--no-filters", "--", name) not in known:
                yield name

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
