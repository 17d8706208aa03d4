"""Why trials erred."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.records import Outcome
from pytest_llmeval.reports import words


def first_reason(judgement: Judgement, function: str) -> Iterator[str]:
    """Say why the first errored trial of a function got no reply."""
    assert judgement.run is not None  # noqa: S101 - whatever is worded ran
    functions = {case.id: case.function for case in judgement.run.cases}
    for trial in judgement.run.trials:
        if functions[trial.case] == function and trial.outcome is Outcome.ERRORED:
            reasons = [call.reason for call in trial.calls if call.reason]
            seen = judgement.headlines.get(trial.case) or ", ".join(reasons) or trial.message
            yield f"first of them  {words.short(trial.case)}  {seen}"
            return
