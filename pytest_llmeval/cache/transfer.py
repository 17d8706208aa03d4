"""A cache as a file to take along: JSON lines, each checked when it is read.

The first line names the format, then comes a line for each request and each draw, and the last line
counts these. A copied database would need far more trust than such a file.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import os
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytest_llmeval.cache import reply
from pytest_llmeval.cache.contents import draws_in, parse_name
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.disk import DBNAME
from pytest_llmeval.cache.queries import RowChanges
from pytest_llmeval.cache.requests import PREFIX, unpack_request
from pytest_llmeval.cache.timed_calls import PREFIX as COURSES
from pytest_llmeval.errors import CacheError, RowRefused

KIND = "pytest-llm-baseline cache"
SCHEMA = 1
HEAD = {"kind": KIND, "schema": SCHEMA}
LONGEST_LINE = 2**29
PACKED = b"\x1f\x8b"
KEY_NAME = re.compile(rf"{PREFIX}[0-9a-f]{{64}}")


class ImportRefused(CacheError):
    """A file that ``export`` did not write; nothing of the file was taken."""


@dataclass(frozen=True, slots=True)
class Exported:
    """The numbers of draws and requests in a file, and of rows left out, which we did not write."""

    draws: int
    requests: int
    left_out: int


def export(store: Store, path: Path) -> Exported:
    """Write a cache to a new file, packed if its name ends in ``.gz``; only the user may read it.

    Raises:
        CacheUnusable: the cache cannot be read.
        OSError: the file cannot be written, or is there already.
    """
    rows, lines = _lines(store)
    requests = sum("request" in line for line in lines)
    draws = len(lines) - requests
    end = {"draws": draws, "requests": requests}
    with _created(path) as file:
        for line in (HEAD, *lines, end):
            file.write(json.dumps(line, separators=(",", ":")).encode("ascii") + b"\n")
    return Exported(draws, requests, left_out=len(rows) - len(lines))


def read_export(path: Path) -> list[reply.NewRow]:
    """Read a file that ``export`` wrote, and check it to its end.

    Returns:
        Names and values of rows, in its order.

    Raises:
        ImportRefused: it did not write this; names the line.
        OSError: the file cannot be read.
    """
    rows: list[reply.NewRow] = []
    number = 0
    try:
        with path.open("rb") as plain:
            is_packed = plain.peek().startswith(PACKED)
            file = gzip.GzipFile(fileobj=plain) if is_packed else plain
            for number, text in enumerate(iter(lambda: file.readline(LONGEST_LINE), b""), start=1):
                line = reply.fitting(text, reply.OBJECT, "it")
                if number == 1:
                    _check_head(line)
                elif "draws" in line:
                    _check_end(line, rows, rest=file.read(1))
                    return rows
                else:
                    rows.append(_row(line))
    except RowRefused as exc:
        raise ImportRefused(f"{path}, line {number}: {exc}. Nothing was imported.") from exc
    except (zlib.error, EOFError, gzip.BadGzipFile) as exc:
        raise ImportRefused(f"{path}, after line {number}: {exc}. Nothing was imported.") from exc
    raise ImportRefused(f"{path} is cut off after line {number}. Nothing was imported.")


def read_folder(path: Path, *, warn: Callable[[str], None]) -> list[reply.NewRow]:
    """Read the cache of another folder such as ``.llmeval``, as if it had been exported.

    Returns:
        Names and values of rows that are whole; none if there is no cache.
    """
    if not (path / "cache" / DBNAME).is_file():
        return []
    with closing(Store(path, warn=warn)) as store:
        rows: list[reply.NewRow] = []
        for line in _lines(store)[1]:
            with suppress(RowRefused):
                rows.append(_row(line))
        return rows


def _lines(store: Store) -> tuple[list[reply.StoredRow], list[dict[str, Any]]]:
    """Return the rows to take along, in order, and the lines of the whole ones."""
    rows = [row for row in store.rows() if not row.name.startswith(COURSES)]
    rows.sort(key=_order)
    return rows, [line for line in map(_line, rows) if line is not None]


def _order(row: reply.StoredRow) -> tuple[str, int]:
    parsed = parse_name(row.name)
    if parsed is None:
        return row.name, 0
    return parsed.place, -1 if parsed.generation is None else parsed.generation


def _line(row: reply.StoredRow) -> dict[str, Any] | None:
    with suppress(RowRefused):
        if row.name.startswith(PREFIX):
            return {"name": row.name, "request": unpack_request(row.value)}
        if parse_name(row.name) is not None:
            header, body = reply.unpack(row.value)
            line = {"name": row.name, "reply": header}
            try:
                return line | {"body": body.decode("utf-8")}
            except UnicodeDecodeError:
                return line | {"body_base64": base64.b64encode(body).decode("ascii")}
    return None


@contextmanager
def _created(path: Path) -> Iterator[io.BufferedIOBase]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as plain:
            if path.suffix == ".gz":
                with gzip.GzipFile(filename="", mode="wb", fileobj=plain, mtime=0) as packed:
                    yield packed
            else:
                yield plain
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def _check_head(line: dict[str, Any]) -> None:
    if line.get("kind") != KIND:
        raise RowRefused("this is no file of `llmeval cache export`")
    if line.get("schema") != SCHEMA:
        raise RowRefused(f"it has schema {line.get('schema')!r}, this version reads {SCHEMA}")


def _check_end(line: dict[str, Any], rows: Sequence[reply.NewRow], *, rest: bytes) -> None:
    requests = sum(name.startswith(PREFIX) for name, _ in rows)
    if line != {"draws": len(rows) - requests, "requests": requests} or rest:
        raise RowRefused("the last line does not count the lines before it")


def _row(line: dict[str, Any]) -> reply.NewRow:
    name = line.get("name")
    if not isinstance(name, str):
        raise RowRefused("it has no name")
    return name, _request_value(name, line) if "request" in line else _reply_value(name, line)


def _request_value(name: str, line: dict[str, Any]) -> bytes:
    if not KEY_NAME.fullmatch(name):
        raise RowRefused("its name is not that of a request")
    try:
        value = reply.pack_object(line["request"])
    except (ValueError, RecursionError) as exc:  # 1e999 is read as infinity
        raise RowRefused(f"its request is no JSON that can be kept ({exc})") from exc
    if value is None:
        raise RowRefused("its request is too long")
    unpack_request(value)
    return value


def _reply_value(name: str, line: dict[str, Any]) -> bytes:
    parsed = parse_name(name)
    if parsed is None:
        raise RowRefused("its name is not the name of a reply")
    try:
        body = str(line.get("body")).encode()
        if "body" not in line or "body_base64" in line:
            body = base64.b64decode(line["body_base64"], validate=True)
        value = reply.pack(line["reply"], body)
    except (LookupError, TypeError, ValueError, RecursionError) as exc:
        raise RowRefused("it has no proper body") from exc
    header, _ = reply.unpack(value)  # checks every field, and the digest of the body
    if parsed.generation is None and not name.endswith(header["draw"]):
        raise RowRefused("its name and its reply differ")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Merging(RowChanges):
    """Rows of a file that are added to a cache.

    Attributes:
        new: draws in slots that had none.
        spare: draws in slots that had another draw, which a replay goes on finding.
        known: draws that the cache had already.
    """

    new: int
    spare: int
    known: int


def merge(rows: Iterable[reply.StoredRow], foreign: Sequence[reply.NewRow]) -> Merging:
    """Work out which rows to add to a cache; no row of the cache changes.

    Args:
        rows: all rows of the cache.
        foreign: names and values that ``read_export`` gave: checked, generations in order.
    """
    present: defaultdict[str, set[str]] = defaultdict(set)
    taken: set[str] = set()
    for stored in draws_in(rows):
        if stored.parsed.generation is not None:
            taken.add(stored.parsed.place)
        if stored.reply is not None:
            present[stored.parsed.place].add(stored.reply.draw)
    generations: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    added: list[reply.NewRow] = []
    for name, value in foreign:
        parsed = parse_name(name)
        if parsed is None:  # a request; one that the cache has stays
            added.append((name, value))
            continue
        place, draw = parsed.place, reply.decode(value).draw
        if draw in present[place]:
            counts["known"] += 1
            continue
        present[place].add(draw)
        if parsed.generation is None or place in taken:
            counts["spare"] += 1
            added.append((f"{place}/spare/{draw}", value))
        else:
            counts["new"] += 1
            added.append((f"{place}/{generations[place]}", value))
            generations[place] += 1
    return Merging(added=added, new=counts["new"], spare=counts["spare"], known=counts["known"])
