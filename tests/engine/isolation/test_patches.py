"""Putting what a trial patches away and back again changes nothing for the trial."""

from __future__ import annotations

import logging
import os
import sys
from collections import defaultdict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.engine.isolation.guard import Guard
from pytest_llmeval.engine.isolation.noted_changes import noted_changes
from pytest_llmeval.engine.isolation.patches import Patches, PatchesInTurn
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
    return Patches(Guard())


def leave(patches: Patches) -> None:
    in_turn = PatchesInTurn(Guard())
    in_turn.current = patches
    assert in_turn.take_off() is patches


def enter(patches: Patches) -> None:
    PatchesInTurn(Guard()).put_on(patches)


def away_and_back(patches: Patches) -> None:
    leave(patches)
    enter(patches)


def is_in_use(patches: Patches) -> bool:
    in_turn = PatchesInTurn(Guard())
    in_turn.current = patches
    return not in_turn.is_as(None)


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
        leave(own)
        assert world.state() == at_first
        enter(own)
        assert world.state() == left


def keys(patches: Patches) -> set[object]:
    return set(patches.places)


def test_two_trials_patch_the_same() -> None:
    world = World()
    one, other = patches(), patches()
    adopted(one).setattr(world.module, "there", "one")
    leave(one)
    adopted(other).setattr(world.module, "there", "other")
    leave(other)

    for own, wanted in ((one, "one"), (other, "other"), (one, "one")):
        enter(own)
        assert world.module.there == wanted
        leave(own)
    assert world.module.there == "module"


def test_what_became_different_meanwhile_is_what_is_put_back() -> None:
    world, own = World(), patches()
    adopted(own).setattr(world.module, "there", "mine")
    leave(own)
    world.module.there = "a wider fixture was set up"

    away_and_back(own)
    enter(own)
    assert world.module.there == "mine"
    leave(own)

    assert world.module.there == "a wider fixture was set up"


def test_a_deleted_item_comes_back() -> None:
    entries, own = {"first": 1, "second": 2}, patches()
    adopted(own).delitem(entries, "first")

    leave(own)
    assert entries == {"first": 1, "second": 2}
    enter(own)
    assert entries == {"second": 2}


def test_an_item_is_read_without_making_its_default() -> None:
    entries: defaultdict[str, int] = defaultdict(int)

    assert Item(entries, "absent").read() is ABSENT
    assert entries == {}


def test_sys_path_keeps_its_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    path, before, own = sys.path, sys.path[:], patches()
    patcher = adopted(own)
    patcher.syspath_prepend("mine")

    leave(own)
    assert sys.path == before
    enter(own)
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
    leave(own)
    assert (world.module.there, world.entries["there"]) == ("module", "entry")


def test_the_environment_is_left_to_the_swap_of_the_whole() -> None:
    own = patches()
    patcher = adopted(own)

    patcher.setenv("LLMEVAL_PATCHED", "1")

    assert (own.places, is_in_use(own)) == ({}, False)
    patcher.undo()


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


def test_a_patch_of_the_own_definition_of_a_fixture_is_nobody_elses_business(
    request: pytest.FixtureRequest,
) -> None:
    """pytest-asyncio makes one while it sets a fixture up, and the trial waits under it."""
    definition = request._get_active_fixturedef("tmp_path")
    of_trial = patches()
    with adopted(of_trial).context() as patcher:
        of_trial.adopt(patcher)
        patcher.setattr(definition, "func", lambda: None)

        assert of_trial.held_for == ""
        assert not is_in_use(of_trial)


def test_patchers_are_adopted_only_while_changes_are_noted() -> None:
    own, place = patches(), SimpleNamespace(value=1)

    with noted_changes(lambda: own), pytest.MonkeyPatch.context() as within:
        within.setattr(place, "value", 2)
    with pytest.MonkeyPatch.context() as after:
        after.setitem({}, "value", 2)

    assert [*own.places] == [Attribute(place, "value").key]


def test_a_mock_is_away_while_its_trial_waits() -> None:
    mine, place = patches(), SimpleNamespace(value="real")

    with noted_changes(lambda: mine), mock.patch.object(place, "value", "mock"):
        leave(mine)
        assert place.value == "real"
        enter(mine)
        assert place.value == "mock"

    assert place.value == "real"
    assert not is_in_use(mine)


def test_a_mock_of_what_is_not_there_tells_so_itself() -> None:
    mine = patches()
    missing = mock.patch.object(SimpleNamespace(), "value", 1)

    with noted_changes(lambda: mine), pytest.raises(AttributeError, match="value"):
        missing.__enter__()


def test_arguments_may_be_named() -> None:
    own, world = patches(), World()
    patcher = adopted(own)

    with noted_changes(lambda: own):
        patcher.setattr(target=world.module, name="there", value=1)
        patcher.delattr(target=world.instance, name="absent", raising=False)
        patcher.setitem(dic=world.entries, name="there", value=1)
        patcher.syspath_prepend(path="mine")
        patcher.setenv(name="LLMEVAL_PATCHED", value="1")
        patcher.chdir(path=".")
        os.chdir(path=".")
        logging.getLogger("test_patches").setLevel(level=logging.DEBUG)

    assert len(own.places) == 5
    leave(own)
    assert (world.module.there, world.entries["there"]) == ("module", "entry")
    enter(own)
    patcher.undo()
    leave(own)
