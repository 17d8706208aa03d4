"""Run files: gzip JSONL, written completely or not at all, and checked when they are read."""

from __future__ import annotations

import gzip
import hashlib
import io
import itertools
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import BufferedIOBase
from pathlib import Path

from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run, Trial
from pytest_llmeval.runs.json_lines import (
    Line,
    Malformed,
    as_count,
    as_text,
    dump_line,
    need,
    parse_line,
    table,
)
from pytest_llmeval.runs.run_lines import (
    SCHEMA,
    NewerSchema,
    RunHeader,
    header_line,
    read_header,
    read_trial,
    trial_line,
)

# A run file comes from anywhere, and a kilobyte of gzip unpacks to a megabyte: 500 cases
# with 10 repeats are some 2 MiB. The longest line is the first, about 100 bytes a case.
LARGEST = 2**30
LONGEST_LINE = 2**26

_AGAIN = "Record the run again (pytest), or name another one with --llm-baseline."


def write_run(run: Run, path: Path) -> None:
    """Write a run file; equal runs are equal bytes.

    The file appears under its name whole and durable, or not at all.

    Args:
        run: case ids differ, trials are of its cases and in their order.
        path: where to; missing folders are made.

    Raises:
        ValueError: the run could not be read back: a number is not finite, or it is
            not as ``records.Run`` says.
        OSError: the file cannot be written.
    """
    lines = _encode(run)
    _decode(io.BytesIO(lines))  # nothing is written that could not be read
    packed = io.BytesIO()
    # No name and no time in the gzip header.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        file.write(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, packed.getvalue())


def _encode(run: Run) -> bytes:
    functions = {case.id: case.function for case in run.cases}
    lines = [dump_line(header_line(run))]
    for trial in run.trials:
        # An unlisted case has no function; reading back refuses it.
        lines.append(dump_line(trial_line(trial, function=functions.get(trial.case, ""))))
    everything = b"".join(lines)
    digest = hashlib.sha256(everything).hexdigest()
    return everything + dump_line({"counts": _counts(run), "sha256": digest})


def _counts(run: Run) -> dict[str, int]:
    return {
        "cases": len(run.cases),
        "trials": len(run.trials),
        "calls": sum(len(trial.calls) for trial in run.trials),
    }


def write_durably(path: Path, data: bytes) -> None:
    """Let a file appear under its name whole and durable, or not at all.

    Raises:
        OSError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_run(path: Path) -> Run:
    """Read a run file and check it to the last byte.

    Raises:
        BaselineUnreadable: it cannot be opened, or is not, or no longer, what
            ``write_run`` wrote.
    """
    with _opened(path) as file:
        return _decode(file)


def read_run_header(path: Path) -> RunHeader:
    """Read the first line of a run file; what follows is not looked at.

    Raises:
        BaselineUnreadable: it cannot be opened, or its first line is no header.
    """
    with _opened(path) as file:
        header, _ = _header(_lines(file))
    return header


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    with faults_explained(path), gzip.open(path) as file:
        yield file


@contextmanager
def faults_explained(path: Path) -> Iterator[None]:
    """Turn every fault of a run file into a ``BaselineUnreadable`` of one sentence."""
    try:
        yield
    except NewerSchema as exc:
        raise BaselineUnreadable(
            f"{path} was recorded by a newer version: {exc}, this one reads up to {SCHEMA}. "
            "Upgrade: pip install --upgrade pytest-llm-baseline"
        ) from exc
    except (Malformed, gzip.BadGzipFile, zlib.error) as exc:
        raise BaselineUnreadable(f"{path} is damaged or no run file: {exc}. {_AGAIN}") from exc
    except EOFError as exc:
        raise BaselineUnreadable(f"{path} is cut off before its end. {_AGAIN}") from exc
    except OSError as exc:
        raise BaselineUnreadable(f"{path} cannot be read: {exc.strerror or exc}. {_AGAIN}") from exc


def _lines(file: BufferedIOBase) -> Iterator[bytes]:
    left = LARGEST
    while line := file.readline(LONGEST_LINE + 1):
        left -= len(line)
        if left < 0 or len(line) > LONGEST_LINE:
            raise Malformed(f"unpacks to more than {LARGEST} bytes, or {LONGEST_LINE} in a line")
        yield line


def _header(lines: Iterator[bytes]) -> tuple[RunHeader, bytes]:
    line = next(lines, b"")
    with _numbered(1):
        return read_header(parse_line(line)), line


def _decode(file: BufferedIOBase) -> Run:
    lines = _lines(file)
    header, line = _header(lines)
    functions = {case.id: case.function for case in header.run.cases}
    digest = hashlib.sha256(line)
    trials: list[Trial] = []
    line = next(lines, b"")
    for following in lines:
        with _numbered(len(trials) + 2):
            trials.append(read_trial(parse_line(line), functions=functions))
        digest.update(line)
        line = following
    run = replace(header.run, trials=tuple(trials))
    with _numbered(len(trials) + 2):
        _check_end(parse_line(line), run=run, digest=digest.hexdigest())
    _check_order(run, announced=header.trials)
    return run


@contextmanager
def _numbered(number: int) -> Iterator[None]:
    try:
        yield
    except Malformed as exc:
        raise type(exc)(f"line {number}: {exc}") from exc


def _check_end(line: Line, *, run: Run, digest: str) -> None:
    if "sha256" not in line:
        raise Malformed("the closing line is missing")
    if need(line, "sha256", as_text) != digest:
        raise Malformed("the sha256 is not that of the lines before: they were changed")
    counts = need(line, "counts", table(as_count))
    if counts | _counts(run) != counts:
        raise Malformed("the counts are not those of the lines before")


def _check_order(run: Run, *, announced: int) -> None:
    places = {case.id: place for place, case in enumerate(run.cases)}
    if len(places) < len(run.cases):
        raise Malformed("two cases have the same id")
    if len(run.trials) != announced:
        raise Malformed(f"{len(run.trials)} trials, but the first line says {announced}")
    order = [(places[trial.case], trial.index) for trial in run.trials]
    if any(later <= earlier for earlier, later in itertools.pairwise(order)):
        raise Malformed("the trials are not in the order of the cases, or one is there twice")
