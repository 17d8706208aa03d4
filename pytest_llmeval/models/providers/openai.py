"""OpenAI and every server that speaks its language."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_llmeval.models.base import Facts
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http.exchange import PLACEHOLDER_KEY, Dialect, JsonObject
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.limits.retries import RetryPolicy
from pytest_llmeval.models.providers.chat import ChatForm, text_of
from pytest_llmeval.models.providers.sdk import sdk_needed
from pytest_llmeval.models.reply_facts import sensible

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

    from pytest_llmeval.models.http.transports import Connections

REQUIREMENT = "openai>=3,<4"
KEY_VARIABLE = "OPENAI_API_KEY"
BASE_URL = "https://api.openai.com/v1"
# Fields of a message in which a model answers.
_ANSWERING = (
    "annotations",
    "audio",
    "content",
    "function_call",
    "images",
    "reasoning",
    "reasoning_content",
    "refusal",
    "tool_calls",
)
# Reasons why a choice ended that the provider is to blame for. Any other is an answer.
_FAILED = ("abort", "error", "insufficient_system_resource")
_ENDS = ("completed", "incomplete")


def read_facts(reply: JsonObject) -> Facts:
    """Pick out of a reply who answered and what it took.

    Args:
        reply: of chat completions, responses, embeddings or a server that is like them.
    """
    usage = reply.get("usage")
    tokens = usage if isinstance(usage, dict) else {}
    facts = {
        "model": reply.get("model"),
        "fingerprint": reply.get("system_fingerprint"),
        "input_tokens": tokens.get("prompt_tokens", tokens.get("input_tokens")),
        "output_tokens": tokens.get("completion_tokens", tokens.get("output_tokens")),
    }
    return sensible(facts)


def _has_choices(reply: JsonObject) -> bool:
    choices = reply.get("choices")
    return isinstance(choices, list) and bool(choices) and all(map(_is_choice, choices))


def _is_choice(choice: object) -> bool:
    """Whether one choice, or what a stream said of it, is an answer: also one without text."""
    if not isinstance(choice, dict) or choice.get("error"):
        return False
    reason = choice.get("finish_reason")
    message = choice.get("message", choice.get("delta")) or {}
    if str(reason).lower() in _FAILED or not isinstance(message, dict):
        return False
    # /completions has a text and no message.
    return bool(reason or choice.get("text") or any(message.get(name) for name in _ANSWERING))


def _has_output(reply: JsonObject) -> bool:
    """Whether a response is an answer; one that is made in the background comes later."""
    output = reply.get("output")
    if not isinstance(output, list):
        return False
    if not all(isinstance(item, dict) and item.get("type") for item in output):
        return False
    return bool(output or reply.get("status") in _ENDS or reply.get("background") is True)


def _has_embeddings(reply: JsonObject) -> bool:
    """Whether each embedding is one; a server that words them otherwise is not judged."""
    data = reply.get("data")
    return not isinstance(data, list) or all(map(_is_embedding, data))


def _is_embedding(item: object) -> bool:
    return isinstance(item, dict) and bool(item.get("embedding", True))


DIALECT = Dialect(
    provider="openai",
    paths=("/completions", "/responses", "/embeddings", "/moderations"),  # chat/ as well
    key_variable=KEY_VARIABLE,
    beta_header="openai-beta",
    read_facts=read_facts,
    answers={
        "/completions": _has_choices,
        "/responses": _has_output,
        "/embeddings": _has_embeddings,
    },
)


def client(
    calls: CachedCalls, *, connect: Callable[[], Connections], retries: RetryPolicy
) -> openai.OpenAI:
    """Build the vendor's own client for one trial, with replies kept.

    It reads its base URL and the like from the environment as always. Without a key it
    works as long as every reply is stored.

    Args:
        calls: the calls of the trial.
        connect: gives what sends a request; it is left open.
        retries: how to try again; the SDK itself does not.

    Raises:
        ProviderNotInstalled: the SDK cannot be imported.
    """
    with sdk_needed("openai", REQUIREMENT):
        import openai
    from pytest_llmeval.models.http.transports import CachingTransport

    transport = CachingTransport(connect(), calls, dialect=DIALECT, retries=retries)
    return openai.OpenAI(
        api_key=_key() or PLACEHOLDER_KEY,
        http_client=openai.DefaultHttpxClient(transport=transport),
        max_retries=0,
    )


def async_client(
    calls: CachedCalls, *, connect: Callable[[], Connections], retries: RetryPolicy
) -> openai.AsyncOpenAI:
    """Build the vendor's own awaitable client for one trial: as ``client``."""
    with sdk_needed("openai", REQUIREMENT):
        import openai
    from pytest_llmeval.models.http.transports import AsyncCachingTransport

    transport = AsyncCachingTransport(connect(), calls, dialect=DIALECT, retries=retries)
    return openai.AsyncOpenAI(
        api_key=_key() or PLACEHOLDER_KEY,
        http_client=openai.DefaultAsyncHttpxClient(transport=transport),
        max_retries=0,
    )


def _url() -> str:
    base = os.environ.get("OPENAI_BASE_URL") or BASE_URL
    return f"{base.rstrip('/')}/chat/completions"


def _headers() -> dict[str, str]:
    headers = {"authorization": f"Bearer {_key()}"}
    for name, variable in (
        ("openai-organization", "OPENAI_ORG_ID"),
        ("openai-project", "OPENAI_PROJECT_ID"),
    ):
        if os.environ.get(variable):
            headers[name] = os.environ[variable]
    return headers


def _key() -> str:
    return key_of_environment(KEY_VARIABLE)


def _body(model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    return {"model": model, "messages": messages, **params}


def _text(reply: Any) -> str:
    message = reply["choices"][0].get("message")
    return text_of(message.get("content")) if isinstance(message, dict) else ""


def _rebuild(reply: dict[str, Any]) -> ChatCompletion:
    with sdk_needed("openai", REQUIREMENT):
        from openai.types.chat import ChatCompletion
    return ChatCompletion.construct(**reply)  # as lenient as the SDK's own client


FORM = ChatForm(
    dialect=DIALECT,
    url=_url,
    headers=_headers,
    key=_key,
    body=_body,
    text=_text,
    rebuild=_rebuild,
)
