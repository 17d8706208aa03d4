"""Many threads on one cache: all that is acknowledged is there, and lookups never wait."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pytest_llmeval.cache import disk
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.disk import Outcome
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import NewRow
from pytest_llmeval.errors import CacheError
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, never, says, wanted

Make = Callable[..., Replies]
Start = Callable[..., subprocess.Popen[str]]

THREADS = 64
PATIENCE = 30.0  # seconds until a test that hangs fails


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(THREADS) as pool:
        yield pool


@pytest.fixture
def store(home: Path, warned: list[str]) -> Iterator[Store]:
    with contextlib.closing(Store(home, warn=warned.append)) as store:
        yield store


def test_threads_that_add_other_names_all_add_them(
    store: Store, pool: ThreadPoolExecutor, home: Path
) -> None:
    names = [f"name {number}" for number in range(5 * THREADS)]
    assert all(pool.map(lambda name: store.add(name, name.encode()), names))
    with contextlib.closing(Store(home, warn=pytest.fail)) as other:
        assert other.find(*names) == [name.encode() for name in names]


def test_of_threads_that_add_one_name_one_does(
    store: Store, pool: ThreadPoolExecutor, home: Path
) -> None:
    for name in ("a", "b", "c"):
        barrier = threading.Barrier(THREADS)

        def add(thread: int, name: str = name, barrier: threading.Barrier = barrier) -> bool:
            barrier.wait(PATIENCE)
            return store.add(name, b"%d" % thread)

        added = list(pool.map(add, range(THREADS)))
        assert added.count(True) == 1
        assert store.find(name) == [b"%d" % added.index(True)]


def test_damage_that_many_threads_meet_is_set_aside_once_and_costs_no_row(
    store: Store, pool: ThreadPoolExecutor, home: Path, warned: list[str]
) -> None:
    (home / "cache").mkdir(parents=True)
    (home / "cache" / "cache.db").write_bytes(b"no database" * 1000)
    names = [f"name {number}" for number in range(THREADS)]
    assert all(pool.map(lambda name: store.add(name, b""), names))
    assert len(warned) == len(list(home.glob("cache.damaged-*"))) == 1
    assert store.find(*names) == [b""] * THREADS


def test_a_cache_that_cannot_be_used_is_told_to_every_thread(
    store: Store, pool: ThreadPoolExecutor, home: Path
) -> None:
    home.touch()
    futures = [pool.submit(store.add, f"name {number}", b"") for number in range(THREADS)]
    for future in futures:
        with pytest.raises(CacheError, match="cannot be used"):
            future.result(PATIENCE)


# The threads print what was acknowledged; a lock keeps their lines whole.
WRITER = """
import itertools, pathlib, sys, threading
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import KeptRequest
from pytest_llmeval.records import Slot
replies = Replies(pathlib.Path(sys.argv[1]), mode="auto", session="s", warn=print)
trials, printing = itertools.count(), threading.Lock()
def write():
    while True:
        trial = next(trials)
        asked = KeptRequest(key=sys.argv[2], perform=lambda _slot: paid_reply(b"x" * trial))
        reply = replies.pay(asked, Slot(trial, 0))
        with printing:
            print(trial, reply.draw, flush=True)
for _ in range(16):
    threading.Thread(target=write).start()
"""


def test_a_killed_process_loses_no_reply_that_one_of_its_threads_was_handed(
    start: Start, home: Path, make_replies: Make
) -> None:
    process = start(WRITER, home, KEY)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(200)]
    process.send_signal(signal.SIGKILL)
    lines += [line for line in process.stdout if line.endswith("\n")]
    replies = make_replies("replay")
    for line in lines:
        trial, draw = line.split()
        assert answered(replies, KEY, Slot(int(trial), 0), never).draw == draw


def test_a_lookup_does_not_wait_for_a_commit(
    make_replies: Make, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies = make_replies()
    paid = replies.pay(wanted(KEY, says("Lima")), SLOT)
    is_committing, go_on = threading.Event(), threading.Event()
    add_all = disk.SharedCache.add_all

    def add_slowly(self: disk.SharedCache, rows: Sequence[NewRow]) -> Sequence[Outcome]:
        with self.transact():
            outcomes: Sequence[Outcome] = add_all(self, rows)
            is_committing.set()
            assert go_on.wait(PATIENCE)
        return outcomes

    monkeypatch.setattr(disk.SharedCache, "add_all", add_slowly)
    paying = pool.submit(replies.pay, wanted(KEY, says("Quito")), Slot(1, 0))
    assert is_committing.wait(PATIENCE)
    try:
        hit = pool.submit(replies.lookup, wanted(KEY), SLOT).result(PATIENCE / 3)
        miss = pool.submit(replies.lookup, wanted(KEY), Slot(1, 0)).result(PATIENCE / 3)
        assert not paying.done()
    finally:
        go_on.set()
    assert hit is not None
    assert hit.draw == paid.draw
    assert miss is None
    later = paying.result(PATIENCE)
    assert answered(replies, KEY, Slot(1, 0), never).draw == later.draw
