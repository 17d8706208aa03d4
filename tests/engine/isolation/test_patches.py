"""Putting what a trial patches away and back again changes nothing for the trial."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.engine.compat import remembered_absence
from pytest_llmeval.engine.isolation.guard import Guard
from pytest_llmeval.engine.isolation.patches import Patches, watched_mocks, watched_patchers
from pytest_llmeval.engine.isolation.places import ABSENT, Attribute, Item

NAMES = ("there", "absent")


class Kind:
    there = "class"

    @classmethod
    def made_by(cls) -> str:
        return cls.__name__


class World:
    """One of each sort of thing that can be patched."""

    def __init__(self) -> None:
        self.module = SimpleNamespace(there="module")
        self.kind = type("Own", (Kind,), {"there": "own class"})
        self.instance = self.kind()
        self.entries = {"there": "entry"}

    def state(self) -> object:
        own = {name: vars(self.kind)[name] for name in NAMES if name in vars(self.kind)}
        return (vars(self.module).copy(), own, vars(self.instance).copy(), self.entries.copy())


def adopted(patches: Patches) -> pytest.MonkeyPatch:
    patcher = pytest.MonkeyPatch()
    patches.adopt(patcher)
    return patcher


def patches() -> Patches:
    return Patches(remembered_absence(), Guard())


def away_and_back(patches: Patches) -> None:
    patches.leave()
    patches.enter()


steps = st.lists(
    st.tuples(
        st.sampled_from(("set", "delete", "by hand", "undo", "set item", "delete item")),
        st.sampled_from(("module", "kind", "instance")),
        st.sampled_from(NAMES),
        st.integers(0, 1),
    ),
    max_size=12,
)


def take(step: tuple[str, str, str, int], world: World, *, by: list[pytest.MonkeyPatch]) -> None:
    action, target, name, which = step
    changed, value = getattr(world, target), object()
    actions: dict[str, Callable[[], None]] = {
        "set": lambda: by[which].setattr(changed, name, f"{action} {which}", raising=False),
        "delete": lambda: by[which].delattr(changed, name, raising=False),
        "by hand": lambda: setattr(changed, name, value) if name in vars(changed) else None,
        "undo": by[which].undo,
        "set item": lambda: by[which].setitem(world.entries, name, value),
        "delete item": lambda: by[which].delitem(world.entries, name, raising=False),
    }
    try:
        actions[action]()
    except AttributeError:  # an instance has what its class has, and cannot delete it
        assert action in ("delete", "undo")


@given(steps=steps)
def test_a_trial_finds_what_it_left_and_others_what_was_there_before(
    steps: list[tuple[str, str, str, int]],
) -> None:
    world, own = World(), patches()
    at_first = world.state()
    patchers = [adopted(own), adopted(own)]
    for step in steps:
        if step[0] == "by hand" and Attribute(getattr(world, step[1]), step[2]).key not in keys(
            own
        ):
            continue  # nobody knows of a change that was never patched
        take(step, world, by=patchers)
        left = world.state()
        own.leave()
        assert world.state() == at_first
        own.enter()
        assert world.state() == left


def keys(patches: Patches) -> set[object]:
    return set(patches.places)


def test_two_trials_patch_the_same() -> None:
    world = World()
    one, other = patches(), patches()
    adopted(one).setattr(world.module, "there", "one")
    one.leave()
    adopted(other).setattr(world.module, "there", "other")
    other.leave()

    for own, wanted in ((one, "one"), (other, "other"), (one, "one")):
        own.enter()
        assert world.module.there == wanted
        own.leave()
    assert world.module.there == "module"


def test_what_became_different_meanwhile_is_what_is_put_back() -> None:
    world, own = World(), patches()
    adopted(own).setattr(world.module, "there", "mine")
    own.leave()
    world.module.there = "a wider fixture was set up"

    away_and_back(own)
    own.enter()
    assert world.module.there == "mine"
    own.leave()

    assert world.module.there == "a wider fixture was set up"


def test_what_changes_while_it_spreads_is_for_all() -> None:
    world, own = World(), patches()
    adopted(own).setattr(world.module, "there", "mine")

    with own.spreading():
        world.module.there = "for all"
    own.leave()

    assert world.module.there == "for all"


def test_a_deleted_item_comes_back() -> None:
    entries, own = {"first": 1, "second": 2}, patches()
    adopted(own).delitem(entries, "first")

    own.leave()
    assert entries == {"first": 1, "second": 2}
    own.enter()
    assert entries == {"second": 2}


def test_an_item_is_read_without_making_its_default() -> None:
    entries: defaultdict[str, int] = defaultdict(int)

    assert Item(entries, "absent").read() is ABSENT
    assert entries == {}


def test_sys_path_keeps_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    path, before, own = sys.path, sys.path[:], patches()
    patcher = adopted(own)
    patcher.syspath_prepend("mine")

    own.leave()
    assert sys.path == before
    own.enter()
    assert (sys.path[0], sys.path is path) == ("mine", True)
    patcher.undo()
    assert sys.path == before


class Guarded:
    """Keeps attributes elsewhere, as proxies of settings do."""

    def __init__(self) -> None:
        object.__setattr__(self, "kept", {"there": "kept"})

    def __getattr__(self, name: str) -> object:
        try:
            return self.kept[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> None:
        self.kept[name] = value


def test_an_object_that_keeps_its_attributes_elsewhere_is_asked_for_them() -> None:
    guarded: Any = Guarded()

    assert Attribute(guarded, "there").read() == "kept"


def test_a_classmethod_is_read_as_it_was_written() -> None:
    assert isinstance(Attribute(Kind, "made_by").read(), classmethod)


def test_what_cannot_be_written_back_does_not_stop_the_others() -> None:
    world, own = World(), patches()

    class Once:
        def __init__(self) -> None:
            self.is_set = False

        def __setattr__(self, name: str, value: object) -> None:
            if name == "there" and "there" in vars(self):
                raise ValueError("only once")
            object.__setattr__(self, name, value)

    patcher = adopted(own)
    patcher.setattr(world.module, "there", "mine")
    patcher.setattr(Once(), "there", 1, raising=False)
    patcher.setitem(world.entries, "there", "mine")

    away_and_back(own)
    assert (world.module.there, world.entries["there"]) == ("mine", "mine")
    own.leave()
    assert (world.module.there, world.entries["there"]) == ("module", "entry")


def test_the_environment_is_left_to_the_swap_of_the_whole() -> None:
    own = patches()
    patcher = adopted(own)

    patcher.setenv("LLMEVAL_PATCHED", "1")

    assert (own.places, own.are_in_use) == ({}, True)
    patcher.undo()
    assert not own.are_in_use


@pytest.mark.parametrize(
    ("target", "package"),
    [(sys.modules[__name__], ""), (World(), ""), (World, ""), (sys, "sys"), (st, "hypothesis")],
    ids=["module", "instance", "class", "builtin", "installed"],
)
def test_a_package_outside_the_project_is_named(target: object, package: str) -> None:
    own = patches()
    patcher = adopted(own)
    patcher.setattr(target, "llmeval_new", 1, raising=False)
    patcher.undo()

    assert own.outside == package


def test_patchers_are_told_of_only_while_they_are_watched() -> None:
    made: list[pytest.MonkeyPatch] = []

    with watched_patchers(made.append), pytest.MonkeyPatch.context() as within:
        pass
    pytest.MonkeyPatch()

    assert made == [within]


def test_a_mock_is_away_while_its_trial_waits() -> None:
    mine, place = patches(), SimpleNamespace(value="real")

    with watched_mocks(lambda: mine), mock.patch.object(place, "value", "mock"):
        mine.leave()
        assert place.value == "real"
        mine.enter()
        assert place.value == "mock"

    assert place.value == "real"
    assert not mine.are_in_use


def test_a_mock_of_what_is_not_there_tells_so_itself() -> None:
    mine = patches()
    missing = mock.patch.object(SimpleNamespace(), "value", 1)

    with watched_mocks(lambda: mine), pytest.raises(AttributeError, match="value"):
        missing.__enter__()
