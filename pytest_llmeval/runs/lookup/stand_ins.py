"""The commits whose runs stand for a wanted one, in the order in which they are looked at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from pytest_llmeval.runs.lookup.history import History
from pytest_llmeval.runs.lookup.refs import Baseline, How, Refs
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit, name_to_show
from pytest_llmeval.runs.store import FoundRun, RunStore

FURTHEST = 5000  # commits along first parents, whether or not they count


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Commits whose runs are as good as each other's.

    Attributes:
        commits: full hashes; several only if their trees are equal.
        how: as of a ``Baseline``.
        behind: commits behind the wanted one, see ``ancestors``.
        is_substitute: their tree is another one than that of the wanted commit.
    """

    commits: tuple[str, ...]
    how: How
    behind: int = 0
    is_substitute: bool = False

    @property
    def is_older(self) -> bool:
        """Whether it is an ancestor of the wanted commit."""
        return self.behind > 0 or self.is_substitute or self.how == "earlier commit"


def steps(wanted: WantedCommit, refs: Refs, *, head: str | None, root: str) -> Iterator[Step]:
    """Yield the commits of which one may have a run that will do, the best ones first.

    A commit that was named stands for itself alone. A clean tree at the ref's own commit asks what
    the last commit did to it, so earlier ones come first there.

    Args:
        wanted: with a commit.
        refs: the store, and the working tree.
        head: full hash of the commit that the session runs on; None for a run that is there.
        root: rootpath relative to git's top level.
    """
    git, history, commit = refs.git, refs.history, wanted.commit or ""
    is_own = commit == head
    how: How = "named by CI" if wanted.told_by_ci else "merge-base"
    if is_own or wanted.exact:
        how = "this very commit" if is_own else "commit"
    itself = Step(commits=(commit,), how=how)
    if wanted.exact or git.top is None:
        yield itself
        return
    # In CI the branch may have moved on since the job was started for it.
    is_last = is_own and not git.dirty and (wanted.is_tip or refs.ci.is_for_branch)
    if not is_last:
        yield itself
        equal = commits_of_equal_tree(commit, refs.store, history=history)
        yield Step(commits=equal, how="equal tree")
    for ancestor, behind in ancestors(commit, history=history, root=root, reach=refs.reach):
        yield Step(
            commits=(ancestor,),
            how="earlier commit" if is_own else how,
            behind=behind,
            is_substitute=not is_own,
        )
    if is_last:
        yield itself


def standing_for(
    wanted: WantedCommit, found: FoundRun, step: Step, *, reference: str, history: History
) -> Baseline:
    """Make the run that was found at a step the baseline.

    Args:
        wanted: with a commit.
        found: of one of the step's commits.
        step: at which it was found.
        reference: what the user named.
        history: looks commits up.
    """
    differing = None
    if step.is_substitute:
        differing = history.differing_files(wanted.commit or "", step.commits[0])
    return Baseline(
        run=found.run,
        path=found.path,
        reference=name_to_show(reference, wanted),
        how=step.how,
        wanted=wanted.commit,
        distance=step.behind,
        substitute=step.is_substitute,
        differing_files=differing,
        notes=found.notes,
    )


def commits_of_equal_tree(commit: str, store: RunStore, *, history: History) -> tuple[str, ...]:
    """List the other commits with a run whose files are those of a commit, if that is here."""
    others = [other for other in store.commits() if other != commit]
    known = {other: store.named_tree(other) for other in others}
    # A store of a team names ten thousand commits. Most are not here, and git might fetch each.
    asked = [other for other in others if known[other] is None]
    tree, *trees = history.folder_ids((commit, *asked))
    if tree is None:
        return ()
    known |= dict(zip(asked, trees, strict=True))
    # A commit of a merge queue, or of a fork, need not be here.
    return tuple(other for other in others if (known[other] or store.tree_of(other)) == tree)


def ancestors(commit: str, *, history: History, root: str, reach: int) -> Iterator[tuple[str, int]]:
    """Yield the nearest ancestors along first parents, each with how far it is behind.

    A commit counts only if it changed something below a folder: in a repository of many projects
    most change another one.

    Args:
        commit: full hash.
        history: looks commits up.
        root: the folder, relative to git's top level.
        reach: how far behind an ancestor may be.
    """
    known, most = 0, 1  # the parent is known even where history is cut at its child
    while True:
        line = (commit, *history.first_parents(commit, at_most=most))
        folders = history.folder_ids(line, folder=root)
        changes = [int(folder is None or folder != before) for before, folder in pairwise(folders)]
        counted = list(zip(line[1:], accumulate(changes), strict=True))
        yield from (one for one in counted[known:] if one[1] <= reach)
        known = len(counted)
        if known < most or counted[-1][1] > reach or most >= FURTHEST:
            return
        most = min(10 * most, FURTHEST)
