"""Output of promptfoo, ``--output FILE.json``. A test that ran again is a repeat."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.records import PASS_METRIC, SCORE_METRIC, SECONDS_METRIC
from pytest_llmeval.runs.readers.result_file import Results, mapping, mappings

ERROR = 2  # of failureReason: no assertion judged the reply
UNNAMED = "the test without vars"


def read_promptfoo(path: Path, content: Mapping[str, Any], *, metric: str | None) -> Results:
    """Read the results.

    Args:
        path: of the file.
        content: of the file.
        metric: ``score``, ``seconds`` and ``cost`` are read if they are asked for.

    Raises:
        TableError: there is no score.
    """
    inner = content["results"]
    rows = mappings(inner["results"] if isinstance(inner, dict) and "results" in inner else inner)
    rows.sort(key=lambda row: _index(row, "testIdx"))
    conditions = _conditions(rows)
    cases = [_case(row) for row in rows]
    named: dict[str, dict[str, None]] = defaultdict(dict)
    for case, row in zip(cases, rows, strict=True):
        named[case] |= dict.fromkeys(mapping(row.get("namedScores")))
    results = Results()
    ran: Counter[tuple[str, str]] = Counter()
    for case, row in zip(cases, rows, strict=True):
        condition = conditions[_column(row)]
        values = dict.fromkeys(named[case]) | _values(row, metric)
        if _errored(row):
            values = dict.fromkeys(values)
        for name, value in values.items():
            results.add(case, ran[case, condition], name, value, condition)
        ran[case, condition] += 1
    results.notes.append(f"{path.name}: its tests have no ids, so their vars name the cases")
    return results.finished(path)


def _values(row: Mapping[str, Any], metric: str | None) -> dict[str, Any]:
    latency = row.get("latencyMs")
    asked = {
        SCORE_METRIC: row.get("score"),
        SECONDS_METRIC: latency / 1000 if isinstance(latency, (int, float)) else None,
        "cost": row.get("cost"),
    }
    values = {PASS_METRIC: row.get("success"), **mapping(row.get("namedScores"))}
    return values | ({metric: asked[metric]} if metric in asked else {})


def _errored(row: Mapping[str, Any]) -> bool:
    if "failureReason" in row:
        return bool(row["failureReason"] == ERROR)
    return bool(value_at(row, "response", "error"))  # of older files


def _index(row: Mapping[str, Any], name: str) -> int:
    index = row.get(name)
    return index if isinstance(index, int) else 0


def _case(row: Mapping[str, Any]) -> str:
    values = mapping(value_at(row, "testCase", "vars")) or mapping(row.get("vars"))
    named = ", ".join(f"{name}={_text(values[name])}" for name in sorted(values))
    described = value_at(row, "testCase", "description")
    return ": ".join(str(part) for part in (described, named) if part) or UNNAMED


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)


def _column(row: Mapping[str, Any]) -> tuple[int, str]:
    """Return the place of a row's prompt, and its provider; older files have no place."""
    provider = row.get("provider")
    name = value_at(provider, "label") or value_at(provider, "id") or provider
    return _index(row, "promptIdx"), str(name)


def _conditions(rows: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], str]:
    """Name a condition by its provider, with the prompt's place where one got several prompts."""
    columns = set(map(_column, rows))
    shared = Counter(name for _, name in columns)
    return {(at, name): name if shared[name] == 1 else f"{name}#{at}" for at, name in columns}
