"""Whose fault a refusal is."""

from __future__ import annotations

import json

import pytest

from pytest_llmeval.models.refusals import failure_of


@pytest.mark.parametrize("status", [301, 401, 402, 403, 404, 408, 409, 429, 500, 502, 503, 529])
def test_what_asking_again_might_cure_is_infrastructure(status: int) -> None:
    assert failure_of(status) == "infrastructure"


@pytest.mark.parametrize("status", [400, 413, 418, 422])
def test_what_is_refused_for_what_it_contains_is_content(status: int) -> None:
    assert failure_of(status) == "content"


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
        (QUOTING, "content"),
        ("text", "content"),
        (None, "content"),
    ],
)
def test_an_account_without_credit_is_not_the_applications_fault(
    error: object, failure: str
) -> None:
    assert failure_of(400, json.dumps({"error": error}).encode()) == failure
