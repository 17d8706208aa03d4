"""Files by which the worker processes of a session tell one another something.

It is only ever appended to, so no worker waits for another, and one that is killed leaves
nothing locked.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pytest_llmeval.cache.directory import prepare_directory, refuse_link

DAY = 86_400.0  # seconds; a living session that makes calls adds entries more often


class SharedFile:
    """Entries of all workers in one order, each a list of what JSON can hold.

    Args:
        directory: ``.llmeval``.
        folder: in it; the file is there from the first entry to the end of the session.
        session: name of the session, the same in all its worker processes.
    """

    def __init__(self, directory: Path, folder: str, session: str) -> None:
        self._directory = directory
        self._path = directory / folder / f"{session}.jsonl"
        self._read = 0

    @property
    def exists(self) -> bool:
        """Whether any worker has made an entry."""
        return self._path.exists()

    def append(self, *entry: object) -> None:
        """Add an entry.

        Raises:
            OSError: the file cannot be written.
        """
        prepare_directory(self._directory)
        refuse_link(self._path.parent)
        self._path.parent.mkdir(exist_ok=True)
        if not self.exists:
            _remove_left_behind(self._path.parent)
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # In one piece, so that lines of two workers never mix. It begins with a newline, as
            # a worker may be killed while it writes.
            os.write(descriptor, b"\n" + json.dumps(entry).encode() + b"\n")
        finally:
            os.close(descriptor)

    def unread(self) -> list[list[Any]]:
        """Return the entries since the last time, one's own included.

        Raises:
            OSError: the file is there and cannot be read.
        """
        try:
            size = os.stat(self._path).st_size  # noqa: PTH116 - before every call
            if size == self._read:
                return []
            if size < self._read:  # another worker was done and removed it
                self._read = 0
            with self._path.open("rb") as file:
                file.seek(self._read)
                content = file.read()
        except FileNotFoundError:
            return []
        whole = content.rfind(b"\n") + 1
        self._read += whole
        return list(_entries(content[:whole].splitlines()))

    def remove(self) -> None:
        """Take the file away at the end of the session; every worker may do so."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._path.parent.rmdir()


def journal_of(directory: Path, session: str) -> SharedFile:
    """Take the file in which the workers of a session note their calls."""
    return SharedFile(directory, "caps", session)


def note_end(journal: SharedFile, process: str) -> None:
    """Note that a process has ended, if any made an entry."""
    if journal.exists:
        with contextlib.suppress(OSError):
            journal.append("gone", process)


def _remove_left_behind(folder: Path) -> None:
    """Remove the files of sessions that were killed before they could."""
    with contextlib.suppress(OSError):
        for file in folder.glob("*.jsonl"):
            if time.time() - file.lstat().st_mtime > DAY:
                file.unlink(missing_ok=True)


def _entries(lines: list[bytes]) -> Iterator[list[Any]]:
    for line in lines:
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if isinstance(entry, list):
                yield entry
