"""What a kind of eval is, and the application that all of them test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

APP = '''
"""Says yes at the rate that the prompt ends with, and counts what happens."""

import asyncio
import itertools
import random
import threading
import time
from os import O_APPEND, O_CREAT, O_WRONLY, close, write
from os import open as open_file
from pathlib import Path
from time import sleep

import pytest

FOLDER = Path(__file__).parent
MODE = "real"
FAST = {}  # whether the fast one of two has answered, by question and trial


def note(name, text="x"):
    """Add to a file; in one write, which no other process or thread comes between."""
    descriptor = open_file(str(FOLDER / name), O_WRONLY | O_CREAT | O_APPEND)
    write(descriptor, (text + "\\n").encode())
    close(descriptor)


def drawn(messages, draw):
    note("calls.log")
    question = messages[-1]["content"]
    rate = float(question.rpartition("rate=")[2])
    return "yes" if draw.rng.random() < rate else "no"


def answer(messages, *, draw, **params):
    sleep(0.004 * random.Random(str(messages)).random())
    return drawn(messages, draw)


async def answer_async(messages, *, draw, **params):
    await asyncio.sleep(0.004 * random.Random(str(messages)).random())
    return drawn(messages, draw)


def raced(messages, draw):
    """Tell who answers, whether that is the slow one, and what it says."""
    who, number = messages[-1]["content"].split()
    is_slow = who == "thorough"
    note("calls.log")
    fast = FAST.setdefault((number, draw.trial), threading.Event())
    return fast, is_slow, "yes" if draw.rng.random() < (0.3 if is_slow else 0.9) else "no"


def hedged(messages, *, draw):
    fast, is_slow, text = raced(messages, draw)
    if is_slow:
        fast.wait(10)  # however late the other one is asked
        sleep(0.3)
    fast.set()
    return text


async def hedged_async(messages, *, draw):
    fast, is_slow, text = raced(messages, draw)
    if is_slow:
        while not fast.is_set():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
    fast.set()
    return text


def unreliable(messages, *, draw):
    said = drawn(messages, draw)
    if draw.rng.random() < 0.15:
        raise ConnectionError("away")
    return said


LONG = 12  # seconds


def late(messages, *, draw):
    """Answers at once, at the rate that the prompt ends with, or long after."""
    if drawn(messages, draw) == "no":
        sleep(LONG)
    return "yes"


async def late_async(messages, *, draw):
    if drawn(messages, draw) == "no":
        await asyncio.sleep(LONG)
    return "yes"


def chat(messages, *, draw):
    """Answers well as long as the conversation is a short one."""
    note("calls.log")
    sleep(0.005)
    return "yes" if draw.rng.random() < (0.9 if len(messages) <= 3 else 0.1) else "no"


def evaluated(cases=40, repeats=5, **marks):
    """The eval that most kinds are: so many cases with so many trials."""
    from pytest_llmeval import llm_eval

    def decorate(test):
        return llm_eval(repeats=repeats, **marks)(pytest.mark.parametrize("i", range(cases))(test))

    return decorate


def coin(i, rate=0.5):
    """Chance that no model has: another one each time, yet the same in every session."""
    number = next(TOSSES.setdefault(i, itertools.count()))
    return random.Random(f"coin {i} {number}").random() < rate


TOSSES = {}
'''

PRELUDE = """
import asyncio, os, random, subprocess, sys, threading, time, warnings
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, as_completed
from concurrent.futures import wait as wait_for_futures

import pytest
from app import coin, evaluated, note
from pytest_llmeval import llm_eval, waiting

def body():
    note("bodies.log")

"""


class Again(Enum):
    """What a second session over the same commit must be.

    Attributes:
        EQUAL: trial by trial as the first, with no call made, and unchanged.
        OWN_CHANCE: no call made; outcomes differ, as the test has chance of its own.
    """

    EQUAL = auto()
    OWN_CHANCE = auto()


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A way to write an eval, and what must be printed of it.

    Attributes:
        name: of the kind, as the test is called.
        source: the test module, below ``PRELUDE``; each body begins with ``body()``.
        rates: the true mean of each metric that is printed.
        spread: the standard deviation of a trial's score where it is not passed or missed.
        trials: how many bodies run.
        is_scored_throughout: each trial has a score.
        model: name in ``app``.
        options: of each session.
        ini: more lines of the ini file.
        again: what a second session is.
        has_clients: the application has its own, which ask a server.
        errors: how many standard errors a mean may be away from the truth.
        is_alike_afresh: a session with a new cache has the same outcomes, as nothing of them
            hangs on time.
    """

    name: str
    source: str
    rates: Mapping[str, float] = field(default_factory=lambda: {"pass": 0.5})
    spread: float | None = None
    trials: int = 200
    is_scored_throughout: bool = True
    model: str = "answer"
    options: tuple[str, ...] = ()
    ini: str = ""
    again: Again = Again.EQUAL
    has_clients: bool = False
    errors: float = 3.0
    is_alike_afresh: bool = True
