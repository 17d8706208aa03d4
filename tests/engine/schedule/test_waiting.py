"""What a trial does about the baton: it waits, keeps it, lets go of it, or takes it again."""

from __future__ import annotations

import asyncio
import os
import threading
import uuid
from collections.abc import Callable
from functools import partial
from itertools import chain, repeat
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.baton import check_in, running_beside, waiting
from pytest_llmeval.engine.stall import StallWatch
from pytest_llmeval.engine.threads import PooledThread, Result, Threads
from pytest_llmeval.engine.trial.event_loop import TrialRunner
from pytest_llmeval.engine.trial_thread import BLOCKING_IN_ASYNC, SERIAL_MODEL, TrialThread
from tests.engine.schedule.bench import Body, Case, bench, run

PATIENCE = 300.0  # seconds


def alone(body: Body, *others: Body, **options: Any) -> None:
    """Run a trial, and others beside it."""
    case = Case("test_it", body, *others, **options)
    run(bench(case), case)
    assert case.have_ended()


# --- waiting -----------------------------------------------------------------------------------


def test_waiting_lets_others_run() -> None:
    barrier = threading.Barrier(2)
    alone(*[lambda _: waiting(barrier.wait, timeout=PATIENCE)] * 2)


def test_waiting_is_a_plain_call_where_no_trial_runs() -> None:
    assert waiting(int, "7", base=8) == 7
    assert running_beside() is None
    check_in(to_patch=True)


def test_waiting_is_a_plain_call_for_a_trial_that_has_patched_something() -> None:
    def body(_: TrialThread) -> None:
        os.environ["PATCHED"] = "yes"
        assert waiting(threading.current_thread) is threading.current_thread()
        del os.environ["PATCHED"]
        assert waiting(threading.current_thread) is not threading.current_thread()

    alone(body)


def test_a_call_that_needs_what_was_patched_keeps_the_baton() -> None:
    def body(thread: TrialThread) -> None:
        thread.patches = SimpleNamespace(held_for="a clock", places={})  # type: ignore[assignment]
        assert thread.wait(threading.current_thread) is threading.current_thread()
        assert (thread.held_for, thread.swapped) == ("a clock", "a clock")
        assert not thread.may_be_detached
        thread.patches = None

    alone(body)


def test_a_model_that_is_serial_keeps_the_baton() -> None:
    def body(thread: TrialThread) -> None:
        assert thread.wait(threading.current_thread, serial=True) is threading.current_thread()
        assert thread.held_for == SERIAL_MODEL

    alone(body)


def test_a_call_within_one_that_keeps_the_baton_keeps_it_too() -> None:
    def body(thread: TrialThread) -> None:
        def outer() -> object:
            assert not thread.may_be_detached
            return thread.wait(threading.current_thread)

        assert thread.wait(outer, serial=True) is threading.current_thread()

    alone(body)


def test_a_thread_of_the_test_does_not_give_the_baton_of_its_trial_away() -> None:
    def body(thread: TrialThread) -> None:
        asked = []
        own = threading.Thread(target=lambda: asked.append(thread.wait(lambda: "yes")))
        own.start()
        own.join()
        assert asked == ["yes"]

    alone(body)


def test_a_call_that_blocks_on_the_loop_is_told() -> None:
    def body(thread: TrialThread) -> None:
        async def asks() -> None:
            thread.wait(lambda: None)

        TrialRunner(thread, loop).run(asks())
        assert thread.held_for == BLOCKING_IN_ASYNC

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        loop = runner.get_loop()
        alone(body)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_in_a_forked_child_nobody_takes_the_baton() -> None:
    def body(thread: TrialThread) -> None:
        child = os.fork()
        if not child:
            thread.wait(lambda: None)
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7

    alone(body)


def test_a_trial_tells_how_long_it_has_waited_for_its_turn() -> None:
    def body(thread: TrialThread) -> None:
        assert not thread.waits_for_turn()
        seen = []

        def ready_and_look() -> None:
            thread.baton.put(thread)
            seen.append(thread.waits_for_turn())

        thread.suspend(ready_and_look)
        assert seen == [True]

    alone(body)


def test_a_trial_of_a_function_that_blocks_runs_free_again_after_a_call() -> None:
    def body(thread: TrialThread) -> None:
        thread.left_setup = True
        thread.baton.blocking.add(("test_it", True))
        with thread.in_test():
            for _ in range(2):
                assert thread.is_beside
                assert running_beside() is thread
                thread.wait(lambda: None)
            check_in()
            assert not thread.is_beside

    alone(body)


def test_what_another_trial_swapped_is_not_that_of_one_that_runs_free() -> None:
    runs_free, has_swapped = threading.Event(), threading.Event()

    def calls(thread: TrialThread) -> None:
        thread.left_setup = True
        thread.baton.blocking.add(("test_it", True))
        with thread.in_test():
            assert thread.is_beside
            runs_free.set()
            has_swapped.wait(PATIENCE)
            thread.wait(lambda: None)
        assert (thread.swapped, thread.held_for) == ("", "")

    def swaps(thread: TrialThread) -> None:
        runs_free.wait(PATIENCE)
        plain = uuid.uuid4
        uuid.uuid4 = partial(plain)
        has_swapped.set()
        while not thread.baton.ready:  # until the other one asks for the baton
            os.sched_yield()
        uuid.uuid4 = plain

    alone(calls, swaps)


def test_a_trial_in_teardown_does_not_run_free() -> None:
    def body(thread: TrialThread) -> None:
        thread.left_setup = thread.in_teardown = True
        thread.baton.blocking.add(("test_it", True))
        with thread.in_test():
            assert not thread.is_beside

    alone(body)


def test_whoever_is_about_to_patch_takes_the_baton_again_and_is_alone() -> None:
    def body(thread: TrialThread) -> None:
        thread.left_setup = True
        thread.baton.blocking.add(("test_it", True))
        with thread.in_test():
            assert thread.is_beside
            check_in(to_patch=True)
            assert not thread.is_beside
            assert not thread.baton.beside

    alone(body)


def test_a_trial_in_teardown_is_not_cancelled_where_it_comes_by() -> None:
    def body(thread: TrialThread) -> None:
        thread.left_setup = True
        thread.baton.blocking.add(("test_it", True))
        with thread.in_test():
            thread.in_teardown = thread.cancelled = True
            check_in()
        thread.cancelled = False

    alone(body)


def test_at_ctrl_c_even_one_that_has_patched_loses_the_baton() -> None:
    def body(thread: TrialThread) -> None:
        os.environ["PATCHED"] = "yes"
        assert not thread.may_be_detached
        assert thread.lose_baton(None)
        thread.baton.beside.discard(thread)
        thread.is_beside = False
        del os.environ["PATCHED"]

    alone(body)


def test_one_that_must_keep_the_baton_is_not_said_to_block() -> None:
    def body(thread: TrialThread) -> None:
        def blocks() -> None:
            assert not thread.lose_baton(3600.0)

        thread.wait(blocks, serial=True)
        assert not thread.baton.blocking

    alone(body)


@pytest.mark.parametrize("clean", range(4))
def test_one_that_patches_while_it_is_looked_at_is_detached_with_no_patch(clean: int) -> None:
    def body(thread: TrialThread) -> None:
        looks = chain((True,) * clean, repeat(False))
        is_plain, thread.baton.is_plain = thread.baton.is_plain, lambda: next(looks)
        lost = thread.lose_baton(0.3)
        thread.baton.is_plain = is_plain
        thread.baton.beside.discard(thread)
        thread.is_beside = False
        assert not thread.saw_others
        assert lost is (clean > 1)  # it is looked at twice, the second time last of all

    alone(body)


def test_what_a_trial_saw_of_others_is_not_forgotten_while_it_blocks() -> None:
    def body(thread: TrialThread) -> None:
        thread.saw_others = True
        os.environ["PATCHED"] = "yes"
        assert not thread.lose_baton(0.3)
        del os.environ["PATCHED"]
        assert thread.saw_others

    alone(body)


def test_what_blocks_at_the_end_of_a_trial_lets_no_body_run_free() -> None:
    def body(thread: TrialThread) -> None:
        thread.left_setup = thread.in_teardown = True
        with thread.in_test():
            assert thread.lose_baton(0.3)
            assert not thread.baton.blocking

    alone(body)


# --- stalls and threads --------------------------------------------------------------------------


class Clocks:
    """The clocks of a thread, and what the system says of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.busy = 0.0
        self.wants_core: bool | None = False
        monkeypatch.setattr("pytest_llmeval.engine.stall.monotonic", lambda: self.passed)
        monkeypatch.setattr("pytest_llmeval.engine.stall.clock_gettime", lambda _: self.busy)
        thread: Any = SimpleNamespace(clock=1, native_id=1)
        self.watch = StallWatch(thread)
        self.watch._wants_core = lambda: self.wants_core  # type: ignore[method-assign]

    def looks(self, count: int, *, passed: float = StallWatch.PERIOD, busy: float = 0.0) -> bool:
        is_stalled = False
        for _ in range(count):
            self.passed += passed
            self.busy += busy
            is_stalled = self.watch.look()
        return is_stalled


@pytest.fixture
def clocks(monkeypatch: pytest.MonkeyPatch) -> Clocks:
    return Clocks(monkeypatch)


def test_a_clock_that_stands_still_for_five_looks_is_stalled(clocks: Clocks) -> None:
    assert not clocks.looks(StallWatch.CHECKS)  # the first has nothing to compare with
    assert clocks.looks(1)
    assert clocks.watch.seconds == pytest.approx(StallWatch.CHECKS * StallWatch.PERIOD)


def test_a_body_that_polls_is_stalled_and_one_that_works_is_not(clocks: Clocks) -> None:
    assert clocks.looks(9, busy=0.05 * StallWatch.PERIOD)
    assert not clocks.looks(9, busy=0.5 * StallWatch.PERIOD)


def test_a_thread_that_only_waits_for_a_core_is_not_stalled(clocks: Clocks) -> None:
    clocks.wants_core = True
    assert not clocks.looks(9)


def test_where_the_system_does_not_say_a_late_look_does_not_count(clocks: Clocks) -> None:
    clocks.wants_core = None
    assert not clocks.looks(9, passed=3 * StallWatch.PERIOD)
    assert clocks.looks(9)


def test_a_thread_without_a_clock_or_that_has_ended_is_never_stalled() -> None:
    thread: Any = SimpleNamespace(clock=None, native_id=-1)
    watch = StallWatch(thread)

    assert not any(watch.look() for _ in range(9))
    assert watch._wants_core() is None


def test_a_thread_that_has_just_ended_is_not_stalled(monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: int) -> float:
        raise OSError

    monkeypatch.setattr("pytest_llmeval.engine.stall.clock_gettime", gone)
    thread: Any = SimpleNamespace(clock=1, native_id=-1)

    assert not StallWatch(thread).look()


def test_threads_are_used_again() -> None:
    threads, used = Threads(), []
    for _ in range(3):
        done = threading.Event()

        def job(done: threading.Event = done) -> None:
            used.append(threading.current_thread())
            done.set()

        threads.run(job)
        done.wait(PATIENCE)
        while not threads._idle:  # it is put back after its job
            os.sched_yield()

    assert len(set(used)) == 1
    assert isinstance(used[0], PooledThread)
    assert used[0].holder is None


def test_where_threads_have_no_clock_of_their_own_none_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr("time.pthread_getcpuclockid", raising=False)
    threads, done = Threads(), threading.Event()
    threads.run(done.set)
    assert done.wait(PATIENCE)
    while not threads._idle:
        os.sched_yield()

    assert threads._idle[0].clock is None


@pytest.mark.parametrize("function", [lambda: 7, lambda: int("no")])
def test_a_result_is_what_the_function_returned_or_raised(function: Callable[[], int]) -> None:
    result: Result[int] = Result()
    result.keep(function)

    try:
        expected = function()
    except ValueError:
        with pytest.raises(ValueError, match="no"):
            result.get()
    else:
        assert result.get() == expected
