"""The older runs whose draws may be counted beside those of a baseline."""

from __future__ import annotations

from contextlib import suppress

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import CONFIRM, Run, too_many_errored
from pytest_llmeval.runs.git import first_parents
from pytest_llmeval.runs.lookup.best_run import unfitness
from pytest_llmeval.runs.lookup.refs import Refs
from pytest_llmeval.runs.run_lines import RunHeader
from pytest_llmeval.runs.store import newest_first

_MOST_READ = 10  # runs; a refresh has all draws of a case


def older_runs(run: Run, refs: Refs) -> tuple[Run, ...]:
    """Read the other runs of a commit and of its ancestors that paid for draws, newest first.

    Only runs that lie here are read: no history is fetched, and no remote is asked. Fresh trials by
    which a fall of HEAD itself was looked at again are not among them.

    Args:
        run: the baseline.
        refs: with its store, and how many commits to go back.
    """
    top, commit = refs.git.top, run.commit
    if top is None or commit is None:
        return ()
    line = (commit, *first_parents(commit, top=top, at_most=refs.reach))
    stored = [one for name in line for one in refs.store.here_at(name).runs]
    # whoever judges this commit again, and asks the same, is to find the same suspects
    head = refs.store.here_at(refs.git.commit).runs if refs.git.commit else ()
    own = {run.id, *(one.header.run.id for one in head)}
    found: list[Run] = []
    for one in newest_first(stored):
        header = one.header
        is_own = header.run.id == run.id or header.run.asked_by in own
        if len(found) < _MOST_READ and not is_own and _fits(header, run):
            with suppress(BaselineUnreadable):
                found.append(refs.store.load(one.path))
    return tuple(found)


def _fits(header: RunHeader, run: Run) -> bool:
    """Tell whether all trials of a run were made, with nothing that chose among them."""
    one = header.run
    same = (one.root, one.typed_model) == (run.root, run.typed_model)
    if not same or header.only_replayed:
        return False
    if one.made == CONFIRM:  # complete by itself, if not of its suite
        lost = too_many_errored(header.errored, ran=header.ran)
        return not (lost or one.dirty or one.unseen)
    return not unfitness(header)
