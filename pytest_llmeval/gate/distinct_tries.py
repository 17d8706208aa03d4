"""Tries of a loop at a prompt: which runs are tries of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pytest_llmeval.gate.changes import are_replays
from pytest_llmeval.records import Run, Trial, trials_by_case


def distinct_tries(tries: Iterable[Run]) -> list[Run]:
    """Leave out each try that only went on with an earlier one, by more cases or repeats.

    Such a run has the very replies of the earlier one, and of those that went on with it, in all
    trials that both have.
    """
    distinct: list[Run] = []
    known: list[dict[str, Sequence[Trial]]] = []  # the most trials of each case, by try
    for run in tries:
        here = trials_by_case(run)
        earlier = next((one for one in known if _goes_on(one, here)), None)
        if earlier is None:
            distinct.append(run)
            known.append({**here})
        else:
            for case, trials in here.items():
                if len(trials) > len(earlier.get(case, ())):
                    earlier[case] = trials
    return distinct


def _goes_on(earlier: Mapping[str, Sequence[Trial]], here: Mapping[str, Sequence[Trial]]) -> bool:
    both = earlier.keys() & here.keys()
    return bool(both) and all(are_replays(earlier[case], here[case]) for case in both)
