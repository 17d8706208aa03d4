"""Which calls of a trial follow which, whatever was answered first."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, Thread
from time import monotonic
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.cache.timed_calls import TimedCall
from pytest_llmeval.models.attribution import (
    charging,
    inherited_by_threads,
)
from pytest_llmeval.models.course import ASKED, Course
from pytest_llmeval.models.strands import Asker, Branch, asked_last, strands_of
from pytest_llmeval.models.waits import watching_waits
from pytest_llmeval.records import Call, Slot

# What is asked: a call, things done one after the other, or things done at once.
Plan = str | tuple[str, list["Plan"]]


def call(name: str, strand: tuple[int, ...]) -> Call:
    return Call(key=name, slot=Slot(0, 0), strand=strand)


class Clock:
    """Runs a plan: each call takes as long as it is told, and begins so much later."""

    def __init__(self, seconds: dict[str, float], late: dict[str, float]) -> None:
        self.seconds, self.late = seconds, late
        self.steps: dict[str, TimedCall] = {}
        self.before: dict[str, Asker] = {}

    def run(self, plan: Plan, at: float, asked: Asker) -> tuple[float, Asker]:
        """Return when it ends, and where this code stands: not what it waited for."""
        if isinstance(plan, str):
            at += self.late.get(plan, 0.0)
            end = at + self.seconds.get(plan, 1.0)
            self.steps[plan], self.before[plan] = TimedCall(plan, at, end), asked
            return end, plan
        way, parts = plan
        if way == "gather":
            return max(self.run(part, at, Branch(asked, at))[0] for part in parts), asked
        for part in parts:
            at, asked = self.run(part, at, asked)
        return at, asked


def strands(
    plan: Plan, late: dict[str, float] | None = None, **seconds: float
) -> dict[str, tuple[int, ...]]:
    clock = Clock(seconds, late or {})
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


def test_what_was_gathered_is_beside_the_others_however_late_it_asks() -> None:
    plan = ("then", ["a", ("gather", ["b", ("gather", ["c", "d"])]), "e"])

    assert beside(strands(plan, {"c": 9.0})) == beside(strands(plan)) == {"bc", "bd", "cd"}
    assert strands(plan, {"b": 9.0}) == strands(plan, {"c": 9.0}) == strands(plan)


def test_tasks_that_were_begun_one_after_the_other_are_not_at_once() -> None:
    plan = ("then", [("gather", ["a"]), ("gather", ["b"])])

    assert strands(plan) == {}


def test_a_call_that_another_trial_asked_is_no_call_before() -> None:
    steps = {"a": TimedCall("a", 0.0, 1.0), "b": TimedCall("b", 0.5, 2.0)}

    assert strands_of(steps, {"a": "elsewhere", "b": "a"}) == {"a": (0, 0), "b": (0, 1)}


@st.composite
def plans(draw: st.DrawFn, names: list[str]) -> Plan:
    if len(names) == 1:
        return names[0]
    place = draw(st.integers(1, len(names) - 1))
    way = draw(st.sampled_from(["then", "gather"]))
    return (way, [draw(plans(part)) for part in (names[:place], names[place:])])


NAMES = list("abcdef")
times = st.fixed_dictionaries({name: st.integers(1, 1000).map(float) for name in NAMES})


@given(plans(NAMES), times, times, times, times)
def test_no_race_decides_which_calls_are_beside_each_other(
    plan: Plan,
    one: dict[str, float],
    other: dict[str, float],
    late: dict[str, float],
    later: dict[str, float],
) -> None:
    # No two things end in the same instant: each takes its own share of a second.
    shares = {name: 2.0**-place for place, name in enumerate(NAMES, start=1)}
    first, second = (
        strands(plan, delays, **{name: each[name] + shares[name] for name in NAMES})
        for each, delays in ((one, late), (other, later))
    )

    assert first == second


class Trial:
    """What attribution needs of a trial."""

    def __init__(self) -> None:
        self.course = Course("trial")
        self.steps: dict[str, TimedCall] = {}
        self.before: dict[str, Asker] = {}

    def ask(self, place: str) -> str:
        """Note a call without asking anybody."""
        begun, asker = monotonic(), ASKED.get()
        self.steps[place] = TimedCall(place, begun, monotonic())
        self.before[place] = asker
        ASKED.set(place)
        return place

    def beside(self) -> set[str]:
        return beside(strands_of(self.steps, self.before))


@pytest.mark.parametrize("waits", [True, False])
def test_work_is_at_once_unless_somebody_waited_before_it_was_begun(*, waits: bool) -> None:
    trial: Any = Trial()
    are_done = {name: Event() for name in "abcd"}

    def ask(name: str) -> None:
        trial.ask(name)
        are_done[name].set()

    def begun(name: str) -> None:
        """Begin work; it has ended when this returns, and nobody of the trial waited for it."""
        if name in "ab":
            futures[name] = pool.submit(ask, name)
        else:
            threads[name] = Thread(target=ask, args=name)
            threads[name].start()
        with charging(None):
            assert are_done[name].wait(60)

    with inherited_by_threads(), watching_waits(), charging(trial), ThreadPoolExecutor(2) as pool:
        futures: dict[str, Future[None]] = {}
        threads: dict[str, Thread] = {}
        for name in "abcd":
            begun(name)
            if waits and name in futures:
                futures[name].result()
            elif waits:
                threads[name].join()

    assert trial.beside() == (set() if waits else {"ab", "ac", "ad", "bc", "bd", "cd"})


def test_a_task_is_beside_what_was_begun_with_it_in_a_loop_of_the_test() -> None:
    trial: Any = Trial()

    async def one(name: str, turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        trial.ask(name)

    async def all_() -> None:
        await asyncio.gather(one("a", 0), one("b", 9))
        await asyncio.create_task(one("c", 0))

    with inherited_by_threads(), charging(trial):
        asyncio.run(all_())

    assert trial.beside() == {"ab"}


class OtherLoop(asyncio.AbstractEventLoop):
    """A kind of loop that is none of asyncio's, as uvloop's is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def create_task(self, coroutine: Any, **more: Any) -> Any:
        return asyncio.Task(coroutine, loop=self._loop, **more)


def test_a_task_of_another_kind_of_loop_is_beside_what_was_begun_with_it() -> None:
    trial: Any = Trial()

    async def one(name: str) -> None:
        trial.ask(name)

    async def all_() -> None:
        loop = OtherLoop(asyncio.get_running_loop())
        await asyncio.wait([loop.create_task(one("a")), loop.create_task(one("b"))])

    with inherited_by_threads(), charging(trial):
        asyncio.run(all_())

    assert trial.beside() == {"ab"}


def test_threads_and_pools_go_on_where_they_were_begun() -> None:
    trial: Any = Trial()
    seen: list[str] = []
    before = ASKED.get()

    def ask(place: str) -> None:
        seen.append(asked_last(ASKED.get()))
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
