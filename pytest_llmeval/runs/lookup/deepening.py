"""History of origin, fetched bit by bit into our own repository."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.git import GitState, ask, cut_commits, is_name, refs_of
from pytest_llmeval.runs.lookup.wanted_commit import without_prefix
from pytest_llmeval.runs.own_repository import SECONDS, WHOLE_HISTORY, OwnRepository
from pytest_llmeval.runs.run_lines import FULL_HASH

DEPTHS = (50, 500, WHOLE_HISTORY)

_HEAD = re.compile(r"\A(HEAD|@)(?=[~^]|\Z)")
_SHORT_HASH = re.compile(r"[0-9a-f]{4,}", re.IGNORECASE)


class Deepening:
    """History that is fetched for one lookup, in a minute at most.

    Each method raises ``GitFailed`` or ``OSError`` where origin, or the disk, does not serve.

    Attributes:
        git: where commits are looked up: the user's working tree, and once something was fetched
            our own repository, with the same HEAD.

    Args:
        own: where it is fetched to.
        git: the user's working tree, which has a commit.
    """

    def __init__(self, own: OwnRepository, *, git: GitState) -> None:
        self.git = git
        self._own = own
        self._user = git.top or Path()
        self._head = git.commit or ""
        self._end: float | None = None

    @property
    def has_begun(self) -> bool:
        """Whether anything was asked for."""
        return self._end is not None

    def fetch(self, *wanted: str, depth: int) -> None:
        """Fetch commits; see ``OwnRepository.fetch``."""
        seconds = self._seconds_left()
        self._own.fetch(*wanted, depth=depth, seconds=seconds)
        self._look()

    def fetch_paths(self, commits: Iterable[str]) -> None:
        """Fetch the paths in those commits that are here."""
        self._own.fetch_paths(commits, seconds=self._seconds_left())

    def fetch_files(self, commit: str) -> None:
        """Fetch all files of a commit that is here."""
        self._own.fetch_files(commit, seconds=self._seconds_left())

    def name_at_origin(self, name: str) -> str:
        """Return the name by which our own repository knows what a name means.

        Its HEAD is not the user's. Of the default branch, an empty name, origin is asked.
        """
        self._seconds_left()
        return _HEAD.sub(self._head, name) if name else self._own.default_branch() or ""

    def deepen(self, name: str) -> Iterator[None]:
        """Fetch more and more of the history of HEAD and of a name, while there is more."""
        branch = re.split(r"[~^@]", without_prefix(name))[0]
        if not is_name(branch):
            return
        self._seconds_left()
        refs = [f"refs/{kind}/{branch}" for kind in ("heads", "remotes/origin", "tags")]
        known = self._adopt(refs)
        specs = [] if re.fullmatch(FULL_HASH, branch) else self._specs(*refs, known=known)
        if not (specs or refs_of(self._own.path, refs) or _SHORT_HASH.match(branch)):
            return  # neither here nor at origin
        for depth in DEPTHS:
            tips = refs_of(self._own.path, refs).values()
            seen = ask(self._own.path, "rev-list", self._head, *tips) or ""
            cuts = cut_commits(self._own.path).intersection(seen.split())
            if not (specs or cuts):
                return
            self.fetch(*specs, *sorted(cuts), depth=depth)
            specs = []
            yield

    def _adopt(self, refs: Sequence[str]) -> dict[str, str]:
        """Give refs of the user's to our own repository; return them."""
        known = refs_of(self._user, refs)
        self._own.set_refs({**dict.fromkeys(refs_of(self._own.path, refs)), **known})
        return known

    def _specs(self, heads: str, remote: str, tags: str, *, known: Collection[str]) -> list[str]:
        """Ask origin for a branch and a tag; return refspecs of those that are to be fetched."""
        listed = self._own.listed(heads, tags)
        specs = [f"+{tags}:{tags}"] if tags in listed and tags not in known else []
        if heads not in listed:
            return specs
        if not self._own.has(listed[heads]):
            return [*specs, f"+{heads}:{remote}"]
        self._own.set_refs({remote: listed[heads]})
        return specs

    def _seconds_left(self) -> float:
        """Open our own repository if need be, and tell how long origin may take."""
        if self._end is None:
            self._end = time.monotonic() + SECONDS
            self._own.prepare()
            self._look()
        left = self._end - time.monotonic()
        if left <= 0:
            raise GitFailed(f"no answer within {SECONDS:g} s")
        return left

    def _look(self) -> None:
        is_shallow = bool(cut_commits(self._own.path))
        self.git = replace(self.git, top=self._own.path, shallow=is_shallow)
