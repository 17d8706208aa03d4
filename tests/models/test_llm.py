from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.llm import ModelName, Reply, Usage, parse_model_name


@pytest.mark.parametrize(
    ("text", "provider", "model"),
    [
        ("openai/gpt-4o-mini", "openai", "gpt-4o-mini"),
        ("openai/meta-llama/Llama-3:8b", "openai", "meta-llama/Llama-3:8b"),
        ("function/app.bot:answer", "function", "app.bot:answer"),
    ],
)
def test_a_model_name_is_split_at_its_first_slash(text: str, provider: str, model: str) -> None:
    name = parse_model_name(text)

    assert name == ModelName(provider, model)


@pytest.mark.parametrize(
    ("text", "problem", "next_step"),
    [
        ("gpt-4o-mini", "names no provider", "such as openai/"),
        ("", "names no provider", "such as openai/"),
        ("openai/", "has no model", "such as openai/"),
        ("/gpt-4o-mini", "has no provider", "such as openai/"),
        (
            "mistral/large",
            "unknown provider 'mistral'",
            "Known are: function, openai, anthropic, ollama, gemini, cohere, bedrock.",
        ),
        ("function/app", "names no callable", "function/app.bot:answer"),
        ("function/app:", "names no callable", "function/app.bot:answer"),
        ("function/:answer", "names no callable", "function/app.bot:answer"),
    ],
)
def test_a_bad_model_name_is_refused_with_what_to_type(
    text: str, problem: str, next_step: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_model_name(text)

    message = str(caught.value)
    assert repr(text) in message
    assert problem in message
    assert next_step in message
    assert "\n" not in message


def test_a_reply_cannot_be_changed() -> None:
    reply = Reply(text="a", parse=str, model=None, usage=Usage(), cached=False)

    with pytest.raises(FrozenInstanceError):
        reply.text = "b"  # type: ignore[misc]  # that is the test


def test_who_forgets_the_text_of_a_reply_is_told() -> None:
    reply = Reply(text="Paris", parse=str, model=None, usage=Usage(), cached=False)

    with pytest.raises(TypeError, match=r"its text is reply\.text"):
        assert "Paris" in reply
