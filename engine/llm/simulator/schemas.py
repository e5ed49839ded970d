"""JSON schemas of structured answers: what the service takes, and an instance that fits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from engine.llm.simulator.wire import invalid

_REFUSED = (
    "exclusiveMaximum",
    "exclusiveMinimum",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "patternProperties",
    "uniqueItems",
)
_TYPES = frozenset({"object", "array", "string", "integer", "number", "boolean", "null"})


def check_output_schema(schema: Any) -> None:
    """Check that the service would take this schema for structured output. Raises `Refusal`."""
    if not isinstance(schema, dict):
        raise invalid("output_config.format.schema: Input should be a valid dictionary")
    _check(schema, schema, "output_config.format.schema", ())


def _check(node: Any, root: Mapping[str, Any], where: str, inside: tuple[str, ...]) -> None:
    if not isinstance(node, dict):
        raise invalid(f"{where}: Input should be a valid dictionary")
    if (reference := node.get("$ref")) is not None:
        if reference in inside:
            raise invalid(f"{where}: recursive schemas are not supported")
        _check(_resolve(reference, root, where), root, where, (*inside, reference))
        return
    for name in _REFUSED:
        if name in node:
            raise invalid(f"{where}: For '{node.get('type')}' type, property '{name}' is not supported")
    if node.get("minItems", 0) not in (0, 1):
        raise invalid(f"{where}: For 'array' type, 'minItems' values other than 0 or 1 are not supported")
    choices = [choice for word in ("anyOf", "allOf", "oneOf") for choice in node.get(word, [])]
    for at, choice in enumerate(choices):
        _check(choice, root, f"{where}.anyOf.{at}", inside)
    kinds = node.get("type")
    if kinds is None:
        if not choices and "enum" not in node and "const" not in node:
            raise invalid(f"{where}: needs a 'type'")
        return
    kinds = kinds if isinstance(kinds, list) else [kinds]
    for kind in kinds:
        if kind not in _TYPES:
            raise invalid(f"{where}.type: '{kind}' is not supported")
    if "object" in kinds:
        if node.get("additionalProperties") is not False:
            raise invalid(
                f"{where}: For 'object' type, 'additionalProperties' must be explicitly set to false"
            )
        for name, child in node.get("properties", {}).items():
            _check(child, root, f"{where}.properties.{name}", inside)
        if unknown := set(node.get("required", [])) - set(node.get("properties", {})):
            raise invalid(f"{where}.required: names no property: {', '.join(sorted(unknown))}")
    if "array" in kinds:
        _check(node.get("items"), root, f"{where}.items", inside)


def _resolve(reference: str, root: Mapping[str, Any], where: str) -> Any:
    node: Any = root
    if not reference.startswith("#/"):
        raise invalid(f"{where}.$ref: external references are not supported")
    for step in reference[2:].split("/"):
        node = node.get(step) if isinstance(node, dict) else None
    if node is None:
        raise invalid(f"{where}.$ref: '{reference}' leads nowhere")
    return node


def instance(schema: Mapping[str, Any], hints: Mapping[str, Any]) -> Any:
    """Make a value that fits the schema; top-level properties named in `hints` take that value where its type fits."""
    return _instance(schema, schema, hints)


def _instance(node: Mapping[str, Any], root: Mapping[str, Any], hints: Mapping[str, Any]) -> Any:
    if (reference := node.get("$ref")) is not None:
        return _instance(_resolve(reference, root, ""), root, hints)
    if "const" in node:
        return node["const"]
    if "enum" in node:
        return node["enum"][0]
    if choices := node.get("anyOf") or node.get("oneOf") or node.get("allOf"):
        return _instance(choices[0], root, hints)
    kind = node["type"][0] if isinstance(node["type"], list) else node["type"]
    match kind:
        case "object":
            return {
                name: hints[name]
                if name in hints and _fits(hints[name], child)
                else _instance(child, root, {})
                for name, child in node.get("properties", {}).items()
            }
        case "array":
            return [_instance(node["items"], root, {})] if node.get("minItems") else []
        case "string":
            return ""
        case "boolean":
            return False
        case "null":
            return None
        case _:
            return 0


def _fits(value: Any, node: Mapping[str, Any]) -> bool:
    if "enum" in node:
        return value in node["enum"]
    kinds = {
        bool: "boolean",
        str: "string",
        list: "array",
        tuple: "array",
        dict: "object",
        int: "integer",
        float: "number",
    }
    return node.get("type") == kinds.get(type(value))
