"""The same draw, asked for at once: one pays, the others wait for the reply."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import process_locks
from pytest_llmeval.cache.process_locks import ProcessLocks
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.errors import CallAbandoned
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, locked, never, says, wanted

Make = Callable[..., Replies]
Start = Callable[..., subprocess.Popen[str]]

PATIENCE = 30.0  # seconds until a test that hangs fails


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as pool:
        yield pool


class Held:
    """A call that ends when the test wants it to, and counts how often it is made."""

    def __init__(self, outcome: bytes | BaseException) -> None:
        self.made = 0
        self.is_under_way = threading.Event()
        self._may_end = threading.Event()
        self._outcome = outcome

    def __call__(self) -> StoredReply:
        self.made += 1
        self.is_under_way.set()
        assert self._may_end.wait(PATIENCE)
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return paid_reply(self._outcome)

    def end(self) -> None:
        self._may_end.set()


def all_at_once(
    replies: Replies, pool: ThreadPoolExecutor, call: Held, *, followers: int = 4
) -> list[Future[StoredReply]]:
    """Have one thread make a call and others come meanwhile; then let it end."""
    first = pool.submit(replies.pay, wanted(KEY, call), SLOT)
    assert call.is_under_way.wait(PATIENCE)
    has_come = threading.Semaphore(0)

    class Flights(dict[str, Any]):
        def setdefault(self, name: str, flight: Any) -> Any:
            has_come.release()
            return super().setdefault(name, flight)

    replies._flights._flights = Flights(replies._flights._flights)
    others = [pool.submit(replies.pay, wanted(KEY, call), SLOT) for _ in range(followers)]
    assert all(has_come.acquire(timeout=PATIENCE) for _ in others)
    call.end()
    return [first, *others]


# Threads


def test_of_threads_that_ask_at_once_one_pays_and_the_others_replay(
    make_replies: Make, pool: ThreadPoolExecutor
) -> None:
    call = Held(b"Lima")
    asked = all_at_once(make_replies(), pool, call)
    first, *others = [future.result(PATIENCE) for future in asked]
    assert call.made == 1
    assert not first.replayed
    assert all(other.replayed for other in others)
    assert {other.draw for other in others} == {first.draw}


def test_who_waits_needs_no_cache_to_get_the_reply(
    make_replies: Make, pool: ThreadPoolExecutor, home: Path
) -> None:
    home.touch()
    call = Held(b"Lima")
    asked = all_at_once(make_replies(), pool, call)
    assert len({future.result(PATIENCE).draw for future in asked}) == call.made == 1


def test_a_lookup_that_came_too_early_is_made_up_for(make_replies: Make) -> None:
    early, other = make_replies(), make_replies()
    assert early.lookup(wanted(KEY), SLOT) is None
    paid = other.pay(wanted(KEY, says("Lima")), SLOT)
    late = early.pay(wanted(KEY, never), SLOT)
    assert (late.draw, late.replayed) == (paid.draw, True)


def test_who_missed_a_draw_that_another_thread_has_paid_for_since_replays_it(
    make_replies: Make,
) -> None:
    replies = make_replies()
    assert answered(replies, "cd" * 32, SLOT, says("Cuzco"))
    for _ in range(3):  # cases that ask the same
        assert replies.lookup(wanted(KEY), SLOT) is None
    paid = replies.pay(wanted(KEY, says("Lima")), SLOT)

    for _ in range(2):
        late = replies.pay(wanted(KEY, never), SLOT)
        assert (late.draw, late.replayed) == (paid.draw, True)


def test_who_waits_gets_the_failure_of_the_call(
    make_replies: Make, pool: ThreadPoolExecutor
) -> None:
    error = OSError("no network")
    call = Held(error)
    for future in all_at_once(make_replies(), pool, call):
        assert future.exception(PATIENCE) is error
    assert call.made == 1


def test_after_a_failure_the_call_is_made_anew(
    make_replies: Make, pool: ThreadPoolExecutor
) -> None:
    replies = make_replies()
    call = Held(OSError("no network"))
    for future in all_at_once(replies, pool, call):
        assert isinstance(future.exception(PATIENCE), OSError)
    assert not replies.pay(wanted(KEY, says("Lima")), SLOT).replayed


@pytest.mark.parametrize("ending", [KeyboardInterrupt(), CallAbandoned()], ids=repr)
def test_when_a_call_is_interrupted_one_of_those_who_wait_makes_it(
    make_replies: Make, pool: ThreadPoolExecutor, ending: BaseException
) -> None:
    replies = make_replies()
    interrupted, call = Held(ending), Held(b"Lima")
    first = pool.submit(replies.pay, wanted(KEY, interrupted), SLOT)
    assert interrupted.is_under_way.wait(PATIENCE)
    others = [pool.submit(replies.pay, wanted(KEY, call), SLOT) for _ in range(3)]
    call.end()
    interrupted.end()
    assert first.exception(PATIENCE) is ending
    assert {future.result(PATIENCE).body for future in others} == {b"Lima"}
    assert call.made == 1


@pytest.mark.parametrize(
    "other", [("cd" * 32, SLOT), (KEY, Slot(1, 0)), (KEY, Slot(0, 1))], ids=["key", "trial", "nth"]
)
def test_nobody_waits_for_another_draw(
    make_replies: Make, pool: ThreadPoolExecutor, other: tuple[str, Slot]
) -> None:
    replies = make_replies()
    call = Held(b"Lima")
    paying = pool.submit(replies.pay, wanted(KEY, call), SLOT)
    assert call.is_under_way.wait(PATIENCE)
    quito = pool.submit(replies.pay, wanted(other[0], says("Quito")), other[1])
    assert quito.result(PATIENCE).body == b"Quito"
    call.end()
    assert paying.result(PATIENCE).body == b"Lima"


def test_who_may_hold_a_loop_up_does_not_wait_for_a_call_on_it(
    make_replies: Make, pool: ThreadPoolExecutor
) -> None:
    replies = make_replies()
    call = Held(b"on the loop")
    paying = pool.submit(replies.pay, wanted(KEY, call, awaits=True), SLOT)
    assert call.is_under_way.wait(PATIENCE)
    blocking = pool.submit(replies.pay, wanted(KEY, says("in a thread")), SLOT).result(PATIENCE)
    call.end()
    assert paying.result(PATIENCE).draw == blocking.draw


def test_calls_that_are_not_kept_are_not_shared(
    make_replies: Make, pool: ThreadPoolExecutor
) -> None:
    call = Held(b"Lima")
    replies = make_replies("off")
    asked = [pool.submit(replies.pay, wanted(KEY, call), SLOT) for _ in range(5)]
    call.end()
    assert len({future.result(PATIENCE).draw for future in asked}) == call.made == 5


FORK = """
import os, pathlib, sys, threading
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import KeptRequest
from pytest_llmeval.records import Slot
replies = Replies(pathlib.Path(sys.argv[1]), mode="auto", session="s", warn=print)
def asked(call):
    return KeptRequest(key="key", perform=lambda _slot: call())
def status(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

# While a thread of the parent makes the call
may_end, is_under_way = threading.Event(), threading.Event()
def held():
    is_under_way.set()
    may_end.wait()
    return paid_reply(b"")
paying = threading.Thread(target=replies.pay, args=(asked(held), Slot(0, 0)))
paying.start()
is_under_way.wait()
child = os.fork()
if child == 0:
    replies._process_locks._is_usable = False  # the parent has locked the draw, and rightly so
    reply = replies.pay(asked(lambda: paid_reply(b"of the child")), Slot(0, 0))
    os._exit(reply.body != b"of the child")
assert status(child) == 0
may_end.set()
paying.join()

# In the middle of a call
parent = os.getpid()
replies.pay(asked(lambda: paid_reply(b"%d" % os.fork())), Slot(1, 0))
if os.getpid() != parent:
    os._exit(replies.pay(asked(lambda: paid_reply(b"later")), Slot(2, 0)).body != b"later")
assert status(-1) == 0
replies.close()
print("both")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_child_waits_for_no_call_of_its_parent(start: Start, home: Path) -> None:
    assert start(FORK, home).communicate(timeout=PATIENCE)[0].strip() == "both"


# Processes

# Asks for draws one by one, a little slowly or not before it is told to, and prints what it paid
# for and which it got.
ASKER = """
import json, pathlib, sys, time
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
home, mode, session, key, seconds, count = sys.argv[1:]
replies = Replies(pathlib.Path(home), mode=mode, session=session, warn=print)
sys.stdin.readline()
for trial in range(int(count)):
    def call():
        print("paid", trial, flush=True)
        while seconds == "told" and not pathlib.Path(home).with_name("told").exists():
            time.sleep(0.01)
        time.sleep(0 if seconds == "told" else float(seconds))
        return paid_reply(b"reply")
    print("got", trial, answered(replies, key, Slot(trial, 0), call).draw, flush=True)
replies.close()
"""


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


@pytest.mark.parametrize(("mode", "sessions"), [("auto", "abcd"), ("refresh", "aaaa")])
def test_of_processes_that_ask_at_once_one_pays(
    mode: str, sessions: str, start: Start, home: Path
) -> None:
    processes = [start(ASKER, home, mode, session, KEY, 0.01, 20) for session in sessions]
    for process in processes:
        tell(process)
    lines = [process.communicate()[0].splitlines() for process in processes]
    paid = sorted(line for output in lines for line in output if line.startswith("paid"))
    assert paid == sorted(f"paid {trial}" for trial in range(20))
    got = [[line for line in output if line.startswith("got")] for output in lines]
    assert all(each == got[0] for each in got)
    assert not (home / process_locks.FILE).exists()


def test_refreshing_sessions_do_not_wait_for_each_other(start: Start, home: Path) -> None:
    slow = start(ASKER, home, "refresh", "slow", KEY, 60, 1)
    tell(slow)
    assert slow.stdout is not None
    assert slow.stdout.readline() == "paid 0\n"
    quick = start(ASKER, home, "refresh", "quick", KEY, 0, 1)
    output, _ = quick.communicate("go\n", timeout=PATIENCE)
    assert output.startswith("paid 0\n")


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no such signal")
def test_who_waits_for_a_process_that_is_killed_pays(start: Start, home: Path) -> None:
    victim = start(ASKER, home, "auto", "a", KEY, 60, 1)
    tell(victim)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "paid 0\n"
    heir = start(ASKER, home, "auto", "b", KEY, 0, 1)
    tell(heir)
    with pytest.raises(subprocess.TimeoutExpired):
        heir.wait(0.5)  # it waits
    victim.kill()
    output, _ = heir.communicate(timeout=PATIENCE)
    assert output.startswith("paid 0\n")
    assert not (home / process_locks.FILE).exists()


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="there is no such signal")
def test_who_waits_for_a_process_that_is_stopped_pays_after_a_while_and_names_it(
    start: Start, home: Path, warned: list[str], make_replies: Callable[..., Replies]
) -> None:
    stopped = start(ASKER, home, "auto", "a", KEY, "told", 1)
    tell(stopped)
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == "paid 0\n"
    stopped.send_signal(signal.SIGSTOP)
    replies = make_replies(patience=0.5)
    mine = [answered(replies, KEY, SLOT, says("Lima")) for _ in range(2)]
    stopped.send_signal(signal.SIGCONT)
    home.with_name("told").touch()
    output, _ = stopped.communicate(timeout=PATIENCE)

    assert [reply.replayed for reply in mine] == [False, True]
    assert output == f"got 0 {mine[0].draw}\n"  # the first to be stored
    (line,) = warned
    assert line.startswith(f"process {stopped.pid} waits for a reply that did not come")
    assert "0.5 s (--llm-timeout)" in line


# ProcessLocks


def test_a_claim_outlives_the_removal_of_the_file(home: Path, start: Start) -> None:
    holder = ProcessLocks(home, patience=PATIENCE, warn=sys.exit)
    with locked(holder, "first"):
        (home / process_locks.FILE).unlink()
        with locked(holder, "second"):
            assert (home / process_locks.FILE).exists()
    holder.close()
    assert not (home / process_locks.FILE).exists()


def test_a_file_in_which_another_process_has_a_claim_is_left(home: Path, start: Start) -> None:
    other = start(ASKER, home, "auto", "a", KEY, 60, 1)
    tell(other)
    assert other.stdout is not None
    assert other.stdout.readline() == "paid 0\n"
    mine = ProcessLocks(home, patience=PATIENCE, warn=sys.exit)
    with locked(mine, "mine"):
        pass
    mine.close()
    assert (home / process_locks.FILE).exists()


def cannot_be_opened(patch: pytest.MonkeyPatch) -> None:
    class Refusing(process_locks.Files):
        @staticmethod
        def open(*_arguments: object) -> int:
            raise PermissionError(13, "read-only")

    patch.setattr(process_locks, "Files", Refusing)


def has_no_locks(patch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(95, "not supported")

    patch.setattr(process_locks.fcntl, "lockf", refuse)


def has_no_module(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(process_locks, "fcntl", None)


@pytest.mark.parametrize("trouble", [cannot_be_opened, has_no_module])
def test_where_nothing_can_be_claimed_calls_are_made_without_a_word(
    trouble: Callable[[pytest.MonkeyPatch], None],
    make_replies: Make,
    warned: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trouble(monkeypatch)
    replies = make_replies()
    assert not answered(replies, KEY, SLOT, says("Lima")).replayed
    assert answered(replies, KEY, SLOT, never).replayed
    replies.close()
    assert warned == []


def test_where_no_file_can_be_locked_calls_are_made_and_one_warning_is_given(
    make_replies: Make, home: Path, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_no_locks(monkeypatch)
    replies = make_replies()
    for _ in range(2):
        assert not answered(replies, KEY, SLOT, says("Lima")).replayed
    replies.close()

    (line,) = warned
    assert "no file can be locked in" in line
    with locked(ProcessLocks(home, patience=PATIENCE, warn=sys.exit), "draw"):
        pass


def test_a_link_is_not_followed(
    home: Path, make_replies: Make, tmp_path: Path, warned: list[str]
) -> None:
    home.mkdir()
    (home / process_locks.FILE).symlink_to(tmp_path / "victim")
    assert answered(make_replies(), KEY, SLOT, says("Lima")).body == b"Lima"
    assert not (tmp_path / "victim").exists()
    assert warned == []
