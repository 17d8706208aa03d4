"""What an HTTP status and a vendor's error code mean: every list of them, once.

Statuses that are about the content of a request are listed. Every other status but a success
is a failure of the infrastructure: a status nobody thought of must not score a trial.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus

from pytest_llmeval.records import Failure

ERROR_STATUSES = range(400, 600)
OVERLOADED = 529
THROTTLING_STATUSES = (
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.SERVICE_UNAVAILABLE,
    OVERLOADED,
)
# Besides those from 500 on: asking again may help.
RETRIED_STATUSES = (
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS,
)
# To a request that is not kept: an application may well ask whether something is there.
ANSWERING_STATUSES = (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT)
CONTENT_STATUSES = (
    HTTPStatus.BAD_REQUEST,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    HTTPStatus.UNPROCESSABLE_ENTITY,
    HTTPStatus.UNAVAILABLE_FOR_LEGAL_REASONS,
)

# Codes and types of errors. No wait brings the money back.
_UNPAID_NAMES = (
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "budget_exceeded",
    "insufficient_quota",
)
# What codes and types hold that are about an account or its key.
_ACCOUNT_NAME = re.compile(
    r"access_(denied|terminated)|account|(api|expired)_?key|auth|billing|budget_exceeded|"
    r"country|insufficient_(balance|credit|fund)|organi[sz]ation|payment|permission|quota|region",
    re.IGNORECASE,
)
# How messages begin that are about them, LiteLLM's own words before an upstream message aside.
# Only the beginning counts, to the first quotation or colon: what follows may quote the prompt.
_OWNED = r"(account|api key|billing|credit balance|organi[sz]ation|quota|subscription)\b"
_ACCOUNT_MESSAGE = re.compile(
    r"(litellm\.\w+: )?(\w+Exception - )?"
    rf"(((incorrect|invalid|no|the|this) )?{_OWNED}|budget has been exceeded|user location|"
    rf"[^\"'`:]{{0,200}}\byour ({_OWNED}|(specified )?api usage limits|country|region))",
    re.IGNORECASE,
)
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
}


def is_success(status: int) -> bool:
    """Whether a status is one of 200 to 299."""
    return HTTPStatus.OK <= status < HTTPStatus.MULTIPLE_CHOICES


def failure_of(status: int, body: bytes = b"") -> Failure:
    """Classify a reply that is no success.

    Args:
        status: of the reply.
        body: likewise; it may say that a bad request is about the account, or that another
            status is about the content.

    Returns:
        ``content`` for a request refused for what it contains, else ``infrastructure``.
    """
    names = error_names(body)
    if any(map(_ACCOUNT_NAME.search, names)):
        return "infrastructure"
    if any(map(_CONTENT_NAME.fullmatch, names)) or _was_flagged(body):
        return "content"
    if status not in CONTENT_STATUSES or _ACCOUNT_MESSAGE.match(error_message(body)):
        return "infrastructure"
    is_proxys = status == HTTPStatus.BAD_REQUEST and _object(body) is None
    return "infrastructure" if is_proxys else "content"


def status_of(error: Mapping[str, object]) -> int:
    """Tell with which status a plain request would have failed for an error in a stream."""
    code = str(error.get("code"))
    if re.fullmatch("[45][0-9]{2}", code):
        return int(code)
    names = _names(error)
    if any(map(_CONTENT_NAME.fullmatch, names)):
        return HTTPStatus.BAD_REQUEST
    known = [_STATUS_OF_CODE[name] for name in names if name in _STATUS_OF_CODE]
    return known[0] if known else HTTPStatus.INTERNAL_SERVER_ERROR


def is_unpaid(body: bytes) -> bool:
    """Whether an error says that the account has no money left."""
    return any(name in _UNPAID_NAMES for name in error_names(body))


def error_message(body: bytes) -> str:
    """Read what the vendor says of an error; "" if it says nothing. It may quote the prompt."""
    error = _error(body)
    message = error.get("message") if isinstance(error, dict) else error
    return message if isinstance(message, str) else ""


def error_type(body: bytes) -> object:
    """Read the type of an error, None if it has none."""
    error = _error(body)
    return error.get("type") if isinstance(error, dict) else None


def error_code(body: bytes) -> str:
    """Read the vendor's code for an error, else its type; "" for neither."""
    return next(iter(error_names(body)), "")


def error_names(body: bytes) -> tuple[str, ...]:
    """Read code and type of an error, without numbers: they only repeat a status."""
    error = _error(body)
    return _names(error) if isinstance(error, dict) else ()


def _names(error: Mapping[str, object]) -> tuple[str, ...]:
    told = (error.get("code"), error.get("type"))
    return tuple(name for name in told if isinstance(name, str) and _NAME.fullmatch(name))


def _was_flagged(body: bytes) -> bool:
    """Whether a gateway's moderation refused the request, which it tells beside a bare 403."""
    error = _error(body)
    metadata = error.get("metadata") if isinstance(error, dict) else None
    return isinstance(metadata, dict) and "flagged_input" in metadata


def _error(body: bytes) -> object:
    """Read the error that a reply tells of: an object or a text; None if it tells of none."""
    reply = _object(body)
    if reply is None:
        return None
    return reply.get("error", reply)  # vLLM, Mistral and AWS put no object around it


def _object(body: bytes) -> Mapping[str, object] | None:
    """Read the JSON object that a reply is; None for anything else, as a proxy's HTML."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(reply, list) and reply:  # so Google words it
        reply = reply[0]
    return reply if isinstance(reply, dict) else None
