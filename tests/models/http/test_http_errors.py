"""Whose fault a failure is, and what a code in a stream amounts to."""

from __future__ import annotations

import json

import pytest

from pytest_llmeval.models.http.answers import Expected, with_facts
from pytest_llmeval.models.http.http_reply import HttpReply, is_throttled, read_error, status_of
from pytest_llmeval.models.vendors.openai import VENDOR

ABOUT_CONTENT = {400, 413, 415, 422, 451}


@pytest.mark.parametrize("status", sorted(ABOUT_CONTENT))
def test_what_is_refused_for_what_it_contains_is_content(status: int) -> None:
    assert HttpReply(status=status, body=b'{"error": {"message": "m"}}').failure == "content"


def test_every_other_status_is_infrastructure() -> None:
    body = b'{"error": {"message": "m"}}'
    statuses = {*range(100, 200), *range(300, 600)} - ABOUT_CONTENT
    failures = {status: HttpReply(status=status, body=body).failure for status in statuses}
    assert failures == dict.fromkeys(statuses, "infrastructure")


@pytest.mark.parametrize("body", [b"", b"<html>400 Bad Request</html>", b"Bad Request", b'"no"'])
def test_a_bad_request_that_no_model_server_worded_is_a_proxys(body: bytes) -> None:
    assert HttpReply(status=400, body=body).failure == "infrastructure"
    assert HttpReply(status=413, body=body).failure == "content"


def test_a_request_too_large_for_the_rate_of_an_account_is_not_its_contents_fault() -> None:
    groqs = {"message": "Request too large for model", "type": "tokens"}
    body = json.dumps({"error": {**groqs, "code": "rate_limit_exceeded"}}).encode()

    assert HttpReply(status=413, body=body).failure == "infrastructure"


UNPAID = {
    "type": "invalid_request_error",
    "message": "Your credit balance is too low to access the API. Please go to Plans & Billing.",
}


@pytest.mark.parametrize(
    ("status", "error", "is_refused"),
    [
        (401, {"code": "invalid_api_key", "message": "m"}, True),
        (401, {"message": "m"}, True),
        (403, {"type": "permission_error", "message": "m"}, True),
        (403, {"status": "PERMISSION_DENIED", "message": "m"}, True),
        (401, {"code": "mismatched_organization", "message": "m"}, True),
        (400, {"status": "INVALID_ARGUMENT", "message": "API key not valid. Pass one."}, True),
        (403, {"code": "unsupported_country_region_territory", "message": "m"}, False),
        (403, {"message": "m"}, False),
        (400, {"message": "m"}, False),
        (402, {"message": "m"}, False),
        (401, {"type": "billing_error", "message": "m"}, False),
        (429, {"code": "insufficient_quota", "message": "m"}, False),
        (429, {"code": "invalid_api_key", "message": "m"}, False),
    ],
)
def test_a_key_that_is_refused_is_no_matter_of_money(
    status: int, error: dict[str, object], is_refused: bool
) -> None:
    body = json.dumps({"error": error}).encode()
    assert HttpReply(status=status, body=body).refuses_key is is_refused


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
        ({"code": 400, "type": "authentication_error", "message": "m"}, "infrastructure"),
        ({"code": "400", "type": "billing_error", "message": "m"}, "infrastructure"),
        ({"code": "organization_restricted", "message": "m"}, "infrastructure"),
        ({"code": "400", "type": "budget_exceeded", "message": "m"}, "infrastructure"),
        ({"code": "400", "message": "Budget has been exceeded! Max: 10.0"}, "infrastructure"),
        (
            {"message": "litellm.BadRequestError: OpenAIException - Budget has been exceeded!"},
            "infrastructure",
        ),
        ({"message": "This organization has been disabled."}, "infrastructure"),
        ({"message": "Organization has been restricted."}, "infrastructure"),
        (
            {"code": "unsupported_value", "message": "Your organization must be verified to"},
            "infrastructure",
        ),
        ({"code": 400, "message": "API key expired. Please renew the API key."}, "infrastructure"),
        (
            {"message": "Gemini API free tier is not available in your country."},
            "infrastructure",
        ),
        (
            {"code": "Arrearage", "message": "Access denied, make sure your account is paid."},
            "infrastructure",
        ),
        ({"code": "model_decommissioned", "message": "m"}, "infrastructure"),
        ({"code": "model_not_supported", "message": "m"}, "infrastructure"),
        ({"code": "model_terms_required", "message": "m"}, "infrastructure"),
        ({"code": "1500", "type": "invalid_model", "message": "m"}, "infrastructure"),
        ({"code": "invalid_model_output", "message": "m"}, "content"),
        (QUOTING, "content"),
        ({"message": "Not allowed: your account is closed"}, "content"),
        ({"message": "The thinking budget 50000 is invalid."}, "content"),
        ({"message": "Credit card number detected"}, "content"),
        ({"message": "Your input exceeds the context window of this model."}, "content"),
        ({"message": "Invalid schema for function 'get_account': m"}, "content"),
        ({"code": "content_policy_violation", "message": "Your account is fine."}, "content"),
        ("text", "content"),
        (True, "content"),
        (None, "content"),
    ],
)
def test_an_account_or_a_key_is_not_the_applications_fault(error: object, failure: str) -> None:
    assert HttpReply(status=400, body=json.dumps({"error": error}).encode()).failure == failure


@pytest.mark.parametrize(
    "error",
    [
        UNPAID,
        {"code": 400, "message": "API key not valid. Please pass a valid API key."},
        {"code": "400", "type": "billing_error", "message": "m"},
        "Incorrect API key provided: xa***ys.",
    ],
)
@pytest.mark.parametrize("is_stream", [False, True], ids=["plain", "stream"])
def test_an_error_of_the_account_told_with_status_200_is_infrastructure(
    error: object, *, is_stream: bool
) -> None:
    body = json.dumps({"type": "error", "error": error}).encode()
    sent = HttpReply(status=200, body=b"data: " + body + b"\n\n" if is_stream else body)

    reply = with_facts(sent, Expected(dialect=VENDOR, is_stream=is_stream))

    assert reply.failure == "infrastructure"


@pytest.mark.parametrize("code", ["400", 400])
def test_a_numeric_code_in_a_stream_is_its_status_as_text_or_number(code: object) -> None:
    error = {"message": "litellm.ContentPolicyViolationError: m", "type": "None", "code": code}
    event = b"data: " + json.dumps({"error": error}).encode() + b"\n\n"

    reply = with_facts(HttpReply(status=200, body=event), Expected(dialect=VENDOR, is_stream=True))

    assert (reply.status, reply.failure) == (400, "content")
    assert reply.error.code == ""


def test_an_account_without_money_is_not_waited_for() -> None:
    spent = {"code": "429", "type": "budget_exceeded", "message": "m"}

    reply = HttpReply(status=429, body=json.dumps({"error": spent}).encode())

    assert not is_throttled(reply)


def test_an_error_without_an_object_around_it_is_read_too() -> None:
    body = b'{"object": "error", "type": "BadRequestError", "code": 400, "message": "no"}'

    assert (read_error(body).code, read_error(body).message) == ("BadRequestError", "no")


def test_an_error_in_a_list_is_read_too() -> None:
    body = b'[{"error": {"code": 400, "message": "API key not valid. Please pass one."}}]'

    assert read_error(body).message == "API key not valid. Please pass one."
    assert HttpReply(status=400, body=body).failure == "infrastructure"


@pytest.mark.parametrize("status", [403, 404, 500, 529])
@pytest.mark.parametrize(
    "error",
    [
        {"code": "content_filter"},
        {"code": "context_length_exceeded"},
        {"type": "exceed_context_size_error", "code": 500},
        {"code": "content_policy_violation"},
        {"code": 403, "metadata": {"reasons": ["violence"], "flagged_input": "..."}},
    ],
    ids=["filter", "context", "context of a local server", "policy", "moderation"],
)
def test_a_filter_or_a_context_too_long_is_content_under_any_status(
    error: object, status: int
) -> None:
    assert HttpReply(status=status, body=json.dumps({"error": error}).encode()).failure == "content"


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"[7]", b"7", b"[" * 100_000, b'{"error": 7}'])
def test_a_body_that_tells_no_error_has_no_code_and_no_message(body: bytes) -> None:
    assert (read_error(body).code, read_error(body).message) == ("", "")


@pytest.mark.parametrize(
    ("error", "status"),
    [
        ({"code": 503}, 503),
        ({"code": "context_length_exceeded"}, 400),
        ({"type": "exceed_context_size_error"}, 400),
        ({"code": "content_policy_violation"}, 400),
        ({"code": "invalid_image"}, 400),
        ({"code": "invalid_base64_image"}, 400),
        ({"code": "image_too_large"}, 400),
        ({"code": "image_file_not_found"}, 400),
        ({"code": "failed_to_download_image"}, 500),
        ({"type": "authentication_error"}, 401),
        ({"type": "request_too_large"}, 413),
        ({"code": "unheard_of"}, 500),
    ],
)
def test_an_error_in_a_stream_has_the_status_of_a_plain_one(
    error: dict[str, object], status: int
) -> None:
    assert status_of(error) == status
