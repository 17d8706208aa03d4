from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_llmeval.models.limits.prices import ADDED_TOKENS, most_input_tokens, most_output_tokens
from pytest_llmeval.models.vendors import ollama

ASKED = {"model": "gpt", "messages": [{"role": "user", "content": "Grüße, 世界"}]}


def asked(**more: object) -> dict[str, Any]:
    return {**ASKED, **more}


def test_a_text_has_no_more_tokens_than_bytes() -> None:
    size = len(json.dumps(ASKED, ensure_ascii=False, separators=(",", ":")).encode())

    assert most_input_tokens(ASKED, window=None) == size + ADDED_TOKENS


def test_half_a_character_is_counted_too() -> None:
    assert most_input_tokens({"input": "\ud83d"}, window=None) is not None


@pytest.mark.parametrize(
    "more",
    [
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": "https://a"}}]}]},
        {"messages": [{"content": [{"type": "document", "source": {"type": "url"}}]}]},
        {"messages": [{"content": "what is it?", "images": ["aGk="]}]},
        {"previous_response_id": "resp_1"},
        {"prompt": {"id": "pmpt_1"}},
        {"tools": [{"type": "web_search"}]},
        {"tools": ["search"]},
    ],
)
def test_what_points_to_more_than_its_text_may_fill_the_window(more: dict[str, Any]) -> None:
    assert most_input_tokens(asked(**more), window=1000) == 1000
    assert most_input_tokens(asked(**more), window=None) is None


@pytest.mark.parametrize(
    "more",
    [
        {"previous_response_id": None},
        {"prompt": "a text"},
        {"tools": [{"type": "function"}, {"name": "of anthropic"}]},
    ],
)
def test_text_alone_is_told_by_its_bytes(more: dict[str, Any]) -> None:
    assert most_input_tokens(asked(**more), window=1) != 1


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({}, 1000),
        ({"max_tokens": 50}, 50),
        ({"max_completion_tokens": 60}, 60),
        ({"max_output_tokens": 70, "max_tokens": 50}, 70),
        ({"max_tokens": None}, 1000),
        ({"max_tokens": 50, "n": 3}, 150),
        ({"n": 2, "best_of": 4}, 4000),
    ],
)
def test_a_reply_is_as_long_as_its_limit_or_the_window(more: dict[str, Any], most: int) -> None:
    assert most_output_tokens(asked(**more), window=1000) == most


@pytest.mark.parametrize(
    ("more", "most"),
    [
        ({"options": {"num_predict": 80}}, 80),
        ({"options": {"num_predict": 80}, "max_tokens": 90}, 90),
        ({"options": {"num_predict": -1}}, 1000),
        ({"options": None}, 1000),
    ],
)
def test_a_vendor_may_have_a_limit_of_its_own(more: dict[str, Any], most: int) -> None:
    body = asked(**more)
    limit = ollama.VENDOR.reply_limit(body)

    assert most_output_tokens(body, window=1000, own_limit=limit) == most


def test_without_limit_and_window_nothing_is_known() -> None:
    assert most_output_tokens(ASKED, window=None) is None
