from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_llmeval.cache import locks
from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.models.limits.journal import Journal
from pytest_llmeval.models.limits.throttle import (
    LONGEST_RETRY_AFTER,
    PATIENCE,
    PaceClock,
    ProviderThrottle,
    Throttle,
)
from pytest_llmeval.records import Slowdown
from tests.models.conftest import Time


def throttle_of(time: Time, *, ceiling: int = 8, **more: object) -> Throttle:
    clock = PaceClock(now=time.now, sleep=time.sleep, jitter=lambda: 0)
    return Throttle(ceiling=ceiling, clock=clock, **more)  # type: ignore[arg-type]  # by name


def provider_of(throttle: Throttle, provider: str = "openai") -> ProviderThrottle:
    return throttle.of(provider, "https://api.example")


@pytest.fixture
def clock() -> Time:
    return Time()


def run_beside(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function, daemon=True)
    thread.start()
    return thread


def test_as_many_calls_are_in_flight_as_the_limit_says() -> None:
    provider = provider_of(Throttle(ceiling=3))
    lock, now, most = threading.Lock(), 0, 0
    together = threading.Barrier(3)

    def call() -> None:
        nonlocal now, most
        assert provider.enter() is not None
        with lock:
            now += 1
            most = max(most, now)
        together.wait(300)
        with lock:
            now -= 1
        provider.leave()

    threads = [run_beside(call) for _ in range(12)]
    for thread in threads:
        thread.join(300)

    assert most == 3


def test_providers_and_origins_do_not_wait_for_one_another(clock: Time) -> None:
    throttle = throttle_of(clock)
    provider_of(throttle).throttled(0, retry_after=60)

    assert throttle.of("openai", "https://other.example").enter() == 0
    assert throttle.of("anthropic", "https://api.example").enter() == 0
    assert clock.slept == []
    assert provider_of(throttle).enter() == 60


def test_a_forked_child_hears_other_workers_though_a_thread_of_the_parent_listens(
    clock: Time, tmp_path: Path
) -> None:
    throttle = throttle_of(clock, shared=Journal(tmp_path, "session", folder="pace"))
    throttle._listening.acquire()  # by a thread of the parent
    locks._free_locks()  # as a fork does in the child

    assert provider_of(throttle).enter() == 0


def test_all_who_come_wait_for_the_same_pause(clock: Time) -> None:
    provider = provider_of(throttle_of(clock))
    provider.throttled(0, retry_after=60)

    assert provider.enter() == 60
    assert provider.enter() == 60
    assert clock.slept == [60]


def test_a_pause_prolonged_meanwhile_is_waited_for_to_its_end(clock: Time) -> None:
    provider = provider_of(throttle_of(clock))
    provider.throttled(0, retry_after=10)

    def sleep(seconds: float) -> None:
        if not clock.slept:
            provider.throttled(-1, retry_after=30)
        Time.sleep(clock, seconds)

    clock.sleep = sleep  # type: ignore[method-assign]
    provider._clock = PaceClock(now=clock.now, sleep=sleep)

    assert provider.enter() == 30


def test_who_waits_for_room_gets_it_when_a_call_comes_back() -> None:
    provider = provider_of(Throttle(ceiling=1))
    provider.enter()
    entered = threading.Event()
    run_beside(lambda: (provider.enter(), entered.set()))

    assert not entered.wait(0.05)
    provider.leave()
    assert entered.wait(300)


def test_who_waits_when_the_session_ends_is_sent_away() -> None:
    throttle = Throttle(ceiling=1)
    provider = provider_of(throttle)
    provider.enter()
    raised: list[ProviderFailed] = []

    def wait() -> None:
        with pytest.raises(ProviderFailed) as caught:
            provider.enter()
        raised.append(caught.value)

    thread = run_beside(wait)
    throttle.close()
    thread.join(300)

    assert "session ended" in str(raised[0])


def test_nobody_waits_where_nothing_comes_through(clock: Time) -> None:
    provider = provider_of(throttle_of(clock))
    started = 0.0
    while not provider.has_given_up:
        provider.throttled(started, retry_after=100)
        entered = provider.enter()
        started = clock.now() if entered is None else entered

    assert clock.now() == PATIENCE
    provider.throttled(started, retry_after=None)
    assert provider.enter() is None
    assert clock.now() == PATIENCE


def test_slowdowns_are_summed_up_once(clock: Time) -> None:
    throttle = throttle_of(clock)
    provider = provider_of(throttle)
    provider.throttled(0, retry_after=10)
    provider.throttled(0, retry_after=30)
    clock.sleep(31)
    provider.throttled(31, retry_after=None)

    assert throttle.take_slowdowns() == [
        Slowdown(provider="openai", times=2, lowest=2, seconds=31),
    ]
    assert throttle.take_slowdowns() == []


def test_a_pause_that_is_too_long_for_anybody_to_wait_for_is_not_counted(clock: Time) -> None:
    throttle = throttle_of(clock)
    provider_of(throttle).throttled(0, retry_after=LONGEST_RETRY_AFTER + 1)

    assert [one.seconds for one in throttle.take_slowdowns()] == [0]


def test_the_providers_that_hold_calls_back_are_named_once(clock: Time) -> None:
    throttle = throttle_of(clock)
    provider_of(throttle)
    assert throttle.holding_back() == {}

    provider_of(throttle, "mistral").throttled(0, retry_after=10)
    throttle.of("mistral", "https://other.example").throttled(0, retry_after=10)
    provider_of(throttle, "cohere").throttled(0, retry_after=20)
    assert throttle.holding_back() == {"mistral": 429, "cohere": 429}

    clock.sleep(15)
    assert throttle.holding_back() == {"cohere": 429}


def test_a_provider_that_was_asked_in_vain_of_nothing_has_no_slowdown(clock: Time) -> None:
    throttle = throttle_of(clock)
    provider = provider_of(throttle)
    entered = provider.enter()
    assert entered is not None
    provider.leave(answered=entered)

    assert throttle.take_slowdowns() == []


class TestWorkers:
    """Each has a share of the limit, and they hear of one another."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "pace" / "session.jsonl"

    @pytest.fixture
    def pair(self, clock: Time, tmp_path: Path) -> tuple[Throttle, Throttle]:
        first, second = (
            throttle_of(
                clock, ceiling=16, processes=2, shared=Journal(tmp_path, "session", folder="pace")
            )
            for _ in range(2)
        )
        return first, second

    def test_a_share_is_at_least_one(self, clock: Time) -> None:
        assert provider_of(throttle_of(clock, ceiling=2, processes=4)).enter() == 0

    def test_a_pause_is_everybodys(self, clock: Time, pair: tuple[Throttle, Throttle]) -> None:
        provider_of(pair[0]).throttled(0, retry_after=30)

        assert provider_of(pair[1]).enter() == 30

    def test_all_halve_once(self, pair: tuple[Throttle, Throttle]) -> None:
        provider_of(pair[0]).throttled(0, retry_after=1)
        provider_of(pair[1]).enter()
        provider_of(pair[0]).enter()

        assert [provider_of(throttle)._pace.limit for throttle in pair] == [4, 4]

    def test_refusals_that_cross_halve_once(
        self, clock: Time, pair: tuple[Throttle, Throttle]
    ) -> None:
        clock.sleep(1)
        provider_of(pair[0]).throttled(0, retry_after=1)
        clock.sleep(0.1)
        provider_of(pair[1]).throttled(0, retry_after=1)
        for throttle in pair:
            provider_of(throttle).enter()

        assert [provider_of(throttle)._pace.limit for throttle in pair] == [4, 4]

    def test_the_one_who_was_refused_tells_of_it(self, pair: tuple[Throttle, Throttle]) -> None:
        provider_of(pair[0]).throttled(0, retry_after=30)
        provider_of(pair[1]).enter()

        assert pair[0].take_slowdowns() == [
            Slowdown(provider="openai", times=1, lowest=8, seconds=30)
        ]
        assert pair[1].take_slowdowns() == []

    def test_news_from_another_life_of_the_machine_is_no_news(
        self, clock: Time, pair: tuple[Throttle, Throttle]
    ) -> None:
        clock.sleep(1000)
        provider_of(pair[0]).throttled(1000, retry_after=30)
        clock.slept.clear()

        assert provider_of(pair[1]).enter() == 0

    @pytest.mark.parametrize("entry", [[1], ["a", "b", "c", "d", "e"], [1, 2, 3, 4, 5, 6]])
    def test_an_entry_that_is_not_ours_is_skipped(
        self, tmp_path: Path, pair: tuple[Throttle, Throttle], entry: list[object]
    ) -> None:
        Journal(tmp_path, "session", folder="pace").append(*entry)
        provider_of(pair[0]).throttled(0, retry_after=30)

        assert provider_of(pair[1]).enter() == 30

    def test_an_endless_pause_can_be_told(self, pair: tuple[Throttle, Throttle]) -> None:
        provider_of(pair[0]).throttled(0, retry_after=float("inf"))

        assert provider_of(pair[1]).enter() is None

    def test_a_disk_that_cannot_be_written_is_no_failure(self, clock: Time, path: Path) -> None:
        path.parent.write_text("")
        nowhere = Journal(path.parents[1], "session", folder="pace")
        alone = throttle_of(clock, ceiling=16, processes=2, shared=nowhere)

        provider_of(alone).throttled(0, retry_after=30)
        assert provider_of(alone).enter() == 30
        alone.close()

    def test_nothing_is_left_behind(self, path: Path, pair: tuple[Throttle, Throttle]) -> None:
        provider_of(pair[0]).throttled(0, retry_after=30)
        assert path.exists()
        for throttle in pair:
            throttle.close()

        assert not path.exists()

    def test_without_refusals_there_is_no_file(
        self, path: Path, pair: tuple[Throttle, Throttle]
    ) -> None:
        for throttle in pair:
            provider_of(throttle).enter()
            throttle.close()

        assert not path.parent.exists()
