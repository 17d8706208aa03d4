"""Calls that are gathered: what is said of them does not depend on which was answered first."""

from __future__ import annotations

import re
import shutil

import pytest
from click.testing import CliRunner

from pytest_llmeval.cli import main
from tests.project import Project

MODEL = '''
import asyncio, os

answered = set()


async def answer(messages, *, draw):
    """Answers what is named in FIRST, then what was asked beside it."""
    asked = messages[-1]["content"]
    kind = next(one for one in ("department", "urgent", "letter") if one in asked)
    number = asked.split()[-1]
    if kind in ("department", "urgent") and kind != os.environ["FIRST"]:
        while (os.environ["FIRST"], number, draw.trial) not in answered:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
    answered.add((kind, number, draw.trial))
    if kind == "department":
        return "sales" if "short" in asked else "legal"
    return "maybe" if kind == "urgent" else f"To {asked.split()[3]}"
'''
EVALS = """
import asyncio, os, pytest, threading
from concurrent.futures import ThreadPoolExecutor
from pytest_llmeval import llm_eval

WORDS = "{words}"

async def asked(llm, question, n):
    return (await llm.ask(f"{{question}} ?{{WORDS}} {{n}}")).text

async def written(llm, n):
    department = await asked(llm, "Which department", n)
    return await asked(llm, f"A letter to {{department}}", n)

@pytest.mark.parametrize("n", range(6))
@llm_eval(repeats=2)
async def test_route(async_llm, n):
    department, urgent = await asyncio.gather(
        asked(async_llm, "Which department", n), asked(async_llm, "Is it urgent", n)
    )
    assert department == "legal"

@pytest.mark.parametrize("n", range(6, 12))
@llm_eval(repeats=2)
async def test_write(async_llm, n):
    letter, urgent = await asyncio.gather(
        written(async_llm, n), asked(async_llm, "Is it urgent", n)
    )
    assert "legal" in letter

ONE_BY_ONE = "Which department", "Is it urgent"

@pytest.mark.parametrize("n", range(12, 14))
@llm_eval(repeats=2)
async def test_late_task(async_llm, n):
    is_answered = asyncio.Event()

    async def one(question):
        if os.environ["FIRST"] not in question:
            await is_answered.wait()
        reply = await asked(async_llm, question, n)
        is_answered.set()
        return reply

    assert await asyncio.gather(*map(one, ONE_BY_ONE)) == ["legal", "maybe"]

@pytest.mark.parametrize("n", range(14, 16))
@llm_eval(repeats=2)
def test_late_thread(llm, n):
    is_answered = threading.Event()

    def one(question):
        if os.environ["FIRST"] not in question:
            is_answered.wait()
        reply = llm.ask(f"{{question}} ?{{WORDS}} {{n}}").text
        is_answered.set()
        return reply

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(one, ONE_BY_ONE)) == ["legal", "maybe"]
"""
RUN_OR_TIME = re.compile(
    r"\d{8}T\d{6}-[0-9a-f]{6}|\b[0-9a-f]{7,40}\b|\b\d+\.\d\b|\b\d\d:\d\d\b| in \d+\.\d+s|={4,}"
)
ORDERS = [("department", "department"), ("urgent", "department"), ("department", "urgent")]


def explained(project: Project, monkeypatch: pytest.MonkeyPatch, orders: tuple[str, str]) -> str:
    """Return all that is printed of a prompt that was shortened, and of the replies to it."""
    shutil.rmtree(project.path / ".llmeval", ignore_errors=True)
    told = []
    for first, words, options in zip(
        orders, ("", " In short."), ((), ("--llm-baseline=last",)), strict=True
    ):
        monkeypatch.setenv("FIRST", first)
        project.write(model=MODEL, test_evals=EVALS.format(words=words))
        reports = [f"--llm-report=out/report.{ending}" for ending in ("md", "html")]
        result = project.run(*options, *reports)
        told.append(result.stdout.str())
    told = told[1:]
    told.append((project.path / "out" / "report.md").read_text())
    page = (project.path / "out" / "report.html").read_text()
    told += ["PAGE", *re.findall(r"<pre>.*?</pre>", page, re.DOTALL)]
    for case in ("test_route[0]", "test_write[6]", "test_late_task[12]", "test_late_thread[14]"):
        done = CliRunner().invoke(main, ["diff", case])
        assert done.exit_code == 0, done.output
        told.append(done.output)
    lines = "\n".join(told).splitlines()
    # A column of seconds is wider where a trial took ten of them; one that took long has blocked.
    lines = [line for line in lines if "seconds" not in line and "a trial blocked" not in line]
    return "\n".join(RUN_OR_TIME.sub("", line).rstrip() for line in lines)


def test_two_calls_in_either_order_give_the_same_explanation(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, *others = (explained(project, monkeypatch, orders) for orders in ORDERS)

    for other in others:
        assert other.splitlines() == one.splitlines()
    assert "fell most  test_route[0]  2/2 -> 0/2  AssertionError: assert 'sales' == 'legal'" in one
    for line in (
        "| `test_route[0]` | 2/2 | 0/2 | `legal` | `sales` |",
        "<pre>Is it urgent ?<ins> In short.</ins> 0</pre>\n"
        "<pre>Which department ?<ins> In short.</ins> 0</pre>\n<pre>maybe</pre>",
        "| `test_write[6]` | 2/2 | 0/2 | `To legal` | `To sales` |",
        "request of call 1, [-only in the baseline-] {+only here+}\n"
        "  user      Is it urgent ? {+In short.+} 0\n"
        "request of call 2, [-only in the baseline-] {+only here+}\n"
        "  user      Which department ? {+In short.+} 0",
        "the same words changed in all 5 other cases of test_route that were checked",
        "  baseline  assistant: legal\n  here      assistant: sales",
    ):
        assert line in one


def test_letters_do_not_differ_by_order_alone(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    project.write(model=MODEL, test_evals=EVALS.format(words=""))
    for first in ("urgent", "department"):
        monkeypatch.setenv("FIRST", first)
        project.run("--llm-cache=refresh")

    names = [path.name.partition(".")[0] for path in project.runs()]
    done = CliRunner().invoke(main, ["diff", "test_write[6]", *names])

    assert "the same on both sides" in done.output
    assert "reply A  2 of 2 baseline, 2 of 2 here" in done.output
    assert "reply B" not in done.output
    assert "the sides part" not in done.output
