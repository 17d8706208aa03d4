"""``llm`` and ``async_llm`` for every vendor: questions of our own, without an SDK in between.

The form of a question in HTTP is frozen: any other default would give every stored
reply a new key. As that needs nothing that an SDK knows, a question costs half of what it
costs through the SDK, and a replay does not even import it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http.client import responses
from json import loads
from typing import Any
from urllib.parse import urlsplit

from pytest_llmeval.cache.replies import StoredReply
from pytest_llmeval.errors import ProviderFailed, SettingsError
from pytest_llmeval.models.calls import CachedCalls, Request
from pytest_llmeval.models.http.answers import Expected
from pytest_llmeval.models.http.attempt import HttpFailed, NetworkFailed, TimedOut
from pytest_llmeval.models.http.exchange import Exchange
from pytest_llmeval.models.http.masking import MASK
from pytest_llmeval.models.http.sender import Sender
from pytest_llmeval.models.llm import Messages, Params, Reply
from pytest_llmeval.models.vendors.vendor import Vendor
from pytest_llmeval.safe_text import printable
from pytest_llmeval.vendors import VENDORS


class ChatProvider:
    """Word questions to one vendor and read its replies.

    Args:
        vendor: that is asked.
        calls: the calls of the trial.
        sender: sends a question.
    """

    def __init__(self, vendor: Vendor, calls: CachedCalls, sender: Sender) -> None:
        self._vendor = vendor
        self._sender = sender
        self._exchange = Exchange(dialect=vendor, calls=calls)

    def chat(self, model: str, messages: Messages, *, params: Params) -> Reply:
        """Ask and wait for the reply.

        Raises:
            ProviderFailed: there is none.
            ReplayMiss: only replays are wanted and it is not stored.
        """
        request, expected = self._question(model, messages, params)
        try:
            stored = self._exchange.calls.call(request)
        except (HttpFailed, NetworkFailed) as exc:
            raise self._failure(model, exc) from exc
        return self._reply(stored, expected)

    async def chat_async(self, model: str, messages: Messages, *, params: Params) -> Reply:
        """Ask and await the reply; raises as ``chat``."""
        request, expected = self._question(model, messages, params)
        try:
            stored = await self._exchange.calls.call_async(request)
        except (HttpFailed, NetworkFailed) as exc:
            raise self._failure(model, exc) from exc
        return self._reply(stored, expected)

    def _question(self, model: str, messages: Messages, params: Params) -> tuple[Request, Expected]:
        """Word the request, and what reads its reply."""
        vendor = self._vendor
        if params.get("stream"):
            has_client = bool(VENDORS[vendor.provider].client)
            own = f"{vendor.provider}_client" if has_client else "one that is intercepted"
            raise SettingsError(
                "stream=True: llm.ask and llm.chat hand over whole replies. Leave it out, or use "
                f"the vendor's own client: {own}."
            )
        # Read here and not where the call is made: there another trial may have the baton,
        # and the environment be its own.
        url, request = vendor.question(model, plain(messages), plain(params))
        return self._exchange.call_for(request, partial(self._sender.post, url, request))

    def _failure(self, model: str, exc: HttpFailed | NetworkFailed) -> ProviderFailed:
        """Say of which model a failure is, and what the vendor says of it."""
        told: object = exc
        if isinstance(exc, HttpFailed):
            status, key, said = exc.reply.status, self._vendor.key(), exc.reply.error.message
            said = said.replace(key, MASK) if key else said  # however short; others are masked
            told = f"HTTP {status} {responses.get(status, '')}".rstrip() + f": {printable(said)}"
        elif isinstance(exc.error, OSError) and not isinstance(exc, TimedOut):
            at = urlsplit(self._vendor.base_url()).netloc.rpartition("@")[2]
            told = f"{exc}: is {at} up, and the address right? Then run the same again"
        message = f"{self._vendor.provider}/{model} gave no reply: {told}"
        return ProviderFailed(message, lost=exc.lost, lost_for=exc.lost_for)

    def _reply(self, stored: StoredReply, expected: Expected) -> Reply:
        vendor, (body, parsed), model = self._vendor, expected.last, stored.facts.get("model")
        parsed = parsed if body is stored.body else loads(stored.body)
        return Reply(
            text=vendor.text(parsed),
            parse=partial(vendor.sdk_object, parsed),
            model=str(model) if model else None,
            usage=stored.usage,
            cached=stored.replayed,
        )


def plain(value: Any) -> Any:
    """Write a value as JSON has it; what an SDK gave may be sent back as it is."""
    if isinstance(value, Mapping):
        told = {}
        for name, item in value.items():
            told[name] = item if type(item) is str else plain(item)
        return told
    if isinstance(value, list | tuple):
        return list(map(plain, value))
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    return value if dump is None else dump(mode="json", exclude_unset=True)
