"""Which run stands for a test function at a commit: the newest one that has all its cases."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run
from pytest_llmeval.runs.lookup.best_run import in_order, unfitness
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.lookup.wanted_commit import WantedCommit
from pytest_llmeval.runs.store import StoredRun


def standing(runs: Iterable[StoredRun]) -> dict[str, StoredRun]:
    """Find for each test function the run that stands for it.

    Args:
        runs: of one state of the files, complete ones.
    """
    found: dict[str, StoredRun] = {}
    for stored in in_order(runs):
        run = stored.header.run
        for function in dict.fromkeys(case.function for case in run.cases):
            if function not in run.partial:
                found.setdefault(function, stored)
    return found


def draws_of_line(refs: Refs, *, root: str) -> frozenset[str]:
    """Collect the draws that the runs of HEAD name, and of its ancestors where it has none.

    Args:
        refs: resolves names.
        root: rootpath relative to git's top level.
    """
    found: dict[str, StoredRun] = {}
    steps = refs.steps(WantedCommit(commit=refs.git.commit), head=None, root=root)
    for step in steps if refs.git.commit else ():
        listed = [one for commit in step.commits for one in refs.store.at_commit(commit).runs]
        fit = [one for one in listed if one.header.run.root == root and not unfitness(one.header)]
        found = standing(fit) | found
        if any(not one.header.run.selection for one in fit):
            break
    draws: set[str] = set()
    for path in {stored.path for stored in found.values()}:
        with suppress(BaselineUnreadable):
            run = refs.store.load(path)
            functions = {name for name, stored in found.items() if stored.path == path}
            draws |= draws_of(run, functions)
    return frozenset(draws)


def draws_of(run: Run, functions: Iterable[str] | None = None) -> frozenset[str]:
    """Collect the draws that a run names, of some of its functions or of all."""
    wanted = {case.id for case in run.cases if functions is None or case.function in functions}
    trials = (trial for trial in run.trials if trial.case in wanted)
    return frozenset(call.draw for trial in trials for call in trial.calls if call.draw)
