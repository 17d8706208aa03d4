"""Transcripts of trials: requests and replies in order, as far as the cache here has them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from pytest_llmeval.cache.directory import refuse_link
from pytest_llmeval.cache.queries import RowReader
from pytest_llmeval.cache.reply import decode_or_none
from pytest_llmeval.cache.requests import row_name, unpack_request
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.records import Call, Trial
from pytest_llmeval.transcripts.messages import ASSISTANT, Asked, Message, read_reply, read_request
from pytest_llmeval.transcripts.word_diff import first_difference

DATABASE = "cache.db"
_NOT_HERE = (Message("request", "not here", "missing"),)


class StoredTexts:
    """Looks up by key and draw id; what is missing, damaged or foreign is None.

    Args:
        directory: ``.llmeval``; there may be nothing.
    """

    def __init__(self, directory: Path) -> None:
        self._rows: RowReader | None = None
        folder = directory / "cache"
        with suppress(OSError):
            refuse_link(folder)
            if (folder / DATABASE).is_file():
                self._rows = RowReader(folder / DATABASE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._rows is not None:
            self._rows.close()

    def reply(self, call: Call) -> tuple[Message, ...] | None:
        """Read the very draw that a call was given."""
        if self._rows is None or call.draw is None:
            return None
        values = self._rows.below(f"{call.key}/{call.slot}/")
        replies = filter(None, map(decode_or_none, values))
        return next((read_reply(reply) for reply in replies if reply.draw == call.draw), None)

    def request(self, key: str) -> Asked | None:
        """Read the request of a key."""
        value = None if self._rows is None else self._rows.get(row_name(key))
        if not isinstance(value, bytes):
            return None
        try:
            return read_request(unpack_request(value)["request"])
        except RowRefused:
            return None


@dataclass(frozen=True, slots=True)
class Utterance:
    """A message, and the number of the call that asked or answered it, from 1."""

    call: int
    message: Message


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a trial asked and was answered.

    Attributes:
        trial: it.
        asked: its first request; None if that is not here.
        utterances: all that follows: the reply, what later requests have besides, their replies.
        is_here: whether every reply that it got is here.
    """

    trial: Trial
    asked: Asked | None
    utterances: tuple[Utterance, ...]
    is_here: bool

    @property
    def said(self) -> tuple[Message, ...]:
        """What makes two transcripts equal, besides their first requests."""
        return tuple(one.message for one in self.utterances)

    @property
    def draws(self) -> tuple[str | None, ...]:
        """The ids of its draws."""
        return tuple(call.draw for call in self.trial.calls)


def transcripts(trials: Iterable[Trial], stored: StoredTexts) -> tuple[Transcript, ...]:
    """Read the texts of trials, each request once."""
    requests: dict[str, Asked | None] = {}
    return tuple(_transcript(trial, stored, requests) for trial in trials)


def _transcript(trial: Trial, stored: StoredTexts, requests: dict[str, Asked | None]) -> Transcript:
    utterances: list[Utterance] = []
    known: Sequence[Message] = ()  # with which a request repeats what was said before it
    is_here = True
    for number, call in enumerate(trial.calls, start=1):
        if call.key not in requests:
            requests[call.key] = stored.request(call.key)
        asked = requests[call.key]
        messages = () if asked is None else asked.messages
        if number > 1:
            new = _NOT_HERE if asked is None else messages[first_difference(known, messages) :]
            utterances += (Utterance(number, message) for message in new)
        reply = stored.reply(call)
        is_here = is_here and (reply is not None or call.draw is None)
        answer = (_missing(call),) if reply is None else reply
        utterances += (Utterance(number, message) for message in answer)
        # A thought is not sent back to the model.
        known = [one for one in (*messages, *answer) if one.kind != "thought"]
    first = requests[trial.calls[0].key] if trial.calls else None
    return Transcript(trial, first, tuple(utterances), is_here)


def _missing(call: Call) -> Message:
    if call.draw is None:
        why = call.reason or call.failure or "unknown"
        return Message(ASSISTANT, f"no reply: {why}", "missing")
    return Message(ASSISTANT, "the reply is not here", "missing")


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place where two transcripts differ.

    Attributes:
        trial: index of both.
        baseline: the utterance there; None where that side has ended. ``current`` likewise.
    """

    trial: int
    baseline: Utterance | None
    current: Utterance | None


def parting(baseline: Sequence[Transcript], current: Sequence[Transcript]) -> Parting | None:
    """Find where the two sides of a case part, in the first trial that differs; None if nowhere.

    Trials of which a reply is not here tell nothing.
    """
    others = {one.trial.index: one for one in current}
    for one in baseline:
        other = others.get(one.trial.index)
        if other is None or one.said == other.said or not (one.is_here and other.is_here):
            continue
        place = first_difference(one.said, other.said)
        utterances = (next(iter(side.utterances[place:]), None) for side in (one, other))
        return Parting(one.trial.index, *utterances)
    return None
