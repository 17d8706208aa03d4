"""What there is to say about a run without a baseline."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_llmeval.gate.comparison import TrialCounts
from pytest_llmeval.records import Better


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseDescription:
    """One case with a score.

    Attributes:
        mean: of its scores; for ``pass`` that is hits / trials.
        scores: all values of its scored trials, by trial index.
        interval: Wilson's of a pass rate, two-sided, at the level of the function's own;
            None for other scores.
    """

    case: str
    mean: float
    scores: tuple[float, ...]
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDescription:
    """One test function on one gated metric.

    Attributes:
        cases: cases collected; ``scored_cases`` those with a value.
        units: independent units among the scored cases.
        mean: over the scored cases of their means, None without one.
        interval: of that mean for cases like these, two-sided, at ``interval_level``. None
            where chance cannot be judged: fewer than two units, or scores other than
            ``pass`` without any spread. Never a point.
        prediction: where the mean of a later run of these very cases, with as many repeats,
            is expected, two-sided, at ``prediction_level``; None where nothing can be said.
        prediction_by_repeats: the same from the means of whole repeats alone (equation 3 of
            Blackwell et al.); None without any spread.
        drift_p: chance that the repeats differ as much without drift, None where that cannot
            be told. Below .01 the prediction is by repeats.
        drifts: it is below .01 also when adjusted for all functions and metrics of the run.
        why: one plain sentence where the gate could never judge the metric, else "".
        worst: the scored cases that fell short, worst first: for ``pass`` those that did
            not pass every time, for other scores those worse than the best one.
    """

    function: str
    metric: str
    better: Better
    cases: int
    scored_cases: int
    units: int
    trials: TrialCounts
    mean: float | None
    interval: tuple[float, float] | None
    interval_level: float | None
    worst: tuple[CaseDescription, ...]
    prediction: tuple[float, float] | None = None
    prediction_by_repeats: tuple[float, float] | None = None
    prediction_level: float | None = None
    drift_p: float | None = None
    drifts: bool = False
    why: str = ""
