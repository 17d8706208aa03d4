"""The awaitable twins take the same road: same keys, slots, draws, failures and retries."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import openai
import pytest
from openai import _base_client

from pytest_llmeval.errors import CallAbandoned, ProviderFailed, ReplayMiss, SettingsError
from tests.models.conftest import SECRET, CountingTrial, Session
from tests.servers.openai_server import OpenAIServer, Scripted

T = TypeVar("T")

NAME = "openai/gpt-4o-mini"
BOT = "function/async_bot:answer"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "async_bot", raising=False)

    def write_bot(source: str) -> None:
        (tmp_path / "async_bot.py").write_text(source)

    return write_bot


def ask(session: Session, name: str, trial: CountingTrial, prompt: str = "Hello") -> str:
    return asyncio.run(session.async_model(name, trial).ask(prompt)).text


# ------------------------------------------------------------------------ openai


def test_a_reply_paid_for_by_the_blocking_client_is_replayed_to_the_awaitable_one(
    begin: Callable[..., Session], server: OpenAIServer
) -> None:
    first, second = CountingTrial(0), CountingTrial(0)
    begin().model(NAME, first).ask("Hello", system="Be brief", temperature=0.5)

    async def ask_again() -> None:
        model = begin(mode="replay").async_model(NAME, second)
        reply = await model.ask("Hello", system="Be brief", temperature=0.5)
        assert (reply.text, reply.cached) == ("reply 0", True)

    asyncio.run(ask_again())

    (paid,), (replayed,) = first.calls, second.calls
    assert (paid.key, paid.slot, paid.draw) == (replayed.key, replayed.slot, replayed.draw)
    assert replayed.replayed
    assert len(server.requests) == 1


def test_clients_do_not_each_find_out_the_platform_in_a_thread(
    session: Session, server: OpenAIServer, trial: CountingTrial, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.async_client(trial)  # the first one tells it
    asked: list[object] = []
    monkeypatch.setattr(_base_client, "get_platform", lambda: asked.append(0))

    async def ask_two() -> None:
        for _ in range(2):
            async with session.async_client(trial) as client:
                await client.chat.completions.create(model="gpt", messages=[])

    asyncio.run(ask_two())

    assert not asked
    assert server.requests[0].headers["x-stainless-os"] not in ("", "Unknown")


def test_a_reply_is_stored_before_the_coroutine_gets_it(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    other = begin(mode="replay")

    async def look() -> str:
        client = begin().async_client(trial)
        await client.chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": "Hello"}]
        )
        reply = await other.async_model(NAME, CountingTrial(0)).ask("Hello")
        return reply.text

    assert asyncio.run(look()) == "reply 0"


@pytest.mark.usefixtures("server")
def test_equal_requests_at_once_take_their_slots_in_the_order_of_the_text(
    begin: Callable[..., Session],
) -> None:
    async def ask_five(session: Session) -> list[str]:
        model = session.async_model(NAME, CountingTrial(0))
        replies = await asyncio.gather(*(model.ask("Hello") for _ in range(5)))
        return [reply.text for reply in replies]

    paid = asyncio.run(ask_five(begin()))

    assert sorted(paid) == [f"reply {number}" for number in range(5)]
    assert asyncio.run(ask_five(begin(mode="replay"))) == paid


def test_calls_of_one_coroutine_are_made_at_the_same_time(
    session: Session, trial: CountingTrial, write: Callable[[str], None]
) -> None:
    write(
        "import threading\nBARRIER = threading.Barrier(3)\n"
        "def answer(messages):\n    BARRIER.wait(300)\n    return 'yes'\n"
    )

    async def ask_three() -> list[str]:
        model = session.async_model(BOT, trial)
        return [r.text for r in await asyncio.gather(*(model.ask(str(n)) for n in range(3)))]

    assert asyncio.run(ask_three()) == ["yes"] * 3


def test_failures_are_tried_again_and_reported_as_by_the_blocking_client(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=500), Scripted(status=408), Scripted(status=502))

    with pytest.raises(ProviderFailed, match="HTTP 502") as caught:
        ask(session, NAME, trial)

    assert caught.value.failure == "infrastructure"
    assert len(server.requests) == 3
    assert len(session.slept) == 2
    (call,) = trial.calls
    assert (call.draw, call.failure) == (None, "infrastructure")


def test_a_refusal_for_the_content_is_one(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(Scripted(status=400))

    with pytest.raises(ProviderFailed) as caught:
        ask(session, NAME, trial)

    assert caught.value.failure == "content"
    assert [call.failure for call in trial.calls] == ["content"]


def test_a_lost_connection_is_the_error_of_the_sdk(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    server.then(*[Scripted(drop="before")] * 3)

    async def create() -> None:
        await session.async_client(trial).chat.completions.create(
            model="gpt-4o-mini", messages=[{"role": "user", "content": "Hello"}]
        )

    with pytest.raises(openai.APIConnectionError):
        asyncio.run(create())

    assert [call.failure for call in trial.calls] == ["infrastructure"]


@pytest.mark.usefixtures("server")
def test_a_replay_miss_says_so_and_opens_no_socket(
    begin: Callable[..., Session], server: OpenAIServer, trial: CountingTrial
) -> None:
    with pytest.raises(ReplayMiss, match="--llm-cache=auto"):
        ask(begin(mode="replay"), NAME, trial)

    assert server.requests == []


def test_a_call_that_is_given_up_counts_as_lost_and_is_kept_all_the_same(
    begin: Callable[..., Session], trial: CountingTrial, write: Callable[[str], None]
) -> None:
    write(
        "import threading\nSTARTED, RELEASED = threading.Event(), threading.Event()\n"
        "def answer(messages):\n    STARTED.set()\n    RELEASED.wait(300)\n    return 'late'\n"
    )

    async def give_up() -> None:
        asking = asyncio.create_task(begin().async_model(BOT, trial).ask("Hello"))
        await asyncio.sleep(0)
        bot = sys.modules["async_bot"]
        await asyncio.to_thread(bot.STARTED.wait, 10)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        bot.RELEASED.set()

    asyncio.run(give_up())  # ends when the thread has: see asyncio.to_thread

    (call,) = trial.calls
    assert (call.failure, call.reason) == ("infrastructure", "CancelledError")
    assert ask(begin(mode="replay"), BOT, CountingTrial(0)) == "late"


def test_what_is_not_kept_passes_through(
    session: Session, server: OpenAIServer, trial: CountingTrial
) -> None:
    async def list_models() -> int:
        return len((await session.async_client(trial).models.list()).data)

    assert asyncio.run(list_models()) == 0
    assert [request.method for request in server.requests] == ["GET"]
    assert server.requests[0].headers["authorization"] == f"Bearer {SECRET}"
    assert trial.calls == []


def test_connections_outlive_the_loops_that_used_them(
    session: Session, server: OpenAIServer
) -> None:
    for index in range(3):
        ask(session, NAME, CountingTrial(index))

    assert len({request.port for request in server.requests}) == 1


def test_the_loop_goes_on_while_a_reply_is_being_stored(
    session: Session, trial: CountingTrial, write: Callable[[str], None]
) -> None:
    write("def answer(messages):\n    return 'yes'\n")
    stored, ticked = threading.Event(), threading.Event()
    pay = session.replies.pay

    def slow_pay(*arguments: object, **more: object) -> object:
        assert ticked.wait(300)
        stored.set()
        return pay(*arguments, **more)  # type: ignore[arg-type]

    session.replies.pay = slow_pay  # type: ignore[assignment,method-assign]

    async def tick() -> None:
        assert not stored.is_set()
        ticked.set()

    async def both() -> None:
        await asyncio.gather(session.async_model(BOT, trial).ask("Hello"), tick())

    asyncio.run(both())

    assert stored.is_set()


# ----------------------------------------------------------------------- function

KINDS = {
    "def": "def answer(messages): return messages[-1]['content']",
    "async def": (
        "import asyncio\nasync def answer(messages):\n"
        "    await asyncio.sleep(0)\n    return messages[-1]['content']"
    ),
    "object": (
        "class Bot:\n    async def __call__(self, messages): return messages[-1]['content']\n"
        "answer = Bot()"
    ),
}


@pytest.mark.parametrize("source", KINDS.values(), ids=KINDS)
def test_every_kind_of_function_answers_both_kinds_of_test(
    begin: Callable[..., Session], write: Callable[[str], None], source: str
) -> None:
    write(source)

    assert begin().model(BOT, CountingTrial(0)).ask("one").text == "one"
    assert ask(begin(), BOT, CountingTrial(0), "two") == "two"
    assert ask(begin(mode="replay"), BOT, CountingTrial(0), "one") == "one"


def test_an_async_function_runs_on_the_loop_of_its_test(
    session: Session, trial: CountingTrial, write: Callable[[str], None]
) -> None:
    write(
        "import asyncio\nasync def answer(messages):\n"
        "    return str(id(asyncio.get_running_loop()))"
    )

    async def compare() -> bool:
        reply = await session.async_model(BOT, trial).ask("Hello")
        return reply.text == str(id(asyncio.get_running_loop()))

    assert asyncio.run(compare())


class LateTrial(CountingTrial):
    """Its call comes to the thread that makes it once the loop is closed."""

    def __init__(self) -> None:
        super().__init__(0)
        self.call: Callable[[], object] = object

    async def wait_async(
        self, fn: Callable[[], T], *, awaits: bool = False, serial: bool = False
    ) -> T:
        self.call = fn
        raise TimeoutError


def test_a_call_that_comes_after_the_end_of_its_loop_is_given_up(
    session: Session, write: Callable[[str], None]
) -> None:
    write(KINDS["async def"])
    trial = LateTrial()
    with pytest.raises(TimeoutError):
        ask(session, BOT, trial)

    with pytest.raises(CallAbandoned):
        trial.call()

    gc.collect()  # a coroutine that nobody awaited would warn


def test_an_async_function_that_raises_gives_no_reply(
    session: Session, trial: CountingTrial, write: Callable[[str], None]
) -> None:
    write("async def answer(messages):\n    raise KeyError('gone')")

    with pytest.raises(ProviderFailed, match=r"raised KeyError at async_bot.py:2: 'gone'"):
        ask(session, BOT, trial)

    assert [call.reason for call in trial.calls] == [f"{BOT} raised KeyError at async_bot.py:2"]


def test_an_async_model_without_a_name_says_what_to_type(
    session: Session, trial: CountingTrial
) -> None:
    with pytest.raises(SettingsError, match="--llm-model=provider/model"):
        asyncio.run(session.async_model(None, trial).ask("Hello"))
