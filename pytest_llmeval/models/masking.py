"""A key that a server quotes as it refuses a request is shown to nobody.

The message of a refusal ends in the SDK's exception, and so on the terminal and in CI's logs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from urllib.parse import parse_qsl

from pytest_llmeval.cache.key import is_secret_name
from pytest_llmeval.models.retries import WireReply

MASK = "***"
SHORTEST = 8  # what is shorter is a word (EMPTY, ollama) that a local server is given
_ENDINGS = ("key", "token", "secret", "authorization", "cookie")


def secrets_of(headers: Iterable[tuple[str, str]], *, query: str) -> tuple[str, ...]:
    """Pick out what a request must not show, the longest first.

    Args:
        headers: names and values, as sent.
        query: of the URL.
    """
    sent = [text for name, text in headers if name.lower().endswith(_ENDINGS)]
    bare = [text.rpartition(" ")[2] for text in sent]  # without "Bearer"
    asked = [text for name, text in parse_qsl(query) if is_secret_name(name)]
    secrets = {text for text in (*sent, *bare, *asked) if len(text) >= SHORTEST}
    return tuple(sorted(secrets, key=lambda text: (-len(text), text)))


def masked(reply: WireReply, secrets: Iterable[str]) -> WireReply:
    """Put asterisks in the place of secrets that a reply quotes."""
    body = reply.body
    for secret in secrets:
        body = body.replace(secret.encode(), MASK.encode())
    return replace(reply, body=body)
