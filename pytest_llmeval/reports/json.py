"""Comparisons and recorded runs as JSON, for other programs.

The format is told in docs/report-format.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmeval.errors import CAP_REASON
from pytest_llmeval.gate.results import Fact
from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.prices import Prices
from pytest_llmeval.records import Run
from pytest_llmeval.reports.cost import Cost, cost_of_run
from pytest_llmeval.reports.entries import (
    Entry,
    compared_functions,
    described_functions,
    ungated_function,
)
from pytest_llmeval.reports.formats import in_form
from pytest_llmeval.reports.provenance import differences
from pytest_llmeval.reports.reasons import unjudgeable, why_failed, without_key, worded
from pytest_llmeval.reports.remarks import scope
from pytest_llmeval.reports.unseen import unseen, unseen_cases, unseen_connections
from pytest_llmeval.runs.lookup.best_run import remarks_on
from pytest_llmeval.runs.lookup.refs import Baseline
from pytest_llmeval.runs.run_lines import RunHeader

if TYPE_CHECKING:
    from pytest_llmeval.gate.describe import History

SCHEMA_VERSION = 1
_OF_RUN = ("id", "created", "commit", "dirty", "ref", "complete")
_OF_BASELINE = ("reference", "how", "wanted", "substitute", "distance", "differing_files")
_OF_DESCRIPTION = ("cases", "scored_cases", "trials", "mean", "interval", "interval_level")
_LONGEST_LINE = 320  # characters, in which a case with ten repeats has room
_MOST_OF_A_LINE = 30  # entries


def json_text(report: Mapping[str, Any]) -> str:
    """Write a report as JSON, with a newline at its end."""
    return f"{_indented(report)}\n"


def _indented(value: Any, margin: str = "") -> str:
    """Write a value in one line where that is short, else one line for each of its entries."""
    if not isinstance(value, dict | list):
        return json.dumps(value, allow_nan=False)
    if len(value) <= _MOST_OF_A_LINE:
        line = json.dumps(value, allow_nan=False)
        if len(line) <= _LONGEST_LINE:
            return line
    inner, ends = f"{margin}  ", "[]"
    if isinstance(value, dict):
        ends = "{}"
        entries = [f"{json.dumps(key)}: {_indented(one, inner)}" for key, one in value.items()]
    else:
        entries = [_indented(one, inner) for one in value]
    separator = f",\n{inner}"
    return f"{ends[0]}\n{inner}{separator.join(entries)}\n{margin}{ends[1]}"


def document(judgement: Judgement) -> Entry:
    """Make the JSON report of a judgement: no NaN in it, lists and texts alone."""
    comparison, run, keyless = judgement.comparison, judgement.run, judgement.keyless
    prices, said = Prices(judgement.settings.prices), partial(in_form, toml=judgement.settings.toml)
    why = unjudgeable(judgement.could_not_judge)
    functions, lines = described_functions(judgement), list[str]()
    ungated, missing = [], []
    notes = [*filter(None, [judgement.not_gated]), *unseen(judgement), *judgement.notes]
    notes += unseen_connections(judgement)
    if comparison is not None:
        why = why or why_failed(comparison, judgement.settings.gate)
        functions = compared_functions(judgement, comparison)
        lines = [*scope(comparison, judgement.settings.gate)]
        ungated = list(map(ungated_function, comparison.ungated))
        names = comparison.names
        missing = [_not_judged(one, names) for one in comparison.not_judged]
        notes += comparison.notes
    report = {
        "schema_version": SCHEMA_VERSION,
        "verdict": _verdict(judgement),
        "fails": judgement.fails,
        "why": said(why or without_key(judgement) or worded(judgement.unsaved)),
        "settings": asdict(judgement.settings.gate),
        "run": None if run is None else _run(run, prices, path=judgement.path),
        "baseline": _baseline(judgement.baseline, run, prices),
        "differences": list(map(asdict, differences(judgement))),
        "scope": lines,
        "functions": functions,
        "ungated": ungated,
        "not_judged": missing,
        "keyless": keyless and {"cases": keyless.cases, "deferred": judgement.is_deferred},
        "anchor": _anchor(judgement, prices),
        "connections": _connections(judgement),
        "unseen_cases": unseen_cases(run),
        "notes": [said(worded(note)) for note in notes],
    }
    return {key: _finite(value) for key, value in report.items()}


def _connections(judgement: Judgement) -> list[Entry]:
    """List host and function, with all libraries that are not seen and how many there were."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for (host, function, library), count in sorted(judgement.connections.items()):
        new = {"host": host, "function": function, "libraries": [], "count": 0}
        one = found.setdefault((host, function), new)
        one["libraries"] += [library] if library else []
        one["count"] += count
    return [*found.values()]


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


def _anchor(judgement: Judgement, prices: Prices) -> Entry | None:
    """Tell of the second comparison what is told of the first."""
    against = judgement.against_anchor
    if against is None or against.comparison is None:
        return None
    return {
        "verdict": str(against.comparison.verdict),
        "fails": against.comparison.fails,
        "why": why_failed(against.comparison, judgement.settings.gate),
        "baseline": _baseline(against.baseline, judgement.run, prices),
        "functions": compared_functions(against, against.comparison),
    }


def _not_judged(fact: Fact, names: Mapping[str, str]) -> Entry:
    function, cases = fact.figures
    name = names[str(function)]
    return {"function": function, "name": name, "cases": cases, "why": str(fact.why)}


def _facts_of_run(run: Run) -> Entry:
    """Tell of a run what its first line says, as all JSON of ours has it."""
    return {name: getattr(run, name) for name in _OF_RUN} | {"cases": len(run.cases)}


def run_entry(header: RunHeader) -> Entry:
    """Write a recorded run as an entry of ``--json``; docs/report-format.md tells its keys."""
    run = header.run
    return {
        **_facts_of_run(run),
        "trials": header.trials,
        "errored": header.errored,
        "skipped": header.skipped,
        "models": sorted(header.models_asked),
        "selection": list(run.selection),
        "remarks": list(remarks_on(header)),
    }


def history_entries(history: History) -> list[Entry]:
    """Write means over runs as ``--json``; docs/report-format.md tells its keys."""
    return [
        {
            "function": function,
            "metric": metric,
            "points": [
                _facts_of_run(point.run)
                | {name: getattr(point.described, name) for name in _OF_DESCRIPTION}
                for point in points
            ],
        }
        for (function, metric), points in history.items()
    ]


def _run(run: Run, prices: Prices, *, path: Path | None) -> Entry:
    calls = [call for trial in run.trials for call in trial.calls]
    return {
        **_facts_of_run(run),
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
        "file": None if path is None else _typed(path),
        "ci": None if run.ci is None else asdict(run.ci),
    }


def _cost(cost: Cost) -> Entry:
    return {
        "currency": "USD",
        "spent": None if cost.spent.unknown else float(cost.spent.known),
        "saved": None if cost.saved.unknown else float(cost.saved.known),
        "unknown": [
            {"model": model or None, "calls": calls, "why": cause}
            for (model, cause), calls in cost.unknown
        ],
    }


def _baseline(baseline: Baseline | None, run: Run | None, prices: Prices) -> Entry | None:
    if baseline is None:
        return None
    age = None
    if run is not None:
        created = datetime.fromisoformat(baseline.run.created)
        age = (datetime.fromisoformat(run.created) - created).total_seconds()
    return {
        **_run(baseline.run, prices, path=baseline.path),
        **{name: getattr(baseline, name) for name in _OF_BASELINE},
        "age": age,
        "notes": list(baseline.notes),
    }


def _typed(path: Path) -> str:
    """Write a path as it can be typed here, and tell nothing of this machine if that is enough."""
    try:
        here = Path.cwd()
    except OSError:  # a test removed it
        return path.as_posix()
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def _finite(value: Any) -> Any:
    """Put null for what JSON has no number for, and lists for tuples."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int) or value is None:  # most are, and to look further takes long
        return value
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value]
