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
UNPAID_CODES = (
    "billing_error",
    "billing_hard_limit_reached",
    "billing_not_active",
    "insufficient_quota",
)
_KEY_CODES = (
    "account_deactivated",
    "authentication_error",
    "invalid_api_key",
    "permission_error",
    "unsupported_country_region_territory",
)
# A filter, or a context that was too long; some gateways answer them with 403 or 500.
_CONTENT_CODES = (
    "content_filter",
    "content_policy_violation",
    "context_length_exceeded",
    "exceed_context_size_error",
    "image_content_policy_violation",
    "invalid_prompt",
    "moderation_blocked",
)
# How messages begin of a bad request (400) whose code does not tell that it is about the account.
_ACCOUNT_WORDS = (
    "api key not valid",
    "incorrect api key",
    "user location is not supported",
    "you have reached your specified api usage limits",
    "your credit balance is too low",
)
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
    **dict.fromkeys(_CONTENT_CODES, HTTPStatus.BAD_REQUEST),
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
    code = error_code(body)
    if code in UNPAID_CODES or code in _KEY_CODES or _is_about_account(body):
        return "infrastructure"
    is_content = status in CONTENT_STATUSES or code in _CONTENT_CODES or _was_flagged(body)
    return "content" if is_content else "infrastructure"


def status_of(error: Mapping[str, object]) -> int:
    """Tell with which status a plain request would have failed for an error in a stream."""
    code = error.get("code")
    if isinstance(code, int) and code in ERROR_STATUSES:
        return code
    names = (str(code), str(error.get("type")))
    known = [_STATUS_OF_CODE[name] for name in names if name in _STATUS_OF_CODE]
    return known[0] if known else HTTPStatus.INTERNAL_SERVER_ERROR


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
    error = _error(body)
    code = (error.get("code") or error.get("type")) if isinstance(error, dict) else None
    is_word = isinstance(code, str) and re.fullmatch(r"[\w.-]{1,64}", code)
    return str(code) if is_word else ""


def _is_about_account(body: bytes) -> bool:
    return error_message(body).lower().startswith(_ACCOUNT_WORDS)


def _was_flagged(body: bytes) -> bool:
    """Whether a gateway's moderation refused the request, which it tells beside a bare 403."""
    error = _error(body)
    metadata = error.get("metadata") if isinstance(error, dict) else None
    return isinstance(metadata, dict) and "flagged_input" in metadata


def _error(body: bytes) -> object:
    """Read the error that a reply tells of: an object or a text; None if it tells of none."""
    try:
        reply = json.loads(body)
    except (ValueError, RecursionError):
        return None
    if isinstance(reply, list) and reply:  # so Google words it
        reply = reply[0]
    return reply.get("error") if isinstance(reply, dict) else None
