"""``llm`` and ``async_llm`` for every vendor: questions of our own, without an SDK in between.

What a question looks like on the wire is frozen: any other default would give every stored
reply a new key. As that needs nothing that an SDK knows, a question costs half of what it
costs through the SDK, and a replay does not even import it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from pytest_llmeval.errors import ProviderFailed, SettingsError
from pytest_llmeval.models.base import Messages, Reply, Usage
from pytest_llmeval.models.calls import CachedCalls
from pytest_llmeval.models.http.exchange import (
    PLACEHOLDER_KEY,
    Dialect,
    Exchange,
    HttpFailed,
    HttpRequest,
    JsonObject,
    Post,
)
from pytest_llmeval.models.http_reply import HttpReply
from pytest_llmeval.models.limits.deadline import Deadline
from pytest_llmeval.models.limits.retries import Attempt, NetworkFailed, RetryPolicy
from pytest_llmeval.printable import printable


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatForm:
    """How one vendor is asked a question.

    Attributes:
        dialect: of the vendor.
        url: where the question goes. This, ``headers`` and ``key`` read the environment.
        headers: that go with it, besides its content type.
        key: of the API, "" for none.
        needs_key: without one nobody is answered.
        body: words a question: name of the model, messages, parameters of the test.
        text: finds the answer in a reply that is one; "" if it has no text.
        rebuild: makes the SDK's own object of a reply.
    """

    dialect: Dialect
    url: Callable[[], str]
    headers: Callable[[], Mapping[str, str]]
    key: Callable[[], str]
    needs_key: bool = True
    body: Callable[[str, Sequence[Any], Mapping[str, Any]], JsonObject]
    text: Callable[[Any], str]
    rebuild: Callable[[dict[str, Any]], object]


class _Asks:
    """Words questions and reads replies.

    Args:
        form: of the vendor.
        calls: the calls of the trial.
        post: sends a question once.
        retries: how to try again.
    """

    def __init__(
        self, form: ChatForm, calls: CachedCalls, *, post: Post, retries: RetryPolicy
    ) -> None:
        self._form = form
        self._post = post
        self._exchange = Exchange(dialect=form.dialect, calls=calls, retries=retries)

    def _question(
        self, model: str, messages: Messages, params: Mapping[str, object]
    ) -> tuple[HttpRequest, Attempt]:
        """Word the request, and what sends it once."""
        form = self._form
        if params.get("stream"):
            raise SettingsError(
                "stream=True: llm.ask and llm.chat hand over whole replies. Leave it out, or use "
                f"the vendor's own client: {form.dialect.provider}_client."
            )
        body = form.body(model, plain(messages), plain(params))
        # Read here and not where the call is made: there another trial may have the baton,
        # and the environment be its own.
        url = form.url()
        headers = {**form.headers(), "content-type": "application/json"}
        if form.needs_key and not form.key():
            headers["authorization"] = PLACEHOLDER_KEY
        request = _request(url, body, headers=headers)
        # Not a partial: a traceback would show its arguments, and so the key.
        return request, lambda deadline: self._attempt(url, headers, body, deadline)

    def _attempt(
        self, url: str, headers: Mapping[str, str], body: JsonObject, deadline: Deadline
    ) -> HttpReply:
        content = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        return self._post(url, headers=headers, content=content, deadline=deadline)

    @contextmanager
    def _failures_told(self, model: str) -> Iterator[None]:
        """Say of which model a failure is, and what the vendor says of it."""
        try:
            yield
        except HttpFailed as exc:
            message = f"{self._name(model)} gave no reply: {self._status(exc.reply)}"
            raise ProviderFailed(message, failure=exc.failure, reason=exc.reason) from exc
        except NetworkFailed as exc:
            message = f"{self._name(model)} gave no reply: {exc}"
            raise ProviderFailed(message, reason=exc.reason) from exc

    def _reply(self, model: str, body: bytes, *, cached: bool) -> Reply:
        form = self._form
        parsed = json.loads(body)
        facts: Mapping[str, Any] = form.dialect.read_facts(parsed)
        return Reply(
            text=form.text(parsed),
            parse=partial(form.rebuild, parsed),
            model=facts.get("model"),
            usage=Usage(
                input_tokens=facts.get("input_tokens"), output_tokens=facts.get("output_tokens")
            ),
            cached=cached,
        )

    def _name(self, model: str) -> str:
        return f"{self._form.dialect.provider}/{model}"

    def _status(self, reply: HttpReply) -> str:
        try:
            phrase = HTTPStatus(reply.status).phrase
        except ValueError:
            phrase = ""
        status = f"HTTP {reply.status} {phrase}".rstrip()
        message, key = reply.error.message, self._form.key()
        # Some servers quote the key when they refuse it.
        told = message.replace(key, "***") if key else message
        return f"{status}: {printable(told)}"


class ChatProvider(_Asks):
    """Asks, and waits."""

    def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask and wait for the reply.

        Raises:
            ProviderFailed: there is none.
            ReplayMiss: only replays are wanted and it is not stored.
        """
        request, attempt = self._question(model, messages, params)
        with self._failures_told(model):
            stored = self._exchange.answer(request, attempt)
        return self._reply(model, stored.body, cached=stored.replayed)


class AsyncChatProvider(_Asks):
    """Asks on behalf of a coroutine."""

    async def chat(self, model: str, messages: Messages, *, params: Mapping[str, object]) -> Reply:
        """Ask and await the reply.

        Raises:
            ProviderFailed: there is none.
            ReplayMiss: only replays are wanted and it is not stored.
        """
        request, attempt = self._question(model, messages, params)
        with self._failures_told(model):
            stored = await self._exchange.answer_async(request, attempt)
        return self._reply(model, stored.body, cached=stored.replayed)


def text_of(content: object) -> str:
    """Read the text of a message: one text, or the parts of which it consists."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(map(_text_of_part, content))
    return "" if content is None else json.dumps(content, ensure_ascii=False)


def _text_of_part(part: object) -> str:
    text = part.get("text") if isinstance(part, Mapping) else part
    return text if isinstance(text, str) else ""


def plain(value: Any) -> Any:
    """Write a value as JSON has it; what an SDK gave may be sent back as it is."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    return value if dump is None else dump(mode="json", exclude_unset=True)


def _request(url: str, body: JsonObject, *, headers: Mapping[str, str]) -> HttpRequest:
    parts = urlsplit(url)
    return HttpRequest(
        method="POST",
        origin=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
        path=parts.path,
        query=parts.query,
        headers=headers,
        body=body,
    )
