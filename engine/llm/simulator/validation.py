"""Refuse whatever the service would refuse, so that a wrong request fails here and not in front of a user.

Messages are worded like the service's own (`max_tokens: Field required`). Where the service is lenient and leniency
hides a mistake of ours (two turns of one role in a row, say), this is the stricter one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from engine.llm.simulator.schemas import check_output_schema
from engine.llm.simulator.turns import NAME, blocks_of, check_text, check_turns
from engine.llm.simulator.wire import Json, Refusal, invalid

VERSION = "2026-10-21"
MAX_BREAKPOINTS = 4  # the service's own limit of one request
MAX_BATCH_ITEMS = 100_000  # requests of one batch, as at the service

_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")
_REQUIRED = ("max_tokens", "messages", "model")
_COUNTED = frozenset(
    {"cache_control", "messages", "model", "output_config", "system", "thinking", "tool_choice", "tools"}
)
_KNOWN = _COUNTED | {
    "container",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "metadata",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
}
_EFFORTS = ("low", "medium", "high", "xhigh", "max")


def check_headers(headers: Mapping[str, str], *, api_key: str = "", body: bool = False) -> None:
    """Check version, key and content type. With `api_key` only that key is good; without, any is."""
    bearer = headers.get("authorization", "")
    key = headers.get("x-api-key") or (bearer[7:] if bearer.lower().startswith("bearer ") else "")
    if not key.strip():
        raise Refusal("authentication_error", "x-api-key header is required")
    if api_key and key != api_key:
        raise Refusal("authentication_error", "invalid x-api-key")
    version = headers.get("anthropic-version")
    if version is None:
        raise invalid("anthropic-version: header is required")
    if version != VERSION:
        raise invalid(f'anthropic-version: "{version}" is not a valid version')
    if body and headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        raise invalid("content-type: must be application/json")


def check_message(
    params: Any, models: Collection[str], *, batch: bool = False, counting: bool = False
) -> None:
    """Check the body of a message call, of one batch item, or of a count of tokens. Raises `Refusal`."""
    if not isinstance(params, dict):
        raise invalid("the body must be a JSON object")
    for name in params:
        if name not in (_COUNTED if counting else _KNOWN):
            raise invalid(f"{name}: Extra inputs are not permitted")
    for name in _REQUIRED:
        if name not in params and not (counting and name == "max_tokens"):
            raise invalid(f"{name}: Field required")
    if not counting:
        _check_limits(params, batch)
    if not isinstance(params["model"], str):
        raise invalid("model: Input should be a valid string")
    if params["model"] not in models:
        raise Refusal("not_found_error", f"model: {params['model']}")
    tools = _check_tools(params.get("tools", []))
    _check_tool_choice(params.get("tool_choice"), tools)
    _check_thinking(params.get("thinking"), params.get("max_tokens"))
    _check_output_config(params.get("output_config"))
    _check_system(params.get("system", []))
    check_turns(params["messages"], tools)
    _check_breakpoints(params)


def check_batch(body: Any) -> None:
    """Check the frame of a batch. What the items ask for is judged only when they run, as the service does it."""
    if not isinstance(body, dict) or not isinstance(body.get("requests"), list):
        raise invalid("requests: Field required")
    for name in body.keys() - {"requests"}:
        raise invalid(f"{name}: Extra inputs are not permitted")
    requests = body["requests"]
    if not 1 <= len(requests) <= MAX_BATCH_ITEMS:
        raise invalid(f"requests: List should have 1 to {MAX_BATCH_ITEMS} items, has {len(requests)}")
    seen: set[str] = set()
    for at, item in enumerate(requests):
        if not isinstance(item, dict) or set(item) != {"custom_id", "params"}:
            raise invalid(f"requests.{at}: needs exactly custom_id and params")
        custom_id = item["custom_id"]
        if not isinstance(custom_id, str) or not _CUSTOM_ID.match(custom_id):
            raise invalid(f"requests.{at}.custom_id: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        if custom_id in seen:
            raise invalid(f"requests.{at}.custom_id: '{custom_id}' is not unique in this batch")
        if not isinstance(item["params"], dict):
            raise invalid(f"requests.{at}.params: Input should be a valid dictionary")
        seen.add(custom_id)


def prompt_blocks(params: Json) -> Iterator[Json]:
    """Give all blocks of the prompt in the order the service caches them: tools, system, messages."""
    yield from params.get("tools", [])
    yield from blocks_of(params.get("system", []))
    for message in params["messages"]:
        yield from blocks_of(message["content"])


def _check_limits(params: Json, batch: bool) -> None:
    most = params["max_tokens"]
    if not isinstance(most, int) or isinstance(most, bool) or most < 1:
        raise invalid("max_tokens: Input should be greater than or equal to 1")
    stream = params.get("stream", False)
    if not isinstance(stream, bool):
        raise invalid("stream: Input should be a valid boolean")
    if batch and stream:
        raise invalid("stream: is not allowed in a batch")
    stops = params.get("stop_sequences", [])
    if not isinstance(stops, list) or not all(isinstance(stop, str) and stop.strip() for stop in stops):
        raise invalid("stop_sequences: each stop sequence must contain non-whitespace")
    metadata = params.get("metadata", {})
    if not isinstance(metadata, dict) or metadata.keys() - {"user_id"}:
        raise invalid("metadata: only user_id is permitted")


def _check_tools(tools: Any) -> frozenset[str]:
    """Check the tools; gives their names."""
    if not isinstance(tools, list):
        raise invalid("tools: Input should be a valid list")
    names: set[str] = set()
    for at, tool in enumerate(tools):
        where = f"tools.{at}"
        if not isinstance(tool, dict):
            raise invalid(f"{where}: Input should be a valid dictionary")
        if tool.get("type", "custom") != "custom":
            raise invalid(f"{where}.type: the simulator has client tools only")
        allowed = {
            "name",
            "description",
            "input_schema",
            "cache_control",
            "type",
            "strict",
            "eager_input_streaming",
        }
        for name in tool.keys() - allowed:
            raise invalid(f"{where}.{name}: Extra inputs are not permitted")
        name = tool.get("name")
        if not isinstance(name, str) or not NAME.match(name):
            raise invalid(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if name in names:
            raise invalid("tools: Tool names must be unique")
        names.add(name)
        schema = tool.get("input_schema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise invalid(f"{where}.input_schema.type: Input should be 'object'")
        if not isinstance(tool.get("description", ""), str):
            raise invalid(f"{where}.description: Input should be a valid string")
    return frozenset(names)


def _check_tool_choice(choice: Any, tools: frozenset[str]) -> None:
    if choice is None:
        return
    if not isinstance(choice, dict) or choice.get("type") not in ("auto", "any", "tool", "none"):
        raise invalid("tool_choice.type: Input should be 'auto', 'any', 'tool' or 'none'")
    if not tools:
        raise invalid("tool_choice: may only be specified while providing tools")
    if choice["type"] == "tool" and choice.get("name") not in tools:
        raise invalid(f"tool_choice.name: tool '{choice.get('name')}' not found in provided tools")


def _check_thinking(thinking: Any, max_tokens: Any) -> None:
    if thinking is None:
        return
    kind = thinking.get("type") if isinstance(thinking, dict) else None
    if kind not in ("enabled", "disabled", "adaptive", "between_tools"):
        raise invalid("thinking.type: Input should be 'enabled', 'disabled', 'between_tools' or 'adaptive'")
    if kind != "enabled":
        if "budget_tokens" in thinking:
            raise invalid("thinking.budget_tokens: Extra inputs are not permitted")
        return
    budget = thinking.get("budget_tokens")
    if not isinstance(budget, int) or isinstance(budget, bool) or budget < 1024:
        raise invalid("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
    if isinstance(max_tokens, int) and budget >= max_tokens:
        raise invalid("`max_tokens` must be greater than `thinking.budget_tokens`")


def _check_output_config(config: Any) -> None:
    if config is None:
        return
    if not isinstance(config, dict):
        raise invalid("output_config: Input should be a valid dictionary")
    for name in config.keys() - {"effort", "format"}:
        raise invalid(f"output_config.{name}: Extra inputs are not permitted")
    if config.get("effort") not in (None, *_EFFORTS):
        raise invalid(f"output_config.effort: Input should be one of {', '.join(_EFFORTS)}")
    output = config.get("format")
    if output is None:
        return
    if (
        not isinstance(output, dict)
        or output.get("type") != "json_schema"
        or output.keys() != {"type", "schema"}
    ):
        raise invalid("output_config.format: needs exactly type 'json_schema' and schema")
    check_output_schema(output["schema"])


def _check_system(system: Any) -> None:
    if isinstance(system, str):
        return
    if not isinstance(system, list):
        raise invalid("system: Input should be a valid string or list")
    for at, block in enumerate(system):
        if not isinstance(block, dict) or block.get("type") != "text":
            raise invalid(f"system.{at}.type: Input should be 'text'")
        check_text(block, f"system.{at}")


def _check_breakpoints(params: Json) -> None:
    if params.get("cache_control") is not None:
        raise invalid("cache_control: the simulator wants each breakpoint at its block")
    marks = [mark for block in prompt_blocks(params) if (mark := block.get("cache_control")) is not None]
    if len(marks) > MAX_BREAKPOINTS:
        raise invalid(
            f"A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {len(marks)}."
        )
    seen_5m = False
    for mark in marks:
        if not isinstance(mark, dict) or mark.get("type") != "ephemeral" or mark.keys() - {"type", "ttl"}:
            raise invalid("cache_control.type: Input should be 'ephemeral'")
        ttl = mark.get("ttl", "5m")
        if ttl not in ("5m", "1h"):
            raise invalid("cache_control.ephemeral.ttl: Input should be '5m' or '1h'")
        if ttl == "1h" and seen_5m:
            raise invalid("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
        seen_5m = seen_5m or ttl == "5m"
