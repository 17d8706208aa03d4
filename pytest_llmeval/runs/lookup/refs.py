"""One resolver of REF for all: the run that a name itself has, else its commits (wanted_commit)."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Run
from pytest_llmeval.runs.ci import ON_LAPTOP, CiFacts
from pytest_llmeval.runs.git import GitState, tracked_below
from pytest_llmeval.runs.lookup.history import History
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit, find_wanted
from pytest_llmeval.runs.own_repository import OwnRepository
from pytest_llmeval.runs.store import ENDING, FoundRun, RunStore

NEAREST = 50

How = Literal[
    "file",
    "last",
    "run id",
    "commit",
    "merge-base",
    "named by CI",
    "equal tree",
    "earlier commit",
    "this very commit",
    "table",
    "nothing yet",
    "rerun",
]

_PATH = re.compile(rf"\.{{0,2}}[/\\]|~|[A-Za-z]:[/\\]|.*{re.escape(ENDING)}\Z", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """The run to compare with, and how it was found.

    Attributes:
        run: read to its end.
        path: its file.
        reference: what the user named; for ``auto`` the branch that it stands for.
        how: the way from the reference to the run. ``merge-base`` and ``named by CI`` stand for
            the nearest ancestors too, ``earlier commit`` for those of HEAD; ``equal tree`` is
            another commit of the same files, ``table`` a score table, ``nothing yet`` a run
            without cases, for a commit without evals.
        wanted: full hash of the commit that the reference means; None if a run was named.
        distance: commits behind the wanted one that changed something below rootdir; 0 for a run
            that was named.
        substitute: the run is of other files than the wanted commit, which has none.
        differing_files: how many are not the same in both; None where git cannot tell.
        notes: sentences to print before anything is paid for.
    """

    run: Run
    path: Path
    reference: str
    how: How
    wanted: str | None = None
    distance: int = 0
    substitute: bool = False
    differing_files: int | None = None
    notes: tuple[str, ...] = ()

    @property
    def commit(self) -> str | None:
        """The commit that the run was recorded for, None outside git."""
        return self.run.commit


def found_as(run: FoundRun, reference: str, *, how: How, distance: int = 0) -> Baseline:
    """Note of a run by which name, and how, it was found."""
    return Baseline(
        run=run.run,
        path=run.path,
        reference=reference,
        how=how,
        distance=distance,
        notes=run.notes,
    )


@dataclass(frozen=True, slots=True)
class Refs:
    """The resolver of names, for one store and one working tree.

    Attributes:
        store: where runs are kept.
        git: the state of the working tree.
        ci: what CI tells of the job, if this is one.
        own: where history that is missing may be fetched to; None if it may not.
        reach: how many commits a run may be behind the commit that it stands for.
        history: looks commits up.
    """

    store: RunStore
    git: GitState
    ci: CiFacts = ON_LAPTOP
    own: OwnRepository | None = None
    reach: int = NEAREST
    history: History = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "history", History(self.git, ci=self.ci, own=self.own))

    def by_name(self, reference: str, *, excluding: Collection[str] = ()) -> Baseline | None:
        """Find a run by its own name: a file, ``last`` or a run id; None for all other names.

        A file is meant by a name that looks like a path. By any other it is meant only where
        nothing else has that name, since a file of a commit must not take a branch's place.

        ``excluding`` holds ids of runs that are not the last one.

        Raises:
            BaselineUnreadable: the run is damaged.
            SettingsError: the name is that of a file which git tracks, and does not look like
                a path.
        """
        path = Path(os.path.expanduser(reference))  # noqa: PTH111 - raises nothing
        is_file = os.path.isfile(path)  # noqa: PTH113 - nor at a name too long to be one
        if is_file and _PATH.match(reference):
            return self._read(path, reference, how="file")
        if reference == "last":
            newest = self.store.newest(excluding=excluding)
            return None if newest is None else found_as(newest, reference, how="last")
        stored = self.store.by_id(reference)
        if stored is not None:
            return self._read(stored, reference, how="run id")
        if not is_file or self.wanted(reference).is_known:
            return None
        if tracked_below((path.absolute(),), top=self.git.top):
            quoted = shlex.quote(reference)
            raise SettingsError(
                f"no branch, tag or commit {reference!r} is here, and the file of that name is "
                "tracked by git: what a commit brings along is no record of what was measured. "
                "Fetch the branch, or take the file out of the commit:  git rm --cached "
                f"{quoted}  To compare with the file all the same name its path:  "
                f".{os.sep}{quoted}"
            )
        return self._read(path, reference, how="file")

    def _read(self, path: Path, reference: str, *, how: How) -> Baseline:
        return Baseline(run=self.store.load(path), path=path, reference=reference, how=how)

    def wanted(self, reference: str, *, seen_from: str | None = None) -> WantedCommit:
        """Find the commit that a name means.

        Args:
            reference: as for ``find_wanted``.
            seen_from: full hash of the commit to stand on; None for HEAD.
        """
        if seen_from is None:
            return self.history.wanted(reference, has_run=self._has_run)
        return find_wanted(reference, git=replace(self.git, commit=seen_from), ci=self.ci)

    def _has_run(self, commit: str) -> bool:
        return bool(self.store.at_commit(commit).runs)
