"""Kinds in which the application has clients of its own, which ask a server on this machine."""

from __future__ import annotations

from tests.truth.kinds import Kind

CLIENT = """
import openai

MODEL = "gpt-4o-mini"

def asked(question):
    return {"model": MODEL, "messages": [{"role": "user", "content": question}]}

def said(reply):
    return reply.choices[0].message.content

def ask(question):
    return said(openai.OpenAI().chat.completions.create(**asked(question)))
"""


def of_client(name: str, source: str) -> Kind:
    """A kind below what builds clients; of equal prompts the server knows no trial."""
    source = source.replace("@evaluated(", "@evaluated(intercept=True, ")
    return Kind(name=name, source=CLIENT + source, is_alike_afresh=False, has_clients=True)


CLIENTS = [
    of_client(
        "a client for each question",
        """
@evaluated()
def test_a(i):
    body()
    assert ask(f"q {i} rate=0.5") == "yes"
""",
    ),
    of_client(
        "a client that is shared, in threads",
        """
SHARED = openai.OpenAI()

@evaluated()
def test_a(i):
    body()
    def one(who):
        return said(SHARED.chat.completions.create(**asked(f"{who} {i} rate={0.5 ** 0.5}")))
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(one, "ab")) == {"yes"}
""",
    ),
    of_client(
        "an async client",
        """
@evaluated()
async def test_a(i):
    body()
    async with openai.AsyncOpenAI() as client:
        asks = [
            client.chat.completions.create(**asked(f"{who} {i} rate={0.5 ** 0.5}")) for who in "ab"
        ]
        assert all(said(reply) == "yes" for reply in await asyncio.gather(*asks))
""",
    ),
    of_client(
        "an async client under asyncio.run",
        """
@evaluated()
def test_a(i):
    body()
    async def one():
        async with openai.AsyncOpenAI() as client:
            return said(await client.chat.completions.create(**asked(f"q {i} rate=0.5")))
    assert asyncio.run(one()) == "yes"
""",
    ),
    of_client(
        "a stream",
        """
@evaluated()
def test_a(i):
    body()
    chunks = openai.OpenAI().chat.completions.create(**asked(f"q {i} rate=0.5"), stream=True)
    parts = [chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices]
    assert "".join(parts) == "yes"
""",
    ),
    of_client(
        "a stream that is left early",
        """
@evaluated()
def test_a(i):
    body()
    chunks = openai.OpenAI().chat.completions.create(**asked(f"q {i} rate=0.5"), stream=True)
    for chunk in chunks:
        if chunk.choices and chunk.choices[0].delta.content:
            assert "yes".startswith(chunk.choices[0].delta.content)
            break
    chunks.close()
""",
    ),
    of_client(
        "httpx alone",
        """
import httpx

@evaluated()
def test_a(i):
    body()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    reply = httpx.post(url, json=asked(f"q {i} rate=0.5"), timeout=30).json()
    assert reply["choices"][0]["message"]["content"] == "yes"
""",
    ),
    of_client(
        "a module fixture that asks",
        """
@pytest.fixture(scope="module")
def context():
    return ask("context rate=1")

@evaluated()
def test_a(context, i):
    body()
    assert context == "yes"
    assert ask(f"q {i} rate=0.5") == "yes"
""",
    ),
    of_client(
        "a class fixture that asks",
        """
@pytest.fixture(scope="class")
def context():
    return ask("context rate=1")

class TestA:
    @evaluated()
    def test_a(self, context, i):
        body()
        assert context == "yes"
        assert ask(f"q {i} rate=0.5") == "yes"
""",
    ),
    of_client(
        "a fixture that sleeps and asks",
        """
@pytest.fixture
def answered(i):
    time.sleep(0.005)
    yield ask(f"q {i} rate=0.5")
    time.sleep(0.005)

@evaluated()
def test_a(answered, i):
    body()
    assert answered == "yes"
""",
    ),
]
