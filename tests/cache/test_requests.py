from __future__ import annotations

import json
import zlib
from typing import Any

import pytest

from pytest_llmeval.cache import requests as module
from pytest_llmeval.cache.requests import decode_request, encode_request, tell
from pytest_llmeval.errors import RowRefused
from tests.cache.calls import asks

LINE: dict[str, Any] = {
    "schema": 1,
    "request": dict(tell(asks())),
    "created": "2026-11-21T08:41:00Z",
    "session": "s1",
}


def stored(line: object) -> bytes:
    return zlib.compress(json.dumps(line).encode())


def test_what_is_written_is_read_back() -> None:
    value = encode_request(tell(asks()), session="s1")
    assert value is not None
    kept = decode_request(value)
    assert (kept.told, kept.session) == (tell(asks()), "s1")


def test_rows_of_the_first_release_can_be_read() -> None:
    assert decode_request(stored(LINE)).told["body"]["model"] == "m"


@pytest.mark.parametrize(
    "line",
    [
        [], {**LINE, "schema": 2}, {**LINE, "request": []}, {**LINE, "session": 1},
        {**LINE, "request": {**LINE["request"], "headers": {}}}, {**LINE, "request": {}},
    ],
)  # fmt: skip
def test_a_line_that_we_did_not_write_is_refused(line: object) -> None:
    with pytest.raises(RowRefused):
        decode_request(stored(line))


@pytest.mark.parametrize(
    "value", [b"noise", zlib.compress(b"no json"), zlib.compress(b"[" * 10**5)]
)
def test_a_value_that_we_did_not_write_is_refused(value: bytes) -> None:
    with pytest.raises(RowRefused):
        decode_request(value)


def test_secrets_and_headers_in_a_body_are_blanked_at_any_depth() -> None:
    tool = {"type": "mcp", "authorization": "hunter2", "headers": {"X": "hunter2"}}
    body = {"tools": [tool], "api_key": {"value": "hunter2"}, "n": 1}
    told = tell(asks(body=body, query="key=hunter2&v=1"))
    assert "hunter2" not in json.dumps(told)
    assert told["body"]["tools"][0]["type"] == "mcp"
    assert told["query"] == "v=1"


def test_a_long_text_is_cut_and_told_apart_by_its_digest() -> None:
    one, other = (tell(asks("x" * 50_000 + end)) for end in ("a", "b"))
    assert one != other
    assert len(json.dumps(one)) < 11_000


def test_a_request_that_is_too_long_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HEADER", 100)
    assert encode_request(tell(asks()), session="s1") is None
