"""Means of test functions over the runs that were recorded, oldest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmeval.gate.describe import describe
from pytest_llmeval.gate.results import FunctionDescription
from pytest_llmeval.gate.scoring import CostOf
from pytest_llmeval.judgement import Judgement, pricing
from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore

_MOST = 30  # runs that a page shows
_MOST_TRIALS = 100_000  # that are read: a page shall not take minutes


@dataclass(frozen=True, slots=True)
class Point:
    """The mean of a function in one run.

    Attributes:
        run: the run.
        described: the function in it, with its mean and intervals.
    """

    run: Run
    described: FunctionDescription

    @property
    def mean(self) -> float:
        """The mean over the cases that have a value."""
        assert self.described.mean is not None  # noqa: S101 - else it is left out
        return self.described.mean


History = dict[tuple[str, str], list[Point]]  # by function and metric, oldest first


def history_of(runs: Iterable[Run], *, alpha: float, cost_of: CostOf | None = None) -> History:
    """Describe each function in each of some runs.

    Args:
        runs: oldest first.
        alpha: what may lie beyond each end of an interval, in (0, 0.5).
        cost_of: as ``describe`` takes it.

    Returns:
        The points of a function; runs that have no mean of it are left out.
    """
    found: History = {}
    for run in runs:
        for one in describe(run, alpha=alpha, cost_of=cost_of):
            if one.mean is not None:
                found.setdefault((one.function, one.metric), []).append(Point(run, one))
    return found


def recorded_runs(
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


def history_around(judgement: Judgement) -> History:
    """Describe the runs of a judgement, and those that were recorded for the baseline's branch."""
    settings, run = judgement.settings, judgement.run
    if run is None or (judgement.descriptions == () and judgement.comparison is None):
        return {}
    baseline = judgement.baseline.run if judgement.baseline else None
    besides = [each for each in (baseline, run) if each and each.trials]
    branch = baseline.ref if baseline else run.ref
    runs = recorded_runs(RunStore(settings.directory), branch=branch, most=_MOST, besides=besides)
    cost_of = pricing(settings.prices)
    return history_of(runs, alpha=settings.gate.alpha, cost_of=cost_of)
