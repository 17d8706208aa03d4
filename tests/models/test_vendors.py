"""What holds for every SDK, blocking and awaitable: one table, and the vendors in its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pytest_llmeval.errors import Lost, ProviderFailed, ReplayMiss
from pytest_llmeval.models.vendors import ollama as ollama_vendor
from tests.leaks import files_with
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.models.vendors import VENDORS, Vendor, Way, done
from tests.servers.openai_server import NEVER, OpenAIServer, Scripted

WAYS = [
    pytest.param(vendor, way, id=f"{vendor.name}-{name}")
    for vendor in VENDORS
    for name, way in vendor.ways.items()
]
EVERY_VENDOR = pytest.mark.parametrize("vendor", VENDORS, ids=[v.name for v in VENDORS])
PLAIN_OR_STREAM = pytest.mark.parametrize("how", ["plain", "stream"])
BOTH = pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])


@pytest.fixture
def serving(vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with vendor.server() as server:
        for name, value in vendor.environment(server.url).items():
            monkeypatch.setenv(name, value)
        yield server


@pytest.fixture(autouse=True)
def _no_key_in_any_file(directory: Path) -> Iterator[None]:
    yield
    assert files_with(SECRET, directory) == []


@BOTH
@pytest.mark.parametrize(("vendor", "way"), WAYS)
def test_a_reply_is_typed_kept_and_replayed_without_call_or_key(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    directory: Path,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
    way: Way,
    is_async: bool,
) -> None:
    serving.then(way.well())
    first, second = CountingTrial(0), CountingTrial(0)
    session = begin()
    paid = done(way.ask(vendor.client(session, first, is_async=is_async)))
    session.close()
    monkeypatch.delenv(vendor.key_variable)

    replayed = done(way.ask(vendor.client(begin(mode="replay"), second, is_async=is_async)))

    assert way.read(paid) == way.read(replayed) == way.expected
    assert type(paid) is type(replayed)
    assert len(serving.requests) == 1
    (bought,), (again,) = first.calls, second.calls
    assert (bought.draw, bought.reply_sha256) == (again.draw, again.reply_sha256)
    assert (bought.replayed, again.replayed) == (False, True)
    assert SECRET in str(serving.requests[0].headers)
    assert files_with(bought.draw or "-", directory) == ["cache.db"]  # what is searched for a key


@BOTH
@PLAIN_OR_STREAM
@EVERY_VENDOR
@pytest.mark.parametrize(
    ("status", "headers", "made", "failure"),
    [
        (400, {}, 1, "content"),
        (401, {}, 1, "infrastructure"),
        (404, {}, 1, "infrastructure"),
        (429, {"retry-after": "300"}, 1, "infrastructure"),
        (500, {}, 3, "infrastructure"),
        (529, {}, 20, "infrastructure"),
    ],
)
def test_a_refusal_is_the_vendors_own_error(
    *,
    begin: Callable[..., Session],
    serving: OpenAIServer,
    trial: CountingTrial,
    vendor: Vendor,
    is_async: bool,
    how: str,
    status: int,
    headers: dict[str, str],
    made: int,
    failure: str,
) -> None:
    way = vendor.ways[how]
    serving.then(*[Scripted(status=status, headers=headers)] * made, way.well())

    with pytest.raises(vendor.errors[status], match="scripted") as caught:
        done(way.ask(vendor.client(begin(), trial, is_async=is_async)))

    assert getattr(caught.value, "status_code", None) == status
    assert len(serving.requests) == made
    (call,) = trial.calls
    assert (call.failure, call.draw) == (failure, None)
    done(way.ask(vendor.client(begin(), CountingTrial(0), is_async=is_async)))
    assert len(serving.requests) == made + 1  # nothing was stored


@BOTH
@EVERY_VENDOR
def test_who_is_to_slow_down_waits_as_long_as_the_vendor_says(
    session: Session, serving: OpenAIServer, trial: CountingTrial, vendor: Vendor, is_async: bool
) -> None:
    serving.then(Scripted(status=429, headers={"retry-after": "3"}))
    way = vendor.ways["plain"]

    reply = done(way.ask(vendor.client(session, trial, is_async=is_async)))

    assert way.read(reply) == "reply 1"
    assert session.slept == [3]
    assert [call.failure for call in trial.calls] == [None]


@BOTH
@PLAIN_OR_STREAM
@EVERY_VENDOR
def test_a_lost_connection_is_the_vendors_own_error(
    *,
    session: Session,
    serving: OpenAIServer,
    trial: CountingTrial,
    vendor: Vendor,
    is_async: bool,
    how: str,
) -> None:
    way = vendor.ways[how]
    serving.then(Scripted(drop="before"), way.well(drop="midway"), Scripted(drop="before"))

    with pytest.raises(vendor.lost):
        done(way.ask(vendor.client(session, trial, is_async=is_async)))

    assert len(serving.requests) == 3
    assert trial.calls[0].reason == "network: RemoteProtocolError"


@BOTH
@EVERY_VENDOR
def test_a_stream_that_is_cut_is_the_vendors_own_error_and_not_stored(
    *, begin: Callable[..., Session], serving: OpenAIServer, vendor: Vendor, is_async: bool
) -> None:
    way, trial = vendor.ways["stream"], CountingTrial(0)
    serving.then(*[way.cut()] * 3, way.well())

    with pytest.raises(vendor.errors[502]):
        done(way.ask(vendor.client(begin(), trial, is_async=is_async)))

    assert len(serving.requests) == 3
    assert [call.failure for call in trial.calls] == ["infrastructure"]
    whole = done(way.ask(vendor.client(begin(), CountingTrial(0), is_async=is_async)))
    assert way.read(whole) == "reply 0"
    assert len(serving.requests) == 4


@BOTH
@EVERY_VENDOR
def test_malformed_json_is_an_error_and_not_stored(
    session: Session, serving: OpenAIServer, trial: CountingTrial, vendor: Vendor, is_async: bool
) -> None:
    serving.then(*[Scripted(body=b'{"id": "1')] * 3)
    way = vendor.ways["plain"]
    client = vendor.client(session, trial, is_async=is_async)

    with pytest.raises(vendor.errors[502], match="not complete, valid JSON"):
        done(way.ask(client))

    assert len(serving.requests) == 3
    assert trial.calls[0].failure == "infrastructure"
    assert way.read(done(way.ask(client))) == "reply 3"


@BOTH
@EVERY_VENDOR
@pytest.mark.parametrize(
    ("how", "slowly"),
    [("plain", {"delay": 0.1}), ("plain", {"trickle": 0.0002}), ("stream", {"pause": 0.01})],
    ids=["late", "byte by byte", "chunk by chunk"],
)
def test_a_slow_reply_is_waited_for(
    *,
    session: Session,
    serving: OpenAIServer,
    trial: CountingTrial,
    vendor: Vendor,
    is_async: bool,
    how: str,
    slowly: dict[str, float],
) -> None:
    way = vendor.ways[how]
    serving.then(way.well(**slowly))

    reply = done(way.ask(vendor.client(session, trial, is_async=is_async)))

    assert way.read(reply) == "reply 0"
    assert trial.waits == 1


@BOTH
@EVERY_VENDOR
def test_a_reply_that_is_too_slow_is_the_vendors_own_error(
    *,
    session: Session,
    serving: OpenAIServer,
    trial: CountingTrial,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
    is_async: bool,
) -> None:
    monkeypatch.setattr(ollama_vendor, "DEFAULT_SECONDS", 0.5)
    serving.then(*[Scripted(delay=NEVER)] * 3)
    client = vendor.client(session, trial, is_async=is_async)
    if vendor.name != "ollama":  # its client has no deadline of its own
        client = client.with_options(timeout=0.5)

    with pytest.raises(vendor.late):
        done(vendor.ways["plain"].ask(client))

    assert len(serving.requests) <= 1  # the client waits no longer: we do not try again for it
    assert trial.calls[0].lost is Lost.OWN_TIMEOUT


@BOTH
@EVERY_VENDOR
def test_a_reply_that_is_not_stored_is_the_vendors_own_error(
    begin: Callable[..., Session],
    serving: OpenAIServer,
    trial: CountingTrial,
    vendor: Vendor,
    is_async: bool,
) -> None:
    client = vendor.client(begin(mode="replay"), trial, is_async=is_async)

    with pytest.raises(Exception, match="--llm-cache=replay makes no call"):
        done(vendor.ways["plain"].ask(client))

    assert serving.requests == []
    assert trial.calls[0].failure == "infrastructure"


# ------------------------------------------------------------------------ llm and async_llm


def ask(session: Session, trial: CountingTrial, vendor: Vendor, *, is_async: bool) -> str:
    build = session.async_model if is_async else session.model
    reply = done(build(f"{vendor.name}/m", trial).ask("Hello"))
    text: str = reply.text
    return text


@EVERY_VENDOR
def test_a_question_that_was_paid_for_is_replayed_to_a_coroutine_without_a_key(
    begin: Callable[..., Session],
    serving: OpenAIServer,
    monkeypatch: pytest.MonkeyPatch,
    vendor: Vendor,
) -> None:
    paid = ask(begin(), CountingTrial(0), vendor, is_async=False)
    monkeypatch.delenv(vendor.key_variable)

    replayed = ask(begin(mode="replay"), CountingTrial(0), vendor, is_async=True)

    assert (paid, replayed) == ("reply 0", "reply 0")
    assert len(serving.requests) == 1


@BOTH
@EVERY_VENDOR
def test_a_refused_question_names_model_status_and_cause(
    session: Session, serving: OpenAIServer, trial: CountingTrial, vendor: Vendor, is_async: bool
) -> None:
    serving.then(Scripted(status=400))

    with pytest.raises(ProviderFailed) as caught:
        ask(session, trial, vendor, is_async=is_async)

    assert str(caught.value) == f"{vendor.name}/m gave no reply: HTTP 400 Bad Request: scripted"
    assert caught.value.failure == "content"


@BOTH
@EVERY_VENDOR
def test_a_question_that_is_not_stored_is_a_replay_miss(
    begin: Callable[..., Session],
    serving: OpenAIServer,
    trial: CountingTrial,
    vendor: Vendor,
    is_async: bool,
) -> None:
    with pytest.raises(ReplayMiss):
        ask(begin(mode="replay"), trial, vendor, is_async=is_async)

    assert serving.requests == []


@EVERY_VENDOR
@pytest.mark.parametrize("body", [{"error": {"message": "overloaded", "code": 502}}, []])
def test_what_comes_with_status_200_and_is_no_answer_is_retried_and_not_stored(
    begin: Callable[..., Session], serving: OpenAIServer, vendor: Vendor, body: object
) -> None:
    serving.then(*[Scripted(body=body)] * 3)

    with pytest.raises(ProviderFailed, match=r"HTTP 502 Bad Gateway: .*reply") as caught:
        ask(begin(), CountingTrial(0), vendor, is_async=False)

    assert caught.value.failure == "infrastructure"
    assert len(serving.requests) == 3
    assert ask(begin(), CountingTrial(0), vendor, is_async=False)
    assert len(serving.requests) == 4


@EVERY_VENDOR
def test_a_key_that_the_vendor_quotes_is_blanked(
    session: Session, serving: OpenAIServer, trial: CountingTrial, vendor: Vendor
) -> None:
    serving.then(Scripted(status=401, body={"error": {"message": f"bad key {SECRET}"}}))

    with pytest.raises(ProviderFailed, match=r"401 Unauthorized: bad key \*\*\*$") as caught:
        ask(session, trial, vendor, is_async=False)

    assert caught.value.failure == "infrastructure"
    assert SECRET in str(serving.requests[0].headers)
