from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import stored_requests as telling
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.storage.store import Store
from pytest_llmeval.cache.stored_requests import EXPLAINED, Telling
from pytest_llmeval.errors import CacheError, ReplayMiss
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, asks, never, says

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]


def paid(replies: Replies, text: str, *, slot: Slot = SLOT) -> None:
    request = asks(text)
    replies.pay(request.key(), slot, says("Lima"), request=request)


def missed(replies: Replies, text: str, *, slot: Slot = SLOT) -> str:
    request = asks(text)
    with pytest.raises(ReplayMiss) as caught:
        replies.lookup(request.key(), slot, request=request)
    return str(caught.value)


def requests(sql: Sql) -> list[str]:
    return [name for (name,) in sql("SELECT key FROM Cache WHERE key LIKE 'request/%'")]


def test_a_request_is_kept_once_beside_its_replies(make_replies: Make, sql: Sql) -> None:
    for session in ("s1", "s2"):
        replies = make_replies(session=session)
        for trial in range(3):
            paid(replies, "Peru?", slot=Slot(trial, int(session[1])))
    assert requests(sql) == [f"request/{asks('Peru?').key()}"]


def test_a_request_that_another_session_kept_is_not_written_again(
    make_replies: Make, home: Path
) -> None:
    paid(make_replies(), "Peru?")
    with contextlib.closing(Store(home, warn=print)) as store:
        assert Telling("s2").beside(store, asks("Peru?").key(), asks("Peru?")) == []
        [(name, _)] = Telling("s2").beside(store, asks("Chad?").key(), asks("Chad?"))
    assert name == f"request/{asks('Chad?').key()}"


def test_no_prompt_is_written_where_nothing_is_kept(make_replies: Make, home: Any) -> None:
    paid(make_replies("off"), "Peru?")
    assert not home.exists()


def test_a_miss_names_the_nearest_request_and_the_field_that_differs(make_replies: Make) -> None:
    for n in range(5):
        paid(make_replies(), f"Say yes to case-{n}.")
    assert (
        'the nearest stored one differs in messages[0].content: "Please say yes to case-3." here, '
        '"Say yes to case-3." stored.'
    ) in missed(make_replies("replay"), "Please say yes to case-3.")


def test_a_miss_of_a_further_draw_says_that_the_request_is_known(make_replies: Make) -> None:
    paid(make_replies(), "Peru?")
    assert "but not this draw" in missed(make_replies("replay"), "Peru?", slot=Slot(7, 0))


def test_a_miss_in_an_empty_cache_names_nothing(make_replies: Make) -> None:
    assert "nearest" not in missed(make_replies("replay"), "Peru?")


def test_a_session_that_finds_nothing_looks_a_few_times_only(make_replies: Make) -> None:
    paid(make_replies(), "Peru?")
    replies = make_replies("replay")
    told = ["nearest" in missed(replies, f"Chad {n}?") for n in range(EXPLAINED + 2)]
    assert told == [True] * EXPLAINED + [False] * 2
    assert "nearest" in missed(replies, "Chad 0?")


@pytest.mark.parametrize("attack", ["mode = 4", "value = x'00ff'", "value = NULL"])
def test_a_planted_request_is_passed_over(make_replies: Make, sql: Sql, attack: str) -> None:
    paid(make_replies(), "Peru?")
    sql(f"UPDATE Cache SET {attack} WHERE key LIKE 'request/%'")  # noqa: S608 - a test
    assert "nearest" not in missed(make_replies("replay"), "Chad?")
    paid(make_replies(), "Peru?", slot=Slot(1, 0))


def test_a_request_nested_too_deeply_to_be_kept_costs_no_reply(
    make_replies: Make, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(telling, "tell", give_up)
    paid(make_replies(), "Peru?")
    assert requests(sql) == []
    assert make_replies().lookup(asks("Peru?").key(), SLOT) is not None


@pytest.mark.parametrize("error", [CacheError("full"), RecursionError("planted, and deep")])
def test_a_cache_that_cannot_be_looked_through_explains_nothing(
    make_replies: Make, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    monkeypatch.setattr(telling, "requests_of", fail)
    assert "no reply is stored" in missed(make_replies("replay"), "Chad?")


def test_replies_without_a_request_are_kept_as_ever(make_replies: Make, sql: Sql) -> None:
    answered(make_replies(), KEY, SLOT, says("Lima"))
    assert answered(make_replies(), KEY, SLOT, never).body == b"Lima"
    assert requests(sql) == []
