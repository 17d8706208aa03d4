"""The transcript of a trial: its requests and replies in order, each turn once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pytest_llmeval.records import Call, Trial
from pytest_llmeval.transcripts.stored_texts import StoredTexts
from pytest_llmeval.transcripts.turns import ASSISTANT, Asked, Turn, read_reply, read_request

_NOT_HERE = (Turn("request", "not here", "missing"),)


@dataclass(frozen=True, slots=True)
class Step:
    """A turn, and the number of the call that asked or answered it, from 1."""

    call: int
    turn: Turn


@dataclass(frozen=True, slots=True)
class Transcript:
    """What a trial asked and was answered.

    Attributes:
        trial: it.
        asked: its first request; None if that is not here.
        steps: all that follows: the reply, what later requests have besides, their replies.
        is_here: whether every reply that it got is here.
    """

    trial: Trial
    asked: Asked | None
    steps: tuple[Step, ...]
    is_here: bool

    @property
    def said(self) -> tuple[Turn, ...]:
        """What makes two transcripts equal, besides their first requests."""
        return tuple(step.turn for step in self.steps)

    @property
    def draws(self) -> tuple[str | None, ...]:
        """The ids of its draws."""
        return tuple(call.draw for call in self.trial.calls)


def transcripts(trials: Iterable[Trial], stored: StoredTexts) -> tuple[Transcript, ...]:
    """Read the texts of trials, each request once."""
    requests: dict[str, Asked | None] = {}
    return tuple(_transcript(trial, stored, requests) for trial in trials)


def _transcript(trial: Trial, stored: StoredTexts, requests: dict[str, Asked | None]) -> Transcript:
    steps: list[Step] = []
    known: tuple[Turn, ...] = ()
    is_here = True
    for number, call in enumerate(trial.calls, start=1):
        if call.key not in requests:
            parts = stored.request(call.key)
            requests[call.key] = None if parts is None else read_request(parts)
        asked = requests[call.key]
        turns = () if asked is None else asked.turns
        if number > 1:
            new = _NOT_HERE if asked is None else turns[_common(known, turns) :]
            steps += (Step(number, turn) for turn in new)
        reply = stored.reply(call)
        is_here = is_here and (reply is not None or call.draw is None)
        answer = (_missing(call),) if reply is None else read_reply(reply)
        steps += (Step(number, turn) for turn in answer)
        known = (*turns, *answer)
    first = requests[trial.calls[0].key] if trial.calls else None
    return Transcript(trial, first, tuple(steps), is_here)


def _missing(call: Call) -> Turn:
    if call.draw is None:
        return Turn(ASSISTANT, f"no reply: {call.reason or call.failure or 'unknown'}", "missing")
    return Turn(ASSISTANT, f"the reply is not here (draw {call.draw[:12]})", "missing")


def _common(known: Sequence[Turn], turns: Sequence[Turn]) -> int:
    """Count the turns with which a request repeats what was said before it.

    A thought is not sent back to the model, so it does not count.
    """
    spoken = [turn for turn in known if turn.kind != "thought"]
    pairs = enumerate(zip(spoken, turns, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(spoken), len(turns)))


@dataclass(frozen=True, slots=True)
class Parting:
    """The first place where two transcripts differ.

    Attributes:
        trial: index of both.
        baseline: the step there; None where that side has ended. ``current`` likewise.
    """

    trial: int
    baseline: Step | None
    current: Step | None


def parting(baseline: Sequence[Transcript], current: Sequence[Transcript]) -> Parting | None:
    """Find where the two sides of a case part, in the first trial that differs; None if nowhere."""
    others = {one.trial.index: one for one in current}
    for one in baseline:
        other = others.get(one.trial.index)
        if other is None or one.said == other.said:
            continue
        place = 0
        while one.said[place : place + 1] == other.said[place : place + 1]:
            place += 1
        steps = (each.steps[place] if place < len(each.steps) else None for each in (one, other))
        return Parting(one.trial.index, *steps)
    return None
