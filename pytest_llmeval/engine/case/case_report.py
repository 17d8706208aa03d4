"""What rides on the report of a case, and how it travels between processes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from pytest_llmeval.engine.case.case import CaseRunner
from pytest_llmeval.engine.case.fold import shown_score
from pytest_llmeval.records import Outcome, Slowdown
from pytest_llmeval.runs.format.run_lines import (
    header_line,
    read_header,
    read_trial,
    trial_line,
)

_HEADLINE = 300  # characters
Payload = Mapping[str, Any]


def payload_of(runner: CaseRunner) -> dict[str, Any]:
    """Put a case with the trials that have ended."""
    case, ended = runner.spec.case, runner.trials.ended
    records = [trial.record for trial in ended]
    headline = next((trial.headline for trial in ended if trial.headline), "")
    held_for = next((trial.held_for for trial in ended if trial.held_for), "")
    return {
        "case": case.id,
        "function": case.function,
        "outcome": str(runner.outcome),
        "fell_short": any(r.outcome in (Outcome.MISSED, Outcome.CRASHED) for r in records),
        "score": shown_score(records, case),
        "serial": runner.trials.serial or held_for,
        "trials": records,
        "headline": headline[:_HEADLINE],
    }


def sendable(payload: Payload) -> Any:
    """Put a payload as what JSON knows: execnet sends no enum and no tuple subclass."""
    lines = dict(payload)
    if "trials" in payload:
        function = payload["function"]
        lines["trials"] = [trial_line(trial, function=function) for trial in payload["trials"]]
    if "opening" in payload:
        lines["opening"] = header_line(payload["opening"])
    lines["slowdowns"] = [asdict(slowdown) for slowdown in payload["slowdowns"]]
    return json.loads(json.dumps(lines))


def received(lines: Payload) -> dict[str, Any]:
    """Read what ``sendable`` put."""
    payload = dict(lines)
    if "trials" in lines:
        functions = {lines["case"]: lines["function"]}
        payload["trials"] = [read_trial(line, functions=functions) for line in lines["trials"]]
    if "opening" in lines:
        payload["opening"] = read_header(lines["opening"]).run
    payload["slowdowns"] = [Slowdown(**fields) for fields in lines["slowdowns"]]
    return payload


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
