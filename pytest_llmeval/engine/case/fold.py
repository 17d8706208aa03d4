"""Fold the trials of a case into the outcome of its one item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from pytest_llmeval.engine.marker import Eval
from pytest_llmeval.engine.trial.trial import Ended
from pytest_llmeval.gate.scoring import FunctionScores, Side, gated_metrics
from pytest_llmeval.records import MEASURED_METRICS, PASS_METRIC, Case, Outcome, Trial

_TOLERANCE = 1e-9  # on min_score: 0.7 + 0.1 is not quite 0.8


class CaseOutcome(StrEnum):
    """How a case ended."""

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"


class TrialFailures(AssertionError):
    """Too many trials of a case did not pass."""


@dataclass(frozen=True, slots=True)
class Fold:
    """The outcome of a case and, unless it passed, why."""

    outcome: CaseOutcome
    reason: str = ""


def fold(trials: Sequence[Trial], spec: Eval, *, xfail: bool = False) -> Fold:
    """Decide the outcome of a case from its trials.

    Args:
        trials: every trial of the case.
        spec: the case and its ``min_score``.
        xfail: an xfail mark applies, so that anything but a clean pass is expected.
    """
    scored = [trial for trial in trials if trial.outcome.is_scored]
    if all(trial.outcome is Outcome.SKIPPED for trial in trials):
        return Fold(CaseOutcome.SKIPPED, "every trial was skipped")
    if not scored:
        return Fold(CaseOutcome.ERRORED, "no trial got an answer to score: " + tally(trials))
    if all(trial.outcome is Outcome.CRASHED for trial in scored):
        return Fold(CaseOutcome.FAILED, "every scored trial crashed: " + tally(trials))
    if xfail and any(trial.outcome is not Outcome.PASSED for trial in scored):
        return Fold(CaseOutcome.FAILED, tally(trials))
    return _held_against_min_score(trials, spec)


def tally(trials: Sequence[Trial]) -> str:
    """Count the trials by outcome: ``3 passed, 2 missed``."""
    counts = Counter(trial.outcome for trial in trials)
    return ", ".join(f"{counts[outcome]} {outcome}" for outcome in Outcome if counts[outcome])


def failures(ended: Sequence[Ended]) -> str:
    """List the distinct failures with the trials that had them."""
    trials: dict[str, list[str]] = {}
    for trial in ended:
        if trial.headline:
            trials.setdefault(trial.headline, []).append(str(trial.record.index))
    return "\n".join(f"trial {', '.join(which)}: {line}" for line, which in trials.items())


def shown_score(trials: Sequence[Trial], case: Case) -> str:
    """Write the result of a case: ``4/5 passed``, and the mean of a score of its own."""
    scored = [trial for trial in trials if trial.outcome.is_scored]
    passed = sum(trial.outcome is Outcome.PASSED for trial in scored)
    means = _gated_means(trials, case).items()
    own = [
        f"{metric} {mean:.3f}"
        for metric, mean in means
        if metric != PASS_METRIC and mean is not None
    ]
    return ", ".join([f"{passed}/{len(scored)} passed", *own])


def _held_against_min_score(trials: Sequence[Trial], spec: Eval) -> Fold:
    if spec.min_score is None:
        return Fold(CaseOutcome.PASSED)
    for metric, mean in _gated_means(trials, spec.case).items():
        if mean is None or mean < spec.min_score - _TOLERANCE:
            shown = "none" if mean is None else f"{mean:.3f}"
            below = f"mean {metric} {shown} is below min_score={spec.min_score:g}"
            return Fold(CaseOutcome.FAILED, f"{below}: {tally(trials)}")
    return Fold(CaseOutcome.PASSED)


def _gated_means(trials: Sequence[Trial], case: Case) -> dict[str, float | None]:
    side = Side(function=case.function, cases={case.id: case}, trials={case.id: tuple(trials)})
    means: dict[str, float | None] = {}
    for metric in gated_metrics(side):
        if metric in MEASURED_METRICS:
            continue  # no score of the test's
        scored = FunctionScores(side, metric).of_case[case.id]
        means[metric] = scored.mean if scored else None
    return means
