"""OpenAI as a vendor, and every server that speaks its language."""

from __future__ import annotations

import os
import re
from ipaddress import ip_address
from typing import Any
from urllib.parse import SplitResult, unquote

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.models.http import dialect
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.message import fields_of, objects
from pytest_llmeval.models.vendors import vendor

# Paths that a server on this machine may have for others' clients.
_LOCAL_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings")
# Fields of a message in which a model answers.
_ANSWERING = (
    "annotations", "audio", "content", "function_call", "images", "reasoning", "reasoning_content",
    "refusal", "tool_calls",
)  # fmt: skip
# Reasons why a choice ended that the provider is to blame for. Any other is an answer.
_FAILED = ("abort", "error", "insufficient_system_resource")
_DEPLOYMENT = re.compile(r"/openai/deployments/([^/]+)/")
# By these words in their user agent other SDKs that speak this dialect tell who they are.
_AGENTS = ("mistral-client-python/", "hf_hub/")
_UPLOADS = ("/audio/transcriptions", "/audio/translations")
_ENDS = ("completed", "incomplete")


def _has_choices(reply: JsonObject) -> bool:
    choices = reply.get("choices")
    return isinstance(choices, list) and bool(choices) and all(map(_is_choice, choices))


def _is_choice(choice: object) -> bool:
    """Whether one choice is an answer: also one without text."""
    if not isinstance(choice, dict) or choice.get("error"):
        return False
    reason, message = choice.get("finish_reason"), choice.get("message") or {}
    if str(reason).lower() in _FAILED or not isinstance(message, dict):
        return False
    # /completions has a text and no message.
    return bool(reason or choice.get("text") or any(message.get(name) for name in _ANSWERING))


def _has_output(reply: JsonObject) -> bool:
    """Whether a response is an answer; one that is made in the background comes later."""
    output = reply.get("output")
    if not isinstance(output, list) or not all(value_at(item, "type") for item in output):
        return False
    return bool(output or reply.get("status") in _ENDS or reply.get("background") is True)


def _has_embeddings(reply: JsonObject) -> bool:
    """Whether each embedding is one; a server that words them otherwise is not judged."""
    data = reply.get("data")
    return not isinstance(data, list) or all(
        isinstance(item, dict) and item.get("embedding", True) for item in data
    )


def _part_of(chunk: JsonObject) -> JsonObject:
    """Word a chunk as a part of a reply; of a response, events that hold all of it count."""
    response = chunk.get("response")
    if isinstance(response, dict) or str(chunk.get("type")).startswith("response."):
        return fields_of(response)
    if "choices" not in chunk:
        return chunk
    names = {"delta": "message"}
    choices = objects(chunk["choices"])
    said = [{names.get(name, name): one[name] for name in one} for one in choices]
    return {**chunk, "choices": said}


def _read_request(path: str, body: JsonObject) -> dialect.RequestFacts:
    """Read the facts of a request; Azure has the model in the path, as the name of a deployment."""
    asked = dialect.read_body(path, body)
    deployment = None if asked.model else _DEPLOYMENT.search(path)
    return asked._replace(model=unquote(deployment[1])) if deployment else asked


def _headers(key: str) -> vendor.Headers:
    variables = {"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"}
    read = os.environ.get
    told = {name: text for name, variable in variables.items() if (text := read(variable))}
    return {"authorization": f"Bearer {key}", **told}


def _client_options(transport: vendor.Transport) -> dict[str, Any]:
    """Take a placeholder where there is no key: replays need none."""
    own_key = VENDOR.key() or dialect.PLACEHOLDER_KEY
    return {"api_key": own_key, **vendor.stainless_options("openai", transport)}


def _may_be_meant(url: SplitResult, headers: vendor.Headers) -> bool:
    if "x-stainless-lang" in headers:  # of this SDK, and of services that are like it
        return True
    if any(name in headers.get("user-agent", "") for name in _AGENTS):
        return True
    try:
        is_here = url.hostname == "localhost" or ip_address(url.hostname or "").is_loopback
    except ValueError:
        return False
    return is_here and url.path.endswith(_LOCAL_PATHS)


VENDOR = vendor.Vendor(
    provider="openai",
    paths=("/completions", "/responses", "/embeddings", "/moderations"),  # chat/ as well
    uploads=_UPLOADS,
    key_variable="OPENAI_API_KEY",
    base_variable="OPENAI_BASE_URL",
    beta_header="openai-beta",
    read_facts=vendor.facts_of_usage,
    part_of=_part_of,
    answers={
        "/completions": _has_choices,
        "/responses": _has_output,
        "/embeddings": _has_embeddings,
        **dict.fromkeys(_UPLOADS, lambda reply: isinstance(reply.get("text"), str)),
    },
    answer_fields={**dialect.ANSWER_FIELDS, "text": str},
    requirement="openai>=2.20,<4",
    base_url=vendor.from_environment("OPENAI_BASE_URL", "https://api.openai.com/v1"),
    chat_path="/chat/completions",
    headers=_headers,
    body=lambda model, messages, params: {"model": model, "messages": messages, **params},
    rebuild="openai.types.chat:ChatCompletion.construct",  # as lenient as the SDK's own client
    client_options=_client_options,
    read_request=_read_request,
    hosts=("api.openai.com", ".api.openai.com"),
    may_be_meant=_may_be_meant,
)
