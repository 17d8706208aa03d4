"""The newest complete runs, one of each commit, for their means over commits."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore

_MOST_TRIALS = 100_000  # that are read: a page shall not take minutes


def newest_runs(
    store: RunStore, *, branch: str | None, most: int, besides: Sequence[Run] = ()
) -> list[Run]:
    """Read the newest complete run of each commit.

    Args:
        store: where they lie.
        branch: only runs of this one; None for all.
        most: how many are read.
        besides: runs that are at hand; they are among those returned.

    Returns:
        Oldest first.

    Raises:
        BaselineUnreadable: a file is damaged.
    """
    known = {run.id: run for run in besides}
    commits = {run.commit for run in besides}
    trials = sum(len(run.trials) for run in besides)
    for stored in store.every().runs:
        run, trials = stored.header.run, trials + stored.header.trials
        if len(known) >= most or trials > _MOST_TRIALS:
            break
        if run.complete and run.commit not in commits and branch in (None, run.ref):
            commits.add(run.commit)
            known[run.id] = store.load(stored.path)
    return sorted(known.values(), key=lambda run: run.created)
