"""Run files: gzip JSONL, written completely or not at all, and checked when they are read."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import secrets
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from io import BufferedIOBase
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pytest_llmeval.cache.directory import open_plain
from pytest_llmeval.errors import BaselineUnreadable
from pytest_llmeval.records import Run, Trial
from pytest_llmeval.runs import run_lines

# A run file comes from anywhere, and a kilobyte of gzip unpacks to a megabyte: 500 cases
# with 10 repeats are some 2 MiB. The longest line is the first, about 100 bytes a case.
LARGEST = 2**30
LONGEST_LINE = 2**26


class RunLines(NamedTuple):
    """A run file in memory.

    Attributes:
        header: its first line.
        trials: the lines of its trials.
        counts: how many ``cases``, ``trials`` and ``calls`` it has by its last line.
    """

    header: run_lines.RunHeader
    trials: list[bytes]
    counts: dict[str, int]


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
    functions = {case.id: case.function for case in run.cases}
    lines = [run_lines.header_line(run)]
    # An unlisted case has no function; reading back refuses it.
    lines += [run_lines.trial_line(one, function=functions.get(one.case, "")) for one in run.trials]
    digest = hashlib.sha256(b"".join(lines)).hexdigest()
    lines.append(run_lines.dump_line({"counts": _counts(run), "sha256": digest}))
    _run_of(_taken_apart(_bounded(lines)))  # nothing is kept that could not be read
    packed = io.BytesIO()
    # No name and no time in the gzip header.
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as file:
        file.writelines(lines)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_durably(path, packed.getvalue())


def _counts(run: Run) -> dict[str, int]:
    calls = sum(len(trial.calls) for trial in run.trials)
    return {"cases": len(run.cases), "trials": len(run.trials), "calls": calls}


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
        BaselineUnreadable: it cannot be opened, or its content is not what ``write_run`` wrote.
    """
    with faults_explained(path):
        return _run_of(read_run_lines(path))


def read_run_lines(path: Path) -> RunLines:
    """Read a run file without making records of its trials; its bytes are checked.

    Raises:
        BaselineUnreadable: as ``read_run``, but for the lines of trials.
    """
    with _opened(path) as file:
        return _taken_apart(_lines(file))


def read_run_header(path: Path) -> run_lines.RunHeader:
    """Read the first line of a run file, and no other line.

    Raises:
        BaselineUnreadable: it cannot be opened, or its first line is no header.
    """
    with _opened(path) as file, _at_line(1):
        return run_lines.read_header(next(_lines(file), b""))


@contextmanager
def _opened(path: Path) -> Iterator[BufferedIOBase]:
    """Open a run file, and turn every fault of it into a ``BaselineUnreadable``."""
    with faults_explained(path), open_plain(path) as plain, gzip.GzipFile(fileobj=plain) as file:
        yield file


@contextmanager
def faults_explained(path: Path) -> Iterator[None]:
    """Turn every fault of a run file into a ``BaselineUnreadable`` of one sentence."""
    try:
        yield
    except run_lines.NewerSchema as exc:
        raise BaselineUnreadable(
            path,
            f"was recorded by a newer version: {exc}, this one reads up to {run_lines.SCHEMA}",
            todo="Upgrade: pip install --upgrade pytest-llm-baseline",
        ) from exc
    except (run_lines.Malformed, gzip.BadGzipFile, zlib.error) as exc:
        raise BaselineUnreadable(path, f"is damaged or no run file: {exc}") from exc
    except EOFError as exc:
        raise BaselineUnreadable(path, "is cut off before its end") from exc
    except OSError as exc:
        raise BaselineUnreadable(path, f"cannot be read: {exc.strerror or exc}") from exc


def _lines(file: BufferedIOBase) -> Iterator[bytes]:
    return _bounded(iter(partial(file.readline, LONGEST_LINE + 1), b""))


def _bounded(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Yield lines as long as their length and number stay within bounds."""
    left = LARGEST
    for line in lines:
        left -= len(line)
        if left < 0 or len(line) > LONGEST_LINE:
            raise run_lines.Malformed(
                f"unpacks to more than {LARGEST} bytes, or {LONGEST_LINE} in a line"
            )
        yield line


@contextmanager
def _at_line(number: int) -> Iterator[None]:
    """Name the line in an error."""
    try:
        yield
    except run_lines.Malformed as exc:
        raise type(exc)(f"line {number}: {exc}") from exc


def _taken_apart(lines: Iterable[bytes]) -> RunLines:
    """Read the first line and the last one, and check that nothing between them was changed."""
    first, *trials = [*lines] or [b""]
    end = trials.pop() if trials else b""
    with _at_line(1):
        header = run_lines.read_header(first)
    digest = hashlib.sha256(b"".join((first, *trials))).hexdigest()
    with _at_line(len(trials) + 2):
        closing: run_lines.EndLine = run_lines.read_line(end, run_lines.EndLine)
    if "sha256" not in closing:
        raise run_lines.Malformed("the closing line is missing")
    if closing["sha256"] != digest:
        raise run_lines.Malformed("the sha256 does not fit the lines before: they were changed")
    if len(trials) != header.trials:
        raise run_lines.Malformed(f"{len(trials)} trials, but the first line says {header.trials}")
    return RunLines(header, trials, closing.get("counts", {}))


def _run_of(lines: RunLines) -> Run:
    """Make the records of all trials, and check them."""
    run = lines.header.run
    functions = {case.id: case.function for case in run.cases}
    trials: list[Trial] = []
    try:
        for line in lines.trials:
            trials.append(run_lines.read_trial(line, functions=functions))
    except run_lines.Malformed as exc:
        raise run_lines.Malformed(f"line {len(trials) + 2}: {exc}") from exc
    run = replace(run, trials=tuple(trials))
    if lines.counts | _counts(run) != lines.counts:
        raise run_lines.Malformed("the counts of the last line are not those of the lines before")
    if len(functions) < len(run.cases):
        raise run_lines.Malformed("two cases have the same id")
    places = {case: place for place, case in enumerate(functions)}
    order = [(places[trial.case], trial.index) for trial in trials]
    if any(latest >= place for latest, place in pairwise(order)):
        raise run_lines.Malformed(
            "the trials are not in the order of the cases, or one is there twice"
        )
    return run
