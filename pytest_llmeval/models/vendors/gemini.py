"""Gemini as a vendor: Google's API for developers, asked without an SDK."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.reply_facts import Told
from pytest_llmeval.models.http.dialect import RequestFacts
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.message import SYSTEM, USER, as_json
from pytest_llmeval.models.vendors.vendor import (
    Vendor,
    configured,
    from_environment,
    system_apart,
    text_parts,
)

_ASK, _STREAM = ":generateContent", ":streamGenerateContent"
_EMBED, _EMBED_ALL = ":embedContent", ":batchEmbedContents"
_PATHS = (_ASK, _STREAM, _EMBED, _EMBED_ALL)
_MODEL = re.compile(r"/models/([^/]+):\w+$")
# Our names of sampling parameters, and the API's.
_SAMPLING = {"temperature": "temperature", "seed": "seed", "top_p": "topP"}
_ROLES = {"assistant": "model"}
_NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")


def _read_request(path: str, body: JsonObject) -> RequestFacts:
    """Read the facts of a request, which has its model and its method in the path."""
    found, config = _MODEL.search(path), _config(body)
    return RequestFacts(
        model=unquote(found[1]) if found else None,
        is_stream=path.endswith(_STREAM),
        sampling={name: config[own] for name, own in _SAMPLING.items() if own in config},
    )


def _read_facts(reply: JsonObject) -> Told:
    """Pick out of a reply who answered and what it took; counts of 0 are left out on the wire."""
    facts: dict[str, Any] = {"model": reply.get("modelVersion")}
    usage = reply.get("usageMetadata")
    if isinstance(usage, dict) and "promptTokenCount" in usage:
        facts["input_tokens"] = _sum(usage, "promptTokenCount", "toolUsePromptTokenCount")
        facts["output_tokens"] = _sum(usage, "candidatesTokenCount", "thoughtsTokenCount")
        facts["cached_input_tokens"] = usage.get("cachedContentTokenCount") or None
    return facts


def _sum(usage: Mapping[str, Any], *names: str) -> int | None:
    counts = [usage.get(name, 0) for name in names]
    return sum(counts) if all(type(count) is int for count in counts) else None


def _has_candidates(reply: JsonObject) -> bool:
    """Whether a reply is an answer: also the verdict of a filter, which leaves no candidate."""
    candidates = _candidates(reply)
    return all(map(_is_candidate, candidates)) if candidates else _is_blocked(reply)


def _medium(medium: Mapping[str, Any]) -> JsonObject:
    kind = str(medium.get("mimeType", "file")).partition("/")[0]
    return {"type": kind, "data": {**medium, "mimeType": ""}}


_COMMON: Mapping[str, Callable[[Mapping[str, Any]], JsonObject]] = {
    "functionCall": lambda call: {**call, "type": "tool_use", "input": call.get("args")},
    "functionResponse": lambda told: {
        "type": "tool_result",
        "content": as_json(told.get("response")),
    },
    "inlineData": _medium,
    "fileData": _medium,
}


def _common(value: Any) -> Any:
    """Word contents, or parts of one, as most vendors do; a stream may end in an empty text."""
    if isinstance(value, list):
        return [_common(one) for one in value if one != {"text": ""}]
    if not isinstance(value, dict):
        return value
    for name, word in _COMMON.items():
        if isinstance(value.get(name), dict):
            return word(value[name])
    if value.get("thought") is True:
        return {"thinking": value.get("text")}
    said = value.get("parts", value.get("content"))
    speaker = "assistant" if value.get("role") == "model" else value.get("role")
    return value if said is None else {"role": speaker, "content": _common(said)}


def _has_ended(reply: JsonObject) -> bool:
    """Whether every candidate came to its end."""
    candidates = _candidates(reply)
    return all(map(_has_reason, candidates)) if candidates else _is_blocked(reply)


def _candidates(reply: JsonObject) -> list[Any]:
    candidates = reply.get("candidates")
    return candidates if isinstance(candidates, list) else []


def _is_blocked(reply: JsonObject) -> bool:
    return bool(value_at(reply, "promptFeedback", "blockReason"))


def _is_candidate(candidate: object) -> bool:
    return _has_reason(candidate) or bool(_parts_of(candidate))


def _has_reason(candidate: object) -> bool:
    return isinstance(candidate, dict) and candidate.get("finishReason") not in _NO_REASON


def _parts_of(candidate: object) -> list[Any]:
    parts = value_at(candidate, "content", "parts")
    return parts if isinstance(parts, list) else []


def _has_embeddings(reply: JsonObject) -> bool:
    embeddings = reply.get("embeddings")
    return isinstance(embeddings, list) and all(value_at(one, "values") for one in embeddings)


def _config(body: JsonObject) -> Mapping[str, Any]:
    config = body.get("generationConfig")
    return config if isinstance(config, Mapping) else {}


def _reply_limit(body: JsonObject) -> object:
    """Read the most tokens of a reply; each candidate may have so many."""
    limit, copies = (_config(body).get(name) for name in ("maxOutputTokens", "candidateCount"))
    return limit * max(copies, 1) if isinstance(limit, int) and isinstance(copies, int) else limit


def _body(_model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    """Word a question; the API calls the assistant ``model``."""
    told, asked = system_apart(messages)
    system = [part for one in told for part in _parts(one)]
    contents = [
        {"role": _ROLES.get(one.get("role"), one.get("role")), "parts": _parts(one)}
        for one in asked
    ]
    return {
        "contents": contents,
        **({"systemInstruction": {"parts": system}} if system else {}),
        **configured(params, "generationConfig", _SAMPLING),
    }


def _parts(message: Mapping[str, Any]) -> list[Any]:
    """Read the parts of a message: its text, or what is in the API's own words already."""
    return text_parts(message.get("parts", message.get("content")))


VENDOR = Vendor(
    provider="gemini",
    paths=_PATHS,
    key_variable="GEMINI_API_KEY",
    base_variable="GOOGLE_GEMINI_BASE_URL",
    read_facts=_read_facts,
    read_request=_read_request,
    asking={
        "systemInstruction": SYSTEM,
        **dict.fromkeys(("contents", "content", "requests"), USER),
    },
    said=lambda reply: map(_parts_of, _candidates(reply)),
    common=_common,
    is_whole=_has_ended,
    answer_fields={
        "candidates": list,
        "promptFeedback": dict,
        "embedding": dict,
        "embeddings": list,
    },
    reply_limit=_reply_limit,
    answers={
        _ASK: _has_candidates,
        _STREAM: _has_candidates,
        _EMBED: lambda reply: bool(value_at(reply, "embedding", "values")),
        _EMBED_ALL: _has_embeddings,
    },
    base_url=from_environment(
        "GOOGLE_GEMINI_BASE_URL", "https://generativelanguage.googleapis.com"
    ),
    chat_path="/v1beta/models/{model}:generateContent",
    headers=lambda key: {"x-goog-api-key": key},
    body=_body,
    more_keys=("GOOGLE_API_KEY",),
    hosts=("generativelanguage.googleapis.com",),
    is_marked=lambda headers: "google-genai-sdk/" in headers.get("x-goog-api-client", ""),
)
