from __future__ import annotations

import hashlib
import json
import secrets
import zlib
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmeval.cache import reply as module
from pytest_llmeval.cache.reply import (
    StoredReply,
    decode,
    deflate,
    encode,
    paid_reply,
    sensible,
    usage_of,
)
from pytest_llmeval.errors import RowRefused

BODY = b'{"text": "Lima"}'
HEADER: dict[str, Any] = {
    "schema": 1,
    "draw": "0123456789abcdef" * 2,
    "sha256": hashlib.sha256(BODY).hexdigest(),
    "status": 200,
    "headers": {"content-type": "application/json"},
    "facts": {"model": "gpt-4o-mini-2024-07-18", "seconds": 1.5, "input_tokens": 12, "seed": None},
    "created": "2026-11-21T08:41:00Z",
    "session": "s1",
}
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | st.text() | finite


def stored(header: object = HEADER, body: bytes = BODY) -> bytes:
    return zlib.compress(json.dumps(header).encode() + b"\n" + body)


def test_rows_of_the_first_release_can_be_read() -> None:
    golden = (
        "78015d90cb4ec4300c45f77c05f2ba81384d9b26dfc092151b9487c3143a693571056834ff4e3a4b96d7"
        "3e3ad7f2156a3cd1d983c30ed2c57f830389aad7c36826eb434c94ff67e8a09ebc1ac6c692caa85250e3"
        "402987c1122563ed34ea6026152d626fc34036462b4d363928ad4db0933632f6986d3e5cec79afe09494"
        "1d9cc827bab47485b816a6c2827f376a4d7edb96397a9ed7f2fc59d702b70eb28f7c67cf6ba2a5411f1b"
        "0bbd8af35c66a1a4d2421a81d351424d971a8b4f430773d9767ee7f58bca3152c79e12b8b22f4bd3c60b"
        "793e3234c7281085c25739398d4ecab7bbadd67647032ac2ede10a4c3f0cee115ee6f6cadb1fe0bf6537"
    )  # fmt: skip
    assert decode(bytes.fromhex(golden)) == StoredReply(
        draw=HEADER["draw"],
        sha256=HEADER["sha256"],
        body=BODY,
        status=200,
        headers=HEADER["headers"],
        facts=sensible(HEADER["facts"]),
        session="s1",
        created=HEADER.get("created", ""),
        replayed=True,
        usage=usage_of(HEADER["facts"]),
    )


@settings(max_examples=60)
@given(
    body=st.binary(),
    status=st.integers(200, 299),
    facts=st.dictionaries(
        st.sampled_from(["model", "input_tokens", "seconds"]) | st.text(), scalars
    ),
    session=st.text(),
)
def test_what_is_written_is_read_back(
    body: bytes, status: int, facts: dict[str, Any], session: str
) -> None:
    paid = paid_reply(body, status, {"content-type": "text/plain"}, facts)
    fresh = replace(paid, session=session)
    row = decode(encode(fresh))
    assert (row.session, row.created) == (session, fresh.created)
    assert (row.draw, row.sha256, row.body) == (
        fresh.draw, hashlib.sha256(body).hexdigest(), body,
    )  # fmt: skip
    assert (row.status, row.headers, row.facts) == (
        status, {"content-type": "text/plain"}, sensible(facts),
    )  # fmt: skip


@pytest.mark.parametrize("length", [0, 1, 255, 2048])
def test_a_short_text_is_stored_as_it_is(length: int) -> None:
    text = secrets.token_bytes(length)

    packed = deflate(text)

    assert zlib.decompress(packed) == text
    assert len(packed) == length + 11


@pytest.mark.parametrize("length", [2049, 4095, 4096, 32_767, 32_768, 200_000])
def test_a_text_of_any_length_is_packed_as_zlib_packs(length: int) -> None:
    text = secrets.token_hex(length)[:length].encode()

    packed = deflate(text)

    assert zlib.decompress(packed) == text
    assert len(packed) <= 1.1 * len(zlib.compress(text, 1)) + 16


def test_every_fresh_reply_has_a_draw_of_its_own() -> None:
    draws = {paid_reply(b"same").draw for _ in range(100)}
    assert len(draws) == 100
    assert all(len(draw) == 32 and int(draw, 16) >= 0 for draw in draws)


def test_only_the_content_type_is_kept_of_the_headers() -> None:
    headers = {
        "Content-Type": "application/json",
        "Set-Cookie": "session=hunter2",
        "Authorization": "Bearer hunter2",
        "openai-organization": "acme",
    }
    assert paid_reply(b"", 200, headers).headers == {"content-type": "application/json"}


def test_a_header_that_a_row_should_not_hold_is_left_out_when_it_is_read() -> None:
    planted = {"content-encoding": "gzip", "Content-Type": "text/plain", "location": "http://x"}

    assert decode(stored({**HEADER, "headers": planted})).headers == {"content-type": "text/plain"}


@pytest.mark.parametrize("text", ["text/\nplain", "té/xt", "\udc80", "a\x00"])
def test_a_content_type_that_no_header_can_have_is_neither_kept_nor_read(text: str) -> None:
    headers = {"content-type": text}

    assert paid_reply(b"", headers=headers).headers == {}
    with pytest.raises(RowRefused, match=r"does not fit.*headers"):
        decode(stored({**HEADER, "headers": headers}))


@pytest.mark.parametrize(("tier", "kept"), [("flex", {"tier": "flex"}), ("default", {})])
def test_the_usual_tier_of_service_is_not_kept(tier: str, kept: dict[str, str]) -> None:
    reply = paid_reply(b"", facts={"tier": tier})
    assert reply.facts == kept
    assert reply.usage.tier == kept.get("tier")


@pytest.mark.parametrize("fact", [float("nan"), float("inf"), b"bytes", {1}])
def test_facts_that_make_no_sense_are_not_kept(fact: Any) -> None:
    reply = paid_reply(b"", facts={"model": fact, "seconds": fact, "other": 1})
    assert reply.facts == decode(encode(reply)).facts == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("schema", 2), ("schema", None),
        ("draw", "xyz"), ("draw", "A" * 32), ("draw", HEADER["draw"] + "\n"), ("draw", 7),
        ("sha256", "0" * 64), ("sha256", "0"), ("sha256", None),
        ("status", 500), ("status", 199), ("status", 300), ("status", "200"), ("status", True),
        ("headers", None), ("headers", {"content-type": 1}), ("headers", []),
        ("facts", None), ("facts", []), ("facts", {"a": []}), ("facts", {"a": {}}),
        ("facts", {"a": float("nan")}),
        ("session", None), ("session", 1),
    ],
)  # fmt: skip
def test_a_header_with_an_improper_field_is_refused(name: str, value: Any) -> None:
    with pytest.raises(RowRefused):
        decode(stored({**HEADER, name: value}))


def test_a_fact_beyond_every_float_is_refused() -> None:
    line = json.dumps(HEADER).replace("1.5", "1e999").encode()
    with pytest.raises(RowRefused, match=r"does not fit.*facts"):
        decode(zlib.compress(line + b"\n" + BODY))


@pytest.mark.parametrize("name", sorted(HEADER.keys() - {"created"}))
def test_a_header_without_a_field_is_refused(name: str) -> None:
    with pytest.raises(RowRefused, match=name):
        decode(stored({field: HEADER[field] for field in HEADER if field != name}))


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "cut off"),
        (b"no zlib", "decompressed"),
        (stored()[:-1], "cut off"),
        (stored() + b"\0", "tail"),
        (stored([]), "Expected `object`"),
        (stored(7), "Expected `object`"),
        (stored(body=BODY + b" "), "digest"),
        (zlib.compress(b""), "no JSON"),
        (zlib.compress(b"{\"x\":" * 100_000 + b"\n"), "nested too deeply"),
        (zlib.compress(b'{"schema": NaN}\n'), "NaN"),
        (zlib.compress(b"\x80\x04\x95pickle\n."), "no JSON"),
    ],
    ids=["empty", "noise", "cut-off", "tail", "list", "number", "other-body", "no-header", "nested",
         "nan", "pickle"],
)  # fmt: skip
def test_a_value_that_we_did_not_write_is_refused(value: bytes, reason: str) -> None:
    with pytest.raises(RowRefused, match=reason):
        decode(value)


def test_a_header_that_is_too_long_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HEADER", 100)
    with pytest.raises(RowRefused, match="longer than 100 bytes"):
        decode(stored())


def test_a_bomb_is_not_inflated_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_HEADER", 400)
    monkeypatch.setattr(module, "MAX_BODY", 1000)
    bomb = stored({**HEADER, "sha256": hashlib.sha256(b"0" * 10**7).hexdigest()}, b"0" * 10**7)
    with pytest.raises(RowRefused, match="inflates to more than 1401 bytes"):
        decode(bomb)


@pytest.mark.parametrize(("size", "can_be_read"), [(1000, True), (1001, False)])
def test_only_what_can_be_read_back_is_written(
    size: int, *, can_be_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BODY", 1000)
    reply = paid_reply(b"0" * size)
    if can_be_read:
        assert decode(encode(reply)).body == reply.body
    else:
        with pytest.raises(RowRefused, match="too large"):
            encode(reply)


def test_bound_of_a_reply_is_256_mib() -> None:
    assert module.MAX_BODY == 256 * 1024 * 1024
