"""The calls of a trial with their texts, in an order without races, paired with another trial's.

Calls of two trials are a pair if their requests are equal, else if these are the most alike: by
vendor, model, settings, tools and words together, at the same turn of a conversation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from pytest_llmeval.models.message import ASSISTANT, Message
from pytest_llmeval.records import Call
from pytest_llmeval.transcripts.messages import Asked
from pytest_llmeval.transcripts.word_diff import WORDS, first_difference

_NOT_HERE = (Message("request", "not here", "missing"),)
_LOOKED_THROUGH = 2_000  # characters of a request, from each end
_QUOTED = 20  # characters of a reply that no request holds by chance


@dataclass(frozen=True, slots=True)
class CallTexts:
    """A call, with its texts.

    Attributes:
        call: as it was recorded.
        asked: its request; None if the request is not here.
        answer: its reply; if the reply is not here, a message that says so.
        is_here: whether the reply is here, or there was none.
        known: how many of its messages its trial said before; None for a new conversation.
    """

    call: Call
    asked: Asked | None
    answer: tuple[Message, ...]
    is_here: bool
    known: int | None = None

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of its request; none if the request is not here."""
        return () if self.asked is None else self.asked.messages

    @property
    def begins(self) -> tuple[Message, ...]:
        """The messages of its request, if it begins a new conversation."""
        return () if self.known is not None else self.messages or _NOT_HERE

    @property
    def said(self) -> tuple[Message, ...]:
        """The messages that are neither known nor of a new conversation; the reply comes last."""
        new = () if self.known is None else self.messages[self.known :]
        return (*new, *self.answer)

    @property
    def was_answered(self) -> bool:
        """Whether the trial got a reply."""
        return self.call.draw is not None and self.call.failure is None

    def carries(self, earlier: CallTexts) -> bool:
        """Whether its request holds a reply of the trial, like a turn or a judge's question."""
        return any(
            said in self.messages
            or (len(said.text) >= _QUOTED and any(said.text in one.text for one in self.messages))
            for said in earlier.answer
            if said.kind not in ("thought", "missing")
        )


Pair = tuple[CallTexts | None, CallTexts | None]  # of a baseline, and of a current trial


def in_order(calls: Sequence[CallTexts], like: Sequence[CallTexts] = ()) -> tuple[CallTexts, ...]:
    """Sort the calls of a trial; calls that were open at once by their requests, or as another's.

    Args:
        calls: as they were recorded.
        like: the calls of another trial, in order.
    """
    plain = _by_strand(calls, [_content(one) for one in calls])
    places = _places(like, plain) if like else {}
    found: list[CallTexts] = []
    for one in _by_strand(plain, [(places.get(at, len(like)), at) for at in range(len(plain))]):
        found.append(replace(one, known=_known(one, found)))
    return tuple(found)


def _by_strand(calls: Sequence[CallTexts], ranks: Sequence[Any]) -> list[CallTexts]:
    """Sort by strand; parallel strands by the rank of their first call."""
    first: dict[tuple[int, ...], Any] = {}
    keys = []
    for one, rank in zip(calls, ranks, strict=True):
        strand = one.call.strand
        ends = range(2, len(strand) + 1, 2)
        keys.append([(strand[end - 2], first.setdefault(strand[:end], rank)) for end in ends])
    return [calls[at] for at in sorted(range(len(calls)), key=keys.__getitem__)]


def _content(one: CallTexts) -> tuple[object, ...]:
    return [message.text for message in one.messages], one.call.key, one.call.slot.occurrence


def _known(one: CallTexts, earlier: Sequence[CallTexts]) -> int | None:
    """Count the messages of a request that an earlier request and its reply have."""
    for other in reversed(earlier):
        length = len(other.messages)
        if 0 < length < len(one.messages) and one.messages[:length] == other.messages:
            # A thought is not sent back to the model.
            answer = (said for said in other.answer if said.kind != "thought")
            return first_difference((*other.messages, *answer), one.messages)
    return None


def pairs(baseline: Sequence[CallTexts], current: Sequence[CallTexts]) -> list[Pair]:
    """Pair the calls of two trials, in the baseline's order; calls without a pair come last."""
    places = _places(baseline, current)
    partners: dict[int, CallTexts] = {at: current[own] for own, at in places.items()}
    found: list[Pair] = [(one, partners.get(at)) for at, one in enumerate(baseline)]
    return found + [(None, one) for own, one in enumerate(current) if own not in places]


def _places(others: Sequence[CallTexts], own: Sequence[CallTexts]) -> dict[int, int]:
    """Find for each call of a trial its pair in another trial, by places."""
    marks = [[_marks(one) for one in side] for side in (others, own)]
    alike: list[tuple[float, int, int]] = []  # the likest first
    for (other, one), (at, two) in product(enumerate(others), enumerate(own)):
        if one.call.key == two.call.key:
            alike.append((-3.0 + (one.call.slot != two.call.slot), other, at))
        elif _turn(one) == _turn(two):
            alike.append((-_likeness(marks[0][other], marks[1][at]), other, at))
    found: dict[int, int] = {}
    for _, other, at in sorted(alike):
        if at not in found and other not in found.values():
            found[at] = other
    return found


def _turn(one: CallTexts) -> int:
    """Count the replies that a conversation holds by then."""
    return sum(message.role == ASSISTANT for message in one.messages)


def _marks(one: CallTexts) -> Counter[str]:
    """Count the features of a request for its likeness: model, settings, tools and words."""
    text = " ".join(message.text for message in one.messages)
    settings = one.asked.settings.items() if one.asked else ()
    words = WORDS.findall(text[:_LOOKED_THROUGH] + text[_LOOKED_THROUGH:][-_LOOKED_THROUGH:])
    return Counter([one.call.model or "", *map("=".join, settings), *map(str.strip, words)])


def _likeness(one: Counter[str], other: Counter[str]) -> float:
    return 2 * (one & other).total() / (one.total() + other.total())


def judged_last(calls: Sequence[CallTexts]) -> list[list[CallTexts]]:
    """Find the calls whose replies came last, each behind the calls whose replies it carries on.

    A trial judged these replies when it failed: one, or several of calls that were open at once.
    """
    answered = [one for one in calls if one.was_answered]
    found = []
    for at, last in enumerate(answered):
        if all(last.call.is_beside(later.call) for later in answered[at + 1 :]):
            chain = [last]
            for earlier in reversed(answered[:at]):
                if any(one.carries(earlier) for one in chain):
                    chain.insert(0, earlier)
            found.append(chain)
    return found
