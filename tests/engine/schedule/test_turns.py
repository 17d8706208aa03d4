"""The state of the process at each turn, and the nodes of pytest in it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.install import imports_of_gate
from pytest_llmeval.engine.trial.event_loop import TrialRunner
from pytest_llmeval.engine.trial_thread import TrialThread
from tests.engine.schedule.bench import Case, Node, bench, run
from tests.engine.schedule.test_loop import on
from tests.engine.schedule.test_waiting import PATIENCE, alone


def test_what_a_late_wider_fixture_changes_is_there_for_all() -> None:
    barrier, seen = threading.Barrier(2), []

    def sets_up(thread: TrialThread) -> None:
        thread.wait(lambda: barrier.wait(PATIENCE))
        with scheduler.turns.setting_up_shared(thread):
            os.environ["WIDE"] = "yes"
            assert not thread.may_be_detached
        seen.append(os.environ["WIDE"])
        thread.wait(lambda: barrier.wait(PATIENCE))

    def other(thread: TrialThread) -> None:
        for _ in range(2):
            thread.wait(lambda: barrier.wait(PATIENCE))
        seen.append(os.environ["WIDE"])

    case = Case("test_it", sets_up, other)
    scheduler = bench(case)
    try:
        run(scheduler, case)
        seen.append(os.environ["WIDE"])
    finally:
        os.environ.pop("WIDE", None)

    assert seen == ["yes"] * 3


def test_a_serial_trial_sets_a_late_fixture_up_as_any_test_does() -> None:
    def body(thread: TrialThread) -> None:
        with scheduler.turns.setting_up_shared(thread):
            assert thread.holding == 0

    case = Case("test_it", body, serial="a reason")
    scheduler = bench(case)
    run(scheduler, case)

    assert case.have_ended()


@pytest.mark.parametrize("serial", ["", "a reason"])
def test_the_fixtures_of_a_trial_that_leaves_in_the_middle_end(serial: str) -> None:
    ended: list[Any] = []

    def body(_: TrialThread) -> None:
        nodes.stack = {**nodes.stack, case.running[0].clone: ([], None)}
        raise pytest.exit.Exception("enough")

    case = Case("test_it", body, serial=serial)
    scheduler: Any = bench(case)
    nodes = scheduler.turns._state
    nodes.teardown_exact = ended.append
    with pytest.raises(pytest.exit.Exception, match="enough"):
        run(scheduler, case)

    assert ended == [case.item]
    assert nodes.stack == {}


def test_a_trial_shares_the_active_nodes_above_its_item_up_to_the_first_that_is_not() -> None:
    case = Case("test_it", lambda _: None)
    scheduler: Any = bench(case)
    above, not_active, below = Node("session"), Node("module"), Node("class")
    case.item.listchain = lambda: [above, not_active, below, case.item]  # type: ignore[method-assign]
    entries: Any = {above: ([], None), below: ([], None)}

    assert scheduler.turns._nodes_of(case.item, entries) == {above: entries[above]}


@pytest.mark.parametrize("step", ["put_on", "take_off"])
def test_state_that_cannot_be_swapped_is_the_failure_of_its_trial(step: str) -> None:
    """And nobody waits for its turn in vain."""

    def fails(thread: TrialThread) -> None:
        plain = getattr(scheduler.turns.process, step)

        def broken(state: Any) -> None:
            setattr(scheduler.turns.process, step, plain)
            plain(state)
            raise OSError("the folder is gone")

        def ends_with_it(state: Any) -> None:
            (broken if state is thread.context else plain)(state)

        setattr(scheduler.turns.process, step, ends_with_it)
        thread.wait(lambda: None)
        assert isinstance(thread.failure, OSError)

    case = Case("test_it", fails, lambda thread: thread.wait(lambda: None))
    scheduler: Any = bench(case)
    run(scheduler, case)

    assert case.have_ended()


def test_a_step_within_the_turn_of_its_own_trial_swaps_nothing() -> None:
    def body(thread: TrialThread) -> None:
        before = thread.context
        with thread.baton.turn(thread):
            assert thread.context is before

    alone(body)


def test_a_step_of_one_trial_in_the_turn_of_another_puts_that_one_s_state_back() -> None:
    """As where a trial runs the loop by itself."""
    barrier, threads = threading.Barrier(2), list[TrialThread]()

    def waits(thread: TrialThread) -> None:
        threads.append(thread)
        os.environ["OF_TRIAL"] = "waits"
        thread.wait(lambda: (barrier.wait(PATIENCE), barrier.wait(PATIENCE)))
        assert os.environ["OF_TRIAL"] == "waits"

    def runs_a_step(thread: TrialThread) -> None:
        os.environ["OF_TRIAL"] = "runs"
        thread.wait(lambda: barrier.wait(PATIENCE))
        with thread.baton.turn(threads[0]):
            assert os.environ["OF_TRIAL"] == "waits"
        assert os.environ["OF_TRIAL"] == "runs"
        barrier.wait(PATIENCE)

    case = Case("test_it", waits, runs_a_step)
    run(bench(case), case)

    assert "OF_TRIAL" not in os.environ


def test_a_trial_that_comes_back_while_another_is_alone_is_put_off() -> None:
    order: list[str] = []
    has_begun, is_alone, has_come = threading.Event(), threading.Event(), threading.Event()

    def calls(thread: TrialThread) -> None:
        has_begun.set()
        thread.wait(lambda: (is_alone.wait(PATIENCE), has_come.set()))
        order.append("other")

    async def swaps(runner: TrialRunner) -> None:
        while not has_begun.is_set():  # none begins beside one that is alone
            await asyncio.sleep(0.001)
        thread, plain = runner._trial, runner._trial.patches
        swapped: Any = SimpleNamespace(held_for="a clock")
        thread.patches = swapped
        await asyncio.sleep(0)
        is_alone.set()
        while not has_come.is_set() or not thread.baton.holds_back:
            await asyncio.sleep(0.001)
        order.append("alone")
        thread.patches = plain

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        case = Case("test_it", on(runner.get_loop(), swaps), calls)
        run(bench(case), case)

    assert order == ["alone", "other"]


def test_one_that_ends_with_what_it_has_swapped_is_alone_no_more() -> None:
    async def swaps(runner: TrialRunner) -> None:
        swapped: Any = SimpleNamespace(held_for="a clock", places={}, mocks=0)
        runner._trial.patches = swapped
        await asyncio.sleep(0)
        assert runner._trial.baton.only is runner._trial

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
        case = Case("test_it", on(runner.get_loop(), swaps), lambda thread: thread.wait(int))
        scheduler: Any = bench(case)
        run(scheduler, case)

    assert scheduler._baton.only is None
    assert case.serial == "a clock"


def test_where_a_trial_has_swapped_something_its_function_runs_serially_from_then_on() -> None:
    def swaps(thread: TrialThread) -> None:
        thread.swapped = "a clock"

    case = Case("test_it", swaps, lambda _: None)
    run(bench(case, limit=1), case)

    assert case.serial == "a clock"


def test_a_gate_that_is_loaded_ahead_is_that_of_the_session() -> None:
    config: Any = SimpleNamespace(option=SimpleNamespace(llm_baseline="main"))
    for load in imports_of_gate(config):
        load()

    assert "pytest_llmeval.gate.compare" in sys.modules
