"""The store of a team in refs of a git host, and with the runs of this directory one for lookups.

A run has one ref, ``refs/llmeval/COMMIT/TREE/RUN-ID``. The ref holds a commit without parents and
with nothing in it but the run file. Author and date are fixed, so equal files are equal commits,
and to put one again changes nothing. The names are the whole index: one ``ls-remote`` brings all.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from pytest_llmeval import errors
from pytest_llmeval.records import Run
from pytest_llmeval.runs import store
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.git import GitState, blob, change, has_commit
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.own_repository import SECONDS, OwnRepository
from pytest_llmeval.runs.run_file import read_run_header
from pytest_llmeval.runs.run_lines import FULL_HASH, RUN_ID
from pytest_llmeval.runs.sharing.sending import unfit_to_share
from pytest_llmeval.settings import SCHEME, Settings, pytest_into

PREFIX = "refs/llmeval/"
RUN_FILE = "run.jsonl.gz"

_REF = re.compile(rf"{PREFIX}({FULL_HASH})/({FULL_HASH})/({RUN_ID})")
_AUTHOR = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in (
        ("NAME", "llmeval"),
        ("EMAIL", "llmeval@localhost"),
        ("DATE", "2000-01-01T00:00:00Z"),
    )
}


class RefStore:
    """Run files in the refs of a remote.

    Args:
        own: the repository of our own; it may fetch, and speaks to that remote.
        seconds: for which the remote may be silent when it is asked what it has.
    """

    def __init__(self, own: OwnRepository, *, seconds: float = SECONDS) -> None:
        self._own = own
        self._seconds = seconds

    def names(self) -> tuple[store.RunName, ...]:
        """List all runs; other refs below the prefix are not ours.

        Raises:
            GitFailed: the remote gives no answer.
        """
        return tuple(self._commits)

    def get(self, name: store.RunName) -> bytes:
        """Return a run file.

        Raises:
            GitFailed: the remote gives no answer, or the ref holds no run file.
        """
        commit = self._commits.get(name)
        if commit is None:
            raise errors.GitFailed(f"{ref_of(name)} is not there")
        self.fetch([name])
        data = blob(self._own.path, f"{commit}:{RUN_FILE}")
        if data is None:
            raise errors.GitFailed(f"{ref_of(name)} holds no {RUN_FILE}")
        return data

    def put(self, name: store.RunName, data: bytes) -> bool:
        """Keep a run file under its name; tell whether it was not there before.

        Raises:
            GitFailed: the remote gives no answer, refuses, or has another file of that name.
        """
        self._prepare()
        commit = self._commit_of(data)
        known = self._commits.get(name)
        if known == commit:
            return False
        if known is not None:
            raise errors.GitFailed(f"{ref_of(name)} is there already and holds another file")
        self._own.send(commit, ref=ref_of(name))
        self._commits[name] = commit
        return True

    def fetch(self, names: Iterable[store.RunName]) -> None:
        """Fetch run files that will be wanted, many at once.

        Raises:
            GitFailed: the remote gives no answer.
        """
        path, known = self._own.path, self._commits
        missing = [ref_of(name) for name in names if not has_commit(known[name], top=path)]
        self._own.fetch_refs(missing)

    @cached_property
    def _commits(self) -> dict[store.RunName, str]:
        """The commits of all refs, asked for once a session."""
        self._prepare()
        listed = self._own.listed(f"{PREFIX}*", seconds=self._seconds)
        named = ((_REF.fullmatch(ref), commit) for ref, commit in listed.items())
        return {store.RunName(*found.groups()): commit for found, commit in named if found}

    def _commit_of(self, data: bytes) -> str:
        """Make the commit that holds a file; equal files are equal commits."""
        path = self._own.path
        file = change(path, "hash-object", "-w", "-t", "blob", "--stdin", given=data)
        tree = change(path, "mktree", given=f"100644 blob {file}\t{RUN_FILE}\n")
        as_utf8 = ("-c", "i18n.commitEncoding=UTF-8")
        return change(path, *as_utf8, "commit-tree", tree, environ=_AUTHOR)

    def _prepare(self) -> None:
        if not self._own.is_made:  # a run has no parents, so what the user has does not matter
            self._own.prepare()


def ref_of(name: store.RunName) -> str:
    """Return the full name of the ref of a run."""
    return f"{PREFIX}{name.commit}/{name.tree}/{name.run_id}"


def open_store(
    directory: Path, *, named: str | None, git: GitState, seconds: float = SECONDS
) -> store.RunStore:
    """Open the store of a session or a command.

    Args:
        directory: ``.llmeval``.
        named: the team's store as the user named it, ``git+refs://REMOTE``; None for none.
        git: of the working tree.
        seconds: for which that store may be silent when it is asked what it has.

    Raises:
        SettingsError: there is no repository whose remote that could be.
    """
    if named is None:
        return store.RunStore(directory)
    shared = refs_at(named, directory=directory, git=git, seconds=seconds)
    return SharedStore(directory, shared, called=errors.without_user(named))


def session_refs(
    settings: Settings, *, git: GitState, ci: CiFacts, seconds: float = SECONDS
) -> Refs:
    """Make the resolver of names of a session, with what the team has and what may be fetched.

    Args:
        settings: of the session.
        git: of the working tree.
        ci: what CI tells of the job.
        seconds: as for ``open_store``.

    Raises:
        SettingsError: as ``open_store``.
    """
    store_ = open_store(settings.directory, named=settings.store, git=git, seconds=seconds)
    own = None  # where history that is missing may be fetched to
    if git.top is not None and settings.fetch:
        own = OwnRepository(settings.directory, top=git.top, fetches=True)
    pytest = pytest_into(settings.typed_directory)
    return Refs(store_, git, ci, own, settings.baseline_reach, pytest)


def refs_at(named: str, *, directory: Path, git: GitState, seconds: float = SECONDS) -> RefStore:
    """Open the store of a team in the refs of a remote.

    Args:
        named: ``git+refs://REMOTE``.
        directory: ``.llmeval``.
        git: of the working tree.
        seconds: as for ``open_store``.

    Raises:
        SettingsError: there is no repository whose remote that could be.
    """
    if git.top is None:
        raise errors.SettingsError(
            f"{errors.without_user(named)}: the store is a remote of the repository, and "
            f"{git.absent}"
        )
    remote = named.removeprefix(SCHEME)
    own = OwnRepository(directory, top=git.top, fetches=True, remote=remote)
    return RefStore(own, seconds=seconds)


class SharedStore(store.RunStore):
    """The runs of one ``.llmeval`` directory, and those of a team, which are only read.

    A commit or a run id is looked up in both. ``last``, and all runs, mean the directory's runs
    alone. A run of the team that is asked for is brought into a file beside ours.

    Args:
        directory: ``.llmeval``.
        shared: where a team keeps its runs.
        called: how the user named that place.
    """

    def __init__(self, directory: Path, shared: RefStore, *, called: str) -> None:
        super().__init__(directory)
        self._shared = shared
        self._called = called
        self.elsewhere = f" or {called}"

    @cached_property
    def shared_names(self) -> tuple[store.RunName, ...]:
        """The runs of the team; none, and a complaint, if their place cannot be reached."""
        try:
            return self._shared.names()
        except (errors.LLMEvalError, OSError) as exc:
            self.complaints.append(f"{self._called} cannot be read, only {self.folder} is: {exc}")
            return ()

    @cached_property
    def _shared_of(self) -> Mapping[str, Sequence[store.RunName]]:
        """The runs of the team by commit: there may be ten thousand."""
        found: dict[str, list[store.RunName]] = {}
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

    def at_commit(self, commit: str) -> store.Listing:
        """List the runs of a commit; only headers are read.

        Args:
            commit: full hash.
        """
        listing, before = self.here_at(commit), len(self.complaints)
        runs = store.newest_first((*listing.runs, *self._borrowed_at(commit)))
        return store.Listing(runs, (*listing.notes, *self.complaints[before:]))

    def by_id(self, run_id: str) -> Path | None:
        """Find the file of a run by its id, None if there is none.

        Raises:
            BaselineUnreadable: it is not here, and the place of the team's runs, or the run
                there, cannot be read.
        """
        path = super().by_id(run_id)
        if path is not None or not store.is_run_id(run_id):
            return path
        named = [name for name in self.shared_names if name.run_id == run_id]
        path = next(filter(None, map(self.borrow, named)), None)
        if path is None and self.complaints:
            raise errors.BaselineUnreadable(f"{run_id}:", self.complaints[-1])
        return path

    def borrow(self, name: store.RunName) -> Path | None:
        """Bring a run of the team into a file beside ours; None, and a complaint, if that fails.

        The file is read to its end first. A run whose header differs from its name is refused:
        whoever asks for a commit must not get the run of another one. A run that ``llmeval push``
        would send from no job is refused, too: somebody may have written the ref without ``push``.
        """
        path = self.directory / store.BORROWED / name.commit / f"{name.run_id}{store.ENDING}"
        with suppress(errors.BaselineUnreadable):
            if path.exists() and not _objection(read_run_header(path).run, name):
                return path
        arriving = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
        try:
            self.keep(arriving, self._shared.get(name))
            objection = _objection(self.load(arriving), name)
            if not objection:
                return arriving.replace(path)
        except (errors.LLMEvalError, OSError) as exc:
            if isinstance(exc, errors.BaselineUnreadable):
                exc.file = "its file"
            objection = str(exc)
        finally:
            arriving.unlink(missing_ok=True)
        self._pass_over(name, objection)
        return None

    def adopt(self, name: store.RunName) -> bool:
        """Bring a run of the team home, as if it had been recorded here; tell whether it is."""
        path, home = self.borrow(name), self.place(name)
        if path is None or home.exists():
            return False
        self.keep(home, path.read_bytes())
        return True

    def _borrowed_at(self, commit: str) -> Iterator[store.StoredRun]:
        for name in self._shared_of.get(commit, ()):
            if self.place(name).exists():
                continue
            if why := store.ahead(name.run_id):
                self._pass_over(name, why)
                continue
            path = self.borrow(name)
            if path is not None:
                yield store.StoredRun(path, read_run_header(path))

    def _pass_over(self, name: store.RunName, why: str) -> None:
        self.complaints.append(f"passed over: run {name.run_id} of {self._called}: {why}")


def _objection(run: Run, name: store.RunName) -> str:
    """Say why a run of the team is not taken; empty if it is taken."""
    if (run.commit or store.NO_COMMIT, run.tree, run.id) != name:
        return "its header is not what the name of its ref says"
    return unfit_to_share(run)
