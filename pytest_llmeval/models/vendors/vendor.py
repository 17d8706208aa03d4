"""The form of a vendor: all that sets it apart from the others, in one object."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from pkgutil import resolve_name
from types import ModuleType
from typing import Any, Self, cast
from urllib.parse import SplitResult, quote, urlsplit

from pytest_llmeval.cache.key import value_at
from pytest_llmeval.cache.reply import Told
from pytest_llmeval.errors import ProviderNotInstalled
from pytest_llmeval.models.http.dialect import PLACEHOLDER_KEY, Dialect, HttpRequest
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.models.llm import Messages, Params
from pytest_llmeval.models.message import fields_of, text_of
from pytest_llmeval.vendors import VENDORS, ServiceLine

Headers = Mapping[str, str]
Transport = Any  # a ``TrialTransport``


def bearer(key: str) -> Headers:
    """Word the header of a key as most vendors want it; none without a key."""
    return {"authorization": f"Bearer {key}"} if key else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor(Dialect):
    """One vendor: its dialect, how it is asked, its clients, and how its requests are recognized.

    What reads the environment does so at every call.

    Attributes:
        requirement: what pip is to install for its SDK; "" where the registry names none.
        base_url: reads where requests go.
        chat_path: what comes after that in the URL of a question of our own; ``{model}`` stands
            for the model's name.
        needs_key: without one nobody is answered.
        headers: words those of a question of our own, given the key, "" for none; besides its
            content type.
        body: words a question: name of the model, messages, parameters of the test.
        rebuild: names what makes the SDK's own object of a reply; "" where we use no SDK, and the
            reply stays the object that its JSON is.
        client_options: arguments of the SDK's clients, given the transport that sends.
        more_keys: further environment variables of the key, where ``key_variable`` has none.
        hosts: of the vendor, as those of a ``ServiceLine``.
        is_marked: whether headers say by themselves that a request is in this dialect.
        may_be_meant: whether a request to somebody else, by its URL and headers, is in this
            dialect if it names a model.
    """

    requirement: str = ""
    base_url: Callable[[], str]
    chat_path: str
    needs_key: bool = True
    headers: Callable[[str], Headers] = bearer
    body: Callable[[str, Sequence[Any], Mapping[str, Any]], JsonObject]
    rebuild: str = ""
    client_options: Callable[[Transport], dict[str, Any]] = lambda _: {}
    more_keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    is_marked: Callable[[Headers], bool] = lambda _: False
    may_be_meant: Callable[[SplitResult, Headers], bool] = lambda *_: False

    def key(self) -> str:
        """Read the key of the API, "" for none; raises as ``key_of_environment``."""
        keys = map(key_of_environment, (self.key_variable, *self.more_keys))
        return next(filter(None, keys), "")

    def text(self, reply: JsonObject) -> str:
        """Find the answer in a reply that is one; "" if it has no text."""
        said = self.common(next(iter(self.said(reply)), None))
        return text_of(said.get("content") if isinstance(said, Mapping) else said)

    def question(self, model: str, messages: Messages, params: Params) -> tuple[str, HttpRequest]:
        """Word a question of our own: its URL, and the request.

        Args:
            model: its name.
            messages: in the words that most vendors share.
            params: of the test.
        """
        path, key = self.chat_path.replace("{model}", quote(model, safe="")), self.key()
        url = f"{self.base_url().rstrip('/')}{path}"
        headers = {**self.headers(key), "content-type": "application/json"}
        if self.needs_key and not key:
            headers["authorization"] = PLACEHOLDER_KEY
        parts = urlsplit(url)
        request = HttpRequest(
            origin=f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}",
            path=parts.path,
            query=parts.query,
            headers=headers,
            body=self.body(model, messages, params),
        )
        return url, request

    def served_by(self, service: ServiceLine) -> Self:
        """Return the dialect as a service speaks it, under that one's name and with its key."""
        return replace(
            self,
            provider=service.name or self.provider,
            speaks_as=self.provider,
            key_variable=service.keys[0],
            base_variable="",
        )

    def client(self, transport: Transport) -> Any:
        """Build a client of the SDK's; raises as ``key`` and ``import_sdk``."""
        self.key()  # an SDK may read it itself, when it is imported: see that it can be sent
        sdk, line = self.import_sdk(), VENDORS[self.provider]
        kind = line.async_client if transport.awaits else line.client
        client = without_blank_keys(getattr(sdk, kind)(**self.client_options(transport)))
        return with_known_platform(client, line.sdk) if transport.awaits else client

    def sdk_object(self, reply: JsonObject) -> object:
        """Make the SDK's own object of a reply; raises as ``import_sdk``."""
        if not self.rebuild:
            return dict(reply)
        self.import_sdk()
        return resolve_name(self.rebuild)(**reply)

    def import_sdk(self) -> ModuleType:
        """Import the vendor's SDK.

        Raises:
            ProviderNotInstalled: it cannot be imported.
        """
        sdk = VENDORS[self.provider].sdk
        try:
            return import_module(sdk)
        except ImportError as exc:
            raise ProviderNotInstalled(
                f'the {sdk} SDK cannot be imported ({exc}). Type:  pip install "{self.requirement}"'
            ) from exc


def vendor_named(name: str) -> Vendor:
    """Import the module of a vendor, and take the vendor from it."""
    return cast("Vendor", import_module(VENDORS[name].module).VENDOR)


def from_environment(variable: str, default: str) -> Callable[[], str]:
    """Return what reads an environment variable, where an empty one counts as not set."""
    return lambda: os.environ.get(variable) or default


def stainless_options(sdk: str, transport: Transport) -> dict[str, Any]:
    """Word the arguments that SDKs made by Stainless share: we try again, and not the SDK."""
    kind = "Async" if transport.awaits else ""
    http_client = getattr(import_module(sdk), f"Default{kind}HttpxClient")
    return {"http_client": http_client(transport=transport), "max_retries": 0}


def without_blank_keys(client: Any) -> Any:
    """Forget keys that an SDK took from variables that are set and blank, as CI's secrets can be.

    The newer SDKs do so themselves; the older ones build a header of them that cannot be sent.
    """
    for name in ("api_key", "auth_token"):
        key = getattr(client, name, None)
        if isinstance(key, str) and not key.strip():
            setattr(client, name, None)
    return client


def with_known_platform(client: Any, sdk: str) -> Any:
    """Tell an awaitable client the platform, which each would find out anew, in a thread."""
    known = _platform(sdk)
    if known is not None and getattr(client, "_platform", known) is None:
        client._platform = known
    return client


@cache
def _platform(sdk: str) -> object:
    """Ask an SDK what it calls this platform; None where it has no such word."""
    with suppress(ImportError, AttributeError):
        return import_module(f"{sdk}._base_client").get_platform()
    return None


def facts_of_usage(reply: JsonObject) -> Told:
    """Pick out of a reply that has a ``usage`` who answered and what it took."""
    tokens = fields_of(reply.get("usage") or value_at(reply, "x_groq", "usage"))  # Groq's stream
    details = tokens.get("prompt_tokens_details", tokens.get("input_tokens_details"))
    return {
        "model": reply.get("model"),
        "fingerprint": reply.get("system_fingerprint"),
        "input_tokens": tokens.get("prompt_tokens", tokens.get("input_tokens")),
        "output_tokens": tokens.get("completion_tokens", tokens.get("output_tokens")),
        "cached_input_tokens": fields_of(details).get("cached_tokens") or None,
        "tier": reply.get("service_tier", tokens.get("service_tier")),
    }


def system_apart(messages: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Take the messages of the system, which some APIs want apart, from the others."""
    told = [one for one in messages if one.get("role") == "system"]
    return told, [one for one in messages if one.get("role") != "system"]


def configured(params: Mapping[str, Any], config: str, names: Mapping[str, str]) -> dict[str, Any]:
    """Put the sampling parameters of a test into the object in which an API looks for them.

    Args:
        params: of a test.
        config: field of the object.
        names: of parameters there, by ours.
    """
    sampling = {own: params[name] for name, own in names.items() if name in params}
    others = {name: value for name, value in params.items() if name not in names}
    return others | ({config: {**(params.get(config) or {}), **sampling}} if sampling else {})


def text_parts(content: object) -> list[Any]:
    """Word what a message says as parts: a text, or what is in an API's own words already."""
    listed = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else part for part in listed]
