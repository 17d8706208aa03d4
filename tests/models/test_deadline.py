"""No call is waited for longer than --llm-timeout says."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import openai
import pytest

from pytest_llmeval.errors import ProviderFailed
from pytest_llmeval.models.calls import Services
from pytest_llmeval.models.http.attempt import TimedOut
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.models.limits.deadline import Deadline, TimeIsUp, TimeLimit
from pytest_llmeval.models.limits.throttle import PaceClock, Throttle
from tests.models.conftest import ANSWER, ORIGIN, CountingTrial, Session, Time, attempted
from tests.servers.openai_server import OpenAIServer, Scripted

SHORT = 0.2  # seconds, where the limit is to be met
SENT = 1.0  # and where a request has to be sent before: on a busy machine that takes its time
LONG = 30.0  # where it is not
MODEL = "openai/gpt"


@pytest.fixture
def never() -> Iterator[threading.Event]:
    """Something to wait for that does not come before the test has ended."""
    event = threading.Event()
    yield event
    event.set()


def begun(limit: TimeLimit) -> Deadline:
    return Deadline(limit.seconds, limit.worker)


# A call


def test_a_part_gives_what_it_returns_or_raises() -> None:
    deadline = begun(TimeLimit(LONG))
    assert deadline.run(lambda: "Lima") == "Lima"
    with pytest.raises(ZeroDivisionError):
        deadline.run(lambda: 1 // 0)
    with pytest.raises(pytest.skip.Exception):
        deadline.run(lambda: pytest.skip("no"))


def test_a_part_that_does_not_end_is_left_behind(never: threading.Event) -> None:
    limit = TimeLimit(SHORT)
    started = time.monotonic()
    with pytest.raises(TimeIsUp):
        begun(limit).run(never.wait)
    assert time.monotonic() - started >= SHORT * 0.9
    assert begun(limit).run(lambda: "another") == "another"


def test_what_goes_on_elsewhere_gives_what_it_returns_or_raises() -> None:
    deadline, future, broken = begun(TimeLimit(LONG)), Future[str](), Future[str]()
    future.set_result("Lima")
    broken.set_exception(TimeoutError("its own"))

    assert deadline.wait(future) == "Lima"
    with pytest.raises(TimeoutError, match="its own"):
        deadline.wait(broken)


def test_what_goes_on_elsewhere_is_left_behind_in_time() -> None:
    deadline = begun(TimeLimit(SHORT))
    with pytest.raises(TimeIsUp):
        deadline.wait(Future())
    assert not deadline.allows(0)


def test_the_parts_of_a_call_share_the_limit(never: threading.Event) -> None:
    deadline = begun(TimeLimit(LONG))
    assert deadline.allows(LONG - SHORT)
    with pytest.raises(TimeIsUp):
        deadline.run(lambda: never.wait(LONG))
    assert not deadline.allows(0)


def test_time_between_the_parts_does_not_count() -> None:
    deadline = begun(TimeLimit(SHORT))
    time.sleep(SHORT)
    assert deadline.run(lambda: "Lima") == "Lima"
    assert deadline.allows(0)


def test_a_limit_longer_than_any_wait_is_none() -> None:
    assert begun(TimeLimit(1e300)).run(lambda: "Lima") == "Lima"


def test_a_part_finds_the_context_of_who_asks() -> None:
    name = contextvars.ContextVar("name", default="nobody")
    name.set("trial 3")
    assert begun(TimeLimit(LONG)).run(name.get) == "trial 3"


def test_threads_are_daemons_and_used_again() -> None:
    limit = TimeLimit(LONG)
    threads = [begun(limit).run(threading.current_thread) for _ in range(3)]
    assert len(set(threads)) == 1
    assert threads[0].daemon
    assert threads[0] is not threading.current_thread()


def test_a_thread_that_a_fork_left_in_the_parent_is_not_asked() -> None:
    limit = TimeLimit(LONG)
    thread = begun(limit).run(threading.current_thread)
    thread.is_alive = lambda: False  # type: ignore[method-assign]
    assert begun(limit).run(threading.current_thread) is not thread


# A request


class Sender:
    """Sends on a clock that only moves by sleeping."""

    def __init__(self, seconds: float) -> None:
        self.time = Time()
        clock = PaceClock(now=self.time.now, sleep=self.time.sleep, jitter=lambda: 0.0)
        throttle = Throttle(clock=clock)
        self.provider = throttle.of("openai", ORIGIN)
        self._policy = Services(throttle=throttle, limit=TimeLimit(seconds))

    def send(self, *replies: HttpReply) -> HttpReply:
        left = list(replies)
        return attempted(lambda _deadline: left.pop(0), self._policy)

    def send_for_ever(self, never: threading.Event) -> HttpReply:
        def attempt() -> HttpReply:
            never.wait(LONG)
            return ANSWER

        return attempted(lambda deadline: deadline.run(attempt), self._policy)


def test_a_pause_that_is_longer_than_what_is_left_is_not_begun() -> None:
    sender = Sender(0.4)
    failed = HttpReply(status=500)
    assert sender.send(failed, ANSWER) is failed  # the pause would take 0.5
    assert sender.time.slept == []


def test_waits_for_a_provider_that_slows_us_down_do_not_count() -> None:
    sender = Sender(5.0)
    busy = [HttpReply(status=429, headers={"retry-after": "7"})] * 9
    assert sender.send(*busy, ANSWER).status == 200
    assert sum(sender.time.slept) == 9 * 7


def test_a_call_that_is_given_up_leaves_the_gate(never: threading.Event) -> None:
    sender = Sender(SHORT)
    with pytest.raises(TimedOut):
        sender.send_for_ever(never)
    assert sender.provider._pace.in_flight == 0


# What a test sees


def test_a_reply_that_trickles_for_ever_is_given_up(
    begin: Callable[..., Session], trial: CountingTrial, server: OpenAIServer
) -> None:
    server.then(Scripted(trickle=0.05))  # some 400 bytes
    with pytest.raises(ProviderFailed, match=r"openai/gpt gave no reply: .*raise --llm-timeout"):
        begin(timeout=SENT).model(MODEL, trial).ask("Hello")
    assert len(server.requests) <= 1  # the server may not have read it yet
    (call,) = trial.calls
    assert call.failure == "infrastructure"
    assert call.reason == "no reply within 1 s (--llm-timeout)"


def test_the_sdk_reports_a_timeout(
    begin: Callable[..., Session], trial: CountingTrial, server: OpenAIServer
) -> None:
    server.then(Scripted(trickle=0.05))
    client = begin(timeout=SENT).client(trial)
    with pytest.raises(openai.APITimeoutError):
        client.chat.completions.create(model="gpt", messages=[{"role": "user", "content": "Hi"}])
    assert len(server.requests) <= 1
    assert trial.calls[0].failure == "infrastructure"


def test_what_was_given_up_is_asked_anew(
    begin: Callable[..., Session], trial: CountingTrial, server: OpenAIServer
) -> None:
    server.then(Scripted(trickle=0.05))
    with pytest.raises(ProviderFailed):
        begin(timeout=SENT).model(MODEL, trial).ask("Hello")
    assert not begin().model(MODEL, CountingTrial(0)).ask("Hello").cached
