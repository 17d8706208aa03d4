"""Cohere as a vendor, asked without an SDK."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pytest_llmeval.cache.reply import Told
from pytest_llmeval.models.http.dialect import RequestFacts, read_body
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.message import ASKING, USER, fields_of
from pytest_llmeval.models.vendors.vendor import Vendor, from_environment

# Reasons why a chat ended that the provider is to blame for.
_FAILED = ("ERROR", "TIMEOUT")
_ANSWERING = ("content", "tool_calls", "tool_plan")


def _read_request(path: str, body: JsonObject) -> RequestFacts:
    asked = read_body(path, body)
    return asked._replace(sampling={**body, "top_p": body["p"]}) if "p" in body else asked


def _read_facts(reply: JsonObject) -> Told:
    """Pick out of a reply what it took, and was billed for; version 1 has it in ``meta``."""
    usage = fields_of(reply.get("usage") or reply.get("meta"))
    tokens = fields_of(usage.get("billed_units") or usage.get("tokens"))
    return {name: tokens.get(name) for name in ("input_tokens", "output_tokens")}


def _has_message(reply: JsonObject) -> bool:
    """Whether a chat of version 1 or 2 is an answer."""
    reason, message = reply.get("finish_reason"), fields_of(reply.get("message"))
    if reason in _FAILED:
        return False
    return bool(reason or reply.get("text") or any(message.get(name) for name in _ANSWERING))


def _part_of(chunk: JsonObject) -> JsonObject:
    """Word an event as a part of a reply; the last one of version 1 holds all of it."""
    if "event_type" in chunk:
        response = fields_of(chunk.get("response"))
        return {**response, "finish_reason": chunk.get("finish_reason")}
    delta, place = fields_of(chunk.get("delta")), {"index": chunk.get("index")}
    message = {
        name: [{**place, **said}] if isinstance(said, Mapping) else said
        for name, said in fields_of(delta.get("message")).items()
        if name in _ANSWERING
    }
    return {**delta, "message": message}


def _has_embeddings(reply: JsonObject) -> bool:
    """Whether there are embeddings: one list, or by their type a list each."""
    found = reply.get("embeddings")
    lists = list(found.values()) if isinstance(found, dict) else [found]
    return bool(lists) and all(isinstance(one, list) and all(one) for one in lists)


def _body(model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    """Word a question; the API calls ``top_p`` ``p``, and Cohere's client names ``stream``."""
    own = {"p" if name == "top_p" else name: value for name, value in params.items()}
    return {"model": model, "messages": messages, "stream": False, **own}


VENDOR = Vendor(
    provider="cohere",
    paths=("/v1/chat", "/v2/chat", "/v1/embed", "/v2/embed", "/v1/rerank", "/v2/rerank"),
    key_variable="CO_API_KEY",
    base_variable="CO_API_URL",
    read_facts=_read_facts,
    read_request=_read_request,
    part_of=_part_of,
    asking={**ASKING, "message": USER, "texts": USER, "query": USER},
    is_whole=lambda reply: bool(reply.get("finish_reason")),
    answer_fields={"message": dict, "text": str, "embeddings": (dict, list), "results": list},
    answers={
        "/chat": _has_message,
        "/embed": _has_embeddings,
        "/rerank": lambda reply: isinstance(reply.get("results"), list),
    },
    base_url=from_environment("CO_API_URL", "https://api.cohere.com"),
    chat_path="/v2/chat",
    body=_body,
    more_keys=("COHERE_API_KEY",),
    hosts=("api.cohere.com", "api.cohere.ai"),
    is_marked=lambda headers: headers.get("x-fern-sdk-name") == "cohere",
)
