"""Draws of several runs that asked the same."""

from __future__ import annotations

from pytest_llmeval.records import Run


def unchanged_cases(run: Run, earlier: Run) -> set[str]:
    """Name the cases of a run that an earlier one has with the same test, fixtures and parameters.

    A digest that neither run has is no difference.
    """
    before = {case.id: case.parameters for case in earlier.cases}
    return {
        case.id
        for case in run.cases
        if before.get(case.id, case) == case.parameters
        and run.tests.get(case.function) == earlier.tests.get(case.function)
        and run.fixtures.get(case.function) == earlier.fixtures.get(case.function)
    }


def draws_again(run: Run, earlier: Run) -> bool:
    """Tell whether a run has other draws of some request that an earlier run asked."""
    draws = {
        (trial.case, call.key, call.slot): call.draw
        for trial in earlier.trials
        for call in trial.calls
        if call.draw
    }
    return any(
        draws.get((trial.case, call.key, call.slot), call.draw) != call.draw
        for trial in run.trials
        for call in trial.calls
        if call.draw
    )
