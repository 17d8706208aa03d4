"""The denominators: how the trials of a side ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from pytest_llmeval.gate.comparison import TrialCounts
from pytest_llmeval.gate.scoring import Scores
from pytest_llmeval.gate.sides import Side
from pytest_llmeval.records import Outcome


def count_trials(side: Side, scores: Scores, *, cases: Collection[str]) -> TrialCounts:
    """Count the trials of some cases of a side, and those without a value for the metric.

    Args:
        side: a test function in one run.
        scores: its trials with a value.
        cases: ids that count; those that the side does not have are passed over.
    """
    ids = [id_ for id_ in side.cases if id_ in cases]
    ended = Counter(trial.outcome for id_ in ids for trial in side.trials[id_])
    scored = sum(number for outcome, number in ended.items() if outcome.is_scored)
    return TrialCounts(
        scored=scored,
        missed=ended[Outcome.MISSED],
        crashed=ended[Outcome.CRASHED],
        errored=ended[Outcome.ERRORED],
        skipped=ended[Outcome.SKIPPED],
        without_value=scored - sum(len(scores[id_]) for id_ in ids),
    )
