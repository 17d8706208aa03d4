"""The rarer branches of the parts of the state of the process; without a session of pytest."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from pytest_llmeval.engine.isolation import attribute
from pytest_llmeval.engine.isolation.capture import Capture
from pytest_llmeval.engine.isolation.folder import Folder
from pytest_llmeval.engine.isolation.guard import Guard
from pytest_llmeval.engine.isolation.logs import LogLevels
from pytest_llmeval.engine.isolation.noted_changes import noted_changes
from pytest_llmeval.engine.isolation.part import Part
from pytest_llmeval.engine.isolation.patches import Patches
from pytest_llmeval.engine.isolation.places import Attribute, Place
from pytest_llmeval.engine.isolation.process_state import ProcessState, State

PLACE = SimpleNamespace(mode="real")


@pytest.fixture
def back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Come back to the folder in which the test began."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    os.chdir(tmp_path)


def test_a_part_says_itself_how_it_is_taken_off_and_put_on() -> None:
    part: Part[int] = Part()
    assert part.is_as(7)
    assert part.fork(7) == 7
    for method in (part.take_off, lambda: part.put_on(7)):
        with pytest.raises(NotImplementedError):
            method()


def test_a_place_says_itself_how_it_is_read_and_written() -> None:
    place = Place(PLACE, "mode")
    with pytest.raises(NotImplementedError):
        place.read()
    with pytest.raises(NotImplementedError):
        place.write("mine")
    assert place.differs  # as nobody can tell


def test_an_attribute_behind_a_property_is_read_by_it() -> None:
    class Kept:
        def __init__(self) -> None:
            self._level = 1

        @property
        def level(self) -> int:
            return self._level

        @level.setter
        def level(self, value: int) -> None:
            self._level = value

    kept = Kept()
    place = Attribute(kept, "level")
    place.base = place.read()
    kept.level = 2
    assert place.differs
    place.leave()
    assert kept.level == 1
    place.enter()
    assert kept.level == 2


def test_a_module_that_is_not_there_has_nothing_to_be_filled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attribute.FilledLater, "NAMES", (("no_such_module", "later"),))
    part = attribute.FilledLater()
    saved = part.take_off()
    part.put_on(saved)

    assert saved == [None]
    assert part.is_as(saved)


def test_a_trial_whose_folder_is_gone_stands_in_one_that_is_gone(back: Path) -> None:
    part = Folder()
    (back / "own").mkdir()
    os.chdir(back / "own")
    saved = part.take_off()
    part.put_on(str(back))
    (back / "own").rmdir()
    part.take_off()
    part.put_on(saved)

    with pytest.raises(FileNotFoundError):
        os.getcwd()  # noqa: PTH109
    assert part.take_off() == ""


def test_the_levels_of_logs_are_put_back() -> None:
    part = LogLevels()
    before = part.take_off()
    try:
        part.put_on((logging.ERROR, logging.CRITICAL))
        assert part.take_off() == (logging.ERROR, logging.CRITICAL)
    finally:
        part.put_on(before)

    assert part.take_off() == before


def test_what_was_captured_for_one_is_added_to_what_was_captured_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    captured, own = SimpleNamespace(), SimpleNamespace()
    running = SimpleNamespace(out=SimpleNamespace(tmpfile=captured), err=None)
    part = Capture(SimpleNamespace(_global_capturing=running))
    states: list[State] = [{part: (True, {"stdout": "a", "stderr": "b"})}, {part: (True, {})}]
    states[1][part][1]["stdout"] = "before "
    part.give(states[0], to=states[1])
    assert states[1][part][1] == {"stdout": "before a", "stderr": "b"}

    monkeypatch.setattr(sys, "stdout", own)
    assert [*part.streams()] == [("stdout", captured), ("stdout", own)]
    monkeypatch.setattr(sys, "stdout", captured)
    assert [*part.streams()] == [("stdout", captured)]


def test_the_capture_stays_on_after_a_phase_of_a_trial() -> None:
    made: list[str] = []
    manager = SimpleNamespace(
        resume_global_capture=lambda: made.append("on"),
        activate_fixture=lambda: made.append("fixture on"),
        deactivate_fixture=lambda: made.append("fixture off"),
        read_global_capture=lambda: ("printed", "to stderr"),
    )
    item, sections = SimpleNamespace(), list[tuple[str, ...]]()
    item.add_report_section = lambda *section: sections.append(section)
    for capture in (Capture(None), Capture(manager)):
        capture.begin_phase()
        capture.end_phase("call", item)

    assert made == ["on", "fixture on", "fixture off"]
    assert sections == [("call", "stdout", "printed"), ("call", "stderr", "to stderr")]


def test_a_changed_umask_is_noticed() -> None:
    guard = Guard()
    with guard.watching():
        guard.take()  # as a trial begins
        before = os.umask(0o077)
        try:
            assert guard.changed() == "os.umask"
        finally:
            os.umask(before)
        assert guard.changed() == ""


def test_a_trial_says_what_it_has_swapped(monkeypatch: pytest.MonkeyPatch) -> None:
    patches = Patches(Guard())
    assert patches.held_for == ""
    monkeypatch.delenv("OF_CHILDREN", raising=False)
    patches.add_variable(b"OF_CHILDREN", b"yes")
    assert patches.held_for == "os.putenv was changed"
    patches.add_mock(mock.patch.dict(vars(PLACE)))
    assert patches.held_for == "mock.patch"
    assert patches.places == {}
    patches.outside = "time"
    assert patches.held_for == "monkeypatch of time"


def test_a_place_is_looked_at_once() -> None:
    patches = Patches(Guard())
    for _ in range(2):
        patches.add(Attribute(PLACE, "mode"))
    patches.add_switch(logging.root, "level", 10)
    assert len(patches.places) == 1
    patches.add_switch(logging.root, "disabled", True)
    assert len(patches.places) == 2


def test_a_generator_that_cannot_be_put_back_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    torch: Any = SimpleNamespace(__name__="torch", manual_seed=lambda _: None)
    plain = torch.manual_seed
    monkeypatch.setitem(sys.modules, "torch", torch)

    with noted_changes(lambda: None):
        assert torch.manual_seed is plain


def test_what_a_late_fixture_swaps_is_for_all_unless_the_trial_had_swapped_something() -> None:
    process = ProcessState(nodes=SimpleNamespace(stack={}), capture=None, handlers=())
    plain = os.cpu_count
    try:
        with process.lasting(list):
            os.cpu_count = lambda: 7
        assert process.guard.changed() == ""
        os.cpu_count = plain
        assert process.guard.changed() == "os"
        with process.lasting(list):
            pass
        assert process.guard.changed() == "os"
    finally:
        os.cpu_count = plain
