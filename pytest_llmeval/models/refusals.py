"""Whose fault it is that a provider refused a request, as far as its reply tells."""

from __future__ import annotations

import json
import re
from http import HTTPStatus

from pytest_llmeval.records import Failure

INFRASTRUCTURE_STATUSES = (
    HTTPStatus.UNAUTHORIZED,
    HTTPStatus.PAYMENT_REQUIRED,
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.CONFLICT,
    HTTPStatus.TOO_MANY_REQUESTS,
)
# An account without credit, which some vendors call a bad request: by code or type, and by
# the first words of the message where these say no more than that.
_UNPAID_CODES = ("insufficient_quota", "billing_error", "billing_hard_limit_reached")
_UNPAID_WORDS = "your credit balance is too low"


def failure_of(status: int, body: bytes = b"") -> Failure:
    """Classify a reply that is no success.

    Args:
        status: of the reply.
        body: likewise; it may say that the account has no credit.

    Returns:
        ``content`` for a request refused for what it contains, else ``infrastructure``.
    """
    is_client_error = HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR
    if is_client_error and status not in INFRASTRUCTURE_STATUSES and not _is_unpaid(body):
        return "content"
    return "infrastructure"


def _is_unpaid(body: bytes) -> bool:
    is_told = error_message(body).lower().startswith(_UNPAID_WORDS)
    return is_told or error_code(body) in _UNPAID_CODES


def error_message(body: bytes) -> str:
    """Read what the vendor says of an error; "" if it says nothing. It may quote the prompt."""
    try:
        error = json.loads(body)["error"]
        return error if isinstance(error, str) else str(error["message"])
    except (ValueError, LookupError, TypeError):
        return ""


def error_code(body: bytes) -> str:
    """Read the vendor's code for an error, else its type; "" for neither."""
    try:
        error = json.loads(body)["error"]
        code = error.get("code") or error.get("type")
    except (ValueError, LookupError, TypeError, AttributeError):
        return ""
    is_word = isinstance(code, str) and re.fullmatch(r"[\w.-]{1,64}", code)
    return str(code) if is_word else ""
