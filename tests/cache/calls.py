"""A request, and calls that answer it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pytest_llmeval.cache.key import Canonical, canonical_request
from pytest_llmeval.cache.process_locks import ProcessLocks
from pytest_llmeval.cache.replies import Replies, StoredReply
from pytest_llmeval.cache.reply import KeptRequest, paid_reply
from pytest_llmeval.records import Slot

KEY = "ab" * 32
SLOT = Slot(0, 0)


def says(text: bytes | str, **answer: Any) -> Callable[[], StoredReply]:
    """A call that brings this text."""
    body = text.encode() if isinstance(text, str) else text
    return lambda: paid_reply(body, **answer)


def overtaken(first: Callable[[], object], text: str) -> Callable[[], StoredReply]:
    """A call that brings this text only when somebody else has paid for the draw."""

    def call() -> StoredReply:
        first()
        return paid_reply(text.encode())

    return call


@contextmanager
def locked(locks: ProcessLocks, name: str) -> Iterator[None]:
    """Lock a draw in here, as whoever pays for it does."""
    release = locks.take(name)
    yield
    release()


def never() -> StoredReply:
    raise AssertionError("a call was made")


def wanted(key: str, call: Callable[[], StoredReply] = never, **more: Any) -> KeptRequest:
    """A request that this call answers."""
    return KeptRequest(key=key, perform=lambda _slot: call(), **more)


def answered(
    replies: Replies, key: str, slot: Slot, call: Callable[[], StoredReply]
) -> StoredReply:
    """Replay a draw, or pay for it."""
    stored = replies.lookup(wanted(key), slot)
    return replies.pay(wanted(key, call), slot) if stored is None else stored


def asks(text: str = "Name the capital of Peru.", **parts: Any) -> Canonical:
    """A request for a chat."""
    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
    chat: dict[str, Any] = {
        "provider": "openai",
        "method": "POST",
        "origin": "http://127.0.0.1:8000",
        "path": "/v1/chat/completions",
        "body": body,
    }
    return canonical_request(**{**chat, **parts})
