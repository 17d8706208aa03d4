"""Ollama as a vendor."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pytest_llmeval.cache.key import DEFAULT_PORTS, value_at
from pytest_llmeval.cache.reply import Told
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.calls import SAMPLING_PARAMETERS
from pytest_llmeval.models.http.dialect import read_body
from pytest_llmeval.models.http.sender import CONNECT_SECONDS
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.limits.deadline import DEFAULT_SECONDS
from pytest_llmeval.models.vendors.vendor import Transport, Vendor, configured

HOST_VARIABLE = "OLLAMA_HOST"
DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 11434


def _read_facts(reply: JsonObject) -> Told:
    """Pick out of a reply of chat, generate or embed who answered and what it took."""
    return {
        "model": reply.get("model"),
        "input_tokens": reply.get("prompt_eval_count"),
        "output_tokens": reply.get("eval_count"),
    }


def _has_message(reply: JsonObject) -> bool:
    message = reply.get("message")
    if not isinstance(message, dict):
        return False
    return _has_ended(reply) or bool(message.get("content") or message.get("tool_calls"))


def _has_response(reply: JsonObject) -> bool:
    response = reply.get("response")
    return isinstance(response, str) and (_has_ended(reply) or bool(response))


def _has_embeddings(reply: JsonObject) -> bool:
    embeddings = reply.get("embeddings")
    return isinstance(embeddings, list) and all(embeddings)


def _has_ended(reply: JsonObject) -> bool:
    return reply.get("done") is True or bool(reply.get("done_reason"))


def _base_url() -> str:
    """Read OLLAMA_HOST: a host, a port, both, or a URL, with or without a path.

    Raises:
        SettingsError: it is none of these.
    """
    text = os.environ.get(HOST_VARIABLE, "")
    is_url = bool(text.partition("://")[2])
    try:
        parts = urlsplit(text if is_url else f"http://{text}")
        usual = DEFAULT_PORTS[parts.scheme]
        port = parts.port or (usual if is_url else DEFAULT_PORT)
    except (ValueError, KeyError):
        raise SettingsError(
            f"{HOST_VARIABLE}={text.rpartition('@')[2]!r} names no host. "
            f"Write a host, host:port or a URL, such as http://{DEFAULT_HOST}:{DEFAULT_PORT}."
        ) from None
    host = parts.hostname or DEFAULT_HOST
    host = f"[{host}]" if ":" in host else host
    # The usual port is left out, as the SDK's requests leave it out.
    origin = f"{parts.scheme}://{host}" + (f":{port}" if port != usual else "")
    return f"{origin}/{parts.path.strip('/')}".rstrip("/")


def _body(model: str, messages: Sequence[Any], params: Mapping[str, Any]) -> JsonObject:
    options = configured(params, "options", {name: name for name in SAMPLING_PARAMETERS})
    return {"model": model, "messages": messages, "stream": False, **options}


def _client_options(transport: Transport) -> dict[str, Any]:
    """Wait as long as the other vendors' clients do; this one would wait for ever."""
    import httpx

    timeout = httpx.Timeout(DEFAULT_SECONDS, connect=CONNECT_SECONDS)
    return {"transport": transport, "timeout": timeout}


VENDOR = Vendor(
    provider="ollama",
    paths=("/api/chat", "/api/generate", "/api/embed", "/api/embeddings"),
    key_variable="OLLAMA_API_KEY",
    read_facts=_read_facts,
    read_request=lambda path, body: read_body(path, body)._replace(sampling=body.get("options")),
    reply_limit=lambda body: value_at(body, "options", "num_predict"),
    answers={
        "/api/chat": _has_message,
        "/api/generate": _has_response,
        "/api/embed": _has_embeddings,
    },
    requirement="ollama>=0.6,<1",
    base_url=_base_url,
    chat_path="/api/chat",
    needs_key=False,  # ollama.com has keys, a server of one's own has none
    body=_body,
    rebuild="ollama:ChatResponse",  # as the SDK's own client does
    client_options=_client_options,
    hosts=("ollama.com",),
    is_marked=lambda headers: headers.get("user-agent", "").startswith("ollama-python/"),
)
