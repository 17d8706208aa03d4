"""The runs of this directory and those that a team shares, as one store for lookups."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from pytest_llmeval.errors import (
    BaselineUnreadable,
    LLMEvalError,
    SettingsError,
    without_user,
)
from pytest_llmeval.records import Run
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.own_repository import OwnRepository
from pytest_llmeval.runs.run_file import read_run_header
from pytest_llmeval.runs.sharing.ref_store import SCHEME, RefStore
from pytest_llmeval.runs.store import (
    BORROWED,
    ENDING,
    NO_COMMIT,
    Listing,
    RunHome,
    RunName,
    RunStore,
    StoredRun,
    ahead,
    dated_ahead,
    is_run_id,
)


def open_store(directory: Path, *, named: str | None, git: GitState) -> RunStore:
    """Open the store of a session or a command.

    Args:
        directory: ``.llmeval``.
        named: the team's store as the user named it, ``git+refs://REMOTE``; None for none.
        git: of the working tree.

    Raises:
        SettingsError: there is no repository whose remote that could be.
    """
    if named is None:
        return RunStore(directory)
    return SharedStore(
        directory, refs_at(named, directory=directory, git=git), called=without_user(named)
    )


def refs_at(named: str, *, directory: Path, git: GitState) -> RefStore:
    """Open the store of a team in the refs of a remote.

    Args:
        named: ``git+refs://REMOTE``.
        directory: ``.llmeval``.
        git: of the working tree.

    Raises:
        SettingsError: there is no repository whose remote that could be.
    """
    if git.top is None:
        raise SettingsError(
            f"{without_user(named)}: the store is a remote of the repository, and {git.absent}"
        )
    remote = named.removeprefix(SCHEME)
    return RefStore(OwnRepository(directory, top=git.top, fetches=True, remote=remote))


class SharedStore(RunStore):
    """The runs of one ``.llmeval`` directory, and those of a team, which are only read.

    What is named by a commit or a run id is sought in both. The last run, and all runs, are those
    of the directory. A run of the team that is asked for is brought into a file beside ours.

    Args:
        directory: ``.llmeval``.
        shared: where a team keeps its runs.
        called: how the user named that place.
    """

    def __init__(self, directory: Path, shared: RunHome, *, called: str) -> None:
        super().__init__(directory)
        self._shared = shared
        self._called = called
        self.elsewhere = f" or {called}"

    @cached_property
    def shared_names(self) -> tuple[RunName, ...]:
        """The runs of the team; none, and a complaint, if their place cannot be reached."""
        try:
            return self._shared.names()
        except (LLMEvalError, OSError) as exc:
            self.complaints.append(f"{self._called} cannot be read, only {self.folder} is: {exc}")
            return ()

    @cached_property
    def _shared_of(self) -> Mapping[str, Sequence[RunName]]:
        """The runs of the team by commit: there may be ten thousand."""
        found: dict[str, list[RunName]] = {}
        for name in self.shared_names:
            found.setdefault(name.commit, []).append(name)
        return found

    def commits(self) -> tuple[str, ...]:
        """List the commits that have a run; no file is opened."""
        return tuple(sorted({*super().commits(), *self._shared_of}))

    def named_tree(self, commit: str) -> str | None:
        """Return the tree of a commit as the names of the team's runs tell it, if it has any."""
        named = self._shared_of.get(commit)
        return named[0].tree if named else None

    def tree_of(self, commit: str) -> str | None:
        """Return the tree of a commit as its runs tell it; None if it has none."""
        return self.named_tree(commit) or super().tree_of(commit)

    def at_commit(self, commit: str) -> Listing:
        """List the runs of a commit; only headers are read.

        Args:
            commit: full hash.
        """
        listing, before = super().at_commit(commit), len(self.complaints)
        runs = [*listing.runs, *self._borrowed_at(commit)]
        runs.sort(key=lambda stored: stored.header.run.id, reverse=True)
        notes = (*listing.notes, *self.complaints[before:])
        return replace(listing, runs=tuple(runs), notes=notes)

    def by_id(self, run_id: str) -> Path | None:
        """Find the file of a run by its id, None if there is none.

        Raises:
            BaselineUnreadable: it is not here, and the place of the team's runs, or the run
                there, cannot be read.
        """
        path = super().by_id(run_id)
        if path is not None or not is_run_id(run_id):
            return path
        named = [name for name in self.shared_names if name.run_id == run_id]
        path = next(filter(None, map(self.borrow, named)), None)
        if path is None and self.complaints:
            raise BaselineUnreadable(f"{run_id}: {self.complaints[-1]}")
        return path

    def borrow(self, name: RunName) -> Path | None:
        """Bring a run of the team into a file beside ours; None, and a complaint, if that fails.

        It is read to its end first. A header that is not what the name says is no run of that
        name: whoever asks for a commit must not be given the run of another one.
        """
        path = self.directory / BORROWED / name.commit / f"{name.run_id}{ENDING}"
        with suppress(BaselineUnreadable):
            if path.exists() and _is_named(read_run_header(path).run, name):
                return path
        arriving = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        try:
            self.keep(arriving, self._shared.get(name))
            if _is_named(self.load(arriving), name):
                return arriving.replace(path)
            self._pass_over(name, "its header is not what the name of its ref says")
        except (LLMEvalError, OSError) as exc:
            self._pass_over(name, str(exc).replace(str(arriving), "its file"))
        finally:
            arriving.unlink(missing_ok=True)
        return None

    def adopt(self, name: RunName) -> bool:
        """Bring a run of the team home, as if it had been recorded here; tell whether it is."""
        path = self.borrow(name)
        return path is not None and self.put(name, path.read_bytes())

    def _borrowed_at(self, commit: str) -> Iterator[StoredRun]:
        for name in self._shared_of.get(commit, ()):
            if self.place(name).exists():
                continue
            if dated_ahead(name.run_id):
                self._pass_over(name, ahead(name.run_id))
                continue
            path = self.borrow(name)
            if path is not None:
                yield StoredRun(path, read_run_header(path))

    def _pass_over(self, name: RunName, why: str) -> None:
        self.complaints.append(f"passed over: run {name.run_id} of {self._called}: {why}")


def _is_named(run: Run, name: RunName) -> bool:
    return (run.commit or NO_COMMIT, run.tree, run.id) == name
