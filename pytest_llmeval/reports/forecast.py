"""What a session may cost, said before its first paid call."""

from __future__ import annotations

from pytest_llmeval.records import Run
from pytest_llmeval.reports.words import counted


def forecast(opening: Run, baseline: Run, *, model: str | None) -> list[str]:
    """Say how many calls a session may make, going by what the baseline's trials made.

    Args:
        opening: the run that begins.
        baseline: the run it will be compared with.
        model: what ``llm`` asks.
    """
    most: dict[str, int] = {}
    for trial in baseline.trials:
        most[trial.case] = max(most.get(trial.case, 0), len(trial.calls))
    repeats = {case.id: case.repeats for case in opening.cases}
    calls = sum(case.repeats * most.get(case.id, 1) for case in opening.cases)
    known = sum(
        sum(call.draw is not None for call in trial.calls)
        for trial in baseline.trials
        if trial.index < repeats.get(trial.case, 0)
    )
    lines = [
        f"llm evals: up to {counted(calls, 'call')} to {model or 'models'} ({known} replies known)"
    ]
    fewer = sum(case.repeats < repeats.get(case.id, 0) for case in baseline.cases)
    if fewer:
        lines.append(
            f"llm evals: note: the baseline has fewer repeats of {counted(fewer, 'case')} "
            "than this session asks for; the others here are not compared"
        )
    return lines
