"""What the calls of a function tell, whatever the metric: found once for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from pytest_llmeval.gate.comparison import ChangeKind
from pytest_llmeval.records import Call, Slot, Trial

CasesAndTrials = Mapping[str, Sequence[Trial]]


class CallsOfBoth:
    """The calls of a function in two runs.

    Attributes:
        shared: ids of the draws that more than one case has, in whichever run. No other
            draw can tie one case to another.
    """

    def __init__(self, there: CasesAndTrials, here: CasesAndTrials) -> None:
        self.shared = frozenset(_draws_of_several_cases(there, here))
        self._kinds: dict[tuple[str, tuple[int, ...]], ChangeKind | None] = {}

    def first_kind(self, there: Sequence[Trial], here: Sequence[Trial]) -> ChangeKind | None:
        """Tell of what kind the first call of a case is that differs, None if none does.

        Args:
            there: trials of the case in the baseline, at least one, index ascending.
            here: those of the same indices in this run.
        """
        trials = there[0].case, tuple([trial.index for trial in there])
        if trials not in self._kinds:
            kinds = (_kind_of_calls(a.calls, b.calls) for a, b in zip(there, here, strict=True))
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
