"""The course of a trial in the cache: the order in which its calls ended, and how.

A course is kept where calls were open at once or were given up. It holds no reply.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Literal, NamedTuple, NotRequired, TypedDict

import msgspec

from pytest_llmeval.cache.reply import Finite, pack_object, unpack_object
from pytest_llmeval.errors import Lost, RowRefused

SCHEMA = 1
PREFIX = "course/"
SOME_COURSE = f"{PREFIX}any"  # a row that is there where there is any


# As in rows. The first version wrote these words, and one that shares the cache, such as that of
# a baseline which is run here, knows no others: it would ask anew. Any other word is a
# cancelled call.
_WORDS = {
    None: "",
    Lost.OWN_TIMEOUT: "network: timeout of the client",
    Lost.CANCELLED: "CancelledError",
}
_GIVEN_UP = {word: given_up for given_up, word in _WORDS.items()}


class _Course(TypedDict):
    """The line of a row."""

    schema: Literal[1]
    steps: list[tuple[str, str, Finite, Finite, int, str]]
    workers: NotRequired[dict[str, str]]  # the first version has none, and ignores them


_COURSE = msgspec.json.Decoder(_Course)


class TimedCall(NamedTuple):
    """A call of a trial, from the request to when the application had the outcome.

    Attributes:
        draw: id of the draw; a call that was given up has one of its own.
        begun: seconds on a clock of the trial; ``ended`` likewise.
        expired: how many waits with a deadline ran out meanwhile, in other threads and timers.
        given_up: how the application gave the call up, None if it did not.
        worker: which task, thread or work in a pool asked; "" for the code of the trial itself.
    """

    draw: str
    begun: float
    ended: float
    expired: int = 0
    given_up: Lost | None = None
    worker: str = ""


# By place: key and slot, with a ``~`` for each time that the slot was given back before.
Steps = Mapping[str, TimedCall]


def course_name(trial: str) -> str:
    """Return the beginning of the names of a trial's rows; a number follows."""
    return f"{PREFIX}{hashlib.sha256(trial.encode('utf-8', 'replace')).hexdigest()}/"


def encode_course(steps: Steps) -> bytes | None:
    """Write the value of a row; None if it is too long to be read back."""
    rows = [[place, *step[:4], _WORDS[step.given_up]] for place, step in steps.items()]
    workers = {place: step.worker for place, step in steps.items() if step.worker}
    more = {"workers": workers} if workers else {}
    return pack_object({"schema": SCHEMA, "steps": rows, **more})


def decode_course(value: bytes | RowRefused) -> dict[str, TimedCall]:
    """Read what ``encode_course`` wrote.

    Raises:
        RowRefused: it did not write this.
    """
    line: _Course = unpack_object(value, _COURSE)
    worker = line.get("workers", {}).get
    return {
        place: TimedCall(
            draw, begun, ended, expired, _GIVEN_UP.get(how, Lost.CANCELLED), worker(place, "")
        )
        for place, draw, begun, ended, expired, how in line["steps"]
    }
