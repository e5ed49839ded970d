"""The models of the service, and what it tells about them."""

from __future__ import annotations

from collections.abc import Collection

from engine.llm.simulator.wire import Json, Refusal

MODELS = (
    "claude-opus-5-5",
    "claude-opus-5",
    "claude-opus-4-8",
    "claude-opus-4-7",
    "claude-opus-4-6",
    "claude-opus-4-5",
    "claude-sonnet-5-5",
    "claude-sonnet-5",
    "claude-sonnet-4-6",
    "claude-sonnet-4-5",
    "claude-haiku-5-5",
    "claude-haiku-4-5",
    "claude-fable-5-1",
    "claude-fable-5",
)


def model_info(id: str, known: Collection[str]) -> Json:
    """Give what the service tells about one model. Raises `Refusal` for one it does not know."""
    if id not in known:
        raise Refusal("not_found_error", f"model: {id}")
    family, _, version = id.removeprefix("claude-").partition("-")
    return {
        "id": id,
        "type": "model",
        "display_name": f"Claude {family.capitalize()} {version.replace('-', '.')}",
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 1_000_000,
        "max_tokens": 128_000,
    }


def model_page(known: Collection[str]) -> Json:
    """Give the list of all models, on one page."""
    data = [model_info(id, known) for id in known]
    first, last = (data[0]["id"], data[-1]["id"]) if data else (None, None)
    return {"data": data, "has_more": False, "first_id": first, "last_id": last}
