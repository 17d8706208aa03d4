from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from pytest_llmeval.models.calls import Services
from pytest_llmeval.models.http.attempt import (
    MOST_REFUSALS,
    NetworkFailed,
    Send,
    gave_up,
)
from pytest_llmeval.models.http.http_reply import (
    HttpReply,
    is_throttled,
    may_pass,
    retry_after,
)
from pytest_llmeval.models.limits.deadline import DEFAULT_SECONDS, Deadline, TimeLimit
from pytest_llmeval.models.limits.throttle import PATIENCE, PaceClock, Throttle
from tests.models.conftest import ANSWER, ORIGIN, Time, attempted


def attempts(*outcomes: HttpReply | Exception) -> Callable[[], HttpReply]:
    left = list(outcomes)

    def attempt(_deadline: Deadline) -> HttpReply:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return attempt


class Sender:
    """Sends through one provider, on a clock that only moves by sleeping."""

    def __init__(self, *, seconds: float = DEFAULT_SECONDS) -> None:
        self.time = Time()
        self.slept = self.time.slept
        clock = PaceClock(now=self.time.now, sleep=self.time.sleep, jitter=lambda: 0.0)
        self.throttle = Throttle(ceiling=8, clock=clock)
        self.provider = self.throttle.of("openai", ORIGIN)
        self._policy = Services(throttle=self.throttle, limit=TimeLimit(seconds))

    def send(self, send: Send) -> HttpReply:
        return attempted(send, self._policy)


@pytest.fixture
def sender() -> Sender:
    return Sender()


def failing(status: int = 500, **headers: str) -> HttpReply:
    return HttpReply(
        status=status, headers={name.replace("_", "-"): text for name, text in headers.items()}
    )


def test_success_is_not_waited_for(sender: Sender) -> None:
    assert sender.send(attempts(ANSWER)).body == ANSWER.body
    assert sender.slept == []


def test_two_failures_are_forgiven_with_growing_waits(sender: Sender) -> None:
    lost = NetworkFailed(OSError())

    assert sender.send(attempts(lost, failing(502), ANSWER)).body == ANSWER.body
    assert sender.slept == [0.5, 1.0]


def test_the_third_failing_reply_is_handed_over(sender: Sender) -> None:
    last = failing(502)

    assert sender.send(attempts(failing(), failing(), last)) is last


def test_the_third_network_error_is_raised(sender: Sender) -> None:
    last = NetworkFailed(OSError())
    outcomes = attempts(NetworkFailed(OSError()), NetworkFailed(OSError()), last)

    with pytest.raises(NetworkFailed) as caught:
        sender.send(outcomes)

    assert caught.value is last


def test_a_refused_request_is_not_repeated(sender: Sender) -> None:
    refused = failing(400)

    assert sender.send(attempts(refused)) is refused
    assert sender.slept == []


def test_waits_for_the_provider_use_up_no_retry(sender: Sender) -> None:
    busy = [failing(429, retry_after="7")] * 9

    assert sender.send(attempts(failing(), *busy, failing(), ANSWER)).body == ANSWER.body
    assert sum(sender.slept) == 0.5 + 9 * 7 + 1.0


def test_refusals_halve_what_may_be_in_flight(sender: Sender) -> None:
    sender.send(attempts(failing(503), failing(529), ANSWER))

    (slowdown,) = sender.throttle.take_slowdowns()
    assert (slowdown.times, slowdown.lowest, slowdown.status) == (2, 2, 529)


def test_other_failures_do_not(sender: Sender) -> None:
    sender.send(attempts(failing(500), NetworkFailed(OSError()), ANSWER))

    assert sender.throttle.take_slowdowns() == []


def test_each_attempt_leaves_the_gate(sender: Sender) -> None:
    sender.send(attempts(NetworkFailed(OSError()), failing(503), failing(500), ANSWER))

    assert sender.provider._pace.in_flight == 0


def test_a_broken_attempt_leaves_the_gate(sender: Sender) -> None:
    with pytest.raises(ZeroDivisionError):
        sender.send(lambda _deadline: HttpReply(status=1 // 0))

    assert sender.provider._pace.in_flight == 0


def test_a_call_that_is_refused_for_ever_is_given_up(sender: Sender) -> None:
    refused = failing(429)

    def attempt(_deadline: Deadline) -> HttpReply:
        sender.provider._pace.on_success(started=sender.time.now())  # others come through
        return refused

    assert sender.send(attempt) is refused
    assert len(sender.slept) == MOST_REFUSALS - 1


def test_when_nothing_comes_through_for_minutes_the_refusal_is_handed_over(sender: Sender) -> None:
    refused = failing(429, retry_after="90")

    assert sender.send(lambda _deadline: refused) is refused
    assert PATIENCE <= sum(sender.slept) <= PATIENCE + 90


@pytest.mark.parametrize(("status", "todo"), [(429, "limits the account"), (503, "it answers")])
def test_the_calls_after_that_are_not_even_made(sender: Sender, status: int, todo: str) -> None:
    sender.send(lambda _deadline: failing(status, retry_after="90"))
    slept = len(sender.slept)

    reply = sender.send(attempts())
    assert reply is gave_up(status)
    assert (reply.status, reply.error.message.endswith(todo)) == (status, True)
    assert len(sender.slept) == slept


def test_one_call_tries_again_when_the_pause_is_over(sender: Sender) -> None:
    sender.send(lambda _deadline: failing(429, retry_after="90"))
    sender.time.sleep(90)

    assert sender.send(attempts(ANSWER)).body == ANSWER.body
    assert sender.send(attempts(failing(429), ANSWER)).body == ANSWER.body


def test_the_pauses_of_other_calls_use_up_no_time_of_a_call() -> None:
    sender = Sender(seconds=3)
    sender.provider.throttled(0, retry_after=60)

    assert sender.send(attempts(ANSWER)).body == ANSWER.body
    assert sender.slept == [60]


@pytest.mark.parametrize("status", [408, 409, 429, 500, 503, 529])
def test_a_failure_that_may_pass(status: int) -> None:
    assert may_pass(failing(status))


@pytest.mark.parametrize("status", [200, 308, 400, 401, 403, 404, 413, 422])
def test_a_lasting_failure(status: int) -> None:
    assert not may_pass(failing(status))


def test_a_server_that_says_no_is_not_asked_again() -> None:
    assert not may_pass(failing(429, x_should_retry="false"))


@pytest.mark.parametrize("reply", [failing(429), failing(503), failing(529)])
def test_some_statuses_ask_to_slow_down(reply: HttpReply) -> None:
    assert is_throttled(reply)


def test_whatever_may_pass_asks_to_slow_down_by_retry_after() -> None:
    assert is_throttled(failing(500, retry_after="3"))
    assert not is_throttled(failing(500))
    assert not is_throttled(failing(400, retry_after="3"))
    assert not is_throttled(HttpReply(status=200, headers={"retry-after": "3"}))


@pytest.mark.parametrize("code", ["insufficient_quota", "billing_hard_limit_reached"])
def test_no_wait_brings_spent_money_back(sender: Sender, code: str) -> None:
    body = json.dumps({"error": {"code": code}}).encode()
    spent = HttpReply(status=429, body=body)

    assert sender.send(attempts(spent, failing(500))) is spent
    assert sender.throttle.take_slowdowns() == []


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
def test_retry_after_is_read(headers: dict[str, str], delay: float) -> None:
    assert retry_after(failing(429, **headers).headers) == delay


@pytest.mark.parametrize("wait", ["121", "1e300"])
def test_nobody_waits_for_more_than_two_minutes(sender: Sender, wait: str) -> None:
    refused = failing(429, retry_after=wait)

    assert sender.send(attempts(refused)) is refused
    assert sender.slept == []


SENSELESS = ["-1", "nan", "inf", "-inf", "1e400", "soon", ""]
ODD_DATES = [
    "Fri, 01 Jan 99999999999999999999 00:00:00 GMT",
    "Fri, 01 Jan 10000 00:00:00 GMT",
    "Fri, 99 Jan 2027 99:99:99 GMT",
    "Fri, 01 Jan 2027 00:00:00 +99999999999999999999",
    "Mon, 01 Jan 0001 00:00:00 +2300",
]


@pytest.mark.parametrize("header", ["retry-after", "retry-after-ms"])
@pytest.mark.parametrize("wait", SENSELESS + ODD_DATES)
def test_a_senseless_retry_after_is_ignored(header: str, wait: str) -> None:
    assert retry_after({header: wait}) is None
    assert not is_throttled(HttpReply(status=500, headers={header: wait}))


def test_a_senseless_wait_in_milliseconds_does_not_hide_one_in_seconds() -> None:
    assert retry_after({"retry-after-ms": "inf", "retry-after": "9"}) == 9


@pytest.mark.parametrize("zone", [UTC, None])
def test_retry_after_may_be_a_date(zone: object) -> None:
    moment = datetime.now(UTC) + timedelta(seconds=60)
    date = format_datetime(moment if zone else moment.replace(tzinfo=None))

    assert retry_after({"retry-after": date}) == pytest.approx(60, abs=5)


def test_a_date_in_the_past_is_ignored() -> None:
    date = format_datetime(datetime.now(UTC) - timedelta(hours=1))

    assert retry_after({"retry-after": date}) is None
