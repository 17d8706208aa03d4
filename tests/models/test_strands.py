"""Which calls of a trial follow which, whatever was answered first."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.cache.timed_calls import TimedCall
from pytest_llmeval.models.attribution import (
    charging,
    inherited_by_threads,
)
from pytest_llmeval.models.course import ASKED, Course
from pytest_llmeval.models.strands import strands_of
from pytest_llmeval.records import Call, Slot

# What is asked: a call, things done one after the other, or things done at once.
Plan = str | tuple[str, list["Plan"]]


def call(name: str, strand: tuple[int, ...]) -> Call:
    return Call(key=name, slot=Slot(0, 0), strand=strand)


class Clock:
    """Runs a plan: each call takes as long as it is told."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds = seconds
        self.steps: dict[str, TimedCall] = {}
        self.before: dict[str, str] = {}

    def run(self, plan: Plan, at: float, asked: str) -> tuple[float, str]:
        """Return when it ends, and what this code asked last: not what it waited for."""
        if isinstance(plan, str):
            end = at + self.seconds.get(plan, 1.0)
            self.steps[plan], self.before[plan] = TimedCall(plan, at, end), asked
            return end, plan
        way, parts = plan
        if way == "gather":
            return max(self.run(part, at, asked)[0] for part in parts), asked
        for part in parts:
            at, asked = self.run(part, at, asked)
        return at, asked


def strands(plan: Plan, **seconds: float) -> dict[str, tuple[int, ...]]:
    clock = Clock(seconds)
    clock.run(plan, 0.0, "")
    return strands_of(clock.steps, clock.before)


def beside(found: dict[str, tuple[int, ...]]) -> set[str]:
    """Name the pairs of calls that are beside each other."""
    calls = [call(name, strand) for name, strand in found.items()]
    return {
        "".join(sorted((one.key, other.key)))
        for one in calls
        for other in calls
        if one.is_beside(other)
    }


def test_calls_that_were_gathered_are_beside_each_other() -> None:
    plan = ("then", ["a", ("gather", ["b", "c"]), "d"])

    assert beside(strands(plan)) == {"bc"}
    assert strands(plan, b=2.0) == strands(plan, c=2.0)


def test_a_chain_is_beside_what_was_gathered_with_it() -> None:
    plan = ("gather", [("then", ["a", "b"]), "c"])

    assert beside(strands(plan, c=0.5)) == beside(strands(plan, c=9.0)) == {"ac", "bc"}


def test_a_call_that_another_trial_asked_is_no_call_before() -> None:
    steps = {"a": TimedCall("a", 0.0, 1.0), "b": TimedCall("b", 0.5, 2.0)}

    assert strands_of(steps, {"a": "elsewhere", "b": "a"}) == {"a": (0, 0), "b": (0, 1)}


@st.composite
def plans(draw: st.DrawFn, names: list[str], *, is_beside: bool = False) -> Plan:
    """Draw a plan; what is done beside other things begins with a call."""
    if len(names) == 1:
        return names[0]
    if is_beside:
        return ("then", [names[0], draw(plans(names[1:]))])
    place = draw(st.integers(1, len(names) - 1))
    way = draw(st.sampled_from(["then", "gather"]))
    parts = names[:place], names[place:]
    return (way, [draw(plans(part, is_beside=way == "gather")) for part in parts])


NAMES = list("abcdef")
times = st.fixed_dictionaries({name: st.integers(1, 1000).map(float) for name in NAMES})


@given(plans(NAMES), times, times)
def test_no_race_decides_which_calls_are_beside_each_other(
    plan: Plan, one: dict[str, float], other: dict[str, float]
) -> None:
    # No two things end in the same instant: each takes its own share of a second.
    shares = {name: 2.0**-place for place, name in enumerate(NAMES, start=1)}
    first, second = (
        strands(plan, **{name: each[name] + shares[name] for name in NAMES})
        for each in (one, other)
    )

    assert first == second


class Trial:
    """What attribution needs of a trial."""

    def __init__(self) -> None:
        self.course = Course("trial")


def test_threads_and_pools_go_on_where_they_were_begun() -> None:
    trial: Any = Trial()
    seen: list[str] = []
    before = ASKED.get()

    def ask(place: str) -> None:
        seen.append(ASKED.get())
        ASKED.set(place)

    with inherited_by_threads(), charging(trial), ThreadPoolExecutor(1) as pool:
        ASKED.set("main")
        pool.submit(ask, "a").result()
        pool.submit(ask, "b").result()
        thread = Thread(target=ask, args=("c",))
        thread.start()
        thread.join()
        ask("d")

    assert seen == ["main"] * 4
    assert ASKED.get() == before
