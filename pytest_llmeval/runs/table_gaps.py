"""Trials of two score tables that have no score, and may be left out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from pytest_llmeval.runs.score_table import Scores, ScoreTable

Pair = tuple[ScoreTable, ScoreTable]
Found = dict[str | None, dict[str, dict[int, float | None]]]


def without_gaps(pair: Pair, *, max_errored: float | None) -> tuple[Pair, tuple[str, ...]]:
    """Leave out trials without a score that both tables lack, or that somebody allows to lack.

    A trial that neither side scored favours no side. A case is left out of both tables if one side
    has no trial of it left.

    Args:
        pair: the baseline and what is judged.
        max_errored: the share of trials without a score that is allowed on a side, in [0, 1];
            None for what the gate allows, which then counts those of one side.

    Returns:
        The tables, and a sentence for each kind of trial that was left out.
    """
    first, second = (_copy(table.scores) for table in pair)
    common = one_sided = cases = 0
    for metric in first.keys() & second.keys():
        old, new = first[metric], second[metric]
        sides = [[each for case in side.values() for each in case.values()] for side in (old, new)]
        lacking = [side.count(None) / len(side) for side in sides]
        allowed = max_errored is not None and max(lacking) <= max_errored
        for case in old.keys() & new.keys():
            gaps = [{at for at, one in side[case].items() if one is None} for side in (old, new)]
            shared = gaps[0] & gaps[1]
            common += len(shared)
            one_sided += len(gaps[0] ^ gaps[1]) if allowed else 0
            for side, own in zip((old, new), gaps, strict=True):
                for at in own if allowed else shared:
                    del side[case][at]
            if not old[case] or not new[case]:
                cases += bool(old[case] or new[case])
                del old[case], new[case]
    tables = replace(pair[0], scores=first), replace(pair[1], scores=second)
    return tables, _told(common, one_sided, cases)


def _told(common: int, one_sided: int, cases: int) -> tuple[str, ...]:
    told = (
        (common, "trial", "no score on either side"),
        (one_sided, "trial", "a score on one side alone, as --max-errored allows"),
        (cases, "case", "no score on one side"),
    )
    return tuple(
        f"left out: {count} {noun}{'s' * (count > 1)} with {what}"
        for count, noun, what in told
        if count
    )


def _copy(scores: Mapping[str | None, Scores]) -> Found:
    return {
        metric: {case: dict(trials) for case, trials in cases.items()}
        for metric, cases in scores.items()
    }
