"""Not one call more than a cap allows, however many trials and workers there are."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_llmeval.records import Run
from pytest_llmeval.runs.store import RunStore
from tests.servers.openai_server import OpenAIServer, Scripted, serving

EVALS = """
import os
import signal
import pytest
from pytest_llmeval import llm_eval

@pytest.mark.parametrize("n", range(10))
@llm_eval(repeats=4)
def test_it(llm, n):
    assert llm.ask(f"question {n}", max_tokens=1000).text
"""
# A call of the server's 7 and 2 tokens costs 0.0027 cents; a call may cost 1 cent and a bit.
INI = """
[pytest]
llm_model = openai/foo
llm_prices = openai/foo = 1, 10
"""
WORKERS = pytest.mark.parametrize("arguments", [(), ("-n", "2")], ids=["alone", "workers"])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    yield from serving(OpenAIServer(), monkeypatch)


def run(
    pytester: pytest.Pytester, *arguments: str, evals: str = EVALS, ini: str = INI
) -> pytest.RunResult:
    pytester.makepyfile(evals)
    pytester.makeini(ini)
    report = "--llm-report=report.json"
    return pytester.runpytest("-p", "no:cacheprovider", report, *arguments)


def newest(pytester: pytest.Pytester) -> Run:
    found = RunStore(pytester.path / ".llmeval").newest()
    assert found is not None
    return found.run


def the_run(pytester: pytest.Pytester) -> dict[str, Any]:
    run: dict[str, Any] = json.loads((pytester.path / "report.json").read_text())["run"]
    return run


@WORKERS
def test_the_server_sees_not_one_call_more(
    pytester: pytest.Pytester, server: OpenAIServer, arguments: tuple[str, ...]
) -> None:
    result = run(pytester, "--llm-max-calls=25", *arguments)

    assert len(server.requests) == 25
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    assert the_run(pytester)["calls"] == {
        "made": 25,
        "replayed": 0,
        "failed": 15,
        "outside": 0,
        "attempts": 25,
        "capped": 15,
    }
    result.stdout.fnmatch_lines(["stopped at --llm-max-calls=25: 15 trials got no reply"])
    assert not (pytester.path / ".llmeval" / "caps").exists()


@WORKERS
def test_what_calls_may_cost_is_held_to_a_sum(
    pytester: pytest.Pytester, server: OpenAIServer, arguments: tuple[str, ...]
) -> None:
    dear = {"usage": {"prompt_tokens": 1000, "completion_tokens": 900}}
    server.then(*[Scripted(body=_reply(dear))] * 40)

    result = run(pytester, "--llm-max-cost=0.10", *arguments)

    # A cent each, and the tenth could have cost more than is left.
    assert len(server.requests) == 9
    assert the_run(pytester)["cost"]["spent"] == pytest.approx(0.09)
    result.stdout.fnmatch_lines(
        ["* 9 calls made, 0 replayed, 31 failed *", "stopped at --llm-max-cost=0.10: 31 trials *"]
    )


def _reply(usage: dict[str, Any]) -> dict[str, Any]:
    message = {"role": "assistant", "content": "yes"}
    return {"model": "foo-1", "choices": [{"index": 0, "message": message}], **usage}


@WORKERS
def test_trials_wait_for_the_money_that_calls_under_way_give_back(
    pytester: pytest.Pytester, server: OpenAIServer, arguments: tuple[str, ...]
) -> None:
    """Three calls at once could exceed the cap; all forty together do not."""
    result = run(pytester, "--llm-max-cost=0.03", *arguments)

    result.assert_outcomes(passed=10)
    assert len(server.requests) == 40
    result.stdout.fnmatch_lines(["* 40 calls made, 0 replayed · $0.0011"])


def test_replays_are_free_under_a_cap_of_nothing(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    run(pytester)
    assert len(server.requests) == 40

    result = run(pytester, "--llm-max-calls=0", "--llm-max-cost=0")

    assert len(server.requests) == 40
    result.assert_outcomes(passed=10)
    result.stdout.fnmatch_lines(["* 0 calls made, 40 replayed · $0 (saved $0.0011)"])


def test_a_gate_that_was_stopped_by_a_cap_is_not_comparable(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    run(pytester)

    arguments = ("--llm-baseline=last", "--llm-cache=refresh", "--llm-max-calls=20")
    result = run(pytester, *arguments)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    report = json.loads((pytester.path / "report.json").read_text())
    assert report["verdict"] == "not_comparable"
    result.stdout.fnmatch_lines(
        [
            "llm evals: up to 40 calls to openai/foo",
            "llm evals: at most about $0.0011, if nothing comes from the cache *",
        ]
    )


def test_what_is_capped_is_errored_and_never_a_score(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    asks = EVALS.replace("llm.ask(", "answered(llm, ").replace("range(10)", "range(1)")
    swallows = """
def answered(llm, *arguments, **params):
    try:
        return llm.ask(*arguments, **params)
    except Exception:
        pytest.fail("no answer")
"""
    result = run(pytester, "--llm-max-calls=0", evals=asks + swallows)

    result.assert_outcomes(errors=1)
    assert server.requests == []


def test_the_vendors_client_is_told_of_the_cap(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    evals = """
import openai
import pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats=1)
def test_it(openai_client):
    with pytest.raises(openai.APIStatusError, match="--llm-max-calls=0 is reached") as caught:
        openai_client.chat.completions.create(model="foo", messages=[])
    assert caught.value.code == "llmeval_cap"
    open("told.log", "a").write("told ")

@llm_eval(repeats=1)
async def test_awaited(async_openai_client):
    with pytest.raises(openai.APIStatusError, match="--llm-max-calls=0 is reached"):
        await async_openai_client.chat.completions.create(model="foo", messages=[])
    open("told.log", "a").write("told ")
"""
    run(pytester, "--llm-max-calls=0", evals=evals).assert_outcomes(errors=2)
    assert (pytester.path / "told.log").read_text() == "told told "
    assert server.requests == []


@pytest.mark.parametrize("arguments", [("--llm-max-calls=10",), ("--llm-cache=refresh",)])
def test_a_session_of_workers_knows_nothing_of_one_that_bore_the_same_id(
    pytester: pytest.Pytester, server: OpenAIServer, arguments: tuple[str, ...]
) -> None:
    evals = EVALS.replace("repeats=4", "repeats=1")
    caps = pytester.path / ".llmeval" / "caps"
    caps.mkdir(parents=True)  # as a killed one leaves it
    caps.joinpath("build7.jsonl").write_text('["take", "gw0:0", "0"]\n' * 10)
    run(pytester, "-n", "2", "--testrunuid=build7", evals=evals)

    run(pytester, "-n", "2", "--testrunuid=build7", "--llm-cache=refresh", *arguments, evals=evals)

    assert len(server.requests) == 20


def test_a_draw_that_many_ask_for_is_one_call(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    same = EVALS.replace('f"question {n}"', '"the same question"')

    result = run(pytester, "--llm-max-calls=4", evals=same)

    result.assert_outcomes(passed=10)
    assert len(server.requests) == 4


def test_a_retry_is_a_call(pytester: pytest.Pytester, server: OpenAIServer) -> None:
    server.then(Scripted(status=500))

    result = run(pytester, "--llm-max-calls=40", "--llm-concurrency=1")

    assert len(server.requests) == 40
    result.stdout.fnmatch_lines(["stopped at --llm-max-calls=40: 1 trial got no reply"])


def test_what_was_sent_is_told_beside_what_brought_a_reply(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    server.then(*[Scripted(status=500)] * 3, *[Scripted(drop="before")] * 2, Scripted(status=401))

    result = run(pytester, "--llm-max-calls=35", "--llm-concurrency=2")

    asked, calls = len(server.requests), the_run(pytester)["calls"]
    assert (asked, calls["attempts"], calls["made"]) == (35, 35, 29)
    result.stdout.fnmatch_lines(
        [f"* 29 calls made, 0 replayed, {calls['failed']} failed · 35 attempts sent *"]
    )
    assert calls["failed"] == 11
    assert (newest(pytester).attempts, newest(pytester).complete) == (35, True)


def test_a_session_that_sent_one_attempt_a_reply_says_it_once(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    result = run(pytester)

    result.stdout.fnmatch_lines(["* 40 calls made, 0 replayed · *"])
    result.stdout.no_fnmatch_line("*attempts sent*")


def test_an_attempt_that_was_turned_away_is_none(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    server.then(*[Scripted(status=429, headers={"retry-after-ms": "1"})] * 3)

    result = run(pytester, "--llm-max-calls=40")

    result.assert_outcomes(passed=10)
    assert len(server.requests) == 43


def test_a_function_model_is_capped_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(model="def answer(messages, **params):\n    return 'yes'\n")
    ini = "[pytest]\nllm_model = function/model:answer\npythonpath = .\n"

    result = run(pytester, "--llm-max-calls=5", "--llm-max-cost=0", ini=ini)

    assert the_run(pytester)["calls"]["made"] == 5
    result.stdout.no_fnmatch_line("*$*")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_a_worker_that_is_killed_gives_nothing_back_and_locks_nothing(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    killed = """
    if n == 3 and not os.path.exists("killed"):
        open("killed", "x").close()
        os.kill(os.getpid(), signal.SIGKILL)
"""
    run(pytester, "--llm-max-calls=25", "-n", "2", evals=EVALS + killed)

    assert len(server.requests) <= 25
    assert the_run(pytester)["calls"]["capped"] > 0
    assert not (pytester.path / ".llmeval" / "caps").exists()


def test_a_model_without_a_price_ends_the_session_before_anything_is_spent(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    ini = "[pytest]\nllm_model = openai/no-such-model\n"

    result = run(pytester, "--llm-max-cost=1", ini=ini)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert server.requests == []
    lines = [line for line in result.outlines + result.errlines if line.startswith("ERROR: ")]
    assert len(lines) == 1
    assert "--llm-max-cost=1: the price of openai/no-such-model is not known" in lines[0]


def test_a_model_that_the_test_names_is_refused_where_it_has_no_price(
    pytester: pytest.Pytester, server: OpenAIServer
) -> None:
    other = EVALS.replace("max_tokens", 'model="openai/no-such-model", max_tokens')

    result = run(pytester, "--llm-max-cost=1", evals=other)

    assert server.requests == []
    result.assert_outcomes(errors=10)
    result.stdout.fnmatch_lines(["*its price is not known.*llm_prices*"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--llm-max-calls=few",), "--llm-max-calls=few: must be a whole number of 0 or more"),
        (("--llm-max-calls=-1",), "--llm-max-calls=-1: must be a whole number of 0 or more"),
        (("--llm-max-cost=free",), "--llm-max-cost=free: must be a sum in dollars of 0 or more"),
        (("--llm-max-cost=-1",), "--llm-max-cost=-1: must be a sum in dollars of 0 or more"),
        (("--llm-max-cost=inf",), "--llm-max-cost=inf: must be a sum in dollars of 0 or more"),
        (("-o", "llm_max_calls=-2"), "llm_max_calls=-2 in the ini file: must be a whole number"),
        (("-o", "llm_prices=openai/a"), "llm_prices in the ini file: 'openai/a' is no price"),
        (("-o", "llm_prices=openai/a=1"), "is no price; write dollars per million tokens"),
        (("-o", "llm_prices=a = 1, 2"), "is no price; write dollars per million tokens"),
        (("-o", "llm_prices=openai/a = 1, x"), "is no price; write dollars per million tokens"),
        (("-o", "llm_prices=openai/a = 1, 2, 3"), "is no price; write dollars per million"),
    ],
)
def test_a_mistake_is_one_line(
    pytester: pytest.Pytester, arguments: tuple[str, ...], expected: str
) -> None:
    result = pytester.runpytest(*arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    lines = [line for line in result.outlines + result.errlines if line.startswith("ERROR: ")]
    assert len(lines) == 1
    assert expected in lines[0]


@pytest.mark.parametrize(
    "ini",
    [
        "[pytest]\nllm_max_calls = 3\nllm_max_cost = 2.50\nllm_model = openai/foo\n"
        "llm_prices =\n    openai/foo = 1, 10\n    openai/bar=$0.1,$0.2\n",
        '[tool.pytest]\nllm_max_calls = 3\nllm_max_cost = 2.5\nllm_model = "openai/foo"\n'
        'llm_prices = ["openai/foo = 1, 10"]\n',
    ],
    ids=["ini", "toml"],
)
def test_the_caps_have_ini_twins(pytester: pytest.Pytester, server: OpenAIServer, ini: str) -> None:
    is_toml = ini.startswith("[tool")
    if is_toml and pytest.version_tuple < (9,):
        pytest.skip("this pytest has no such section")
    pytester.makepyfile(EVALS)
    (pytester.path / ("pyproject.toml" if is_toml else "pytest.ini")).write_text(ini)

    pytester.runpytest("-p", "no:cacheprovider")

    assert len(server.requests) == 3
