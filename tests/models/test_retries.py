from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pytest_llmeval.models.retries import (
    NetworkFailed,
    RetryPolicy,
    WireReply,
    delay_before_retry,
    send_with_retries,
)


def attempts(*outcomes: WireReply | Exception) -> Callable[[], WireReply]:
    left = list(outcomes)

    def attempt() -> WireReply:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return attempt


def policy(slept: list[float]) -> RetryPolicy:
    return RetryPolicy(sleep=slept.append, jitter=lambda: 0.0)


def failing(status: int = 500, **headers: str) -> WireReply:
    return WireReply(
        status=status, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


OK = WireReply(status=200)


def test_success_is_not_waited_for() -> None:
    slept: list[float] = []

    assert send_with_retries(attempts(OK), policy(slept)) is OK
    assert slept == []


def test_two_failures_are_forgiven_with_growing_waits() -> None:
    slept: list[float] = []
    lost = NetworkFailed(OSError())

    assert send_with_retries(attempts(lost, failing(503), OK), policy(slept)) is OK
    assert slept == [0.5, 1.0]


def test_the_third_failing_reply_is_handed_over() -> None:
    last = failing(502)

    reply = send_with_retries(attempts(failing(), failing(), last), policy([]))

    assert reply is last


def test_the_third_network_error_is_raised() -> None:
    last = NetworkFailed(OSError())
    outcomes = attempts(NetworkFailed(OSError()), NetworkFailed(OSError()), last)

    with pytest.raises(NetworkFailed) as caught:
        send_with_retries(outcomes, policy([]))

    assert caught.value is last


def test_a_refused_request_is_not_repeated() -> None:
    slept: list[float] = []
    refused = failing(400)

    assert send_with_retries(attempts(refused), policy(slept)) is refused
    assert slept == []


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_a_passing_failure_is_retried(status: int) -> None:
    assert delay_before_retry(failing(status), 0, jitter=0) == 0.5


@pytest.mark.parametrize("status", [200, 308, 400, 401, 403, 404, 413, 422])
def test_a_lasting_failure_is_not_retried(status: int) -> None:
    assert delay_before_retry(failing(status), 0, jitter=0) is None


def test_a_server_that_says_no_is_not_asked_again() -> None:
    assert delay_before_retry(failing(429, x_should_retry="false"), 0, jitter=0) is None


def test_jitter_takes_off_up_to_a_quarter() -> None:
    assert delay_before_retry(failing(), 0, jitter=1) == 0.375


def test_waits_stop_growing_at_eight_seconds() -> None:
    assert delay_before_retry(failing(), 9, jitter=0) == 8


@pytest.mark.parametrize(
    ("headers", "delay"),
    [
        ({"retry_after": "3"}, 3),
        ({"retry_after": "0"}, 0),
        ({"retry_after": "120"}, 120),
        ({"retry_after_ms": "1500", "retry_after": "9"}, 1.5),
        ({"retry_after_ms": "soon", "retry_after": "9"}, 9),
    ],
)
def test_retry_after_is_obeyed_without_jitter(headers: dict[str, str], delay: float) -> None:
    assert delay_before_retry(failing(429, **headers), 0, jitter=1) == delay


@pytest.mark.parametrize("wait", ["121", "inf", "1e400"])
def test_nobody_waits_for_more_than_two_minutes(wait: str) -> None:
    assert delay_before_retry(failing(429, retry_after=wait), 0, jitter=0) is None


@pytest.mark.parametrize("wait", ["-1", "nan", "soon", ""])
def test_a_senseless_retry_after_is_ignored(wait: str) -> None:
    assert delay_before_retry(failing(429, retry_after=wait), 0, jitter=0) == 0.5


@pytest.mark.parametrize("zone", [UTC, None])
def test_retry_after_may_be_a_date(zone: object) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=60)
    date = format_datetime(moment if zone else moment.replace(tzinfo=None))

    delay = delay_before_retry(failing(429, retry_after=date), 0, jitter=0)

    assert delay == pytest.approx(60, abs=5)


def test_a_date_in_the_past_is_ignored() -> None:
    date = format_datetime(datetime.now(UTC) - timedelta(hours=1))

    assert delay_before_retry(failing(429, retry_after=date), 0, jitter=0) == 0.5
