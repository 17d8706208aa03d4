"""What is taken off the process and put on again is what was; without a session of pytest."""

from __future__ import annotations

import io
import logging
import os
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from _pytest.capture import MultiCapture, SysCapture
from _pytest.logging import LogCaptureHandler
from hypothesis import given
from hypothesis import strategies as st

from pytest_llmeval.engine.isolation.call_output import CallOutput
from pytest_llmeval.engine.isolation.part import Part
from pytest_llmeval.engine.isolation.process_state import ProcessState, State

APP = SimpleNamespace(mode="real", rules={"first": 1})
LOGGER = logging.getLogger("test_state_laws")
NAMES = ("LLMEVAL_LAW_ONE", "LLMEVAL_LAW_TWO")


class Trial:
    """What a trial has changed, and how it changes more."""

    def __init__(self, state: State, folder: Path) -> None:
        self.state = state
        self.folder = folder
        self.has_seeded = False
        self.warned: list[warnings.WarningMessage] = []
        self._patcher = pytest.MonkeyPatch()

    def do(self, action: str, name: str, number: int) -> None:
        """Change something; whoever has the turn is this trial."""
        actions: dict[str, Callable[[], object]] = {
            "set a variable": lambda: os.environ.update({name: str(number)}),
            "delete a variable": lambda: os.environ.pop(name, None),
            "patch a variable": lambda: self._patcher.setenv(name, f"patched {number}"),
            "change the folder": lambda: os.chdir(self._subfolder(str(number))),
            "remove the folder": lambda: self._stand_nowhere(str(number)),
            "set the level of root": lambda: logging.root.setLevel(number),
            "set the level of a logger": lambda: LOGGER.setLevel(number),
            "disable logs": lambda: logging.disable(number),
            "filter warnings": lambda: warnings.filterwarnings("ignore", message=str(number)),
            "patch an attribute": lambda: self._patcher.setattr(APP, "mode", number),
            "patch by a dotted name": lambda: self._patcher.setattr(f"{__name__}.APP.mode", number),
            "patch what is not there": lambda: self._patcher.setattr(
                APP, name, number, raising=False
            ),
            "patch an item": lambda: self._patcher.setitem(APP.rules, name, number),
            "delete an item": lambda: self._patcher.delitem(APP.rules, "first", raising=False),
            "prepend to the path": lambda: self._patcher.syspath_prepend(f"/{name}"),
            "undo": self._patcher.undo,
            "mock": lambda: mock.patch.object(APP, "mode", number).__enter__(),
            "seed": lambda: self._seed(number),
            "swap stdout": lambda: setattr(sys, "stdout", io.StringIO(str(number))),
        }
        assert sorted(actions) == sorted(ACTIONS)
        actions[action]()

    def sees(self) -> dict[str, object]:
        """Return all that it finds."""
        generator = {"random": random.getstate()} if self.has_seeded else {}
        return process() | generator

    def _subfolder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        return folder

    def _stand_nowhere(self, name: str) -> None:
        folder = self._subfolder(f"removed {name}")
        os.chdir(folder)
        folder.rmdir()

    def _seed(self, number: int) -> None:
        random.seed(number)
        self.has_seeded = True


ACTIONS = (
    "set a variable", "delete a variable", "patch a variable", "change the folder",
    "remove the folder", "set the level of root", "set the level of a logger", "disable logs",
    "filter warnings", "patch an attribute", "patch by a dotted name", "patch what is not there",
    "patch an item", "delete an item", "prepend to the path", "undo", "mock", "seed",
    "swap stdout",
)  # fmt: skip
# Warnings and logs of others are kept for them anyway; nothing was patched to undo.
UNSEEN = (
    "delete a variable", "set the level of root", "disable logs", "filter warnings", "undo"
)  # fmt: skip
changes = st.lists(
    st.tuples(st.sampled_from(ACTIONS), st.sampled_from(NAMES), st.integers(1, 3)), max_size=8
)


def process() -> dict[str, object]:
    """Return what every trial finds in one process, but for random numbers."""
    return {
        "environ": dict(os.environ),
        "folder": folder_of_process(),
        "stdout": id(sys.stdout),
        "stderr": id(sys.stderr),
        "levels": (logging.root.level, LOGGER.level, logging.root.manager.disable),
        "filters": list(warnings.filters),
        "app": vars(APP) | {"rules": dict(APP.rules)},
        "path": sys.path[:],
    }


def folder_of_process() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "none"


def made(*, capture: Any = None, handlers: tuple[logging.Handler, ...] = ()) -> ProcessState:
    return ProcessState(nodes=SimpleNamespace(stack={}), capture=capture, handlers=handlers)


@contextmanager
def watched(process: ProcessState) -> Iterator[State]:
    """Give the state of the session; it is the process's again at the end."""
    session: State = {}
    with process.watching():
        process.take_off(session)
        process.put_on(session)
        try:
            yield session
        finally:
            process.put_on(session)


def begun(process: ProcessState, session: State, folder: Path) -> Trial:
    """Begin a trial, and leave its turn to it."""
    warned: list[warnings.WarningMessage] = []
    state = process.fork(session, nodes={}, calls=CallOutput(), show=warned.append)
    process.take_off(session)
    process.put_on(state)
    return Trial(state, folder)


@given(changes=changes)
def test_what_is_taken_off_and_put_on_again_is_what_was(
    changes: list[tuple[str, str, int]],
) -> None:
    own = made()
    with tempfile.TemporaryDirectory() as folder, watched(own) as session:
        at_first, numbers = process(), random.getstate()
        trial = begun(own, session, Path(folder))
        for change in changes:
            trial.do(*change)
            left = trial.sees()

            own.take_off(trial.state)
            own.put_on(session)
            assert process() == at_first
            assert random.getstate() == numbers
            own.take_off(session)
            own.put_on(trial.state)

            assert trial.sees() == left
        own.take_off(trial.state)


@given(
    turns=st.lists(st.tuples(st.integers(0, 2), changes), max_size=6),
)
def test_what_a_trial_does_is_not_seen_by_the_next(
    turns: list[tuple[int, list[tuple[str, str, int]]]],
) -> None:
    own = made()
    with tempfile.TemporaryDirectory() as folder, watched(own) as session:
        trials: dict[int, Trial] = {}
        for number in range(3):
            trials[number] = begun(own, session, Path(folder))
            own.take_off(trials[number].state)
            own.put_on(session)
        own.take_off(session)
        left = {number: process() for number in trials}
        for number, changes in turns:
            trial = trials[number]
            own.put_on(trial.state)
            assert trial.sees() == left[number]
            for change in changes:
                trial.do(*change)
            left[number] = trial.sees()
            own.take_off(trial.state)


def test_a_new_trial_begins_with_what_the_session_has(tmp_path: Path) -> None:
    handler = LogCaptureHandler()
    own = made(handlers=(handler,))
    logging.root.addHandler(handler)
    try:
        with watched(own) as session:
            LOGGER.warning("of the session")
            at_first = process()
            trial = begun(own, session, tmp_path)
            assert process() == at_first
            assert (handler.records, handler in logging.root.handlers) == ([], False)
            own.take_off(trial.state)
        assert [record.getMessage() for record in handler.records] == ["of the session"]
    finally:
        logging.root.removeHandler(handler)


class Manager:
    """Captures as pytest's plugin does."""

    def __init__(self) -> None:
        self._global_capturing: Any = MultiCapture(in_=None, out=SysCapture(1), err=SysCapture(2))
        self._global_capturing.start_capturing()

    def resume_global_capture(self) -> None:
        self._global_capturing.resume_capturing()

    def suspend_global_capture(self) -> None:
        self._global_capturing.suspend_capturing()


@contextmanager
def capturing() -> Iterator[Manager]:
    before = sys.stdout, sys.stderr
    try:
        yield Manager()
    finally:
        sys.stdout, sys.stderr = before


def test_what_was_captured_goes_with_the_trial(tmp_path: Path) -> None:
    with capturing() as manager, watched(own := made(capture=manager)) as session:
        print("the session before")
        trial = begun(own, session, tmp_path)
        print("the trial before")
        own.take_off(trial.state)
        own.put_on(session)
        print("the session after")
        own.take_off(session)
        own.put_on(trial.state)
        print("the trial after")
        assert manager._global_capturing.readouterr().out == "the trial before\nthe trial after\n"
        manager.suspend_global_capture()  # as a test does by capsys.disabled
        own.take_off(trial.state)
        own.put_on(session)
        assert manager._global_capturing.is_started()
        assert (
            manager._global_capturing.readouterr().out == "the session before\nthe session after\n"
        )
        own.take_off(session)
        own.put_on(trial.state)
        assert not manager._global_capturing.is_started()
        own.take_off(trial.state)


def test_a_stream_that_a_trial_closed_leaves_no_other_part_undone(tmp_path: Path) -> None:
    with capturing() as manager, watched(own := made(capture=manager)) as session:
        at_first = process()
        trial = begun(own, session, tmp_path)
        trial.do("set a variable", NAMES[0], 1)
        sys.stdout.close()

        with pytest.raises(ValueError, match="closed"):
            own.take_off(trial.state)
        own.put_on(session)

        assert process() == at_first


def test_a_folder_that_became_a_file_leaves_no_other_part_undone(tmp_path: Path) -> None:
    own = made()
    with watched(own) as session:
        trial = begun(own, session, tmp_path)
        trial.do("change the folder", NAMES[0], 1)
        trial.do("set a variable", NAMES[0], 1)
        own.take_off(trial.state)
        own.put_on(session)
        (tmp_path / "1").rmdir()
        (tmp_path / "1").write_text("a file")
        own.take_off(session)

        with pytest.raises(NotADirectoryError):
            own.put_on(trial.state)

        assert (os.environ[NAMES[0]], folder_of_process()) == ("1", "none")
        own.take_off(trial.state)


@pytest.mark.parametrize("number", range(len(made().parts)))
@pytest.mark.parametrize("method", ["take_off", "put_on"])
def test_a_part_that_fails_leaves_no_other_undone(number: int, method: str, tmp_path: Path) -> None:
    own = made()
    done: list[Part[Any]] = []
    with watched(own) as session:
        trial = begun(own, session, tmp_path)
        own.take_off(trial.state)
        with pytest.MonkeyPatch.context() as patcher:
            for part in own.parts:
                plain = getattr(part, method)
                patcher.setattr(part, method, noting(part, plain, done))
            patcher.setattr(own.parts[number], method, failing)

            with pytest.raises(RuntimeError, match="this part fails"):
                getattr(own, method)(trial.state)

    assert set(done) == {*own.parts} - {own.parts[number]}


def noting(part: Part[Any], plain: Callable[..., Any], done: list[Part[Any]]) -> Callable[..., Any]:
    def noted(*args: Any) -> Any:
        done.append(part)
        return plain(*args)

    return noted


def failing(*_: object) -> None:
    raise RuntimeError("this part fails")


@pytest.mark.parametrize("action", [a for a in ACTIONS if a not in UNSEEN])
def test_a_change_that_others_would_see_is_told(action: str, tmp_path: Path) -> None:
    own = made()
    with watched(own) as session:
        trial = begun(own, session, tmp_path)
        assert own.is_as(session)

        trial.do(action, NAMES[0], 1)

        assert not own.is_as(session)
        own.take_off(trial.state)
