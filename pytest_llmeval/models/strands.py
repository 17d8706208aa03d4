"""Strands of a trial: lines of code that ask one call after another, several of them at once.

Of calls that were open at once the replies come in any order, so what is said of a trial must not
depend on it. Which calls follow which is known by the code that asked: a task or a thread goes on
where it was begun, and is beside what else was under way then, however late it asks. What code
waited for, such as the calls that it gathered, is known by their times.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeAlias

from pytest_llmeval.cache.timed_calls import Steps
from pytest_llmeval.records import Strand


@dataclass(frozen=True, slots=True, eq=False)
class Branch:
    """A task, a thread or work in a pool that has asked nothing yet.

    Attributes:
        after: where the code stood that began it.
        begun: when, on the clock of the process.
        worker: names it, by how many its code had begun before.
    """

    after: Asker
    begun: float
    worker: str = ""


# Where code stands: the place of the call that it asked last, "" for none, or how it was begun.
Asker: TypeAlias = str | Branch


def asked_last(asker: Asker) -> str:
    """Return the place of the call that code asked last, or the code that began it."""
    while isinstance(asker, Branch):
        asker = asker.after
    return asker


def strands_of(
    steps: Steps, before: Mapping[str, Asker], *, started: float = 0.0
) -> dict[str, Strand]:
    """Find the strand of each call of a trial.

    Args:
        steps: when each call began and ended, by its place.
        before: by place, where the code stood that asked.
        started: when the clock of the trial began, on that of the process.

    Returns:
        The strand of each call, by its place; none where all came one after the other.
    """
    begun: dict[Asker, float] = {place: step.begun for place, step in steps.items()}
    following: defaultdict[Asker, list[Asker]] = defaultdict(list)
    for one, above in _parents(steps, before, begun, started).items():
        following[above].append(one)
    order: list[Asker] = [""]
    for one in order:  # which grows
        order += following[one]
    ends: dict[Asker, float] = {place: step.ended for place, step in steps.items()}
    names: dict[Asker, str] = {place: place for place in steps}  # of a branch, the first below it
    for above in reversed(order):
        for one in following[above]:
            ends[above] = max(ends.get(above, -inf), ends[one])
        if above not in steps:
            names[above] = min((names[one] for one in following[above]), default="")
    found: dict[Asker, Strand] = {"": ()}
    for one in order:
        is_alone = len(following[one]) == 1
        for number, beside in enumerate(_at_once(following[one], begun, ends)):
            for index, after in enumerate(sorted(beside, key=names.__getitem__)):
                found[after] = found[one] if is_alone else (*found[one], number, index)
    had_race = any(any(strand[1::2]) for strand in found.values())
    return {place: found[place] for place in steps} if had_race else {}


def _parents(
    steps: Steps, before: Mapping[str, Asker], begun: dict[Asker, float], started: float
) -> dict[Asker, Asker]:
    """Find what each call, and each branch with calls, followed; add when branches were begun."""
    found: dict[Asker, Asker] = {}
    for place in steps:
        one: Asker = place
        while one and one not in found:
            above = one.after if isinstance(one, Branch) else before.get(one, "")
            if isinstance(above, Branch):
                begun[above] = above.begun - started
            elif above not in steps or steps[above].ended > begun[one]:
                above = ""
            found[one], one = above, above
    return found


def _at_once(
    askers: Sequence[Asker], begun: Mapping[Asker, float], ends: Mapping[Asker, float]
) -> Iterator[Sequence[Asker]]:
    """Put together what overlaps, with all that follows it."""
    found, until = list[Asker](), -inf
    for one in sorted(askers, key=begun.__getitem__):
        if found and begun[one] >= until:
            yield found
            found = []
        found.append(one)
        until = max(until, ends[one])
    if found:
        yield found
