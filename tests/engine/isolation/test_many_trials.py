"""Many trials in flight find what is their own, and nothing of one another, however often.

``LLMEVAL_RUNS=50`` runs each session 50 times.
"""

from __future__ import annotations

import os

import pytest

from tests.forked import run_forked

RUNS = range(int(os.environ.get("LLMEVAL_RUNS", "1")))
INI = "[pytest]\nllm_model = function/bot:answer\npythonpath = .\n"
BOT = """
import os
import time

FOUND = os.environ.get("LLMEVAL_MINE"), os.getcwd()
MODE = "real"
RULES = {"first": 1}
WAIT = time.sleep


def answer(messages, *, draw):
    print("called")
    WAIT(0.001 + 0.02 * draw.rng.random())
    return messages[-1]["content"]
"""
SUITE = """
import contextlib
import io
import itertools
import logging
import os
import random
import warnings

import bot
import pytest
from pytest_llmeval import llm_eval, waiting

LOGGER = logging.getLogger("app")
MADE = itertools.count()
SEEN = set()


@pytest.fixture(scope="module")
def wide():
    return next(MADE)


@pytest.fixture
def fresh(wide):
    made = {"number": next(MADE)}
    yield made
    assert made["asked"] == 2


def assert_nothing_of_others():
    assert (os.environ.get("LLMEVAL_MINE"), os.getcwd()) == bot.FOUND
    assert (bot.MODE, bot.RULES, LOGGER.level) == ("real", {"first": 1}, 0)


@pytest.mark.parametrize("n", range(20))
@llm_eval(repeats=5, min_score=1)
def test_sync(llm, fresh, wide, n, monkeypatch, tmp_path, caplog):
    assert_nothing_of_others()
    assert fresh["number"] not in SEEN
    SEEN.add(fresh["number"])
    mine = str(fresh["number"])
    monkeypatch.setenv("LLMEVAL_MINE", mine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bot, "MODE", mine)
    monkeypatch.setitem(bot.RULES, "first", mine)
    caplog.set_level(logging.INFO, logger="app")
    random.seed(mine)
    printed = io.StringIO()
    for time in range(2):
        with (
            contextlib.redirect_stdout(printed),
            pytest.warns(UserWarning, match=f"^{mine}$") as warned,
        ):
            warnings.warn(mine, UserWarning)
            llm.ask(f"{n} {time}")
            print(mine)
        assert len(warned) == 1
        LOGGER.info(mine)
    fresh["asked"] = 2
    assert (os.environ["LLMEVAL_MINE"], bot.MODE, bot.RULES) == (mine, mine, {"first": mine})
    assert os.path.samefile(os.getcwd(), tmp_path)
    assert [m for m in caplog.messages] == [mine] * 2
    assert printed.getvalue().split() == ["called", mine] * 2
    assert random.random() == random.Random(mine).random()


@pytest.mark.parametrize("n", range(20))
@llm_eval(repeats=5, min_score=1)
async def test_async(async_llm, fresh, n, monkeypatch, tmp_path):
    assert_nothing_of_others()
    mine = str(fresh["number"])
    monkeypatch.setenv("LLMEVAL_MINE", mine)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bot, "MODE", mine)
    for time in range(2):
        await async_llm.ask(f"async {n} {time}")
        assert (os.environ["LLMEVAL_MINE"], bot.MODE) == (mine, mine)
        assert os.path.samefile(os.getcwd(), tmp_path)
    fresh["asked"] = 2


@pytest.mark.parametrize("n", range(20))
@llm_eval(repeats=5, min_score=1)
def test_plain(llm, fresh, n):
    assert_nothing_of_others()
    waiting(bot.WAIT, 0.005)
    llm.ask(f"plain {n}")
    llm.ask(f"plain again {n}")
    assert_nothing_of_others()
    fresh["asked"] = 2


def test_nothing_is_left():
    assert_nothing_of_others()
"""
# In forked sessions alone, so that nothing has to be put back.
EAGER = """
from pytest_llmeval.engine.stall import StallWatch

StallWatch.PERIOD /= 100
"""


@pytest.mark.parametrize("conftest", ["", EAGER], ids=["as it is", "eager to detach"])
@pytest.mark.parametrize("run", RUNS)
def test_300_trials_with_64_in_flight(pytester: pytest.Pytester, conftest: str, run: int) -> None:
    pytester.makeini(INI)
    pytester.makepyfile(bot=BOT, test_it=SUITE)
    pytester.makeconftest(conftest)

    result = run_forked(pytester, "-p", "no:cacheprovider", "--llm-concurrency=64")

    result.assert_outcomes(passed=61)
    if not conftest:  # else a trial that only waited for a core may count as one that blocks
        result.stdout.no_fnmatch_line("*ran serially*")
