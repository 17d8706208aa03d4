"""What the calls of a trial took, as metrics like others: seconds, tokens, cost.

A replay carries the figures of the call that it repeats, so an unchanged case differs by
exactly 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from pytest_llmeval.records import (
    COST_METRIC,
    SECONDS_METRIC,
    TOKENS_METRIC,
    Call,
    Run,
    Trial,
)

CostOf = Callable[[Call], float | None]


def measured(run: Run, *, cost_of: CostOf | None) -> Run:
    """Return a run whose scored trials have scores for what their calls took.

    Each is the sum over the calls that brought a reply. There is none where a call has no
    such figure, where no call was made, and where the sum is 0: ratios have no use for it.

    Args:
        run: the run as it was recorded.
        cost_of: dollars of a call, None where the price is not known; None for no prices.
    """
    return replace(run, trials=tuple(_with_measures(trial, cost_of) for trial in run.trials))


def _with_measures(trial: Trial, cost_of: CostOf | None) -> Trial:
    answered = [call for call in trial.calls if call.failure is None]
    if not answered or not trial.outcome.is_scored:
        return trial
    sums = {
        SECONDS_METRIC: _sum([call.seconds for call in answered]),
        TOKENS_METRIC: _sum(list(map(_tokens, answered))),
        COST_METRIC: _sum(list(map(cost_of, answered))) if cost_of else None,
    }
    scores = {metric: total for metric, total in sums.items() if total and total > 0}
    return replace(trial, scores={**trial.scores, **scores}) if scores else trial


def _sum(figures: list[float | None]) -> float | None:
    known = [figure for figure in figures if figure is not None]
    return math.fsum(known) if len(known) == len(figures) else None


def _tokens(call: Call) -> float | None:
    if call.input_tokens is None or call.output_tokens is None:
        return None
    return call.input_tokens + call.output_tokens
