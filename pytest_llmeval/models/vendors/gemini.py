"""Gemini as a vendor: Google's API for developers, asked without an SDK."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import unquote

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.reply import Told
from pytest_llmeval.models.http.dialect import RequestFacts
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.message import SYSTEM, USER, as_json, fields_of, listed
from pytest_llmeval.models.vendors import vendor

_ASK, _STREAM = ":generateContent", ":streamGenerateContent"
_EMBED, _EMBED_ALL = ":embedContent", ":batchEmbedContents"
_PATHS = (_ASK, _STREAM, _EMBED, _EMBED_ALL)
_MODEL = re.compile(r"/models/([^/]+):\w+$")
# Our names of sampling parameters, and the API's.
_SAMPLING = {"temperature": "temperature", "seed": "seed", "top_p": "topP"}
_ROLES = {"assistant": "model"}
_BASE_VARIABLE = "GOOGLE_GEMINI_BASE_URL"
_ANSWER_FIELDS = {"candidates": list, "promptFeedback": dict, "embedding": dict, "embeddings": list}
_NO_REASON = (None, "", "FINISH_REASON_UNSPECIFIED")


def _read_request(path: str, body: JsonObject) -> RequestFacts:
    """Read the facts of a request, which has its model and its method in the path."""
    found, config = _MODEL.search(path), fields_of(body.get("generationConfig"))
    sampling = {name: config[own] for name, own in _SAMPLING.items() if own in config}
    return RequestFacts(unquote(found[1]) if found else None, path.endswith(_STREAM), sampling)


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


def _are_all(is_one: Callable[[object], bool], reply: JsonObject) -> bool:
    """Tell something of every candidate; the verdict of a filter leaves none, and is an answer."""
    candidates = listed(reply.get("candidates"))
    is_blocked = bool(value_at(reply, "promptFeedback", "blockReason"))
    return all(map(is_one, candidates)) if candidates else is_blocked


def _has_reason(candidate: object) -> bool:
    """Whether a candidate came to its end."""
    return isinstance(candidate, dict) and candidate.get("finishReason") not in _NO_REASON


def _is_answer(candidate: object) -> bool:
    return _has_reason(candidate) or bool(_parts_of(candidate))


def _parts_of(candidate: object) -> list[Any]:
    return listed(value_at(candidate, "content", "parts"))


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


def _has_embeddings(reply: JsonObject) -> bool:
    embeddings = reply.get("embeddings")
    return isinstance(embeddings, list) and all(value_at(one, "values") for one in embeddings)


def _reply_limit(body: JsonObject) -> object:
    """Read the most tokens of a reply; each candidate may have so many."""
    config = fields_of(body.get("generationConfig"))
    limit, copies = config.get("maxOutputTokens"), config.get("candidateCount")
    return limit * max(copies, 1) if isinstance(limit, int) and isinstance(copies, int) else limit


def _body(_model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    """Word a question; the API calls the assistant ``model``."""
    told, asked = vendor.system_apart(messages)
    system = [part for one in told for part in _parts(one)]
    contents = [
        {"role": _ROLES.get(one.get("role"), one.get("role")), "parts": _parts(one)}
        for one in asked
    ]
    return {
        "contents": contents,
        **({"systemInstruction": {"parts": system}} if system else {}),
        **vendor.configured(params, "generationConfig", _SAMPLING),
    }


def _parts(message: Mapping[str, Any]) -> list[Any]:
    """Read the parts of a message: its text, or what is in the API's own words already."""
    return vendor.text_parts(message.get("parts", message.get("content")))


VENDOR = vendor.Vendor(
    provider="gemini",
    paths=_PATHS,
    key_variable="GEMINI_API_KEY",
    base_variable=_BASE_VARIABLE,
    read_facts=_read_facts,
    read_request=_read_request,
    asking={"systemInstruction": SYSTEM, "contents": USER, "content": USER, "requests": USER},
    said=lambda reply: map(_parts_of, listed(reply.get("candidates"))),
    common=_common,
    is_whole=partial(_are_all, _has_reason),
    answer_fields=_ANSWER_FIELDS,
    reply_limit=_reply_limit,
    answers={
        **dict.fromkeys((_ASK, _STREAM), partial(_are_all, _is_answer)),
        _EMBED: lambda reply: bool(value_at(reply, "embedding", "values")),
        _EMBED_ALL: _has_embeddings,
    },
    base_url=vendor.from_environment(_BASE_VARIABLE, "https://generativelanguage.googleapis.com"),
    chat_path="/v1beta/models/{model}:generateContent",
    headers=lambda key: {"x-goog-api-key": key},
    body=_body,
    more_keys=("GOOGLE_API_KEY",),
    hosts=("generativelanguage.googleapis.com",),
    is_marked=lambda headers: "google-genai-sdk/" in headers.get("x-goog-api-client", ""),
)
