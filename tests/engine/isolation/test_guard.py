"""What a trial swaps by whatever means no other trial sees, and its case is held serial."""

from __future__ import annotations

import os
import sys
import time
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from pytest_llmeval.engine.isolation.guard import Guard
from tests.forked import run_forked

INI = "[pytest]\nllm_model = function/model:answer\n"
MODEL = """
import time


def answer(messages, draw):
    time.perf_counter_ns()
    SLEEP(0.01)
    return "yes"


SLEEP = time.sleep
"""
# Assigned by hand, as libraries do: neither by MonkeyPatch nor by unittest.mock.
SWAPS = """
import asyncio
import builtins
import contextlib
import ctypes
import datetime
import decimal
import gc
import http.client
import json
import locale
import logging
import os
import platform
import random
import secrets
import shutil
import smtplib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
import warnings

of_children = ctypes.CDLL(None).getenv
of_children.restype = ctypes.c_char_p
SWAPS = {
    "time": (time, "time", lambda: 0.0),
    "sleep": (time, "sleep", lambda seconds: None),
    "datetime": (datetime, "date", type("Frozen", (datetime.date,), {})),
    "socket": (socket, "socket", type("Refused", (), {})),
    "connect": (socket.socket, "connect", lambda *_: None),
    "open": (builtins, "open", lambda *_: None),
    "listdir": (os, "listdir", lambda *_: []),
    "environ": (os, "environ", {}),
    "client": (http.client.HTTPConnection, "request", lambda *_: None),
    "argv": (sys, "argv", ["mine"]),
    "hook": (sys, "excepthook", lambda *_: None),
    "hook of threads": (threading, "excepthook", lambda *_: None),
    "shown warnings": (warnings, "showwarning", lambda *_, **__: None),
    "print": (builtins, "print", lambda *_, **__: None),
    "sorted": (builtins, "sorted", lambda values, **_: list(values)),
    "dumps": (json, "dumps", lambda *_, **__: "mine"),
    "loads": (json, "loads", lambda *_, **__: {}),
    "random": (random, "random", lambda: 0.5),
    "token": (secrets, "token_hex", lambda *_: "mine"),
    "id": (uuid, "uuid5", lambda *_: "mine"),
    "command": (subprocess, "check_call", lambda *_, **__: 0),
    "mail": (smtplib, "SMTP", type("Refused", (), {})),
    "system": (platform, "system", lambda: "mine"),
    "copy": (shutil, "copy", lambda *_: None),
    "process": (os, "getpid", lambda: 1),
    "link": (os.path, "islink", lambda *_: False),
    "logger": (logging, "getLogger", lambda *_: logging.root),
    "thread": (threading, "Thread", type("Refused", (), {})),
    "sleep of asyncio": (asyncio, "sleep", lambda *_: None),
}
OF_TRIAL = {
    "limit": (sys.getrecursionlimit, sys.setrecursionlimit, 5_000),
    "switches": (sys.getswitchinterval, sys.setswitchinterval, 0.25),
    "digits": (sys.get_int_max_str_digits, sys.set_int_max_str_digits, 5_000),
    "timeout": (socket.getdefaulttimeout, socket.setdefaulttimeout, 77.0),
    "garbage": (gc.isenabled, lambda on: gc.enable() if on else gc.disable(), False),
    "loggers": (logging.getLoggerClass, logging.setLoggerClass, type("L", (logging.Logger,), {})),
    "names of levels": (
        lambda: logging.getLevelName(25), lambda name: logging.addLevelName(25, name), "NOTICE"
    ),
    "variable": (
        lambda: of_children(b"MINE"),
        lambda value: os.putenv("MINE", value) if value else os.unsetenv("MINE"),
        b"mine",
    ),
    "umask": (lambda: os.umask(os.umask(0o22)), os.umask, 0o77),
    "locale": (
        lambda: locale.setlocale(locale.LC_CTYPE),
        lambda name: locale.setlocale(locale.LC_CTYPE, name),
        "C" if locale.setlocale(locale.LC_CTYPE) != "C" else "C.UTF-8",
    ),
}
FOUND = {}  # when the first trial looks
VALUES = {name: read() for name, (read, _, _) in OF_TRIAL.items() if name != "umask"}


@contextlib.contextmanager
def swapped(name):
    if name in OF_TRIAL:
        read, write, value = OF_TRIAL[name]
        before = read()
        write(value)
        yield lambda: name == "umask" or read() == value
        write(before)
        return
    owner, place, value = SWAPS[name]
    before = vars(owner).get(place)
    setattr(owner, place, value)
    try:
        yield lambda: vars(owner)[place] is value
    finally:
        if before is None:
            delattr(owner, place)
        else:
            setattr(owner, place, before)


def look():
    now = {name: vars(owner).get(place) for name, (owner, place, _) in SWAPS.items()}
    values = {name: OF_TRIAL[name][0]() for name in VALUES}
    wrong = [name for name in now if now[name] is not FOUND.setdefault(name, now[name])]
    return wrong + [name for name in VALUES if values[name] != VALUES[name]]
"""
EVALS = """
import pytest
from pytest_llmeval import llm_eval
from swaps import OF_TRIAL, SWAPS, look, swapped

NAMES = [*SWAPS, *OF_TRIAL]


@llm_eval(repeats=3, min_score=1)
@pytest.mark.parametrize("n", range(4))
@pytest.mark.parametrize("name", NAMES[:6])
def test_bystander(llm, name, n):
    assert not look()
    llm.ask(f"{name} {n}")
    assert not look()


def eval_of(name):
    @llm_eval(repeats=2, min_score=1)
    def swaps(llm):
        llm.ask("before")
        with swapped(name) as is_mine:
            llm.ask(name)
            assert is_mine()
        assert not look()
    return swaps


for name in NAMES:  # each must be noticed by itself
    globals()[f"test_swaps_{name.replace(' ', '_')}"] = eval_of(name)


@pytest.fixture
def mine(name):
    with swapped(name) as is_mine:
        yield is_mine


@pytest.mark.parametrize("name", NAMES)
@llm_eval(repeats=2, min_score=1)
async def test_fixture_swaps(async_llm, mine, name):
    await async_llm.ask(f"fixture {name}")
    assert mine()


@pytest.mark.parametrize("name", NAMES)
@llm_eval(repeats=2, min_score=1)
async def test_awaits(async_llm, name):
    await async_llm.ask("before")
    with swapped(name) as is_mine:
        await async_llm.ask(f"awaits {name}")
        assert is_mine()
    await async_llm.ask("after")
    assert not look()


@llm_eval(repeats=3, min_score=1)
@pytest.mark.parametrize("n", range(12))
async def test_async_bystander(async_llm, n):
    assert not look()
    await async_llm.ask(f"async {n}")
    assert not look()
    await async_llm.ask(f"async again {n}")
    assert not look()


@llm_eval(repeats=3, min_score=1)
@pytest.mark.parametrize("n", range(12))
def test_last_bystander(llm, n):
    llm.ask(f"last {n}")
    assert not look()
"""


def test_what_a_trial_swaps_by_hand_no_other_sees(pytester: pytest.Pytester) -> None:
    pytester.makefile(".ini", pytest=INI)
    pytester.makepyfile(model=MODEL, swaps=SWAPS, test_evals=EVALS)

    result = run_forked(pytester)

    result.assert_outcomes(passed=24 + 3 * 39 + 24)
    section = " ".join(result.stdout.str().partition("117 cases ran serially: ")[2].split())
    assert section.startswith("time was changed (80), builtins was changed (3), ")
    assert "logging.addLevelName was changed (1), os.putenv was changed (1)" in section
    assert "smtplib was changed (1)" in section


OF_TRIAL = """
import asyncio
import decimal
import logging
import random
import tempfile
import urllib.request

import pytest
from pytest_llmeval import llm_eval

LOGGER = logging.getLogger("app")
SEEN = {}


def change(n):
    assert LOGGER.level == 0
    assert decimal.getcontext().prec == 28
    assert (LOGGER.propagate, LOGGER.disabled, urllib.request._opener) == (True, False, None)
    assert not str(tempfile.tempdir).startswith("mine")
    assert not hasattr(asyncio.get_event_loop_policy(), "mine")
    random.seed(n)
    LOGGER.setLevel(n + 1)
    LOGGER.propagate = False
    LOGGER.disabled = True
    decimal.getcontext().prec = n + 1
    tempfile.tempdir = f"mine {n}"
    urllib.request.install_opener(n)
    policy = asyncio.DefaultEventLoopPolicy()
    policy.mine = n
    asyncio.set_event_loop_policy(policy)


def is_mine(n):
    policy = getattr(asyncio.get_event_loop_policy(), "mine", None)
    found = LOGGER.level - 1, decimal.getcontext().prec - 1, urllib.request._opener, policy
    assert found == (n, n, n, n)
    return (LOGGER.propagate, LOGGER.disabled, tempfile.tempdir) == (False, True, f"mine {n}")


@llm_eval(repeats=3, min_score=1)
@pytest.mark.parametrize("n", range(8))
def test_sync(llm, n):
    change(n)
    drawn = []
    for step in range(3):
        llm.ask(f"{n} {step}")
        drawn.append(random.random())
        assert is_mine(n)
    mine = random.Random(n)
    assert drawn == [mine.random() for _ in range(3)]


@llm_eval(repeats=3, min_score=1)
@pytest.mark.parametrize("n", range(8))
async def test_async(async_llm, n):
    change(n)
    drawn = []
    for step in range(3):
        await async_llm.ask(f"{n} {step}")
        drawn.append(random.random())
        assert is_mine(n)
    mine = random.Random(n)
    assert drawn == [mine.random() for _ in range(3)]


@llm_eval(repeats=8, min_score=1)
def test_what_is_not_seeded_is_drawn_from_that_of_all(llm):
    llm.ask("anything")
    number = random.random()
    assert number not in SEEN
    SEEN[number] = True


def test_the_session_has_its_own():
    assert (LOGGER.level, LOGGER.propagate, LOGGER.disabled) == (0, True, False)
    assert not hasattr(asyncio.get_event_loop_policy(), "mine")
    assert decimal.getcontext().prec == 28
"""


def test_generators_levels_and_decimals_belong_to_the_trial(pytester: pytest.Pytester) -> None:
    pytester.makefile(".ini", pytest=INI)
    pytester.makepyfile(model=MODEL, test_evals=OF_TRIAL)

    result = run_forked(pytester)

    result.assert_outcomes(passed=18)
    result.stdout.no_fnmatch_line("*ran serially*")


def test_a_place_counts_from_its_import_on_and_what_is_left_for_good_is_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "uuid")
    guard = Guard()
    assert guard.changed() == ""
    monkeypatch.setitem(sys.modules, "uuid", __import__("uuid"))
    assert guard.changed() == ""

    monkeypatch.setattr(sys.modules["uuid"], "uuid4", lambda: "fixed")

    assert guard.changed() == "uuid"
    guard.take()
    assert guard.changed() == ""


def test_a_place_that_cannot_be_compared_or_is_gone_counts_as_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unlike:
        def __eq__(self, other: object) -> bool:
            raise TypeError

        __hash__ = None  # type: ignore[assignment]

    guard = Guard()
    with monkeypatch.context() as patch:
        patch.setattr(time, "strftime", Unlike())
        assert guard.changed() == "time"
    with monkeypatch.context() as patch:
        patch.delattr(os, "popen")
        assert guard.changed() == "os"
    assert guard.changed() == ""


def test_a_client_that_another_thread_imports_is_looked_at_once_it_is_there() -> None:
    """We take hold of it as the last step of its import."""
    plain = ModuleType("requests")
    plain.get = print  # type: ignore[attr-defined]
    plain.__spec__ = ModuleSpec("requests", None)
    with pytest.MonkeyPatch.context() as patch:
        patch.delitem(sys.modules, "requests", raising=False)
        guard = Guard()
        patch.setitem(sys.modules, "requests", plain)
        plain.__spec__._initializing = True  # type: ignore[attr-defined]
        assert guard.changed() == ""
        plain.get = len  # type: ignore[attr-defined]
        plain.__spec__._initializing = False  # type: ignore[attr-defined]
        assert guard.changed() == ""
        plain.get = print  # type: ignore[attr-defined]
        assert guard.changed() == "requests"
