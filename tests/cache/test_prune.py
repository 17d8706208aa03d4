from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache.contents import Pruning, plan_pruning
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.replies import Replies, StoredReply
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, asks, never, overtaken, says, wanted

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]
EVER = "9999-01-01T00:00:00Z"
NEVER = "2000-01-01T00:00:00Z"


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with contextlib.closing(Store(home, warn=print)) as store:
        yield store


def pruned(store: Store, *kept: str, before: str = EVER) -> Pruning:
    return store.rewrite(partial(plan_pruning, before=before, kept=frozenset(kept)))


def draw(make_replies: Make, session: str, slot: Slot = SLOT) -> StoredReply:
    request = asks()
    replies = make_replies("refresh", session=session)
    return answered(replies, request.key(), slot, says("Lima"))


def names(sql: Sql) -> list[str]:
    return [name for (name,) in sql("SELECT key FROM Cache ORDER BY key")]


def test_young_draws_stay(make_replies: Make, store: Store, sql: Sql) -> None:
    draw(make_replies, "s1")
    done = pruned(store, before=NEVER)
    assert (done.replies, done.left, len(names(sql))) == (0, 1, 1)


def test_old_draws_go_with_their_request(make_replies: Make, store: Store, sql: Sql) -> None:
    request = asks()
    make_replies().pay(wanted(request.key(), says("Lima"), canonical=request), SLOT)
    done = pruned(store)
    assert (done.replies, done.requests, done.left) == (1, 1, 0)
    assert done.size > 0
    assert names(sql) == []


def test_draws_that_a_run_names_stay_however_old(make_replies: Make, store: Store) -> None:
    kept, _lost = (draw(make_replies, "s1", Slot(trial, 0)) for trial in range(2))
    done = pruned(store, kept.draw)
    assert (done.replies, done.spared, done.requests) == (1, 1, 0)
    replies = make_replies()
    found = [replies.lookup(wanted(asks().key()), Slot(trial, 0)) for trial in range(2)]
    assert [reply and reply.draw for reply in found] == [kept.draw, None]


@pytest.mark.parametrize("stays", range(3))
def test_generations_that_stay_are_found_without_those_that_went(
    make_replies: Make, store: Store, sql: Sql, stays: int
) -> None:
    drawn = [draw(make_replies, f"s{n}") for n in range(3)]
    pruned(store, drawn[stays].draw)
    assert names(sql) == [f"{asks().key()}/0/0/0"]
    assert answered(make_replies("auto"), asks().key(), SLOT, never).draw == drawn[stays].draw


def test_a_spare_goes_and_stays_as_any_other(make_replies: Make, store: Store, sql: Sql) -> None:
    other = make_replies()
    late = overtaken(lambda: other.pay(wanted(KEY, says("first")), SLOT), "late")
    make_replies().pay(wanted(KEY, late), SLOT)
    [spare] = [name for name in names(sql) if "spare" in name]
    pruned(store, spare.rpartition("/")[2])
    assert names(sql) == [spare]
    pruned(store)
    assert names(sql) == []


def test_a_slot_with_a_row_that_we_did_not_write_is_left_alone(
    make_replies: Make, store: Store, sql: Sql
) -> None:
    for session in ("s1", "s2"):
        draw(make_replies, session)
    sql("UPDATE Cache SET mode = 4 WHERE key LIKE '%/0/0/1'")
    before = sql("SELECT * FROM Cache")
    assert pruned(store).replies == 0
    assert sql("SELECT * FROM Cache") == before


def test_a_draw_of_unknown_age_stays(make_replies: Make, store: Store, sql: Sql) -> None:
    import zlib

    draw(make_replies, "s1")
    [(value,)] = sql("SELECT value FROM Cache")
    undated = zlib.compress(zlib.decompress(value).replace(b'"created":"2', b'"created":"x'))
    sql("UPDATE Cache SET value = ?", undated)
    assert pruned(store).replies == 0


def test_rows_of_other_names_are_left_alone(store: Store, sql: Sql) -> None:
    store.add("whatever", b"value")
    pruned(store)
    assert names(sql) == ["whatever"]
