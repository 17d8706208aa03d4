"""Calls that are open at once, and those that a trial gives up: a replay is what was recorded."""

from __future__ import annotations

import pytest

from pytest_llmeval.records import Trial
from pytest_llmeval.runs.run_file import read_run
from tests.project import Project

MODEL = '''
import asyncio

answered = set()


async def answer(messages, *, draw):
    """Answers a slow question when its quick one was answered, and says by chance."""
    kind, _, number = messages[-1]["content"].partition(" ")
    place = number, draw.trial
    if kind == "slow":
        while place not in answered:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
    answered.add(place)
    return kind if draw.rng.random() < 0.5 else "other"
'''
RACES = """
import asyncio, pytest
from pytest_llmeval import llm_eval

pytestmark = pytest.mark.parametrize("n", range(4))

def asked(llm, n):
    return [asyncio.create_task(llm.ask(f"{kind} {n}")) for kind in ("slow", "quick")]

async def first(tasks):
    done, late = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    return done.pop().result().text, late

@llm_eval(repeats=3)
async def test_all_are_awaited(async_llm, n):
    tasks = asked(async_llm, n)
    texts = [(await one).text for one in asyncio.as_completed(tasks)]
    assert texts[0] == "quick"

@llm_eval(repeats=3)
async def test_the_late_one_is_cancelled(async_llm, n):
    text, late = await first(asked(async_llm, n))
    for one in late:
        one.cancel()
    assert text == "quick"

@llm_eval(repeats=3)
async def test_the_late_one_is_left_behind(async_llm, n):
    text, _ = await first(asked(async_llm, n))
    assert text == "quick"

@llm_eval(repeats=3)
async def test_another_one_fails(async_llm, n):
    async def fails():
        if (await async_llm.ask(f"quick {n}")).text == "quick":
            raise KeyError("quick")
    came = []
    async def slow():
        came.append(await async_llm.ask(f"slow {n}"))
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(slow())
            group.create_task(fails())
    except* KeyError:
        pass
    assert came

@llm_eval(repeats=3)
def test_on_a_loop_of_its_own(async_llm, n):
    async def main():
        text, late = await first(asked(async_llm, n))
        for one in late:
            one.cancel()
        return text
    assert asyncio.run(main()) == "quick"
"""
FUNCTIONS = RACES.count("@llm_eval")


@pytest.fixture
def raced(project: Project) -> Project:
    """A project whose evals were recorded once."""
    project.write(model=MODEL, test_evals=RACES)
    project.commit()
    project.run()
    return project


def outcomes(project: Project) -> list[tuple[str, int, str, list[str | None]]]:
    """List how the trials of the newest run ended, and what they drew."""

    def of(trial: Trial) -> tuple[str, int, str, list[str | None]]:
        draws = [call.draw for call in sorted(trial.calls, key=lambda call: call.key)]
        return trial.case, trial.index, trial.outcome, draws

    return [of(trial) for trial in read_run(project.runs()[-1]).trials]


def test_a_second_session_is_what_was_recorded(raced: Project) -> None:
    recorded = outcomes(raced)
    assert {outcome for _, _, outcome, _ in recorded} == {"passed", "missed"}

    for options in ((), ("--llm-cache=replay",), ("--llm-max-calls=1",)):
        _, report = raced.gate("--llm-baseline=last", *options)

        assert outcomes(raced) == recorded
        assert report["run"]["calls"]["made"] == report["run"]["calls"]["attempts"] == 0
        verdicts = [one["verdict"] for one in report["functions"]]
        assert verdicts == ["unchanged"] * FUNCTIONS


def test_a_call_that_was_given_up_is_told_apart_from_one_that_failed(raced: Project) -> None:
    trials = read_run(raced.runs()[-1]).trials
    given_up = sum(call.was_given_up for trial in trials for call in trial.calls)

    result = raced.run()

    result.stdout.fnmatch_lines([f"*0 calls made, * replayed, {given_up} given up"])


UNWANTED = """
import asyncio, time, pytest
from pytest_llmeval import llm_eval

@llm_eval(repeats=3)
@pytest.mark.parametrize("n", range(4))
async def test_nobody_awaits_it(async_llm, n):
    task = asyncio.create_task(async_llm.ask(f"{n}"))
    await asyncio.sleep(0)
    time.sleep(0.05)  # the reply comes meanwhile, and the task has no turn

@llm_eval(repeats=3)
@pytest.mark.parametrize("n", range(4))
async def test_it_is_cancelled(async_llm, n):
    task = asyncio.create_task(async_llm.ask(f"loser {n}"))
    await asyncio.sleep(0)
    time.sleep(0.05)
    task.cancel()
"""


def test_a_reply_that_nobody_wants_is_lost_in_each_session(project: Project) -> None:
    project.write(model="def answer(messages): return 'yes'", test_evals=UNWANTED)
    project.commit()
    project.run()
    recorded = outcomes(project)
    assert {outcome for _, _, outcome, _ in recorded} == {"passed"}

    _, report = project.gate("--llm-baseline=last")

    assert outcomes(project) == recorded
    assert report["run"]["calls"]["attempts"] == 0
    assert [one["verdict"] for one in report["functions"]] == ["unchanged"] * 2


CROWDED = """
import asyncio, threading, pytest
from pytest_llmeval import llm_eval

all_here = threading.Barrier(24)

@llm_eval(repeats=2)
@pytest.mark.parametrize("n", range(12))
async def test_all_are_there(async_llm, n):
    await asyncio.to_thread(all_here.wait, 60)
"""


def test_the_threads_of_a_loop_are_enough_for_the_trials_of_all(project: Project) -> None:
    project.write(model=MODEL, test_evals=CROWDED)

    project.run()

    assert {outcome for _, _, outcome, _ in outcomes(project)} == {"passed"}


NO_TURN = """
import asyncio, time
from pytest_llmeval import llm_eval

@llm_eval(repeats=1)
async def test_it_had_no_turn(async_llm):
    async def ask():
        async with asyncio.timeout(1):
            await async_llm.ask("?")
    task = asyncio.create_task(ask())
    for _ in range(3):
        await asyncio.sleep(0)
    queue = asyncio.get_running_loop()._ready
    while not any("settle" in repr(one) for one in queue):  # the reply is there
        time.sleep(0.001)
    time.sleep(1)
    try:
        await task
    except TimeoutError:
        assert False, "late"
"""


def test_a_deadline_that_ran_out_though_the_reply_was_there_is_no_miss(project: Project) -> None:
    project.write(model="def answer(messages): return 'yes'", test_evals=NO_TURN)

    project.run()

    assert [outcome for _, _, outcome, _ in outcomes(project)] == ["errored"]


SHIELDED = """
import asyncio, model
from pytest_llmeval import llm_eval

@llm_eval(repeats=1)
async def test_it_goes_on_after_the_deadline(async_llm):
    asked = asyncio.create_task(async_llm.ask("q"))
    try:
        await asyncio.wait_for(asyncio.shield(asked), 0.3)
    except TimeoutError:
        model.MAY_ANSWER.set()
        await asked
    else:
        assert False, "in time"
"""


def test_a_reply_that_comes_just_after_a_deadline_comes_after_it_again(project: Project) -> None:
    model = """
    import threading

    MAY_ANSWER = threading.Event()

    def answer(messages):
        assert MAY_ANSWER.wait(300)
        return "yes"
    """
    project.write(model=model, test_evals=SHIELDED)

    for options in ((), (), ("--llm-cache=replay",)):
        project.run(*options).stdout.fnmatch_lines(["test_it_goes_on_after_the_deadline *1  1.000"])
