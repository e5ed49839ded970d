"""JSON schemas of our own types, in the dialect of structured outputs and tools."""

from __future__ import annotations

from typing import Any

import msgspec


def json_schema(type: type) -> str:
    """Give the JSON schema of a msgspec type as canonical text.

    References are inlined, defaults dropped, and every object closed with all its fields required.
    """
    (schema,), components = msgspec.json.schema_components([type], ref_template="{name}")
    return msgspec.json.encode(_strict(schema, components), order="sorted").decode()


def _strict(node: Any, components: dict[str, Any]) -> Any:
    if isinstance(node, list):
        return [_strict(item, components) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _strict(components[node["$ref"]], components)
    kept = {key: _strict(value, components) for key, value in node.items() if key not in ("default", "title")}
    if "properties" in kept:
        kept["properties"] = {k: _strict(v, components) for k, v in node["properties"].items()}
        kept["required"] = list(kept["properties"])
        kept["additionalProperties"] = False
    return kept
