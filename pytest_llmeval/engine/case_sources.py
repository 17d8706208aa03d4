"""Cases for parametrize: drawn from a generator, or read from a file."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import sys
from collections.abc import Callable, Iterator
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_llmeval.cache.directory import open_plain
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.safe_text import printable

if TYPE_CHECKING:
    from pytest_llmeval.engine.compat import ParameterSet

SAMPLED = re.compile(r"(?:^|-)seed-?[0-9]+-[0-9]+(?:-|$)", re.ASCII)


def sample_cases(
    make_case: Callable[[random.Random], object], n: int, seed: int
) -> list[ParameterSet]:
    """Draw cases for ``pytest.mark.parametrize`` from a generator.

    Case i is made with random numbers of its own, which depend on seed and i alone: a larger
    n adds cases and changes none. Its id, ``seed7-0``, records the seed in the run. If the
    generator makes another case under an id, the gate does not pair the two.

    Args:
        make_case: makes one case with the generator it is handed, and with no other source
            of chance. A tuple is one value for each argument of the test.
        n: how many, >= 1.
        seed: which sample; any whole number.

    Returns:
        One ``pytest.param`` a case.

    Raises:
        SettingsError: n or seed is no such number.
    """
    import pytest

    _check_whole("n", n, at_least=1)
    _check_whole("seed", seed)
    drawn = [make_case(random.Random(f"{seed}/{index}")) for index in range(n)]  # noqa: S311
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), id=f"seed{seed}-{index}")
        for index, case in enumerate(drawn)
    ]


def cases_from(file: str | Path, *, id: str) -> list[ParameterSet]:
    """Read cases for ``pytest.mark.parametrize`` from a file, one a row.

    Each case is a dict of its row, and its id is what the row has for ``id``: rows can be added,
    sorted and taken out, and the gate pairs those that stay.

    Args:
        file: ``.csv`` with a heading, ``.jsonl`` with an object a line, or ``.yaml`` with a list of
            mappings; below the folder of the module that calls.
        id: the column that tells the cases apart; no two of them may have the same.

    Returns:
        One ``pytest.param`` a row, in the order of the file.

    Raises:
        pytest.Collector.CollectError: the file cannot be read, or an id is missing or twice there.
    """
    import pytest

    caller = sys._getframe(1).f_globals.get("__file__", "")
    path = Path(caller).parent / file
    try:
        named = _named(path, id)
    except (OSError, ValueError, csv.Error) as exc:
        why = exc.strerror if isinstance(exc, OSError) and exc.strerror else exc
        if isinstance(exc, FileNotFoundError):
            why = f"{why}. Write its path from the folder of the test"
        raise pytest.Collector.CollectError(printable(f"cases_from: {path}: {why}")) from None
    return [pytest.param(case, id=name) for name, case in named.items()]


def _named(path: Path, column: str) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    places: dict[str, str] = {}
    for place, row in _rows(path):
        if not isinstance(row, dict):
            raise ValueError(f"{place} is no case with names and values")  # noqa: TRY004 - of a file
        name = "" if row.get(column) is None else str(row[column]).strip()
        if not name:
            known = ", ".join(map(str, row))
            raise ValueError(
                f"{place} has no {column!r}, which is the id of its case; it has {known}"
            )
        if name in found:
            raise ValueError(
                f"{place} has the id {name!r} of {places[name]}: give each case one of its own"
            )
        found[name], places[name] = row, place
    if not found:
        raise ValueError("it has no case")
    return found


def _rows(path: Path) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file, with the place of each for a message.

    Raises:
        ValueError: it is not what its name says.
    """
    ending = path.suffix.lower()
    if ending not in (".csv", ".jsonl", ".yaml", ".yml"):
        raise ValueError("cases are read from .csv, .jsonl and .yaml")
    try:
        with TextIOWrapper(open_plain(path), encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError as exc:
        raise ValueError(f"it is not UTF-8 (byte {exc.start}): save it as UTF-8") from None
    if ending == ".csv":
        yield from _csv_rows(text)
    elif ending == ".jsonl":
        # not splitlines(): within JSON a text may hold what that takes for the end of a line
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                yield f"line {number}", _parsed(line, number)
    else:
        listed = _yaml(text)
        if not isinstance(listed, list):
            raise ValueError("it is no list of cases")
        for number, row in enumerate(listed, start=1):
            yield f"entry {number}", row


def _csv_rows(text: str) -> Iterator[tuple[str, Any]]:
    limit = csv.field_size_limit(max(len(text), csv.field_size_limit()))  # a case may be a document
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        heading = reader.fieldnames or []
        if len(heading) == 1 and (other := re.search("[;\t]", heading[0])):
            raise ValueError(f"its heading is parted by {other[0]!r}: save it with commas")
        if twice := [name for at, name in enumerate(heading) if name and name in heading[:at]]:
            raise ValueError(f"its heading has {twice[0]!r} twice: give each column its own name")
        for row in reader:
            if None in row or None in row.values():
                raise ValueError(f"line {reader.line_num} has not as many cells as the heading")
            yield f"line {reader.line_num}", row
    finally:
        csv.field_size_limit(limit)


def _parsed(line: str, number: int) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as exc:
        # which counts from the beginning of this line
        why = f"{exc.msg}: column {exc.colno}" if isinstance(exc, json.JSONDecodeError) else exc
        raise ValueError(f"line {number} is no JSON: {why}") from None


def _yaml(text: str) -> object:
    try:
        import yaml
    except ImportError:
        raise ValueError("to read YAML takes PyYAML:  pip install PyYAML") from None
    try:
        # Dates become text, as in the other formats: a date could not be told apart by a digest.
        return json.loads(json.dumps(yaml.safe_load(text), default=str))
    except (yaml.YAMLError, TypeError, RecursionError) as exc:
        raise ValueError(f"it is no YAML: {' '.join(str(exc).split())}") from None


def is_sampled(parameters_id: str) -> bool:
    """Whether (a part of) the id of a set of parameters was made by ``sample_cases``."""
    return SAMPLED.search(parameters_id) is not None


def _check_whole(name: str, value: object, *, at_least: int | None = None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise SettingsError(f"sample_cases: {name} must be a whole number, not {value!r}")
    if at_least is not None and value < at_least:
        raise SettingsError(f"sample_cases: {name} must be {at_least} or more, not {value}")
