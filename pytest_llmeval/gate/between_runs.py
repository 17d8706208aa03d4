"""Drift between the runs of one baseline: what differs by more than chance is left out."""

from __future__ import annotations

from collections.abc import Sequence

from pytest_llmeval.gate.scoring import scores_of
from pytest_llmeval.records import Run, only_functions
from pytest_llmeval.stats.expected import DRIFT_LEVEL, shift_p
from pytest_llmeval.stats.multiplicity import holm


def without_drift(run: Run, further: Sequence[Run]) -> tuple[list[Run], dict[str, float]]:
    """Leave out what was recorded before the scores of a function drifted.

    Args:
        run: the newest one that has all cases.
        further: trials of the same cases in other runs, newest first.

    Returns:
        The other runs, each without the functions that had drifted since, and these functions with
        the p-value, adjusted (Holm) for all functions and runs. Where a function drifted in a newer
        run, none of the other runs keeps it.
    """
    newest = {(one.function, one.metric): one for one in scores_of(run)}
    names, p_values = [], []
    for position, earlier in enumerate(further):
        for old in scores_of(earlier):
            new = newest.get((old.function, old.metric))
            both = [name for name in old.scored_cases if new and new.of_case.get(name)]
            if new is None or not both:
                continue
            sides = ([one.of_case[name].values for name in both] for one in (new, old))
            p = shift_p(*sides)
            names.append((position, old.function))
            p_values.append(1.0 if p is None else p)
    drifted: dict[str, tuple[int, float]] = {}
    for (position, function), p in zip(names, holm(p_values), strict=True):
        if p < DRIFT_LEVEL:
            # those of a check of a fall are newer than the run, and all made soon after each other
            first = 0 if further[position].id > run.id else position
            drifted.setdefault(function, (first, p))
    kept = []
    for position, earlier in enumerate(further):
        functions = {case.function for case in earlier.cases}
        gone = {name for name, (first, _) in drifted.items() if position >= first}
        kept.append(only_functions(earlier, functions - gone))
    return kept, {name: p for name, (_, p) in drifted.items()}
