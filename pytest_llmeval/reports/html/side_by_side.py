"""Replies of a case in both runs, trial by trial, equal ones once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from pytest_llmeval.judgement import Judgement
from pytest_llmeval.models.message import Message
from pytest_llmeval.records import Trial, first_failed
from pytest_llmeval.reports.entries import first_failure, trials_of_both
from pytest_llmeval.reports.notation import outcome_and_score
from pytest_llmeval.transcripts.call_texts import CallTexts, pairs
from pytest_llmeval.transcripts.transcript import (
    StoredTexts,
    Transcript,
    changed_requests,
    first_asked,
    transcripts,
)
from pytest_llmeval.transcripts.word_diff import MessageDiff, Piece, request_diff, word_diff

_LEAST_SECONDS = 0.05  # that are told
_LONGEST_ASKED = 500
_LONGEST = 6000  # characters of one text

Transcripts = Sequence[Transcript]  # of the trials of a case, on one side


class ShownMessage(NamedTuple):
    """A message of a reply.

    Attributes:
        label: who said or called it.
        pieces: its text; a piece that the other side lacks is marked.
        parts: this message is the first one in which the sides differ.
    """

    label: str
    pieces: tuple[Piece, ...]
    parts: bool


class ShownSide(NamedTuple):
    """The trials of one side that were answered alike.

    Attributes:
        ended: how they ended, with their scores.
        failures: why they failed; each once.
        cost: their mean tokens and seconds, "" where there was no call.
        messages: what was answered, in order.
    """

    ended: str
    failures: list[str]
    cost: str
    messages: list[ShownMessage]


class ShownDraws(NamedTuple):
    """Trials with the same answers on each side.

    Attributes:
        trials: their indices.
        before: of the baseline; None where it has no such trial. ``after`` likewise.
        are_replayed: they are the baseline's very draws.
    """

    trials: list[int]
    before: ShownSide | None
    after: ShownSide | None
    are_replayed: bool


class ShownReplies(NamedTuple):
    """The replies of a case.

    Attributes:
        name: of the case.
        asked: the last message of its request.
        failure: the first line of the first failure.
        draws: those that this run has first, the most frequent ones first.
        request: what was asked, a message each; what changed in it is marked.
    """

    name: str
    asked: str
    failure: str
    draws: list[ShownDraws]
    request: tuple[MessageDiff, ...]


def read_replies(
    judgement: Judgement, cases: Sequence[tuple[str, str, str]]
) -> Iterator[ShownReplies]:
    """Read what cases asked and were answered, one after the other, from the cache here.

    Args:
        judgement: with the run, and the baseline if there is one.
        cases: the id of each, what it is called, and the metric whose scores are told.
    """
    before, after = trials_of_both(judgement, {case for case, _, _ in cases})
    with StoredTexts(judgement.settings.directory) as stored:
        for case, name, metric in cases:
            old, new = transcripts(stored, before[case], after[case])
            asked, failure = first_asked((*new, *old)), first_failure(judgement, case, after[case])
            is_told = failure in {trial.message for trial in after[case]}  # by a draw
            changed = changed_requests(old, new) or ()
            request = tuple(message for one in changed for message in one.diff)
            if asked is not None and not request:
                request = request_diff(asked, asked)
            text = asked.messages[-1].text if asked and asked.messages else ""
            ellipsis = "\N{HORIZONTAL ELLIPSIS}" if len(text) > _LONGEST_ASKED else ""
            yield ShownReplies(
                name=name,
                asked=text[:_LONGEST_ASKED] + ellipsis,
                failure="" if is_told else failure,
                draws=list(_draws(old, new, metric)),
                request=request,
            )


def _draws(before: Transcripts, after: Transcripts, metric: str) -> Iterator[ShownDraws]:
    """Group the trials of a case by what was answered on both sides."""
    sides = [{one.trial.index: one for one in side} for side in (before, after)]
    groups: dict[object, list[int]] = {}
    for index in sorted({*sides[0], *sides[1]}):
        pair = [side.get(index) for side in sides]
        groups.setdefault(tuple(one and (one.said, one.is_here) for one in pair), []).append(index)
    told = first_failed(one.trial for one in after)  # its failure stands above all replies

    def order(indices: list[int]) -> tuple[bool, bool, int]:
        is_told = told is not None and told.index in indices
        return indices[0] not in sides[1], not is_told, -len(indices)

    for indices in sorted(groups.values(), key=order):
        old, new = ([side[at] for at in indices if at in side] for side in sides)
        draws = [[one.draws for one in side] for side in (old, new)]
        replayed = bool(old) and draws[0] == draws[1] and all(map(any, draws[0]))
        texts = _messages(old[0] if old else None, new[0] if new else None)
        was = _side(old, texts[0], metric) if old else None
        now = _side(new, texts[1], metric) if new else None
        yield ShownDraws(indices, was, now, are_replayed=replayed)


def _side(found: Transcripts, messages: list[ShownMessage], metric: str) -> ShownSide:
    trials = [one.trial for one in found]
    ended = Counter(outcome_and_score(trial, metric) for trial in trials)
    times = ((how, f" \N{MULTIPLICATION SIGN}{n}" if n > 1 else "") for how, n in ended.items())
    return ShownSide(
        ended=", ".join(map("".join, times)),
        failures=list(dict.fromkeys(trial.message for trial in trials if trial.message)),
        cost=_cost(trials),
        messages=messages,
    )


def _cost(trials: Sequence[Trial]) -> str:
    calls = [call for trial in trials for call in trial.calls]
    counts = ((call.usage.input_tokens, call.usage.output_tokens) for call in calls)
    tokens = sum((read or 0) + (written or 0) for read, written in counts)
    seconds = sum(call.seconds or 0.0 for call in calls)
    told = [f"{tokens / len(trials):.0f} tokens"] if tokens else []
    told += [f"{seconds / len(trials):.1f} s"] if seconds >= _LEAST_SECONDS * len(trials) else []
    return ", ".join(told)


def _messages(
    before: Transcript | None, after: Transcript | None
) -> tuple[list[ShownMessage], list[ShownMessage]]:
    """Mark in the messages of each side the words that the other side lacks."""
    shown: tuple[list[ShownMessage], list[ShownMessage]] = ([], [])
    has_parted = before is None or after is None  # without the other side nothing differs
    calls = (() if one is None else one.calls for one in (before, after))
    for old, new, is_said in _message_pairs(*calls):
        parts = is_said and old != new and not has_parted
        has_parted |= parts
        is_pair = old and new and old.label == new.label and old != new
        diff = word_diff(old.text, new.text) if old and new and is_pair else None
        for place, message, own in ((0, old, "-"), (1, new, "+")):
            if message is not None:
                pieces = (Piece(" ", message.text),) if diff is None else diff
                kept = _cut(piece for piece in pieces if piece.op in (" ", own))
                shown[place].append(ShownMessage(message.label, kept, parts))
    return shown


def _message_pairs(
    before: Sequence[CallTexts], after: Sequence[CallTexts]
) -> Iterator[tuple[Message | None, Message | None, bool]]:
    """Put the messages of both sides beside each other, call by call, but the first request.

    Yields:
        A message of each side, and whether it is a reply, not a new request.
    """
    for number, pair in enumerate(pairs(before, after)):
        if number:
            begins = (() if one is None else one.begins for one in pair)
            yield from ((old, new, False) for old, new in zip_longest(*begins))
        said = (() if one is None else one.said for one in pair)
        yield from ((old, new, True) for old, new in zip_longest(*said))


def _cut(pieces: Iterable[Piece]) -> tuple[Piece, ...]:
    """Cut pieces to ``_LONGEST`` characters, and add how much is left out."""
    kept, room, left_out = list[Piece](), _LONGEST, 0
    for piece in pieces:
        kept.append(Piece(piece.op, piece.text[:room]))
        left_out += max(0, len(piece.text) - room)
        room = max(0, room - len(piece.text))
    if left_out:
        kept.append(Piece(" ", f" \N{HORIZONTAL ELLIPSIS} ({left_out} more characters)"))
    return tuple(piece for piece in kept if piece.text)
