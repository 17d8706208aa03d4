"""The event loop of async trials, run between the turns; without a pytest session."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from inspect import CORO_CLOSED, getcoroutinestate
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.schedule import scheduler as scheduler_module
from pytest_llmeval.engine.trial import event_loop
from pytest_llmeval.engine.trial.event_loop import (
    TrialRunner,
    make_task,
    wait_in_thread,
)
from pytest_llmeval.engine.trial_thread import TrialCancelled, TrialThread
from pytest_llmeval.errors import ProviderFailed
from tests.engine.schedule.bench import Body, Case, bench, run

PATIENCE = 300.0  # seconds
Loop = asyncio.AbstractEventLoop


@pytest.fixture
def loop() -> Iterator[Loop]:
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)
    with runner:
        yield runner.get_loop()


def on(
    loop: Loop, body: Callable[[TrialRunner], Coroutine[Any, Any, object]], *, closes: bool = True
) -> Body:
    """Make the body of a trial that runs a coroutine to its end."""

    def run_body(thread: TrialThread) -> None:
        runner = TrialRunner(thread, loop)
        try:
            runner.run(body(runner))
        finally:
            if closes:
                runner.close()

    return run_body


async def meet(others: list[object], count: int) -> None:
    """Wait until so many are in flight."""
    others.append(None)
    while len(others) < count:
        await asyncio.sleep(0)


def test_async_trials_overlap_and_each_step_has_the_state_of_its_trial(loop: Loop) -> None:
    together: list[object] = []

    def body(number: int) -> Body:
        async def of_trial(_: TrialRunner) -> None:
            os.environ["OF_TRIAL"] = str(number)
            await meet(together, 4)
            for _ in range(3):
                await asyncio.sleep(0.001)
                assert os.environ["OF_TRIAL"] == str(number)
            async with asyncio.TaskGroup() as group:
                task = group.create_task(asyncio.sleep(0, os.environ["OF_TRIAL"]))
            assert task.result() == str(number)

        return on(loop, of_trial)

    case = Case("test_it", *map(body, range(4)))
    scheduler = bench(case)
    run(scheduler, case)

    assert case.have_ended()
    assert scheduler.loop is loop
    assert "OF_TRIAL" not in os.environ


def test_async_and_sync_trials_wait_side_by_side(loop: Loop) -> None:
    came, together = threading.Event(), []

    async def awaits(_: TrialRunner) -> None:
        together.append(1)
        while not came.is_set():
            await asyncio.sleep(0.001)

    def blocks(thread: TrialThread) -> None:
        came.set()
        thread.wait(lambda: None)

    case = Case("test_it", on(loop, awaits), blocks)
    run(bench(case), case)

    assert case.have_ended()


def test_the_loop_runs_between_the_turns_of_trials_that_never_wait_for_long(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "_LONGEST_STOP", 0.0)
    ended: list[str] = []

    async def awaits(_: TrialRunner) -> None:
        for _ in range(5):
            await asyncio.sleep(0)
        ended.append("async")

    def busy(thread: TrialThread) -> None:
        while "async" not in ended:
            thread.suspend(lambda: thread.baton.put(thread))  # ready at once, again and again
        ended.append("busy")

    case = Case("test_it", on(loop, awaits), busy)
    run(bench(case), case)

    assert ended == ["async", "busy"]


def test_a_result_and_an_error_reach_the_trial(loop: Loop) -> None:
    async def raising() -> None:
        raise ValueError("wrong")

    def body(thread: TrialThread) -> None:
        runner = TrialRunner(thread, loop)
        assert runner.get_loop() is loop
        assert runner.run(asyncio.sleep(0, "right")) == "right"
        with pytest.raises(ValueError, match="wrong"):
            runner.run(raising())
        runner.close()

    case = Case("test_it", body)
    run(bench(case), case)

    assert case.have_ended()


def test_an_async_fixture_that_is_asked_for_in_an_async_body_is_told(loop: Loop) -> None:
    async def body(runner: TrialRunner) -> None:
        with pytest.raises(RuntimeError, match="Name it as an argument"):
            runner.run(asyncio.sleep(0))

    case = Case("test_it", on(loop, body))
    run(bench(case), case)

    assert case.have_ended()


def test_a_serial_trial_waits_in_its_own_thread(loop: Loop) -> None:
    async def body(_: TrialRunner) -> None:
        assert threading.current_thread() is here
        await asyncio.sleep(0)

    here = threading.current_thread()
    case = Case("test_it", on(loop, body), serial="a reason")
    run(bench(case), case)

    assert case.have_ended()


def test_a_trial_sees_its_own_tasks_alone(loop: Loop) -> None:
    together: list[object] = []

    async def body(_: TrialRunner) -> None:
        task = asyncio.create_task(asyncio.sleep(3600))
        await meet(together, 3)
        assert asyncio.all_tasks() == {task, asyncio.current_task()}

    case = Case("test_it", *[on(loop, body)] * 3)
    run(bench(case), case)

    assert case.have_ended()
    assert asyncio.all_tasks.__module__ in ("asyncio.tasks", "_asyncio")


def test_on_another_loop_all_tasks_are_seen(loop: Loop) -> None:
    async def body(_: TrialRunner) -> None:
        def elsewhere() -> int:
            async def count() -> int:
                return len(asyncio.all_tasks())

            return asyncio.run(count())

        assert await asyncio.to_thread(elsewhere) == 1

    case = Case("test_it", on(loop, body))
    run(bench(case), case)

    assert case.have_ended()


def test_tasks_that_a_trial_leaves_are_cancelled(loop: Loop) -> None:
    left: list[asyncio.Task[None]] = []

    async def body(_: TrialRunner) -> None:
        left.append(asyncio.create_task(asyncio.sleep(3600)))
        await asyncio.sleep(0)

    case = Case("test_it", on(loop, body))
    run(bench(case), case)

    assert left[0].cancelled()


def test_an_exit_in_a_task_is_raised_where_the_trial_waits(loop: Loop) -> None:
    async def leaves() -> None:
        sys.exit("enough")

    async def body(_: TrialRunner) -> None:
        await asyncio.create_task(leaves())

    def of_trial(thread: TrialThread) -> None:
        with pytest.raises(SystemExit, match="enough"):
            on(loop, body)(thread)

    case = Case("test_it", of_trial)
    run(bench(case), case)

    assert case.have_ended()


def test_a_trial_that_is_cancelled_cancels_its_coroutine(loop: Loop) -> None:
    begun, ended = threading.Event(), []

    async def body(_: TrialRunner) -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("coroutine")

    def of_trial(thread: TrialThread) -> None:
        runner = TrialRunner(thread, loop)
        try:
            runner.run(body(runner))
        except TrialCancelled:
            thread.in_teardown = True
            runner.run(asyncio.sleep(0))  # a fixture ends
            with pytest.raises(ProviderFailed, match="before this had ended"):
                runner.run(asyncio.sleep(3600))
            ended.append("trial")
            raise

    case = Case("test_it", of_trial, lambda thread: thread.wait(lambda: begun.wait(PATIENCE)))
    scheduler: Any = bench(case)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_loop, "GRACE", 0.05)
        scheduler.run(case, until=lambda: 1 in case.calls)
        scheduler.cancel()

    assert ended == ["coroutine", "trial"]


def test_while_a_trial_has_swapped_a_place_the_steps_of_others_wait(loop: Loop) -> None:
    """Also where they are put off for as long as that takes."""
    order: list[str] = []
    together: list[object] = []

    async def swaps(runner: TrialRunner) -> None:
        await meet(together, 2)
        swapped(runner, "a clock")
        await asyncio.sleep(0.01)
        order.append("swapped")
        swapped(runner, "")

    async def other(_: TrialRunner) -> None:
        await meet(together, 2)
        await asyncio.sleep(0)
        order.append("other")

    def swapped(runner: TrialRunner, what: str) -> None:
        runner._trial.patches = SimpleNamespace(held_for=what, places={}, mocks=0, recorders=0)  # type: ignore[assignment]

    case = Case("test_it", on(loop, swaps), on(loop, other))
    run(bench(case), case)

    assert order == ["swapped", "other"]


def test_a_step_of_one_that_has_patched_waits_for_those_that_run_beside(loop: Loop) -> None:
    """And who ran beside the step that patched may have seen it."""
    runs_free, has_patched, goes_on = threading.Event(), threading.Event(), threading.Event()

    async def patches(_: TrialRunner) -> None:
        while not runs_free.is_set():
            await asyncio.sleep(0.001)
        os.environ["PATCHED"] = "yes"
        has_patched.set()
        await asyncio.sleep(0)
        goes_on.set()

    def free(thread: TrialThread) -> None:
        thread.left_setup = True
        with thread.in_test():
            runs_free.set()
            assert has_patched.wait(PATIENCE)
            assert not goes_on.wait(0.2)
        assert thread.saw_others

    case, other = Case("patches", on(loop, patches)), Case("free", free)
    scheduler: Any = bench(case, other)
    scheduler._baton.blocking.add(("free", True))
    run(scheduler, case, other)

    assert goes_on.is_set()


def test_one_that_is_alone_goes_on_once_those_that_ran_beside_it_have_come_by(loop: Loop) -> None:
    """Also where it has patched something, so that its step waited for them."""
    runs_free, has_patched, order = threading.Event(), threading.Event(), []

    async def patches(runner: TrialRunner) -> None:
        while not runs_free.is_set():
            await asyncio.sleep(0.001)
        thread, plain = runner._trial, runner._trial.patches
        os.environ["PATCHED"] = "yes"
        thread.patches = SimpleNamespace(held_for="a clock", places={})  # type: ignore[assignment]
        has_patched.set()
        await asyncio.sleep(0)
        order.append("alone")
        thread.patches = plain
        del os.environ["PATCHED"]

    def free(thread: TrialThread) -> None:
        thread.left_setup = True
        with thread.in_test():
            runs_free.set()
            assert has_patched.wait(PATIENCE)
        order.append("came by")

    case, other = Case("patches", on(loop, patches)), Case("free", free)
    scheduler: Any = bench(case, other)
    scheduler._baton.blocking.add(("free", True))
    run(scheduler, case, other)

    assert order == ["alone", "came by"]


def test_one_that_is_cancelled_ends_its_coroutine_though_others_run_beside(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs_free, has_patched, never, ended = *(threading.Event() for _ in range(3)), []

    async def patches(_: TrialRunner) -> None:
        os.environ["PATCHED"] = "yes"
        has_patched.set()
        try:
            await asyncio.sleep(3600)
        finally:
            ended.append("coroutine")

    def free(thread: TrialThread) -> None:
        thread.left_setup = True
        with thread.in_test():
            runs_free.set()
            never.wait(PATIENCE)

    def waits(thread: TrialThread) -> None:
        thread.wait(lambda: (has_patched.wait(PATIENCE), runs_free.wait(PATIENCE)))

    cases = [Case("free", free), Case("waits", waits), Case("patches", on(loop, patches))]
    scheduler: Any = bench(*cases)
    scheduler._baton.blocking.add(("free", True))
    monkeypatch.setattr("pytest_llmeval.engine.schedule.scheduler.GRACE", 0.05)
    scheduler.run(cases[0], until=lambda: bool(cases[1].calls))
    scheduler.cancel()
    never.set()

    assert ended == ["coroutine"]


def test_steps_do_not_wait_for_ever_for_one_that_waits_for_them(
    loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler_module, "LONGEST_HELD_BACK", 0.05)
    monkeypatch.setattr(scheduler_module, "LONGEST_BLOCK", 0.05)
    together: list[object] = []
    has_stepped = asyncio.Event()

    async def swaps(runner: TrialRunner) -> None:
        await meet(together, 2)
        plain = runner._trial.patches
        runner._trial.patches = SimpleNamespace(held_for="a clock", places={})  # type: ignore[assignment]
        await asyncio.wait_for(has_stepped.wait(), PATIENCE / 60)
        runner._trial.patches = plain

    async def other(_: TrialRunner) -> None:
        await meet(together, 2)
        await asyncio.sleep(0.001)
        has_stepped.set()

    case = Case("test_it", on(loop, swaps), on(loop, other))
    run(bench(case), case)

    assert case.have_ended()


def test_a_call_that_blocks_is_awaited_in_a_thread(loop: Loop) -> None:
    async def ask(runner: TrialRunner, function: Callable[[], object]) -> object:
        return await wait_in_thread(function, begin=runner._trial.baton.threads.run)

    async def body(runner: TrialRunner) -> None:
        assert await ask(runner, lambda: "yes") == "yes"
        with pytest.raises(ValueError, match="no"):
            await ask(runner, lambda: int("no"))
        never = threading.Event()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ask(runner, lambda: never.wait(PATIENCE)), 0.001)
        never.set()

    case = Case("test_it", on(loop, body))
    run(bench(case), case)

    assert case.have_ended()


def test_a_session_ends_after_its_loop() -> None:
    runner = asyncio.Runner(loop_factory=asyncio.new_event_loop)

    async def body(_: TrialRunner) -> None:
        await asyncio.sleep(0)

    with runner:
        case = Case("test_it", on(runner.get_loop(), body))
        scheduler = bench(case)
        run(scheduler, case)
    scheduler.cancel()

    assert case.have_ended()


def test_a_task_of_nobody_is_a_plain_one(loop: Loop) -> None:
    task = make_task(loop, asyncio.sleep(0, "done"))

    assert loop.run_until_complete(task) == "done"
    assert not isinstance(task.get_coro(), event_loop._InTurns)


def test_a_loop_that_has_a_factory_and_threads_of_its_own_keeps_them(loop: Loop) -> None:
    with ThreadPoolExecutor(1) as threads:
        loop.set_task_factory(lambda loop, coroutine, **more: asyncio.Task(coroutine, loop=loop))
        loop.set_default_executor(threads)
        factory = loop.get_task_factory()
        pump = event_loop.Pump(loop)

        assert pump.loop.get_task_factory() is factory
        assert loop.run_until_complete(asyncio.to_thread(lambda: 7)) == 7
        assert threads._threads


def test_the_loop_is_not_stopped_where_it_is_not_ours_to_stop(loop: Loop) -> None:
    pump = event_loop.Pump(loop)
    pump.stop()  # nobody runs it
    from_elsewhere = threading.Thread(target=pump.stop)
    from_elsewhere.start()
    from_elsewhere.join()

    assert loop.run_until_complete(asyncio.sleep(0, "to its end")) == "to its end"


def test_a_gate_that_nobody_waits_at_any_more_is_left(loop: Loop) -> None:
    pump = event_loop.Pump(loop)
    left, waited = pump.gate(), pump.gate()
    left.cancel()
    pump.breathe()

    assert left.cancelled()
    assert waited.done()
    assert pump.gates == []


def test_a_coroutine_that_was_cancelled_before_its_first_step_is_closed(loop: Loop) -> None:
    coroutines: list[Any] = []

    async def never() -> None:
        raise AssertionError("it began")

    def of_trial(thread: TrialThread) -> None:
        thread.cancelled = True
        coroutines.append(never())
        try:
            TrialRunner(thread, loop).run(coroutines[0])
        finally:
            thread.cancelled = thread.is_void = False  # else the trial has no outcome

    case = Case("test_it", of_trial)
    run(bench(case), case)

    assert getcoroutinestate(coroutines[0]) == CORO_CLOSED


def test_an_exit_before_anything_is_waited_for_is_kept_for_the_trial(loop: Loop) -> None:
    def of_trial(thread: TrialThread) -> None:
        runner = TrialRunner(thread, loop)
        runner.leave(SystemExit("enough"))
        with pytest.raises(SystemExit, match="enough"):
            runner.close()

    case = Case("test_it", of_trial)
    run(bench(case), case)

    assert case.have_ended()


def test_tasks_of_a_trial_that_has_ended_run_without_its_state(loop: Loop) -> None:
    async def body(_: TrialRunner) -> None:
        os.environ["OF_TRIAL"] = "yes"
        left.append(asyncio.create_task(look()))

    async def look() -> str:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            while not has_ended:
                await asyncio.sleep(0.001)
            await asyncio.sleep(0)
        return os.environ.get("OF_TRIAL", "no")

    left: list[asyncio.Task[str]] = []
    has_ended: list[bool] = []
    case = Case("test_it", on(loop, body))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_loop, "GRACE", 0.05)
        run(bench(case), case)
    has_ended.append(True)

    assert loop.run_until_complete(left[0]) == "no"


def test_a_coroutine_in_turns_can_be_looked_at_awaited_and_closed(loop: Loop) -> None:
    async def body(runner: TrialRunner) -> None:
        async def seven() -> int:
            return 7

        inner = seven()
        in_turns = event_loop._InTurns(inner, runner)
        assert in_turns.cr_code is inner.cr_code
        assert await in_turns == 7
        closed = seven()
        event_loop._InTurns(closed, runner).close()
        assert getcoroutinestate(closed) == CORO_CLOSED

    case = Case("test_it", on(loop, body))
    run(bench(case), case)

    assert case.have_ended()
