from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.timed_calls import Steps
from pytest_llmeval.errors import CacheError, Lost, ProviderFailed, ReplayMiss
from pytest_llmeval.models.calls import CachedCalls, Request, sampling_parameters
from pytest_llmeval.records import Slot
from tests.cache.calls import wanted
from tests.models.conftest import CountingTrial, Session

T = TypeVar("T")

KEY = "ab" * 32


def asking(perform: Callable[[Slot], StoredReply]) -> Request:
    return Request(
        key=KEY,
        model="openai/gpt",
        host="https://api.example",
        parameters={"temperature": 0.5},
        perform=perform,
    )


def answering(text: str = "yes", **facts: str | int | float | bool | None) -> StoredReply:
    return paid_reply(body=text.encode(), facts=facts)


def test_a_miss_is_called_once_and_then_replayed(
    begin: Callable[..., Session], trial: CountingTrial
) -> None:
    first = begin().calls(trial).call(asking(lambda _slot: answering("paid")))
    again = begin().calls(CountingTrial(0)).call(asking(lambda _slot: answering("other")))

    assert (first.body, first.replayed) == (b"paid", False)
    assert (again.body, again.replayed, again.draw) == (b"paid", True, first.draw)


def test_each_trial_and_each_occurrence_is_a_draw_of_its_own(session: Session) -> None:
    asked: list[Slot] = []

    def perform(slot: Slot) -> StoredReply:
        asked.append(slot)
        return answering()

    for index in (0, 1):
        calls = session.calls(CountingTrial(index))
        calls.call(asking(perform))
        calls.call(asking(perform))

    assert asked == [Slot(0, 0), Slot(0, 1), Slot(1, 0), Slot(1, 1)]


def test_only_a_paid_call_releases_the_trial(
    begin: Callable[..., Session], trial: CountingTrial
) -> None:
    begin().calls(trial).call(asking(lambda _slot: answering()))
    replaying = CountingTrial(0)
    begin().calls(replaying).call(asking(lambda _slot: answering()))

    assert trial.waits == 1
    assert replaying.waits == 0


def test_a_trial_waits_until_its_reply_is_on_disk(begin: Callable[..., Session]) -> None:
    stored: list[bool] = []

    class Looking(CountingTrial):
        def wait(self, fn: Callable[[], T], *, serial: bool = False) -> T:
            result = fn()
            stored.append(begin().replies.lookup(wanted(KEY), Slot(0, 0)) is not None)
            return result

    begin().calls(Looking(0)).call(asking(lambda _slot: answering()))

    assert stored == [True]


def test_a_call_is_recorded_with_its_provenance(session: Session, trial: CountingTrial) -> None:
    reply = session.calls(trial).call(
        asking(
            lambda _slot: answering(
                model="gpt-2026", fingerprint="fp", input_tokens=7, output_tokens=2, seconds=0.25
            )
        )
    )

    (call,) = trial.calls
    assert (call.key, call.slot, call.draw) == (KEY, Slot(0, 0), reply.draw)
    assert (call.reply_sha256, call.replayed) == (reply.sha256, False)
    assert (call.model, call.served, call.fingerprint) == ("openai/gpt", "gpt-2026", "fp")
    assert (call.host, call.parameters) == ("https://api.example", {"temperature": 0.5})
    assert (call.usage.input_tokens, call.usage.output_tokens, call.seconds) == (7, 2, 0.25)
    assert (call.failure, call.reason) == (None, "")


def test_a_replayed_call_keeps_the_facts_of_the_paid_one(begin: Callable[..., Session]) -> None:
    replaying = CountingTrial(0)
    for trial in (CountingTrial(0), replaying):
        begin().calls(trial).call(asking(lambda _slot: answering(seconds=3, input_tokens=7)))

    (call,) = replaying.calls
    assert (call.replayed, call.seconds, call.usage.input_tokens) == (True, 3.0, 7)


def test_facts_of_an_unexpected_kind_are_unknown(session: Session, trial: CountingTrial) -> None:
    session.calls(trial).call(
        asking(lambda _slot: answering(model=1, input_tokens="seven", seconds="long"))
    )

    (call,) = trial.calls
    assert (call.served, call.usage.input_tokens, call.seconds) == (None, None, None)


@pytest.mark.parametrize(
    ("lost", "failure"), [(Lost.STATUS, "infrastructure"), (Lost.CONTENT, "content")]
)
def test_a_failed_call_is_recorded_and_raised(
    session: Session, trial: CountingTrial, lost: Lost, failure: str
) -> None:
    error = ProviderFailed("no", lost=lost, lost_for=("400",))

    def perform(_slot: Slot) -> StoredReply:
        raise error

    with pytest.raises(ProviderFailed) as caught:
        session.calls(trial).call(asking(perform))

    assert caught.value is error
    (call,) = trial.calls
    assert (call.lost, call.failure, call.reason) == (lost, failure, "HTTP 400")
    assert (call.draw, call.reply_sha256, call.replayed) == (None, None, False)
    assert (call.model, call.host) == ("openai/gpt", "https://api.example")
    assert call.parameters == {"temperature": 0.5}


def test_a_retry_by_the_application_asks_for_the_same_draw(
    session: Session, trial: CountingTrial
) -> None:
    calls = session.calls(trial)

    def refuse(_slot: Slot) -> StoredReply:
        raise ProviderFailed("HTTP 500")

    with pytest.raises(ProviderFailed):
        calls.call(asking(refuse))
    calls.call(asking(lambda _slot: answering()))

    assert [call.slot for call in trial.calls] == [Slot(0, 0), Slot(0, 0)]


def test_a_replay_miss_is_a_failure_of_the_infrastructure(
    begin: Callable[..., Session], trial: CountingTrial
) -> None:
    with pytest.raises(ReplayMiss):
        begin(mode="replay").calls(trial).call(asking(lambda _slot: answering()))

    (call,) = trial.calls
    assert (call.failure, call.reason) == ("infrastructure", "ReplayMiss")


def test_an_unusable_store_is_a_failure_of_the_infrastructure(trial: CountingTrial) -> None:
    class Broken:
        patience = 1.0

        def courses(self, _trial: str) -> list[Steps]:
            return []

        def keep_course(self, _trial: str, _steps: Steps) -> None:
            raise AssertionError("nothing was asked")

        def lookup(self, *_: object, **__: object) -> None:
            raise CacheError("/home/someone/.llmeval is full")

    calls = CachedCalls(trial, Broken())  # type: ignore[arg-type]  # a stand-in

    with pytest.raises(CacheError):
        calls.call(asking(lambda _slot: answering()))

    (call,) = trial.calls
    assert (call.failure, call.reason) == ("infrastructure", "CacheError")


def test_only_scalar_sampling_parameters_are_picked() -> None:
    body = {"temperature": 0, "seed": None, "top_p": [0.5], "max_tokens": 5, "messages": "hidden"}

    assert sampling_parameters(body) == {"temperature": 0, "seed": None}
