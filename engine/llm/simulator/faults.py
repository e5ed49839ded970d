"""Which try of which request goes wrong, and how.

A fault is found from the request and from how often that request came before, never from what happens beside it, so
that a scenario plays the same under any number of parallel tasks.
"""

from __future__ import annotations

import random
from fnmatch import fnmatchcase

from engine.llm.simulator.answers import Caller
from engine.llm.simulator.scenario import Endpoint, Fault, FaultKind, Scenario
from engine.llm.simulator.wire import Refusal

_REFUSALS: dict[FaultKind, tuple[str, str, str]] = {
    "rate_limited": ("rate_limit_error", "This request would exceed your organization's rate limit.", ""),
    "spend_limit": (
        "rate_limit_error",
        "You have reached the monthly API usage threshold of your organization.",
        "enforced_spend_limit_reached",
    ),
    "overloaded": ("overloaded_error", "Overloaded", ""),
    "server_error": ("api_error", "Internal server error", ""),
    "timeout": ("timeout_error", "The request timed out", ""),
    "unauthorized": ("authentication_error", "invalid x-api-key", ""),
    "not_found": ("not_found_error", "Not Found", ""),
}

HTML = b"<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>"
BAD_JSON = b'{"id": "msg_01", "type": "message", "content": [{"type": "te'


def find_fault(
    scenario: Scenario,
    endpoint: Endpoint,
    key: str,
    arrival: int,
    *,
    caller: Caller | None = None,
    model: str = "",
) -> Fault | None:
    """Give the fault that the `arrival`-th (from 0) coming of the request named `key` meets, if any."""
    for fault in scenario.faults:
        if fault.endpoint == endpoint and arrival < fault.times and _matches(fault, caller, model):
            return fault
    chance = scenario.random_faults
    if chance is None or chance.endpoint != endpoint or arrival >= chance.times:
        return None
    # S311 does not matter here: what counts is that one seed gives one script.
    dice = random.Random(f"{chance.seed} {key} {arrival}")
    if dice.random() >= chance.rate:
        return None
    return Fault(kind=dice.choice(chance.kinds), endpoint=endpoint, retry_after=chance.retry_after)


def refusal_of(fault: Fault) -> Refusal | None:
    """Give the refusal that a fault is, or None when it is another kind of trouble."""
    if fault.kind not in _REFUSALS:
        return None
    kind, message, code = _REFUSALS[fault.kind]
    return Refusal(
        kind, message, code=code, retry_after=fault.retry_after if fault.kind == "rate_limited" else None
    )


def _matches(fault: Fault, caller: Caller | None, model: str) -> bool:
    if not fnmatchcase(model, fault.model):
        return False
    if caller is None:
        return True
    return (
        fnmatchcase(caller.task, fault.task)
        and fault.role in (None, caller.role)
        and fault.attempt in (None, caller.attempt)
        and fault.step in (None, caller.step)
    )
