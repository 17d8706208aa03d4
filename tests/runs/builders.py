"""Runs for these tests, and their files taken apart and put together again."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pytest_llmeval.records import Call, Case, Outcome, Run, Slot, Trial

COMMIT = "1a2b3c4d" * 5
TREE = "0f1e2d3c" * 5


def make_call(index: int = 0, *, model: str | None = "openai/gpt-6-luna", **changes: Any) -> Call:
    known = {"draw": f"{index:032x}", "reply_sha256": "b" * 64, "model": model}
    return Call(**{"key": "a" * 64, "slot": Slot(index, 0), **known, **changes})


def make_run(**changes: Any) -> Run:
    """A complete run of two cases, two trials each, of one commit."""
    models = changes.pop("models", ("openai/gpt-6-luna",))
    cases = tuple(
        Case(id=f"tests/test_a.py::test_a[{name}]", function="tests/test_a.py::test_a", repeats=2)
        for name in ("Peru", "Chad")
    )
    trials = tuple(
        Trial(
            case=case.id,
            index=index,
            outcome=Outcome.PASSED,
            scores={"pass": 1.0},
            calls=tuple(make_call(index, model=model) for model in models),
            seconds=0.25,
        )
        for case in cases
        for index in range(2)
    )
    usual: dict[str, Any] = {
        "id": "20261121T084100-1a2b3c",
        "created": "2026-11-21T08:41:00+00:00",
        "commit": COMMIT,
        "tree": TREE,
        "dirty": False,
        "ref": "main",
        "root": ".",
        "versions": {"python": "3.13.0", "pytest": "9.0.1"},
        "selection": (),
        "complete": True,
        "partial": (),
        "cases": cases,
        "trials": trials,
        "outside_calls": 0,
    }
    return Run(**{**usual, **changes})


def make_trials(
    number: int = 20, *, errored: int = 0, skipped: int = 0, calls: Sequence[Call] = ()
) -> tuple[Trial, ...]:
    """Trials of the first case: errored ones first, then skipped ones, then passed ones."""
    ends = [Outcome.ERRORED] * errored + [Outcome.SKIPPED] * skipped
    ends += [Outcome.PASSED] * (number - len(ends))
    case = "tests/test_a.py::test_a[Peru]"
    return tuple(
        Trial(case=case, index=index, outcome=end, calls=tuple(calls))
        for index, end in enumerate(ends)
    )


def lines_of(path: Path) -> list[dict[str, Any]]:
    """The lines of a run file but the closing one."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()[:-1]]


def write_lines(
    path: Path, lines: Sequence[object], *, written: Mapping[str, str] | None = None, **counts: int
) -> Path:
    """Close any lines properly, as somebody would who forges a file; ``written`` replaces texts."""
    data = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    for old, new in (written or {}).items():
        data = data.replace(old.encode(), new.encode())
    end = {
        "counts": {"cases": 2, "trials": len(lines) - 1, "calls": 4, **counts},
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    path.write_bytes(gzip.compress(data + json.dumps(end).encode() + b"\n"))
    return path
