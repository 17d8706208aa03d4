"""Strands of a trial: lines of code that ask one call after another, several of them at once.

Of calls that were open at once the replies come in any order, so what is said of a trial must not
depend on it. Which calls follow which is known by the code that asked: a task or a thread goes on
where it was begun. What it waited for, such as the calls that it gathered, is known by their times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from pytest_llmeval.cache.timed_calls import Steps
from pytest_llmeval.records import Strand


def strands_of(steps: Steps, before: Mapping[str, str]) -> dict[str, Strand]:
    """Find the strand of each call of a trial.

    Args:
        steps: when each call began and ended, by its place.
        before: by place, the place of the call that the same code made before; "" for none.
    """
    places = sorted(steps, key=lambda place: steps[place].begun)
    following: defaultdict[str, list[str]] = defaultdict(list)
    parents: dict[str, str] = {}
    for place in places:
        known = steps.get(before.get(place, ""))
        parents[place] = before[place] if known and known.ended <= steps[place].begun else ""
        following[parents[place]].append(place)
    ends = {place: step.ended for place, step in steps.items()}  # of a call and all that follow it
    for place in reversed(places):
        parent = parents[place]
        ends[parent] = max(ends.get(parent, -inf), ends[place])
    found: dict[str, Strand] = {}
    to_do: list[tuple[str, Strand]] = [("", ())]
    while to_do:
        parent, strand = to_do.pop()
        for number, beside in enumerate(_at_once(following[parent], steps, ends)):
            for index, place in enumerate(sorted(beside)):
                is_alone = len(following[parent]) == 1
                found[place] = strand if is_alone else (*strand, number, index)
                to_do.append((place, found[place]))
    return found


def _at_once(
    places: Sequence[str], steps: Steps, ends: Mapping[str, float]
) -> Iterator[Sequence[str]]:
    """Put calls together that overlap, with all that follows them; they are sorted by beginning."""
    found, until = list[str](), -inf
    for place in places:
        if found and steps[place].begun >= until:
            yield found
            found = []
        found.append(place)
        until = max(until, ends[place])
    if found:
        yield found
