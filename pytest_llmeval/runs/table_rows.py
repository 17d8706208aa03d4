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
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from pytest_llmeval.errors import TableError, listed_names
from pytest_llmeval.records import PASS_METRIC, SCORE_METRIC, Better

CSV = (".csv", ".csv.gz")
JSONL = (".jsonl", ".jsonl.gz")
ENDINGS = (*CSV, *JSONL)

NEEDED = 3  # case_id, repeat and the score
OPTIONAL = ("metric", "cluster", "wording", "condition", "better")
EVERY = ("case_id", "repeat", "score", *OPTIONAL)
LISTED = 20

LARGEST_REPEAT = 2**53
LARGEST_SCORE = 1e100  # squares of larger scores overflow
PASSES = (0.0, 1.0)
TRUTHS = {"true": 1.0, "false": 0.0}
NOTHING = ("nan", "none", "null", "n/a", "na", "-", "inf", "-inf", "infinity")
LONGEST = 60
_WITH_UNIT = re.compile(r"\W*\d[^_]*")  # 85%, 4/5, $2, 0,85

Row = tuple[int, Sequence[object]]


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
            names: Iterable[str] = next(csv.reader(file, skipinitialspace=True), [])
        else:
            names = next(_objects(path, file), (0, ()))[1]
    if not names:
        raise TableError(f"{path} is empty: a score table has case_id, repeat and score")
    return tuple(names)


def columns_of(path: Path, *, condition: str | None, metric: str | None) -> tuple[str | None, ...]:
    """Choose the columns to read: case, repeat, score, then those that may be missing.

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
    needed = ["case_id", "repeat", score] + (["condition"] if condition is not None else [])
    for name in needed:
        if name not in have:
            known = listed_names(have, LISTED) + _wide(name, have)
            raise TableError(f"{path}: no column '{name}' for {_meant_by(name)}; it has {known}")
    optional = [name if name in have else None for name in OPTIONAL]
    for name in (*needed, *OPTIONAL):
        if have.count(name) > 1:
            raise TableError(f"{path}: the header has '{name}' more than once")
    return ("case_id", "repeat", score, *optional)


def _wide(missing: str, have: Sequence[str]) -> str:
    """Say how to name the column with the scores, if that is what is missing."""
    others = [name for name in have if name not in ("case_id", "repeat", *OPTIONAL)]
    if missing != SCORE_METRIC or not others:
        return ""
    return f". Name the one with the scores, as in --metric={others[0]}"


def _meant_by(column: str) -> str:
    known = {
        "case_id": "the question that both sides were asked",
        "repeat": "the number of the trial",
        "score": "the score of the trial",
        "condition": "what follows ::",
    }
    return known.get(column, "the score of the trial (--metric)")


def read_rows(path: Path, columns: Sequence[str | None]) -> Iterator[Row]:
    """Yield some columns of every row.

    Args:
        path: a file with one of ``ENDINGS``.
        columns: which ones, None for a column that the file does not have; a CSV file has them in
            its header. Every row must have the first ``NEEDED`` columns.

    Yields:
        Number of the row's last line in the file, from 1, and its values in the order of
        ``columns``. An empty cell of a CSV file is None.

    Raises:
        TableError: a line is not what it should be; the message says which one.
    """
    with _opened(path) as file:
        if has_ending(path, CSV):
            yield from _csv_rows(path, file, columns)
        else:
            yield from _json_rows(path, file, columns)


def _csv_rows(path: Path, file: IO[str], columns: Sequence[str | None]) -> Iterator[Row]:
    reader = csv.reader(file, skipinitialspace=True)
    header = next(reader)
    places = [None if name is None else header.index(name) for name in columns]
    for cells in reader:
        if len(cells) == len(header):
            row = [None if place is None else cells[place] or None for place in places]
            yield reader.line_num, row
        elif cells:
            raise TableError(
                f"{path}, line {reader.line_num}: {len(cells)} cells, the header has {len(header)}"
            )


def read_objects(path: Path) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield number and content of every line of a JSONL file.

    Raises:
        TableError: a line is no object of JSON, or the file cannot be read.
    """
    with _opened(path) as file:
        yield from _objects(path, file)


def _json_rows(path: Path, file: IO[str], columns: Sequence[str | None]) -> Iterator[Row]:
    for number, row in _objects(path, file):
        for name in columns[:NEEDED]:
            if name not in row:
                raise TableError(f"{path}, line {number}: it has no '{name}'")
        yield number, [None if name is None else row.get(name) for name in columns]


def _objects(path: Path, file: IO[str]) -> Iterator[tuple[int, dict[str, object]]]:
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
    try:
        with _text_of(path) as file:
            yield file
    except UnicodeDecodeError as exc:
        raise TableError(f"{path}: not UTF-8: {exc.reason}") from exc
    except csv.Error as exc:
        raise TableError(f"{path}: not CSV: {exc}") from exc
    except (gzip.BadGzipFile, zlib.error, EOFError) as exc:
        raise TableError(f"{path}: damaged, or not packed with gzip: {exc}") from exc
    except OSError as exc:
        raise TableError(f"{path} cannot be read: {exc.strerror or exc}") from exc


def _text_of(path: Path) -> IO[str]:
    if path.name.lower().endswith(".gz"):
        return cast("IO[str]", gzip.open(path, "rt", encoding="utf-8-sig", newline=""))
    return path.open(encoding="utf-8-sig", newline="")


def read_case(value: object) -> str:
    """Read the id of a case: a text or a whole number."""
    if (isinstance(value, str) and value) or type(value) is int:
        return str(value)
    raise ValueError(f"case_id is {_shown(value)}, not a name")


def read_repeat(value: object) -> int:
    """Read the number of a trial."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:20])
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
    if metric == PASS_METRIC and number not in PASSES:
        raise ValueError(f"score is {_shown(value)}, but the metric 'pass' is 0 or 1")
    return number


def read_label(value: object) -> str:
    """Read the name of a cluster or a condition; a number of JSON as it is written."""
    return value if isinstance(value, str) else json.dumps(value)


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
