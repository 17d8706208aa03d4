"""Kinds that applications and suites bring along: loops, threads, patches, clients of their own."""

from __future__ import annotations

from tests.truth.around import around
from tests.truth.clients import of_client

HABITS = [
    around(
        "asyncio.get_event_loop",
        """
@evaluated()
def test_a(async_llm, i):
    body()
    loop = asyncio.get_event_loop()
    assert loop.run_until_complete(async_llm.ask(f"q {i} rate=0.5")).text == "yes"
""",
        model="answer_async",
    ),
    around(
        "asyncio.new_event_loop",
        """
@evaluated()
def test_a(async_llm, i):
    body()
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        assert loop.run_until_complete(async_llm.ask(f"q {i} rate=0.5")).text == "yes"
    finally:
        loop.close()
""",
        model="answer_async",
    ),
    around(
        "signal.alarm",
        """
import signal

def late(number, frame):
    raise TimeoutError

@evaluated()
def test_a(llm, i):
    body()
    kept = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    try:
        ASK
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, kept)
""",
    ),
    around(
        "a loop in a thread of the module",
        """
LOOP = asyncio.new_event_loop()
threading.Thread(target=LOOP.run_forever, daemon=True).start()

@evaluated()
def test_a(async_llm, i):
    body()
    asked = asyncio.run_coroutine_threadsafe(async_llm.ask(f"q {i} rate=0.5"), LOOP)
    assert asked.result().text == "yes"
""",
        model="answer_async",
    ),
    around(
        "a ThreadPool of multiprocessing",
        """
from multiprocessing.pool import ThreadPool

@evaluated()
def test_a(llm, i):
    body()
    with ThreadPool(2) as pool:
        (reply,) = pool.map(llm.ask, [f"q {i} rate=0.5"])
    assert reply.text == "yes"
""",
    ),
    around(
        "a worker of the module behind a queue",
        """
import queue
WORK = queue.Queue()

def work():
    while True:
        call, question, answer = WORK.get()
        answer.put(call(question).text)

threading.Thread(target=work, daemon=True).start()

@evaluated()
def test_a(llm, i):
    body()
    answer = queue.Queue()
    WORK.put((llm.ask, f"q {i} rate=0.5", answer))
    assert answer.get() == "yes"
""",
    ),
    around(
        "a conversation in the params of a fixture",
        """
@pytest.fixture(params=[[{"role": "user", "content": f"q {i}"}] for i in range(40)])
def chat(request):
    return request.param

@llm_eval(repeats=5)
def test_a(llm, chat):
    body()
    reply = llm.chat(chat)
    chat.append({"role": "assistant", "content": reply.text})
    chat.append({"role": "user", "content": "Are you sure?"})
    assert llm.chat(chat).text == "yes"
""",
        model="chat",
        rates={"pass": 0.9},
    ),
    around(
        "a conversation in an indirect parameter",
        """
@pytest.fixture
def chat(request):
    return request.param

CHATS = [[{"role": "user", "content": f"q {i}"}] for i in range(40)]

@llm_eval(repeats=5)
@pytest.mark.parametrize("chat", CHATS, indirect=True)
def test_a(llm, chat):
    body()
    reply = llm.chat(chat)
    chat.append({"role": "assistant", "content": reply.text})
    chat.append({"role": "user", "content": "Are you sure?"})
    assert llm.chat(chat).text == "yes"
""",
        model="chat",
        rates={"pass": 0.9},
    ),
    around(
        "a conversation in a dataclass",
        """
from dataclasses import dataclass, field

@dataclass
class Chat:
    turns: list

@llm_eval(repeats=5)
@pytest.mark.parametrize("chat", [Chat([{"role": "user", "content": f"q {i}"}]) for i in range(40)])
def test_a(llm, chat):
    body()
    reply = llm.chat(chat.turns)
    chat.turns.append({"role": "assistant", "content": reply.text})
    chat.turns.append({"role": "user", "content": "Are you sure?"})
    assert llm.chat(chat.turns).text == "yes"
""",
        model="chat",
        rates={"pass": 0.9},
    ),
    around(
        "a list in a tuple",
        """
CHATS = [([{"role": "user", "content": f"q {i}"}], ([],)) for i in range(40)]

@llm_eval(repeats=5)
@pytest.mark.parametrize("chat, other", CHATS)
def test_a(llm, chat, other):
    body()
    reply = llm.chat(chat)
    assert not other[0]
    other[0].append(1)
    chat += [{"role": "assistant", "content": reply.text}, {"role": "user", "content": "Sure?"}]
    assert llm.chat(chat).text == "yes"
""",
        model="chat",
        rates={"pass": 0.9},
    ),
    around(
        "a semaphore of the module",
        """
LIMIT = asyncio.Semaphore(3)

@evaluated()
async def test_a(async_llm, i):
    body()
    async with LIMIT:
        assert (await async_llm.ask(f"q {i} rate=0.5")).text == "yes"
""",
        model="answer_async",
    ),
    around(
        "a lock of the module",
        """
LOCK = threading.Lock()

@evaluated()
def test_a(llm, i):
    body()
    with LOCK:
        ASK
""",
    ),
    around(
        "a task that nobody awaits",
        """
@evaluated()
async def test_a(async_llm, i):
    body()
    task = asyncio.create_task(async_llm.ask(f"late {i} rate=1"))
    assert (await async_llm.ask(f"q {i} rate=0.5")).text == "yes"
""",
        model="answer_async",
    ),
    around(
        "os.chdir by hand",
        """
HOME = os.getcwd()

@evaluated()
def test_a(llm, i, tmp_path):
    body()
    assert os.getcwd() == HOME
    os.chdir(tmp_path)
    try:
        ASK
        assert os.getcwd() == str(tmp_path)
    finally:
        os.chdir(HOME)
""",
    ),
    around(
        "os.environ by hand",
        """
@evaluated()
def test_a(llm, i):
    body()
    assert "MINE" not in os.environ
    os.environ["MINE"] = str(i)
    try:
        ASK
        assert os.environ["MINE"] == str(i)
    finally:
        del os.environ["MINE"]
""",
    ),
    around(
        "getfixturevalue in the middle",
        """
@pytest.fixture
def second(llm, i):
    return llm.ask(f"second {i} rate=0.5").text

@evaluated()
def test_a(llm, i, request):
    body()
    assert llm.ask(f"first {i} rate=1").text == "yes"
    assert request.getfixturevalue("second") == "yes"
""",
    ),
    around(
        "time.sleep made instant",
        """
@evaluated()
def test_a(llm, i, monkeypatch):
    body()
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    time.sleep(60)
    ASK
    time.sleep(60)
""",
    ),
    around(
        "mock.patch as a decorator",
        """
from unittest import mock
import app

@evaluated()
@mock.patch("app.MODE", "patched")
def test_a(llm, i):
    body()
    assert app.MODE == "patched"
    ASK
    assert app.MODE == "patched"
""",
    ),
    around(
        "caplog",
        """
import logging

@evaluated()
def test_a(llm, i, caplog):
    body()
    logging.getLogger("app").warning("said %s", llm.ask(f"q {i} rate=0.5").text)
    assert caplog.messages == ["said yes"]
""",
    ),
    around(
        "a seed in an autouse fixture",
        """
@pytest.fixture(autouse=True)
def seeded():
    random.seed(0)

@evaluated()
def test_a(llm, i):
    body()
    a = random.random()
    llm.ask(f"first {i} {a} rate=1")
    b = random.random()
    assert llm.ask(f"q {i} {b} rate=0.5").text == "yes"
""",
    ),
    around(
        "asyncio with a sync ask",
        """
@evaluated()
async def test_a(llm, i):
    body()
    ASK
""",
    ),
    around(
        "run_in_executor",
        """
@evaluated()
async def test_a(llm, i):
    body()
    loop = asyncio.get_running_loop()
    reply = await loop.run_in_executor(None, llm.ask, f"q {i} rate=0.5")
    assert reply.text == "yes"
""",
    ),
    of_client(
        "a client of httpx with a timeout",
        """
import httpx
CLIENT = httpx.Client(timeout=60)

@evaluated()
def test_a(i):
    body()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    reply = CLIENT.post(url, json=asked(f"q {i} rate=0.5")).json()
    assert reply["choices"][0]["message"]["content"] == "yes"
""",
    ),
    of_client(
        "requests alone",
        """
import requests

@evaluated()
def test_a(i):
    body()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    reply = requests.post(url, json=asked(f"q {i} rate=0.5"), timeout=60).json()
    assert reply["choices"][0]["message"]["content"] == "yes"
""",
    ),
    of_client(
        "aiohttp alone",
        """
import aiohttp

@evaluated()
async def test_a(i):
    body()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    async with aiohttp.ClientSession() as session:
        async with session.post(url, json=asked(f"q {i} rate=0.5")) as response:
            reply = await response.json()
    assert reply["choices"][0]["message"]["content"] == "yes"
""",
    ),
    of_client(
        "an async client of the module",
        """
SHARED = openai.AsyncOpenAI()

@evaluated()
async def test_a(i):
    body()
    reply = await SHARED.chat.completions.create(**asked(f"q {i} rate=0.5"))
    assert said(reply) == "yes"
""",
    ),
]
