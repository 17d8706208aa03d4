"""What the call lists of two runs tell: is a case a replay, and if not, what changed.

Draw ids decide, never the texts of replies: with short replies many a new draw reads
like the old one, and leaving those out of the test multiplies its false alarms.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Sequence

from pytest_llmeval.gate.calls import CallsOfBoth
from pytest_llmeval.gate.comparison import ChangeKind
from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.records import Trial


def common_trials(there: Scored, here: Scored) -> tuple[Scored, Scored]:
    """Return the trials that are scored on both sides, in step, index ascending."""
    before, after = there.indices, here.indices
    if before == after:
        return there, here
    common = set(before).intersection(after)
    return there.only(common), here.only(common)


def kind_of_change(there: Scored, here: Scored, calls: CallsOfBoth) -> ChangeKind | None:
    """Tell what made a case a changed one.

    Args:
        there: its scored trials in the baseline, at least one.
        here: its scored trials in this run, likewise.
        calls: those of all trials of its function.

    Returns:
        None for an unchanged case: in every trial scored on both sides there are calls,
        all of them the baseline's own draws, and the scores are equal. Otherwise the kind
        of the first call that differs; without one ``score`` if only a score differs in
        a trial with calls, else ``unseen``.
    """
    before, after = common_trials(there, here)
    if not before:
        return _kind_without_common_trials(there.trials, here.trials)
    first = calls.first_kind(before.trials, after.trials)
    if first is not None:
        return first
    called = [bool(trial.calls) for trial in before.trials]
    if any(map(operator.ne, *(itertools.compress(s.values, called) for s in (before, after)))):
        return "score"
    return None if all(called) else "unseen"


def draws_of(scored: Scored) -> set[str]:
    """Return the ids of all draws that some trials used."""
    return {call.draw for trial in scored.trials for call in trial.calls if call.draw is not None}


def all_repeats_identical(samples: Iterable[Scored]) -> bool:
    """Tell whether the stored digests show that repeats were one and the same draw.

    Args:
        samples: the scored trials of each changed case on each side. Equal scores are no
            evidence, so trials without digests show nothing.
    """
    repeated = [sample for sample in samples if len(sample) > 1]
    return bool(repeated) and all(map(_same_replies, repeated))


def _same_replies(sample: Scored) -> bool:
    lists = {tuple(call.reply_sha256 for call in trial.calls) for trial in sample.trials}
    replies = next(iter(lists))
    return len(lists) == 1 and bool(replies) and None not in replies


def _kind_without_common_trials(there: Sequence[Trial], here: Sequence[Trial]) -> ChangeKind:
    keys_there = {call.key for trial in there for call in trial.calls}
    keys_here = {call.key for trial in here for call in trial.calls}
    if keys_there != keys_here:
        return "request"
    return "redrawn" if keys_there else "unseen"
