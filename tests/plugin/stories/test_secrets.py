"""No key is in any file that a session writes, whether its calls are answered or refused."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.forked import run_forked
from tests.leaks import files_with
from tests.servers.anthropic_server import AnthropicServer
from tests.servers.ollama_server import OllamaServer
from tests.servers.openai_server import OpenAIServer, Scripted

SECRET = "sk-test-5e8b7d"  # noqa: S105 - the test greps for it

EVALS = """
from pytest_llmeval import llm_eval

MESSAGES = [{"role": "user", "content": "Hello"}]


@llm_eval(repeats=2)
def test_openai(openai_client, llm):
    openai_client.chat.completions.create(model="gpt", messages=MESSAGES)
    llm.ask("Bye", model="openai/gpt")


@llm_eval(repeats=2)
def test_anthropic(anthropic_client, llm):
    anthropic_client.messages.create(model="claude", max_tokens=9, messages=MESSAGES)
    llm.ask("Bye", model="anthropic/claude")


@llm_eval(repeats=2)
def test_ollama(ollama_client, llm):
    ollama_client.chat("llama", messages=MESSAGES)
    llm.ask("Bye", model="ollama/llama")
"""


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[OpenAIServer]]:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OLLAMA_API_KEY"):
        monkeypatch.setenv(name, SECRET)
    with OpenAIServer() as openai, AnthropicServer() as anthropic, OllamaServer() as ollama:
        monkeypatch.setenv("OPENAI_BASE_URL", openai.url)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", anthropic.url)
        monkeypatch.setenv("OLLAMA_HOST", ollama.url)
        yield [openai, anthropic, ollama]


def run(pytester: pytest.Pytester, evals: str = EVALS, *more: str) -> pytest.RunResult:
    pytester.makepyfile(evals)
    options = ("-p", "no:cacheprovider", "--llm-report=.llmeval/report.json", *more)
    return pytester.runpytest(*options)


def test_what_is_answered_leaves_no_key(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    run(pytester).assert_outcomes(passed=3)

    folder = pytester.path / ".llmeval"
    assert {path.name for path in folder.rglob("*")} >= {"cache.db", "report.json"}
    assert list(folder.rglob("*.jsonl.gz"))
    assert all(SECRET in str(server.requests[0].headers) for server in servers)
    assert files_with(SECRET, folder) == []


def test_a_refusal_that_quotes_the_key_leaves_none(
    pytester: pytest.Pytester, servers: list[OpenAIServer]
) -> None:
    quoting = {"error": {"message": f"the key {SECRET} is not known", "type": "auth"}}
    for server in servers:
        server.then(*[Scripted(status=401, body=quoting)] * 4)

    result = run(pytester)

    assert result.ret == 1
    folder = pytester.path / ".llmeval"
    assert list(folder.rglob("*.jsonl.gz"))
    assert files_with(SECRET, folder) == []


def test_what_an_endpoint_says_cannot_steer_the_terminal_nor_the_ci_service(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        """
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=1)
        def test_refused(llm):
            llm.ask("Hello")

        @llm_eval(repeats=1)
        def test_lost(llm):
            llm.ask("Bye")
        """
    )
    evil = {"error": {"message": "\x1b]0;x\x07\n::error::y"}}
    with OpenAIServer() as server:
        server.then(Scripted(status=400, body=evil), Scripted(status=401, body=evil))
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        options = ("--llm-model=openai/gpt", "--llm-concurrency=1")
        result = run_forked(pytester, *options, "-p", "no:cacheprovider")

    text = "\n".join(result.outlines)
    assert r"\x1b]0;x\x07\n::error::y" in text
    assert "\x1b" not in text
    assert not [line for line in result.outlines if line.lstrip().startswith("::")]


INTERCEPTED = """
import openai
from pytest_llmeval import llm_eval


@llm_eval(repeats=2)
def test_application():
    openai.OpenAI().chat.completions.create(model="gpt", messages=[])
"""


@pytest.mark.parametrize("status", [400, 401])
@pytest.mark.parametrize("evals", [EVALS, INTERCEPTED], ids=["fixtures", "intercepted"])
def test_a_refusal_that_quotes_the_key_shows_it_nowhere(
    pytester: pytest.Pytester, servers: list[OpenAIServer], evals: str, status: int
) -> None:
    quoting = {"error": {"message": f"the key {SECRET} is not known", "type": SECRET}}
    for server in servers:
        server.then(*[Scripted(status=status, body=quoting)] * 4)

    result = run(pytester, evals, "-rA", "-vv")

    assert result.ret == 1
    shown = str(result.stdout) + str(result.stderr)
    assert "the key *** is not known" in shown
    assert SECRET not in shown


@pytest.mark.parametrize("mistake", ["\nsecond", "\u201d", "\u200b"], ids=ascii)
def test_a_key_that_cannot_be_sent_errs_the_trials_and_is_shown_nowhere(
    pytester: pytest.Pytester,
    servers: list[OpenAIServer],
    monkeypatch: pytest.MonkeyPatch,
    mistake: str,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{SECRET}{mistake}")
    evals = """
    from pytest_llmeval import llm_eval

    @llm_eval(repeats=2, intercept=False)
    def test_llm(llm): llm.ask("Hello", model="openai/gpt")

    @llm_eval(repeats=2, intercept=False)
    async def test_async_llm(async_llm): await async_llm.ask("Hello", model="openai/gpt")

    @llm_eval(repeats=2, intercept=False)
    def test_client(openai_client): pass
    """
    result = run(pytester, evals, "-vvv", "-l", "--junitxml=.llmeval/junit.xml")

    assert result.ret == 1
    shown = str(result.stdout) + str(result.stderr)
    assert "SettingsError: OPENAI_API_KEY holds a character" in shown
    assert SECRET not in shown
    result.stdout.fnmatch_lines(
        [f"test_{name} *2 errored" for name in ("llm", "async_llm", "client")]
    )
    assert files_with(SECRET, pytester.path / ".llmeval") == []
    assert servers[0].requests == []


def test_a_key_with_which_an_sdk_cannot_even_be_imported_is_refused_before_it_is(
    pytester: pytest.Pytester, servers: list[OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", f"{SECRET}\u201d")
    pytester.makepyfile(
        """
        from pytest_llmeval import llm_eval

        @llm_eval(repeats=2, intercept=False)
        def test_client(ollama_client): pass

        @llm_eval(repeats=2, intercept=False)
        async def test_async_client(async_ollama_client): pass
        """
    )
    result = run_forked(pytester, "-vvv", "-l", "-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["test_client *2 errored", "test_async_client *2 errored"])
    assert "SettingsError: OLLAMA_API_KEY holds a character" in str(result.stdout)
    assert SECRET not in str(result.stdout) + str(result.stderr)


@pytest.mark.parametrize("variable", ["OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "OLLAMA_API_KEY"])
def test_a_key_that_cannot_be_sent_is_one_line_where_clients_are_intercepted(
    pytester: pytest.Pytester,
    servers: list[OpenAIServer],
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
) -> None:
    monkeypatch.setenv(variable, f"{SECRET}\u201d")
    result = run(pytester, INTERCEPTED, "-vvv", "-l")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    shown = str(result.stdout) + str(result.stderr)
    assert f"ERROR: {variable} holds a character that no HTTP header can have" in shown
    assert SECRET not in shown
    assert servers[0].requests == []


def test_what_clients_log_and_tracebacks_show_holds_no_secret(
    pytester: pytest.Pytester, servers: list[OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = "sk-of-the-url"  # noqa: S105 - the test greps for it
    url = servers[0].url.replace("://", f"://me:{secret}@")
    monkeypatch.setenv("OPENAI_BASE_URL", url)
    # Of what is no loss a traceback is shown, and the llm is the last to ask.
    servers[0].then(Scripted(), Scripted(), Scripted(status=400))
    pytester.makefile(".txt", secret=secret)
    evals = """
    from pathlib import Path
    from pytest_llmeval import llm_eval

    @llm_eval(repeats=1)
    def test_client(openai_client):
        more = {"api-key": Path("secret.txt").read_text()}
        openai_client.models.list(extra_query=more)
        openai_client.chat.completions.create(model="m", messages=[], extra_query=more)

    @llm_eval(repeats=1)
    def test_llm(llm): llm.ask("Hello", model="openai/gpt")
    """
    logs = ("--log-level=DEBUG", "--log-file=.llmeval/log", "--log-file-level=DEBUG")
    shown = ("-rA", "-vvv", "--junitxml=.llmeval/junit.xml")
    result = run(pytester, evals, "--llm-concurrency=1", *shown, *logs)

    result.stdout.fnmatch_lines(["*HTTP Request: GET http://***@*api-key=[*][*][*]*"])
    assert result.ret == 1
    output = str(result.stdout)
    assert (secret in output, SECRET in output) == (False, False)
    files = [path.name for path in (pytester.path / ".llmeval").iterdir()]
    assert {"junit.xml", "log"} <= {*files}
    assert files_with(secret, pytester.path / ".llmeval") == []
    assert not logging.getLogger("httpx2").filters  # the session has taken it away


@pytest.mark.parametrize("status", [400, 401])
def test_an_error_that_quotes_a_url_is_shown_without_its_secrets(
    pytester: pytest.Pytester, servers: list[OpenAIServer], status: int
) -> None:
    servers[0].then(*[Scripted(status=status)] * 2)
    url = servers[0].url.replace("://", f"://me:{SECRET}@")
    pytester.makefile(".txt", url=f"{url}/chat/completions?api-key={SECRET}")
    evals = """
    import httpx
    from pathlib import Path
    from pytest_llmeval import llm_eval

    @llm_eval(repeats=2, intercept=True)
    def test_it():
        url = Path("url.txt").read_text()
        httpx.post(url, json={"model": "gpt", "messages": []}).raise_for_status()
    """
    result = run(pytester, evals, "-rA", "-vvv", "--junitxml=.llmeval/junit.xml")

    assert result.ret == 1
    result.stdout.fnmatch_lines(
        ["*test_it *HTTPStatusError: Client error * for url 'http://[*][*][*]@*"]
    )
    assert SECRET not in str(result.stdout)
    assert files_with(SECRET, pytester.path / ".llmeval") == []


PLANTED = "sk-PLANTED-0123456789"

QUOTING = """
import logging
import os

import pytest
from pytest_llmeval import llm_eval

KEY = lambda: os.environ["SOME_API_KEY"]


@pytest.fixture
def broken():
    raise RuntimeError(f"401 for Bearer {KEY()}")


@llm_eval(repeats=2)
def test_setup(broken): pass


@llm_eval(repeats=2)
def test_raises(llm):
    key = KEY()
    error = RuntimeError(f"401 for Bearer {key}")
    error.add_note(f"it was {key!r}")
    raise error


@llm_eval(repeats=2)
def test_misses(llm):
    assert llm.ask("a reply").text == KEY()


@llm_eval(repeats=2)
def test_refused(llm):
    llm.ask("raise")


@llm_eval(repeats=2)
def test_swallowed(llm):
    with pytest.raises(Exception):
        llm.ask("raise")


@llm_eval(repeats=2)
def test_prints(llm, record_property, caplog):
    print("printed", KEY())
    logging.getLogger().warning("logged %s", KEY())
    record_property("text", KEY())
    record_property("values", [KEY()])
    assert llm.ask("quote").text == "***"


@llm_eval(repeats=2)
def test_own_environment(monkeypatch):
    monkeypatch.setenv("OWN_TOKEN", "of-" + "the-" + "trial-1")
    raise RuntimeError(os.environ["OWN_TOKEN"])
"""

QUOTING_MODEL = """
import os


def answer(messages):
    asked = messages[-1]["content"]
    if asked == "raise":
        raise RuntimeError(f"401 for Bearer {os.environ['SOME_API_KEY']}")
    return os.environ["SOME_API_KEY"] if asked == "quote" else "yes"
"""


@pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "workers"])
def test_a_key_of_the_environment_is_shown_and_written_nowhere(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: tuple[str, ...]
) -> None:
    monkeypatch.setenv("SOME_API_KEY", f"{PLANTED}\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(pytester.path / "out" / "summary.md"))
    pytester.mkdir("out")
    pytester.makepyfile(quoting_model=QUOTING_MODEL, test_quoting=QUOTING)
    reports = [f"--llm-report=out/report.{ending}" for ending in ("json", "md", "html")]
    options = ("-rA", "-vvv", "-l", "--junitxml=out/junit.xml", "-o", "junit_family=legacy")
    model = ("--llm-model=function/quoting_model:answer", "-p", "no:cacheprovider")

    result = pytester.runpytest(*options, "--llm-dir=out/dir", *reports, *model, *workers)

    output = str(result.stdout) + str(result.stderr)
    for secret in (PLANTED, "of-the-trial-1"):
        assert secret not in output
        assert files_with(secret, pytester.path / "out") == []
    assert "401 for Bearer ***" in output
    assert "it was '***" in output
    assert "logged ***" in output
    written = {path.name for path in (pytester.path / "out").iterdir()}
    assert {"junit.xml", "report.json", "report.md", "report.html", "summary.md"} <= written
    assert 'name="values" value="[\'***' in (pytester.path / "out" / "junit.xml").read_text()


def test_a_model_that_cannot_be_imported_shows_no_key(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", PLANTED)
    pytester.makepyfile(
        broken_model="import os\nint(os.environ['SOME_API_KEY'])",
        test_it="from pytest_llmeval import llm_eval\n@llm_eval\ndef test_it(llm): llm.ask('x')",
    )
    result = pytester.runpytest("--llm-model=function/broken_model:answer", "--llm-report=r.json")
    assert PLANTED not in str(result.stdout) + str(result.stderr)
    assert "***" in str(result.stdout) + str(result.stderr)
    assert files_with(PLANTED, pytester.path) == []
