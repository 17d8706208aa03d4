"""The key of a request: equal requests have equal keys, from any client and any machine.

A change of this module voids every cache and every baseline; the golden keys in the tests show such
a change. Raise ``SCHEMA`` if a change is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from json import JSONDecoder, JSONEncoder
from operator import attrgetter
from typing import Any, NoReturn
from urllib.parse import unquote_plus, urlsplit

from pytest_llmeval.errors import LLMEvalError

SCHEMA = 1
PARTS = ("provider", "method", "origin", "path", "query", "body", "beta", "source")

# Exact names, no patterns: a secret missing here only costs a replay when it is rotated (the
# key is a hash), but a harmless parameter dropped by mistake would make two requests one.
SECRET_PARAMETERS = frozenset(
    {
        "access_key", "access_token", "api_key", "api_token", "apikey", "auth", "auth_token",
        "authorization", "client_secret", "credential", "jwt", "key", "password", "secret", "sig",
        "signature", "subscription_key", "token", "x_amz_credential", "x_amz_security_token",
        "x_amz_signature", "x_api_key", "x_goog_credential", "x_goog_signature",
    }
)  # fmt: skip
# These hints tell a provider where it has read the beginning before, which changes no answer. Some
# libraries make up a value for each run (openai-agents).
HINTS = frozenset({"prompt_cache_key"})
DEFAULT_PORTS = {"http": 80, "https": 443}
ANY_PORT = ":*"


class RequestNotKeyable(LLMEvalError, ValueError):
    """A request cannot be given a key: its body is no JSON, or its origin no origin."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """A request without secrets, from which its key is made.

    Attributes:
        provider: such as ``openai``; the part of the model name before the slash.
        method: in upper case.
        origin: of the API, aliases followed; empty for a model that has none (``function/``).
        path: of the URL, as sent; ``query`` likewise, without parameters that carry secrets.
        body: the JSON value that is sent.
        beta: the value of the ``anthropic-beta`` or ``openai-beta`` header.
        source: digest of the code behind a ``function/`` model.
    """

    provider: str
    method: str
    origin: str
    path: str
    query: str
    body: object = field(repr=False)
    beta: str | None
    source: str | None

    def key(self) -> str:
        """Hash it: sha256, 64 hex digits.

        Raises:
            RequestNotKeyable: the body is no finite JSON.
        """
        try:
            text = _ENCODER.encode([SCHEMA, *_parts(self)])
        except (TypeError, ValueError, RecursionError) as exc:
            raise RequestNotKeyable(
                f"the body of the request cannot be written as JSON ({exc}); "
                "send only text, finite numbers, true, false, null, lists and objects"
            ) from exc
        return hashlib.sha256(text.encode("ascii")).hexdigest()


def canonical_request(
    *,
    provider: str,
    method: str,
    origin: str,
    path: str,
    body: object,
    query: str = "",
    beta: str | None = None,
    source: str | None = None,
    aliases: Sequence[tuple[str, str]] = (),
) -> Canonical:
    """Write a request in one form, whichever client sends it.

    Args:
        provider: such as ``openai``; the part of the model name before the slash.
        method: of HTTP, in any case.
        origin: scheme, host and port: ``https://api.openai.com``; empty for ``function/``.
        path: of the URL, as sent.
        body: the JSON value that is sent; hints that change no answer are dropped.
        query: of the URL, without the question mark; parameters that carry secrets are dropped.
        beta: the value of the ``anthropic-beta`` or ``openai-beta`` header.
        source: digest of the code behind a ``function/`` model.
        aliases: pairs of origins; a request to the first has the key of the second. The first
            may end in ``:*`` for any port.

    Raises:
        RequestNotKeyable: an origin is malformed.
    """
    origin = _canonical_origin(origin)
    if source is None and isinstance(body, dict) and not HINTS.isdisjoint(body):
        body = {name: value for name, value in body.items() if name not in HINTS}
    return Canonical(
        provider=provider,
        method=method.upper(),
        origin=_aliased(origin, aliases) if aliases else origin,
        path=path,
        query=_without_secrets(query) if query else "",
        body=body,
        beta=beta,
        source=source,
    )


_parts = attrgetter(*PARTS)
# Made once, as making an encoder takes as long as using it.
_ENCODER = JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def parse_json(text: bytes) -> Any:
    """Parse one JSON value as the standard has it: no NaN, no Infinity.

    Raises:
        ValueError: it is no JSON, or nested beyond what can be read.
    """
    try:
        return _DECODER.decode(text.decode())
    except RecursionError as exc:
        raise ValueError("it is nested too deeply") from exc


def value_at(value: object, *names: str) -> object:
    """Return the value at a place of a JSON object, None if there is no such place."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


_DECODER = JSONDecoder(parse_constant=_refuse_constant)


@lru_cache(maxsize=64)
def _canonical_origin(origin: str) -> str:
    """Write an origin in lower case, without the default port, user and password."""
    if not origin:
        return ""
    try:
        parts = urlsplit(origin)
        host, port = parts.hostname, parts.port
    except ValueError as exc:
        raise RequestNotKeyable(_origin_complaint(origin)) from exc
    if not (parts.scheme and host) or parts.path.strip("/") or parts.query or parts.fragment:
        raise RequestNotKeyable(_origin_complaint(origin))
    if ":" in host:
        host = f"[{host}]"
    if port is None or port == DEFAULT_PORTS.get(parts.scheme):
        return f"{parts.scheme}://{host}"
    return f"{parts.scheme}://{host}:{port}"


def _origin_complaint(origin: str) -> str:
    # A URL may hold user and password: repeat only the text behind these.
    shown = origin.rpartition("@")[2]
    return f"{shown!r} is no origin; write scheme, host and port, such as 'http://127.0.0.1:8080'"


def _aliased(origin: str, aliases: Sequence[tuple[str, str]]) -> str:
    for alias, target in aliases:
        if _matches(origin, alias):
            return _canonical_origin(target)
    return origin


def _matches(origin: str, alias: str) -> bool:
    if alias.endswith(ANY_PORT):
        parts = urlsplit(origin)
        without_port = origin.removesuffix(f":{parts.port}")
        return without_port == _canonical_origin(alias.removesuffix(ANY_PORT))
    return origin == _canonical_origin(alias)


def _without_secrets(query: str) -> str:
    parameters = query.removeprefix("?").split("&")
    return "&".join(
        parameter
        for parameter in parameters
        if not is_secret_name(unquote_plus(parameter.partition("=")[0]))
    )


def is_secret_name(name: str) -> bool:
    """Whether a value of this name is a key, a password or the like."""
    return name.strip().lower().replace("-", "_") in SECRET_PARAMETERS
