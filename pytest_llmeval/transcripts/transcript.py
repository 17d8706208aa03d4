"""Transcripts of trials: requests and replies in order, as far as the cache here has these.

The cases that moved most have an excerpt: one line of a reply of each side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

from pytest_llmeval.cache.case_parameters import Parameters, parameters_name, read_parameters
from pytest_llmeval.cache.directory import refuse_link
from pytest_llmeval.cache.queries import DATABASE, RowReader
from pytest_llmeval.cache.reply import StoredReply, decode_or_none
from pytest_llmeval.cache.requests import Parts, row_name, unpack_request
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.models.message import ASSISTANT, Message
from pytest_llmeval.records import Better, Call, Run, Trial, first_failed, trials_by_case
from pytest_llmeval.transcripts import word_diff
from pytest_llmeval.transcripts.call_texts import CallTexts, Pair, in_order, judged_last, pairs
from pytest_llmeval.transcripts.messages import Asked, dialect_of, read_reply, read_request

LONGEST = 300  # characters
_LEAD = 60  # of these before the place where the sides part
_LOOKED_THROUGH = 20_000

Sides = tuple[str | None, str | None]  # of the baseline, and of the current run


class StoredTexts:
    """Looks texts up by key and draw id; a missing, damaged or foreign one is None.

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
        if stored is None:
            return None
        named = {"provider": (call.model or "").partition("/")[0]}
        return read_reply(stored, dialect_of(self._parts(call.key) or named))

    def has(self, call: Call) -> bool:
        """Tell whether the very draw that a call was given is here."""
        return self._stored(call) is not None

    def _stored(self, call: Call) -> StoredReply | None:
        if self._rows is None or call.draw is None:
            return None
        values = (row.value for row in self._rows.below(f"{call.key}/{call.slot}/"))
        replies = filter(None, map(decode_or_none, values))
        return next((reply for reply in replies if reply.draw == call.draw), None)

    def parameters(self, digest: str | None) -> Parameters | None:
        """Read the parameters of a case."""
        if self._rows is None or digest is None:
            return None
        return read_parameters(self._rows.find(parameters_name(digest))[0])

    def request(self, key: str) -> Asked | None:
        """Read the request of a key."""
        parts = self._parts(key)
        return None if parts is None else read_request(parts)

    def _parts(self, key: str) -> Parts | None:
        value = None if self._rows is None else self._rows.find(row_name(key))[0]
        if not isinstance(value, bytes):
            return None
        try:
            parts: Parts = unpack_request(value)["request"]
        except RowRefused:
            return None
        return parts


@dataclass(frozen=True, slots=True)
class Utterance:
    """A message, and the number of the call that asked or answered it, from 1."""

    call: int
    message: Message


@dataclass(frozen=True, slots=True)
class Transcript:
    """The requests and replies of a trial.

    Attributes:
        trial: it.
        calls: its calls. Where several were open at once their order is the same in each
            trial of the case, whichever was answered first.
    """

    trial: Trial
    calls: tuple[CallTexts, ...]

    @property
    def asked(self) -> Asked | None:
        """Its first request; None if the cache does not have it."""
        return self.calls[0].asked if self.calls else None

    @property
    def is_here(self) -> bool:
        """Whether every reply that it got is here."""
        return all(one.is_here for one in self.calls)

    @property
    def utterances(self) -> tuple[Utterance, ...]:
        """The texts behind the first request: replies, and new messages of later requests."""
        return tuple(
            Utterance(number, message)
            for number, one in enumerate(self.calls, start=1)
            for message in (*(one.begins if number > 1 else ()), *one.said)
        )

    @property
    def said(self) -> tuple[Message, ...]:
        """The parts by which transcripts are compared: all but new conversations' requests."""
        return tuple(message for one in self.calls for message in one.said)

    @property
    def draws(self) -> tuple[str, ...]:
        """The ids of its draws, sorted; "" for a call without a draw."""
        return tuple(sorted(call.draw or "" for call in self.trial.calls))


def transcripts(stored: StoredTexts, *sides: Iterable[Trial]) -> tuple[tuple[Transcript, ...], ...]:
    """Read the texts of the trials of a case, on one side or on both; each request once."""
    requests: dict[str, Asked | None] = {}
    first: tuple[CallTexts, ...] = ()  # the trial whose order all others get
    found = []
    for trials in sides:
        of_side = []
        for trial in trials:
            read = [_call_texts(call, stored, requests) for call in trial.calls]
            calls = in_order(read, like=first)
            first = first or calls
            of_side.append(Transcript(trial, calls))
        found.append(tuple(of_side))
    return tuple(found)


def first_asked(found: Iterable[Transcript]) -> Asked | None:
    """Return the first request that is here."""
    return next((one.asked for one in found if one.asked), None)


def _call_texts(call: Call, stored: StoredTexts, requests: dict[str, Asked | None]) -> CallTexts:
    if call.key not in requests:
        requests[call.key] = stored.request(call.key)
    reply = stored.reply(call)
    if reply is not None:
        return CallTexts(call, requests[call.key], reply, is_here=True)
    was_lost = call.draw is None
    why = f"no reply: {call.reason or 'unknown'}" if was_lost else "the reply is not here"
    missing = Message(ASSISTANT, why, "missing")
    return CallTexts(call, requests[call.key], (missing,), is_here=was_lost)


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place where two transcripts differ.

    Attributes:
        trial: index of both.
        baseline: the utterance in the baseline; None if this side has no more. ``current``
            likewise.
        goes_on: the side that has no more made other calls after that.
    """

    trial: int
    baseline: Utterance | None
    current: Utterance | None
    goes_on: bool = False


def parting(baseline: Sequence[Transcript], current: Sequence[Transcript]) -> Parting | None:
    """Find the first difference of a case, in the first trial that differs; None if there is none.

    A trial without all its replies here is left out.
    """
    for one, other in _same_trials(baseline, current):
        if not (one.is_here and other.is_here):
            continue
        both = pairs(one.calls, other.calls)
        for at, pair in enumerate(both):
            told = _told(one, pair[0], pair), _told(other, pair[1], pair)
            said = [[utterance.message for utterance in side] for side in told]
            if said[0] != said[1]:
                place = word_diff.first_difference(*said)
                first, second = (next(iter(side[place:]), None) for side in told)
                goes_on = None in pair and any(None not in later for later in both[at:])
                return Parting(one.trial.index, first, second, goes_on)
    return None


def _told(of: Transcript, one: CallTexts | None, pair: Pair) -> list[Utterance]:
    """List the new messages of a call, with its request if the other side lacks the call."""
    if one is None:
        return []
    number = of.calls.index(one) + 1
    asked = one.begins if None in pair and number > 1 else ()
    return [Utterance(number, message) for message in (*asked, *one.said)]


def _same_trials(
    baseline: Iterable[Transcript], current: Iterable[Transcript]
) -> list[tuple[Transcript, Transcript]]:
    others = {one.trial.index: one for one in current}
    return [(one, others[one.trial.index]) for one in baseline if one.trial.index in others]


@dataclass(frozen=True, slots=True)
class ChangedRequest:
    """A request that the two sides put otherwise; ``call`` is its number in the current trial."""

    call: int
    diff: tuple[word_diff.MessageDiff, ...]


def changed_requests(
    baseline: Sequence[Transcript], current: Sequence[Transcript]
) -> tuple[ChangedRequest, ...] | None:
    """Compare the requests of the two sides of a case, by the trial that shows most.

    A request that goes on with a conversation, or follows a reply that differs, is left out: it may
    differ for this reason alone.

    Returns:
        None where the requests of one side are not here.
    """
    tried = (_changed(one, other) for one, other in _same_trials(baseline, current))
    return max((found for found in tried if found is not None), key=len, default=None)


def _changed(baseline: Transcript, current: Transcript) -> tuple[ChangedRequest, ...] | None:
    answered_otherwise: list[Call] = []
    found, is_here = list[ChangedRequest](), False
    for old, new in pairs(baseline.calls, current.calls):
        if old is None or new is None:
            continue
        if old.asked and new.asked:
            is_here = True
            begins = old.known is None and new.known is None
            if begins and all(map(new.call.is_beside, answered_otherwise)):
                diff = word_diff.request_diff(old.asked, new.asked)
                if any(message.edit for message in diff):
                    found.append(ChangedRequest(current.calls.index(new) + 1, diff))
        if old.answer != new.answer:
            answered_otherwise.append(new.call)
    return tuple(found) if is_here else None


def edits_of(changed: Iterable[ChangedRequest]) -> tuple[tuple[str, ...], ...]:
    """Return the changed parts of requests, to be compared with the edits of other cases."""
    parts = (part for one in changed for part in one.diff if part.edit)
    return tuple(sorted({(part.role, *part.edit) for part in parts}))


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

    For a case that fell, this is the best trial of the baseline, and the trial of the current run
    whose failure is shown. For a case that rose, it is the worst trial of the baseline and the best
    one of this run. A side whose reply is not here is None.
    """
    cases = {one.case for one in moved}
    before, after = (trials_by_case(run, cases) for run in (baseline, current))
    found: dict[str, Sides] = {}
    for case, metric, better, has_fallen in moved:
        if case not in found:
            falls = has_fallen == (better == "higher")  # in numbers
            first = _extreme(before[case], metric, highest=falls)
            second = _extreme(after[case], metric, highest=not falls)
            if has_fallen:
                second = first_failed(after[case]) or second
            sides = transcripts(stored, filter(None, [first]), filter(None, [second]))
            found[case] = _excerpt(*(side[0].calls if side else () for side in sides))
    return found


def _extreme(trials: Sequence[Trial], metric: str, *, highest: bool) -> Trial | None:
    """Return the first scored trial with the highest, or the lowest, score; None without any."""
    sign = -1 if highest else 1
    scored = (trial for trial in trials if trial.outcome.is_scored)
    return min(scored, key=lambda trial: sign * trial.scores.get(metric, 0.0), default=None)


def _line_of(one: CallTexts | None) -> str | None:
    """Write the beginning of a reply in one printable line; a thought only if it is alone."""
    if one is None or not one.is_here or not one.was_answered:
        return None
    first = min(one.answer, key=lambda message: message.kind == "thought")
    return " ".join(first.text[:_LOOKED_THROUGH].split())


def _excerpt(baseline: Sequence[CallTexts], current: Sequence[CallTexts]) -> Sides:
    """Return the replies that were judged last, or for each the first earlier one that differs.

    Of several calls that were open at once, the different replies are shown, or all if none
    differs.
    """
    partners = {id(new): old for old, new in pairs(baseline, current) if new is not None}
    shown: list[tuple[str | None, str | None]] = []
    for chain in judged_last(current):
        lines = [(_line_of(partners.get(id(one))), _line_of(one)) for one in chain]
        parting = (pair for pair in lines if None not in pair and pair[0] != pair[1])
        shown.append(next(parting, lines[-1]))
    shown = [pair for pair in shown if pair[0] != pair[1]] or shown
    old, new = (_joined(pair[side] for pair in shown) for side in (0, 1))
    if old is None:  # the other side has no similar call
        old = _joined(_line_of(chain[-1]) for chain in judged_last(baseline))
    return _cut(old, new)


def _joined(lines: Iterable[str | None]) -> str | None:
    told = [line for line in lines if line is not None]
    return " | ".join(told) if told else None


def _cut(one: str | None, other: str | None) -> Sides:
    """Cut two lines to the words around their first difference."""
    place = word_diff.first_difference(one or "", other or "")
    begin = place - _LEAD if place > 2 * _LEAD and one != other else 0
    first, second = (line and "..." * (begin > 0) + line[begin:][:LONGEST] for line in (one, other))
    return first, second
