"""The form of a vendor: all that sets it apart from the others, in one object."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any, Literal, Self, cast
from urllib.parse import SplitResult, quote, urlsplit

from pytest_llmeval.cache.key import DEFAULT_PORTS, value_at
from pytest_llmeval.errors import ProviderNotInstalled, SettingsError
from pytest_llmeval.models.facts import Facts, sensible
from pytest_llmeval.models.http.exchange import PLACEHOLDER_KEY, Dialect, ending_in
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.http.stream import JsonObject
from pytest_llmeval.vendors import OTHER_HOSTS, SERVICES, VENDORS, ServiceLine

OLLAMA_HERE = "localhost:11434"
_THIS_MACHINE = re.compile(r"^(?:127\.0\.0\.1|\[?::1\]?)(?=:\d+$|$)")
Headers = Mapping[str, str]
Transport = Any  # httpx and httpx2 have one each, blocking and awaitable


def _never(*_: object) -> bool:
    return False


def _no_options(_: Transport) -> dict[str, Any]:
    return {}


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
        headers: reads those of a question of our own, besides its content type.
        body: words a question: name of the model, messages, parameters of the test.
        text: finds the answer in a reply that is one; "" if it has no text.
        rebuild: makes the SDK's own object of a reply, once the SDK is imported; without an SDK
            the reply stays the object that its JSON is.
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
    headers: Callable[[], Headers]
    body: Callable[[str, Sequence[Any], Mapping[str, Any]], JsonObject]
    text: Callable[[Any], str]
    rebuild: Callable[[dict[str, Any]], object] = dict
    client_options: Callable[[Transport], dict[str, Any]] = _no_options
    more_keys: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    is_marked: Callable[[Headers], bool] = _never
    may_be_meant: Callable[[SplitResult, Headers], bool] = _never

    def key(self) -> str:
        """Read the key of the API, "" for none; raises as ``key_of_environment``."""
        keys = map(key_of_environment, (self.key_variable, *self.more_keys))
        return next(filter(None, keys), "")

    def chat_url(self, model: str) -> str:
        """Read where a question of our own to a model goes."""
        path = self.chat_path.replace("{model}", quote(model, safe=""))
        return f"{self.base_url().rstrip('/')}{path}"

    def served_by(self, service: ServiceLine) -> Self:
        """Return the dialect as a service speaks it, under that one's name and with its key."""
        return replace(
            self,
            provider=service.name or self.provider,
            speaks_as=self.provider,
            key_variable=service.keys[0],
            base_variable="",
        )

    def sdk_object(self, reply: dict[str, Any]) -> object:
        """Make the SDK's own object of a reply; raises as ``import_sdk``."""
        if VENDORS[self.provider].sdk:
            self.import_sdk()
        return self.rebuild(reply)

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


def facts_of_usage(reply: JsonObject) -> Facts:
    """Pick out of a reply that has a ``usage`` who answered and what it took."""
    usage = reply.get("usage") or value_at(reply, "x_groq", "usage")  # in a stream of Groq's
    tokens = usage if isinstance(usage, dict) else {}
    details = tokens.get("prompt_tokens_details", tokens.get("input_tokens_details"))
    facts = {
        "model": reply.get("model"),
        "fingerprint": reply.get("system_fingerprint"),
        "input_tokens": tokens.get("prompt_tokens", tokens.get("input_tokens")),
        "output_tokens": tokens.get("completion_tokens", tokens.get("output_tokens")),
        "cached_input_tokens": value_at(details, "cached_tokens") or None,
        "tier": reply.get("service_tier", tokens.get("service_tier")),
    }
    return sensible(facts)


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


def any_key_is_set(environ: Mapping[str, str]) -> bool:
    """Tell whether there is a key of any vendor; secrets that CI keeps from a fork are empty."""
    names = (name for line in services() for name in line.keys)
    return any(environ.get(name, "").strip() not in ("", PLACEHOLDER_KEY) for name in names)


Certainty = Literal["known", "if it names a model", "no"]


def check_keys() -> None:
    """Find out whether the keys can be sent that clients of the application read themselves.

    One that cannot fails as the client builds its request, where nothing of ours stands between,
    with an error that quotes it.

    Raises:
        SettingsError: a key cannot be sent; names its variable.
    """
    for line in services():
        for variable in line.keys:
            key_of_environment(variable)


def services() -> Iterator[ServiceLine]:
    """List whom clients of the application may ask: the vendors themselves first."""
    for vendor in map(vendor_named, VENDORS):
        yield ServiceLine(vendor.provider, (vendor.key_variable, *vendor.more_keys), vendor.hosts)
    yield from SERVICES


class Recognition:
    """Tells questions to models from all other traffic.

    Args:
        hosts: others that speak a vendor's dialect: ``host`` or ``host:port``.
    """

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self._named = frozenset(map(_one_name, (OLLAMA_HERE, *hosts)))
        lines = [(host, line) for line in services() for host in line.hosts]
        self._lines = [line for _, line in lines]
        self._host = _one_of_hosts([host for host, _ in lines])
        self._other_host = _one_of_hosts(OTHER_HOSTS)
        vendors = list(map(vendor_named, VENDORS))
        ends = [(end, one) for one in vendors for end in (*one.paths, *one.uploads)]
        self._speakers = [vendor for _, vendor in ends]
        self._end = ending_in(tuple(end for end, _ in ends))

    def recognize(
        self, method: str, url: SplitResult, headers: Headers
    ) -> tuple[Vendor | None, Certainty]:
        """Find the vendor in whose dialect a request is, by all but its body.

        Returns:
            None where the request is in no dialect. And whether it goes to, or comes from, somebody
            who speaks that dialect: "if it names a model" where the body has the last word.
        """
        end = self._end.search(url.path)
        vendor = self._speakers[end.lastindex - 1] if end and end.lastindex else None
        if vendor is None or not vendor.keeps(method, url.path, headers):
            return None, "no"
        host, port = url.hostname or "", url.port or DEFAULT_PORTS.get(url.scheme)
        if self._is_named(host, port) or _is_below_base_url(url, port, vendor):
            return vendor, "known"
        service = self.service_at(host)
        if service is not None:
            is_own = service.name == vendor.provider
            return vendor if is_own else vendor.served_by(service), "known"
        if vendor.is_marked(headers):
            return vendor, "known"
        return vendor, "if it names a model" if vendor.may_be_meant(url, headers) else "no"

    def is_model_host(self, host: str, port: int) -> bool:
        """Tell whether somebody who speaks a dialect is known to be at a host in lower case."""
        return (
            self._is_named(host, port)
            or self.service_at(host) is not None
            or self._other_host.search(host) is not None
            or any(
                (_one_name(host), port) == _base_of(one)[1:] for one in map(vendor_named, VENDORS)
            )
        )

    def _is_named(self, host: str, port: int | None) -> bool:
        return not self._named.isdisjoint((_one_name(host), f"{_one_name(host)}:{port}"))

    def service_at(self, host: str) -> ServiceLine | None:
        """Find the service, or the vendor itself, that has a host; None for any other host."""
        found = self._host.search(host)
        return self._lines[found.lastindex - 1] if found and found.lastindex else None


def _one_name(host: str) -> str:
    """Give this machine one name, whichever of its own somebody wrote; a port may follow it."""
    return _THIS_MACHINE.sub("localhost", host.lower())


def _one_of_hosts(hosts: Sequence[str]) -> re.Pattern[str]:
    """Compile names of hosts as a ``ServiceLine`` has them; each has a numbered group."""
    patterns = (re.escape(host).replace(r"\*", "[^.]+") for host in hosts)
    whole = (
        one if host[0] == "." else f"^{one}" for host, one in zip(hosts, patterns, strict=True)
    )
    return re.compile(f"(?:{'|'.join(f'({one})' for one in whole)})$")


def _is_below_base_url(url: SplitResult, port: int | None, vendor: Vendor) -> bool:
    base, *host_and_port = _base_of(vendor)
    is_same = (base.scheme, *host_and_port) == (url.scheme, _one_name(url.hostname or ""), port)
    is_below = url.path.startswith(base.path.rstrip("/") + "/")
    return bool(base.hostname) and is_same and is_below


def _base_of(vendor: Vendor) -> tuple[SplitResult, str | None, int | None]:
    """Read the base URL of a vendor, with its host and port; an empty one if it is none.

    The host has the one name that ``_one_name`` gives it.
    """
    try:
        base = urlsplit(vendor.base_url())
        host = base.hostname and _one_name(base.hostname)
        return base, host, base.port or DEFAULT_PORTS.get(base.scheme)
    except (SettingsError, ValueError):  # the client that reads it will say so
        return urlsplit(""), None, None
