"""Masking of keys in replies, logs, messages and reports.

A server may quote a key in its refusal, or in a reply. The SDK puts those words into an exception,
and so they would come to the terminal and into CI's logs. A test or a function model may quote one
of the environment: CI masks its log, not the files that a job leaves.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from json import dumps
from urllib.parse import parse_qsl, quote, unquote_plus, urlsplit

from pytest_llmeval.cache.key import is_secret_name
from pytest_llmeval.errors import SettingsError
from pytest_llmeval.models.http.http_reply import HttpReply
from pytest_llmeval.vendors import VENDORS

MASK = "***"
SHORTEST = 8  # what is shorter is a word (EMPTY, ollama) that a local server is given
# httpx logs each URL at level INFO, the SDKs do at DEBUG.
LOGGERS = ("httpx", "httpx2", *(f"{one.sdk}._base_client" for one in VENDORS.values() if one.sdk))
_PIECES = re.compile("[A-Za-z0-9]+")  # nobody escapes these but as \\u0041
_URL = re.compile(r"""\b[a-z][a-z0-9+.-]*://[^\s'"<>]+""", re.IGNORECASE)
_ENDINGS = ("key", "token", "secret", "authorization", "cookie")
_VARIABLES = ("KEY", "TOKEN", "SECRET", "PASSWORD")  # how the names of keys end
_LONGEST_WORD = 20


def secrets_of(headers: Mapping[str, str], *, query: str) -> Sequence[str]:
    """Pick the keys out of a request, the longest first.

    Args:
        headers: as sent.
        query: of the URL.
    """
    found = [text for name, text in parse_qsl(query) if is_secret_name(name)] if query else []
    for name, text in headers.items():
        if name.lower().endswith(_ENDINGS):
            found += text, text.rpartition(" ")[2]  # also without "Bearer"
    secrets = sorted(sorted({*found}), key=len, reverse=True)
    while secrets and len(secrets[-1]) < SHORTEST:
        secrets.pop()
    return secrets


def masked(reply: HttpReply, secrets: Iterable[str]) -> HttpReply:
    """Put asterisks in the place of secrets that a reply quotes, escaped or not."""
    body, headers = reply.body, reply.headers
    for secret in secrets:
        body = re.sub(b"".join(map(_escaped, secret)), MASK.encode(), body)
        headers = {name: text.replace(secret, MASK) for name, text in headers.items()}
    return replace(reply, body=body, headers=headers)


def masked_success(reply: HttpReply, secrets: Iterable[str]) -> HttpReply:
    """Do so in a reply that a test will see, where it may quote a secret at all.

    A secret that may be a word (not-needed, anything) stays: masked, it would change an answer.
    """
    body, quoted = reply.body, []
    may_be_spelled = b"\\u00" in body
    for secret in secrets:
        piece = max(_PIECES.findall(secret), key=len, default="")
        if (may_be_spelled or piece.encode() in body) and _is_no_word(secret):
            quoted.append(secret)
    return masked(reply, quoted) if quoted else reply


def _is_no_word(secret: str) -> bool:
    return len(secret) > _LONGEST_WORD or any(map(str.isdecimal, secret))


def keys_of_environment() -> tuple[str, ...]:
    """List the keys in the variables of this process, the longest first; also line by line."""
    names = [name for name in os.environ if name.upper().endswith(_VARIABLES)]
    keys = {line.strip() for name in names for line in os.environ.get(name, "").splitlines()}
    return tuple(sorted((key for key in keys if len(key) >= SHORTEST), key=len, reverse=True))


def masked_text(text: str, keys: Iterable[str] | None = None) -> str:
    """Mask keys and the secrets of URLs in a text, such as the message of an exception."""
    return masked_keys(masked_urls(text), keys)


def masked_keys(text: str, keys: Iterable[str] | None = None) -> str:
    """Mask keys in a text, as they are or escaped.

    Args:
        text: of any length.
        keys: the longest first; None for those of the environment as it is now.
    """
    for key in keys_of_environment() if keys is None else keys:
        for form in (key, repr(key)[1:-1], dumps(key)[1:-1], quote(key, safe="")):
            text = text.replace(form, MASK)
    return text


def masked_answer(text: str) -> str:
    """Mask the keys of the environment in the reply of a function, but for what may be a word."""
    return masked_keys(text, filter(_is_no_word, keys_of_environment()))


def _escaped(character: str) -> bytes:
    r"""Word a pattern that finds a character as it is, behind backslashes, as \u00e9 or as %C3%A9.

    JSON within JSON has several backslashes. They are bounded: of a reply that is all backslashes
    each would be looked at once for every other.
    """
    plain = character.encode()
    url = "".join(f"%{byte:02X}" for byte in plain)
    number = f"u{ord(character):04X}"
    return rb"(?:\\{0,7}%b|\\{1,7}(?i:%b)|(?i:%b))" % (
        re.escape(plain),
        number.encode(),
        url.encode(),
    )


def key_of_environment(variable: str) -> str:
    """Read a key from an environment variable, without the line end of many a CI service.

    Returns:
        The key; "" if there is none, as where a CI service did not pass the secret on.

    Raises:
        SettingsError: it cannot be sent. The error of an HTTP library would quote it.
    """
    key = os.environ.get(variable, "").strip()
    if key.isascii() and key.isprintable():
        return key
    del key  # a traceback may show what is in a frame
    raise SettingsError(
        f"{variable} holds a character that no HTTP header can have: a line end, a typographic "
        "quote or an invisible space, say. Copy the key again, and nothing else"
    )


@contextmanager
def masked_logs() -> Iterator[None]:
    """Mask the secrets of URLs in the lines that HTTP libraries and SDKs log."""
    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(_mask_record)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(_mask_record)


def masked_urls(text: str) -> str:
    """Mask every URL in a text, such as the message of an exception; see ``masked_url``."""
    return _URL.sub(lambda found: masked_url(found[0]), text) if "://" in text else text


def masked_url(url: str) -> str:
    """Put asterisks in the place of user, password and secret parameters of a URL."""
    try:
        parts = urlsplit(url)
    except ValueError:  # an odd bracket
        return MASK
    _, at, host = parts.netloc.rpartition("@")
    query = "&".join(map(_masked_parameter, parts.query.split("&")))
    if not at and query == parts.query:
        return url  # as it was written
    return parts._replace(netloc=f"{MASK}@{host}" if at else host, query=query).geturl()


def _masked_parameter(parameter: str) -> str:
    name, _, _ = parameter.partition("=")
    return f"{name}={MASK}" if is_secret_name(unquote_plus(name)) else parameter


def _mask_record(record: logging.LogRecord) -> bool:
    if isinstance(record.args, tuple):
        told = ((one, str(one)) for one in record.args)
        record.args = tuple(masked_urls(text) if "://" in text else one for one, text in told)
    return True
