from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.models.limits.throttle import PATIENCE, Pace, growing_pause


def refuse(pace: Pace, now: float, *, retry_after: float | None = None) -> None:
    """Refuse a call that set off just then."""
    pace.on_throttled(now, started=now, retry_after=retry_after)


def test_without_refusals_the_ceiling_is_the_limit() -> None:
    pace = Pace(2)
    pace.in_flight += 1
    pace.on_success(started=0)

    assert pace.may_start(0)
    pace.in_flight += 1
    assert not pace.may_start(0)
    pace.in_flight -= 1
    assert pace.may_start(0)
    assert pace.limit == 2


def test_a_refusal_halves_the_limit() -> None:
    pace = Pace(64)

    refuse(pace, 1)
    assert pace.limit == 32
    refuse(pace, 2)
    assert pace.limit == 16


def test_calls_on_their_way_when_it_halved_say_nothing_new() -> None:
    pace = Pace(64)

    halved = [pace.on_throttled(10 + i / 100, started=9, retry_after=None) for i in range(64)]

    assert halved == [True] + [False] * 63
    assert pace.limit == 32


def test_one_call_may_always_be_in_flight() -> None:
    pace = Pace(3)
    for now in range(9):
        refuse(pace, now)

    assert pace.limit == 1
    assert pace.may_start(100)


def test_the_limit_creeps_back_by_one_after_as_many_successes() -> None:
    pace = Pace(8)
    refuse(pace, 0)
    limits = []
    for _ in range(4 + 5 + 6 + 7 + 99):
        pace.on_success(started=1)
        limits.append(pace.limit)

    assert limits[:4] == [4, 4, 4, 5]
    assert [limits.index(limit) for limit in (5, 6, 7, 8)] == [3, 8, 14, 21]
    assert max(limits) == 8


def test_each_of_several_processes_takes_so_many_times_longer() -> None:
    pace = Pace(4, processes=3)
    refuse(pace, 0)
    for _ in range(5):
        pace.on_success(started=1)
    assert pace.limit == 2

    pace.on_success(started=1)
    assert pace.limit == 3


def test_successes_of_the_faster_time_before_do_not_count() -> None:
    pace = Pace(4)
    refuse(pace, 5)
    for _ in range(20):
        pace.on_success(started=4)

    assert pace.limit == 2


def test_nobody_starts_before_retry_after_is_over() -> None:
    pace = Pace(4)
    refuse(pace, 10, retry_after=30)

    assert not pace.may_start(39)
    assert pace.delay(39) == 1
    assert pace.may_start(40)


def test_a_late_refusal_of_the_same_round_may_prolong_the_pause() -> None:
    pace = Pace(4)
    refuse(pace, 10, retry_after=5)
    pace.on_throttled(11, started=9, retry_after=20)
    pace.on_throttled(12, started=9, retry_after=1)

    assert pace.delay(12) == 19
    assert pace.limit == 2


@pytest.mark.parametrize("unsaid", [None, 0.0])
def test_without_retry_after_the_pauses_double_until_something_comes_through(
    unsaid: float | None,
) -> None:
    pace = Pace(64)
    pauses = []
    for now in (100, 200, 300, 400, 500, 600):
        refuse(pace, now, retry_after=unsaid)
        pauses.append(pace.delay(now))
    pace.on_success(started=700)
    refuse(pace, 800, retry_after=unsaid)

    assert pauses == [0.5, 1, 2, 4, 8, 8]
    assert pace.delay(800) == 0.5


def test_jitter_takes_off_up_to_a_quarter() -> None:
    assert growing_pause(0, jitter=1) == 0.375


def test_it_gives_up_when_nothing_came_through_for_long() -> None:
    pace = Pace(4)
    refuse(pace, 0)
    assert not pace.has_given_up(PATIENCE - 1)
    assert pace.has_given_up(PATIENCE)


def test_a_success_renews_the_patience() -> None:
    pace = Pace(4)
    refuse(pace, 0)
    pace.on_success(started=PATIENCE - 2)
    refuse(pace, PATIENCE - 1)

    assert not pace.has_given_up(PATIENCE + 1)


def test_a_refusal_after_a_long_silence_begins_the_patience_anew() -> None:
    pace = Pace(4)
    refuse(pace, 0)
    refuse(pace, 2 * PATIENCE)

    assert not pace.has_given_up(2 * PATIENCE)


@pytest.mark.parametrize(("wait", "gives_up"), [(120, False), (121, True), (math.inf, True)])
def test_nobody_waits_for_more_than_two_minutes(wait: float, gives_up: bool) -> None:
    pace = Pace(4)
    refuse(pace, 0, retry_after=wait)

    assert pace.has_given_up(0) is gives_up


@given(
    ceiling=st.integers(1, 64),
    events=st.lists(st.tuples(st.booleans(), st.floats(0, 5)), max_size=60),
)
def test_the_limit_stays_between_one_and_the_ceiling(
    ceiling: int, events: list[tuple[bool, float]]
) -> None:
    pace, now = Pace(ceiling), 0.0
    for succeeds, seconds in events:
        started, now = now, now + seconds
        before = pace.limit
        if succeeds:
            pace.on_success(started=started)
            assert before <= pace.limit <= before + 1
        else:
            pace.on_throttled(now, started=started, retry_after=None)
        assert 1 <= pace.limit <= ceiling
