"""The gate: a run held against a baseline, case by case.

The records are light. numpy and scipy are loaded by the first comparison only, since
every pytest session of an environment imports this package.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from pytest_llmeval.gate.comparison import (
    CaseComparison,
    ChangeKind,
    Comparison,
    FunctionComparison,
    Method,
    NotJudged,
    RuledOutBy,
    TrialCounts,
    UngatedComparison,
    Verdict,
)
from pytest_llmeval.gate.description import CaseDescription, FunctionDescription
from pytest_llmeval.gate.measuring import CostOf, measured
from pytest_llmeval.gate.scoring import turns_nothing
from pytest_llmeval.gate.sides import bare, sides_of
from pytest_llmeval.records import Run
from pytest_llmeval.settings import GateRules

__all__ = [
    "CaseComparison",
    "CaseDescription",
    "ChangeKind",
    "Comparison",
    "CostOf",
    "FunctionComparison",
    "FunctionDescription",
    "Method",
    "NotJudged",
    "RuledOutBy",
    "TrialCounts",
    "UngatedComparison",
    "Verdict",
    "cases_not_run",
    "compare",
    "describe",
    "oddities",
]


def compare(
    baseline: Run,
    run: Run,
    rules: GateRules,
    *,
    cost_of: CostOf | None = None,
    typed: Sequence[str] | None = None,
    lost: Collection[str] = (),
    main: Run | None = None,
) -> Comparison:
    """Hold a run against a baseline.

    Pure: the same runs give the same figures, in whatever order cases and trials come.

    Args:
        baseline: the run to compare with, eligible as such.
        run: the run that is judged; may be partial.
        rules: level, margin, target and strictness, checked for their ranges.
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.
        typed: what the user typed of the run's selection, ``--lf`` and ``--stepwise`` too;
            None if whatever it left out was meant.
        lost: files of the baseline that are not in the working tree any more.
        main: where the baseline is an anchor, the baseline proper: what is gone from that
            as well was given up before this branch.

    Returns:
        A comparison for each test function and gated metric, and the verdict on all.
    """
    from pytest_llmeval.gate.judge import judge

    return judge(baseline, run, rules, cost_of=cost_of, typed=typed, lost=lost, main=main)


def describe(
    run: Run, *, alpha: float = 0.05, cost_of: CostOf | None = None
) -> tuple[FunctionDescription, ...]:
    """Describe a run that is held against nothing.

    Args:
        run: the run.
        alpha: what may lie beyond each end of an interval, in (0, 0.5).
        cost_of: dollars of a call, for the metric ``cost``; None for no prices.

    Returns:
        A description for each test function and gated metric, in order of collection.
    """
    from pytest_llmeval.gate.describing import describe_run

    return describe_run(measured(run, cost_of=cost_of), alpha=alpha)


def cases_not_run(run: Run) -> tuple[str, ...]:
    """Name the functions of which collected cases have no trial, as in ``5 cases of test_a``."""
    counts = {
        function: sum(not trials for trials in side.trials.values())
        for function, side in sides_of(run).items()
    }
    return tuple(
        f"{count} case{'s' * (count > 1)} of {bare(function)}"
        for function, count in counts.items()
        if count
    )


def oddities(run: Run) -> tuple[str, ...]:
    """Say in a sentence each which markers do not do what they seem to say."""
    return tuple(
        f'{function}: better="lower" turns nothing, as no score was recorded: what is gated is '
        "pass, of which higher is always better"
        for function, side in sides_of(run).items()
        if any(map(len, side.trials.values())) and turns_nothing(side)
    )
