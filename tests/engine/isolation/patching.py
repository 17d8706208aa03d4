"""A project whose evals patch what all of them share."""

from __future__ import annotations

MODEL = """
import logging
import time
import app

WAIT = time.sleep  # a test may patch it


def answer(messages, *, draw, **params):
    text = messages[-1]["content"]
    logging.getLogger("slow").warning("asked %s", text)
    WAIT(0.005 + 0.01 * draw.rng.random())
    return text
"""

APP = """
import logging

MODE = "real"
CONFIG = {"first": 1, "second": 2}
LOGGER = logging.getLogger("app")
ISLAND = logging.getLogger("app.island")
ISLAND.propagate = False


class Bot:
    name = "bot"

    def __init__(self):
        self.own = "own"
        self._mood = "good"

    @classmethod
    def made_by(cls):
        return cls.__name__

    @staticmethod
    def twice(number):
        return 2 * number

    @property
    def mood(self):
        return self._mood

    @mood.setter
    def mood(self, value):
        self._mood = value


class Slotted:
    __slots__ = ("slot",)


BOT = Bot()
SLOTTED = Slotted()
SLOTTED.slot = "empty"
"""

SUITE = """
import logging
import os
import sys

import _pytest.logging
import app
import pytest
from pytest_llmeval import llm_eval, waiting

AT_FIRST = {name: app.Bot.__dict__[name] for name in ("made_by", "twice", "mood")}
LEVEL = app.LOGGER.level
PATH = sys.path[:]
HERE = os.getcwd()


def evals(test):
    return pytest.mark.parametrize("n", range(3))(llm_eval(repeats=4, min_score=1)(test))


def assert_all_is_as_at_first():
    assert (app.MODE, app.CONFIG) == ("real", {"first": 1, "second": 2})
    assert not hasattr(app, "NEW")
    assert {name: app.Bot.__dict__[name] for name in AT_FIRST} == AT_FIRST
    assert (app.Bot.name, app.BOT.name, app.BOT.twice(2)) == ("bot", "bot", 4)
    assert (app.BOT.own, app.BOT.mood) == ("own", "good")
    assert app.SLOTTED.slot == "empty"
    assert [path for path in sys.path if "mine" in path] == []
    assert (os.getcwd(), os.environ.get("LLMEVAL_PATCHED")) == (HERE, None)
    assert (app.LOGGER.level, logging.root.manager.disable) == (LEVEL, 0)


@evals
def test_bystander(llm, n):
    assert_all_is_as_at_first()
    llm.ask(f"bystander {n}")
    assert_all_is_as_at_first()


@evals
def test_attribute(llm, n, monkeypatch):
    mine = object()
    monkeypatch.setattr(app, "MODE", mine)
    llm.ask(f"attribute {n}")
    assert app.MODE is mine
    by_hand = app.MODE = object()
    llm.ask(f"attribute again {n}")
    assert app.MODE is by_hand
    monkeypatch.undo()
    assert app.MODE == "real"
    llm.ask(f"attribute undone {n}")
    assert app.MODE == "real"


@evals
def test_attribute_by_its_dotted_name(llm, n, monkeypatch):
    monkeypatch.setattr("app.MODE", n)
    llm.ask(f"dotted {n}")
    assert app.MODE == n


@evals
def test_attribute_that_was_not_there(llm, n, monkeypatch):
    monkeypatch.setattr(app, "NEW", n, raising=False)
    llm.ask(f"absent {n}")
    assert app.NEW == n


@evals
def test_attribute_that_is_taken_away(llm, n, monkeypatch):
    monkeypatch.delattr(app, "MODE")
    monkeypatch.delattr("app.BOT.own")
    llm.ask(f"taken away {n}")
    assert not hasattr(app, "MODE") and not hasattr(app.BOT, "own")


@evals
def test_items(llm, n, monkeypatch):
    monkeypatch.setitem(app.CONFIG, "first", n)
    monkeypatch.setitem(app.CONFIG, "third", n)
    monkeypatch.delitem(app.CONFIG, "second")
    llm.ask(f"items {n}")
    assert app.CONFIG == {"first": n, "third": n}


@evals
def test_class(llm, n, monkeypatch):
    monkeypatch.setattr(app.Bot, "made_by", classmethod(lambda cls: n))
    monkeypatch.setattr(app.Bot, "twice", staticmethod(lambda number: n))
    monkeypatch.setattr(app.Bot, "mood", property(lambda self: n))
    monkeypatch.setattr(app.Bot, "name", n)
    llm.ask(f"class {n}")
    assert (app.Bot.made_by(), app.BOT.twice(5), app.BOT.mood, app.BOT.name) == (n, n, n, n)


@evals
def test_instance(llm, n, monkeypatch):
    monkeypatch.setattr(app.BOT, "twice", lambda number: n)
    monkeypatch.setattr(app.BOT, "name", n)
    monkeypatch.setattr(app.BOT, "mood", n)
    monkeypatch.setattr(app.SLOTTED, "slot", n)
    llm.ask(f"instance {n}")
    assert (app.BOT.twice(5), app.BOT.name, app.BOT.mood, app.SLOTTED.slot) == (n, n, n, n)


@pytest.fixture
def outer(monkeypatch, llm):
    monkeypatch.setattr(app, "MODE", "outer")
    llm.ask("in a fixture")
    yield
    assert app.MODE == "outer"
    llm.ask("in a fixture, after")
    assert app.MODE == "outer"


@pytest.fixture
def inner(outer):
    with pytest.MonkeyPatch.context() as own:
        own.setattr(app, "MODE", "inner")
        own.setitem(app.CONFIG, "first", "inner")
        yield


@evals
def test_nested_fixtures(llm, n, inner, monkeypatch):
    assert app.MODE == "inner"
    llm.ask(f"nested {n}")
    assert (app.MODE, app.CONFIG["first"]) == ("inner", "inner")


@evals
def test_context(llm, n, monkeypatch):
    monkeypatch.setattr(app, "MODE", "around")
    with monkeypatch.context() as within:
        within.setattr(app, "MODE", n)
        within.setattr(app.Bot, "name", n)
        llm.ask(f"context {n}")
        assert (app.MODE, app.Bot.name) == (n, n)
    assert (app.MODE, app.Bot.name) == ("around", "bot")
    llm.ask(f"after context {n}")
    assert (app.MODE, app.Bot.name) == ("around", "bot")


@evals
def test_patcher_of_its_own(llm, n):
    patcher = pytest.MonkeyPatch()
    patcher.setattr(app, "MODE", n)
    llm.ask(f"own {n}")
    assert app.MODE == n
    patcher.undo()


@evals
def test_asked_for_in_the_body(llm, n, request):
    request.getfixturevalue("monkeypatch").setattr(app, "MODE", n)
    llm.ask(f"dynamic {n}")
    assert app.MODE == n


@evals
def test_process(llm, n, monkeypatch, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    monkeypatch.setenv("LLMEVAL_PATCHED", str(mine))
    monkeypatch.syspath_prepend(mine)
    monkeypatch.chdir(mine)
    llm.ask(f"process {n}")
    assert os.environ["LLMEVAL_PATCHED"] == str(mine)
    assert [path for path in sys.path if "mine" in path] == [str(mine)]
    assert os.path.realpath(os.getcwd()) == os.path.realpath(mine)


@evals
def test_what_the_engine_itself_uses(llm, n, monkeypatch):
    monkeypatch.setattr(os, "getcwd", lambda: "/")
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(sys, "stdout", None)
    llm.ask(f"engine {n}")
    assert (os.getcwd(), os.environ, sys.stdout) == ("/", {}, None)


@evals
def test_own_waiting_sees_what_is_patched(n, monkeypatch):
    monkeypatch.setattr(app, "MODE", n)
    assert waiting(lambda: app.MODE) == n


@evals
def test_records(llm, n, caplog):
    app.LOGGER.warning("before %s", n)
    llm.ask(f"records {n}")
    app.LOGGER.warning("after %s", n)
    assert caplog.messages == [f"before {n}", f"asked records {n}", f"after {n}"] or (
        caplog.messages == [f"before {n}", f"after {n}"]  # it was replayed
    )
    caplog.clear()
    llm.ask(f"records again {n}")
    assert [m for m in caplog.messages if m != f"asked records again {n}"] == []


@evals
def test_levels(llm, n, caplog):
    caplog.set_level(logging.INFO)
    caplog.set_level(logging.DEBUG, logger="app")
    llm.ask(f"levels {n}")
    app.LOGGER.debug("seen %s", n)
    assert f"seen {n}" in caplog.messages
    with caplog.at_level(logging.ERROR, logger="app"):
        llm.ask(f"levels within {n}")
        app.LOGGER.warning("unseen")
    llm.ask(f"levels after {n}")
    app.LOGGER.debug("seen again")
    assert "unseen" not in caplog.messages and "seen again" in caplog.messages


@evals
def test_no_level_of_others(llm, n, caplog):
    app.LOGGER.debug("unseen")
    llm.ask(f"no level {n}")
    app.LOGGER.debug("unseen")
    assert "unseen" not in caplog.messages


@evals
def test_filtering(llm, n, caplog):
    refuse = logging.Filter("nothing")
    with caplog.filtering(refuse):
        llm.ask(f"filtering {n}")
        app.LOGGER.warning("unseen")
    llm.ask(f"filtered {n}")
    app.LOGGER.warning("seen")
    assert "unseen" not in caplog.messages and "seen" in caplog.messages
    assert refuse not in caplog.handler.filters


@evals
def test_logging_switched_off(llm, n, caplog):
    logging.disable(logging.CRITICAL)
    with caplog.at_level(logging.WARNING, logger="app"):
        llm.ask(f"switched off {n}")
        app.LOGGER.warning("seen")
    app.LOGGER.warning("unseen")
    logging.disable(logging.NOTSET)
    assert "seen" in caplog.messages and "unseen" not in caplog.messages


@evals
def test_logger_that_does_not_propagate(llm, n, caplog):
    app.ISLAND.warning("before")
    llm.ask(f"island {n}")
    app.ISLAND.warning("after")
    is_caught = hasattr(_pytest.logging.catching_logs, "attached_loggers")  # newer pytest
    caught = [m for m in caplog.messages if m in ("before", "after")]
    assert caught == (["before", "after"] if is_caught else [])


@pytest.fixture
def logging_fixture(llm):
    logging.getLogger("fixture").warning("in setup")
    llm.ask("logging fixture")


@evals
def test_records_of_each_phase(llm, n, logging_fixture, caplog):
    llm.ask(f"phases {n}")
    app.LOGGER.warning("in call")
    in_setup = [record.getMessage() for record in caplog.get_records("setup")]
    assert "in setup" in in_setup and "in call" not in in_setup
    assert "in setup" not in caplog.messages


def test_nothing_is_left():
    assert_all_is_as_at_first()
"""

INI = """
[pytest]
llm_model = function/slow:answer
pythonpath = .
filterwarnings = error
"""
