"""Sentences of `llmeval cache`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pytest_llmeval.cache.contents import Contents, Pruning
from pytest_llmeval.cache.transfer import Exported, Merging
from pytest_llmeval.records import Call
from pytest_llmeval.reports.formats import aligned, counted

_UNITS = ("KiB", "MiB", "GiB", "TiB")
_STEP = 1024


def contents(found: Contents, folder: Path) -> Iterator[str]:
    """Say what is in a cache."""
    older = found.places.total() - len(found.places)
    yield f"{folder}: {size(found.size)}"
    yield (
        f"{counted(len(found.requests), 'request')}, {counted(len(found.places), 'draw')} to "
        f"replay, {counted(older, 'older generation')}, {counted(found.spares, 'spare')}"
    )
    if found.oldest:
        yield f"paid for from {found.oldest} to {found.newest}"
    if found.refused:
        yield (
            f"{counted(found.refused, 'row')} were not written by this plugin and count as "
            "missing; see SECURITY.md"
        )
    rows = [
        (model, host, str(replies), size(found.sizes[model, host]))
        for (model, host), replies in sorted(found.replies.items())
    ]
    yield from aligned([("model", "host", "replies", "size"), *rows], left=range(2)) if rows else []


def pruning(planned: Pruning, *, before: str) -> Iterator[str]:
    """Say what would be deleted."""
    yield (
        f"paid for before {before} and needed by no run that is kept: "
        f"{_replies(planned.replies)}, {size(planned.size)}; "
        f"{counted(planned.requests, 'request')} would have none left"
    )
    yield f"{_replies(planned.left)} stay, {planned.spared} of them as old but needed"


def exported(done: Exported, path: Path) -> str:
    """Say what was written."""
    text = f"{path}: {_replies(done.draws)} of {counted(done.requests, 'request')}"
    if not done.left_out:
        return text
    return f"{text}; {counted(done.left_out, 'row')} that this plugin did not write left out"


def merged(done: Merging, path: Path) -> str:
    """Say what was taken in."""
    return (
        f"{path}: {done.new} new, {done.known} here already, {done.spare} kept as spare "
        "(their slots have other draws, which stay)"
    )


def explanation(calls: Iterable[tuple[Call, str]]) -> Iterator[str]:
    """Say what became of each call, equal causes together."""
    causes: dict[tuple[str, str], list[str]] = {}
    for call, cause in calls:
        causes.setdefault((call.key, cause), []).append(str(call.slot))
    for (key, cause), slots in causes.items():
        yield f"request {key[:12]}  {counted(len(slots), 'draw')} {', '.join(slots)}"
        yield f"  {cause}"


def size(number: int) -> str:
    """Write a number of bytes."""
    if number < _STEP:
        return f"{number} B"
    value, power = number / _STEP, 0
    while value >= _STEP and power < len(_UNITS) - 1:
        value, power = value / _STEP, power + 1
    return f"{value:.1f} {_UNITS[power]}"


def _replies(count: int) -> str:
    return counted(count, "reply", "replies")
