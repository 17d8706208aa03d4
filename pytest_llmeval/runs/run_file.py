"""Run files: gzip JSONL, written completely or not at all, and checked when they are read."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import secrets
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from itertools import chain
from pathlib import Path

from pytest_llmeval.cache.directory import open_plain
from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run, Trial
from pytest_llmeval.runs.run_lines import (
    SCHEMA,
    EndLine,
    Malformed,
    NewerSchema,
    RunHeader,
    dump_line,
    header_line,
    read_header,
    read_line,
    read_trial,
    trial_line,
)

# A run file comes from anywhere, and a kilobyte of gzip unpacks to a megabyte: 500 cases
# with 10 repeats are some 2 MiB. The longest line is the first, about 100 bytes a case.
LARGEST = 2**30
LONGEST_LINE = 2**26

CHANGED = "the sha256 is not that of the lines before: they were changed"
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
    packed = io.BytesIO()
    # No name and no time in the gzip header.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        lines = _bounded(_written(_encode(run), file))
        for _ in _trials(*_header(lines), lines):
            pass  # nothing is kept that could not be read
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, packed.getvalue())


def _encode(run: Run) -> Iterator[bytes]:
    functions = {case.id: case.function for case in run.cases}
    digest = hashlib.sha256()
    # An unlisted case has no function; reading back refuses it.
    trials = (trial_line(one, function=functions.get(one.case, "")) for one in run.trials)
    for line in chain([header_line(run)], trials):
        digest.update(line)
        yield line
    calls = sum(len(trial.calls) for trial in run.trials)
    counts = _counts(run, trials=len(run.trials), calls=calls)
    yield dump_line({"counts": counts, "sha256": digest.hexdigest()})


def _written(lines: Iterator[bytes], file: BufferedIOBase) -> Iterator[bytes]:
    for line in lines:
        file.write(line)
        yield line


def _counts(run: Run, *, trials: int, calls: int) -> dict[str, int]:
    return {"cases": len(run.cases), "trials": trials, "calls": calls}


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
    with opened_run(path) as file:
        lines = read_lines(file)
        header, line = _header(lines)
        return replace(header.run, trials=tuple(_trials(header, line, lines)))


def read_run_header(path: Path) -> RunHeader:
    """Read the first line of a run file; what follows is not looked at.

    Raises:
        BaselineUnreadable: it cannot be opened, or its first line is no header.
    """
    with opened_run(path) as file:
        header, _ = _header(read_lines(file))
    return header


@contextmanager
def opened_run(path: Path) -> Iterator[BufferedIOBase]:
    """Open a run file, and turn every fault of it into a ``BaselineUnreadable``."""
    with faults_explained(path), open_plain(path) as plain, gzip.GzipFile(fileobj=plain) as file:
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


def read_lines(file: BufferedIOBase) -> Iterator[bytes]:
    """Read the lines of a run file, as long as they and their number stay within bounds."""
    return _bounded(iter(partial(file.readline, LONGEST_LINE + 1), b""))


def _bounded(lines: Iterator[bytes]) -> Iterator[bytes]:
    left = LARGEST
    for line in lines:
        left -= len(line)
        if left < 0 or len(line) > LONGEST_LINE:
            raise _too_large()
        yield line


def _too_large() -> Malformed:
    return Malformed(f"unpacks to more than {LARGEST} bytes, or {LONGEST_LINE} in a line")


def _header(lines: Iterator[bytes]) -> tuple[RunHeader, bytes]:
    line = next(lines, b"")
    try:
        return read_header(line), line
    except Malformed as exc:
        raise type(exc)(f"line 1: {exc}") from exc


def _trials(header: RunHeader, line: bytes, lines: Iterator[bytes]) -> Iterator[Trial]:
    """Read one trial after the other, and check the run to the last byte.

    Args:
        header: the first line.
        line: its bytes.
        lines: that follow it.
    """
    functions = {case.id: case.function for case in header.run.cases}
    places = {case: place for place, case in enumerate(functions)}
    digest = hashlib.sha256(line)
    trials = calls = 0
    latest, in_order = (0, -1), True
    line = next(lines, b"")
    try:
        for following in lines:
            trial = read_trial(line, functions=functions)
            digest.update(line)
            place = places[trial.case], trial.index
            latest, in_order = place, in_order and latest < place
            trials, calls = trials + 1, calls + len(trial.calls)
            yield trial
            line = following
        counts = _counts(header.run, trials=trials, calls=calls)
        check_end(line, counts=counts, digest=digest.hexdigest())
    except Malformed as exc:
        raise type(exc)(f"line {trials + 2}: {exc}") from exc
    _check_order(header, trials=trials, in_order=in_order)


def check_end(data: bytes, *, counts: dict[str, int], digest: str) -> None:
    """Check the closing line of a run file.

    Args:
        data: the line.
        counts: that it must hold.
        digest: of all lines before it.

    Raises:
        Malformed: it does not close these lines.
    """
    line: EndLine = read_line(data, EndLine)
    if "sha256" not in line:
        raise Malformed("the closing line is missing")
    if line["sha256"] != digest:
        raise Malformed(CHANGED)
    told = line.get("counts", {})
    if told | counts != told:
        raise Malformed("the counts are not those of the lines before")


def _check_order(header: RunHeader, *, trials: int, in_order: bool) -> None:
    if len({case.id for case in header.run.cases}) < len(header.run.cases):
        raise Malformed("two cases have the same id")
    if trials != header.trials:
        raise Malformed(f"{trials} trials, but the first line says {header.trials}")
    if not in_order:
        raise Malformed("the trials are not in the order of the cases, or one is there twice")
