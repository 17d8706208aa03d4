"""The comparison as JSON, for other programs. The format is told in docs/report-format.md."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from pytest_llmeval.errors import CAP_REASON
from pytest_llmeval.gate.results import (
    CaseComparison,
    Fact,
    FunctionComparison,
    FunctionDescription,
)
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.records import Run
from pytest_llmeval.reports.cost import NO_PRICE, Cost, cost_of
from pytest_llmeval.reports.provenance import differences
from pytest_llmeval.reports.reasons import unjudgeable, why_failed, worded
from pytest_llmeval.runs.lookup.refs import Baseline

SCHEMA_VERSION = 1
_OF_UNGATED = (
    *("function", "metric", "better", "scale", "cases", "changed", "difference", "baseline_mean"),
    *("mean", "interval", "interval_level", "ratio", "ratio_interval"),
)


def render(judgement: Judgement) -> str:
    """Write a judgement as JSON, with a newline at its end."""
    return json.dumps(_finite(_document(judgement)), indent=2, allow_nan=False) + "\n"


def write_reports(judgement: Judgement) -> list[str]:
    """Write the files that ``--llm-report`` names; return a sentence for each that cannot be."""
    problems = []
    for path in judgement.settings.reports:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(render(judgement), encoding="utf-8")
        except OSError as exc:
            problems.append(f"--llm-report={path}: not written: {exc}")
    return problems


def _document(judgement: Judgement) -> dict[str, Any]:
    comparison = judgement.comparison
    prices = Prices(judgement.settings.prices)
    verdict = "could_not_judge" if judgement.could_not_judge else "not_gated"
    why = unjudgeable(judgement.could_not_judge)
    functions: list[dict[str, Any]] = [_description(d) for d in judgement.descriptions]
    if comparison is not None:
        verdict = str(comparison.verdict)
        why = why or why_failed(comparison, judgement.settings.gate)
        functions = [_function(function) for function in comparison.functions]
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": verdict,
        "fails": judgement.fails,
        "why": why,
        "settings": asdict(judgement.settings.gate),
        "run": None if judgement.run is None else _run(judgement.run, prices),
        "baseline": _baseline(judgement.baseline, judgement.run, prices=prices),
        "differences": _differences(judgement),
        "functions": functions,
        "ungated": [_ungated(one) for one in comparison.ungated] if comparison else [],
        "not_judged": [_not_judged(one) for one in comparison.not_judged] if comparison else [],
        "anchor": _anchor(judgement, prices),
        "notes": list(map(worded, (*judgement.notes, *(comparison.notes if comparison else ())))),
    }


def _anchor(judgement: Judgement, prices: Prices) -> dict[str, Any] | None:
    """Tell of the second comparison what is told of the first."""
    anchored = judgement.anchored
    if anchored is None:
        return None
    return {
        "verdict": str(anchored.verdict),
        "fails": anchored.fails,
        "why": why_failed(anchored, judgement.settings.gate),
        "baseline": _baseline(judgement.anchor, judgement.run, prices=prices),
        "functions": [_function(function) for function in anchored.functions],
    }


def _not_judged(fact: Fact) -> dict[str, Any]:
    function, cases = fact.figures
    return {"function": function, "cases": cases, "why": str(fact.why)}


def _differences(judgement: Judgement) -> list[dict[str, Any]]:
    if judgement.run is None or judgement.baseline is None:
        return []
    rules = judgement.settings.gate
    found = differences(judgement.baseline.run, judgement.run, rules=rules)
    return [asdict(one) for one in found]


def _function(function: FunctionComparison) -> dict[str, Any]:
    """Write a comparison with its figures in line, in the order in which they are declared."""
    document: dict[str, Any] = {}
    for name, value in ((field.name, getattr(function, field.name)) for field in fields(function)):
        document |= asdict(value) if name in ("effect", "evidence") else {name: value}
    return document | {
        "why": worded(function.why),
        "baseline_trials": asdict(function.baseline_trials),
        "trials": asdict(function.trials),
        "compared": [_case(case) for case in function.compared],
    }


def _case(case: CaseComparison) -> dict[str, Any]:
    return {
        "case": case.case,
        "kind": case.kind,
        "difference": case.difference,
        "baseline_scores": case.baseline_scores,
        "scores": case.scores,
        "baseline_mean": case.baseline_mean,
        "mean": case.mean,
        "unchanged": case.kind is None,
    }


def _ungated(function: FunctionComparison) -> dict[str, Any]:
    return {name: value for name, value in _function(function).items() if name in _OF_UNGATED}


def _description(description: FunctionDescription) -> dict[str, Any]:
    return {**asdict(description), "why": unjudgeable(description.why), "verdict": "not_gated"}


def _run(run: Run, prices: Prices) -> dict[str, Any]:
    calls = [call for trial in run.trials for call in trial.calls]
    return {
        "id": run.id,
        "created": run.created,
        "commit": run.commit,
        "dirty": run.dirty,
        "ref": run.ref,
        "complete": run.complete,
        "cases": len(run.cases),
        "trials": len(run.trials),
        "models": sorted({call.model for call in calls if call.model is not None}),
        "served": sorted({call.served for call in calls if call.served is not None}),
        "fingerprints": sorted({call.fingerprint for call in calls if call.fingerprint}),
        "hosts": sorted({call.host for call in calls if call.host}),
        "calls": {
            "made": sum(call.was_paid for call in calls),
            "replayed": sum(call.replayed for call in calls),
            "failed": sum(call.failure is not None for call in calls),
            "outside": run.outside_calls,
            "attempts": run.attempts,
            "capped": sum((call.reason or "").startswith(CAP_REASON) for call in calls),
        },
        "cost": _cost(cost_of(run, prices)),
        "versions": dict(run.versions),
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "currency": "USD",
        "spent": None if cost.unknown_spent else float(cost.spent),
        "saved": None if cost.unknown_saved else float(cost.saved),
        "unknown": [
            {
                "model": model or None,
                "calls": calls,
                "why": "price" if why == NO_PRICE else "tokens",
            }
            for (model, why), calls in sorted(cost.unknown.items())
        ],
    }


def _baseline(
    baseline: Baseline | None, run: Run | None, *, prices: Prices
) -> dict[str, Any] | None:
    if baseline is None:
        return None
    age = None
    if run is not None:
        created = map(datetime.fromisoformat, (baseline.run.created, run.created))
        before, here = created
        age = (here - before).total_seconds()
    return {
        **_run(baseline.run, prices),
        "reference": baseline.reference,
        "how": baseline.how,
        "distance": baseline.distance,
        "age": age,
        "notes": list(baseline.notes),
    }


def _finite(value: Any) -> Any:
    """Put null for what JSON has no number for."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return value
