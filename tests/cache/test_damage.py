"""What becomes of a session whose cache is damaged, full, locked, read-only or gone."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import database as store_module
from pytest_llmeval.cache import disk
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.errors import CacheError, ReplayMiss
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, never, says

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]
Start = Callable[..., subprocess.Popen[str]]
ROWS = 40


def text(row: int) -> bytes:
    return random.Random(row).randbytes(3000)  # noqa: S311 - a test


def fill(replies: Replies) -> list[bytes]:
    return [answered(replies, KEY, Slot(row, 0), says(text(row))).body for row in range(ROWS)]


@pytest.fixture
def database(home: Path, make_replies: Make) -> Path:
    """A cache of some rows that nobody has open."""
    replies = make_replies(session="before")
    fill(replies)
    replies.close()
    return home / "cache" / "cache.db"


def cut_in_half(database: Path) -> None:
    os.truncate(database, database.stat().st_size // 2)


def overwrite_all_but_the_first_page(database: Path) -> None:
    size = database.stat().st_size
    database.write_bytes(database.read_bytes()[:4096] + random.Random(1).randbytes(size - 4096))  # noqa: S311 - a test


def zero(database: Path) -> None:
    database.write_bytes(b"\0" * database.stat().st_size)


def replace_by_words(database: Path) -> None:
    database.write_bytes(b"version https://git-lfs.github.com/spec/v1\n" * 30)


def plant_a_setting(database: Path) -> None:
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("INSERT INTO Settings VALUES ('get', 'no method')")


def plant_a_link(database: Path) -> None:
    (database.parent / "cache.db-wal").symlink_to("/nowhere")


def plant_a_pipe(database: Path) -> None:
    os.mkfifo(database.parent / "cache.db-journal")


def plant_tables(database: Path) -> None:
    database.unlink()
    with contextlib.closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE Settings (key TEXT NOT NULL, value)")
        connection.execute("CREATE TRIGGER t AFTER INSERT ON Settings BEGIN"
                           " INSERT INTO Settings VALUES (NEW.key, 1); END")  # fmt: skip


every_damage = pytest.mark.parametrize(
    "damage",
    [cut_in_half, overwrite_all_but_the_first_page, zero, replace_by_words, plant_a_setting,
     plant_a_link, plant_a_pipe, plant_tables],
)  # fmt: skip


def aside(home: Path) -> list[Path]:
    return sorted(home.glob("cache.damaged-*"))


# Damage


@every_damage
def test_a_session_on_a_damaged_cache_goes_on_with_a_new_one(
    damage: Callable[[Path], None], database: Path, make_replies: Make
) -> None:
    damage(database)
    assert fill(make_replies(session="after")) == [text(row) for row in range(ROWS)]
    for row in range(ROWS):
        answered(make_replies("replay"), KEY, Slot(row, 0), never)


@every_damage
def test_a_damaged_cache_is_set_aside_whole_with_one_warning(
    damage: Callable[[Path], None],
    database: Path,
    make_replies: Make,
    home: Path,
    warned: list[str],
) -> None:
    damage(database)
    before = {file.name: file.read_bytes() for file in database.parent.iterdir() if file.is_file()}
    fill(make_replies(session="after"))
    [folder] = aside(home)
    assert {file.name for file in folder.iterdir()} >= before.keys()
    [warning] = warned
    assert str(folder) in warning
    assert f"sqlite3 {folder / 'cache.db'} .recover" in warning


def test_what_is_set_aside_is_what_was_damaged(
    database: Path, make_replies: Make, home: Path
) -> None:
    replace_by_words(database)
    before = database.read_bytes()
    answered(make_replies(), KEY, SLOT, says("Lima"))
    [folder] = aside(home)
    assert (folder / "cache.db").read_bytes() == before


def test_an_empty_file_is_a_new_cache(
    database: Path, make_replies: Make, home: Path, warned: list[str]
) -> None:
    os.truncate(database, 0)
    fill(make_replies())
    assert (warned, aside(home)) == ([], [])


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_in_the_middle_never_become_a_reply(
    seed: int, database: Path, make_replies: Make
) -> None:
    chance = random.Random(seed)  # noqa: S311 - a test
    with database.open("r+b") as file:
        file.seek(chance.randrange(0, database.stat().st_size - 8192))
        file.write(chance.randbytes(8192))
    for _ in range(2):
        assert fill(make_replies()) == [text(row) for row in range(ROWS)]
    answered(make_replies("replay"), KEY, SLOT, never)


def test_damage_found_at_a_later_read_is_survived(
    database: Path, make_replies: Make, home: Path, warned: list[str]
) -> None:
    replies = make_replies(session="after")
    assert answered(replies, KEY, SLOT, never).body == text(0)
    overwrite_all_but_the_first_page(database)
    assert fill(replies) == [text(row) for row in range(ROWS)]
    assert len(warned) == len(aside(home)) == 1


def test_damage_found_at_a_later_write_is_survived(
    database: Path, make_replies: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_all = disk.SharedCache.add_all
    damage = [sqlite3.DatabaseError("database disk image is malformed")]

    def add_or_find_damage(self: disk.SharedCache, rows: list[tuple[str, bytes]]) -> object:
        if damage:
            raise damage.pop()
        return add_all(self, rows)

    monkeypatch.setattr(disk.SharedCache, "add_all", add_or_find_damage)
    paid = answered(make_replies(), KEY, Slot(0, 1), says("Lima"))
    assert answered(make_replies("replay"), KEY, Slot(0, 1), never).draw == paid.draw
    assert len(aside(home)) == 1


def test_a_replay_on_a_damaged_cache_is_a_miss(
    database: Path, make_replies: Make, warned: list[str]
) -> None:
    zero(database)
    with pytest.raises(ReplayMiss):
        answered(make_replies("replay"), KEY, SLOT, never)
    assert len(warned) == 1


def test_a_session_follows_a_cache_that_another_process_set_aside(
    database: Path, make_replies: Make, warned: list[str]
) -> None:
    first = make_replies(session="first")
    answered(first, KEY, SLOT, never)
    database.parent.rename(database.parent.with_name("cache.damaged-by-another"))
    paid = answered(first, KEY, SLOT, says("anew"))
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw
    assert warned == []


def test_a_cache_that_is_moved_away_in_the_middle_of_a_read_is_opened_anew(
    database: Path, make_replies: Make, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    below = disk.SharedCache.below
    folder = database.parent

    def move_and_fail(self: disk.SharedCache, *names: str) -> Any:
        monkeypatch.setattr(disk.SharedCache, "below", below)
        folder.rename(folder.with_name("elsewhere"))
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(disk.SharedCache, "below", move_and_fail)
    assert not answered(make_replies(), KEY, SLOT, says("anew")).replayed
    assert answered(make_replies("replay"), KEY, SLOT, never).body == b"anew"
    assert warned == []


def test_a_session_outlives_the_removal_of_its_cache(
    database: Path, make_replies: Make, home: Path
) -> None:
    replies = make_replies()
    answered(replies, KEY, SLOT, never)
    shutil.rmtree(home)
    paid = answered(replies, KEY, SLOT, says("anew"))
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw


def test_a_cache_that_vanishes_between_lookup_and_store_leaves_no_gap(
    database: Path, make_replies: Make, home: Path
) -> None:
    def call() -> StoredReply:
        shutil.rmtree(home)
        return paid_reply(b"anew")

    replies = make_replies("refresh", session="s2")
    paid = answered(replies, KEY, SLOT, call)
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw


def test_a_cache_that_vanishes_while_a_generation_is_sought_leaves_no_gap(
    database: Path, make_replies: Make, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_all = disk.SharedCache.add_all

    def add_and_vanish(self: disk.SharedCache, rows: list[tuple[str, bytes]]) -> list[bool]:
        are_new = add_all(self, rows)
        if not all(are_new):
            shutil.rmtree(home)
        return are_new

    monkeypatch.setattr(disk.SharedCache, "add_all", add_and_vanish)
    paid = answered(make_replies("refresh", session="s2"), KEY, SLOT, says("anew"))
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw


def test_damage_that_another_process_claimed_and_left_is_told_with_the_command_that_helps(
    database: Path,
    make_replies: Make,
    home: Path,
    warned: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(store_module, "PAUSE", 0)
    zero(database)
    inodes = database.parent.stat().st_ino, database.stat().st_ino
    (database.parent / f"set-aside-{inodes[0]}-{inodes[1]}").touch()
    assert answered(make_replies(), KEY, SLOT, says("Lima")).body == b"Lima"
    [warning] = warned
    assert f"mv {home / 'cache'} {home / 'cache.damaged'}" in warning
    assert aside(home) == []


def test_damage_that_cannot_be_renamed_is_told_with_the_command_that_helps(
    database: Path, make_replies: Make, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rename(self: Path, target: Path) -> None:
        raise PermissionError(13, "in use", str(self))

    monkeypatch.setattr(Path, "rename", rename)
    zero(database)
    replies = make_replies()
    for _ in range(2):
        assert answered(replies, KEY, SLOT, says("Lima")).body == b"Lima"
    [warning] = warned
    assert "in use" in warning
    assert "mv " in warning


# Locked


@pytest.fixture
def locked(database: Path, monkeypatch: pytest.MonkeyPatch) -> sqlite3.Connection:
    monkeypatch.setattr(disk, "TIMEOUT", 0.02)
    return sqlite3.connect(database, isolation_level=None)


def test_a_reply_that_a_lock_keeps_out_is_handed_over_with_one_warning(
    locked: sqlite3.Connection, make_replies: Make, warned: list[str]
) -> None:
    replies = make_replies()
    answered(replies, KEY, SLOT, never)
    with contextlib.closing(locked):
        locked.execute("BEGIN IMMEDIATE")
        for occurrence in (1, 2):
            paid = answered(replies, KEY, Slot(0, occurrence), says("Lima"))
            assert (paid.body, paid.replayed) == (b"Lima", False)
    [warning] = warned
    assert "another process has locked it" in warning


def test_a_lock_hinders_no_replay(locked: sqlite3.Connection, make_replies: Make) -> None:
    replies = make_replies("replay")
    answered(replies, KEY, SLOT, never)
    with contextlib.closing(locked):
        locked.execute("BEGIN IMMEDIATE")
        assert answered(replies, KEY, Slot(1, 0), never).body == text(1)


def test_replies_are_kept_again_when_the_lock_is_gone(
    locked: sqlite3.Connection, make_replies: Make
) -> None:
    replies = make_replies()
    answered(replies, KEY, SLOT, never)
    with contextlib.closing(locked):
        locked.execute("BEGIN IMMEDIATE")
        answered(replies, KEY, Slot(0, 1), says("lost"))
    assert answered(replies, KEY, Slot(0, 1), says("kept")).body == b"kept"
    assert answered(make_replies("replay"), KEY, Slot(0, 1), never).body == b"kept"


def test_a_store_that_is_interrupted_leaves_no_lock(
    make_replies: Make, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: disk.SharedCache, rows: object) -> None:
        self._con.execute("BEGIN IMMEDIATE")
        raise KeyboardInterrupt

    monkeypatch.setattr(disk.SharedCache, "add_all", interrupt)
    with pytest.raises(KeyboardInterrupt):
        answered(make_replies(), KEY, SLOT, says("lost"))
    sql("BEGIN IMMEDIATE")


# Full

FULL_DISK = """
import pathlib, resource, sys
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.errors import ReplayMiss
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
warned = []
replies = Replies(pathlib.Path(sys.argv[1]), mode="auto", session="s", warn=warned.append)
ask = lambda n: answered(replies, "key", Slot(n, 0), lambda: paid_reply(b"%d" % n)).body
assert ask(0) == b"0"
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (1, hard))
assert ask(1) == b"1" and ask(2) == b"2" and ask(0) == b"0"
assert len(warned) == 1, warned
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert ask(3) == b"3"
replies.close()
replies = Replies(pathlib.Path(sys.argv[1]), mode="replay", session="s", warn=print)
def is_stored(n):
    try:
        return answered(replies, "key", Slot(n, 0), None).replayed
    except ReplayMiss:
        return False
print([n for n in range(4) if is_stored(n)])
replies.close()
"""


def test_a_full_disk_costs_the_replies_that_did_not_fit_and_no_other(
    start: Start, home: Path
) -> None:
    process = start(FULL_DISK, home)
    assert process.communicate()[0].strip() == "[0, 3]"


FULL_BEFORE = """
import pathlib, resource, sys
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
def begin():
    return Replies(pathlib.Path(sys.argv[1]), mode="auto", session="s", warn=warned.append)
warned = []
replies = begin()
ask = lambda n: answered(replies, "key", Slot(n, 0), lambda: paid_reply(b"%d" % n))
ask(0)
replies.close()
resource.setrlimit(resource.RLIMIT_FSIZE, (1, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
replies = begin()
assert [ask(n).replayed for n in (0, 1, 0)] == [True, False, True]
[warning] = warned
assert "disk" in warning, warned
print("read")
"""


def test_what_is_stored_can_be_read_on_a_disk_that_is_full(start: Start, home: Path) -> None:
    process = start(FULL_BEFORE, home)
    assert process.communicate()[0].strip() == "read"


LEFT_IN_THE_LOG = """
import os, pathlib, resource, sys
from pytest_llmeval.cache.reply import paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
warned = []
replies = Replies(pathlib.Path(sys.argv[1]), mode="auto", session="s", warn=warned.append)
ask = lambda n: answered(replies, "key", Slot(n, 0), lambda: paid_reply(b"%d" % n)).replayed
if sys.argv[2] == "paid":
    [ask(n) for n in range(20)]
    os._exit(0)
# The log cannot grow. SQLite makes its index anew, which has 32 KB.
resource.setrlimit(resource.RLIMIT_FSIZE, (32768, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
assert [ask(n) for n in (0, 19, 20, 20)] == [True, True, False, False]
[warning] = warned
assert "malformed" not in warning, warning
assert "disk" in warning, warning
print("read")
"""


def test_what_a_session_left_in_the_log_can_be_read_on_a_disk_that_is_full(
    start: Start, home: Path
) -> None:
    start(LEFT_IN_THE_LOG, home, "paid").communicate()
    assert (home / "cache" / "cache.db-wal").stat().st_size > 32768

    process = start(LEFT_IN_THE_LOG, home, "asked again")

    assert process.communicate()[0].strip() == "read"


# Read-only


@pytest.fixture
def unwritable(database: Path) -> Path:
    """Say in the file's header that it is of a newer kind, to be read only (root cares, too)."""
    with database.open("r+b") as file:
        file.seek(18)
        file.write(b"\3")
    return database


@pytest.mark.parametrize("mode", ["auto", "replay", "refresh"])
def test_replies_in_a_read_only_cache_are_replayed(
    mode: str, unwritable: Path, make_replies: Make, warned: list[str]
) -> None:
    before = unwritable.read_bytes()
    replies = make_replies(mode, session="before")
    assert fill(replies) == [text(row) for row in range(ROWS)]
    assert warned == []
    assert unwritable.read_bytes() == before


def test_a_miss_in_a_read_only_cache_is_paid_for_with_one_warning(
    unwritable: Path, make_replies: Make, warned: list[str]
) -> None:
    replies = make_replies()
    for _ in range(2):
        assert not answered(replies, KEY, Slot(0, 1), says("Lima")).replayed
    [warning] = warned
    assert "readonly" in warning
    assert "--llm-dir" in warning


def test_a_miss_in_a_read_only_cache_is_a_replay_miss(unwritable: Path, make_replies: Make) -> None:
    with pytest.raises(ReplayMiss):
        answered(make_replies("replay"), KEY, Slot(0, 1), never)


def test_replies_in_a_read_only_directory_are_replayed(database: Path, make_replies: Make) -> None:
    database.parent.chmod(0o500)
    try:
        if os.access(database.parent, os.W_OK):
            pytest.skip("this user may write anywhere")
        assert answered(make_replies("replay"), KEY, SLOT, never).body == text(0)
    finally:
        database.parent.chmod(0o700)


# Not to be opened at all


def test_a_cache_that_cannot_be_opened_is_an_empty_one(
    home: Path, make_replies: Make, warned: list[str]
) -> None:
    home.touch()
    replies = make_replies()
    for _ in range(2):
        assert not answered(replies, KEY, SLOT, says("Lima")).replayed
    assert len(warned) == 1


def test_a_cache_that_cannot_be_opened_is_an_error_in_replay(
    home: Path, make_replies: Make
) -> None:
    (home / "cache" / "cache.db").mkdir(parents=True)
    replies = make_replies("replay")
    for _ in range(2):
        with pytest.raises(CacheError, match=r"cannot be used .*--llm-dir"):
            answered(replies, KEY, SLOT, never)


@pytest.fixture
def elsewhere(home: Path, tmp_path: Path) -> Path:
    """The cache of another project, to which a link leads."""
    other = Replies(tmp_path / "other", mode="auto", session="other", warn=print)
    answered(other, KEY, SLOT, says("theirs"))
    other.close()
    home.mkdir()
    (home / "cache").symlink_to(tmp_path / "other" / "cache")
    return tmp_path / "other" / "cache"


def test_a_cache_that_is_a_link_is_not_followed(
    home: Path, elsewhere: Path, make_replies: Make, warned: list[str]
) -> None:
    before = {file.name: file.read_bytes() for file in elsewhere.iterdir()}
    replies = make_replies()
    for occurrence in (0, 1):
        assert answered(replies, KEY, Slot(0, occurrence), says("ours")).body == b"ours"
    assert {file.name: file.read_bytes() for file in elsewhere.iterdir()} == before
    assert (home / "cache").is_symlink()
    [warning] = warned
    assert f"{home / 'cache'} is a symbolic link" in warning


def test_a_cache_that_is_a_link_is_an_error_in_replay(elsewhere: Path, make_replies: Make) -> None:
    with pytest.raises(CacheError, match=r"is a symbolic link.*--llm-dir"):
        answered(make_replies("replay"), KEY, SLOT, never)


def test_the_directory_as_a_whole_may_be_a_link(
    home: Path, elsewhere: Path, make_replies: Make
) -> None:
    (home / "cache").unlink()
    home.rmdir()
    home.symlink_to(elsewhere.parent)
    assert answered(make_replies("replay"), KEY, SLOT, never).body == b"theirs"


def test_an_opening_that_failed_is_tried_again_after_close(home: Path, make_replies: Make) -> None:
    home.touch()
    replies = make_replies()
    answered(replies, KEY, SLOT, says("lost"))
    replies.close()
    home.unlink()
    paid = answered(replies, KEY, SLOT, says("kept"))
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw


def test_an_opening_that_a_lock_prevents_is_not_repeated(
    database: Path, make_replies: Make, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def locked(folder: Path) -> None:
        tries.append(folder)
        error = sqlite3.OperationalError("database is locked")
        error.sqlite_errorcode = sqlite3.SQLITE_BUSY
        raise error

    monkeypatch.setattr(store_module, "open_cache", locked)
    replies = make_replies()
    for _ in range(3):
        answered(replies, KEY, SLOT, says("Lima"))
    assert len(tries) == len(warned) == 1
