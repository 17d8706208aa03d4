"""Transcripts of trials: requests and replies in order, as far as the cache here has them.

Of the cases that moved most there is an excerpt: one line of a reply of each side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from pytest_llmeval.cache.directory import refuse_link
from pytest_llmeval.cache.parameters import Parameters, parameters_name, read_parameters
from pytest_llmeval.cache.queries import DATABASE, RowReader
from pytest_llmeval.cache.reply import StoredReply, decode_or_none
from pytest_llmeval.cache.requests import row_name, unpack_request
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.records import Better, Call, Run, Trial, trials_by_case
from pytest_llmeval.transcripts.messages import ASSISTANT, Asked, Message, read_reply, read_request
from pytest_llmeval.transcripts.word_diff import first_difference

_NOT_HERE = (Message("request", "not here", "missing"),)
LONGEST = 300  # characters
_LEAD = 60  # of these before the place where the sides part
_LOOKED_THROUGH = 20_000

Sides = tuple[str | None, str | None]  # of the baseline, and of the current run


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
        stored = self._stored(call)
        return None if stored is None else read_reply(stored)

    def has(self, call: Call) -> bool:
        """Tell whether the very draw that a call was given is here."""
        return self._stored(call) is not None

    def _stored(self, call: Call) -> StoredReply | None:
        if self._rows is None or call.draw is None:
            return None
        values = self._rows.below(f"{call.key}/{call.slot}/")
        replies = filter(None, map(decode_or_none, values))
        return next((reply for reply in replies if reply.draw == call.draw), None)

    def parameters(self, digest: str | None) -> Parameters | None:
        """Read the parameters of a case."""
        if self._rows is None or digest is None:
            return None
        return read_parameters(self._rows.get(parameters_name(digest)))

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


def first_asked(found: Iterable[Transcript]) -> Asked | None:
    """Return the first request that is here."""
    return next((one.asked for one in found if one.asked), None)


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


class Moved(NamedTuple):
    """A case that fell or rose on a metric, in whose scores ``better`` is good."""

    case: str
    metric: str
    better: Better
    has_fallen: bool


def excerpts(
    baseline: Run, current: Run, moved: Collection[Moved], stored: StoredTexts
) -> dict[str, Sides]:
    """Pick from each case the line by which its sides part, out of the trials that tell most.

    For a case that fell that is the best trial of the baseline and the worst one of the current
    run; for one that rose it is the other way round. A side whose reply is not here is None.
    """
    cases = {one.case for one in moved}
    before, after = (trials_by_case(run, cases) for run in (baseline, current))
    found: dict[str, Sides] = {}
    for case, metric, better, has_fallen in moved:
        if case not in found:
            falls = has_fallen == (better == "higher")  # in numbers
            first = _extreme(before[case], metric, highest=falls)
            second = _extreme(after[case], metric, highest=not falls)
            found[case] = _excerpt(_lines(first, stored), _lines(second, stored))
    return found


def _extreme(trials: Sequence[Trial], metric: str, *, highest: bool) -> Trial | None:
    """Return the first scored trial with the highest, or the lowest, score; None without any."""
    sign = -1 if highest else 1
    scored = (trial for trial in trials if trial.outcome.is_scored)
    return min(scored, key=lambda trial: sign * trial.scores.get(metric, 0.0), default=None)


def _lines(trial: Trial | None, stored: StoredTexts) -> list[str | None]:
    calls = () if trial is None else trial.calls
    return [None if reply is None else _one_line(reply) for reply in map(stored.reply, calls)]


def _one_line(messages: Sequence[Message]) -> str:
    """Write what a reply says first in one line, whatever it holds; a thought only if alone."""
    first = min(messages, key=lambda message: message.kind == "thought")
    return " ".join(first.text[:_LOOKED_THROUGH].split())


def _excerpt(baseline: Sequence[str | None], current: Sequence[str | None]) -> Sides:
    """Return the first replies that are not the same on both sides, or the last ones."""
    for one, other in zip(baseline, current, strict=False):
        if one is not None and other is not None and one != other:
            return _cut(one, other)
    first, second = _last(baseline), _last(current)
    return first and first[:LONGEST], second and second[:LONGEST]


def _cut(one: str, other: str) -> Sides:
    """Cut two lines to what stands around the place from which they differ."""
    place = first_difference(one, other)
    begin = place - _LEAD if place > 2 * _LEAD else 0
    first, second = ("..." * (begin > 0) + line[begin:][:LONGEST] for line in (one, other))
    return first, second


def _last(lines: Sequence[str | None]) -> str | None:
    return next((line for line in reversed(lines) if line is not None), None)
