"""The course of a trial: what waits for what in a replay."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.timed_calls import TimedCall
from pytest_llmeval.errors import (
    CallAbandoned,
    Lost,
    ProviderFailed,
    ReplayMiss,
)
from pytest_llmeval.models.attribution import charging, inherited_by_threads, trial_to_charge
from pytest_llmeval.models.calls import CachedCalls, Request
from pytest_llmeval.models.course import PIECE, ROUNDS, SETTLING, Course, OpenCall
from pytest_llmeval.models.waits import watching_waits
from pytest_llmeval.records import Slot
from pytest_llmeval.settings import CacheMode
from tests.models.conftest import CountingTrial, Session

T = TypeVar("T")

SLOW, QUICK = "ab" * 32, "cd" * 32
GRACE = 300.0  # seconds


def asking(key: str, perform: Callable[[Slot], StoredReply]) -> Request:
    return Request(key=key, model="openai/gpt", perform=perform)


def unwanted(_slot: Slot) -> StoredReply:
    raise AssertionError("it is stored")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with inherited_by_threads(), watching_waits(), ThreadPoolExecutor(4) as pool:
        yield pool


class Race:
    """A trial that asks two questions at once; it is asked for the order in which they came."""

    def __init__(self, begin: Callable[..., Session], pool: ThreadPoolExecutor) -> None:
        self._begin = begin
        self._pool = pool

    def run(self, *keys: str, slow: Callable[[Slot], StoredReply] = unwanted) -> list[str]:
        session, trial = self._begin(), CountingTrial(0)
        calls, came = session.calls(trial), []

        def ask(key: str) -> StoredReply:
            reply = calls.call(asking(key, slow if key == SLOW else lambda _: paid_reply(b"quick")))
            came.append(key)
            return reply

        with charging(trial):
            works = [self._pool.submit(ask, key) for key in keys]
        for work in works:
            work.result()
        trial.course.close()
        session.replies.close()
        return came


@pytest.fixture
def race(begin: Callable[..., Session], pool: ThreadPoolExecutor) -> Race:
    return Race(begin, pool)


def test_replies_come_back_in_the_order_in_which_they_came(
    begin: Callable[..., Session], pool: ThreadPoolExecutor, race: Race
) -> None:
    slow_is_asked, quick_is_here = threading.Event(), threading.Event()

    def slow(_slot: Slot) -> StoredReply:
        slow_is_asked.set()
        assert quick_is_here.wait(300)
        return paid_reply(b"slow")

    session, trial = begin(), CountingTrial(0)
    calls = session.calls(trial)
    with charging(trial):
        late = pool.submit(calls.call, asking(SLOW, slow))
        assert slow_is_asked.wait(300)  # or the quick one is over before it begins
        pool.submit(calls.call, asking(QUICK, lambda _: paid_reply(b"quick"))).result()
    quick_is_here.set()
    late.result()
    trial.course.close()
    session.replies.close()

    for keys in ((SLOW, QUICK), (QUICK, SLOW)):
        assert race.run(*keys) == [QUICK, SLOW]


@pytest.fixture(autouse=True)
def _slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """A replay waits for what its trial does, however late that has its turn."""
    monkeypatch.setattr("pytest_llmeval.models.course.GRACE", GRACE)


class TellingCourse(Course):
    """A course that tells when a call has begun."""

    def __init__(self) -> None:
        super().__init__("trial 0")
        self.has_begun = threading.Event()

    def begin(self, *arguments: Any) -> OpenCall:
        opened = super().begin(*arguments)
        self.has_begun.set()
        return opened


def paid_when_both_ask() -> Callable[[Slot], StoredReply]:
    """Make a model whose reply names its slot, and comes once two have asked."""
    both_ask = threading.Barrier(2)

    def paid(slot: Slot) -> StoredReply:
        both_ask.wait(300)
        return paid_reply(str(slot).encode())

    return paid


def test_a_thread_gets_the_reply_that_it_got_in_whatever_order_threads_ask(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    def run(*order: int, perform: Callable[[Slot], StoredReply] = unwanted) -> list[bytes]:
        session, trial, course = begin(), CountingTrial(0), TellingCourse()
        trial.course, turns = course, [threading.Event(), threading.Event()]

        def ask(number: int) -> bytes:
            assert turns[number].wait(300)
            return session.calls(trial).call(asking(SLOW, perform)).body

        with charging(trial):
            works = [pool.submit(ask, number) for number in range(2)]
        for number in order:
            course.has_begun.clear()
            turns[number].set()
            assert course.has_begun.wait(300)
        replies = [work.result() for work in works]
        course.close()
        session.replies.close()
        return replies

    assert run(1, 0, perform=paid_when_both_ask()) == [b"0/1", b"0/0"]
    for order in ((0, 1), (1, 0)):
        assert run(*order) == [b"0/1", b"0/0"]


def test_a_task_gets_the_reply_that_it_got_in_whatever_order_tasks_ask(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    async def run(*order: int, perform: Callable[[Slot], StoredReply] = unwanted) -> list[bytes]:
        session, trial, course = begin(), CountingTrial(0), TellingCourse()
        trial.course, turns = course, [asyncio.Event(), asyncio.Event()]

        async def ask(number: int) -> bytes:
            await turns[number].wait()
            return (await session.calls(trial).call_async(asking(SLOW, perform))).body

        with charging(trial):
            tasks = [asyncio.create_task(ask(number)) for number in range(2)]
        for number in order:
            course.has_begun.clear()
            turns[number].set()
            while not course.has_begun.is_set():
                await asyncio.sleep(0)
        replies = await asyncio.gather(*tasks)
        course.close()
        session.replies.close()
        return replies

    assert asyncio.run(run(1, 0, perform=paid_when_both_ask())) == [b"0/1", b"0/0"]
    for order in ((0, 1), (1, 0)):
        assert asyncio.run(run(*order)) == [b"0/1", b"0/0"]


@pytest.fixture
def late(begin: Callable[..., Session], pool: ThreadPoolExecutor) -> Iterator[Callable[[], bool]]:
    """Return what runs a trial that waits for a reply with a deadline: whether it ran out."""
    has_waited = threading.Event()

    def slow(_slot: Slot) -> StoredReply:
        assert has_waited.wait(300)
        return paid_reply(b"slow")

    def run() -> bool:
        session, trial, course = begin(), CountingTrial(0), TellingCourse()
        trial.course = course
        with charging(trial):
            work = pool.submit(session.calls(trial).call, asking(SLOW, slow))
            assert course.has_begun.wait(300)  # or the wait runs out before there is a call
            try:
                work.result(timeout=0.05)
            except TimeoutError:
                is_late = True
            else:
                is_late = False
        has_waited.set()
        assert work.result().body == b"slow"
        trial.course.close()
        session.replies.close()
        return is_late

    yield run
    has_waited.set()


def test_a_wait_that_ran_out_runs_out_again(late: Callable[[], bool]) -> None:
    assert [late(), late(), late()] == [True] * 3


@pytest.mark.parametrize(("mode", "error"), [("auto", CallAbandoned), ("replay", ReplayMiss)])
def test_a_call_that_a_trial_left_behind_is_given_up_and_not_made_again(
    begin: Callable[..., Session],
    pool: ThreadPoolExecutor,
    mode: CacheMode,
    error: type[Exception],
) -> None:
    has_ended = threading.Event()

    def fail(_slot: Slot) -> StoredReply:
        assert has_ended.wait(300)
        raise ProviderFailed("HTTP 500")

    def leave(session: Session) -> tuple[str | None, Future[StoredReply]]:
        trial, course = CountingTrial(0), TellingCourse()
        trial.course = course
        with charging(trial):
            work = pool.submit(session.calls(trial).call, asking(SLOW, fail))
        assert course.has_begun.wait(300)
        course.close()
        (left,) = trial.calls
        return left.draw, work

    recording, replaying = begin(), begin(mode=mode)
    draw, work = leave(recording)
    has_ended.set()
    assert isinstance(work.exception(), ProviderFailed)
    recording.replies.close()

    again, work = leave(replaying)

    assert isinstance(work.exception(), error)
    assert again == draw


def test_what_comes_after_its_trial_changes_nothing_that_was_recorded(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    has_ended = threading.Event()

    def late(_slot: Slot) -> StoredReply:
        assert has_ended.wait(300)
        return paid_reply(b"late")

    recorded = []
    for session in (begin(), begin(), begin(mode="replay")):
        trial, course = CountingTrial(0), TellingCourse()
        trial.course = course
        with charging(trial):
            work = pool.submit(session.calls(trial).call, asking(SLOW, late))
        assert course.has_begun.wait(300)
        course.close()
        has_ended.set()
        assert work.result().body == b"late"  # it is stored, and the first session paid for it
        recorded.append([(call.draw, call.lost) for call in trial.calls])
        session.replies.close()

    assert recorded == [recorded[0]] * 3
    assert [lost for _, lost in recorded[0]] == [Lost.CANCELLED]


def test_replies_that_come_together_to_threads_come_apart(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    both_are_there = threading.Barrier(2)

    def answer(_slot: Slot) -> StoredReply:
        both_are_there.wait(300)
        return paid_reply(b"now")

    trial = CountingTrial(0)
    calls = begin().calls(trial)
    with charging(trial):
        works = [pool.submit(calls.call, asking(key, answer)) for key in (SLOW, QUICK)]
    for work in works:
        work.result()
    trial.course.close()

    steps = trial.course.new_steps()
    one, other = sorted(step.ended for step in steps.values())
    assert other - one >= PIECE


def test_of_two_threads_that_look_at_once_the_second_waits(begin: Callable[..., Session]) -> None:
    replies, course = begin().replies, Course("trial 0", others=2)
    calls = [course.begin(key, Slot(0, 0), replies, lambda *_: None) for key in (SLOW, QUICK)]

    assert [course.is_held(call, "a draw") for call in calls] == [False, True]


class Elapsing:
    """Time that goes on where the test says so."""

    now = 0.0


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Elapsing:
    time = Elapsing()
    monkeypatch.setattr("pytest_llmeval.models.course.monotonic", lambda: time.now)
    return time


def of_two_threads(course: Course, begin: Callable[..., Session]) -> tuple[OpenCall, OpenCall]:
    """Begin two calls, each in a thread, and hand over the first."""
    replies = begin().replies
    with ThreadPoolExecutor(2) as pool:
        first, second = (
            pool.submit(course.begin, key, Slot(0, 0), replies, lambda *_: None).result()
            for key in (SLOW, QUICK)
        )
        assert not course.is_held(first, "a draw")
    return first, second


def test_a_reply_waits_until_the_thread_of_the_one_before_has_done_with_it(
    begin: Callable[..., Session], time: Elapsing
) -> None:
    course = Course("trial 0", others=2, _started=0.0)
    first, second = of_two_threads(course, begin)

    time.now += GRACE / 2  # the thread of the first is still in our code
    assert course.is_held(second, "a draw")
    course.end(first, "a draw")
    assert course.is_held(second, "a draw")
    time.now += SETTLING
    assert not course.is_held(second, "a draw")


def test_a_reply_waits_for_a_thread_that_was_woken_and_had_no_turn_yet(
    begin: Callable[..., Session], time: Elapsing
) -> None:
    course = Course("trial 0", others=2, _started=0.0)
    first, second = of_two_threads(course, begin)
    course.end(first, "a draw")

    with course.waiting(lambda: True):
        time.now += SETTLING
        assert course.is_held(second, "a draw")
    assert course.is_held(second, "a draw")  # it goes on now
    with course.waiting(lambda: False):
        time.now += PIECE
        assert not course.is_held(second, "a draw")


@pytest.mark.parametrize(("came", "expired"), [(0.02, 0), (0.04, 1)])
def test_a_deadline_that_ended_no_call_is_kept_with_the_replies_that_came_after_it(
    begin: Callable[..., Session], time: Elapsing, came: float, expired: int
) -> None:
    course = Course("trial 0", _started=0.0)
    call = course.begin(SLOW, Slot(0, 0), begin().replies, lambda *_: None)
    course.pay(call)
    for when, happens in sorted(
        [(came, partial(course.come, call)), (0.03, partial(course.expire, by_timer=True))]
    ):
        time.now = when
        happens()
    time.now = 0.06
    course.end(call, "a draw")

    assert [step.expired for step in course._ended.values()] == [expired]


def test_a_thread_may_wait_while_it_waits() -> None:
    """As a finalizer does that joins a thread, wherever garbage is collected."""
    course = Course("trial 0", others=1)
    with course.waiting(lambda: False), course.waiting(lambda: True):
        pass


def test_a_loop_sees_the_reply_of_a_thread_before_the_next_one_comes(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    async def first_of(*keys: str) -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        asked = [asking(key, lambda _: paid_reply(b"now")) for key in keys]
        tasks = {loop.run_in_executor(pool, calls.call, one) for one in asked}
        done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(late)
        return len(done), len(late)

    for _ in ("paid", "from the cache"):
        calls = begin().calls(trial := CountingTrial(0))
        with charging(trial):
            assert asyncio.run(first_of(SLOW, QUICK)) == (1, 1)


def test_a_loop_that_waits_for_threads_itself_is_not_waited_for(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    async def blocking(*keys: str) -> list[bytes]:
        asked = [asking(key, lambda _: paid_reply(b"now")) for key in keys]
        return [work.result().body for work in [pool.submit(calls.call, one) for one in asked]]

    for _ in ("paid", "from the cache"):
        calls = begin().calls(trial := CountingTrial(0))
        with charging(trial):
            assert asyncio.run(blocking(SLOW, QUICK)) == [b"now", b"now"]


def test_a_thread_goes_on_once_its_loop_waits_for_threads(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pytest_llmeval.models.course.PIECE", GRACE)  # nobody looks again
    has_asked = threading.Event()

    async def block() -> None:
        loop = asyncio.get_running_loop()
        monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *_: has_asked.set())
        course = Course("trial 0", others=2, loop=loop, events=1)
        call = course.begin(SLOW, Slot(0, 0), begin().replies, lambda *_: None)
        with ThreadPoolExecutor(1) as pool:
            work = pool.submit(course.wait, call, "a draw")
            assert has_asked.wait(GRACE)
            with course.waiting(bool):
                work.result(timeout=GRACE / 10)

    asyncio.run(block())


def test_a_loop_that_is_closed_is_not_waited_for(begin: Callable[..., Session]) -> None:
    loop = asyncio.new_event_loop()
    loop.close()
    course = Course("trial 0", others=2, loop=loop, events=1)
    call = course.begin(SLOW, Slot(0, 0), begin().replies, lambda *_: None)

    course.wait(call, "a draw")

    assert course.loop is None


def test_a_call_that_begins_later_than_it_did_is_waited_for_a_moment(
    begin: Callable[..., Session], time: Elapsing
) -> None:
    replies = begin().replies
    steps = {QUICK: TimedCall("q", 0.0, 1.0), SLOW: TimedCall("s", 1.5, 2.0)}
    replies.keep_course("trial 0", {f"{key}/0/0": step for key, step in steps.items()})
    course = Course("trial 0", _started=0.0)
    call = course.begin(SLOW, Slot(0, 0), replies, lambda *_: None)

    assert course.is_held(call, "s")
    time.now += SETTLING
    assert not course.is_held(call, "s")  # its application has changed


def test_a_pool_that_needs_another_thread_is_no_wait_that_ran_out(
    pool: ThreadPoolExecutor,
) -> None:
    trial, are_here = CountingTrial(0), threading.Barrier(3)

    with charging(trial):
        works = [pool.submit(are_here.wait, 300) for _ in range(2)]
        counted = trial.course.others
        are_here.wait(300)
        wait(works)

    assert counted == 2  # not the threads of the pool, which may outlive the trial
    assert trial.course.expired == 0


def test_the_initializer_of_a_pool_belongs_to_no_trial(pool: ThreadPoolExecutor) -> None:
    charged = []

    with (
        charging(trial := CountingTrial(0)),
        ThreadPoolExecutor(1, initializer=lambda: charged.append(trial_to_charge())) as own,
    ):
        charged.append(own.submit(trial_to_charge).result())

    assert charged == [None, trial]


class TogetherTrial(CountingTrial):
    """The replies of its two calls come to the loop in one round."""

    both_are_there: asyncio.Barrier

    async def wait_async(
        self, fn: Callable[[], T], *, awaits: bool = False, serial: bool = False
    ) -> T:
        await self.both_are_there.wait()
        return fn()


def test_replies_that_come_to_a_loop_in_one_round_come_apart(begin: Callable[..., Session]) -> None:
    async def first_of(*keys: str) -> tuple[int, int]:
        trial.both_are_there = asyncio.Barrier(len(keys))

        def ask(key: str) -> asyncio.Task[StoredReply]:
            return asyncio.create_task(calls.call_async(asking(key, lambda _: paid_reply(b"now"))))

        tasks = {ask(key) for key in keys}
        done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if late:
            await asyncio.wait(late)
        return len(done), len(late)

    # The second loop does not wait for what was seen on the first. Another trial finds the replies
    # in the cache, and no record of how its own calls went.
    for _ in ("paid", "replayed"):
        trial = TogetherTrial(0)
        calls = begin().calls(trial)
        assert asyncio.run(first_of(SLOW, QUICK)) == (1, 1)
        assert asyncio.run(first_of("ef" * 32, "01" * 32)) == (1, 1)


@pytest.mark.parametrize("rounds", [0, 6, ROUNDS - 1])
def test_what_an_application_does_with_a_reply_comes_before_the_next_one(
    begin: Callable[..., Session], rounds: int
) -> None:
    """Layers of a library, each in a task, take a loop some rounds: as many in each session."""

    async def first() -> str:
        async def ask(key: str, rounds: int = 0) -> str:
            await calls.call_async(asking(key, lambda _: paid_reply(b"now")))
            for _ in range(rounds):
                await asyncio.sleep(0)
            return key

        tasks = {asyncio.create_task(ask(SLOW, rounds)), asyncio.create_task(ask(QUICK))}
        done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait(late)
        return done.pop().result()

    came = []
    for _ in ("from the cache", "as recorded", "as recorded"):
        session, trial = begin(), CountingTrial(0)
        calls = session.calls(trial)
        if not came:  # another trial pays for both
            asyncio.run(first())
            calls = session.calls(trial := CountingTrial(0))
        came.append(asyncio.run(first()))
        trial.course.close()
        session.replies.close()

    assert came == [SLOW] * 3


def test_many_replies_of_one_round_come_one_after_the_other(begin: Callable[..., Session]) -> None:
    keys = [f"{number:064x}" for number in range(30)]
    came = []

    async def ask(key: str) -> None:
        await calls.call_async(asking(key, lambda _: paid_reply(b"now")))
        came.append((key, count["rounds"]))

    async def all_of_them() -> None:
        async def go_round() -> None:
            while True:
                count["rounds"] += 1
                await asyncio.sleep(0)

        rounds = asyncio.create_task(go_round())
        await asyncio.gather(*map(ask, keys))
        rounds.cancel()

    for _ in ("paid", "from the cache"):
        came.clear()
        calls, count = begin().calls(CountingTrial(0)), {"rounds": 0}
        asyncio.run(all_of_them())

    assert [key for key, _ in came] == keys
    at = [rounds for _, rounds in came]
    assert all(later - earlier >= ROUNDS for earlier, later in pairwise(at))


class Ticking(threading.Condition):
    """Time goes on where somebody waits, and only there."""

    now = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.now += timeout
        return False

    def notify_all(self) -> None:
        """Nobody waits."""


def replayed(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch, **attributes: Any
) -> tuple[Ticking, Course, OpenCall]:
    """Begin a call that was given up when its trial was 5 s old, at once as it began."""
    replies = begin().replies
    replies.keep_course("trial 0", {f"{SLOW}/0/0": TimedCall("d", 5.0, 5.0, 0, Lost.CANCELLED)})
    time = Ticking()
    monkeypatch.setattr("pytest_llmeval.models.course.monotonic", lambda: time.now)
    course = Course("trial 0", _changed=time, **attributes)
    return time, course, course.begin(SLOW, Slot(0, 0), replies, lambda *_: None)


def test_a_deadline_may_have_begun_to_run_before_the_call(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    time, course, call = replayed(begin, monkeypatch)

    course.wait(call, None)

    assert time.now == pytest.approx(5 + GRACE, abs=2 * PIECE)


def test_a_call_that_is_paid_beside_a_replay_does_not_lengthen_it(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    time, course, call = replayed(begin, monkeypatch)
    course.pay(course.begin(QUICK, Slot(0, 0), begin().replies, lambda *_: None))

    course.wait(call, None)

    assert time.now == 0


def test_a_call_stays_given_up_while_its_trial_waits_for_its_turn(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = iter([True] * 5)
    time, course, call = replayed(begin, monkeypatch, waits_for_turn=lambda: next(looks, False))

    course.wait(call, None)

    assert next(looks, None) is None
    assert time.now > 5 + GRACE


def test_what_a_refresh_gave_up_is_answered_where_a_run_names_the_reply(
    begin: Callable[..., Session],
) -> None:
    def ask(session: Session, perform: Callable[[Slot], StoredReply] = unwanted) -> StoredReply:
        trial = CountingTrial(0)
        try:
            return session.calls(trial).call(replace(asking(SLOW, perform), patience=0.0))
        finally:
            trial.course.close()
            session.replies.close()

    def late(_slot: Slot) -> StoredReply:
        raise ProviderFailed("late", lost=Lost.OWN_TIMEOUT)

    drawn = ask(begin(), lambda _: paid_reply(b"in time"))
    with pytest.raises(ProviderFailed):
        ask(begin(mode="refresh"), late)

    session = begin()
    session.replies.prefer({drawn.draw})

    assert ask(session).draw == drawn.draw


def test_what_a_run_gave_up_is_given_up_though_a_refresh_was_answered(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    may_answer = threading.Event()

    def slow(_slot: Slot) -> StoredReply:
        assert may_answer.wait(300)
        return paid_reply(b"slow")

    def run(session: Session, *, leaves: bool) -> list[str | None]:
        trial, course = CountingTrial(0), TellingCourse()
        trial.course = course
        calls = session.calls(trial)
        with charging(trial):
            work = pool.submit(calls.call, asking(SLOW, slow))
            assert course.has_begun.wait(300)
            calls.call(asking(QUICK, lambda _: paid_reply(b"quick")))
        if leaves:
            assert not work.done()
            course.close()
        may_answer.set()
        wait([work])
        course.close()
        session.replies.close()
        may_answer.clear()
        return [call.draw for call in trial.calls]

    given_up = run(begin(), leaves=True)
    assert set(run(begin(mode="refresh"), leaves=False)).isdisjoint(given_up)

    session = begin()
    session.replies.prefer(set(filter(None, given_up)))

    assert run(session, leaves=True) == given_up


def test_a_loop_that_is_late_lets_a_trial_see_its_replies_before_its_deadline(
    begin: Callable[..., Session],
) -> None:
    """A machine may be so busy that a loop goes round once a minute."""

    async def ask(calls: CachedCalls, *, layers: int) -> bytes:
        loop = asyncio.get_running_loop()
        clock = loop.time
        async with asyncio.timeout(60):
            loop.time = lambda: clock() + 3600  # type: ignore[method-assign]
            for _ in range(layers):
                await asyncio.sleep(0)
            reply = await calls.call_async(asking(QUICK, unwanted))
            for _ in range(layers):
                await asyncio.sleep(0)
        return reply.body

    begin().calls(CountingTrial(0)).call(asking(QUICK, lambda _: paid_reply(b"quick")))
    trial = CountingTrial(0)
    with watching_waits(), charging(trial):
        assert asyncio.run(ask(begin().calls(trial), layers=7)) == b"quick"
    with watching_waits(), charging(CountingTrial(1)), pytest.raises(TimeoutError):
        asyncio.run(ask(begin().calls(CountingTrial(1)), layers=ROUNDS + 1))


def test_no_timer_rings_while_a_stored_reply_is_on_its_way(begin: Callable[..., Session]) -> None:
    replies = begin().replies
    steps = {f"{SLOW}/0/0": TimedCall("d", 0.0, 5.0, 1), f"{QUICK}/0/0": TimedCall("e", 0.0, 1.0)}
    replies.keep_course("trial 0", steps)
    trial = CountingTrial(0)
    course = trial.course
    rung: list[str] = []

    async def wait_for_timers(count: int) -> None:
        loop = asyncio.get_running_loop()
        slow, quick = (
            course.begin(key, Slot(0, 0), replies, lambda *_: None) for key in (SLOW, QUICK)
        )
        slow.is_stored = course.has_replayed = True
        assert not course.is_early()  # before this reply a deadline ran out
        quick.is_stored = course.has_replayed = True
        for name in ("first", "second", "cancelled"):
            timers = loop.call_later(0, rung.append, name)
        await asyncio.sleep(0)
        assert course.is_early()
        assert rung == []
        timers.cancel()
        course.end(quick, "e")
        while len(rung) < count:
            await asyncio.sleep(0)

    with watching_waits(), charging(trial):
        asyncio.run(wait_for_timers(2))

    assert rung == ["first", "second"]
    assert course.expired == 2


def test_no_wait_runs_out_while_a_stored_reply_is_on_its_way(
    begin: Callable[..., Session], pool: ThreadPoolExecutor
) -> None:
    trial, condition = CountingTrial(0), threading.Condition()
    course = trial.course
    call = course.begin(QUICK, Slot(0, 0), begin().replies, lambda *_: None)
    call.is_stored = course.has_replayed = True
    waits: list[float | None] = []

    def wait(self: threading.Condition, timeout: float | None = None) -> bool:
        waits.append(timeout)
        return len(waits) > 3

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Condition, "wait", wait)
        with watching_waits(), charging(trial), condition:
            assert condition.wait(1)
            course.end(call, "draw")
            waits.clear()
            assert not condition.wait(2)

    assert waits == [2]
    assert course.expired == 1


def test_a_loop_goes_round_without_the_sleep_that_a_test_may_mock(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(_: float) -> None:
        raise AssertionError("it is the test's own")

    monkeypatch.setattr(asyncio, "sleep", sleep)
    session = begin()
    steps = {f"{key}/0/0": TimedCall(key, 0.0, 1.0) for key in (SLOW, QUICK)}
    session.replies.keep_course("trial 0", steps)

    async def ask() -> None:
        calls = session.calls(CountingTrial(0))
        both = (asking(key, lambda _: paid_reply(b"now")) for key in (SLOW, QUICK))
        await asyncio.gather(*map(calls.call_async, both))

    asyncio.run(ask())


def test_a_reply_that_lay_there_when_a_deadline_ran_out_is_in_time_in_a_replay(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    time = Ticking()
    monkeypatch.setattr("pytest_llmeval.models.course.monotonic", lambda: time.now)
    has_come = asyncio.Event()

    class Busy(CountingTrial):
        async def wait_async(self, fn: Callable[[], T], **_: Any) -> T:
            fn()
            has_come.set()
            return await asyncio.Future()

    async def leave(trial: CountingTrial) -> None:
        request = asking(QUICK, lambda _: paid_reply(b"quick"))
        work = asyncio.ensure_future(begin().calls(trial).call_async(request))
        await has_come.wait()
        time.now += 60
        trial.course.expire()
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        trial.course.close()

    trial = Busy(0)
    asyncio.run(leave(trial))
    assert trial.was_late
    assert [(call.lost, call.draw) for call in trial.calls] == [(Lost.CANCELLED, None)]

    again = CountingTrial(0)
    assert begin().calls(again).call(asking(QUICK, unwanted)).replayed
