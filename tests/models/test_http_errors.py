"""Whose fault a failure is, and what a code in a stream amounts to."""

from __future__ import annotations

import json

import pytest

from pytest_llmeval.models.http_errors import error_code, error_message, failure_of, status_of

ABOUT_CONTENT = {400, 413, 415, 422, 451}


@pytest.mark.parametrize("status", sorted(ABOUT_CONTENT))
def test_what_is_refused_for_what_it_contains_is_content(status: int) -> None:
    assert failure_of(status) == "content"


@pytest.mark.parametrize(
    "status", [s for s in (*range(100, 200), *range(300, 600)) if s not in ABOUT_CONTENT]
)
def test_every_other_status_is_infrastructure(status: int) -> None:
    assert failure_of(status) == "infrastructure"


UNPAID = {
    "type": "invalid_request_error",
    "message": "Your credit balance is too low to access the API. Please go to Plans & Billing.",
}
QUOTING = {"type": "invalid_request_error", "message": "Not allowed: 'credit balance is too low'"}


@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (UNPAID, "infrastructure"),
        ({"type": "billing_error", "message": "m"}, "infrastructure"),
        ({"code": "insufficient_quota", "message": "m"}, "infrastructure"),
        ({"code": "billing_hard_limit_reached", "message": "m"}, "infrastructure"),
        (
            {"message": "You have reached your specified API usage limits. You will regain access"},
            "infrastructure",
        ),
        ({"code": "invalid_api_key", "message": "m"}, "infrastructure"),
        ("Incorrect API key provided: xa***ys.", "infrastructure"),
        ({"code": 400, "message": "API key not valid. Please pass one."}, "infrastructure"),
        ({"code": "unsupported_country_region_territory"}, "infrastructure"),
        ({"code": 400, "message": "User location is not supported."}, "infrastructure"),
        (QUOTING, "content"),
        ("text", "content"),
        (True, "content"),
        (None, "content"),
    ],
)
def test_an_account_or_a_key_is_not_the_applications_fault(error: object, failure: str) -> None:
    assert failure_of(400, json.dumps({"error": error}).encode()) == failure


def test_an_error_in_a_list_is_read_too() -> None:
    body = b'[{"error": {"code": 400, "message": "API key not valid. Please pass one."}}]'

    assert error_message(body) == "API key not valid. Please pass one."
    assert failure_of(400, body) == "infrastructure"


@pytest.mark.parametrize("status", [403, 404, 500, 529])
@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter"},
        {"code": "context_length_exceeded"},
        {"type": "exceed_context_size_error"},
        {"code": "content_policy_violation"},
        {"code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "..."}},
    ],
    ids=["filter", "context", "context of a local server", "policy", "moderation"],
)
def test_a_filter_or_a_context_too_long_is_content_under_any_status(
    error: object, status: int
) -> None:
    assert failure_of(status, json.dumps({"error": error}).encode()) == "content"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[7]", b"7", b"[" * 100_000, b'{"error": 7}'])
def test_a_body_that_tells_no_error_has_no_code_and_no_message(body: bytes) -> None:
    assert (error_code(body), error_message(body)) == ("", "")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 503}, 503),
        ({"code": "context_length_exceeded"}, 400),
        ({"type": "authentication_error"}, 401),
        ({"type": "request_too_large"}, 413),
        ({"code": "unheard_of"}, 500),
    ],
)
def test_an_error_in_a_stream_has_the_status_of_a_plain_one(
    error: dict[str, object], status: int
) -> None:
    assert status_of(error) == status
