"""One request has one key, however an SDK, or the next version of it, happens to spell it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pytest_llmeval.models.http.dialect import Dialect
from pytest_llmeval.models.http.seam import described
from pytest_llmeval.models.http.sender import newest
from pytest_llmeval.models.vendors import anthropic, ollama, openai

DIALECTS = [openai.VENDOR, anthropic.VENDOR, ollama.VENDOR]
EVERY_DIALECT = pytest.mark.parametrize("dialect", DIALECTS, ids=[d.provider for d in DIALECTS])

finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.none() | st.booleans() | st.integers() | st.text() | finite
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=6
)
bodies = st.builds(
    lambda text, more: {**more, "model": "m", "messages": [{"role": "user", "content": text}]},
    st.text(),
    st.dictionaries(st.text(), values, max_size=3),
)
quick = settings(max_examples=15)


def key(dialect: Dialect, sent: bytes) -> str:
    """Key the bytes of a request as they would go out."""
    path = f"/v1{dialect.paths[0]}" if dialect is openai.VENDOR else dialect.paths[0]
    asked = newest().Request("POST", f"https://api.example{path}", content=sent)
    request = described(asked)
    assert request is not None
    return dialect.canonical(request, ()).key()


def shuffled(value: Any, data: st.DataObject) -> Any:
    """Put the names of every object in another order."""
    if isinstance(value, dict):
        items = data.draw(st.permutations(list(value.items())))
        return {name: shuffled(part, data) for name, part in items}
    return [shuffled(part, data) for part in value] if isinstance(value, list) else value


@EVERY_DIALECT
@quick
@given(
    body=bodies,
    data=st.data(),
    indent=st.sampled_from([None, 0, 3]),
    is_ascii=st.booleans(),
    separators=st.sampled_from([(",", ":"), (", ", " : ")]),
)
def test_order_whitespace_and_escapes_make_no_difference(
    *,
    dialect: Dialect,
    body: dict[str, Any],
    data: st.DataObject,
    indent: int | None,
    is_ascii: bool,
    separators: tuple[str, str],
) -> None:
    other = json.dumps(
        shuffled(body, data), indent=indent, ensure_ascii=is_ascii, separators=separators
    )

    assert key(dialect, other.encode()) == key(dialect, json.dumps(body).encode())


@EVERY_DIALECT
@quick
@given(one=bodies, other=bodies)
def test_different_requests_have_different_keys(
    dialect: Dialect, one: dict[str, Any], other: dict[str, Any]
) -> None:
    spelled = [json.dumps(body, sort_keys=True) for body in (one, other)]
    assume(spelled[0] != spelled[1])

    assert key(dialect, spelled[0].encode()) != key(dialect, spelled[1].encode())


def test_the_same_body_to_another_vendor_is_another_request() -> None:
    sent = b'{"model": "m", "messages": []}'

    assert len({key(dialect, sent) for dialect in DIALECTS}) == 3
