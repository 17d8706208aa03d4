"""The form of a vendor: all that sets it apart from the others, in one object."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any, cast
from urllib.parse import SplitResult

from pytest_llmeval.errors import ProviderNotInstalled
from pytest_llmeval.models.http.exchange import Dialect, JsonObject
from pytest_llmeval.vendors import VENDORS

Headers = Mapping[str, str]
Transport = Any  # httpx and httpx2 have one each, blocking and awaitable


def _never(*_: object) -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor(Dialect):
    """One vendor: its dialect, how it is asked, its clients, and how its requests are recognized.

    What reads the environment does so at every call.

    Attributes:
        requirement: what pip is to install for its SDK.
        base_url: reads where requests go.
        chat_path: what comes after that in the URL of a question of our own.
        key: reads the key of the API, "" for none.
        needs_key: without one nobody is answered.
        headers: reads those of a question of our own, besides its content type.
        body: words a question: name of the model, messages, parameters of the test.
        text: finds the answer in a reply that is one; "" if it has no text.
        rebuild: makes the SDK's own object of a reply, once the SDK is imported.
        library: the HTTP library of the SDK.
        client_options: arguments of the SDK's clients, given the transport that sends.
        more_keys: further environment variables from which an application's client takes a key.
        hosts: of the vendor.
        domains: each with a dot before it, all whose hosts are the vendor's.
        is_marked: whether headers say by themselves that a request is in this dialect.
        may_be_meant: whether a request to somebody else, by its URL and headers, is in this
            dialect if it names a model.
    """

    requirement: str
    base_url: Callable[[], str]
    chat_path: str
    key: Callable[[], str]
    needs_key: bool = True
    headers: Callable[[], Headers]
    body: Callable[[str, Sequence[Any], Mapping[str, Any]], JsonObject]
    text: Callable[[Any], str]
    rebuild: Callable[[dict[str, Any]], object]
    library: str = "httpx2"
    client_options: Callable[[Transport], dict[str, Any]]
    more_keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    domains: tuple[str, ...] = ()
    is_marked: Callable[[Headers], bool] = _never
    may_be_meant: Callable[[SplitResult, Headers], bool] = _never

    def chat_url(self) -> str:
        """Read where a question of our own goes."""
        return f"{self.base_url().rstrip('/')}{self.chat_path}"

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
    kind = "" if hasattr(transport, "handle_request") else "Async"
    http_client = getattr(import_module(sdk), f"Default{kind}HttpxClient")
    return {"http_client": http_client(transport=transport), "max_retries": 0}


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
