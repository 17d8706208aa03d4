"""The calls of a trial with their texts: in an order that no race decides, paired with another's.

Calls of two trials are a pair if they ask the same. That is an equal request, else the likest one:
by vendor, model, settings, tools and words together, at the same turn of a conversation.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pytest_llmeval.records import Call
from pytest_llmeval.transcripts.messages import ASSISTANT, Asked, Message
from pytest_llmeval.transcripts.word_diff import first_difference, words_of

_NOT_HERE = (Message("request", "not here", "missing"),)
_LOOKED_THROUGH = 20_000  # characters of a request
_QUOTED = 20  # characters of a reply that no request holds by chance


@dataclass(frozen=True, slots=True)
class CallTexts:
    """A call, with its texts.

    Attributes:
        call: it.
        asked: its request; None if that is not here.
        answer: its reply; a message that says so where that is not here.
        is_here: whether the reply is, or there was none.
        known: how many of its messages were said before in its trial; None if it begins anew.
    """

    call: Call
    asked: Asked | None
    answer: tuple[Message, ...]
    is_here: bool
    known: int | None = None

    @property
    def begins(self) -> tuple[Message, ...]:
        """What it asks, if it begins anew."""
        if self.known is not None:
            return ()
        return _NOT_HERE if self.asked is None else self.asked.messages

    @property
    def said(self) -> tuple[Message, ...]:
        """What was said besides what was known, or asked anew; the reply comes last."""
        new = () if self.asked is None or self.known is None else self.asked.messages[self.known :]
        return (*new, *self.answer)

    @property
    def was_answered(self) -> bool:
        """Whether the trial got a reply."""
        return self.call.draw is not None and self.call.failure is None

    def carries(self, earlier: CallTexts) -> bool:
        """Whether its request holds a reply of the trial: as a turn does, or what is judged."""
        messages = () if self.asked is None else self.asked.messages
        return any(
            said in messages
            or (len(said.text) >= _QUOTED and any(said.text in one.text for one in messages))
            for said in earlier.answer
            if said.kind not in ("thought", "missing")
        )


Pair = tuple[CallTexts | None, CallTexts | None]  # of a baseline, and of a current trial


def in_order(calls: Sequence[CallTexts], like: Sequence[CallTexts] = ()) -> tuple[CallTexts, ...]:
    """Sort the calls of a trial; those that were open at once by what they ask, or as another's.

    Args:
        calls: as they were recorded.
        like: those of another trial, in order.
    """
    plain = _sorted(calls, [_content(one) for one in calls])
    places = _places(like, plain)
    ranks = [(places.get(at, len(like)), _content(one)) for at, one in enumerate(plain)]
    found: list[CallTexts] = []
    for one in _sorted(plain, ranks) if like else plain:
        found.append(replace(one, known=_known(one, found)))
    return tuple(found)


def _sorted(calls: Sequence[CallTexts], ranks: Sequence[Any]) -> list[CallTexts]:
    """Sort by strand; strands that are beside each other by the rank of their first call."""
    first: dict[tuple[int, ...], Any] = {}
    strands = [one.call.strand for one in calls]
    for strand, rank in zip(strands, ranks, strict=True):
        for end in range(2, len(strand) + 1, 2):
            first.setdefault(strand[:end], rank)
    keys = [
        [
            (strand[end - 2], first[strand[:end]], strand[end - 1])
            for end in range(2, len(strand) + 1, 2)
        ]
        for strand in strands
    ]
    return [calls[at] for at in sorted(range(len(calls)), key=keys.__getitem__)]


def _content(one: CallTexts) -> tuple[object, ...]:
    texts = () if one.asked is None else tuple(message.text for message in one.asked.messages)
    return texts, one.call.key, one.call.slot.occurrence


def _known(one: CallTexts, earlier: Sequence[CallTexts]) -> int | None:
    """Count the messages of a request that an earlier one and its reply have, if it goes on."""
    messages = () if one.asked is None else one.asked.messages
    for other in reversed(earlier):
        asked = () if other.asked is None else other.asked.messages
        if asked and len(asked) < len(messages) and messages[: len(asked)] == asked:
            # A thought is not sent back to the model.
            answer = (said for said in other.answer if said.kind != "thought")
            return first_difference((*asked, *answer), messages)
    return None


def pairs(baseline: Sequence[CallTexts], current: Sequence[CallTexts]) -> list[Pair]:
    """Pair the calls of two trials, in the order of the baseline; then come those without any."""
    places = _places(baseline, current)
    partners: dict[int, CallTexts] = {at: current[own] for own, at in places.items()}
    found: list[Pair] = [(one, partners.get(at)) for at, one in enumerate(baseline)]
    return found + [(None, one) for own, one in enumerate(current) if own not in places]


def _places(others: Sequence[CallTexts], own: Sequence[CallTexts]) -> dict[int, int]:
    """Find for each call of a trial its pair in another one, by their places."""
    waiting: defaultdict[str, list[int]] = defaultdict(list)
    for at in _by_occurrence(others):
        waiting[others[at].call.key].append(at)
    found: dict[int, int] = {}
    for at in _by_occurrence(own):
        if waiting[own[at].call.key]:
            found[at] = waiting[own[at].call.key].pop(0)
    left: defaultdict[int, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for at in sorted({*range(len(others))} - {*found.values()}):
        left[_turn(others[at])][0].append(at)
    for at in sorted({*range(len(own))} - {*found}):
        left[_turn(own[at])][1].append(at)
    for theirs, ours in left.values():
        for other, at in _likest_first(others, own, theirs, ours):
            if at not in found and other not in found.values():
                found[at] = other
    return found


def _by_occurrence(calls: Sequence[CallTexts]) -> list[int]:
    return sorted(range(len(calls)), key=lambda at: calls[at].call.slot.occurrence)


def _turn(one: CallTexts) -> int:
    """Count the replies that a conversation holds by then."""
    messages = () if one.asked is None else one.asked.messages
    return sum(message.role == ASSISTANT for message in messages)


def _likest_first(
    others: Sequence[CallTexts], own: Sequence[CallTexts], theirs: list[int], ours: list[int]
) -> Iterator[tuple[int, int]]:
    if len(theirs) == len(ours) == 1:  # no words need be counted
        yield theirs[0], ours[0]
        return
    marks = [{at: _marks(of[at]) for at in some} for of, some in ((others, theirs), (own, ours))]
    likeness = {
        (other, at): 2 * (one & two).total() / (one.total() + two.total() or 1)
        for other, one in marks[0].items()
        for at, two in marks[1].items()
    }
    yield from sorted(likeness, key=lambda pair: (-likeness[pair], pair))


def _marks(one: CallTexts) -> Counter[str]:
    """Count what makes a request like another: its model, settings, tools and words."""
    asked = one.asked or Asked((), {})
    text = " ".join(message.text for message in asked.messages)[:_LOOKED_THROUGH]
    settings = (f"{name}={value}" for name, value in asked.settings.items())
    return Counter([one.call.model or "", *settings, *map(str.strip, words_of(text))])


def judged_last(calls: Sequence[CallTexts]) -> list[list[CallTexts]]:
    """Find the calls whose replies came last, each behind the calls whose replies it carries on.

    These are what a trial judged when it failed: one call, or several that were open at once.
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
