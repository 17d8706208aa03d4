"""OpenAI and every server that speaks its language."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_llmeval.errors import ProviderFailed, ProviderNotInstalled
from pytest_llmeval.models.async_exchange import answer_async
from pytest_llmeval.models.base import CachedCalls, Facts, Messages, Reply, Usage
from pytest_llmeval.models.exchange import (
    PLACEHOLDER_KEY,
    Dialect,
    HttpFailed,
    JsonObject,
    Post,
    WireRequest,
    answer,
    error_message,
)
from pytest_llmeval.models.retries import NetworkFailed, RetryPolicy, WireReply

if TYPE_CHECKING:
    import openai
    from openai.types.chat import ChatCompletion

    from pytest_llmeval.models.transport import Connections

KEY_VARIABLE = "OPENAI_API_KEY"
BASE_URL = "https://api.openai.com/v1"


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
    try:
        import openai
    except ImportError as exc:
        raise _not_installed(exc) from exc
    from pytest_llmeval.models.transport import CachingTransport

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
    try:
        import openai
    except ImportError as exc:
        raise _not_installed(exc) from exc
    from pytest_llmeval.models.transport import AsyncCachingTransport

    transport = AsyncCachingTransport(connect(), calls, dialect=DIALECT, retries=retries)
    return openai.AsyncOpenAI(
        api_key=_key() or PLACEHOLDER_KEY,
        http_client=openai.DefaultAsyncHttpxClient(transport=transport),
        max_retries=0,
    )


class _Asks:
    """Asks chat models, without the SDK in between.

    The wire form is frozen, ``model``, ``messages`` and what the test adds to
    /chat/completions: any other default would give every stored reply a new key. As it
    needs nothing that the SDK knows, a question costs half of what it costs through the
    SDK, and a replay does not even import it.
    """

    def __init__(self, calls: CachedCalls, *, post: Post, retries: RetryPolicy) -> None:
        self._calls = calls
        self._post = post
        self._retries = retries

    def _question(
        self, model: str, messages: Messages, params: Mapping[str, object]
    ) -> tuple[WireRequest, Callable[[], WireReply]]:
        """Word the request, and what sends it once."""
        body = {"model": model, "messages": [_plain(m) for m in messages], **params}
        base = os.environ.get("OPENAI_BASE_URL") or BASE_URL
        # Read here and not where the call is made: there another trial may have the baton,
        # and the environment be its own.
        return _request(base, body), partial(self._attempt, _url(base), _headers(), body)

    def _attempt(self, url: str, headers: Mapping[str, str], body: JsonObject) -> WireReply:
        content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        return self._post(url, headers=headers, content=content)


class OpenAIProvider(_Asks):
    """Asks, and waits."""

    def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask and wait for the reply.

        Raises:
            ProviderFailed: there is none, or it holds no answer.
            ReplayMiss: only replays are wanted and it is not stored.
        """
        request, attempt = self._question(model, messages, params)
        with _failures_told(model):
            stored = answer(
                request, attempt, dialect=DIALECT, calls=self._calls, retries=self._retries
            )
        return _reply(model, stored.body, cached=stored.replayed)


class AsyncOpenAIProvider(_Asks):
    """Asks on behalf of a coroutine."""

    async def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask and await the reply.

        Raises:
            ProviderFailed: there is none, or it holds no answer.
            ReplayMiss: only replays are wanted and it is not stored.
        """
        request, attempt = self._question(model, messages, params)
        with _failures_told(model):
            stored = await answer_async(
                request, attempt, dialect=DIALECT, calls=self._calls, retries=self._retries
            )
        return _reply(model, stored.body, cached=stored.replayed)


@contextmanager
def _failures_told(model: str) -> Iterator[None]:
    """Say of which model a failure is, and what the vendor says of it."""
    try:
        yield
    except HttpFailed as exc:
        message = f"openai/{model} gave no reply: {_status(exc.reply)}"
        raise ProviderFailed(message, failure=exc.failure, reason=exc.reason) from exc
    except NetworkFailed as exc:
        message = f"openai/{model} gave no reply: {exc.error!r}"
        raise ProviderFailed(message, reason=exc.reason) from exc


def _url(base: str) -> str:
    return f"{base.rstrip('/')}/chat/completions"


def _request(base: str, body: JsonObject) -> WireRequest:
    url = urlsplit(_url(base))
    return WireRequest(
        method="POST",
        origin=f"{url.scheme}://{url.netloc.rpartition('@')[2]}",
        path=url.path,
        query=url.query,
        body=body,
        beta=None,
        has_key=bool(_key()),
    )


def _headers() -> dict[str, str]:
    headers = {"authorization": f"Bearer {_key()}", "content-type": "application/json"}
    for name, variable in (
        ("openai-organization", "OPENAI_ORG_ID"),
        ("openai-project", "OPENAI_PROJECT_ID"),
    ):
        if os.environ.get(variable):
            headers[name] = os.environ[variable]
    return headers


def _plain(message: Any) -> object:
    """Write a message as JSON has it; one that the SDK gave may be sent back as it is."""
    dump = getattr(message, "model_dump", None)
    return message if dump is None else dump(mode="json", exclude_unset=True)


def _reply(model: str, body: bytes, *, cached: bool) -> Reply:
    parsed = json.loads(body)
    try:
        text = parsed["choices"][0]["message"].get("content")
    except (LookupError, TypeError, AttributeError):
        raise ProviderFailed(f"openai/{model} gave a reply without choices") from None
    facts: Mapping[str, Any] = read_facts(parsed)
    return Reply(
        text=text or "",
        parse=partial(_completion, parsed),
        model=facts.get("model"),
        usage=Usage(
            input_tokens=facts.get("input_tokens"), output_tokens=facts.get("output_tokens")
        ),
        cached=cached,
    )


def _completion(parsed: dict[str, Any]) -> ChatCompletion:
    try:
        from openai.types.chat import ChatCompletion
    except ImportError as exc:
        raise _not_installed(exc) from exc
    return ChatCompletion.construct(**parsed)  # as lenient as the SDK's own client


def _not_installed(exc: ImportError) -> ProviderNotInstalled:
    return ProviderNotInstalled(
        f'the openai SDK cannot be imported ({exc}). Type:  pip install "openai>=3,<4"'
    )


def _status(reply: WireReply) -> str:
    try:
        phrase = HTTPStatus(reply.status).phrase
    except ValueError:
        phrase = ""
    status = f"HTTP {reply.status} {phrase}".rstrip()
    return f"{status}: {_without_key(error_message(reply.body))}"


def _key() -> str:
    # Set and empty where a CI service did not pass the secret on; a line end at its end
    # would be quoted, key and all, by the error that it causes.
    return os.environ.get(KEY_VARIABLE, "").strip()


def _without_key(text: str) -> str:
    """Blank the key, which some servers quote when they refuse it."""
    key = _key()
    return text.replace(key, "***") if key else text
