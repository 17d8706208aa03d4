"""The store of a team in refs of a git host: one ref a run, ``refs/llmeval/COMMIT/TREE/RUN-ID``.

Each holds a commit without parents and with nothing in it but the run file. Author and date are
fixed, so equal files are equal commits, and to put one again changes nothing. The names are the
whole index: one ``ls-remote`` brings all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import blob, change
from pytest_llmeval.runs.own_repository import OwnRepository
from pytest_llmeval.runs.run_lines import FULL_HASH, RUN_ID
from pytest_llmeval.runs.store import RunName

SCHEME = "git+refs://"
PREFIX = "refs/llmeval/"
RUN_FILE = "run.jsonl.gz"

_AT_ONCE = 100  # refs that are fetched by one command
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
    """

    def __init__(self, own: OwnRepository) -> None:
        self._own = own

    def names(self) -> tuple[RunName, ...]:
        """List all runs; what else is below the prefix is not ours.

        Raises:
            GitFailed: the remote gives no answer.
        """
        return tuple(self._commits)

    def get(self, name: RunName) -> bytes:
        """Return a run file.

        Raises:
            GitFailed: the remote gives no answer, or the ref holds no run file.
        """
        commit = self._commits.get(name)
        if commit is None:
            raise GitFailed(f"{ref_of(name)} is not there")
        self.fetch([name])
        data = blob(self._own.path, f"{commit}:{RUN_FILE}")
        if data is None:
            raise GitFailed(f"{ref_of(name)} holds no {RUN_FILE}")
        return data

    def put(self, name: RunName, data: bytes) -> bool:
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
            raise GitFailed(f"{ref_of(name)} is there already and holds another file")
        self._own.send(commit, ref=ref_of(name))
        self._commits[name] = commit
        return True

    def fetch(self, names: Iterable[RunName]) -> None:
        """Fetch run files that will be wanted, many at once.

        Raises:
            GitFailed: the remote gives no answer.
        """
        missing = [ref_of(name) for name in names if not self._own.has(self._commits[name])]
        for start in range(0, len(missing), _AT_ONCE):
            self._own.fetch_refs(missing[start : start + _AT_ONCE])

    @cached_property
    def _commits(self) -> dict[RunName, str]:
        """The commits of all refs, asked for once a session."""
        self._prepare()
        lines = self._own.list_remote(f"{PREFIX}*").splitlines()
        pairs = (
            (_REF.fullmatch(ref), commit) for commit, _, ref in (x.partition("\t") for x in lines)
        )
        return {RunName(*found.groups()): commit for found, commit in pairs if found}

    def _commit_of(self, data: bytes) -> str:
        """Make the commit that holds a file; equal files are equal commits."""
        path = self._own.path
        file = change(path, "hash-object", "-w", "-t", "blob", "--stdin", given=data)
        tree = change(path, "mktree", given=f"100644 blob {file}\t{RUN_FILE}\n")
        fixed: Mapping[str, str] = _AUTHOR
        return change(path, "-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree, environ=fixed)

    def _prepare(self) -> None:
        if not self._own.is_made:  # a run has no parents, so what the user has does not matter
            self._own.prepare()


def ref_of(name: RunName) -> str:
    """Return the full name of the ref of a run."""
    return f"{PREFIX}{name.commit}/{name.tree}/{name.run_id}"
