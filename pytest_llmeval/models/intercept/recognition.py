"""Which requests of an application are questions to a model.

A path alone is no proof: many a service has one that ends in /completions. So the request
must also go to, or be sent by, something that is known to speak a vendor's language.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Literal
from urllib.parse import SplitResult, urlsplit

from pytest_llmeval.cache.key import DEFAULT_PORTS
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.http.exchange import Dialect, is_kept
from pytest_llmeval.models.http.masking import key_of_environment
from pytest_llmeval.models.providers.anthropic import DIALECT as ANTHROPIC
from pytest_llmeval.models.providers.ollama import DIALECT as OLLAMA
from pytest_llmeval.models.providers.ollama import base_url
from pytest_llmeval.models.providers.openai import DIALECT as OPENAI

Certainty = Literal["known", "if it names a model", "no"]

DIALECTS = (ANTHROPIC, OLLAMA, OPENAI)  # /api/embeddings is ollama's: asked before openai
HOSTS: Mapping[str, tuple[str, ...]] = {
    "openai": ("api.openai.com", ".api.openai.com", ".openai.azure.com"),
    "anthropic": ("api.anthropic.com",),
    "ollama": ("ollama.com",),
}
BASE_URLS = {"openai": "OPENAI_BASE_URL", "anthropic": "ANTHROPIC_BASE_URL"}
KEY_VARIABLES = (
    "OPENAI_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_AD_TOKEN", "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN", "OLLAMA_API_KEY",
)  # fmt: skip
LOCAL_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings")


def check_keys() -> None:
    """Find out whether the keys can be sent that clients of the application read themselves.

    One that cannot fails as the client builds its request, where nothing of ours stands between,
    with an error that quotes it.

    Raises:
        SettingsError: a key cannot be sent; names its variable.
    """
    for variable in KEY_VARIABLES:
        key_of_environment(variable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is looked at of a request before its body is.

    Attributes:
        method: in upper case.
        url: as sent.
        headers: by their names in lower case.
    """

    method: str
    url: str
    headers: Mapping[str, str]

    @property
    def parts(self) -> SplitResult:
        """The URL, taken apart."""
        return urlsplit(self.url)


class Recognition:
    """Tells questions to models from all other traffic.

    Args:
        hosts: others that speak a vendor's language: ``host`` or ``host:port``.
    """

    def __init__(self, hosts: Sequence[str] = ()) -> None:
        self._hosts = frozenset(host.lower() for host in hosts)

    def dialect_of(self, head: Head) -> Dialect | None:
        """Find the vendor whose language a request may be in, by method, path and type."""
        content_type = head.headers.get("content-type", "")
        path = head.parts.path
        fitting = (
            dialect
            for dialect in DIALECTS
            if is_kept(dialect, method=head.method, path=path, content_type=content_type)
        )
        return next(fitting, None)

    def certainty(self, head: Head, dialect: Dialect) -> Certainty:
        """Tell whether a request in that language goes to, or comes from, somebody who speaks it.

        Returns:
            "if it names a model" where the body has the last word.
        """
        parts = head.parts
        host = parts.hostname or ""
        if host in self._hosts or f"{host}:{_port(parts)}" in self._hosts:
            return "known"
        if _is_vendors(host, dialect) or _is_in_environment(parts, dialect):
            return "known"
        if _is_marked(head, dialect):
            return "known"
        is_sdk = "x-stainless-lang" in head.headers  # of openai, and of services that are like it
        is_local = _is_loopback(host) and parts.path.endswith(LOCAL_PATHS)
        may_be = dialect is OPENAI and (is_sdk or is_local)
        return "if it names a model" if may_be else "no"


def _is_vendors(host: str, dialect: Dialect) -> bool:
    known = HOSTS[dialect.provider]
    return any(host.endswith(one) if one.startswith(".") else host == one for one in known)


def _is_in_environment(parts: SplitResult, dialect: Dialect) -> bool:
    base = _base_url(dialect)
    if base is None or (base.scheme, base.hostname) != (parts.scheme, parts.hostname):
        return False
    beneath = base.path.rstrip("/") + "/"
    return _port(base) == _port(parts) and parts.path.startswith(beneath)


def _base_url(dialect: Dialect) -> SplitResult | None:
    try:
        if dialect is OLLAMA:
            return urlsplit(base_url())
        named = urlsplit(os.environ.get(BASE_URLS[dialect.provider], ""))
        _port(named)
    except (SettingsError, ValueError):  # the client that reads it will say so
        return None
    return named if named.hostname else None


def _is_marked(head: Head, dialect: Dialect) -> bool:
    """Whether the request itself says whose language it is in."""
    if dialect is ANTHROPIC:
        return "anthropic-version" in head.headers
    return dialect is OLLAMA and head.headers.get("user-agent", "").startswith("ollama-python/")


def _port(parts: SplitResult) -> int | None:
    return parts.port or DEFAULT_PORTS.get(parts.scheme)


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
