"""Changed cases that share draws: their scores added up repeat by repeat.

A draw belongs to one trial index. So however cases share draws, what was drawn in one
repeat is independent of what was drawn in another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pytest_llmeval.gate.pairing import Pair
from pytest_llmeval.gate.scoring import Scored
from pytest_llmeval.gate.units import one_sided_draws
from pytest_llmeval.stats.significance.repeats import totals_of_repeats
from pytest_llmeval.stats.significance.sample import CaseScores


def whole_repeats(changed: Sequence[Pair]) -> CaseScores | None:
    """Add up the scores of the changed cases, repeat by repeat.

    Args:
        changed: the changed cases, at least one.

    Returns:
        The totals of each side; None where repeats are not independent of each other or too
        few, and where labels tie cases: these ask about clusters like these, not about these
        very cases.
    """
    if _share_a_label(changed) or _share_draws_over_repeats(changed):
        return None
    return totals_of_repeats(
        _table([pair.there for pair in changed]), _table([pair.here for pair in changed])
    )


def _share_a_label(changed: Sequence[Pair]) -> bool:
    for labels in ([pair.cluster for pair in changed], [pair.topic for pair in changed]):
        named = [label for label in labels if label is not None]
        if len(set(named)) < len(named):
            return True
    return False


def _share_draws_over_repeats(changed: Sequence[Pair]) -> bool:
    """Tell whether a draw that is not on both sides of its case is one of several repeats."""
    index_of: dict[str, int] = {}
    for pair in changed:
        one_sided = one_sided_draws(pair)
        for trial in (*pair.there.trials, *pair.here.trials):
            for call in trial.calls:
                if call.draw in one_sided and index_of.setdefault(call.draw, trial.index) != (
                    trial.index
                ):
                    return True
    return False


def _table(side: Sequence[Scored]) -> NDArray[np.float64]:
    """Put the values of a side in rows by case and columns by trial index."""
    indices = sorted({index for scored in side for index in scored.indices})
    values = [dict(zip(scored.indices, scored.values, strict=True)) for scored in side]
    return np.array([[of_case.get(index, math.nan) for index in indices] for of_case in values])
