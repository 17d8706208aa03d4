"""The commits that names mean, and their ancestors: here, and at origin where more is needed.

A checkout of CI has the last commit alone, or the last few. Then origin alone may know what a name
means, and which commits came before.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs import git
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.git import GitState
from pytest_llmeval.runs.lookup.wanted_commit import (
    ORIGIN,
    WantedCommit,
    facts_of_head,
    find_wanted,
    name_meant,
    why_chosen,
    without_prefix,
)
from pytest_llmeval.runs.own_repository import SECONDS, WHOLE_HISTORY, OwnRepository
from pytest_llmeval.runs.run_lines import FULL_HASH

_SECONDS_TO_LOOK = 15.0  # the places whose answer is known if nothing has changed
_DAY = 24 * 60 * 60
DEPTHS = (50, 500, WHOLE_HISTORY)

_HEAD = re.compile(r"\A(HEAD|@)(?=[~^]|\Z)")
_SHORT_HASH = re.compile(r"[0-9a-f]{4,}", re.IGNORECASE)


class History:
    """The commits of the user's repository, and those that origin has besides.

    Nothing is fetched unless more history could change an answer. Where origin gives no history,
    the answer is the one of the history here.

    Attributes:
        notes: why origin gave no history, as a sentence.

    Args:
        user: the user's working tree.
        ci: what CI tells of the job.
        own: where history is fetched to; None if it may not be fetched.
    """

    def __init__(self, user: GitState, *, ci: CiFacts, own: OwnRepository | None = None) -> None:
        self.notes: tuple[str, ...] = ()
        self._user = user
        self._ci = facts_of_head(user, ci=ci)
        can_ask = own is not None and user.top is not None and user.commit is not None
        self._deepening = Deepening(own, user=user) if own is not None and can_ask else None
        self._names: dict[str, str] = {}
        self._answers: dict[str, WantedCommit] = {}

    @property
    def git(self) -> GitState:
        """Where commits are looked up: the user's working tree, or what was fetched besides."""
        return self._user if self._deepening is None else self._deepening.git

    @property
    def has_asked(self) -> bool:
        """Whether origin was asked for its history, and answered."""
        return self._deepening is not None and self._deepening.has_begun and not self.notes

    def wanted(self, reference: str, *, has_run: Callable[[str], bool]) -> WantedCommit:
        """Find the commit that a name means.

        Args:
            reference: as for ``find_wanted``.
            has_run: whether a commit has a run; a commit that CI named and that has one is not
                fetched.
        """
        if reference not in self._answers:
            with self._with_origin() as origin:
                if origin is not None:
                    self._ask_for_base(reference, origin, has_run=has_run)
                    self._ask_for_name(reference, origin)
            found = self._find(reference)
            if self._deepening is None and self._may_be_stale(found):
                notes = _notes_of_age(found, top=self._top)
                found = replace(found, notes=(*found.notes, *notes))
            chosen = why_chosen(reference, git=self._user, ci=self._ci)
            self._answers[reference] = replace(found, chosen=chosen)
        return self._answers[reference]

    def first_parents(self, commit: str, *, at_most: int) -> tuple[str, ...]:
        """List the nearest ancestors along first parents, the parent first.

        The last one need not be here itself.
        """
        line = self._line(commit, at_most=at_most)
        for depth in DEPTHS:
            with self._with_origin() as origin:
                if origin is None or len(line) == at_most:
                    break
                ends = git.cut_commits(self._top).intersection((commit, *line))
                if git.has_commit(commit, top=self._top) and not ends:
                    break
                origin.fetch(*(ends or [commit]), depth=depth)
            line = self._line(commit, at_most=at_most)
        return line

    def _line(self, commit: str, *, at_most: int) -> tuple[str, ...]:
        line = git.first_parents(commit, top=self._top, at_most=at_most)
        # Where history is cut, the last commit still names its parent.
        beyond = () if len(line) == at_most else git.parents((commit, *line)[-1], top=self._top)
        return (*line, *beyond[:1])

    def folder_ids(self, commits: Sequence[str], *, folder: str = ".") -> tuple[str | None, ...]:
        """Find what identifies the files of commits, or the files below a folder.

        Args:
            commits: full hashes.
            folder: relative to git's top level, ``.`` for that itself.

        Returns:
            Equal texts for equal files; None if the commit is not here, or has no such folder.
        """
        if folder == ".":
            return git.tree_ids(commits, top=self._top)
        self._fetch_paths(commits)
        return git.object_ids([f"{commit}:{folder}" for commit in commits], top=self._top)

    def differing_files(self, commit: str, other: str) -> int | None:
        """Count the files that are not the same in two commits; None if one is not here."""
        self._fetch_paths((commit, other))
        return git.differing_files(commit, other, top=self._top)

    def lacks_text(self, text: str, *, commit: str) -> bool:
        """Tell whether no Python file of a commit has a text; False where nobody can tell."""
        with self._with_origin() as origin:
            if origin is not None and origin.has_begun:
                origin.own.fetch_files(commit)
        return git.lacks_text(text, commit=commit, top=self._top)

    def is_cut(self, commits: Iterable[str]) -> bool:
        """Tell whether history was cut off at one of some commits, or one of them is not here."""
        if not self.git.shallow:
            return False
        some = tuple(commits)
        is_cut = not git.cut_commits(self._top).isdisjoint(some)
        return is_cut or None in git.object_ids(some, top=self._top)

    @property
    def _top(self) -> Path:
        return self.git.top or Path()

    @contextmanager
    def _with_origin(self) -> Iterator[Deepening | None]:
        """Return the repository that may fetch more, None if none may; note a failure."""
        try:
            yield None if self.notes else self._deepening
        except (GitFailed, OSError) as exc:
            self.notes = (f"origin gave no history: {' '.join(str(exc).split())}",)

    def _find(self, reference: str) -> WantedCommit:
        return find_wanted(self._names.get(reference, reference), git=self.git, ci=self._ci)

    def _ask_for_base(
        self, reference: str, origin: Deepening, *, has_run: Callable[[str], bool]
    ) -> None:
        """Fetch the commit that CI named; if origin does not have it, ignore what CI said."""
        found = self._find(reference)
        commit = found.commit if found.told_by_ci else None
        if commit is None or has_run(commit) or git.has_commit(commit, top=self._top):
            return
        try:
            origin.fetch(commit, depth=DEPTHS[0])
        except GitFailed as exc:
            if "not our ref" not in str(exc) or commit != self._ci.base:
                raise
            problem = (
                f"{self._ci.base_name} is {git.short_hash(commit)}, which origin does not have"
            )
            complaints = (*self._ci.complaints, problem)
            self._ci = replace(self._ci, base=None, complaints=complaints)

    def _ask_for_name(self, reference: str, origin: Deepening) -> None:
        """Fetch history until more of it could not change what a name means."""
        found = self._find(reference)
        is_known = is_certain(found, at=self.git)
        if is_known and not (self._may_be_stale(found) and origin.is_stale(found)):
            return
        name = origin.name_at_origin(name_meant(reference, git=self._user, ci=self._ci))
        self._names[reference] = name or reference
        for _ in origin.deepen(name):
            if is_certain(self._find(reference), at=self.git):
                return

    def _may_be_stale(self, found: WantedCommit) -> bool:
        """Tell whether origin's branch may have moved on, in a way that matters to HEAD."""
        told = found.exact or found.told_by_ci or found.branch is None
        head = self._user.commit
        is_push = found.commit == self._ci.commit == head and not self._ci.of_request
        return not (told or is_push) and found.commit in found.tips

    def _fetch_paths(self, commits: Sequence[str]) -> None:
        with self._with_origin() as origin:
            if origin is not None and origin.has_begun:  # else they are of the user's repository
                origin.own.fetch_paths(commits)


def is_certain(found: WantedCommit, *, at: GitState) -> bool:
    """Tell whether more history could not change what a name means.

    Args:
        found: the meaning of the name with the history that is in ``at.top``.
        at: the working tree, or our own repository with its HEAD.
    """
    if found.commit is None and not found.is_known:
        return False
    if found.exact or found.told_by_ci or not at.shallow:
        return True
    if found.commit == at.commit or set(found.tips) == {found.commit}:
        return True
    # A nearer merge-base can lie only beyond a commit that lies on this side of it.
    until = () if found.commit is None else (f"^{found.commit}",)
    top = at.top or Path()
    seen = git.ask(top, "rev-list", at.commit or "", *found.tips, *until) or ""
    return git.cut_commits(top).isdisjoint(seen.split())


def _notes_of_age(found: WantedCommit, *, top: Path) -> tuple[str, ...]:
    """Note that origin's branch may have moved on, as it was not fetched lately."""
    place = f"{ORIGIN}{found.branch}"
    if git.refs_of(top, [place]).get(place) != found.commit:
        return ()
    last = top / (git.ask(top, "rev-parse", "--git-path", "FETCH_HEAD") or "")
    if not last.is_file():  # nothing was fetched since it was cloned
        return ()
    days = int((time.time() - last.stat().st_mtime) / _DAY)
    todo = f"if {found.branch} has moved on:  git fetch origin"
    if f"branch '{found.branch}' of" not in last.read_text(errors="replace"):
        return (f"origin/{found.branch} was not in the last fetch: {todo}",)
    return (f"origin/{found.branch} was fetched {days} days ago: {todo}",) if days > 1 else ()


class Deepening:
    """History that is fetched for one lookup, in a minute at most.

    Each method raises ``GitFailed`` or ``OSError`` where origin, or the disk, does not serve.

    Attributes:
        git: where commits are looked up: the user's working tree, and once something was fetched
            our own repository, with the same HEAD.
        own: our own git.

    Args:
        own: where it is fetched to.
        user: the user's working tree, which has a commit.
    """

    def __init__(self, own: OwnRepository, *, user: GitState) -> None:
        self.git = user
        self.own = own
        self._user = user.top or Path()
        self._head = user.commit or ""

    @property
    def has_begun(self) -> bool:
        """Whether anything was asked for."""
        return self.own.end is not None

    def is_stale(self, found: WantedCommit) -> bool:
        """Ask origin whether its branch is elsewhere than all that is known here."""
        self.own.prepare()
        ref = f"refs/heads/{found.branch}"
        listed = self.own.listed(ref, seconds=_SECONDS_TO_LOOK)
        return listed.get(ref, found.tips[0]) not in found.tips

    def fetch(self, *wanted: str, depth: int) -> None:
        """Fetch commits; see ``OwnRepository.fetch``."""
        self._begin()
        self.own.fetch(*wanted, depth=depth)
        self._look()

    def name_at_origin(self, name: str) -> str:
        """Return the name by which our own repository knows what a name means.

        Its HEAD is not the user's. For the default branch, an empty name, origin is asked.
        """
        self._begin()
        return _HEAD.sub(self._head, name) if name else self.own.default_branch() or ""

    def deepen(self, name: str) -> Iterator[None]:
        """Fetch more and more of the history of HEAD and of a name, while there is more."""
        branch = re.split(r"[~^@]", without_prefix(name))[0]
        if not git.is_name(branch):
            return
        self._begin()
        refs = [f"refs/{kind}/{branch}" for kind in ("heads", "remotes/origin", "tags")]
        known = self._adopt(refs)
        specs = [] if re.fullmatch(FULL_HASH, branch) else self._specs(*refs, known=known)
        if not (specs or git.refs_of(self.own.path, refs) or _SHORT_HASH.match(branch)):
            return  # neither here nor at origin
        for depth in DEPTHS:
            tips = git.refs_of(self.own.path, refs).values()
            seen = git.ask(self.own.path, "rev-list", self._head, *tips) or ""
            cuts = git.cut_commits(self.own.path).intersection(seen.split())
            if not (specs or cuts):
                return
            self.fetch(*specs, *sorted(cuts), depth=depth)
            specs = []
            yield

    def _adopt(self, refs: Sequence[str]) -> dict[str, str]:
        """Give refs of the user's to our own repository; return them."""
        known = git.refs_of(self._user, refs)
        self.own.set_refs({**dict.fromkeys(git.refs_of(self.own.path, refs)), **known})
        return known

    def _specs(self, heads: str, remote: str, tags: str, *, known: Collection[str]) -> list[str]:
        """Ask origin for a branch and a tag; return the refspecs to be fetched."""
        listed = self.own.listed(heads, tags)
        specs = [f"+{tags}:{tags}"] if tags in listed and tags not in known else []
        if heads not in listed:
            return specs
        if not git.has_commit(listed[heads], top=self.own.path):
            return [*specs, f"+{heads}:{remote}"]
        self.own.set_refs({remote: listed[heads]})
        return specs

    def _begin(self) -> None:
        """Open our own repository; from now on origin has a minute for all."""
        if not self.has_begun:
            self.own.end = time.monotonic() + SECONDS
            self.own.prepare()
            self._look()

    def _look(self) -> None:
        is_shallow = bool(git.cut_commits(self.own.path))
        self.git = replace(self.git, top=self.own.path, shallow=is_shallow)
