"""The comparison as JSON, for other programs. The format is told in docs/report-format.md."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import datetime
from typing import Any

from pytest_llmeval.errors import CAP_REASON
from pytest_llmeval.gate.results import CaseComparison, Fact, FunctionComparison, Why
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.records import Run
from pytest_llmeval.reports.cost import NO_PRICE, Cost, cost_of_run
from pytest_llmeval.reports.provenance import differences
from pytest_llmeval.reports.reasons import unjudgeable, why_failed, without_key, worded
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.settings import Settings

SCHEMA_VERSION = 1
_OF_CASES = ("case", "kind", "difference", "baseline_scores", "scores", "baseline_mean", "mean")
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


def write_refusal(settings: Settings, message: str) -> list[str]:
    """Write these files for a session that was refused before anything ran; return likewise."""
    return write_reports(
        Judgement(settings=settings, could_not_judge=Fact(Why.REFUSED, (message,)))
    )


def _document(judgement: Judgement) -> dict[str, Any]:
    comparison, run = judgement.comparison, judgement.run
    prices = Prices(judgement.settings.prices)
    why = unjudgeable(judgement.could_not_judge)
    functions: list[dict[str, Any]] = [
        {**asdict(one), "why": unjudgeable(one.why), "verdict": "not_gated"}
        for one in judgement.descriptions
    ]
    ungated, missing = [], []
    notes = [*filter(None, [judgement.not_gated]), *judgement.notes]
    if comparison is not None:
        why = why or why_failed(comparison, judgement.settings.gate)
        functions = list(map(_function, comparison.functions))
        ungated = list(map(_ungated, comparison.ungated))
        missing = list(map(_not_judged, comparison.not_judged))
        notes += comparison.notes
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": _verdict(judgement),
        "fails": judgement.fails,
        "why": why or without_key(judgement),
        "settings": asdict(judgement.settings.gate),
        "run": None if run is None else _run(run, prices),
        "baseline": _baseline(judgement.baseline, run, prices=prices),
        "differences": list(map(asdict, differences(judgement))),
        "functions": functions,
        "ungated": ungated,
        "not_judged": missing,
        "keyless": _keyless(judgement),
        "anchor": _anchor(judgement, prices),
        "notes": list(map(worded, notes)),
    }


def _verdict(judgement: Judgement) -> str:
    """Return the verdict of the whole session: never a good one where cases were not judged."""
    comparison, keyless = judgement.comparison, judgement.keyless
    if judgement.could_not_judge:
        return "could_not_judge"
    if comparison is not None and (comparison.fails or keyless is None):
        return str(comparison.verdict)
    if keyless is None:
        return "not_gated"
    if judgement.is_deferred:
        return "deferred"
    return "could_not_judge" if judgement.baseline is None else "not_comparable"


def _keyless(judgement: Judgement) -> dict[str, Any] | None:
    """Tell which cases asked something new without a key."""
    keyless = judgement.keyless
    if keyless is None:
        return None
    return {"cases": keyless.cases, "deferred": judgement.is_deferred}


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
        "functions": list(map(_function, anchored.functions)),
    }


def _not_judged(fact: Fact) -> dict[str, Any]:
    function, cases = fact.figures
    return {"function": function, "cases": cases, "why": str(fact.why)}


def _function(function: FunctionComparison) -> dict[str, Any]:
    """Write a comparison with its figures in line, in the order in which they are declared."""
    document: dict[str, Any] = {}
    for name, value in ((field.name, getattr(function, field.name)) for field in fields(function)):
        document |= asdict(value) if name in ("effect", "evidence") else {name: value}
    return document | {
        "why": worded(function.why),
        "compared": list(map(_case, function.compared)),
    }


def _case(case: CaseComparison) -> dict[str, Any]:
    return {name: getattr(case, name) for name in _OF_CASES} | {"unchanged": case.kind is None}


def _ungated(function: FunctionComparison) -> dict[str, Any]:
    return {name: value for name, value in _function(function).items() if name in _OF_UNGATED}


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
        "cost": _cost(cost_of_run(run, prices)),
        "versions": dict(run.versions),
    }


def _cost(cost: Cost) -> dict[str, Any]:
    return {
        "currency": "USD",
        "spent": None if cost.spent.unknown else float(cost.spent.known),
        "saved": None if cost.saved.unknown else float(cost.saved.known),
        "unknown": [
            {
                "model": model or None,
                "calls": calls,
                "why": "price" if cause == NO_PRICE else "tokens",
            }
            for (model, cause), calls in cost.unknown
        ],
    }


def _baseline(
    baseline: Baseline | None, run: Run | None, *, prices: Prices
) -> dict[str, Any] | None:
    if baseline is None:
        return None
    age = None
    if run is not None:
        created = datetime.fromisoformat(baseline.run.created)
        age = (datetime.fromisoformat(run.created) - created).total_seconds()
    return {
        **_run(baseline.run, prices),
        "reference": baseline.reference,
        "how": baseline.how,
        "wanted": baseline.wanted,
        "substitute": baseline.substitute,
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
