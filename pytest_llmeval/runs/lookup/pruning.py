"""The choice of run files that may go."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

from pytest_llmeval.errors import BaselineError
from pytest_llmeval.records import CONFIRM
from pytest_llmeval.runs.git import resolve
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.lookup.wanted_commit import AUTO, ORIGIN, WantedCommit, without_prefix
from pytest_llmeval.runs.store import StoredRun


def needed_runs(reference: str | None, refs: Refs) -> frozenset[str]:
    """Find the ids of the runs that a comparison with a branch may need.

    Args:
        reference: names it; None for origin's default branch, or ``main``.
        refs: resolves names.

    Raises:
        BaselineError: there is no such branch.
    """
    if reference is None and refs.git.commit is None:
        return frozenset()
    names = [AUTO, "main", "master"] if reference is None else [reference]
    ref = next(filter(None, map(refs.commit_named, names)), None)
    if ref is None:
        raise BaselineError(
            f"{reference or 'main'}: no branch has that name, so the runs that it needs are not "
            "known. Name another one:  --keep=REF"
        )
    branch = without_prefix(ref.full_name or "")
    there = refs.git.top and branch and resolve(f"{ORIGIN}{branch}", top=refs.git.top)
    tips = {ref.commit, there.commit if there else ref.commit}
    steps = (step for tip in tips for step in refs.steps(WantedCommit(commit=tip)))
    return frozenset(one.run.id for step in steps for one in refs.fit_runs(step))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPruning:
    """Runs that are to go.

    Attributes:
        going: runs that can be no baseline first, each kind oldest first.
        spared: how many are old enough, and stay because they are needed.
        left: how many stay altogether.
    """

    going: tuple[StoredRun, ...]
    spared: int
    left: int


def runs_to_prune(
    runs: Sequence[StoredRun], *, before: datetime, dirty_before: datetime, needed: Collection[str]
) -> RunPruning:
    """Work out which runs go; the newest one stays, unless it only shows some cases again.

    Args:
        runs: newest first.
        before: runs that were recorded before this time go.
        dirty_before: likewise, for runs that are dirty or incomplete.
        needed: ids of runs that stay.
    """
    old = [
        one
        for one in runs
        if datetime.fromisoformat(one.run.created) < (before if is_clean(one) else dirty_before)
    ]
    newest = next((one for one in runs if one.run.made != CONFIRM), None)
    going = [one for one in old if one is not newest and one.run.id not in needed]
    going.sort(key=lambda stored: (is_clean(stored), stored.run.id))
    return RunPruning(going=tuple(going), spared=len(old) - len(going), left=len(runs) - len(going))


def is_clean(stored: StoredRun) -> bool:
    """Tell whether a run is complete and of a clean tree, as a baseline must be."""
    return stored.run.complete and not stored.run.dirty
