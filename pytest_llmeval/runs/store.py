"""The folder of run files, ``.llmeval/runs/<commit>/<run-id>.jsonl.gz``."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from pytest_llmeval.cache.directory import prepare_directory, refuse_link
from pytest_llmeval.errors import BaselineUnreadable, SettingsError
from pytest_llmeval.records import CONFIRM, Run
from pytest_llmeval.runs.git import GitState, tracked_below
from pytest_llmeval.runs.run_file import read_run, read_run_header, write_durably, write_run
from pytest_llmeval.runs.run_lines import FULL_HASH, RUN_ID, RunHeader
from pytest_llmeval.settings import main_worktree

CLOCKS_DIFFER = timedelta(minutes=5)
ENDING = ".jsonl.gz"
NO_COMMIT = "no-commit"
BORROWED = "borrowed"  # folder of runs that a team shares, beside those that were recorded here
_DAY = 86_400.0  # seconds
_DATE = 8  # characters of a run id; clocks may differ by less
_UNFINISHED = ("runs/*/.*.tmp", f"{BORROWED}/*/.*.tmp", f"{BORROWED}/*/*.part")


def new_run_id(now: datetime) -> str:
    """Make up the id of a run: UTC seconds and six hex digits.

    The first three hex digits are the fraction of the second, so that ids order runs of one second,
    too; the others are random.

    Args:
        now: with a time zone.
    """
    fraction = now.microsecond * 4096 // 1_000_000
    return f"{now.astimezone(UTC):%Y%m%dT%H%M%S}-{fraction:03x}{secrets.randbelow(4096):03x}"


def is_run_id(text: str) -> bool:
    """Tell whether a text has the form of a run id."""
    return re.fullmatch(RUN_ID, text) is not None


def ahead(run_id: str) -> str:
    """Say that the time of a run lies in the future by more than clocks differ; empty if not."""
    if run_id[:15] <= f"{datetime.now(UTC) + CLOCKS_DIFFER:%Y%m%dT%H%M%S}":
        return ""
    return f"dated {run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}, ahead of this machine's clock"


def first_of(names: Sequence[str]) -> str:
    """Write the first of some names, and how many there are more."""
    return f"{names[0]} and {len(names) - 1} more" if len(names) > 1 else names[0]


def refuse_tracked(directory: Path, *others: Path, git: GitState) -> None:
    """Refuse a store whose files are tracked by git, since a commit could have made them.

    Args:
        directory: ``.llmeval``.
        others: folders like it from which replies are taken.
        git: of the working tree that is tested.

    Raises:
        SettingsError: git tracks runs or replies, or a link that leads to them.
    """
    tops = () if git.top is None else dict.fromkeys((git.top, main_worktree(git.top)))
    folders = [directory / name for name in ("runs", "cache", BORROWED, "git")]
    folders += [other.absolute() / "cache" for other in others]
    tracked = [each for top in tops for each in tracked_below(folders, top=top)]
    if tracked:
        places = " ".join(dict.fromkeys(place for place, _ in tracked))
        raise SettingsError(
            f"git tracks {first_of([name for _, name in tracked])}: what a commit brings along is "
            "no record of what was measured. Take it out of the commit, it stays on the disk:  "
            f"git rm -r --cached {places}"
        )


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run file whose header was read."""

    path: Path
    header: RunHeader

    @property
    def run(self) -> Run:
        """The run without its trials."""
        return self.header.run


@dataclass(frozen=True, slots=True)
class Listing:
    """Recorded runs, and a note for each file that had to be passed over.

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


class RunName(NamedTuple):
    """The name of a run file in a store, which says what the file is.

    Attributes:
        commit: full hash, or ``no-commit``.
        tree: full hash of the commit's tree; None outside git.
        run_id: id of the run.
    """

    commit: str
    tree: str | None
    run_id: str


class RunStore:
    """The runs that were recorded in one ``.llmeval`` directory.

    Attributes:
        directory: ``.llmeval`` itself; it need not exist before the first ``save``.
        folder: where in it the runs lie.
        complaints: sentences about runs elsewhere that could not be read.
        elsewhere: where runs of a commit are sought besides, as the end of a sentence.
    """

    elsewhere = ""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.folder = directory / "runs"
        self.complaints: list[str] = []

    def save(self, run: Run) -> Path:
        """Write a run to a file of its own, durably.

        Returns:
            The run file.

        Raises:
            ValueError: the run is not as ``records.Run`` says (see ``write_run``).
            OSError: the file cannot be written.
        """
        prepare_directory(self.directory)
        refuse_link(self.folder)
        path = self.place(RunName(run.commit or NO_COMMIT, run.tree, run.id))
        write_run(run, path)
        self._remove_left_behind()
        return path

    def _remove_left_behind(self) -> None:
        """Remove files of processes that were killed while they saved or fetched a run."""
        for pattern in _UNFINISHED:
            for file in self.directory.glob(pattern):
                with suppress(OSError):
                    if time.time() - file.lstat().st_mtime > _DAY:
                        file.unlink()

    def load(self, path: Path) -> Run:
        """Read a run file to its end.

        Raises:
            BaselineUnreadable: it is damaged, foreign, too new, or cannot be opened.
        """
        return read_run(path)

    def place(self, name: RunName) -> Path:
        """Return the file of a run that was, or would be, recorded here."""
        return self.folder / name.commit / f"{name.run_id}{ENDING}"

    def keep(self, path: Path, data: bytes) -> None:
        """Write a file two folders below the directory, durably.

        Raises:
            OSError: it cannot be written.
        """
        prepare_directory(self.directory)
        refuse_link(path.parents[1])
        path.parent.mkdir(parents=True, exist_ok=True)
        write_durably(path, data)

    def at_commit(self, commit: str) -> Listing:
        """List the runs of a commit, of all places; only headers are read.

        Args:
            commit: full hash.
        """
        return self.here_at(commit)

    def here_at(self, commit: str) -> Listing:
        """List the runs of a commit that were recorded here; no remote is asked."""
        notes: list[str] = []
        runs = []
        for stored in self._headers(f"{commit}/*{ENDING}", notes=notes):
            run = stored.run
            if run.commit != commit:
                notes.append(
                    f"passed over: {stored.path} was not recorded for the commit of its folder"
                )
            elif why := ahead(run.id):
                notes.append(f"passed over: run {run.id}, {why}")
            else:
                runs.append(stored)
        return Listing(newest_first(runs), tuple(notes))

    def commits(self) -> tuple[str, ...]:
        """List the commits that have a run; no file is opened."""
        names = {path.parent.name for path in self.folder.glob(f"*/*{ENDING}")}
        return tuple(sorted(name for name in names if re.fullmatch(FULL_HASH, name)))

    def named_tree(self, commit: str) -> str | None:
        """Return the tree of a commit by the names of its runs; names here have none."""
        return None

    def tree_of(self, commit: str) -> str | None:
        """Return the tree of a commit as its runs tell it; None if it has none."""
        return next((one.run.tree for one in self.at_commit(commit).runs), None)

    def every(self) -> Listing:
        """List all runs, by id; only headers are read."""
        notes: list[str] = []
        runs = newest_first(self._headers(f"*/*{ENDING}", notes=notes))
        return Listing(runs, tuple(sorted(notes)))

    def _headers(self, pattern: str, *, notes: list[str]) -> Iterator[StoredRun]:
        """Read headers; note a header that cannot be read."""
        for path in sorted(self.folder.glob(pattern)):
            try:
                yield StoredRun(path, read_run_header(path))
            except BaselineUnreadable as exc:
                notes.append(f"passed over: {exc}")

    def files(self) -> dict[str, Path]:
        """Return the files of all runs, by id; none is opened."""
        named = {path.name.removesuffix(ENDING): path for path in self.folder.glob(f"*/*{ENDING}")}
        return {run_id: path for run_id, path in named.items() if is_run_id(run_id)}

    def by_id(self, run_id: str) -> Path | None:
        """Find the file of a run by its id, None if there is none."""
        return self.files().get(run_id)

    def newest(self, *, excluding: Collection[str] = ()) -> FoundRun | None:
        """Read the newest run of any commit and kind.

        Args:
            excluding: ids of runs that do not count, such as the session's own.

        Returns:
            The newest one that can be read; None if no run was recorded.

        Raises:
            BaselineUnreadable: there are run files, and none of them can be read.
        """
        damages: list[BaselineUnreadable] = []
        notes = []
        # Ids begin with the time, so their order needs no file to be opened.
        for run_id, path in sorted(self.files().items(), reverse=True):
            if run_id in excluding:
                continue
            if why := ahead(run_id):
                notes.append(f"passed over: run {run_id}, {why}")
                continue
            try:
                run = self.load(path)
                if run.made != CONFIRM:  # which shows some cases alone, of a run beside it
                    return FoundRun(path, run, tuple(notes))
            except BaselineUnreadable as exc:
                damages.append(exc)
                notes.append(f"passed over: {exc}")
        if damages:
            raise damages[0]
        return None


def is_try(header: RunHeader) -> bool:
    """Tell whether a run was compared with another one, outside CI, and paid for a reply."""
    run, is_answered = header.run, header.errored < header.trials and not header.only_replayed
    return run.compared_with is not None and run.ci is None and run.attempts != 0 and is_answered


def tries_against(store: RunStore, baseline: str, *, branch: str | None = None) -> list[StoredRun]:
    """List the tries against a baseline, oldest first; those of dirty trees are among them.

    Args:
        store: where they lie; only headers are read.
        baseline: id of its run.
        branch: the branch of the tries; None for the branch of the newest try.
    """
    tries = []
    for run_id, path in sorted(store.files().items()):
        if run_id[:_DATE] >= baseline[:_DATE]:
            with suppress(BaselineUnreadable):
                header = read_run_header(path)
                if header.run.compared_with == baseline and is_try(header):
                    tries.append(StoredRun(path, header))
    branch = branch or next((one.run.ref for one in reversed(tries)), None)
    return [one for one in tries if one.run.ref == branch]


def newest_first(runs: Iterable[StoredRun]) -> tuple[StoredRun, ...]:
    """Sort runs by their ids, which begin with the time."""
    return tuple(sorted(runs, key=lambda stored: stored.run.id, reverse=True))
