"""HTTP replies: read up to a bound, whichever library brings them, or worded by ourselves."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from http import HTTPStatus

from pytest_llmeval.models.base import Facts
from pytest_llmeval.models.http_errors import ReplyError, failure_of, read_error
from pytest_llmeval.records import Failure

OWN_TYPE = "llmeval"  # of errors that we word ourselves
MAX_REPLY_BYTES = 128 * 2**20


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    """An HTTP reply, read to its end.

    Attributes:
        headers: by lower-case name.
        body: decoded bytes.
        seconds: how long this one attempt took, to the last byte; ``first_chunk_seconds`` to
            the first of the body, None where that is not known.
        facts: of the call, as a success tells them; None for a failure, and until it was read.
    """

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    seconds: float = 0.0
    first_chunk_seconds: float | None = None
    facts: Facts | None = None

    @cached_property
    def error(self) -> ReplyError:
        """The error that the body tells of."""
        return read_error(self.body)

    @property
    def failure(self) -> Failure:
        """The kind of failure that this is."""
        return failure_of(self.status, self.error)


def own_failure(status: int, message: str, *, code: str) -> HttpReply:
    """Word a failure of ours as an SDK expects a vendor's."""
    error = {"message": message, "type": OWN_TYPE, "code": code}
    return HttpReply(
        status=status,
        headers={"content-type": "application/json"},
        body=json.dumps({"error": error}).encode(),
    )


class ReplyTooLarge(Exception):
    """A reply was not read to its end, as it is larger than may be.

    Attributes:
        reply: what is handed on in its place; it is not asked for again.
    """

    def __init__(self, most: int) -> None:
        """Say how many bytes may be read, and where that is set."""
        message = (
            f"the reply is larger than {most / 2**20:g} MiB and was not read to its end. "
            "If it is meant to be so large, set llm_max_reply_mb in the ini file"
        )
        super().__init__(message)
        own = own_failure(HTTPStatus.BAD_GATEWAY, message, code="llmeval_reply_too_large")
        self.reply = replace(own, headers={**own.headers, "x-should-retry": "false"})


class Reading:
    """A reply that is read chunk by chunk, up to a bound.

    Args:
        most: so many bytes may come.

    Attributes:
        started: when the reply was asked for, on ``time.perf_counter``.
        first: after how many seconds the first chunk came; None if none did.
    """

    def __init__(self, *, most: int = MAX_REPLY_BYTES) -> None:
        self.started = time.perf_counter()
        self.first: float | None = None
        self.most = most
        self._body = bytearray()

    def add(self, chunk: bytes) -> None:
        """Take the next chunk.

        Raises:
            ReplyTooLarge: more came than may be read.
        """
        if self.first is None:
            self.first = time.perf_counter() - self.started
        self._body += chunk
        if len(self._body) > self.most:
            raise ReplyTooLarge(self.most)

    def add_all(self, chunks: Iterable[bytes]) -> bytes:
        """Take all chunks and return the body; raises as ``add``."""
        for chunk in chunks:
            self.add(chunk)
        return bytes(self._body)

    @property
    def body(self) -> bytes:
        """All chunks that came."""
        return bytes(self._body)
