"""Anthropic as a vendor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY, RequestFacts, read_body
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.message import fields_of, listed, text_of
from pytest_llmeval.models.vendors import vendor

KEY_VARIABLE = "ANTHROPIC_API_KEY"
VERSION = "2023-06-01"
_AT_GOOGLE = r"/publishers/anthropic/models/(?!count-tokens:)[^/:]+:(?:r|streamR)awPredict"
# How a stream calls the texts of a block, and how a block does.
_SAID = {"text": "text", "thinking": "thinking", "partial_json": "input"}
MAX_TOKENS = 1024  # the API asks for a bound, and this one is part of every key


def _read_request(path: str, body: JsonObject) -> RequestFacts:
    """Read the facts of a request; Google has the model and the method in the path."""
    asked = read_body(path, body)
    name, at_google, method = path.rpartition("/")[2].rpartition(":")
    if not at_google:
        return asked
    is_stream = asked.is_stream or method == "streamRawPredict"
    return asked._replace(model=unquote(name), is_stream=is_stream)


def _has_content(reply: JsonObject) -> bool:
    """Whether a message is an answer: also one without blocks."""
    reason, blocks = reply.get("stop_reason"), reply.get("content")
    if reason == "error" or not isinstance(blocks, list | str):
        return False
    kinds = [value_at(block, "type") for block in listed(blocks)]
    if not all(isinstance(kind, str) for kind in kinds):
        return False
    return bool(reason or text_of(blocks) or any(kind != "text" for kind in kinds))


def part_of_message(chunk: JsonObject) -> JsonObject:
    """Word an event of a stream as a part of a message."""
    message = chunk.get("message")
    if isinstance(message, dict):
        return message
    block, told = fields_of(chunk.get("content_block")), fields_of(chunk.get("delta"))
    if "index" not in chunk:
        return {**told, "usage": chunk.get("usage")}
    said = {own: told[name] for name, own in _SAID.items() if isinstance(told.get(name), str)}
    return {"content": [{"index": chunk["index"], **block, **said}] if block or said else []}


def _client_options(transport: vendor.Transport) -> dict[str, Any]:
    """Choose what the SDK is to use: the key before the token, as it does itself.

    Not left to the SDK, which would look for a profile on the disk and fetch a token for
    it: a replay makes no call.
    """
    own = key_of_environment(KEY_VARIABLE)
    token = None if own else VENDOR.key() or None
    keys = {"api_key": None if token else own or PLACEHOLDER_KEY, "auth_token": token}
    return {**keys, **vendor.stainless_options("anthropic", transport)}


def _headers(key: str) -> vendor.Headers:
    is_token = not key_of_environment(KEY_VARIABLE)
    header = {"authorization": f"Bearer {key}"} if is_token else {"x-api-key": key}
    return {**header, "anthropic-version": VERSION}


def _body(model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    told, asked = vendor.system_apart(messages)
    texts = [params["system"]] if "system" in params else []
    texts += [message["content"] for message in told]
    system = texts[0] if texts else None  # a single one is sent as it is
    if len(texts) > 1:  # each is a string or a list of blocks; all are one list of blocks
        lists = [[{"type": "text", "text": t}] if isinstance(t, str) else t for t in texts]
        system = [block for one in lists for block in one]
    return {
        "model": model,
        "max_tokens": MAX_TOKENS,
        "messages": asked,
        **params,
        **({"system": system} if texts else {}),
    }


VENDOR = vendor.Vendor(
    provider="anthropic",
    paths=("/v1/messages", _AT_GOOGLE),  # neither their batches nor count_tokens
    key_variable=KEY_VARIABLE,
    base_variable="ANTHROPIC_BASE_URL",
    beta_header="anthropic-beta",
    read_facts=vendor.facts_of_usage,
    part_of=part_of_message,
    read_request=_read_request,
    answers=dict.fromkeys(("/v1/messages", ":rawPredict", ":streamRawPredict"), _has_content),
    requirement="anthropic>=0.75,<3",
    base_url=vendor.from_environment("ANTHROPIC_BASE_URL", "https://api.anthropic.com"),
    chat_path="/v1/messages",
    headers=_headers,
    body=_body,
    rebuild="anthropic.types:Message.construct",  # as lenient as the SDK's own client
    client_options=_client_options,
    more_keys=("ANTHROPIC_AUTH_TOKEN",),
    hosts=("api.anthropic.com",),
    is_marked=lambda headers: "anthropic-version" in headers,
)
