"""The commits that names mean, and those before them: here, and where more is needed at origin.

A checkout of CI has the last commit alone, or the last few. What a name means, and which commits
lie before that one, may then be known to origin alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pytest_llmeval.errors import GitFailed
from pytest_llmeval.runs.ci import CiFacts
from pytest_llmeval.runs.git import (
    GitState,
    ask,
    cut_commits,
    differing_files,
    first_parents,
    has_commit,
    lacks_text,
    object_ids,
    parents,
    short_hash,
    tree_ids,
)
from pytest_llmeval.runs.lookup.deepening import DEPTHS, Deepening
from pytest_llmeval.runs.lookup.wanted_commit import (
    WantedCommit,
    facts_of_head,
    find_wanted,
    name_meant,
)
from pytest_llmeval.runs.own_repository import OwnRepository


class History:
    """The commits of the user's repository, and those that origin has besides.

    Nothing is fetched unless more history could change an answer. Where origin gives none, the
    answer is the one without it.

    Attributes:
        notes: why origin gave no history, as a sentence.

    Args:
        git: the user's working tree.
        ci: what CI tells of the job.
        own: where history is fetched to; None if it may not be fetched.
    """

    def __init__(self, git: GitState, *, ci: CiFacts, own: OwnRepository | None = None) -> None:
        self.notes: tuple[str, ...] = ()
        self._user = git
        self._ci = facts_of_head(git, ci=ci)
        can_ask = own is not None and git.top is not None and git.commit is not None
        self._deepening = Deepening(own, git=git) if own is not None and can_ask else None
        self._names: dict[str, str] = {}
        self._answers: dict[str, WantedCommit] = {}

    @property
    def git(self) -> GitState:
        """Where commits are looked up: the user's working tree, or what was fetched besides."""
        return self._user if self._deepening is None else self._deepening.git

    @property
    def has_asked(self) -> bool:
        """Whether origin was asked, and told what it has."""
        return self._deepening is not None and self._deepening.has_begun and not self.notes

    def wanted(self, reference: str, *, has_run: Callable[[str], bool]) -> WantedCommit:
        """Find the commit that a name means.

        Args:
            reference: as for ``find_wanted``.
            has_run: whether a commit has a run; one that CI named need not be looked at then.
        """
        if reference not in self._answers:
            with self._with_origin() as origin:
                if origin is not None:
                    self._ask_for_base(reference, origin, has_run=has_run)
                    self._ask_for_name(reference, origin)
            self._answers[reference] = self._find(reference)
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
                ends = cut_commits(self._top).intersection((commit, *line))
                if has_commit(commit, top=self._top) and not ends:
                    break
                origin.fetch(*(ends or [commit]), depth=depth)
            line = self._line(commit, at_most=at_most)
        return line

    def _line(self, commit: str, *, at_most: int) -> tuple[str, ...]:
        line = first_parents(commit, top=self._top, at_most=at_most)
        # Where history is cut, the last commit still names its parent.
        beyond = () if len(line) == at_most else parents((commit, *line)[-1], top=self._top)
        return (*line, *beyond[:1])

    def folder_ids(self, commits: Sequence[str], *, folder: str = ".") -> tuple[str | None, ...]:
        """Find what identifies the files of commits, or those below a folder.

        Args:
            commits: full hashes.
            folder: relative to git's top level, ``.`` for that itself.

        Returns:
            Equal texts for equal files; None if the commit is not here, or has no such folder.
        """
        if folder == ".":
            return tree_ids(commits, top=self._top)
        self._fetch_paths(commits)
        return object_ids([f"{commit}:{folder}" for commit in commits], top=self._top)

    def differing_files(self, commit: str, other: str) -> int | None:
        """Count the files that are not the same in two commits; None if one is not here."""
        self._fetch_paths((commit, other))
        return differing_files(commit, other, top=self._top)

    def lacks_text(self, text: str, *, commit: str) -> bool:
        """Tell whether no Python file of a commit has a text; false where that is not known."""
        with self._with_origin() as origin:
            if origin is not None and origin.has_begun:
                origin.fetch_files(commit)
        return lacks_text(text, commit=commit, top=self._top)

    def is_cut(self, commits: Iterable[str]) -> bool:
        """Tell whether history was cut off at one of some commits, or one of them is not here."""
        if not self.git.shallow:
            return False
        some = tuple(commits)
        is_cut = not cut_commits(self._top).isdisjoint(some)
        return is_cut or None in object_ids(some, top=self._top)

    @property
    def _top(self) -> Path:
        return self.git.top or Path()

    @contextmanager
    def _with_origin(self) -> Iterator[Deepening | None]:
        """Give what may be asked for more, None if nothing may; note it if that fails."""
        try:
            yield None if self.notes else self._deepening
        except (GitFailed, OSError) as exc:
            self.notes = (f"origin gave no history: {' '.join(str(exc).split())}",)

    def _find(self, reference: str) -> WantedCommit:
        return find_wanted(self._names.get(reference, reference), git=self.git, ci=self._ci)

    def _ask_for_base(
        self, reference: str, origin: Deepening, *, has_run: Callable[[str], bool]
    ) -> None:
        """Fetch the commit that CI named; if origin does not have it believe CI no more."""
        found = self._find(reference)
        commit = found.commit if found.told_by_ci else None
        if commit is None or has_run(commit) or has_commit(commit, top=self._top):
            return
        try:
            origin.fetch(commit, depth=DEPTHS[0])
        except GitFailed as exc:
            if "not our ref" not in str(exc) or commit != self._ci.base:
                raise
            problem = f"{self._ci.base_name} is {short_hash(commit)}, which origin does not have"
            complaints = (*self._ci.complaints, problem)
            self._ci = replace(self._ci, base=None, complaints=complaints)

    def _ask_for_name(self, reference: str, origin: Deepening) -> None:
        """Fetch history until more of it could not change what a name means."""
        if is_settled(self._find(reference), git=self.git):
            return
        name = origin.name_at_origin(name_meant(reference, git=self._user, ci=self._ci))
        self._names[reference] = name or reference
        for _ in origin.deepen(name):
            if is_settled(self._find(reference), git=self.git):
                return

    def _fetch_paths(self, commits: Sequence[str]) -> None:
        with self._with_origin() as origin:
            if origin is not None and origin.has_begun:  # else they are of the user's repository
                origin.fetch_paths(commits)


def is_settled(found: WantedCommit, *, git: GitState) -> bool:
    """Tell whether more history could not change what a name means.

    Args:
        found: what it means with the history that is in ``git.top``.
        git: the working tree, or our own repository with its HEAD.
    """
    if found.commit is None and not found.is_known:
        return False
    if found.exact or found.told_by_ci or not git.shallow:
        return True
    if found.commit == git.commit or set(found.tips) == {found.commit}:
        return True
    # A nearer merge-base can lie only beyond a commit that lies on this side of it.
    until = () if found.commit is None else (f"^{found.commit}",)
    top = git.top or Path()
    seen = ask(top, "rev-list", git.commit or "", *found.tips, *until) or ""
    return cut_commits(top).isdisjoint(seen.split())
