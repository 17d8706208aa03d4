"""Draws of two runs: whether a case is a replay, and what changed if it is none.

Draw ids decide, never the texts of replies. Many a short new reply reads like the old one, and a
test that left such replies out would have many times its false alarms.
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.records import PASS_METRIC, SECONDS_METRIC, Call, Outcome, Slot, Trial

ChangeKind = Literal["request", "redrawn", "score", "unseen"]
CasesAndTrials = Mapping[str, Sequence[Trial]]


class CallsOfBoth:
    """The calls of a function in two runs, compared once for all its metrics.

    Attributes:
        shared: ids of the draws that more than one case has, in whichever run. Only such a draw can
            tie one case to another.
    """

    def __init__(self, baseline: CasesAndTrials, current: CasesAndTrials) -> None:
        self.shared = frozenset(_draws_of_several_cases(baseline, current))
        self._kinds: dict[tuple[str, tuple[int, ...]], ChangeKind | None] = {}

    def first_kind(self, baseline: Sequence[Trial], current: Sequence[Trial]) -> ChangeKind | None:
        """Return the kind of the first call of a case that differs, None if all calls are equal.

        Args:
            baseline: trials of the case in the baseline, at least one, index ascending.
            current: trials of the same indices in this run.
        """
        trials = baseline[0].case, tuple([trial.index for trial in baseline])
        if trials not in self._kinds:
            pairs = zip(baseline, current, strict=True)
            kinds = (_kind_of_calls(one.calls, other.calls) for one, other in pairs)
            self._kinds[trials] = next((kind for kind in kinds if kind is not None), None)
        return self._kinds[trials]


def _draws_of_several_cases(*sides: CasesAndTrials) -> Iterator[str]:
    owners: dict[str, str] = {}
    for trials_by_case in sides:
        for case, trials in trials_by_case.items():
            for trial in trials:
                for call in trial.calls:
                    if call.draw is not None and owners.setdefault(call.draw, case) != case:
                        yield call.draw


def _kind_of_calls(baseline: Sequence[Call], current: Sequence[Call]) -> ChangeKind | None:
    """Compare the calls of one trial, regardless of the order in which they were made."""
    if len(baseline) == len(current) and all(map(_is_replay, baseline, current)):
        return None  # the usual case, in the usual order
    before, after = unmatched(baseline, current), unmatched(current, baseline)
    if not before and not after:
        return None
    if not before or not after:
        return "request"
    keys_before, keys_after = {call.key for call in before}, {call.key for call in after}
    firsts = {call.key for side in (before, after) for call in firsts_of(side)}
    return "redrawn" if firsts <= keys_before & keys_after else "request"


def firsts_of(calls: Sequence[Call]) -> list[Call]:
    """Return the calls of a trial before which no other of them was answered."""
    return [
        call
        for place, call in enumerate(calls)
        if all(call.is_beside(earlier) for earlier in calls[:place])
    ]


def _is_replay(baseline: Call, current: Call) -> bool:
    # a request without a reply has no draw, so that two failed requests are not equal either
    return (
        current.draw is not None
        and baseline.draw == current.draw
        and baseline.key == current.key
        and baseline.slot == current.slot
    )


def unmatched(calls: Sequence[Call], others: Sequence[Call]) -> list[Call]:
    """Return the calls, as recorded, whose draw is not among the draws of the others."""
    held: Counter[tuple[str, Slot, str | None]] = Counter(
        (call.key, call.slot, call.draw) for call in others if call.draw is not None
    )
    unmatched = []
    for call in calls:
        draw = call.key, call.slot, call.draw
        if held[draw]:
            held[draw] -= 1
        else:
            unmatched.append(call)
    return unmatched


def common_trials(baseline: Scored, current: Scored) -> tuple[Scored, Scored]:
    """Return the trials that are scored on both sides, in step, index ascending."""
    before, after = baseline.indices, current.indices
    if before == after:
        return baseline, current
    common = set(before).intersection(after)
    return baseline.only(common), current.only(common)


def kind_of_change(baseline: Scored, current: Scored, calls: CallsOfBoth) -> ChangeKind | None:
    """Tell why a case is a changed one.

    Args:
        baseline: its scored trials in the baseline, at least one.
        current: its scored trials in this run, likewise.
        calls: the calls of all trials of its function.

    Returns:
        None for an unchanged case: in every trial scored on both sides there are calls,
        all of them the baseline's own draws, and the scores are equal. In some, not in all,
        there may be none on either side if both crashed there, alike, before they asked.
        Otherwise ``unseen`` if no trial here made a call, else the kind of the first call that
        differs; without one ``score`` if only a score differs in a trial with calls, else
        ``unseen`` again.
    """
    before, after = common_trials(baseline, current)
    if not before:
        return _kind_without_common_trials(baseline.trials, current.trials)
    if not any(trial.calls for trial in after.trials):
        return "unseen"
    first = calls.first_kind(before.trials, after.trials)
    if first is not None:
        return first
    called = [bool(trial.calls) for trial in before.trials]
    if any(map(operator.ne, *(itertools.compress(s.values, called) for s in (before, after)))):
        return "score"
    silent = (pair for pair in zip(before.trials, after.trials, strict=True) if not pair[0].calls)
    return None if all(called) or all(itertools.starmap(_crashed_alike, silent)) else "unseen"


def are_replays(baseline: Sequence[Trial], current: Sequence[Trial]) -> bool:
    """Tell whether a case asked nothing but what it asked in the baseline, and got the same draws.

    Args:
        baseline: its trials there; ``current`` those here.
        current: see ``baseline``.

    Returns:
        True if every trial that is scored on both sides did so, and there is one.
    """
    before, after = (
        {trial.index: trial.calls for trial in side if trial.outcome.is_scored}
        for side in (baseline, current)
    )
    common = before.keys() & after.keys()
    return bool(common) and all(
        before[index] and _kind_of_calls(before[index], after[index]) is None for index in common
    )


def asked_the_same(baseline: Scored, current: Scored) -> bool:
    """Tell whether the trials of a case sent the same requests, later ones of a trial, too."""
    return _keys(baseline.trials) == _keys(current.trials)


def _keys(trials: Sequence[Trial]) -> set[str]:
    return {call.key for trial in trials for call in trial.calls}


def _crashed_alike(one: Trial, other: Trial) -> bool:
    """Tell whether two trials stopped by the same exception in the same line."""
    ends = (one.outcome, one.message), (other.outcome, other.message)
    return one.outcome is Outcome.CRASHED and ends[0] == ends[1]


def _kind_without_common_trials(baseline: Sequence[Trial], current: Sequence[Trial]) -> ChangeKind:
    asked = _keys(current)
    if not asked:
        return "unseen"
    return "redrawn" if _keys(baseline) == asked else "request"


def all_repeats_identical(samples: Iterable[Scored], metric: str = PASS_METRIC) -> bool:
    """Tell whether the stored digests show that repeats were one and the same draw.

    Args:
        samples: the scored trials of each changed case on each side. Equal scores are no
            evidence, so trials without digests show nothing.
        metric: of the scores; how long calls take varies between equal replies.
    """
    repeated = [sample for sample in samples if len(sample) > 1]
    return metric != SECONDS_METRIC and bool(repeated) and all(map(_same_replies, repeated))


def _same_replies(sample: Scored) -> bool:
    by_key = (sorted(trial.calls, key=lambda call: call.key) for trial in sample.trials)
    lists = {tuple(call.reply_sha256 for call in calls) for calls in by_key}
    replies = next(iter(lists))
    return len(lists) == 1 and bool(replies) and None not in replies
