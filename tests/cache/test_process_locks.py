"""What a process does about claims when it cannot have one, seen from inside."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import locks
from pytest_llmeval.cache.locks import FILE, ProcessLocks


def test_where_the_system_has_no_such_locks_nothing_is_claimed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    spec = importlib.util.spec_from_file_location("claims_elsewhere", locks.__file__)
    assert spec is not None
    assert spec.loader is not None
    elsewhere: Any = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, elsewhere)  # as dataclasses want it
    spec.loader.exec_module(elsewhere)

    with elsewhere.ProcessLocks(tmp_path, patience=1, warn=print).locked("draw"):
        assert not (tmp_path / FILE).exists()


def make_locks(directory: Path) -> ProcessLocks:
    return ProcessLocks(directory, patience=30, warn=sys.exit)


def test_what_another_process_claims_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lockf, refusals = locks.fcntl.lockf, [BlockingIOError(), PermissionError()]

    def refuse_twice(*arguments: Any) -> None:
        if refusals:
            raise refusals.pop()
        lockf(*arguments)

    monkeypatch.setattr(locks.fcntl, "lockf", refuse_twice)
    own = make_locks(tmp_path)

    with own.locked("draw"):
        assert refusals == []
    own.close()


@pytest.mark.parametrize("unknown", ["to this system", "to us"])
def test_who_has_waited_too_long_for_somebody_unknown_goes_on_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unknown: str
) -> None:
    def refuse(*_arguments: Any) -> None:
        raise BlockingIOError

    warned: list[str] = []
    monkeypatch.setattr(locks.fcntl, "lockf", refuse)
    if unknown == "to us":
        monkeypatch.setattr(locks.sys, "platform", "elsewhere")
    own = ProcessLocks(tmp_path, patience=0.01, warn=warned.append)

    with own.locked("draw"):
        pass
    own.close()

    assert [line.partition(" has")[0] for line in warned] == ["another process"]


def test_a_file_that_another_thread_has_opened_or_replaced_is_not_opened_again(
    tmp_path: Path,
) -> None:
    own = make_locks(tmp_path)
    with own.locked("draw"):
        before = own._descriptor
        own._retire(-1)
        own._open_first()
        assert own._descriptor == before
    own.close()
