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
    """

    case: str
    mean: float
    scores: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionDescription:
    """One test function on one gated metric.

    Attributes:
        cases: cases collected; ``scored_cases`` those with a value.
        units: independent units among the scored cases.
        mean: over the scored cases of their means, None without one.
        interval: of that mean, two-sided, at ``interval_level``. None where chance cannot
            be judged: fewer than two units, or no spread. Never a point.
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
