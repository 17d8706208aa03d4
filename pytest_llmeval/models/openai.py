"""OpenAI and every server that speaks its language."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pytest_llmeval.errors import ProviderFailed, ProviderNotInstalled, ReplayMiss
from pytest_llmeval.models.base import CachedCalls, Facts, Messages, Reply, Usage
from pytest_llmeval.models.exchange import (
    CACHED_HEADER,
    FAILURE_HEADER,
    MISS_CODE,
    PLACEHOLDER_KEY,
    Dialect,
    JsonObject,
)
from pytest_llmeval.models.retries import RetryPolicy
from pytest_llmeval.records import Failure

if TYPE_CHECKING:
    import httpx2
    import openai
    from openai.types.chat import ChatCompletion, ChatCompletionMessageParam

KEY_VARIABLE = "OPENAI_API_KEY"


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
    return {name: value for name, value in facts.items() if isinstance(value, str | int)}


DIALECT = Dialect(
    provider="openai",
    paths=("/completions", "/responses", "/embeddings", "/moderations"),  # chat/ as well
    key_variable=KEY_VARIABLE,
    beta_header="openai-beta",
    read_facts=read_facts,
)


def open_connections() -> httpx2.BaseTransport:
    """Open what the clients of all trials share; to be closed at the end of the session.

    Raises:
        ProviderNotInstalled: the SDK cannot be imported.
    """
    try:
        import openai

        from pytest_llmeval.models.transport import ClientTransport
    except ImportError as exc:
        raise ProviderNotInstalled(
            f'the openai SDK cannot be imported ({exc}). Type:  pip install "openai>=3,<4"'
        ) from exc
    return ClientTransport(openai.DefaultHttpxClient())


def client(
    calls: CachedCalls, *, connections: httpx2.BaseTransport, retries: RetryPolicy
) -> openai.OpenAI:
    """Build the vendor's own client for one trial, with replies kept.

    It reads its base URL and the like from the environment as always. Without a key it
    works as long as every reply is stored.

    Args:
        calls: the calls of the trial.
        connections: what sends a request; left open.
        retries: how to try again; the SDK itself does not.
    """
    import openai

    from pytest_llmeval.models.transport import CachingTransport

    transport = CachingTransport(connections, calls, dialect=DIALECT, retries=retries)
    return openai.OpenAI(
        api_key=_key() or PLACEHOLDER_KEY,
        http_client=openai.DefaultHttpxClient(transport=transport),
        max_retries=0,
    )


class OpenAIProvider:
    """Asks chat models.

    The wire form is frozen, ``model``, ``messages`` and what the test adds to
    /chat/completions: any other default would give every stored reply a new key.
    """

    def __init__(self, client: openai.OpenAI) -> None:
        self._client = client

    def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask and wait for the reply.

        Raises:
            ProviderFailed: there is none, or it holds no answer.
            ReplayMiss: only replays are wanted and it is not stored.
        """
        import openai

        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=model,
                messages=cast("list[ChatCompletionMessageParam]", list(messages)),
                extra_body=dict(params),
            )
        except openai.APIStatusError as exc:
            raise _status_error(model, exc) from exc
        except openai.OpenAIError as exc:
            cause = exc.__cause__ or exc
            raise ProviderFailed(f"openai/{model} gave no reply: {exc} ({cause!r})") from exc
        completion = raw.parse()
        if not getattr(completion, "choices", None):
            raise ProviderFailed(f"openai/{model} gave a reply without choices")
        return _reply(completion, cached=raw.headers[CACHED_HEADER] == "true")


def _reply(completion: ChatCompletion, *, cached: bool) -> Reply:
    usage = completion.usage
    return Reply(
        text=completion.choices[0].message.content or "",
        raw=completion,
        model=completion.model,
        usage=Usage(
            input_tokens=usage.prompt_tokens if usage else None,
            output_tokens=usage.completion_tokens if usage else None,
        ),
        cached=cached,
    )


def _status_error(model: str, exc: openai.APIStatusError) -> ProviderFailed | ReplayMiss:
    detail = str(exc.body.get("message", "")) if isinstance(exc.body, dict) else ""
    if exc.code == MISS_CODE:
        return ReplayMiss(detail)
    status = f"HTTP {exc.status_code} {exc.response.reason_phrase}".rstrip()
    return ProviderFailed(
        f"openai/{model} gave no reply: {status}: {_without_key(detail)}",
        failure=cast("Failure", exc.response.headers[FAILURE_HEADER]),
    )


def _key() -> str:
    # Set and empty where a CI service did not pass the secret on; a line end at its end
    # would be quoted, key and all, by the error that it causes.
    return os.environ.get(KEY_VARIABLE, "").strip()


def _without_key(text: str) -> str:
    """Blank the key, which some servers quote when they refuse it."""
    key = _key()
    return text.replace(key, "***") if key else text
