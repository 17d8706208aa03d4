"""What the call lists of two runs tell: is a case a replay, and if not, what changed.

Draw ids decide, never the texts of replies: with short replies many a new draw reads
like the old one, and leaving those out of the test multiplies its false alarms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from pytest_llmeval.gate.comparison import ChangeKind
from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.records import Call, Slot


def common_trials(
    there: Sequence[Scored], here: Sequence[Scored]
) -> tuple[tuple[Scored, ...], tuple[Scored, ...]]:
    """Return the trials that are scored on both sides, in step, index ascending."""
    here_by_index = {scored.trial.index: scored for scored in here}
    common = tuple(scored for scored in there if scored.trial.index in here_by_index)
    return common, tuple(here_by_index[scored.trial.index] for scored in common)


def kind_of_change(there: Sequence[Scored], here: Sequence[Scored]) -> ChangeKind | None:
    """Tell what made a case a changed one.

    Args:
        there: its scored trials in the baseline, at least one, index ascending.
        here: its scored trials in this run, likewise.

    Returns:
        None for an unchanged case: in every trial scored on both sides there are calls,
        all of them the baseline's own draws, and the scores are equal. Otherwise the kind
        of the first call that differs; without one ``score`` if only a score differs in
        a trial with calls, else ``unseen``.
    """
    pairs = tuple(zip(*common_trials(there, here), strict=True))
    if not pairs:
        return _kind_without_common_trials(there, here)
    kinds = (_kind_of_calls(one.trial.calls, other.trial.calls) for one, other in pairs)
    first = next((kind for kind in kinds if kind is not None), None)
    if first is not None:
        return first
    if any(one.trial.calls and one.value != other.value for one, other in pairs):
        return "score"
    return None if all(one.trial.calls for one, _ in pairs) else "unseen"


def draws_of(scored: Iterable[Scored]) -> set[str]:
    """Return the ids of all draws that some trials used."""
    return {call.draw for trial, _ in scored for call in trial.calls if call.draw is not None}


def all_repeats_identical(samples: Iterable[Sequence[Scored]]) -> bool:
    """Tell whether the stored digests show that repeats were one and the same draw.

    Args:
        samples: the scored trials of each changed case on each side. Equal scores are no
            evidence, so trials without digests show nothing.
    """
    repeated = [sample for sample in samples if len(sample) > 1]
    return bool(repeated) and all(map(_same_replies, repeated))


def _same_replies(sample: Sequence[Scored]) -> bool:
    lists = {tuple(call.reply_sha256 for call in trial.calls) for trial, _ in sample}
    replies = next(iter(lists))
    return len(lists) == 1 and bool(replies) and None not in replies


def _kind_without_common_trials(there: Sequence[Scored], here: Sequence[Scored]) -> ChangeKind:
    keys_there = {call.key for scored in there for call in scored.trial.calls}
    keys_here = {call.key for scored in here for call in scored.trial.calls}
    if keys_there != keys_here:
        return "request"
    return "redrawn" if keys_there else "unseen"


def _kind_of_calls(one: Sequence[Call], other: Sequence[Call]) -> ChangeKind | None:
    """Compare the calls of one trial, regardless of the order in which they were made."""
    if len(one) == len(other) and all(map(_is_replay, one, other)):
        return None  # the usual case, in the usual order
    left_there, left_here = _unmatched(one, other), _unmatched(other, one)
    if not left_there and not left_here:
        return None
    return "redrawn" if _first_asked_on_both(left_there, left_here) else "request"


def _is_replay(one: Call, other: Call) -> bool:
    # a request without a reply is nobody's draw, not even where it failed on both sides
    return (
        other.draw is not None
        and one.draw == other.draw
        and one.key == other.key
        and one.slot == other.slot
    )


def _unmatched(calls: Sequence[Call], others: Sequence[Call]) -> list[Call]:
    """Return the calls, as recorded, of which the others do not hold the very draw."""
    held: Counter[tuple[str, Slot, str | None]] = Counter(
        (call.key, call.slot, call.draw) for call in others if call.draw is not None
    )
    unmatched = []
    for call in calls:
        seen = call.key, call.slot, call.draw
        if held[seen]:
            held[seen] -= 1
        else:
            unmatched.append(call)
    return unmatched


def _first_asked_on_both(there: Sequence[Call], here: Sequence[Call]) -> bool:
    if not there or not here:
        return False
    return there[0].key in {c.key for c in here} and here[0].key in {c.key for c in there}
