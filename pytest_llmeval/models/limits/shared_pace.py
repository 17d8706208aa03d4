"""What the workers of a session tell one another about a provider: a file of events.

It is only ever appended to, so no worker waits for another, and one that is killed leaves
nothing locked. Whatever goes wrong with the file, each worker still has its own pace.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pytest_llmeval.cache.storage.directory import prepare_directory, refuse_link


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A provider asked one worker to slow down.

    Attributes:
        provider: and ``origin``, whose pace it is.
        started: when the refused call set off, on the monotonic clock of the machine.
        now: when the refusal came.
        pause: seconds during which no call is to start.
    """

    provider: str
    origin: str
    started: float
    now: float
    pause: float


class Bulletin:
    """Refusals, as all workers of the session see them.

    Args:
        directory: ``.llmeval``; the file lies in its folder ``pace``, from the first refusal to
            the end of the session.
        session: name of the session, the same in all its worker processes.
    """

    def __init__(self, directory: Path, session: str) -> None:
        self._directory = directory
        self._path = directory / "pace" / f"{session}.jsonl"
        self._read = 0

    def post(self, refusal: Refusal) -> None:
        """Tell the other workers; on a disk that cannot be written they find out themselves."""
        fields = [refusal.provider, refusal.origin, refusal.started, refusal.now, refusal.pause]
        line = json.dumps(fields).encode() + b"\n"
        with contextlib.suppress(OSError):
            prepare_directory(self._directory)
            refuse_link(self._path.parent)
            self._path.parent.mkdir(exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.write(descriptor, line)  # in one piece: lines of two workers never mix
            finally:
                os.close(descriptor)

    def news(self) -> list[Refusal]:
        """Return what was posted since the last time, one's own included."""
        try:
            if os.stat(self._path).st_size == self._read:  # noqa: PTH116 - before every call
                return []
            content = self._path.read_bytes()
        except OSError:
            return []
        if len(content) < self._read:  # another worker was done and removed it
            self._read = 0
        whole = content.rfind(b"\n") + 1
        unread, self._read = content[self._read : whole], max(self._read, whole)
        return list(_refusals(unread))

    def remove(self) -> None:
        """Take the file away at the end of the session; every worker may do so."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
            self._path.parent.rmdir()


def _refusals(lines: bytes) -> Iterator[Refusal]:
    for line in lines.splitlines():
        with contextlib.suppress(ValueError, TypeError):  # not one of ours
            provider, origin, started, now, pause = json.loads(line)
            yield Refusal(
                provider=str(provider),
                origin=str(origin),
                started=float(started),
                now=float(now),
                pause=float(pause),
            )
