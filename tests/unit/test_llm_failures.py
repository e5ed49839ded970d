"""From statuses, headers and texts of the wire to typed errors that are safe to show."""

from __future__ import annotations

import pytest

from engine.errors import (
    AuthenticationError,
    LLMError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
)
from engine.llm.failures import exhausted_for, failure_of_status, retry_after, safe_text

DATE = "Sun, 29 Nov 2026 12:00:00 GMT"


def failure(status: int, kind: str = "", code: str = "", headers: dict[str, str] | None = None) -> LLMError:
    return failure_of_status(
        status, kind, code, "what it said", headers or {}, endpoint="https://models.example"
    )


@pytest.mark.parametrize(
    ("status", "kind", "code", "error", "retryable"),
    [
        (400, "invalid_request_error", "", RequestRejectedError, False),
        (401, "authentication_error", "", AuthenticationError, False),
        (402, "billing_error", "", RequestRejectedError, False),
        (403, "permission_error", "", AuthenticationError, False),
        (404, "not_found_error", "", RequestRejectedError, False),
        (405, "", "", RequestRejectedError, False),
        (408, "", "", ServiceError, True),
        (409, "conflict_error", "", ServiceError, True),
        (413, "request_too_large", "", RequestRejectedError, False),
        (422, "", "", RequestRejectedError, False),
        (429, "rate_limit_error", "", RateLimitedError, True),
        (429, "rate_limit_error", "ramp_limit_exceeded", RateLimitedError, True),
        (429, "rate_limit_error", "enforced_spend_limit_reached", RequestRejectedError, False),
        (429, "rate_limit_error", "contract_spend_limit_reached", RequestRejectedError, False),
        (500, "api_error", "", ServiceError, True),
        (501, "", "", ServiceError, True),
        (504, "timeout_error", "", ServiceError, True),
        (529, "overloaded_error", "", OverloadedError, True),
        # Errors inside a stream come with status 200.
        (200, "overloaded_error", "", OverloadedError, True),
        (200, "rate_limit_error", "", RateLimitedError, True),
        (200, "invalid_request_error", "", RequestRejectedError, False),
        (200, "something_new", "", ServiceError, True),
    ],
)
def test_each_status_is_its_error(
    status: int, kind: str, code: str, error: type[LLMError], retryable: bool
) -> None:
    found = failure(status, kind, code)
    assert type(found) is error
    assert found.retryable is retryable
    assert "what it said" in str(found)
    assert found.status == (status if status != 200 else found.status)


def test_the_services_own_advice_about_retrying_counts() -> None:
    assert not failure(500, headers={"x-should-retry": "false"}).retryable
    assert failure(400, headers={"x-should-retry": "true"}).retryable
    assert ServiceError("another").retryable


def test_an_error_names_the_request_for_the_services_support() -> None:
    assert "req_42" in str(failure(500, headers={"request-id": "req_42"}))


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "7", "retry-after-ms": "1500"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:30 GMT", "date": DATE}, 30.0),
        ({"retry-after": "Sun, 29 Nov 2026 12:00:30 GMT"}, None),
    ],
)
def test_the_pause_asked_for_is_read_in_every_form(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def limits(**values: str) -> dict[str, str]:
    named = {f"anthropic-ratelimit-{name.replace('_', '-')}": value for name, value in values.items()}
    return {"date": DATE} | named


def test_a_limit_that_is_used_up_is_found_with_the_time_until_it_is_worth_coming_back() -> None:
    full = "2026-11-29T12:01:00Z"
    assert exhausted_for({}) is None
    assert exhausted_for(limits(requests_remaining="3", requests_reset=full, requests_limit="50")) is None
    # 50 requests a minute are one in 1.2 seconds.
    requests = limits(requests_remaining="0", requests_reset=full, requests_limit="50")
    assert exhausted_for(requests) == (1.2, "requests")
    # A twentieth of the tokens is there after a twentieth of the time.
    tokens = limits(output_tokens_remaining="0", output_tokens_reset=full, output_tokens_limit="8000")
    assert exhausted_for(tokens) == (3.0, "output tokens")
    assert exhausted_for(requests | tokens) == (3.0, "output tokens")


@pytest.mark.parametrize("reset", ["2026-11-29T11:59:00Z", "tomorrow", "", "2026-11-29T12:00:09"])
def test_a_reset_that_is_over_or_unreadable_pauses_nobody(reset: str) -> None:
    assert exhausted_for(limits(tokens_remaining="0", tokens_reset=reset, tokens_limit="8000")) is None


def test_texts_of_the_wire_are_made_safe() -> None:
    key = "my-private-key-123"
    assert safe_text(f"bad key {key}", key) == "bad key [key]"
    assert "sk-ant" not in safe_text("key sk-ant-api03-abc_DEF-123 refused")
    assert "token123456" not in safe_text("Authorization: Bearer token123456")
    assert safe_text("two\r\nlines\x1b[31m\x07") == "two lines [31m"
    assert len(safe_text("x" * 10_000)) == 400
    assert safe_text("a key that is empty", "") == "a key that is empty"
