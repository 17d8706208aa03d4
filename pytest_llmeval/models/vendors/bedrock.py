"""Amazon Bedrock as a vendor: its own language, Converse, and the models' languages by ``invoke``.

We ask with a key of Bedrock's. Clients of the application may sign what they ask instead: headers
are no part of a key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.reply import Told
from pytest_llmeval.models.http.dialect import ANSWER_FIELDS, RequestFacts
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.vendors import vendor
from pytest_llmeval.models.vendors.anthropic import part_of_message

BASE_VARIABLE = "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"
_MODEL = re.compile(r"/model/([^/]+)/[\w-]+$")
_CONVERSE, _CONVERSE_STREAM = "/converse", "/converse-stream"
_STREAMS = (_CONVERSE_STREAM, "/invoke-with-response-stream")
# Our names of parameters, and the API's.
_SAMPLING = {"temperature": "temperature", "top_p": "topP", "max_tokens": "maxTokens"}
_COUNTS = "amazon-bedrock-invocationMetrics"  # they end each stream of a model's own chunks


def _read_request(path: str, body: JsonObject) -> RequestFacts:
    """Read the facts of a request, which has its model and its method in the path."""
    found, config = _MODEL.search(path), body.get("inferenceConfig")
    sampling = config if isinstance(config, Mapping) else body
    named = {"top_p": sampling["topP"]} if "topP" in sampling else {}
    model = unquote(found[1]) if found else None
    return RequestFacts(model, path.endswith(_STREAMS), {**sampling, **named})


def _read_facts(reply: JsonObject) -> Told:
    """Pick out of a reply who answered and what it took, as Converse or as the model words it."""
    facts: dict[str, Any] = {**vendor.facts_of_usage(reply)}
    for place, ending in (("usage", "Tokens"), (_COUNTS, "TokenCount")):
        for side in ("input", "output"):
            count = value_at(reply, place, f"{side}{ending}")
            facts |= {} if count is None else {f"{side}_tokens": count}
    return facts


def _part_of(chunk: JsonObject) -> JsonObject:
    """Word an event of Converse as a part of a reply, or a chunk of a model's own as that does."""
    place = chunk.get("contentBlockIndex")
    if place is not None:
        begun, delta = (value_at(chunk, name) for name in ("start", "delta"))
        blocks = [one for one in (begun, delta) if isinstance(one, dict)]
        return {"output": {"message": {"content": [{"index": place, **one} for one in blocks]}}}
    if "type" not in chunk:
        return chunk
    return {**part_of_message(chunk), _COUNTS: chunk.get(_COUNTS)}  # Anthropic's


def _common(value: Any) -> Any:
    """Word a message of Converse, or one of its blocks, as most vendors do."""
    if isinstance(value, list):
        return list(map(_common, value))
    message: Any = value_at(value, "message") or value  # in the output of a reply
    content, call, result = (
        value_at(message, name) for name in ("content", "toolUse", "toolResult")
    )
    if isinstance(call, dict):
        return {**call, "type": "tool_use"}
    if isinstance(result, dict):
        return {**result, "type": "tool_result", "content": _common(result.get("content"))}
    return {**message, "content": _common(content)} if isinstance(content, list) else message


def _has_message(reply: JsonObject) -> bool:
    return bool(reply.get("stopReason") or value_at(reply, "output", "message", "content"))


def _base_url() -> str:
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    usual = f"https://bedrock-runtime.{region}.amazonaws.com"
    return os.environ.get(BASE_VARIABLE) or usual


def _body(_model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    told, asked = vendor.system_apart(messages)
    system = [part for one in told for part in vendor.text_parts(one.get("content"))]
    return {
        "messages": [
            {"role": one.get("role"), "content": vendor.text_parts(one.get("content"))}
            for one in asked
        ],
        **({"system": system} if system else {}),
        **vendor.configured(params, "inferenceConfig", _SAMPLING),
    }


VENDOR = vendor.Vendor(
    provider="bedrock",
    paths=(r"/model/[^/]+/(?:converse|invoke)(?:-stream|-with-response-stream)?",),
    key_variable="AWS_BEARER_TOKEN_BEDROCK",
    base_variable=BASE_VARIABLE,
    read_facts=_read_facts,
    read_request=_read_request,
    part_of=_part_of,
    common=_common,
    is_whole=lambda reply: bool(reply.get("stopReason") or reply.get(_COUNTS)),
    # Each model answers ``invoke`` in its own words.
    answer_fields={
        **ANSWER_FIELDS, "artifacts": list, "completion": str, "generation": str,
        "generations": list, "images": list, "output": (dict, list), "outputs": list, "text": str,
    },
    reply_limit=lambda body: value_at(body, "inferenceConfig", "maxTokens"),
    answers={_CONVERSE: _has_message, _CONVERSE_STREAM: _has_message},
    base_url=_base_url,
    chat_path="/model/{model}/converse",
    body=_body,
    hosts=(
        "bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com",
        "bedrock-runtime.*.amazonaws.com.cn", "bedrock-runtime.*.api.aws",
        ".bedrock-runtime.*.vpce.amazonaws.com", "bedrock-mantle.*.api.aws",
    ),
)  # fmt: skip
