"""The folder of run files: ``.llmeval/runs/<commit>/<run-id>.jsonl.gz``."""

from __future__ import annotations

import re
import secrets
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pytest_llmeval.cache.directory import prepare_directory, refuse_link
from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run
from pytest_llmeval.runs.file import read_run, read_run_header, write_run
from pytest_llmeval.runs.header import RUN_ID, RunHeader

ENDING = ".jsonl.gz"
NO_COMMIT = "no-commit"


def new_run_id(now: datetime) -> str:
    """Make up the id of a run: UTC seconds and six hex digits.

    The first three are the fraction of the second, so that ids tell the order also of runs
    that began in the same one; the others are random.

    Args:
        now: with a time zone.
    """
    fraction = now.microsecond * 4096 // 1_000_000
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S}-{fraction:03x}{secrets.randbelow(4096):03x}"


def is_run_id(text: str) -> bool:
    """Whether the text is of the form of a run id."""
    return re.fullmatch(RUN_ID, text) is not None


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run file whose header was read."""

    path: Path
    header: RunHeader


@dataclass(frozen=True, slots=True)
class Listing:
    """What was found, and a note for each file that had to be passed over.

    Attributes:
        runs: newest first.
        notes: sentences to print.
    """

    runs: tuple[StoredRun, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundRun:
    """A run that was read to its end, and the notes of a ``Listing``."""

    path: Path
    run: Run
    notes: tuple[str, ...] = ()


class RunStore:
    """The runs that were recorded in one ``.llmeval`` directory.

    Attributes:
        directory: ``.llmeval`` itself; it need not exist before the first ``save``.
        folder: where in it the runs lie.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.folder = directory / "runs"

    def save(self, run: Run) -> Path:
        """Record a run, durably and under a name of its own.

        Returns:
            The run file.

        Raises:
            ValueError: the run is not as ``records.Run`` says (see ``write_run``).
            OSError: the file cannot be written.
        """
        prepare_directory(self.directory)
        refuse_link(self.folder)
        path = self.folder / (run.commit or NO_COMMIT) / f"{run.id}{ENDING}"
        write_run(run, path)
        return path

    def load(self, path: Path) -> Run:
        """Read a run file to its end.

        Raises:
            BaselineUnreadable: it is damaged, foreign, too new, or cannot be opened.
        """
        return read_run(path)

    def at_commit(self, commit: str) -> Listing:
        """List the runs of a commit; only headers are read.

        Args:
            commit: full hash.
        """
        runs, notes = [], []
        for path in sorted((self.folder / commit).glob(f"*{ENDING}"), reverse=True):
            try:
                header = read_run_header(path)
            except BaselineUnreadable as exc:
                notes.append(f"passed over: {exc}")
                continue
            if header.run.commit == commit:
                runs.append(StoredRun(path, header))
            else:
                notes.append(f"passed over: {path} was not recorded for the commit of its folder")
        return Listing(tuple(runs), tuple(notes))

    def every(self) -> Listing:
        """List all runs, by id; only headers are read."""
        runs, notes = [], []
        for path in self.folder.glob(f"*/*{ENDING}"):
            try:
                runs.append(StoredRun(path, read_run_header(path)))
            except BaselineUnreadable as exc:
                notes.append(f"passed over: {exc}")
        newest_first = sorted(runs, key=lambda stored: stored.header.run.id, reverse=True)
        return Listing(tuple(newest_first), tuple(sorted(notes)))

    def ids(self) -> frozenset[str]:
        """Return the ids of all runs; no file is opened."""
        names = (path.name.removesuffix(ENDING) for path in self.folder.glob(f"*/*{ENDING}"))
        return frozenset(filter(is_run_id, names))

    def by_id(self, run_id: str) -> Path | None:
        """Find the file of a run by its id, None if there is none."""
        if not is_run_id(run_id):
            return None
        return next(self.folder.glob(f"*/{run_id}{ENDING}"), None)

    def newest(self, *, excluding: Collection[str] = ()) -> FoundRun | None:
        """Read the newest run of whatever commit and kind.

        Args:
            excluding: ids of runs that do not count, such as the session's own.

        Returns:
            The newest one that can be read; None if no run was recorded.

        Raises:
            BaselineUnreadable: there are run files, and none of them can be read.
        """
        damages: list[BaselineUnreadable] = []
        for path in self._newest_first(excluding):
            try:
                run = self.load(path)
            except BaselineUnreadable as exc:
                damages.append(exc)
                continue
            return FoundRun(path, run, tuple(f"passed over: {damage}" for damage in damages))
        if damages:
            raise damages[0]
        return None

    def _newest_first(self, excluding: Collection[str]) -> Iterator[Path]:
        # Ids begin with the time: their names tell the order, no file need be opened.
        found = {path.name.removesuffix(ENDING): path for path in self.folder.glob(f"*/*{ENDING}")}
        for run_id in sorted(found, reverse=True):
            if run_id not in excluding and is_run_id(run_id):
                yield found[run_id]
