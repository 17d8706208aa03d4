"""A fall is looked at again through a real client; no end of a session loses or repeats a call."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from pytest_llmeval.records import CONFIRM, Run
from pytest_llmeval.runs.run_file import read_run
from tests.forked import ForkedSession
from tests.project import Project, make_project
from tests.servers.openai_server import OpenAIServer

CASES, REPEATS, FRESH = 8, 5, 3
APP = """
from openai import AsyncOpenAI, OpenAI

PROMPT = "Say yes to {case}. rate=RATE"


def asked(case):
    question = {"role": "user", "content": PROMPT.format(case=case)}
    return {"model": "gpt-6-luna", "messages": [question]}


def answer(case):
    with OpenAI(api_key="key", base_url="URL") as client:
        return client.chat.completions.create(**asked(case)).choices[0].message.content


async def answer_async(case):
    async with AsyncOpenAI(api_key="key", base_url="URL") as client:
        return (await client.chat.completions.create(**asked(case))).choices[0].message.content
"""
EVALS = f"""
import pytest
from pytest_llmeval import llm_eval
from app import answer, answer_async


@llm_eval(repeats={REPEATS})
@pytest.mark.parametrize("case", range({CASES}))
def test_says_yes(case):
    assert answer(case) == "yes"


@llm_eval(repeats={REPEATS})
@pytest.mark.parametrize("case", range({CASES}))
async def test_says_yes_async(case):
    assert await answer_async(case + 100) == "yes"
"""
FUNCTIONS = 2
GATE = ("--llm-baseline=main", "--llm-confirm")


class Judge:
    """Answers by the rate that a prompt names, and ends processes at a request that was chosen."""

    def __init__(self) -> None:
        self.times: Counter[str] = Counter()
        self.before: dict[int, Callable[[], None]] = {}  # by how many requests came before

    def __call__(self, body: Mapping[str, Any], number: int) -> str:
        self.before.pop(number, lambda: None)()
        question = body["messages"][-1]["content"]
        self.times[question] += 1
        rate = float(question.rpartition("rate=")[2])
        seed = f"{question} {self.times[question]}"
        return "yes" if random.Random(seed).random() < rate else "no"  # noqa: S311


@pytest.fixture
def judge() -> Judge:
    return Judge()


@pytest.fixture
def server(judge: Judge) -> Iterator[OpenAIServer]:
    with OpenAIServer(judge) as server:
        yield server


@pytest.fixture
def project(pytester: pytest.Pytester, server: OpenAIServer, sdks: None) -> Project:
    """A main that was recorded, and a branch off it that is worse."""
    project = make_project(pytester)
    app = APP.replace("URL", server.url)
    project.write(app=app.replace("RATE", "0.95"), test_evals=EVALS)
    project.commit("fine")
    project.run()
    project.git("switch", "-qc", "feature")
    project.write(app=app.replace("RATE", "0.2"))
    project.commit("worse")
    return project


def confirmations(project: Project) -> list[Run]:
    return [run for run in map(read_run, project.runs()) if run.made == CONFIRM]


ONCE = FUNCTIONS * CASES * REPEATS  # calls of a session
AGAIN = FUNCTIONS * CASES * FRESH * 2  # calls of its confirmation, on both sides
MOMENTS = (0, 31, 88)  # requests of the confirmation, over all sessions, at which they are killed


def test_each_call_of_both_clients_reaches_the_server_once(
    project: Project, server: OpenAIServer
) -> None:
    result, report = project.gate(*GATE)

    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = [function["confirmation"] for function in report["functions"]]
    assert [one["outcome"] for one in found] == ["confirmed"] * FUNCTIONS
    assert len(server.requests) == 2 * ONCE + AGAIN
    fresh = confirmations(project)
    assert {run.commit for run in fresh} == {
        project.git("rev-parse", name) for name in ("main", "feature")
    }
    draws = [call.draw for run in fresh for trial in run.trials for call in trial.calls]
    assert len(set(draws)) == len(draws) == AGAIN


def processes_of(pid: int) -> list[int]:
    """A process and all that it started."""
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, check=True)
    pairs = [tuple(map(int, line.split())) for line in told.stdout.decode().splitlines()]
    found = [pid]
    for one in found:
        found += [child for child, parent in pairs if parent == one]
    return found


def killed_at(project: Project, judge: Judge, request: int) -> int:
    """Run a session that is killed, with all that it started, at a request; tell its exit code."""
    pytester = project.pytester
    options = ("-p", "no:cacheprovider", "--llm-concurrency=1", *GATE)
    session = ForkedSession(pytester.path, *options, output=pytester.path / "out.txt")

    def kill() -> None:
        for pid in reversed(processes_of(session.pid)):
            os.kill(pid, signal.SIGKILL)

    judge.before[request] = kill
    return session.wait()


def test_whoever_was_killed_while_both_sides_were_asked_goes_on_from_there(
    project: Project, server: OpenAIServer, judge: Judge
) -> None:
    project.run("--llm-baseline=main")
    first = len(server.requests)
    assert first == 2 * ONCE
    moments = [first + after for after in MOMENTS]

    for moment in moments:
        assert killed_at(project, judge, moment) == -signal.SIGKILL

    result, report = project.gate(*GATE)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    found = [function["confirmation"] for function in report["functions"]]
    assert [one["outcome"] for one in found] == ["confirmed"] * FUNCTIONS
    # of each of the two processes one call at most had no reply that was kept
    again = len(server.requests) - first
    assert AGAIN <= again <= AGAIN + 2 * len(moments)
    project.run(*GATE)
    assert len(server.requests) == first + again
