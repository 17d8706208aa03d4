"""Resolve REF: a run of that name, or the commits whose runs may be used.

``wanted_commit`` finds the commit that a name means. Where that commit has no run, the run of
another commit takes its place, in the order of ``Refs.steps``.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Literal

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.records import Run
from pytest_llmeval.runs.ci import ON_LAPTOP, CiFacts
from pytest_llmeval.runs.git import GitState, ResolvedRef, relative_root, resolve, tracked_below
from pytest_llmeval.runs.lookup.best_run import OTHER_MODELS, unfitness
from pytest_llmeval.runs.lookup.history import History
from pytest_llmeval.runs.lookup.wanted_commit import ORIGIN, WantedCommit, name_meant, name_to_show
from pytest_llmeval.runs.own_repository import OwnRepository
from pytest_llmeval.runs.run_lines import FULL_HASH
from pytest_llmeval.runs.store import ENDING, FoundRun, RunStore, StoredRun

NEAREST = 50
FURTHEST = 5000  # commits along first parents, whether or not they count

How = Literal[
    "file", "last", "run id", "commit", "merge-base", "named by CI", "equal tree",
    "earlier commit", "this very commit", "table", "nothing yet", "rerun",
]  # fmt: skip

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
        chosen: see ``WantedCommit``.
        older: runs whose draws may be counted beside those of ``run``, newest first.
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
    chosen: str = ""
    older: tuple[Run, ...] = ()

    @property
    def is_table(self) -> bool:
        """Whether it is a score table: there are no calls, no tests and no ini file."""
        return self.how == "table"

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes without those on models: once it is compared, the differences tell these."""
        return tuple(note for note in self.notes if not note.startswith(OTHER_MODELS))

    @property
    def named(self) -> str:
        """The kind of the baseline, with its name: ``run 1a2b3c4``, ``table scores.csv``."""
        return f"{'table' if self.is_table else 'run'} {self.run.id}"

    @classmethod
    def of(cls, found: FoundRun, reference: str, *, how: How) -> Baseline:
        """Return the baseline with the name by which it was found, and how."""
        return cls(run=found.run, path=found.path, reference=reference, how=how, notes=found.notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Commits whose runs are as good as each other's.

    Attributes:
        commits: full hashes; several only if their trees are equal.
        how: as of a ``Baseline``.
        behind: commits behind the wanted one that changed something below rootdir.
        is_older: it is an ancestor of the wanted commit.
    """

    commits: tuple[str, ...]
    how: How
    behind: int = 0
    is_older: bool = False

    @property
    def is_substitute(self) -> bool:
        """Whether a run of this step is a substitute for one of the wanted commit."""
        return self.is_older and self.how != "earlier commit"


@dataclass(slots=True)
class Refs:
    """The resolver of names, for one store and one working tree.

    Attributes:
        store: where runs are kept.
        git: the state of the working tree.
        ci: what CI tells of the job, if this is one.
        own: where history that is missing may be fetched to; None if it may not.
        reach: how many commits a run may be behind the commit that it stands for.
        pytest: how to type a session that records its run here.
        history: looks commits up.
    """

    store: RunStore
    git: GitState
    ci: CiFacts = ON_LAPTOP
    own: OwnRepository | None = None
    reach: int = NEAREST
    pytest: str = "pytest"
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.history = History(self.git, ci=self.ci, own=self.own)

    @property
    def root(self) -> str:
        """Where the store lies in the working tree, as a run tells its rootpath."""
        return relative_root(self.store.directory.parent, top=self.git.top)

    def by_name(self, reference: str, *, excluding: Collection[str] = ()) -> Baseline | None:
        """Find a run by its own name: a file, ``last`` or a run id; None for all other names.

        A name that looks like a path means a file. Any other name means a file only where nothing
        else has that name, since a file of a commit must not take a branch's place.

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
            return None if newest is None else Baseline.of(newest, reference, how="last")
        stored = self.store.by_id(reference)
        if stored is not None:
            return self._read(stored, reference, how="run id")
        if not is_file or self.wanted(reference).is_known:
            return None
        if tracked_below((path.absolute(),), top=self.git.top):
            raise SettingsError(
                f"no branch, tag or commit is called {reference!r}. A file is, but it is tracked "
                "by git, so a commit may have made its results up. Name a branch, or fetch it. To "
                "compare with the file nevertheless, name its path:  "
                f".{os.sep}{shlex.quote(reference)}"
            )
        return self._read(path, reference, how="file")

    def beginning(self, reference: str) -> str:
        """Say that a name is no more than the beginning of run ids; "" if it is none."""
        begun = [run_id for run_id in self.store.files() if run_id.startswith(reference)]
        if len(begun) > 1:
            return f"it is the beginning of {len(begun)} run ids: type a whole one (llmeval list)"
        return f"it is the beginning of a run id: type all of it, {begun[0]}" if begun else ""

    def _read(self, path: Path, reference: str, *, how: How) -> Baseline:
        return Baseline.of(FoundRun(path, self.store.load(path)), reference, how=how)

    def wanted(self, reference: str) -> WantedCommit:
        """Find the commit that a name means, seen from HEAD; see ``find_wanted``."""
        return self.history.wanted(
            reference, has_run=lambda commit: bool(self.store.at_commit(commit).runs)
        )

    def commit_named(self, reference: str) -> ResolvedRef | None:
        """Find the very commit of a name, here or at origin; a full hash needs no repository."""
        if re.fullmatch(FULL_HASH, reference.lower()):
            return ResolvedRef(commit=reference.lower(), full_name=None)
        if self.git.top is None:
            return None
        name = name_meant(reference, git=self.git, ci=self.ci) or reference
        return resolve(name, top=self.git.top) or resolve(f"{ORIGIN}{name}", top=self.git.top)

    def fit_runs(self, step: Step) -> list[StoredRun]:
        """List the runs of a step that can stand for their commits."""
        runs = (one for commit in step.commits for one in self.store.at_commit(commit).runs)
        return [one for one in runs if not unfitness(one.header)]

    def steps(
        self, wanted: WantedCommit, *, head: str | None = None, root: str | None = None
    ) -> Iterator[Step]:
        """Yield the commits of which one may have a run that will do, the best ones first.

        A named commit has no other steps. On a clean tree at the ref's own commit the question is
        what the last commit did, so earlier commits come first there.

        Args:
            wanted: with a commit.
            head: full hash of the commit that the session runs on; None for a run that is there.
            root: rootpath relative to git's top level; None for where the store lies.
        """
        commit = wanted.commit or ""
        is_own = commit == head
        how: How = "named by CI" if wanted.told_by_ci else "merge-base"
        if is_own or wanted.exact:
            how = "this very commit" if is_own else "commit"
        itself = Step(commits=(commit,), how=how)
        if wanted.exact or self.git.top is None:
            yield itself
            return
        # In CI the branch may have moved on since the job was started for it.
        is_last = is_own and not self.git.dirty and (wanted.is_tip or self.ci.is_for_branch)
        if not is_last:
            yield itself
            yield Step(commits=self.commits_of_equal_tree(commit), how="equal tree")
        of_older: How = "earlier commit" if is_own else how
        for ancestor, behind in self._ancestors(commit, root=root or self.root):
            yield Step(commits=(ancestor,), how=of_older, behind=behind, is_older=True)
        if is_last:
            yield itself

    def standing_for(
        self, wanted: WantedCommit, found: FoundRun, step: Step, *, reference: str
    ) -> Baseline:
        """Make the run that was found at a step the baseline.

        Args:
            wanted: with a commit.
            found: of one of the step's commits.
            step: at which it was found.
            reference: what the user named.
        """
        differing = None
        if step.is_substitute:
            differing = self.history.differing_files(wanted.commit or "", step.commits[0])
        return replace(
            Baseline.of(found, name_to_show(reference, wanted), how=step.how),
            wanted=wanted.commit,
            distance=step.behind,
            substitute=step.is_substitute,
            differing_files=differing,
            chosen=wanted.chosen,
        )

    def commits_of_equal_tree(self, commit: str) -> tuple[str, ...]:
        """List the other commits with a run whose files are those of a commit, if that is here."""
        store = self.store
        others = [other for other in store.commits() if other != commit]
        known = {other: store.named_tree(other) for other in others}
        # A team's store names ten thousand commits. Most are not here, and git might fetch each.
        asked = [other for other in others if known[other] is None]
        tree, *trees = self.history.folder_ids((commit, *asked))
        if tree is None:
            return ()
        known |= dict(zip(asked, trees, strict=True))
        # A commit of a merge queue, or of a fork, need not be here.
        return tuple(other for other in others if (known[other] or store.tree_of(other)) == tree)

    def _ancestors(self, commit: str, *, root: str) -> Iterator[tuple[str, int]]:
        """Yield the nearest ancestors along first parents, each with how far it is behind.

        A commit counts only if it changed something below a folder: in a repository of many
        projects most commits change another project.
        """
        known, most = 0, 1  # the parent is known even where history is cut at its child
        while True:
            line = (commit, *self.history.first_parents(commit, at_most=most))
            folders = self.history.folder_ids(line, folder=root)
            changes = [int(one is None or one != before) for before, one in pairwise(folders)]
            counted = list(zip(line[1:], accumulate(changes), strict=True))
            yield from (one for one in counted[known:] if one[1] <= self.reach)
            known = len(counted)
            if known < most or counted[-1][1] > self.reach or most >= FURTHEST:
                return
            most = min(10 * most, FURTHEST)
