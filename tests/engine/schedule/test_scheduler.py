"""Which trial is next, and what becomes of those that block, fail or are not wanted any more."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest

from pytest_llmeval.engine import trial_thread
from pytest_llmeval.engine.schedule import scheduler as module
from pytest_llmeval.engine.stall import StallWatch
from pytest_llmeval.engine.trial_thread import (
    BLOCKING_AND_PATCHING,
    TrialCancelled,
    TrialThread,
)
from tests.engine.schedule.bench import Body, Case, Node, bench, run

PATIENCE = 300.0  # seconds


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the baton soon from trials that make no progress."""
    monkeypatch.setattr(StallWatch, "PERIOD", 0.005)


def nothing(_: TrialThread) -> None:
    """End at once."""


def met(barrier: threading.Barrier) -> Body:
    """Wait for the other trials, which have to be in flight for that."""
    return lambda thread: thread.wait(lambda: barrier.wait(PATIENCE))


# --- who is next ------------------------------------------------------------------------------


def test_all_trials_are_in_flight_while_they_wait_and_one_at_a_time_runs() -> None:
    barrier, inside, most = threading.Barrier(8), [], []

    def body(thread: TrialThread) -> None:
        for _ in range(3):
            inside.append(thread)
            most.append(len(inside))
            inside.remove(thread)
            thread.wait(lambda: barrier.wait(PATIENCE))

    case = Case("test_it", *[body] * 8)
    scheduler = bench(case)
    run(scheduler, case)

    assert set(most) == {1}
    assert len(case.calls) == 8
    assert scheduler.progress().done == 8
    assert scheduler.progress().in_flight == 0


def test_no_more_trials_than_the_limit_are_in_flight() -> None:
    three, seen = threading.Barrier(3), []

    def body(thread: TrialThread) -> None:
        thread.wait(lambda: three.wait(PATIENCE))
        seen.append(scheduler.progress().in_flight)

    case = Case("test_it", *[body] * 9)
    scheduler = bench(case, limit=3)
    run(scheduler, case)

    assert max(seen) <= 3


def test_a_case_that_may_overlap_starts_before_its_turn() -> None:
    barrier = threading.Barrier(4)
    cases = [Case(f"test_{name}", met(barrier), met(barrier)) for name in "ab"]
    run(bench(*cases), *cases)

    assert [case.have_ended() for case in cases] == [True, True]


@pytest.mark.parametrize(
    "later",
    [{"serial": "a reason"}, {"signature": "another"}, {"is_set_up": False}],
    ids=["serial", "another signature", "no wider fixtures yet"],
)
def test_a_case_that_may_not_overlap_waits_for_its_turn(later: dict[str, Any]) -> None:
    order: list[str] = []
    first = Case("first", lambda thread: thread.wait(lambda: order.append("first")))
    second = Case("second", lambda _: order.append("second"), **later)
    third = Case("third", lambda _: order.append("third"))
    run(bench(first, second, third), first, second, third)

    assert order == ["first", "second", "third"]


def test_no_case_starts_early_where_a_failure_may_end_the_session() -> None:
    order: list[str] = []
    first = Case("first", lambda thread: thread.wait(lambda: order.append("first")))
    second = Case("second", lambda _: order.append("second"))
    run(bench(first, second, maxfail=1), first, second)

    assert order == ["first", "second"]


def test_a_serial_case_runs_in_the_thread_of_the_session() -> None:
    threads = []

    def body(thread: TrialThread) -> None:
        threads.append(threading.current_thread())
        assert scheduler.inline is not None
        assert scheduler.inline.thread is thread
        thread.wait(lambda: threads.append(threading.current_thread()))

    case = Case("test_it", body, body, serial="a reason")
    scheduler = bench(case)
    run(scheduler, case)

    assert set(threads) == {threading.current_thread()}
    assert scheduler.inline is None


def test_a_serial_trial_that_raises_leaves_the_session_as_it_was() -> None:
    def body(_: TrialThread) -> None:
        raise KeyboardInterrupt

    case = Case("test_it", body, serial="a reason")
    scheduler = bench(case)

    with pytest.raises(KeyboardInterrupt):
        run(scheduler, case)

    assert scheduler.inline is None
    assert case.calls == {}


def test_what_is_waited_for_may_come_before_the_end() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def body(thread: TrialThread) -> None:
        begun.set()
        thread.wait(lambda: go_on.wait(PATIENCE))

    case = Case("test_it", body)
    scheduler: Any = bench(case)
    scheduler.run(case, until=begun.is_set)
    assert case.calls == {}
    go_on.set()
    run(scheduler, case)

    assert case.have_ended()


def test_the_environment_and_the_folder_of_a_trial_are_its_own(tmp_path: Any) -> None:
    barrier = threading.Barrier(3)

    def body(thread: TrialThread) -> None:
        folder = tmp_path / str(id(thread))
        folder.mkdir()
        os.environ["OF_TRIAL"] = str(folder)
        os.chdir(folder)
        for _ in range(2):
            thread.wait(lambda: barrier.wait(PATIENCE))
            assert os.environ["OF_TRIAL"] == os.getcwd() == str(folder)  # noqa: PTH109

    before = os.getcwd()  # noqa: PTH109
    case = Case("test_it", body, body, body)
    run(bench(case), case)

    assert case.have_ended()
    assert "OF_TRIAL" not in os.environ
    assert os.getcwd() == before  # noqa: PTH109


# --- those that block -------------------------------------------------------------------------


@pytest.mark.usefixtures("eager")
def test_a_trial_that_blocks_is_detached_and_its_function_runs_free_from_then_on() -> None:
    opened, threads = threading.Event(), []

    def blocks(thread: TrialThread) -> None:
        threads.append(thread)
        thread.left_setup = True
        with thread.in_test():
            opened.wait(PATIENCE)

    def opens(thread: TrialThread) -> None:
        threads.append(thread)
        thread.left_setup = True
        with thread.in_test():  # without the baton
            assert thread.is_beside
            opened.set()
        assert not thread.is_beside

    case = Case("test_it", blocks, opens)
    run(bench(case, limit=2), case)

    assert [thread.was_detached for thread in threads] == [True, False]


@pytest.mark.usefixtures("eager")
def test_a_trial_that_was_detached_to_its_end_counts() -> None:
    opened = threading.Event()
    case = Case("test_it", lambda _: opened.wait(PATIENCE), lambda _: opened.set())
    run(bench(case), case)

    assert case.have_ended()


@pytest.mark.usefixtures("eager")
def test_a_trial_that_has_patched_keeps_the_baton_while_it_blocks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened, order = threading.Event(), []
    lose = TrialThread.lose_baton

    def noticed(thread: TrialThread, stalled: float | None) -> bool:
        is_lost = lose(thread, stalled)
        if thread.held_for:
            opened.set()
        return is_lost

    monkeypatch.setattr(TrialThread, "lose_baton", noticed)

    def blocks(thread: TrialThread) -> None:
        os.environ["PATCHED"] = "yes"
        opened.wait(PATIENCE)
        order.append("blocks")
        assert not thread.was_detached
        assert thread.held_for == BLOCKING_AND_PATCHING
        del os.environ["PATCHED"]

    case = Case("test_it", blocks, lambda _: order.append("other"))
    run(bench(case), case)

    assert order == ["blocks", "other"]


@pytest.mark.usefixtures("eager")
def test_a_deadlock_of_trials_that_patch_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has patched something waits for what another one has, which waits for it."""
    monkeypatch.setattr(module, "LONGEST_BLOCK", 0.05)
    opened, threads = threading.Event(), []

    def blocks(thread: TrialThread) -> None:
        threads.append(thread)
        opened.wait(PATIENCE)

    def patches(thread: TrialThread) -> None:
        threads.append(thread)
        while not thread.baton.beside:  # until the other one was detached
            thread.wait(lambda: None)
        thread.wait_for_others()
        opened.set()

    case = Case("test_it", blocks, patches)
    run(bench(case), case)

    assert any(thread.saw_others for thread in threads)


@pytest.mark.usefixtures("eager")
def test_a_deadlock_with_one_that_waits_to_be_alone_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has patched nothing keeps the baton then, too, and waits for what that one has."""
    for owner in (module, trial_thread):
        monkeypatch.setattr(owner, "LONGEST_BLOCK", 0.05)
    runs_free, blocks, opened = (threading.Event() for _ in range(3))

    def free(thread: TrialThread) -> None:
        thread.left_setup = True
        with thread.in_test():
            runs_free.set()
            assert blocks.wait(PATIENCE)

    def patches(thread: TrialThread) -> None:
        thread.wait(lambda: runs_free.wait(PATIENCE))
        thread.wait_for_others()
        opened.set()

    def wants_what_that_one_has(thread: TrialThread) -> None:
        while not (thread.baton.holds_back or opened.is_set()):  # the latter on a busy machine
            thread.wait(lambda: None)
        blocks.set()
        assert opened.wait(PATIENCE)

    cases = [Case("free", free), Case("patches", patches), Case("wants", wants_what_that_one_has)]
    scheduler: Any = bench(*cases)
    scheduler._baton.blocking.add(("free", True))
    run(scheduler, *cases)

    assert all(case.have_ended() for case in cases)


def test_one_that_is_about_to_patch_waits_for_those_that_run_beside() -> None:
    order: list[str] = []

    def runs_free(thread: TrialThread) -> None:
        thread.left_setup = True
        with thread.in_test():
            assert thread.is_beside
            is_waiting.wait(PATIENCE)
            order.append("ran free")

    def patches(thread: TrialThread) -> None:
        is_waiting.set()
        thread.wait_for_others()
        order.append("alone")

    is_waiting = threading.Event()
    case, other = Case("free", runs_free), Case("patches", patches)
    scheduler: Any = bench(case, other)
    scheduler._baton.blocking.add(("free", True))
    run(scheduler, case, other)

    assert order == ["ran free", "alone"]


# --- those that are not wanted any more, or leave ----------------------------------------------


def test_trials_in_flight_are_cancelled_where_they_wait() -> None:
    begun, never, raised = threading.Barrier(4), threading.Event(), []

    def body(thread: TrialThread) -> None:
        try:
            thread.wait(lambda: (begun.wait(PATIENCE), never.wait(PATIENCE)))
        except TrialCancelled:
            raised.append(thread)
            with pytest.raises(Exception, match="cancelled"):  # in its teardown
                thread.wait(lambda: None)
            raise

    case = Case("test_it", *[body] * 3, met(begun))
    scheduler: Any = bench(case)
    scheduler.run(case, until=lambda: 3 in case.calls)
    scheduler.cancel()
    never.set()

    assert len(raised) == 3
    assert case.running == {}
    assert scheduler.progress().in_flight == 0


def test_only_the_trials_of_a_case_are_cancelled() -> None:
    never, begun = threading.Event(), []

    def body(thread: TrialThread) -> None:
        begun.append(thread)
        thread.wait(lambda: never.wait(PATIENCE))

    one, other = Case("one", body), Case("other", body)
    scheduler: Any = bench(one, other)
    scheduler.run(one, until=lambda: len(begun) == 2)
    scheduler.cancel(other.item)
    assert (len(one.running), len(other.running)) == (1, 0)
    never.set()
    run(scheduler, one)

    assert one.have_ended()


def test_what_is_abandoned_is_in_flight_no_more() -> None:
    never, begun = threading.Event(), threading.Event()

    def body(thread: TrialThread) -> None:
        begun.set()
        thread.wait(lambda: never.wait(PATIENCE))

    case = Case("test_it", body)
    scheduler: Any = bench(case)
    scheduler.run(case, until=begun.is_set)
    scheduler.abandon()
    never.set()

    assert scheduler.progress().in_flight == 0


@pytest.mark.usefixtures("eager")
def test_a_detached_trial_that_is_cancelled_and_ends_in_time_has_no_outcome() -> None:
    opened, other = threading.Event(), threading.Event()

    def blocks(thread: TrialThread) -> None:
        while not thread.cancelled:
            opened.wait(0.001)

    case = Case("test_it", blocks, lambda _: other.set())
    scheduler: Any = bench(case)
    scheduler.run(case, until=other.is_set)
    (thread,) = scheduler._flight
    thread.is_void = True
    scheduler.cancel()

    assert case.running == {}
    assert 0 not in case.calls


def test_a_call_that_comes_back_for_one_that_is_not_in_flight_any_more_is_left() -> None:
    stray: Any = type("Stray", (), {"done": True, "cancelled": False})()
    case = Case("test_it", lambda thread: thread.wait(lambda: None))
    scheduler: Any = bench(case)
    scheduler._baton.put(stray)
    run(scheduler, case)

    assert case.have_ended()
    assert not scheduler._baton.ready


def test_one_that_is_held_back_hears_that_it_is_cancelled() -> None:
    swaps, heard = threading.Event(), []

    def runs_free(thread: TrialThread) -> None:
        thread.left_setup = True
        try:
            with thread.in_test():
                swaps.wait(PATIENCE)
        finally:
            heard.append(thread.cancelled)

    def is_the_only_one(thread: TrialThread) -> None:
        thread.baton.keep_to(thread)
        swaps.set()
        while True:
            thread.wait(lambda: None)

    def interrupt() -> float:
        if scheduler._baton.holds_back:
            raise KeyboardInterrupt
        return 0.001

    cases = Case("free", runs_free), Case("only", is_the_only_one)
    scheduler: Any = bench(*cases)
    scheduler._baton.blocking.add(("free", True))
    scheduler.show = interrupt
    with pytest.raises(KeyboardInterrupt):
        run(scheduler, *cases)
    scheduler.cancel()

    assert heard == [True]


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("comes_back", ["before", "after"])
def test_one_that_blocks_at_its_end_is_woken_by_no_reply_that_came_before(comes_back: str) -> None:
    """Else it would go on, when it comes by, beside whoever has the baton then."""
    has_come, opened, ended = threading.Event(), threading.Event(), []

    def replied(thread: TrialThread) -> None:
        try:
            thread.wait(lambda: comes_back == "before" or has_come.wait(PATIENCE))
        finally:
            thread.in_teardown = True
            threading.Timer(0.2, opened.set).start()
            has_come.set()
            opened.wait(PATIENCE)  # it is detached
            thread.check_in()
            ended.append(thread.baton._holder is thread)

    def has_the_baton(thread: TrialThread) -> None:
        while comes_back == "before" and not thread.baton.ready:
            pass
        thread.baton.is_wanted = True

    case = Case("test_it", replied, has_the_baton)
    scheduler: Any = bench(case)
    scheduler.run(case, until=lambda: 1 in case.calls)
    scheduler.cancel()

    assert ended == [True]


def test_one_that_ends_by_ctrl_c_of_its_own_keeps_no_other_from_its_end() -> None:
    never, ended = threading.Event(), []

    def interrupted(thread: TrialThread) -> None:
        try:
            thread.wait(lambda: never.wait(PATIENCE))
        finally:
            ended.append(thread)
            raise KeyboardInterrupt

    case = Case("test_it", *[interrupted] * 3)
    scheduler: Any = bench(case)
    scheduler.run(case, until=lambda: len(case.running) == 3)
    scheduler.cancel()
    never.set()

    assert len(ended) == 3
    with pytest.raises(KeyboardInterrupt):
        run(scheduler, case)


def test_a_case_that_is_passed_over_starts_afresh() -> None:
    never = threading.Event()
    case = Case("test_it", lambda thread: thread.wait(lambda: never.wait(PATIENCE)))
    scheduler: Any = bench(case)
    scheduler.run(case, until=lambda: bool(case.running))
    scheduler.pass_over(case.item)
    never.set()

    assert (case.begun, case.running) == (0, {})


@pytest.mark.usefixtures("eager")
def test_a_detached_trial_that_does_not_come_by_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "GRACE", 0.05)
    never, other = threading.Event(), threading.Event()
    case = Case("test_it", lambda _: never.wait(PATIENCE), lambda _: other.set())
    scheduler: Any = bench(case)
    scheduler.run(case, until=other.is_set)
    scheduler.cancel()
    never.set()

    assert scheduler.progress().in_flight == 0


def raising(exc: BaseException) -> Body:
    def body(thread: TrialThread) -> None:
        thread.wait(lambda: None)
        raise exc

    return body


def test_an_exit_of_a_trial_ends_the_session_when_its_case_is_in_turn() -> None:
    left = pytest.exit.Exception("enough")
    first = Case("first", lambda thread: thread.wait(lambda: has_left.wait(PATIENCE)))
    second = Case("second", raising(left))
    scheduler: Any = bench(first, second)
    has_left = threading.Event()
    scheduler.show = lambda: 1.0 if not scheduler._escaped else has_left.set() or 1.0
    run(scheduler, first)
    with pytest.raises(pytest.exit.Exception, match="enough"):
        run(scheduler, second)

    assert first.have_ended()


def test_ctrl_c_in_a_trial_ends_the_session_at_once() -> None:
    first = Case("first", raising(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        run(bench(first), first)


def test_what_fails_in_the_bookkeeping_is_raised_in_the_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = Case("test_it", lambda thread: thread.wait(lambda: None))
    scheduler: Any = bench(case)

    def broken(_: object) -> None:
        raise RuntimeError("no more turns")

    monkeypatch.setattr(scheduler.turns, "begin", with_first(scheduler.turns.begin, broken))

    with pytest.raises(RuntimeError, match="no more turns"):
        run(scheduler, case)


def test_what_fails_in_the_thread_of_a_trial_is_raised_in_the_session() -> None:
    def show() -> float:
        if threading.current_thread() is not here:
            raise RuntimeError("no more display")
        return 1.0

    here = threading.current_thread()
    case = Case("test_it", *[lambda thread: thread.wait(lambda: None)] * 2)
    scheduler: Any = bench(case)
    scheduler.show = show

    with pytest.raises(RuntimeError, match="no more display"):
        run(scheduler, case)


def test_one_that_was_seen_to_already_is_not_seen_to_again() -> None:
    """Ctrl-C may have broken the bookkeeping off."""
    case = Case("test_it", nothing)
    scheduler: Any = bench(case)
    scheduler._left.append(object())
    run(scheduler, case)

    assert case.have_ended()
    assert scheduler._left == []


def with_first(first: Callable[[Any], None], then: Callable[[Any], None]) -> Callable[[Any], None]:
    todo = [first]

    def call(argument: object) -> None:
        (todo.pop() if todo else then)(argument)

    return call


# --- what is shown and loaded meanwhile -----------------------------------------------------------


def test_the_display_keeps_up_with_the_turns() -> None:
    turns: list[object] = []
    case = Case("test_it", *[lambda thread: thread.wait(lambda: None)] * 3)
    scheduler: Any = bench(case)

    def show() -> float:
        turns.append(1)
        return 0.001

    scheduler.show = show
    run(scheduler, case)

    assert len(turns) >= 3


def test_what_is_to_be_done_meanwhile_is_done_while_all_trials_wait() -> None:
    loaded = threading.Event()
    case = Case("test_it", lambda thread: thread.wait(lambda: loaded.wait(PATIENCE)))
    scheduler = bench(case)
    scheduler.meanwhile = [loaded.set]
    run(scheduler, case)

    assert loaded.is_set()


def test_a_node_that_the_session_has_active_is_shared_with_a_trial() -> None:
    case = Case("test_it", nothing)
    scheduler: Any = bench(case)
    wide = Node("module")
    case.item.listchain = lambda: [wide, case.item]  # type: ignore[method-assign]
    entry: Any = ([], None)
    nodes = scheduler.turns._state
    nodes.stack[wide] = entry
    seen = []
    case.bodies = (lambda _: seen.append(nodes.stack[wide]),)
    run(scheduler, case)

    assert seen[0] is entry
