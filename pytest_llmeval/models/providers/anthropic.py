"""Anthropic."""

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
    import anthropic
    from anthropic.types import Message

    from pytest_llmeval.models.http.transports import Connections

REQUIREMENT = "anthropic>=1,<3"
KEY_VARIABLE = "ANTHROPIC_API_KEY"
TOKEN_VARIABLE = "ANTHROPIC_AUTH_TOKEN"  # noqa: S105 - its name, not the token
BASE_URL = "https://api.anthropic.com"
VERSION = "2023-06-01"
MAX_TOKENS = 1024  # the API asks for a bound, and this one is part of every key


def read_facts(reply: JsonObject) -> Facts:
    """Pick out of a reply who answered and what it took.

    Args:
        reply: of messages.
    """
    usage = reply.get("usage")
    tokens = usage if isinstance(usage, dict) else {}
    facts = {
        "model": reply.get("model"),
        "input_tokens": tokens.get("input_tokens"),
        "output_tokens": tokens.get("output_tokens"),
    }
    return sensible(facts)


def _has_content(reply: JsonObject) -> bool:
    """Whether a message, or what a stream said of it, is an answer: also one without blocks."""
    delta = reply.get("delta")
    told = delta if isinstance(delta, dict) else {}
    reason = reply.get("stop_reason") or told.get("stop_reason")
    blocks = reply.get("content")
    if reason == "error" or not isinstance(blocks, list | str):
        return False
    if isinstance(blocks, list) and not all(map(_is_block, blocks)):
        return False
    is_begun = bool(told.get("text") or told.get("partial_json"))
    return bool(reason or is_begun or text_of(blocks) or _has_call(blocks))


def _is_block(block: object) -> bool:
    return isinstance(block, dict) and isinstance(block.get("type"), str)


def _has_call(blocks: Sequence[Any]) -> bool:
    return any(block["type"] != "text" for block in blocks)


DIALECT = Dialect(
    provider="anthropic",
    paths=("/v1/messages",),  # neither their batches nor count_tokens
    key_variable=KEY_VARIABLE,
    beta_header="anthropic-beta",
    read_facts=read_facts,
    answers={"/v1/messages": _has_content},
)


def client(
    calls: CachedCalls, *, connect: Callable[[], Connections], retries: RetryPolicy
) -> anthropic.Anthropic:
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
    with sdk_needed("anthropic", REQUIREMENT):
        import anthropic
    from pytest_llmeval.models.http.transports import CachingTransport

    transport = CachingTransport(connect(), calls, dialect=DIALECT, retries=retries)
    api_key, auth_token = _credential()
    return anthropic.Anthropic(
        api_key=api_key,
        auth_token=auth_token,
        http_client=anthropic.DefaultHttpxClient(transport=transport),
        max_retries=0,
    )


def async_client(
    calls: CachedCalls, *, connect: Callable[[], Connections], retries: RetryPolicy
) -> anthropic.AsyncAnthropic:
    """Build the vendor's own awaitable client for one trial: as ``client``."""
    with sdk_needed("anthropic", REQUIREMENT):
        import anthropic
    from pytest_llmeval.models.http.transports import AsyncCachingTransport

    transport = AsyncCachingTransport(connect(), calls, dialect=DIALECT, retries=retries)
    api_key, auth_token = _credential()
    return anthropic.AsyncAnthropic(
        api_key=api_key,
        auth_token=auth_token,
        http_client=anthropic.DefaultAsyncHttpxClient(transport=transport),
        max_retries=0,
    )


def _credential() -> tuple[str | None, str | None]:
    """Choose what the SDK is to use: the key before the token, as it does itself.

    Not left to the SDK, which would look for a profile on the disk and fetch a token for
    it: a replay makes no call.
    """
    if not _api_key() and _token():
        return None, _token()
    return _api_key() or PLACEHOLDER_KEY, None


def _url() -> str:
    base = os.environ.get("ANTHROPIC_BASE_URL") or BASE_URL
    return f"{base.rstrip('/')}/v1/messages"


def _headers() -> dict[str, str]:
    version = {"anthropic-version": VERSION}
    if _api_key():
        return {"x-api-key": _api_key(), **version}
    return {"authorization": f"Bearer {_token()}", **version}


def _api_key() -> str:
    return key_of_environment(KEY_VARIABLE)


def _token() -> str:
    return key_of_environment(TOKEN_VARIABLE)


def _body(model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    """Word a question; the API takes what the system says beside the messages."""
    told = [params["system"]] if "system" in params else []
    told += [message["content"] for message in messages if message.get("role") == "system"]
    return {
        "model": model,
        "max_tokens": MAX_TOKENS,
        "messages": [message for message in messages if message.get("role") != "system"],
        **params,
        **({"system": told[0] if len(told) == 1 else _blocks(told)} if told else {}),
    }


def _blocks(texts: Sequence[Any]) -> list[Any]:
    """Put several texts, each a string or a list of blocks, into one list of blocks."""
    lists = [[{"type": "text", "text": t}] if isinstance(t, str) else t for t in texts]
    return [block for blocks in lists for block in blocks]


def _text(reply: Any) -> str:
    return text_of(reply["content"])


def _rebuild(reply: dict[str, Any]) -> Message:
    with sdk_needed("anthropic", REQUIREMENT):
        from anthropic.types import Message
    return Message.construct(**reply)  # as lenient as the SDK's own client


FORM = ChatForm(
    dialect=DIALECT,
    url=_url,
    headers=_headers,
    key=lambda: _api_key() or _token(),
    body=_body,
    text=_text,
    rebuild=_rebuild,
)
