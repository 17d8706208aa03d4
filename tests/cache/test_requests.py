from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_llmeval.cache import reply as reply_module
from pytest_llmeval.cache import requests as module
from pytest_llmeval.cache.database import Store
from pytest_llmeval.cache.replies import Replies
from pytest_llmeval.cache.reply import StoredRow, pack_object
from pytest_llmeval.cache.requests import (
    parts_to_keep,
    request_rows,
    stored_requests,
    unpack_request,
)
from pytest_llmeval.errors import RowRefused
from pytest_llmeval.records import Slot
from tests.cache.calls import KEY, SLOT, answered, asks, never, says, wanted

Make = Callable[..., Replies]
Sql = Callable[..., list[Any]]


def paid(replies: Replies, text: str, *, slot: Slot = SLOT) -> None:
    request = asks(text)
    replies.pay(wanted(request.key(), says("Lima"), canonical=request), slot)


def requests(sql: Sql) -> list[str]:
    return [name for (name,) in sql("SELECT key FROM Cache WHERE key LIKE 'request/%'")]


def test_a_request_is_kept_once_beside_its_replies(make_replies: Make, sql: Sql) -> None:
    for session in ("s1", "s2"):
        replies = make_replies(session=session)
        for trial in range(3):
            paid(replies, "Peru?", slot=Slot(trial, int(session[1])))
    assert requests(sql) == [f"request/{asks('Peru?').key()}"]


def test_a_request_that_another_session_kept_stays_as_it_is(make_replies: Make, home: Path) -> None:
    paid(make_replies(session="s1"), "Peru?")
    paid(make_replies(session="s2"), "Peru?", slot=Slot(1, 0))
    with contextlib.closing(Store(home, warn=print)) as store:
        [request] = stored_requests(store.rows("request/*"))
    assert (request.key, request.session) == (asks("Peru?").key(), "s1")


def test_no_prompt_is_written_where_nothing_is_kept(make_replies: Make, home: Any) -> None:
    paid(make_replies("off"), "Peru?")
    assert not home.exists()


def test_a_request_nested_too_deeply_to_be_kept_costs_no_reply(
    make_replies: Make, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    def give_up(_: object) -> None:
        raise RecursionError

    monkeypatch.setattr(module, "parts_to_keep", give_up)
    paid(make_replies(), "Peru?")
    assert requests(sql) == []
    assert make_replies().lookup(wanted(asks("Peru?").key()), SLOT) is not None


def test_replies_without_a_request_are_kept_as_ever(make_replies: Make, sql: Sql) -> None:
    answered(make_replies(), KEY, SLOT, says("Lima"))
    assert answered(make_replies(), KEY, SLOT, never).body == b"Lima"
    assert requests(sql) == []


# The value of its row

LINE: dict[str, Any] = {
    "schema": 1,
    "request": dict(parts_to_keep(asks())),
    "created": "2026-11-21T08:41:00Z",
    "session": "s1",
}


def stored(line: object) -> bytes:
    return zlib.compress(json.dumps(line).encode())


def test_what_is_written_is_read_back() -> None:
    value = pack_object(LINE)
    assert value is not None
    assert unpack_request(value) == LINE


def test_rows_of_the_first_release_can_be_read() -> None:
    assert unpack_request(stored(LINE))["request"]["body"]["model"] == "m"


@pytest.mark.parametrize(
    "line",
    [
        [], {**LINE, "schema": 2}, {**LINE, "request": []}, {**LINE, "session": 1},
        {**LINE, "request": {**LINE["request"], "headers": {}}}, {**LINE, "request": {}},
    ],
)  # fmt: skip
def test_a_line_that_we_did_not_write_is_refused(line: object) -> None:
    with pytest.raises(RowRefused):
        unpack_request(stored(line))


@pytest.mark.parametrize(
    "value", [b"noise", zlib.compress(b"no json"), zlib.compress(b"[" * 10**5)]
)
def test_a_value_that_we_did_not_write_is_refused(value: bytes) -> None:
    with pytest.raises(RowRefused):
        unpack_request(value)


def test_secrets_and_headers_in_a_body_are_blanked_at_any_depth() -> None:
    tool = {"type": "mcp", "authorization": "hunter2", "headers": {"X": "hunter2"}}
    body = {"tools": [tool], "api_key": {"value": "hunter2"}, "n": 1}
    parts = parts_to_keep(asks(body=body, query="key=hunter2&v=1"))
    assert "hunter2" not in json.dumps(parts)
    assert parts["body"]["tools"][0]["type"] == "mcp"
    assert parts["query"] == "v=1"


def test_a_long_text_is_cut_and_told_apart_by_its_digest() -> None:
    one, other = (parts_to_keep(asks("x" * 50_000 + end)) for end in ("a", "b"))
    assert one != other
    assert len(json.dumps(one)) < 11_000


def test_a_request_that_is_too_long_is_not_kept(
    make_replies: Make, sql: Sql, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reply_module, "MAX_HEADER", 100)
    assert pack_object(LINE) is None
    paid(make_replies(), "Peru?")
    assert requests(sql) == []
    request = asks("Peru?")
    assert list(request_rows(request.key(), request, session="s")) == []


def test_rows_of_others_hold_no_request() -> None:
    assert list(stored_requests([StoredRow(1, "reply/x", b"")])) == []
