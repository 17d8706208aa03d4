"""The pace of each provider, as the workers of a session tell it one another.

Whatever goes wrong with the file, each worker still has its own pace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from pathlib import Path

from pytest_llmeval.models.limits.shared_file import SharedFile


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


class SharedPace:
    """Refusals, as all workers of the session see them.

    Args:
        directory: ``.llmeval``.
        session: name of the session, the same in all its worker processes.
    """

    def __init__(self, directory: Path, session: str) -> None:
        self._file = SharedFile(directory, "pace", session)

    def post(self, refusal: Refusal) -> None:
        """Tell the other workers; on a disk that cannot be written they find out themselves."""
        with contextlib.suppress(OSError):
            self._file.append(*astuple(refusal))

    def news(self) -> Iterator[Refusal]:
        """Yield what was posted since the last time, one's own included."""
        with contextlib.suppress(OSError):
            for entry in self._file.unread():
                with contextlib.suppress(ValueError, TypeError):  # not one of ours
                    provider, origin, *seconds = entry
                    started, now, pause = map(float, seconds)
                    yield Refusal(
                        provider=str(provider),
                        origin=str(origin),
                        started=started,
                        now=now,
                        pause=pause,
                    )

    def remove(self) -> None:
        """Take the file away at the end of the session; every worker may do so."""
        self._file.remove()
