"""HTTP replies: read up to a bound, and the meaning of statuses and vendors' error codes.

Statuses that are about the content of a request are listed. Every other status but a success
is a failure of the infrastructure: a status nobody thought of must not score a trial.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import cached_property
from http import HTTPStatus
from json import dumps, loads
from typing import NamedTuple

from pytest_llmeval.cache.reply import Told
from pytest_llmeval.errors import Failure
from pytest_llmeval.originals import Clock

OVERLOADED = 529
THROTTLING_STATUSES = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE, OVERLOADED)
# Besides those from 500 on: asking again may help.
RETRIED_STATUSES = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS)
CONTENT_STATUSES = (
    HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY, HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS,
)  # fmt: skip

# Codes and types of errors. No wait brings the money back.
UNPAID_NAME = re.compile(
    "billing_(error|hard_limit_reached|not_active)|budget_exceeded|insufficient_quota"
)
# Parts of codes and types that are about an account, its key, its limits or its choice of models.
_ACCOUNT_NAME = re.compile(
    r"access_(denied|terminated)|account|(api|expired)_?key|auth|billing|budget_exceeded|"
    r"country|insufficient_(balance|credit|fund)|invalid_model$|"
    r"model_(decommissioned|not_\w+|terms_required)|organi[sz]ation|payment|permission|quota|"
    r"rate_limit|region",
    re.IGNORECASE,
)
# Beginnings of messages about an account, LiteLLM's own words before an upstream message aside.
# Only the text before the first quotation or colon counts: the rest may quote the prompt.
_OWNED = r"(account|api key|billing|credit balance|organi[sz]ation|quota|subscription)\b"
_ACCOUNT_MESSAGE = re.compile(
    r"(litellm\.\w+: )?(\w+Exception - )?"
    rf"(((incorrect|invalid|no|the|this) )?{_OWNED}|budget has been exceeded|user location|"
    rf"[^\"'`:]{{0,200}}\byour ({_OWNED}|(specified )?api usage limits|country|region))",
    re.IGNORECASE,
)
# Those about the key itself: it is revoked, of another project or may not do this.
_REFUSING = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
_KEY_NAME = re.compile(r"(api|expired)_?key|auth|permission|organi[sz]ation", re.IGNORECASE)
_KEY_MESSAGE = re.compile(r"((incorrect|invalid|no|the|this) )?api key\b", re.IGNORECASE)
# A filter, a context that was too long or a broken image; some gateways answer with 403 or 500.
_CONTENT_NAME = re.compile(
    r"content_filter|context_length_exceeded|exceed_context_size_error|invalid_prompt|"
    r"moderation_blocked|(\w+_)?policy_violation|(empty|invalid|unsupported)_(base64_)?image\w*|"
    r"image_(file_)?(not_found|parse_error|too_\w+)"
)
_NAME = re.compile(r"(?!None$|[0-9]+$)[\w.-]{1,64}")
# The status with which a plain request would have failed, for an error told in a stream.
_STATUS_OF_CODE: Mapping[str, int] = {
    "rate_limit_exceeded": HTTPStatus.TOO_MANY_REQUESTS,
    "rate_limit_error": HTTPStatus.TOO_MANY_REQUESTS,
    "insufficient_quota": HTTPStatus.TOO_MANY_REQUESTS,
    "overloaded_error": OVERLOADED,
    "billing_error": HTTPStatus.PAYMENT_REQUIRED,
    "authentication_error": HTTPStatus.UNAUTHORIZED,
    "permission_error": HTTPStatus.FORBIDDEN,
    "not_found_error": HTTPStatus.NOT_FOUND,
    "request_too_large": HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    "invalid_request_error": HTTPStatus.BAD_REQUEST,
    "throttlingException": HTTPStatus.TOO_MANY_REQUESTS,  # this and the next are Amazon's
    "serviceUnavailableException": HTTPStatus.SERVICE_UNAVAILABLE,
    "validationException": HTTPStatus.BAD_REQUEST,
}


class ReplyError(NamedTuple):
    """The error that the body of a reply tells of.

    Attributes:
        message: the vendor's words, "" if it says nothing. They may quote the prompt.
        names: code, type and Google's status, without numbers: those only repeat HTTP's.
        is_flagged: a gateway's moderation refused the request, which it tells beside a bare 403.
        is_object: the body is a JSON object; that of a proxy is HTML.
    """

    message: str = ""
    names: tuple[str, ...] = ()
    is_flagged: bool = False
    is_object: bool = False

    @property
    def code(self) -> str:
        """The vendor's code, else its type; "" for neither."""
        return self.names[0] if self.names else ""

    @property
    def is_unpaid(self) -> bool:
        """True where the account has no money left."""
        return any(map(UNPAID_NAME.fullmatch, self.names))


def read_error(body: bytes) -> ReplyError:
    """Read the error that a reply tells of."""
    try:
        reply = loads(body)
    except (ValueError, RecursionError):
        return ReplyError()
    if isinstance(reply, list) and reply:  # so Google words it
        reply = reply[0]
    if not isinstance(reply, dict):
        return ReplyError()
    error = reply.get("error", reply)  # vLLM, Mistral and AWS put no object around it
    if not isinstance(error, dict):
        return ReplyError(message=error if isinstance(error, str) else "", is_object=True)
    message, metadata = error.get("message"), error.get("metadata")
    return ReplyError(
        message=message if isinstance(message, str) else "",
        names=_names(error),
        is_flagged=isinstance(metadata, dict) and "flagged_input" in metadata,
        is_object=True,
    )


def failure_of(status: int, error: ReplyError) -> Failure:
    """Classify a reply that is no success.

    Args:
        status: of the reply.
        error: likewise; it may say that a bad request is about the account, or that another
            status is about the content.

    Returns:
        ``content`` for a request refused for what it contains, else ``infrastructure``.
    """
    if any(map(_ACCOUNT_NAME.search, error.names)):
        return "infrastructure"
    if any(map(_CONTENT_NAME.fullmatch, error.names)) or error.is_flagged:
        return "content"
    if status not in CONTENT_STATUSES or _ACCOUNT_MESSAGE.match(error.message):
        return "infrastructure"
    is_proxys = status == HTTPStatus.BAD_REQUEST and not error.is_object
    return "infrastructure" if is_proxys else "content"


def status_of(error: Mapping[str, object]) -> int:
    """Return the status with which a plain request would have failed for an error in a stream."""
    code = str(error.get("code"))
    if re.fullmatch("[45][0-9]{2}", code):
        return int(code)
    names = _names(error)
    if any(map(_CONTENT_NAME.fullmatch, names)):
        return HTTPStatus.BAD_REQUEST
    known = [_STATUS_OF_CODE[name] for name in names if name in _STATUS_OF_CODE]
    return known[0] if known else HTTPStatus.INTERNAL_SERVER_ERROR


def _names(error: Mapping[str, object]) -> tuple[str, ...]:
    names = (error.get("code"), error.get("type"), error.get("status"))  # the last is Google's
    return tuple(name for name in names if isinstance(name, str) and _NAME.fullmatch(name))


OWN_TYPE = "llmeval"  # of errors that we word ourselves


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
    facts: Told | None = None

    @cached_property
    def error(self) -> ReplyError:
        """The error that the body tells of."""
        return read_error(self.body)

    @property
    def failure(self) -> Failure:
        """The kind of failure that this is."""
        return failure_of(self.status, self.error)

    @property
    def refuses_key(self) -> bool:
        """Whether the key of the request is what is wrong with it; no matter of money."""
        if self.status not in _REFUSING or self.error.is_unpaid:
            return False
        is_named = any(map(_KEY_NAME.search, self.error.names))
        is_named = is_named or bool(_KEY_MESSAGE.match(self.error.message))
        return is_named or self.status == HTTPStatus.UNAUTHORIZED


def is_throttled(reply: HttpReply) -> bool:
    """Whether the provider only wants fewer calls, and will answer this one later."""
    if not may_pass(reply):
        return False
    return reply.status in THROTTLING_STATUSES or retry_after(reply.headers) is not None


def may_pass(outcome: HttpReply) -> bool:
    """Whether asking again may help: not if the server says no, or nobody pays it."""
    if outcome.headers.get("x-should-retry") == "false":
        return False
    is_servers_fault = outcome.status >= HTTPStatus.INTERNAL_SERVER_ERROR
    if outcome.status not in RETRIED_STATUSES and not is_servers_fault:
        return False
    return outcome.failure == "infrastructure" and not outcome.error.is_unpaid


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Read the wait the server asks for, in seconds; None if it names no sensible one."""
    value, millis = headers.get("retry-after", ""), headers.get("retry-after-ms", "")
    for read, text, unit in ((float, millis, 1000), (float, value, 1), (_seconds_until, value, 1)):
        with suppress(ValueError, OverflowError):  # the latter by a date beyond what C counts
            seconds = read(text) / unit
            if math.isfinite(seconds):
                return seconds if seconds >= 0 else None
    return None


def _seconds_until(date: str) -> float:
    moment = parsedate_to_datetime(date)
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - Clock.now()).total_seconds()


def own_failure(status: int, message: str, *, code: str) -> HttpReply:
    """Word a failure of ours as an SDK expects a vendor's."""
    error = {"message": message, "type": OWN_TYPE, "code": code}
    body = dumps({"error": error}).encode()
    return HttpReply(status=status, headers={"content-type": "application/json"}, body=body)


class ReplyTooLarge(Exception):
    """A reply was not read to its end, as it is larger than may be.

    Attributes:
        reply: what is handed on in its place; it is not asked for again.
    """

    def __init__(self, most: int) -> None:
        """Say how many bytes may be read, and where that is set."""
        message = (
            f"the reply is larger than {most / 2**20:g} MiB and was not read to its end. "
            "For larger replies set llm_max_reply_mb in the ini file"
        )
        super().__init__(message)
        own = own_failure(HTTPStatus.BAD_GATEWAY, message, code="llmeval_reply_too_large")
        self.reply = replace(own, headers={**own.headers, "x-should-retry": "false"})


def headers_by_name(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return headers by lower-case name; several of one name are one list."""
    by_name: dict[str, str] = {}
    for raw, text in headers:
        name, value = raw.decode("ascii").lower(), text.decode("latin-1")
        by_name[name] = f"{by_name[name]}, {value}" if name in by_name else value
    return by_name


@dataclass(slots=True)
class Reading:
    """A reply that is read chunk by chunk, up to a bound.

    Attributes:
        started: when the reply was asked for, on ``Clock.seconds``.
        most: so many bytes may come.
        first: after how many seconds the first chunk came; None if none did.
    """

    started: float
    most: int
    first: float | None = None
    _body: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Take the next chunk.

        Raises:
            ReplyTooLarge: more came than may be read.
        """
        if self.first is None:
            self.first = Clock.seconds() - self.started
        self._body += chunk
        if len(self._body) > self.most:
            raise ReplyTooLarge(self.most)

    def add_all(self, chunks: Iterable[bytes]) -> bytes:
        """Take all chunks and return the body; raises as ``add``."""
        for chunk in chunks:
            self.add(chunk)
        return bytes(self._body)

    def reply(self, status: int, headers: Mapping[str, str]) -> HttpReply:
        """Describe the reply, which was read to its end."""
        return HttpReply(
            status=status,
            headers=headers,
            body=bytes(self._body),
            seconds=Clock.seconds() - self.started,
            first_chunk_seconds=self.first,
        )
