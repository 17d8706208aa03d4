"""Which cases may overlap and which may start early, told without a pytest session."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from functools import partial
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from pytest_llmeval.engine.schedule.lookahead import STEALING, Lookahead
from pytest_llmeval.engine.schedule.overlap import (
    askable,
    greenlets,
    serial_case,
    serial_session,
    signature,
)


def config(**options: Any) -> Any:
    """A configuration of which no plugin asks anything."""
    plugins = {"logging-plugin": options.pop("logs", None)}
    return SimpleNamespace(
        getoption=lambda name, default=None: options.get(name, default),
        getini=lambda _: "function",
        pluginmanager=SimpleNamespace(
            getplugin=plugins.get,
            has_plugin=lambda name: name in options.get("plugins", ()),
            get_plugins=lambda: options.get("registered", ()),
        ),
        **options.get("attributes", {}),
    )


class Node:
    """A place in the tree of the session."""

    def __init__(self, *path: Any) -> None:
        self.path = path

    def listchain(self) -> list[Any]:
        return [*self.path, self]

    def getparent(self, kind: type) -> Any:
        return next((node for node in reversed(self.path) if isinstance(node, kind)), None)


def module(kind: type[pytest.Module] = pytest.Module) -> pytest.Module:
    """A module that nobody has collected."""
    return object.__new__(kind)


def body_with(code: str = "pass", **names: object) -> Callable[..., object]:
    """A function of a module in which these names stand."""
    space: dict[str, Any] = {**names}
    exec(f"def body(): {code}", space)  # noqa: S102
    made: Callable[..., object] = space["body"]
    return made


NOTHING = body_with()


def fixture(scope: str, name: str = "wide", **more: Any) -> Any:
    return SimpleNamespace(scope=scope, argname=name, params=None, func=NOTHING, **more)


def item(*path: Any, body: Callable[..., object] = NOTHING, **more: Any) -> Any:
    """A collected function."""
    made: Any = Node(*path)
    known = more.pop("fixtures", {})
    made.obj, made.config = body, more.pop("config", config())
    made.fixturenames = list(known)
    made._fixtureinfo = SimpleNamespace(name2fixturedefs=known)
    made.session = SimpleNamespace(
        _fixturemanager=SimpleNamespace(
            getfixturedefs=lambda name, _: more.get("late", {}).get(name)
        )
    )
    made.iter_markers = lambda _: more.get("marks", ())
    made.get_closest_marker = lambda _: None
    if "callspec" in more:
        made.callspec = more["callspec"]
    return made


def spec(of: Any, *, is_serial: bool = False) -> Any:
    return SimpleNamespace(item=of, is_serial=is_serial)


# --- sessions and cases that are serial ------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, ""),
        ({"usepdb": True}, "--pdb"),
        ({"setupplan": True}, "--setup-plan"),
        ({"capture": "no"}, "-s"),
        ({"logs": SimpleNamespace(_log_cli_enabled=lambda: True)}, "log_cli"),
        ({"logs": SimpleNamespace(_log_cli_enabled=lambda: False)}, ""),
    ],
)
def test_a_session_is_serial_where_its_output_or_its_prompt_is_one(
    options: dict[str, Any], reason: str
) -> None:
    assert serial_session(config(**options)) == reason


@pytest.mark.parametrize(("home", "named"), [("gevent.thread", "gevent"), ("mine", "")])
def test_greenlets_in_the_place_of_threads_are_named(
    monkeypatch: pytest.MonkeyPatch, home: str, named: str
) -> None:
    start = SimpleNamespace(__module__=home)
    monkeypatch.setattr(threading, "_start_new_thread", start, raising=False)

    assert greenlets() == named
    assert serial_session(config()) == named


FREEZER = ModuleType("freezegun")
ALLURE = ModuleType("allure")


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (item(), ""),
        (item(body=partial(NOTHING)), ""),
        (item(fixtures={"capsys": [fixture("function")]}), "capsys"),
        (item(body=body_with("signal.SIGALRM")), "SIGALRM"),
        (item(body=body_with(it=FREEZER)), "freezegun"),
        (item(fixtures={"frozen": [SimpleNamespace(func=body_with(it=FREEZER))]}), "freezegun"),
        (item(body=body_with(a=ALLURE), config=config(plugins=["allure_listener"])), "allure"),
        (item(config=config(plugins=["allure_listener"])), ""),
        (item(fixtures={"anyio_backend": []}), "anyio"),
    ],
)
def test_a_case_is_serial_for_what_it_uses(
    monkeypatch: pytest.MonkeyPatch, of: Any, reason: str
) -> None:
    monkeypatch.setitem(sys.modules, "freezegun", FREEZER)

    assert serial_case(spec(of), {"capsys"}) == reason
    assert serial_case(spec(of, is_serial=True), ()) == 'concurrency="serial"'


def test_nothing_is_looked_for_that_nobody_has_imported() -> None:
    body = body_with(it=FREEZER)

    assert serial_case(spec(item(body=body)), ()) == ""


# --- cases that overlap one another ----------------------------------------------------------


def test_cases_of_two_modules_overlap_where_no_fixture_belongs_to_either() -> None:
    fixtures = {"wide": [fixture("session")], "own": [fixture("function")]}
    here, there = item(module(), fixtures=fixtures), item(module(), fixtures=fixtures)

    assert signature(here, ()) == signature(there, ())


@pytest.mark.parametrize("scope", ["module", "class"])
def test_a_fixture_of_a_module_or_class_ties_its_cases_to_it(scope: str) -> None:
    home = module()
    fixtures = {"wide": [fixture(scope)]}
    cases = [item(home, fixtures=fixtures), item(home), item(module(), fixtures=fixtures)]
    signatures = [signature(case, ()) for case in cases]

    assert (len(set(signatures)) == 3) is (scope == "module")  # these are in no class


def test_so_does_one_that_a_test_may_ask_for() -> None:
    late = {"late": [fixture("module")]}
    here, there = item(module(), late=late), item(module(), late=late)

    assert signature(here, ()) == signature(there, ())
    assert signature(here, ["late"]) != signature(there, ["late"])


def test_a_collector_that_is_set_up_itself_ties_its_cases_to_it() -> None:
    class Served(pytest.Module):
        def setup(self) -> None: ...

    here, there = item(module(Served)), item(module(Served))

    assert signature(here, ()) != signature(there, ())


def test_cases_share_the_parameters_of_wider_fixtures_and_filters_of_warnings() -> None:
    def with_parameter(index: int, *definitions: Any) -> Any:
        callspec = SimpleNamespace(
            indices={"wide": index}, params={"wide": index}, _arg2scope={"wide": SESSION}
        )
        return item(fixtures={"wide": definitions}, callspec=callspec)

    wide, own = fixture("session"), fixture("function")
    assert signature(with_parameter(0, wide), ()) != signature(with_parameter(1, wide), ())
    assert signature(with_parameter(0, own), ()) == signature(with_parameter(1, own), ())

    mark = SimpleNamespace(args=("error",), kwargs={})
    assert signature(item(marks=[mark]), ()) != signature(item(), ())


SESSION = SimpleNamespace(value="session")


def test_a_test_may_ask_for_what_has_no_parameters() -> None:
    with_parameters = fixture("module")
    with_parameters.params = [1, 2]
    known = {
        "late": {"": [fixture("module")]},
        "wide": {"": [fixture("session")]},
        "many": {"": [with_parameters]},
        "module_mocker": {"": [fixture("module")]},
    }
    session: Any = SimpleNamespace(_fixturemanager=SimpleNamespace(_arg2nodeid2fixturedefs=known))

    assert askable(session) == ("late",)


# --- cases that start early ------------------------------------------------------------------


def lookahead(items: list[Any], **options: Any) -> Lookahead:
    session: Any = SimpleNamespace(config=config(**options), items=items)
    return Lookahead(session)


def test_the_items_after_one_come_in_the_order_of_the_session() -> None:
    items = [item() for _ in range(4)]

    assert list(lookahead(items).after(items[1])) == items[2:]
    assert list(lookahead(items).after(items[0], beyond=items[2])) == items[3:]
    assert list(lookahead(items, maxfail=1).after(items[1])) == []


class WorkerInteractor:
    """xdist's side of a worker."""

    def __init__(self, queue: Iterable[object] | None, *, steals: bool) -> None:
        self.config = SimpleNamespace(workerinput={STEALING: steals})
        if queue is not None:
            self.torun = SimpleNamespace(lock=lambda: nullcontext(queue))


@pytest.mark.parametrize(
    ("worker", "found"),
    [
        (WorkerInteractor([3, "shutdown"], steals=False), [1, 3]),
        (WorkerInteractor([3], steals=True), [1]),
        (WorkerInteractor(None, steals=False), [1]),
        (None, [1]),
    ],
)
def test_a_worker_starts_early_what_lies_in_its_queue_for_good(
    worker: Any, found: list[int]
) -> None:
    items = [item() for _ in range(4)]
    ahead = lookahead(
        items, registered=[worker] if worker else [], attributes={"workerinput": {STEALING: False}}
    )
    assert list(ahead.after(items[0])) == []  # it is the last one here, as far as is known
    ahead.next_item = items[1]

    assert list(ahead.after(items[0])) == [items[position] for position in found]


def test_a_worker_finds_what_lies_beyond_an_item_of_its_queue() -> None:
    items = [item() for _ in range(5)]
    worker = WorkerInteractor([4, 3], steals=False)
    ahead = lookahead(items, registered=[worker], attributes={"workerinput": {STEALING: False}})
    ahead.next_item = items[2]

    assert list(ahead.after(items[0], beyond=items[2])) == [items[4], items[3]]
    assert list(ahead.after(items[0], beyond=items[4])) == [items[3]]
    assert list(ahead.after(items[0], beyond=items[1])) == []
