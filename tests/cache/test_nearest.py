from __future__ import annotations

from typing import Any

import pytest

from pytest_llmeval.cache.nearest import Nearest, sentence
from pytest_llmeval.cache.requests import tell
from tests.cache.calls import asks


def told_apart(here: Any, stored: Any) -> str:
    return sentence(Nearest(tell(here)).differences(tell(stored)))


def test_nothing_is_nearest_where_nothing_is_stored() -> None:
    assert Nearest(tell(asks())).among([]) is None


def test_the_nearest_shares_the_most_words_though_both_ends_were_edited() -> None:
    stored = [tell(asks(f"Name the capital of {name} in a word.")) for name in ("Chad", "Peru")]
    asked = tell(asks("What is the capital of Peru? One word!"))
    assert Nearest(asked).among(stored) is stored[1]


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"path": "/v1/responses"},
        {"provider": "ollama"},
        {"body": {"model": "n", "messages": [{"role": "user", "content": "Peru?"}]}},
        {"body": ["Peru?"]},
    ],
)
def test_the_same_model_and_path_come_first(elsewhere: dict[str, Any]) -> None:
    stored = [tell(asks("Peru?", **elsewhere)), tell(asks("quite another text altogether"))]
    assert Nearest(tell(asks("Peru?"))).among(stored) is stored[1]


def test_the_field_that_differs_is_named_with_both_texts() -> None:
    assert told_apart(asks("Say yes to case-3."), asks("Say yes to case-4.")) == (
        'messages[0].content: "Say yes to case-3." here, "Say yes to case-4." stored'
    )


def test_long_texts_are_shown_around_the_place_where_they_differ() -> None:
    text = told_apart(asks("a" * 500 + "X" + "b" * 500), asks("a" * 500 + "Y" + "b" * 500))
    assert "aaaXbbb" in text
    assert "aaaYbbb" in text
    assert len(text) < 200


def test_a_text_that_only_goes_on_differs_at_its_end() -> None:
    text = told_apart(asks("a" * 500), asks("a" * 500 + " today"))
    assert 'a today" stored' in text


def test_a_field_that_one_side_lacks_is_named() -> None:
    warm = asks(body={**asks().body, "temperature": 0.7})  # type: ignore[dict-item]
    assert told_apart(warm, asks()) == "temperature: 0.7 here, nothing stored"
    assert told_apart(asks(), warm) == "temperature: nothing here, 0.7 stored"


def test_further_fields_are_named_and_counted() -> None:
    here = asks(body={"a": 1, "b": 2, "c": 3, "d": 4, "e": {}})
    stored = asks(body={"a": 0, "b": 0, "c": 0, "d": 0, "e": []})
    assert told_apart(here, stored) == "a: 1 here, 0 stored; also b, c and 2 more"
    assert told_apart(asks("x", beta="b"), asks("y")).endswith("; also beta")


def test_an_edited_function_model_is_told_in_words() -> None:
    assert "code of the model" in told_apart(asks(source="abc"), asks(source="def"))


def test_requests_that_differ_in_a_secret_alone_say_so() -> None:
    here, stored = (asks(body={"api_key": secret}) for secret in ("hunter2", "hunter3"))
    assert "a secret" in told_apart(here, stored)


def test_what_is_stored_cannot_write_escape_codes_to_the_terminal() -> None:
    text = told_apart(asks(body="here"), asks(body="\x1b[2J\x9b2J\ud800"))
    assert text.isprintable()
