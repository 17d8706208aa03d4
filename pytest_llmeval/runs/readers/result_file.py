"""Common parts of the readers: bounds on files, values that are numbers, and their rows."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pytest_llmeval.errors import TableError
from pytest_llmeval.runs.table_rows import Row, number_of

LARGEST = 2**28  # bytes that are read into memory at once: 256 MiB
LONGEST = 40
_SMALLER = "write its scores as a table (.csv: case_id, repeat, score)"
# Words of harnesses for a number; Inspect's C, P, I and N mean right, partly, wrong, no answer.
WORDS = {"c": 1.0, "p": 0.5, "i": 0.0, "n": 0.0, "true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}


@dataclass(frozen=True, slots=True)
class Results:
    """The trials of a file.

    Attributes:
        rows: as those of a table; the score of an errored trial is None.
        notes: what the file lacks, in a sentence each.
    """

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unread: Counter[object] = field(default_factory=Counter)

    def add(
        self, case: object, repeat: int, metric: str, value: object, condition: str | None = None
    ) -> None:
        """Add the score of a trial; without one, and counted, if it is no number."""
        number = number_of(WORDS.get(str(value).lower(), value))
        score = number if math.isfinite(number) else None
        self.unread[metric] += score is None and value is not None
        row = {"case_id": case, "repeat": repeat, "score": score, "metric": metric}
        self.rows.append(row | {"condition": condition})

    def finished(self, path: Path) -> Results:
        """Say which values are no numbers; leave metrics out that have none.

        Beside numbers such a value is a failed call, as it may be what a failure looks like.

        Raises:
            TableError: there is no score.
        """
        have = {row["metric"] for row in self.rows if row["score"] is not None}
        if not have:
            raise TableError(f"{path}: no sample has a score that is a number")
        left_out = (+self.unread).keys() - have
        self.rows[:] = [row for row in self.rows if row["metric"] not in left_out]
        for metric, count in (+self.unread).items():
            what = f"{count}, {'taken as failed calls' if metric in have else 'left out'}"
            self.notes.append(f"{path.name}: values of {metric} that are no numbers: {what}")
        return self


def load_json(path: Path) -> object:
    """Read a file of JSON.

    Raises:
        TableError: it cannot be read, is too large, or is no JSON.
    """
    try:
        if path.stat().st_size > LARGEST:
            raise TableError(f"{path} has more than {LARGEST >> 20} MiB: {_SMALLER}")
        return parse(path, path.read_bytes())
    except OSError as exc:
        raise TableError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def parse(path: Path, data: bytes) -> object:
    """Read JSON.

    Raises:
        TableError: it is none.
    """
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as exc:  # the latter by thousands of brackets
        raise TableError(f"{path}: not JSON: {str(exc)[:LONGEST]}") from None


def mapping(value: object) -> Mapping[str, Any]:
    """Return an object of JSON; an empty one for anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> list[Mapping[str, Any]]:
    """Return a list of objects; an item that is no object becomes an empty one."""
    return [mapping(item) for item in value] if isinstance(value, list) else []
