"""From whatever went wrong on the wire to one typed error, in words that are safe to show.

Nothing here knows the SDK: `sdk` hands over statuses, headers and texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime

from engine.errors import (
    AuthenticationError,
    LLMError,
    OverloadedError,
    RateLimitedError,
    RequestRejectedError,
    ServiceError,
)

_MAX_TEXT = 400  # characters of a message
_TOKEN_SHARE = 20  # worth waiting for: one twentieth of a token limit
_KEY = re.compile(r"sk-ant-[\w-]+|(?i:bearer)\s+[\w.~+/=-]{8,}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")
# An error inside a stream comes with status 200; its type says which status it would have had.
_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def failure_of_status(
    status: int, kind: str, code: str, text: str, headers: Mapping[str, str], *, endpoint: str
) -> LLMError:
    """Give the typed error of an answer that says no.

    `kind` is the service's error type, `code` its stable detail code (both may be empty), `text` its message.
    """
    if status < 400:
        status = _STATUS_OF_TYPE.get(kind, 500)
    request_id = headers.get("request-id", "")
    said = f"{text} (request {request_id})" if request_id else text
    error = _by_status(status, code, said or kind or f"status {status}", headers, endpoint)
    error.status = status
    advice = headers.get("x-should-retry")
    if advice in ("true", "false"):
        error.retryable = advice == "true"
    return error


def _by_status(status: int, code: str, said: str, headers: Mapping[str, str], endpoint: str) -> LLMError:
    if status == 402 or code.endswith("spend_limit_reached"):  # some come as a 429, which no waiting mends
        return RequestRejectedError(
            f"the account may not spend more: {said}",
            "see the plan and the limits in the console of the service",
        )
    match status:
        case 401:
            return AuthenticationError(f"the key is refused: {said}", "set ANTHROPIC_API_KEY to a valid key")
        case 403:
            return AuthenticationError(
                f"the key may not do this: {said}", "use a key whose workspace may use this model"
            )
        case 404:
            return RequestRejectedError(
                f"{endpoint} does not know this: {said}", "check the model's id and [llm] base_url"
            )
        case 413:
            return RequestRejectedError(
                f"the request is too large: {said}", "give the task fewer or smaller files"
            )
        case 429:
            return RateLimitedError(f"too many requests: {said}", retry_after=retry_after(headers) or 0.0)
        case 529:
            return OverloadedError(f"the service is overloaded: {said}")
        case 408 | 409:
            return ServiceError(f"the service could not take the request now ({status}): {said}")
        case _ if status >= 500:
            return ServiceError(f"the service failed ({status}): {said}")
        case _:
            return RequestRejectedError(f"the service refuses the request ({status}): {said}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Give the pause the service asks for, in seconds; milliseconds beat seconds, seconds beat a date."""
    try:
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    except (KeyError, ValueError):
        pass
    value = headers.get("retry-after")
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        pass
    else:
        return max(0.0, seconds) if seconds == seconds else None
    try:
        return max(
            0.0, (parsedate_to_datetime(value) - parsedate_to_datetime(headers["date"])).total_seconds()
        )
    except (KeyError, ValueError, TypeError):
        return None


def exhausted_for(headers: Mapping[str, str]) -> tuple[float, str] | None:
    """Tell from the headers of an answer whether a limit is used up, as (seconds to be silent, its name).

    Limits refill evenly, and `reset` is when they are full again: silence until then would waste most of it. One
    request is there after its share of that time; of tokens, a twentieth is worth coming back for. Seconds count from
    the service's own `date`, so that a wrong clock here does no harm.
    """
    longest: tuple[float, str] | None = None
    for name in ("requests", "tokens", "input-tokens", "output-tokens"):
        prefix = f"anthropic-ratelimit-{name}"
        if headers.get(f"{prefix}-remaining") != "0":
            continue
        try:
            reset = datetime.fromisoformat(headers[f"{prefix}-reset"].replace("Z", "+00:00"))
            full = (reset - parsedate_to_datetime(headers["date"])).total_seconds()
            share = max(1, int(headers[f"{prefix}-limit"])) if name == "requests" else _TOKEN_SHARE
        except (KeyError, ValueError, TypeError):
            continue
        seconds = full / share
        if seconds > 0 and (longest is None or seconds > longest[0]):
            longest = (seconds, name.replace("-", " "))
    return longest


def require_event_stream(headers: Mapping[str, str]) -> None:
    """Refuse an answer that cannot be a stream: a login page, an empty object, a proxy's apology."""
    kind = headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "text/event-stream":
        raise ServiceError(
            f"the endpoint answered with {kind or 'no content type'} instead of a stream of events",
            "check [llm] base_url if this lasts",
        )


def safe_text(text: object, *secrets: str) -> str:
    """Make a text of the wire fit to show: no key, no control bytes, one line, bounded."""
    clean = str(text)
    for secret in secrets:
        if secret:
            clean = clean.replace(secret, "[key]")
    clean = _CONTROL.sub(" ", _KEY.sub("[key]", clean)).strip()
    return clean if len(clean) <= _MAX_TEXT else f"{clean[: _MAX_TEXT - 1]}…"
