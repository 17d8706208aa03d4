from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import SimpleNamespace

import pytest

from pytest_llmeval.cache import disk as disk_module
from pytest_llmeval.cache.disk import GroupCommit, Outcome
from pytest_llmeval.cache.reply import NewRow

PATIENCE = 10.0  # seconds until a test that hangs fails


class Disk:
    """Rows that were committed, by batch; the first commit is held up."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.is_busy = threading.Event()
        self.go_on = threading.Event()
        self.meanwhile: Callable[[], object] = lambda: None

    def commit(self, rows: Sequence[NewRow]) -> Sequence[Outcome]:
        if not self.is_busy.is_set():
            self.is_busy.set()
            assert self.go_on.wait(PATIENCE)
        else:
            self.meanwhile()
        self.batches.append([name for name, _ in rows])
        return [self._outcome(name) for name, _ in rows]

    def _outcome(self, name: str) -> Outcome:
        return KeyError(name) if name == "refused" else name != "taken"


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def commits(disk: Disk) -> GroupCommit:
    return GroupCommit(disk.commit)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as pool:
        yield pool


def while_busy(
    disk: Disk, commits: GroupCommit, pool: ThreadPoolExecutor, names: Sequence[str]
) -> list[Future[bool]]:
    """Add rows of these names while the row ``first`` is being committed, then let it go on."""
    first = pool.submit(commits.add, "first", b"")
    assert disk.is_busy.wait(PATIENCE)
    others = [pool.submit(commits.add, name, b"") for name in names]
    until(lambda: len(commits._open.rows) >= len(names))
    assert not any(future.done() for future in (first, *others))
    disk.go_on.set()
    assert first.result(PATIENCE)
    return others


def test_rows_that_come_during_a_commit_are_committed_together(
    disk: Disk, commits: GroupCommit, pool: ThreadPoolExecutor
) -> None:
    names = [f"row {number}" for number in range(63)]
    others = while_busy(disk, commits, pool, names)
    assert all(future.result(PATIENCE) for future in others)
    assert [sorted(batch) for batch in disk.batches] == [["first"], sorted(names)]


def test_each_row_has_an_outcome_of_its_own(
    disk: Disk, commits: GroupCommit, pool: ThreadPoolExecutor
) -> None:
    new, taken, refused = while_busy(disk, commits, pool, ["new", "taken", "refused"])
    assert new.result(PATIENCE) is True
    assert taken.result(PATIENCE) is False
    with pytest.raises(KeyError, match="refused"):
        refused.result(PATIENCE)


def test_a_commit_that_fails_fails_for_every_row_in_it(
    disk: Disk, commits: GroupCommit, pool: ThreadPoolExecutor
) -> None:
    def fail() -> None:
        raise OSError("disk full")

    disk.meanwhile = fail
    for future in while_busy(disk, commits, pool, ["a", "b", "c"]):
        with pytest.raises(OSError, match="disk full"):
            future.result(PATIENCE)
    disk.meanwhile = lambda: None
    assert commits.add("later", b"")
    assert disk.batches == [["first"], ["later"]]


def test_an_interrupt_costs_no_other_thread_its_row(
    disk: Disk, commits: GroupCommit, pool: ThreadPoolExecutor
) -> None:
    interrupts = [KeyboardInterrupt()]

    def interrupt() -> None:
        if interrupts:
            raise interrupts.pop()

    disk.meanwhile = interrupt
    others = while_busy(disk, commits, pool, ["a", "b", "c"])
    errors = [future.exception(PATIENCE) for future in others]
    assert sorted(type(error).__name__ for error in errors) == [
        "KeyboardInterrupt", "NoneType", "NoneType",
    ]  # fmt: skip
    assert [sorted(batch) for batch in disk.batches] == [["first"], ["a", "b", "c"]]


class InterruptedLock:
    """A lock at which Ctrl-C finds the thread that waits: before it is woken, or just then."""

    def __init__(self, *, is_woken: bool) -> None:
        self._lock = threading.Lock()
        self._is_woken = is_woken

    def acquire(self) -> None:
        if self._lock.acquire(blocking=False):
            return  # it is being made
        if self._is_woken:
            self._lock.acquire()
        raise KeyboardInterrupt

    def release(self) -> None:
        self._lock.release()


@pytest.mark.parametrize("at", [(False, []), (True, []), (True, ["ahead"])], ids=str)
def test_who_is_interrupted_while_waiting_holds_nobody_up(
    disk: Disk,
    commits: GroupCommit,
    pool: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    at: tuple[bool, list[str]],
) -> None:
    is_woken, ahead = at
    first = pool.submit(commits.add, "first", b"")
    assert disk.is_busy.wait(PATIENCE)
    for name in ahead:
        pool.submit(commits.add, name, b"")
    until(lambda: len(commits._open.waiting) == len(ahead))
    with monkeypatch.context() as patch:
        lock = partial(InterruptedLock, is_woken=is_woken)
        patch.setattr(disk_module, "threading", SimpleNamespace(Lock=lock))
        interrupted = pool.submit(commits.add, "interrupted", b"")
        until(lambda: len(commits._open.waiting) > len(ahead) if is_woken else interrupted.done())
    second = pool.submit(commits.add, "second", b"")
    until(lambda: len(commits._open.rows) == 2 + len(ahead))
    disk.go_on.set()

    assert isinstance(interrupted.exception(PATIENCE), KeyboardInterrupt)
    assert first.result(PATIENCE) is True
    assert second.result(PATIENCE) is True
    assert commits.add("third", b"")
    assert disk.batches == [["first"], [*ahead, "interrupted", "second"], ["third"]]


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.001)
