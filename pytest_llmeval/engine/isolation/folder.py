"""Give each trial its own working directory."""

from __future__ import annotations

from os import chdir, getcwd, rmdir
from tempfile import mkdtemp

from pytest_llmeval.engine.isolation.part import Part


class Folder(Part[str]):
    """Swap it; it is "" where it was removed."""

    def __init__(self) -> None:
        self._left: str | None = None  # that was taken off last; None once another was put on

    def take_off(self) -> str:
        """Return where the process stands."""
        self._left = _here()
        return self._left

    def put_on(self, saved: str) -> None:
        """Go where a trial stood; if that folder is gone, stand in one that is gone as well.

        Elsewhere the trial would not fail as it does alone, and write among another's files.
        """
        left, self._left = self._left, None  # Ctrl-C may break off what follows
        if saved == (_here() if left is None else left):
            return
        try:
            chdir(saved)
        except OSError as exc:
            nowhere = mkdtemp()
            chdir(nowhere)
            rmdir(nowhere)  # noqa: PTH106 - what pathlib calls may be mocked
            if not isinstance(exc, FileNotFoundError):
                raise

    def is_as(self, saved: str) -> bool:
        """Whether the process stands there."""
        return _here() == saved


def _here() -> str:
    try:
        return getcwd()  # noqa: PTH109 - called at every switch
    except OSError:  # a test removed the folder it stands in
        return ""
