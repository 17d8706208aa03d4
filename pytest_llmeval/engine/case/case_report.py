"""What rides on the report of a case: plain builtins, which a worker can send."""

from __future__ import annotations

import json
from typing import Any

from pytest_llmeval.engine.case.case import CaseRunner
from pytest_llmeval.engine.case.fold import shown_score
from pytest_llmeval.records import Outcome, Run
from pytest_llmeval.runs.format.run_lines import header_line, trial_line

_HEADLINE = 300  # characters


def payload_of(runner: CaseRunner) -> dict[str, Any]:
    """Put a case with the trials that have ended."""
    case = runner.spec.case
    records = [ended.record for ended in runner.trials.ended]
    headlines = [ended.headline for ended in runner.trials.ended if ended.headline]
    return {
        "case": case.id,
        "outcome": str(runner.outcome),
        "fell_short": any(r.outcome in (Outcome.MISSED, Outcome.CRASHED) for r in records),
        "score": shown_score(records, case),
        "serial": runner.trials.serial or _held(runner),
        "trials": _builtins([trial_line(record, function=case.function) for record in records]),
        "headline": headlines[0][:_HEADLINE] if headlines else "",
    }


def opening_of(run: Run) -> Any:
    """Put the run that begins."""
    return _builtins(header_line(run))


def detached_note(runner: CaseRunner) -> str:
    """Warn of trials that blocked without telling; "" if none did."""
    indices = [str(e.record.index) for e in runner.trials.ended if e.was_detached]
    if not indices:
        return ""
    return (
        f"{runner.item.nodeid}: trial {', '.join(indices)} blocked outside a model call and ran "
        "beside the others, where output and environment are not kept apart. Wrap the call in "
        'pytest_llmeval.waiting(function, ...), or mark the test concurrency="serial".'
    )


def _held(runner: CaseRunner) -> str:
    """Say for whose sake calls were not overlapped; "" if all were."""
    return next((ended.held_for for ended in runner.trials.ended if ended.held_for), "")


def _builtins(lines: object) -> Any:
    """Put lines as what JSON knows: execnet sends no enum and no tuple subclass."""
    return json.loads(json.dumps(lines))
