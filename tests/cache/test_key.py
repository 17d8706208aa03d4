from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_llmeval.cache.key import RequestNotKeyable, canonical_request, parse_json
from pytest_llmeval.errors import LLMEvalError

CHAT: dict[str, Any] = {
    "provider": "openai",
    "method": "POST",
    "origin": "https://api.openai.com",
    "path": "/v1/chat/completions",
    "body": {"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "Größe?\n"}]},
}

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | st.text() | finite
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12
)
quick = settings(max_examples=25)


def key(**changes: Any) -> str:
    return canonical_request(**{**CHAT, **changes}).key()


def test_key_is_the_hash_of_this_very_text() -> None:
    canonical = (
        '[1,"openai","POST","https://api.openai.com","/v1/chat/completions","",'
        '{"messages":[{"content":"Gr\\u00f6\\u00dfe?\\n","role":"user"}],"model":"gpt-4o-mini"},'
        "null,null]"
    )
    assert key() == hashlib.sha256(canonical.encode("ascii")).hexdigest()


# A change of any of these voids every cache and every baseline there is. If it must be, count
# key.SCHEMA up and say so in the changelog.
@pytest.mark.parametrize(
    ("changes", "golden"),
    [
        ({}, "23519ccffd532c9077610c0b9d39311fdf0ce6e35692781d6fedd7c0ed1e90ad"),
        (
            {"beta": "prompt-caching-2024-07-31"},
            "78cb63dfe6c9212cd8f48cf5a89f256319f87e50f140e3d17287bcbc1c5ab272",
        ),
        (
            {"query": "api-version=2024-10-21&api-key=secret"},
            "c43bb4e16f850ceb65a665c55f3d4c8c53b4cf8f25cdeec6d445164e4c625293",
        ),
        (
            {"body": {"n": [1, 2.5, -0.0, 1e30, 2**70, True, None, "\ud800\u2028\x7f"]}},
            "9bb47c40d2be3973a295a6add8ee12ed6a63e4379b55859b2192a9c9d79a4dbd",
        ),
        (
            {
                "provider": "function",
                "method": "",
                "origin": "",
                "path": "app.models:answer",
                "source": "00" * 32,
            },
            "32e11e0ca812564f88ae1c9635ef31cfa8ff2f1f25480a40207cb4ba54ecc655",
        ),
    ],
    ids=["chat", "beta", "query", "numbers", "function"],
)
def test_keys_are_those_of_the_first_release(changes: dict[str, Any], golden: str) -> None:
    assert key(**changes) == golden


def test_a_hint_that_changes_no_answer_is_no_part_of_a_key() -> None:
    body = CHAT["body"]

    assert key(body={**body, "prompt_cache_key": "agents-sdk:run:1"}) == key()
    assert key(body={**body, "prompt_cache_key": "agents-sdk:run:2"}) == key()
    assert key(body={**body, "user": "1"}) != key(body={**body, "user": "2"})
    assert key(body=[{"prompt_cache_key": "1"}]) != key(body=[{"prompt_cache_key": "2"}])
    # a function may be given anything, and do anything with it
    assert key(body={"prompt_cache_key": 1}, source="a") != key(body={}, source="a")


@quick
@given(body=json_values, indent=st.sampled_from([None, 0, 3]), is_ascii=st.booleans())
def test_whitespace_and_escapes_do_not_matter(
    body: Any, indent: int | None, is_ascii: bool
) -> None:
    sent = json.dumps(body, indent=indent, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    assert key(body=parse_json(sent)) == key(body=body)


@quick
@given(body=st.dictionaries(st.text(), json_values), data=st.data())
def test_order_of_names_does_not_matter(body: dict[str, Any], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(list(body.items())))
    assert key(body=dict(shuffled)) == key(body=body)


@quick
@given(one=json_values, other=json_values)
def test_bodies_have_equal_keys_only_if_they_are_the_same_json(one: Any, other: Any) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (key(body=one) == key(body=other)) is same


def test_order_of_lists_matters() -> None:
    assert key(body=[1, 2]) != key(body=[2, 1])


@pytest.mark.parametrize(
    "changes",
    [
        {"provider": "ollama"},
        {"method": "GET"},
        {"origin": "http://api.openai.com"},
        {"origin": "https://api.openai.com:8443"},
        {"path": "/v1/responses"},
        {"query": "api-version=1"},
        {"body": {}},
        {"beta": "x"},
        {"source": "x"},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_each_part_of_the_request_is_in_the_key(changes: dict[str, Any]) -> None:
    assert key(**changes) != key()


def test_beta_is_not_mistaken_for_source() -> None:
    assert key(beta="x") != key(source="x")


def test_case_of_the_method_does_not_matter() -> None:
    assert key(method="post") == key()


@pytest.mark.parametrize(
    "origin",
    [
        "HTTPS://API.OpenAI.com",
        "https://api.openai.com:443",
        "https://api.openai.com/",
        "https://user:password@api.openai.com",
    ],
)
def test_spellings_of_an_origin_are_one(origin: str) -> None:
    assert key(origin=origin) == key()


def test_default_port_of_http_is_80() -> None:
    assert key(origin="http://[::1]:80") == key(origin="http://[::1]")
    assert key(origin="http://[::1]:443") != key(origin="http://[::1]")


@pytest.mark.parametrize(
    "origin",
    [
        "api.openai.com",
        "https://",
        "http://h:port",
        "http://h:99999",
        "http://h/v1",
        "http://h?a=1",
    ],
)
def test_what_is_no_origin_is_refused(origin: str) -> None:
    with pytest.raises(RequestNotKeyable, match="is no origin; write scheme, host and port"):
        key(origin=origin)


def test_complaint_about_an_origin_hides_its_password() -> None:
    with pytest.raises(RequestNotKeyable) as caught:
        key(origin="http://user:hunter2@h/v1")
    assert "hunter2" not in str(caught.value)


def test_alias_gives_an_origin_the_key_of_another() -> None:
    aliases = (("http://proxy:8080", "https://API.openai.com:443"),)
    assert key(origin="http://PROXY:8080", aliases=aliases) == key()
    assert key(origin="http://proxy:8081", aliases=aliases) != key()


@pytest.mark.parametrize(
    "origin", ["http://127.0.0.1", "http://127.0.0.1:1", "http://127.0.0.1:49152"]
)
def test_alias_for_any_port_holds_for_every_port(origin: str) -> None:
    assert key(origin=origin, aliases=(("http://127.0.0.1:*", "https://api.openai.com"),)) == key()


def test_alias_for_any_port_holds_for_its_host_alone() -> None:
    aliases = (("http://127.0.0.1:*", "https://api.openai.com"),)
    assert key(origin="http://127.0.0.2:80", aliases=aliases) != key()


def test_first_alias_that_fits_is_taken() -> None:
    aliases = (("http://a", "https://api.openai.com"), ("http://a", "http://b"))
    assert key(origin="http://a", aliases=aliases) == key()


@pytest.mark.parametrize(
    "secret",
    ["api-key", "API_KEY", "api%2Dkey", "apikey", "key", "access_token", "Token", "sig",
     "Signature", "X-Amz-Signature", "subscription-key"],
)  # fmt: skip
def test_secret_parameters_are_not_in_the_key(secret: str) -> None:
    assert key(query=f"a=1&{secret}=hunter2&b=2") == key(query="a=1&b=2")


def test_query_without_its_secrets_is_no_query() -> None:
    assert key(query="?key=hunter2") == key(query="")


def test_other_parameters_are_kept_in_order() -> None:
    assert key(query="a=1&b=2") != key(query="b=2&a=1")
    assert key(query="monkey=1") != key(query="")


@pytest.mark.parametrize(
    "text",
    [b"no json", b"", b'{"a": NaN}', b"\xff", b"[" * 100_000],
    ids=["words", "nothing", "nan", "no-utf8", "nested"],
)
def test_what_is_no_json_is_not_parsed(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the parser's own words
        parse_json(text)


@pytest.mark.parametrize(
    "body",
    [float("nan"), float("-inf"), {"a": {1, 2}}, b"{}", parse_json(b"1e999"), {1: "a", "b": "c"}],
    ids=["nan", "infinity", "set", "bytes", "overflow", "mixed-names"],
)
def test_what_is_no_json_is_refused(body: Any) -> None:
    with pytest.raises(RequestNotKeyable, match="the body of the request") as caught:
        key(body=body)
    assert isinstance(caught.value, LLMEvalError)
    assert isinstance(caught.value, ValueError)
