"""Several processes on one directory."""

from __future__ import annotations

import gc
import json
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pytest_llmeval.cache import database, locks
from pytest_llmeval.cache.disk import SharedCache, open_cache
from pytest_llmeval.cache.queries import ReadConnections
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import decode
from pytest_llmeval.cli import main
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, answered, never, says

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]
Start = Callable[..., subprocess.Popen[str]]

# Asks for slots when it is told to, and prints what it got, what it paid for and was warned of.
ASKER = """
import json, os, pathlib, sys
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
home, mode, session, key, first, last = sys.argv[1:]
paid, warned = [], []
def call():
    paid.append(f"{os.getpid()} {len(paid)}")
    return paid_reply(paid[-1].encode())
replies = Replies(pathlib.Path(home), mode=mode, session=session, warn=warned.append)
sys.stdin.readline()
draws = {}
for trial in range(int(first), int(last)):
    reply = answered(replies, key, Slot(trial, 0), call)
    draws[trial] = reply.draw
replies.close()
print(json.dumps({"draws": draws, "paid": paid, "warned": warned}))
"""


def together(processes: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    """Let all go at once, and gather what they print."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [json.loads(process.communicate()[0]) for process in processes]


@pytest.mark.parametrize(("mode", "sessions"), [("auto", "abcd"), ("refresh", "aaaa")])
def test_four_processes_lose_no_reply_and_agree_on_every_draw(
    mode: str, sessions: str, start: Start, home: Path, sql: Sql
) -> None:
    results = together([start(ASKER, home, mode, session, KEY, 0, 60) for session in sessions])
    assert all(result["draws"] == results[0]["draws"] for result in results)
    rows = {name: decode(value) for name, value in sql("SELECT key, value FROM Cache")}
    assert sorted(name for name in rows if "spare" not in name) == sorted(
        f"{KEY}/{trial}/0/0" for trial in range(60)
    )
    paid = Counter(body for result in results for body in result["paid"])
    assert Counter(row.body.decode() for row in rows.values()) == paid
    assert max(paid.values()) == 1
    assert all(result["warned"] == [] for result in results)


def test_processes_that_find_the_damage_at_once_set_it_aside_once(
    start: Start, home: Path, make_replies: Make
) -> None:
    for attempt in range(3):
        (home / "cache").mkdir(parents=True, exist_ok=True)
        for file in (home / "cache").iterdir():
            file.unlink()
        (home / "cache" / "cache.db").write_bytes(b"no database" * 1000)
        starts = [start(ASKER, home, "auto", "s", KEY, 20 * n, 20 * n + 20) for n in range(4)]
        results = together(starts)
        assert len(list(home.glob("cache.damaged-*"))) == attempt + 1
        assert sum(len(result["warned"]) for result in results) == 1
        replies = make_replies("replay")
        for result in results:
            for trial, draw in result["draws"].items():
                assert answered(replies, KEY, Slot(int(trial), 0), never).draw == draw
        replies.close()


WRITER = """
import pathlib, sys
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
replies = Replies(pathlib.Path(sys.argv[1]), mode="auto", session=sys.argv[3], warn=print)
for trial in range(10**6):
    reply = answered(replies, sys.argv[2], Slot(trial, 0), lambda: paid_reply(b"x" * trial))
    print(trial, reply.draw, flush=True)
"""


def test_a_killed_writer_loses_no_acknowledged_reply(
    start: Start, home: Path, make_replies: Make
) -> None:
    for number in range(3):
        key = f"{number}" * 64
        process = start(WRITER, home, key, f"s{number}")
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(100 + 37 * number)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        replies = make_replies("replay")
        for line in lines:
            if not line.endswith("\n"):  # the kill cut the last one
                continue
            trial, draw = line.split()
            assert answered(replies, key, Slot(int(trial), 0), never).draw == draw
        replies.close()


# Buys in four threads, each three times after all has been cleared for the last time; says of each
# reply whether it was one of these.
BUYER = """
import pathlib, sys
from concurrent.futures import ThreadPoolExecutor
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
home, key, first = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
replies = Replies(home, mode="auto", session=f"s{first}", warn=lambda text: print("!", text))
def buy(thread):
    left = 3
    for trial in range(first + thread, 10**6, 16):
        is_last = (home.parent / "cleared").exists()
        draw = answered(replies, key, Slot(trial, 0), lambda: paid_reply(b"x" * 2000)).draw
        sys.stdout.write(f"{int(is_last)} {trial} {draw}\\n")
        sys.stdout.flush()
        left -= is_last
        if not left:
            break
with ThreadPoolExecutor(4) as pool:
    list(pool.map(buy, range(4)))
replies.close()
"""


def wait_until(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


def test_what_sessions_buy_while_all_is_cleared_is_kept_without_an_error(
    start: Start, home: Path, make_replies: Make
) -> None:
    answered(make_replies(), "first", Slot(0, 0), says("x"))
    buyers = [start(BUYER, home, KEY, first) for first in (0, 4, 8, 12)]
    lines: list[str] = []
    with ThreadPoolExecutor(len(buyers)) as pool:
        readers = [pool.submit(lines.extend, buyer.stdout or ()) for buyer in buyers]
        try:
            for times in range(12):
                wait_until(lambda times=times: len(lines) >= 16 * (times + 1))
                result = CliRunner().invoke(main, ["cache", "clear", "--yes", f"--dir={home}"])
                assert result.exit_code == 0, result.output
        finally:
            (home.parent / "cleared").touch()
        for reader in readers:
            reader.result()

    assert [line for line in lines if line.startswith("!")] == []
    bought = [line.split() for line in lines]
    last = [(int(trial), draw) for is_last, trial, draw in bought if is_last == "1"]
    assert len(bought) > len(last) == 4 * 4 * 3
    replies = make_replies("replay")
    for trial, draw in last:
        assert answered(replies, KEY, Slot(trial, 0), never).draw == draw


FORK = """
import os, pathlib, sys
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
replies = Replies(pathlib.Path(sys.argv[1]), mode="auto", session="s", warn=print)
ask = lambda trial: answered(replies, "key", Slot(trial, 0), lambda: paid_reply(b"")).draw
before = ask(0)
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    try:
        os.write(writer, f"{ask(0)} {ask(1)}".encode())
        replies.close()
    finally:
        os._exit(0)
os.waitpid(child, 0)
same, new = os.read(reader, 1000).decode().split()
assert same == before and ask(1) == new and ask(2)
replies.close()
print("both")
"""


def test_a_forked_child_and_its_parent_share_the_cache(start: Start, home: Path) -> None:
    assert start(FORK, home).communicate()[0].strip() == "both"


def test_a_forked_child_leaves_the_connections_of_its_parent_alone(
    make_replies: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[SharedCache] = []
    reading: list[ReadConnections] = []
    in_child: list[Callable[[], None]] = []

    def open_and_remember(folder: Path) -> SharedCache:
        opened.append(open_cache(folder))
        return opened[-1]

    def read_and_remember(*arguments: Any) -> ReadConnections:
        reading.append(ReadConnections(*arguments))
        return reading[-1]

    monkeypatch.setattr(database, "open_cache", open_and_remember)
    monkeypatch.setattr(database.queries, "ReadConnections", read_and_remember)
    monkeypatch.setattr(database, "call_in_forked_children", in_child.append)
    replies = make_replies()
    paid = answered(replies, KEY, Slot(0, 0), says("Lima"))
    parent = opened[0]._con
    in_child[0]()
    assert answered(replies, KEY, Slot(0, 0), never).draw == paid.draw
    assert opened[1]._con is not parent
    assert opened[0]._con is parent
    assert parent.execute("SELECT 1").fetchall() == [(1,)]
    assert len(reading) == 2
    replies.close()
    assert reading[0].find("other") == [None]
    reading[0].close()
    opened[0].close()


FORK_WITHIN = """
import os, pathlib, sys, threading, time
from pytest_llmeval.cache.queries import RowChanges
from pytest_llmeval.cache.database import Store
store = Store(pathlib.Path(sys.argv[1]), warn=print)
store.add("name", b"value")
begun = threading.Event()
def plan(rows):
    begun.set()
    time.sleep(0.5)
    return RowChanges()
writer = threading.Thread(target=store.rewrite, args=(plan,))
writer.start()
begun.wait()
child = os.fork()
if child == 0:
    try:
        store.add("other", b"value")  # fails after a minute where it finds such a lock
        os._exit(0)
    finally:
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
writer.join()
print(store.find("other")[0].decode())
store.close()
"""


def test_a_child_that_is_forked_while_a_thread_writes_finds_no_lock_that_nobody_gives_back(
    start: Start, home: Path
) -> None:
    assert start(FORK_WITHIN, home).communicate()[0].strip() == "value"


@pytest.fixture
def at_fork(monkeypatch: pytest.MonkeyPatch) -> dict[str, Callable[[], None]]:
    """What is registered to be called at a fork, by the name of the moment."""
    called: dict[str, Callable[[], None]] = {}
    monkeypatch.setattr(locks, "_register", lambda **hooks: called.update(hooks))
    return called


def test_nobody_takes_a_lock_that_a_fork_awaits_while_the_process_forks(
    at_fork: dict[str, Callable[[], None]],
) -> None:
    lock = locks.lock_awaited_by_forks()
    order: list[str] = []

    def take() -> None:
        with lock:
            order.append("taken")

    thread = threading.Thread(target=take)
    at_fork["before"]()
    thread.start()
    thread.join(0.1)
    order.append("forked")
    at_fork["after_in_parent"]()
    thread.join()
    assert order == ["forked", "taken"]


def test_a_lock_that_was_made_after_the_fork_had_begun_is_not_given_back(
    at_fork: dict[str, Callable[[], None]],
) -> None:
    lock = locks.lock_awaited_by_forks()
    at_fork["after_in_child"]()
    with lock:
        at_fork["after_in_parent"]()


def test_a_forked_child_calls_no_method_of_an_object_that_is_gone(
    at_fork: dict[str, Callable[[], None]],
) -> None:
    class Counter:
        calls = 0

        def count(self) -> None:
            Counter.calls += 1

    counter = Counter()
    locks.call_in_forked_children(counter.count)
    at_fork["after_in_child"]()
    del counter
    at_fork["after_in_child"]()
    assert Counter.calls == 1


FORK_WHILE_HELD = """
import os, threading
from pytest_llmeval.cache.locks import fork_safe_lock
held, free, gone = fork_safe_lock(), fork_safe_lock(), fork_safe_lock()
del gone
thread = threading.Thread(target=held.acquire)
thread.start()
thread.join()
child = os.fork()
if child == 0:
    os._exit(held.acquire(timeout=300) + 2 * free.acquire(timeout=300))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), held.locked(), free.locked())
"""


def test_a_lock_that_a_thread_of_the_parent_held_is_free_in_a_forked_child(start: Start) -> None:
    assert start(FORK_WHILE_HELD).communicate(timeout=300)[0].strip() == "3 True False"


def test_the_locks_of_a_forked_child_are_given_back_if_they_are_held() -> None:
    held, free = locks.fork_safe_lock(), locks.fork_safe_lock()
    held.acquire()
    locks._free_locks()
    assert (held.locked(), free.locked()) == (False, False)


def test_a_lock_that_nobody_uses_any_more_is_forgotten() -> None:
    before = len(locks._freed_in_children)
    for _ in range(100):
        locks.fork_safe_lock()
    gc.collect()
    assert len(locks._freed_in_children) <= before
