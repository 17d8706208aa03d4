from __future__ import annotations

import os
import secrets
import subprocess
import sys
import threading
import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import StoredReply, decode, paid_reply
from pytest_llmeval.errors import CacheError, ReplayMiss
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, never, says, wanted

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]
OTHER = "cd" * 32


def names(sql: Sql) -> list[str]:
    return [name for (name,) in sql("SELECT key FROM Cache ORDER BY rowid")]


# The two halves


def test_a_lookup_finds_what_was_paid_for_and_nothing_else(make_replies: Make) -> None:
    replies = make_replies()
    assert replies.lookup(wanted(KEY), SLOT) is None
    paid = replies.pay(wanted(KEY, says("Lima")), SLOT)
    found = replies.lookup(wanted(KEY), SLOT)
    assert found is not None
    assert (found.draw, found.replayed, paid.replayed) == (paid.draw, True, False)


def test_a_lookup_that_finds_nothing_is_a_replay_miss(make_replies: Make) -> None:
    with pytest.raises(ReplayMiss, match="--llm-cache=auto"):
        make_replies("replay").lookup(wanted(KEY), SLOT)


def test_a_miss_says_that_an_earlier_version_stored_what_is_no_answer(make_replies: Make) -> None:
    answered(make_replies(), KEY, SLOT, says("Lima"))

    with pytest.raises(ReplayMiss, match="an earlier version stored there is no answer of a model"):
        make_replies("replay").lookup(wanted(KEY, accepts=lambda _stored: False), SLOT)


@pytest.mark.parametrize(
    ("mode", "only_replays"),
    [("auto", False), ("refresh", False), ("off", False), ("replay", True)],
)
def test_mode_replay_alone_pays_for_nothing(
    make_replies: Make, mode: str, only_replays: bool
) -> None:
    assert make_replies(mode).only_replays is only_replays


# Mode auto


def test_a_miss_is_paid_for_and_a_hit_is_replayed(make_replies: Make) -> None:
    replies = make_replies()
    paid = answered(replies, KEY, SLOT, says("Lima", facts={"model": "m", "seconds": 0.5}))
    replay = answered(replies, KEY, SLOT, never)
    assert not paid.replayed
    assert replay.replayed
    assert (replay.draw, replay.sha256, replay.body, replay.facts) == (
        paid.draw, paid.sha256, b"Lima", {"model": "m", "seconds": 0.5},
    )  # fmt: skip


def test_a_reply_outlives_its_session(make_replies: Make) -> None:
    first = make_replies(session="yesterday")
    paid = answered(first, KEY, SLOT, says("Lima"))
    first.close()
    assert answered(make_replies(session="today"), KEY, SLOT, never).draw == paid.draw


def test_a_reply_is_on_disk_before_it_is_handed_over(make_replies: Make) -> None:
    paid = answered(make_replies(), KEY, SLOT, says("Lima"))
    assert answered(make_replies(), KEY, SLOT, never).draw == paid.draw


@pytest.mark.parametrize(
    ("key", "slot"), [(OTHER, SLOT), (KEY, Slot(1, 0)), (KEY, Slot(0, 1)), (KEY, Slot(None, 0))]
)
def test_another_key_or_slot_is_another_draw(make_replies: Make, key: str, slot: Slot) -> None:
    replies = make_replies()
    first = answered(replies, KEY, SLOT, says("Lima"))
    other = answered(replies, key, slot, says("Lima"))
    assert not other.replayed
    assert other.draw != first.draw


@pytest.mark.parametrize(
    "body",
    [b"", b"\n", b'\n\n{"a": 1}\r\n', b"\0" * 5000, bytes(range(256)), secrets.token_bytes(2**21)],
    ids=["empty", "newline", "newlines", "zeros", "every-byte", "2-MiB"],
)
def test_a_body_comes_back_byte_for_byte(make_replies: Make, body: bytes) -> None:
    answered(make_replies(), KEY, SLOT, says(body))
    assert answered(make_replies(), KEY, SLOT, never).body == body


def test_an_exception_of_the_call_passes_and_nothing_is_stored(make_replies: Make) -> None:
    error = TimeoutError("no reply")

    def fail() -> StoredReply:
        raise error

    replies = make_replies()
    with pytest.raises(TimeoutError) as caught:
        answered(replies, KEY, SLOT, fail)
    assert caught.value is error
    assert not answered(replies, KEY, SLOT, says("Lima")).replayed


@pytest.mark.parametrize("status", [199, 301, 429, 500])
def test_an_answer_that_is_no_success_is_refused(make_replies: Make, status: int) -> None:
    replies = make_replies()
    with pytest.raises(ValueError, match=f"not one of {status}"):
        answered(replies, KEY, SLOT, says("sorry", status=status))
    assert not answered(replies, KEY, SLOT, says("Lima", status=299)).replayed


def test_secrets_in_headers_are_never_written(make_replies: Make, home: Path, sql: Sql) -> None:
    headers = {"set-cookie": "hunter2", "x-api-key": "hunter2", "content-type": "text/plain"}
    replies = make_replies()
    paid = answered(replies, KEY, SLOT, says("Lima", headers=headers))
    replies.close()
    [(value,)] = sql("SELECT value FROM Cache")
    assert paid.headers == {"content-type": "text/plain"}
    assert b"hunter2" not in zlib.decompress(value)
    assert b"hunter2" not in (home / "cache" / "cache.db").read_bytes()


def test_rows_never_expire_and_lie_in_the_database(make_replies: Make, sql: Sql) -> None:
    answered(make_replies(), KEY, Slot(None, 3), says("Lima"))
    rows = sql("SELECT key, raw, mode, filename, expire_time, tag FROM Cache")
    assert rows == [(f"{KEY}/shared/3/0", 1, 1, None, None, None)]


# Mode replay


def test_replay_makes_no_call(make_replies: Make) -> None:
    paid = answered(make_replies(), KEY, SLOT, says("Lima"))
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw


def test_a_miss_in_replay_says_what_was_looked_for_and_what_to_type(
    make_replies: Make, home: Path
) -> None:
    with pytest.raises(ReplayMiss) as caught:
        answered(make_replies("replay"), KEY, Slot(3, 1), never)
    for part in ("call 3/1", KEY[:12], str(home), "pytest --llm-cache=auto"):
        assert part in str(caught.value)


# Mode refresh


def test_refresh_adds_a_generation_and_changes_none(make_replies: Make, sql: Sql) -> None:
    old = answered(make_replies(session="s1"), KEY, SLOT, says("Lima"))
    before = sql("SELECT * FROM Cache")
    new = answered(make_replies("refresh", session="s2"), KEY, SLOT, says("Lima"))
    assert not new.replayed
    assert new.draw != old.draw
    assert names(sql) == [f"{KEY}/0/0/0", f"{KEY}/0/0/1"]
    assert sql("SELECT * FROM Cache LIMIT 1") == before


def test_lookups_take_the_newest_generation(make_replies: Make) -> None:
    for day in range(4):
        newest = answered(make_replies("refresh", session=f"s{day}"), KEY, SLOT, says("Lima"))
    assert answered(make_replies("auto", session="s9"), KEY, SLOT, never).draw == newest.draw
    assert answered(make_replies("replay", session="s0"), KEY, SLOT, never).draw == newest.draw


def test_a_reply_is_kept_though_all_is_cleared_between_its_payment_and_its_commit(
    make_replies: Make, home: Path, warned: list[str]
) -> None:
    other = make_replies()
    answered(other, KEY, SLOT, says("Quito"))
    slot = Slot(1, 0)

    def cleared_meanwhile() -> StoredReply:
        other._open().clear()
        return paid_reply(b"Lima")

    bought = answered(make_replies(), KEY, slot, cleared_meanwhile)

    replies = make_replies()
    assert replies.lookup(wanted(KEY), slot) == replace(bought, replayed=True)
    assert replies.lookup(wanted(KEY), SLOT) is None
    assert warned == []


def test_the_generation_that_a_run_names_comes_before_newer_ones(make_replies: Make) -> None:
    first = answered(make_replies(), KEY, SLOT, says("Lima"))
    second = answered(make_replies("refresh", session="s2"), KEY, SLOT, says("Lima"))
    third = answered(make_replies("refresh", session="s3"), KEY, SLOT, says("Lima"))
    replies = make_replies("replay")

    for named, expected in (
        ([{first.draw}], first),
        ([{second.draw}], second),
        ([{"another"}, {second.draw}, {first.draw}], second),
        ([{"another"}], third),
        ([], third),
    ):
        replies.prefer(*named)
        assert answered(replies, KEY, SLOT, never).draw == expected.draw
        assert replies.has_named(f"{KEY}/{SLOT}") == (expected is not third)


def test_a_spare_draw_is_replayed_where_a_run_names_it(make_replies: Make, sql: Sql) -> None:
    spare = answered(make_replies(), KEY, SLOT, says("Lima"))
    sql(
        "UPDATE Cache SET key = ? WHERE key = ?",
        f"{KEY}/{SLOT}/spare/{spare.draw}",
        f"{KEY}/{SLOT}/0",
    )
    assert make_replies().lookup(wanted(KEY), SLOT) is None
    own = answered(make_replies(), KEY, SLOT, says("Lima"))
    replies = make_replies()
    assert answered(replies, KEY, SLOT, never).draw == own.draw

    replies.prefer({spare.draw})

    assert answered(replies, KEY, SLOT, never).draw == spare.draw


def test_a_refreshed_draw_is_found_though_all_is_cleared_as_it_is_stored(
    make_replies: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered(make_replies(), KEY, SLOT, says("Quito"))
    refreshing = make_replies("refresh", session="s2")
    replayable, asked = refreshing._replayable, []

    def clears_at_last(name: str, *found: Any) -> StoredReply | None:
        asked.append(name)
        if len(asked) == 3:  # once it was looked up, claimed, and found to be there
            refreshing._open().clear()
        return replayable(name, *found)

    monkeypatch.setattr(refreshing, "_replayable", clears_at_last)
    drawn = answered(refreshing, KEY, SLOT, says("Lima"))

    assert len(asked) == 3
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == drawn.draw


def test_refresh_replays_what_this_very_session_drew(make_replies: Make) -> None:
    answered(make_replies(session="old"), KEY, SLOT, says("Lima"))
    drawn = answered(make_replies("refresh", session="new"), KEY, SLOT, says("Lima"))
    worker = make_replies("refresh", session="new")
    replay = answered(worker, KEY, SLOT, never)
    assert replay.replayed
    assert replay.draw == drawn.draw


def test_refresh_replays_its_own_draw_though_another_session_refreshed_since(
    make_replies: Make,
) -> None:
    drawn = answered(make_replies("refresh", session="new"), KEY, SLOT, says("Lima"))
    answered(make_replies("refresh", session="newer"), KEY, SLOT, says("Lima"))
    again = answered(make_replies("refresh", session="new"), KEY, SLOT, never)
    assert again.draw == drawn.draw


# Mode off


def test_off_pays_every_time_and_opens_nothing(make_replies: Make, home: Path) -> None:
    replies = make_replies("off")
    first, second = (answered(replies, KEY, SLOT, says("Lima")) for _ in range(2))
    assert not first.replayed
    assert not second.replayed
    assert first.draw != second.draw
    assert not home.exists()


def test_off_does_not_see_what_is_stored(make_replies: Make) -> None:
    answered(make_replies(), KEY, SLOT, says("Lima"))
    assert not answered(make_replies("off"), KEY, SLOT, says("Lima")).replayed


def test_a_reply_that_comes_after_close_is_handed_on_and_opens_nothing(
    make_replies: Make, sql: Sql
) -> None:
    replies = make_replies()
    answered(replies, KEY, SLOT, says("Lima"))

    def late() -> StoredReply:
        replies.close()
        return paid_reply(b"late")

    assert answered(replies, KEY, Slot(1, 0), late).body == b"late"
    assert len(sql("SELECT value FROM Cache")) == 1


def test_an_idle_session_loads_neither_diskcache_nor_sqlite(home: Path) -> None:
    script = """
import pathlib, sys
from pytest_llmeval.cache.reply import StoredReply, paid_reply
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import answered
replies = Replies(pathlib.Path(sys.argv[1]), mode="auto", session="s", warn=print)
off = Replies(pathlib.Path(sys.argv[1]), mode="off", session="s", warn=print)
answered(off, "key", Slot(0, 0), lambda: paid_reply(b""))
replies.close()
print({"diskcache", "sqlite3"} & sys.modules.keys())
"""
    command = [sys.executable, "-c", script, home]
    root = Path(__file__).parents[2]
    # Measuring coverage loads sqlite3.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    done = subprocess.run(
        command, cwd=root, env=environment, check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "set()"
    assert not home.exists()


# Two who miss at once


def overtaken(make_replies: Make, mode: str, session: str, winner: tuple[str, str]) -> Any:
    """Let another session pay for and store the same draw while our call is under way."""
    stored = []

    def call() -> StoredReply:
        other = make_replies(winner[0], session=winner[1])
        stored.append(answered(other, KEY, SLOT, says("theirs")))
        return paid_reply(b"ours")

    ours = make_replies(mode, session=session)
    return answered(ours, KEY, SLOT, call), stored[0]


def test_the_loser_of_a_race_returns_the_draw_of_the_winner(make_replies: Make) -> None:
    reply, winner = overtaken(make_replies, "auto", "s1", ("auto", "s2"))
    assert (reply.draw, reply.body) == (winner.draw, b"theirs")
    assert not reply.replayed


def test_what_the_loser_of_a_race_paid_for_is_kept(make_replies: Make, sql: Sql) -> None:
    overtaken(make_replies, "auto", "s1", ("auto", "s2"))
    first, second = names(sql)
    assert first == f"{KEY}/0/0/0"
    prefix, _, draw = second.rpartition("/")
    assert prefix == f"{KEY}/0/0/spare"
    [(value,)] = sql("SELECT value FROM Cache WHERE key = ?", second)
    found = decode(value)
    assert (found.draw, found.body) == (draw, b"ours")


def test_two_workers_of_a_refreshing_session_share_a_draw(make_replies: Make) -> None:
    answered(make_replies(session="old"), KEY, SLOT, says("old"))
    reply, winner = overtaken(make_replies, "refresh", "new", ("refresh", "new"))
    assert reply.draw == winner.draw


def test_two_refreshing_sessions_keep_their_own_draws(make_replies: Make, sql: Sql) -> None:
    reply, winner = overtaken(make_replies, "refresh", "s1", ("refresh", "s2"))
    assert reply.body == b"ours"
    assert reply.draw != winner.draw
    assert names(sql) == [f"{KEY}/0/0/0", f"{KEY}/0/0/1"]


def test_threads_agree_on_every_draw(make_replies: Make, sql: Sql) -> None:
    replies = make_replies()
    slots = [Slot(trial, 0) for trial in range(20)]
    barrier = threading.Barrier(8)

    def ask(thread: int) -> list[str]:
        barrier.wait()
        return [answered(replies, KEY, slot, says(f"{thread}")).draw for slot in slots]

    with ThreadPoolExecutor(8) as pool:
        draws = list(pool.map(ask, range(8)))
    assert all(each == draws[0] for each in draws)
    assert len([name for name in names(sql) if "spare" not in name]) == len(slots)


# Planted rows

ATTACKS = {
    "pickle": "mode = 4",
    "file": "mode = 2, value = NULL, filename = '/etc/passwd'",
    "text": "value = 'no bytes'",
    "noise": "value = x'00ff'",
    "other-reply": "value = CAST(substr(value, 1, 40) AS BLOB)",
}
every_attack = pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)


@every_attack
def test_a_planted_row_is_a_miss_with_one_warning(
    make_replies: Make, sql: Sql, warned: list[str], attack: str
) -> None:
    answered(make_replies(session="s0"), KEY, SLOT, says("Lima"))
    answered(make_replies(session="s0"), KEY, Slot(1, 0), says("Lima"))
    sql(f"UPDATE Cache SET {attack}")  # noqa: S608 - a test
    replies = make_replies()
    assert not answered(replies, KEY, SLOT, says("Lima")).replayed
    assert not answered(replies, KEY, Slot(1, 0), says("Lima")).replayed
    [warning] = warned
    assert f"row {KEY}/0/0/0 of the cache" in warning
    assert "SECURITY.md" in warning


@every_attack
def test_a_planted_row_stays_and_the_new_reply_is_the_next_generation(
    make_replies: Make, sql: Sql, attack: str
) -> None:
    answered(make_replies(), KEY, SLOT, says("Lima"))
    sql(f"UPDATE Cache SET {attack}")  # noqa: S608 - a test
    before = sql("SELECT * FROM Cache")
    paid = answered(make_replies(), KEY, SLOT, says("Lima"))
    assert names(sql) == [f"{KEY}/0/0/0", f"{KEY}/0/0/1"]
    assert sql("SELECT * FROM Cache LIMIT 1") == before
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw


def test_a_planted_row_is_a_miss_in_replay(make_replies: Make, sql: Sql, warned: list[str]) -> None:
    answered(make_replies(), KEY, SLOT, says("Lima"))
    sql("UPDATE Cache SET mode = 4")
    with pytest.raises(ReplayMiss):
        answered(make_replies("replay"), KEY, SLOT, never)
    assert len(warned) == 1


def test_a_planted_row_hides_no_older_generation(make_replies: Make, sql: Sql) -> None:
    old = answered(make_replies(), KEY, SLOT, says("Lima"))
    answered(make_replies("refresh", session="s2"), KEY, SLOT, says("Lima"))
    sql("UPDATE Cache SET mode = 4 WHERE key LIKE '%/1'")
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == old.draw


def test_an_expired_planted_row_with_a_file_does_not_stop_the_session(
    make_replies: Make, sql: Sql, tmp_path: Path
) -> None:
    victim = tmp_path / "victim"
    victim.touch()
    answered(make_replies(), KEY, SLOT, says("Lima"))
    sql("UPDATE Cache SET expire_time = 1, filename = ?", str(victim))
    paid = answered(make_replies(), KEY, SLOT, says("Lima"))
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw
    assert victim.exists()


def test_a_planted_row_that_breaks_diskcache_does_not_stop_the_session(
    make_replies: Make, sql: Sql
) -> None:
    answered(make_replies(), KEY, SLOT, says("Lima"))
    sql("UPDATE Cache SET expire_time = 'never', mode = 4")
    paid = answered(make_replies(), KEY, SLOT, says("Lima"))
    assert answered(make_replies("replay"), KEY, SLOT, never).draw == paid.draw


def test_a_reply_too_large_to_read_back_is_handed_over_with_a_warning(
    make_replies: Make, warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_llmeval.cache import reply

    monkeypatch.setattr(reply, "MAX_BODY", 10)
    replies = make_replies()
    assert answered(replies, KEY, SLOT, says("x" * 11)).body == b"x" * 11
    assert not answered(replies, KEY, SLOT, says("short")).replayed
    assert ["too large" in warning for warning in warned] == [True]


def test_cache_errors_are_ours() -> None:
    from pytest_llmeval.errors import CacheUnusable, RowRefused

    assert issubclass(CacheUnusable, CacheError)
    assert issubclass(RowRefused, CacheError)
