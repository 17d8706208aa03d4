"""A vendor takes one file and one line: names, fixtures, replays and recognition follow."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from pytest_llmeval.cache.reply import Facts
from pytest_llmeval.cli import main
from pytest_llmeval.errors import ProviderFailed, SettingsError
from pytest_llmeval.models.limits.prices import Prices
from pytest_llmeval.models.llm import parse_model_name
from pytest_llmeval.models.message import Message
from pytest_llmeval.models.vendors.recognition import Recognition, check_keys
from pytest_llmeval.records import Usage
from pytest_llmeval.settings import TokenPrice
from pytest_llmeval.transcripts.transcript import StoredTexts
from pytest_llmeval.vendors import VENDORS
from tests.models import toy_vendor
from tests.models.conftest import CountingTrial, Session
from tests.models.toy_vendor import LINE, VENDOR
from tests.servers.openai_server import OpenAIServer, Scripted

KEY = "sk-toy-1234"
REPLY = {"model": "toy-1", "content": "yes", "took": [7, 2]}
CHUNKS = [{"model": "toy-1", "more": "ye"}, {"more": "s"}, {"took": [7, 2]}]
STREAM = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in CHUNKS]
PRICED = ("-o", "llm_prices=toy/toy-1 = 1, 10")
EVALS = """
import httpx
from pytest_llmeval import llm_eval

ASKED = {"model": "toy-1", "asked": "by hand"}


def path(base):
    return f"{base}/toy/completions"


@llm_eval(repeats=2, min_score=1, intercept=True)
def test_all_ways_to_ask(llm, toy_client, base):
    assert llm.ask("Hello").text == "yes"
    assert llm.ask("Hello").raw == {"model": "toy-1", "content": "yes", "took": [7, 2]}
    assert toy_client.post(path(base), json=ASKED).json()["content"] == "yes"
    with httpx.Client() as client:
        assert client.post(path(base), json=ASKED | {"own": 1}).json()["content"] == "yes"


@llm_eval(repeats=2, min_score=1)
async def test_all_ways_to_await(async_llm, async_toy_client, base):
    assert (await async_llm.ask("Bye")).text == "yes"
    reply = await async_toy_client.post(path(base), json=ASKED | {"awaited": 1})
    assert reply.json()["content"] == "yes"
"""
ADD_TOY = """
import os
import pytest
from pytest_llmeval.records import Usage
from pytest_llmeval.settings import TokenPrice
from pytest_llmeval.transcripts.transcript import StoredTexts
from pytest_llmeval.vendors import VENDORS
from tests.models.toy_vendor import LINE

VENDORS["toy"] = LINE


@pytest.fixture(scope="session")
def base():
    return os.environ["TOY_URL"]
"""


@pytest.fixture
def bare_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    with OpenAIServer() as server:
        monkeypatch.setenv("TOY_URL", server.origin)
        monkeypatch.setenv("TOY_KEY", KEY)
        yield server


@pytest.fixture
def toy_server(bare_server: OpenAIServer) -> OpenAIServer:
    bare_server.then(*[Scripted(body=REPLY)] * 20)
    return bare_server


@pytest.fixture
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VENDORS, "toy", LINE)


@pytest.mark.usefixtures("_registered", "toy_server")
def test_llm_asks_it_and_replays_it(begin: Callable[..., Session]) -> None:
    begin().model("toy/toy-1", CountingTrial(0)).ask("Hello")
    reply = begin(mode="replay").model("toy/toy-1", CountingTrial(0)).ask("Hello")

    assert (reply.text, reply.model, reply.cached) == ("yes", "toy-1", True)
    assert reply.raw == REPLY
    assert reply.usage == Usage(input_tokens=7, output_tokens=2)


@pytest.mark.usefixtures("_registered")
def test_its_streams_are_kept_read_and_priced(
    begin: Callable[..., Session],
    bare_server: OpenAIServer,
    trial: CountingTrial,
    directory: Path,
) -> None:
    url, asked = f"{bare_server.origin}/toy/completions", {"model": "toy-1", "asked": "Is it?"}
    bare_server.then(Scripted(chunks=STREAM))
    for mode, asking in (("auto", trial), ("replay", CountingTrial(0))):
        client = begin(mode=mode).models.client("toy", asking)
        sent = client.post(url, json=asked | {"stream": True}, headers={"authorization": KEY})
        assert sent.content == b"".join(STREAM)

    (call,) = trial.calls
    price = TokenPrice(input=Decimal(1), output=Decimal(10))
    assert (call.served, call.usage) == ("toy-1", Usage(input_tokens=7, output_tokens=2))
    assert Prices({"toy/toy-1": price}).cost(call) == Decimal("0.000027")
    with StoredTexts(directory) as stored:
        question, reply = stored.request(call.key), stored.reply(call)
    assert question is not None
    assert question.messages == (Message("user", "Is it?"),)
    assert reply == (Message("assistant", "yes"),)


@pytest.mark.usefixtures("_registered", "toy_server")
def test_its_reply_is_read_for_facts_once(
    begin: Callable[..., Session], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[object] = []

    def read_facts(reply: Mapping[str, object]) -> Facts:
        read.append(reply)
        return VENDOR.read_facts(reply)

    monkeypatch.setattr(toy_vendor, "VENDOR", replace(VENDOR, read_facts=read_facts))
    paid, kept = CountingTrial(0), CountingTrial(0)
    replies = [
        begin(mode=mode).model("toy/toy-1", trial).ask("Hello")
        for mode, trial in (("auto", paid), ("replay", kept))
    ]

    assert read == [REPLY]
    assert [one.usage for one in replies] == [paid.calls[0].usage, kept.calls[0].usage]
    assert replies[1].usage == Usage(input_tokens=7, output_tokens=2)


@pytest.mark.usefixtures("_registered")
def test_its_key_is_masked_where_it_is_quoted(
    begin: Callable[..., Session], bare_server: OpenAIServer, trial: CountingTrial
) -> None:
    quoted = {"error": {"message": f"no such key: {KEY}"}}
    bare_server.then(Scripted(status=401, body=quoted))

    with pytest.raises(ProviderFailed, match="no such key") as failed:
        begin().model("toy/toy-1", trial).ask("Hello")

    assert KEY not in str(failed.value)
    assert KEY not in str(trial.calls)


@pytest.mark.usefixtures("_registered")
def test_a_client_is_built_for_it(
    begin: Callable[..., Session], toy_server: OpenAIServer, trial: CountingTrial
) -> None:
    url, asked = f"{toy_server.origin}/toy/completions", {"model": "toy-1"}
    key = {"authorization": KEY}
    begin().models.client("toy", CountingTrial(0)).post(url, json=asked, headers=key)
    replayed = begin(mode="replay").models.client("toy", trial).post(url, json=asked)

    assert replayed.json() == REPLY
    assert len(toy_server.requests) == 1
    assert (trial.calls[0].model, trial.calls[0].replayed) == ("toy/toy-1", True)


@pytest.mark.usefixtures("_registered")
def test_its_requests_its_keys_and_its_prices_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    recognition = Recognition()
    url = urlsplit("https://eu.toy.example/v2/toy/completions")
    headers = {"content-type": "application/json"}
    assert recognition.recognize("POST", url, headers) == (VENDOR, "known")
    monkeypatch.setenv("TOY_KEY", "two\nlines")
    with pytest.raises(SettingsError, match="TOY_KEY holds a character"):
        check_keys()


def test_without_its_line_nothing_knows_it() -> None:
    with pytest.raises(SettingsError, match="Known are: function, openai, anthropic, ollama"):
        parse_model_name("toy/toy-1")


def test_a_session_has_its_fixtures_and_records_its_version(
    pytester: pytest.Pytester, toy_server: OpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", f"{Path(__file__).parents[2]}{os.pathsep}{pytester.path}")
    pytester.makepyfile(EVALS, add_toy=ADD_TOY)
    # A plugin of -p is imported before ours makes its fixtures.
    options = ("-p", "add_toy", "-p", "no:cacheprovider", "--llm-model=toy/toy-1", *PRICED)

    shown = pytester.runpytest_subprocess("-p", "add_toy", "--fixtures", timeout=300)
    pytester.runpytest_subprocess(*options, timeout=300).assert_outcomes(passed=2)
    asked = len(toy_server.requests)
    replayed = pytester.runpytest_subprocess(*options, "--llm-cache=replay", timeout=300)

    shown.stdout.fnmatch_lines(
        [
            "async_toy_client -- *",
            "    The vendor's own awaitable client; its replies are kept trial by trial.",
            "toy_client -- *",
            "    The vendor's own client; its replies are kept trial by trial.",
        ]
    )
    replayed.assert_outcomes(passed=2)
    assert len(toy_server.requests) == asked == 12
    runs = [*(pytester.path / ".llmeval" / "runs").rglob("*.gz")]
    assert len(runs) == 2
    assert all(b"httpx" in gzip.decompress(run.read_bytes()) for run in runs)
    # A call of 7 and 2 tokens costs 0.000027 dollars; 12 of them are saved.
    replayed.stdout.fnmatch_lines(["* 0 calls made, 12 replayed * (saved $0.00032)"])
    monkeypatch.setitem(VENDORS, "toy", LINE)
    names = sorted(run.name.partition(".")[0] for run in runs)
    diff = CliRunner().invoke(main, ["diff", "test_all_ways_to_ask", *names])
    assert diff.exit_code == 0
    assert "user      Hello" in diff.output
    assert "assistant yes" in diff.output
    assert "took" not in diff.output
