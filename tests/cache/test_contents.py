from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache.contents import count_contents
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, asks, overtaken, says, wanted

Make = Callable[..., Replies]


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    with contextlib.closing(Store(home, warn=print)) as store:
        yield store


def test_an_empty_cache_has_nothing(store: Store) -> None:
    contents = count_contents(store)
    assert (contents.size, contents.oldest, contents.replies) == (0, "", {})


def test_requests_draws_generations_and_spares_are_counted(
    make_replies: Make, store: Store
) -> None:
    for session in ("s1", "s2"):
        for trial in range(3):
            make_replies("refresh", session=session).pay(wanted(KEY, says("Lima")), Slot(trial, 0))
    other, third = (make_replies("refresh", session="s3") for _ in range(2))
    late = overtaken(lambda: other.pay(wanted(KEY, says("Lima")), SLOT), "late")
    third.pay(wanted(KEY, late), SLOT)
    contents = count_contents(store)
    assert contents.requests == {KEY}
    assert contents.places == {f"{KEY}/0/0": 3, f"{KEY}/1/0": 2, f"{KEY}/2/0": 2}
    assert contents.spares == 1
    assert contents.oldest <= contents.newest != ""


def test_replies_are_counted_by_model_and_host(make_replies: Make, store: Store) -> None:
    function = asks(provider="function", origin="", path="bot:answer")
    nameless = asks(body=[])
    for request in (asks(), function, nameless):
        make_replies().pay(wanted(request.key(), says("Lima"), canonical=request), SLOT)
    make_replies().pay(wanted(KEY, says("Lima", facts={"model": "served"})), SLOT)
    contents = count_contents(store)
    assert contents.sizes.total() == contents.size
    assert contents.replies == {
        ("openai/m", "http://127.0.0.1:8000"): 1,
        ("function/bot:answer", "-"): 1,
        ("openai/?", "http://127.0.0.1:8000"): 1,
        ("served", "?"): 1,
    }


def test_rows_that_we_did_not_write_are_counted_apart(
    make_replies: Make, store: Store, sql: Callable[..., list[Any]]
) -> None:
    for trial in range(3):
        make_replies().pay(wanted(KEY, says("Lima")), Slot(trial, 0))
    sql("UPDATE Cache SET mode = 4 WHERE key LIKE '%/0/0/0'")
    sql("UPDATE Cache SET value = x'00' WHERE key LIKE '%/1/0/0'")
    contents = count_contents(store)
    assert (contents.refused, len(contents.places)) == (2, 1)


def test_more_rows_than_a_page_are_all_read(
    make_replies: Make, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pytest_llmeval.cache import queries

    monkeypatch.setattr(queries, "SIZE", 2)
    for trial in range(5):
        make_replies().pay(wanted(KEY, says("Lima")), Slot(trial, 0))
    assert len(count_contents(store).places) == 5
