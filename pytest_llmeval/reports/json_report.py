"""Reports and recorded runs as JSON, for other programs.

The format is told in docs/report-format.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from pytest_llmeval.gate.describe import History
from pytest_llmeval.records import Run
from pytest_llmeval.reports.report import INLINE, LEFT_OUT, Report
from pytest_llmeval.runs.lookup.best_run import remarks_on
from pytest_llmeval.runs.run_lines import RunHeader

_OF_RUN = ("id", "created", "commit", "dirty", "ref", "complete")
_OF_DESCRIPTION = ("cases", "scored_cases", "trials", "mean", "interval", "interval_level")
_LONGEST_LINE = 320  # characters, in which a case with ten repeats has room
_MOST_OF_A_LINE = 30  # entries

Entry = dict[str, Any]


def json_text(report: Report) -> str:
    """Write a report as JSON, with a newline at its end."""
    return f"{indented(dumped(report))}\n"


def dumped(value: Any) -> Any:
    """Turn records into JSON's objects, lists, texts and numbers; NaN becomes null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str | int) or value is None:  # most are, and more checks take long
        return value
    if isinstance(value, Mapping):
        return {key: dumped(entry) for key, entry in value.items()}
    if _names(value):
        return _object(value)
    return [dumped(entry) for entry in value]


def _object(record: Any, taken: frozenset[str] = frozenset()) -> Entry:
    """Write a record as an object, without keys that the record around it has."""
    names, entry = _names(record), Entry()
    for name in names:
        if name in INLINE:
            entry |= _object(getattr(record, name), taken.union(names))
        elif name not in taken:
            value = getattr(record, name)
            if value is not None or name not in LEFT_OUT:
                entry[name] = dumped(value)
    return entry


def _names(record: Any) -> Iterable[str]:
    """Return the fields of a record of either kind; none for any other value."""
    names: Iterable[str] = getattr(record, "__dataclass_fields__", None) or ()
    return names or getattr(record, "_fields", ())


def indented(value: Any, margin: str = "") -> str:
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
        entries = [f"{json.dumps(key)}: {indented(one, inner)}" for key, one in value.items()]
    else:
        entries = [indented(one, inner) for one in value]
    separator = f",\n{inner}"
    return f"{ends[0]}\n{inner}{separator.join(entries)}\n{margin}{ends[1]}"


def _facts_of_run(run: Run) -> Entry:
    """Return the header of a run, as all our JSON has it."""
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
