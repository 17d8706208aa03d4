"""One line of a reply of each side, for the cases that moved most."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from pytest_llmeval.records import Better, Run, Trial, trials_by_case
from pytest_llmeval.transcripts.messages import Message
from pytest_llmeval.transcripts.transcript import StoredTexts
from pytest_llmeval.transcripts.word_diff import first_difference

LONGEST = 300  # characters
_LEAD = 60  # of these before the place where the sides part
_LOOKED_THROUGH = 20_000

Sides = tuple[str | None, str | None]  # of the baseline, and of the current run


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
            found[case] = _parting(_lines(first, stored), _lines(second, stored))
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


def _parting(baseline: Sequence[str | None], current: Sequence[str | None]) -> Sides:
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
