"""Trials of two score tables that have no score, and may be left out."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace

from pytest_llmeval.records import MEASURED_METRICS
from pytest_llmeval.runs.score_table import ScoreTable

ONE_SIDED = "a score on one side alone, as --max-errored allows"

Pair = tuple[ScoreTable, ScoreTable]


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
    first, second = (
        {
            metric: {case: dict(trials) for case, trials in cases.items()}
            for metric, cases in table.scores.items()
        }
        for table in pair
    )
    left_out = Counter[tuple[str, str]]()
    for metric in first.keys() & second.keys():
        sides = first[metric], second[metric]
        is_ratio = metric in MEASURED_METRICS  # of which a value that is not above 0 is none
        least, score = (0.0, f"{metric} above 0") if is_ratio else (-math.inf, "score")
        lacks = [
            {
                case: {at for at, one in trials.items() if one is None or one <= least}
                for case, trials in side.items()
            }
            for side in sides
        ]
        allowed = max_errored is not None and all(
            sum(map(len, own.values())) <= max_errored * sum(map(len, side.values()))
            for own, side in zip(lacks, sides, strict=True)
        )
        for case in sides[0].keys() & sides[1].keys():
            gaps = [own[case] for own in lacks]
            shared = gaps[0] & gaps[1]
            left_out["trial", f"no {score} on either side"] += len(shared)
            left_out["trial", ONE_SIDED] += len(gaps[0] ^ gaps[1]) if allowed else 0
            for side, own in zip(sides, gaps, strict=True):
                for at in own if allowed else shared:
                    del side[case][at]
            if not all(side[case] for side in sides):
                left = [side.pop(case) for side in sides]
                left_out["case", "no score on one side"] += any(left)
    tables = replace(pair[0], scores=first), replace(pair[1], scores=second)
    told = ((f"{noun}{'s' * (n > 1)} with {what}", n) for (noun, what), n in left_out.items() if n)
    return tables, tuple(f"left out: {count} {words}" for words, count in told)
