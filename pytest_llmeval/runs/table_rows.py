"""Columns and rows of a CSV or JSONL file, packed or not, and what their cells mean.

A cell is a text, None where it is empty, or what JSON made of it. A ``ValueError`` says what is
wrong with a cell.
"""

from __future__ import annotations

import csv
import gzip
import json
import math
import re
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import IO, Any

from pytest_llmeval.errors import TableError, listed_names
from pytest_llmeval.records import PASS_METRIC, SCORE_METRIC, Better

CSV = (".csv", ".csv.gz", ".tsv", ".tsv.gz")
JSONL = (".jsonl", ".jsonl.gz")
ENDINGS = (*CSV, *JSONL)

OPTIONAL = ("metric", "cluster", "wording", "condition", "better")
LISTED = 20
_MEANINGS = {
    "case_id": "the question that both sides were asked",
    "repeat": "the number of the trial",
    "score": "the score of the trial",
    "condition": "what follows ::",
}

LARGEST_REPEAT = 2**53
LARGEST_SCORE = 1e100  # squares of larger scores overflow
PASSES = (0.0, 1.0)
TRUTHS = {"true": 1.0, "false": 0.0}
NOTHING = ("nan", "none", "null", "n/a", "na", "-", "inf", "-inf", "infinity")
LONGEST = 60
_WITH_UNIT = re.compile(r"\W*\d[^_]*")  # 85%, 4/5, $2, 0,85

Row = Mapping[str, object]  # by what a cell tells: case_id, repeat, score, or one of ``OPTIONAL``


def has_ending(path: Path, endings: Sequence[str] = ENDINGS) -> bool:
    """Tell whether a file has the name of a table."""
    return path.name.lower().endswith(tuple(endings))


def read_columns(path: Path) -> tuple[str, ...]:
    """Read the names of the columns: the header of a CSV file, the keys of the first object.

    Raises:
        TableError: the file cannot be read, or is empty.
    """
    with _opened(path) as file:
        if has_ending(path, CSV):
            names: Iterable[str] = _header_and_cells(file)[0]
        else:
            names = next(_json_objects(path, file), (0, ()))[1]
    if not names:
        raise TableError(f"{path} is empty: a score table has case_id, repeat and score")
    return tuple(names)


def columns_of(path: Path, *, condition: str | None, metric: str | None) -> dict[str, str]:
    """Choose the columns to read, by what they tell; those of ``OPTIONAL`` may be missing.

    Args:
        path: a file with one of ``ENDINGS``.
        condition: whose rows count, None if the table has but one.
        metric: which scores count; None for every metric.

    Raises:
        TableError: a column is missing, or is there twice.
    """
    have = read_columns(path)
    score = SCORE_METRIC
    if metric is not None and "metric" not in have and (metric in have or metric != PASS_METRIC):
        score = metric
    needed = {"case_id": "case_id", "repeat": "repeat", "score": score}
    if condition is not None:
        needed["condition"] = "condition"
    for what, name in needed.items():
        if name not in have:
            use = _MEANINGS[what] if name in _MEANINGS else f"{_MEANINGS[what]} (--metric)"
            known = listed_names(have, LISTED)
            others = [one for one in have if one not in ("case_id", "repeat", *OPTIONAL)]
            if name == SCORE_METRIC and others:
                known += f". Name the one with the scores, as in --metric={others[0]}"
            raise TableError(f"{path}: no column '{name}' for {use}; it has {known}")
    columns = needed | {name: name for name in OPTIONAL if name in have}
    for name in columns.values():
        if have.count(name) > 1:
            raise TableError(f"{path}: the header has '{name}' more than once")
    return columns


def read_rows(path: Path, columns: Mapping[str, str]) -> Iterator[tuple[int, Row]]:
    """Yield some columns of every row.

    Args:
        path: a file with one of ``ENDINGS``.
        columns: as ``columns_of`` returns them.

    Yields:
        Number of the row's last line in the file, from 1, and its values. An empty cell of a CSV
        file is None.

    Raises:
        TableError: a line is not what it should be; the message says which one.
    """
    for number, row in read_objects(path):
        for what in ("case_id", "repeat", "score"):
            if columns[what] not in row:
                raise TableError(f"{path}, line {number}: it has no '{columns[what]}'")
        yield number, {what: row.get(name) for what, name in columns.items()}


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield number and content of every row, by the names of the columns.

    Raises:
        TableError: a line is not what it should be, or the file cannot be read.
    """
    read = _csv_objects if has_ending(path, CSV) else _json_objects
    with _opened(path) as file:
        yield from read(path, file)


def _header_and_cells(file: IO[str]) -> tuple[list[str], Any]:
    """Open a CSV file, whose header shows what separates its cells: commas, semicolons or tabs."""
    first = [file.readline()]
    while first[-1].isspace():
        first.append(file.readline())
    separator = max(",;\t", key=first[-1].count)
    reader = csv.reader(chain(first, file), delimiter=separator, skipinitialspace=True)
    return [name.strip() for name in next(filter(any, reader), [])], reader


def _csv_objects(path: Path, file: IO[str]) -> Iterator[tuple[int, dict[str, object]]]:
    header, reader = _header_and_cells(file)
    for cells in reader:
        if len(cells) == len(header):
            values = (cell or None for cell in cells)
            yield reader.line_num, dict(zip(header, values, strict=True))
        elif cells:
            raise TableError(
                f"{path}, line {reader.line_num}: {len(cells)} cells, the header has {len(header)}"
            )


def _json_objects(path: Path, file: IO[str]) -> Iterator[tuple[int, dict[str, object]]]:
    for number, line in enumerate(file, start=1):
        if line.isspace():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as exc:  # the latter by thousands of brackets
            raise TableError(f"{path}, line {number}: not JSON: {exc}") from None
        if not isinstance(row, dict):
            raise TableError(f"{path}, line {number}: not a JSON object")
        yield number, row


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    """Open a table; turn every fault of the file into an error of one sentence."""
    opened: Any = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            yield file
    except UnicodeDecodeError as exc:
        raise TableError(f"{path}: not UTF-8: {exc.reason}") from exc
    except csv.Error as exc:
        raise TableError(f"{path}: not CSV: {exc}") from exc
    except (gzip.BadGzipFile, zlib.error, EOFError) as exc:
        raise TableError(f"{path}: damaged, or not packed with gzip: {exc}") from exc
    except OSError as exc:
        raise TableError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def read_case(value: object) -> str:
    """Read the id of a case: a text, however its accents are composed, or a whole number."""
    if (isinstance(value, str) and value) or type(value) is int:
        return unicodedata.normalize("NFC", str(value))
    raise ValueError(f"case_id is {_shown(value)}, not a name")


def read_repeat(value: object) -> int:
    """Read the number of a trial."""
    if isinstance(value, str) and value.isascii() and value.strip().isdigit():
        value = int(value.strip()[:20])
    if type(value) is int and 0 <= value < LARGEST_REPEAT:
        return value
    raise ValueError(f"repeat is {_shown(value)}, not a whole number from 0")


def read_metric(value: object) -> str:
    """Read the name of a metric."""
    if isinstance(value, str) and value:
        return value
    raise ValueError(f"metric is {_shown(value)}, not a name")


def read_better(value: object) -> Better:
    """Read which direction of a metric is good."""
    if value in ("higher", "lower"):
        return value
    raise ValueError(f"better is {_shown(value)}, neither 'higher' nor 'lower'")


def read_score(value: object, *, metric: str | None) -> float | None:
    """Read a score; None for an errored trial.

    Args:
        value: a finite number, or nothing.
        metric: its metric; a pass is 0 or 1.
    """
    if value is None:
        return None
    number = number_of(value)
    if not math.isfinite(number):
        text, remedy = str(value), "write a number for it, or name another column by --metric=NAME"
        if text.lower() in NOTHING:
            remedy = "leave it empty for a failed call"
        elif text.isalpha():  # a mark, as C, I, Pass, wrong
            remedy = "write a number for it, such as 1 for right and 0 for wrong"
        elif isinstance(value, str) and not math.isinf(number) and _WITH_UNIT.fullmatch(text):
            remedy = "write a number for it, such as 0.85 for 85% or 0,85"
        raise ValueError(f"score is {_shown(value)}, not a finite number; {remedy}")
    if abs(number) > LARGEST_SCORE:
        raise ValueError(f"score is {_shown(value)}, beyond {LARGEST_SCORE:g}")
    digits = str(value).strip().lstrip("+-")
    if digits.isdecimal() and int(digits) != abs(number):
        remedy = "subtract the same number from every score"
        raise ValueError(f"score is {_shown(value)}: its last digits would be lost; {remedy}")
    if metric == PASS_METRIC and number not in PASSES:
        raise ValueError(f"score is {_shown(value)}, but the metric 'pass' is 0 or 1")
    return number


def read_label(value: object) -> str | None:
    """Read the name of a cluster or a condition, if there is one; a number as JSON writes it."""
    return value if isinstance(value, str | None) else json.dumps(value)


def number_of(value: object) -> float:
    """Read a number of a cell or of JSON; NaN for anything else."""
    try:
        if str(value).lower() in TRUTHS:
            return TRUTHS[str(value).lower()]
        if isinstance(value, str):
            return math.nan if "_" in value else float(value)
        if isinstance(value, (int, float)):
            return float(value)
    except (ValueError, OverflowError):
        pass
    return math.nan


def _shown(value: object) -> str:
    return "empty" if value in (None, "") else repr(value)[:LONGEST]
