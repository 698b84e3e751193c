"""Two hundred JSON schemas of the kinds that people write, and whether a value is what one of them describes."""

from __future__ import annotations

import random
import re
from typing import Any

COUNT = 200
_NAMES = ("name", "age", "tags", "ok", "a b", "$id", "nested", "x")


def schemas() -> list[dict[str, Any]]:
    """The schemas; all but a few are objects."""
    rng = random.Random(0)
    return [_object(rng, 3) if rng.random() < 0.85 else _any(rng, 2) for _ in range(COUNT)]


def _any(rng: random.Random, depth: int) -> dict[str, Any]:
    kinds = (_string, _number, _flat, _object, _array, _union) if depth else (_string, _number, _flat)
    return rng.choice(kinds)(rng, depth - 1)


def _string(rng: random.Random, depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "string"}
    if rng.random() < 0.5:
        found["maxLength"] = rng.randint(0, 6)
        found["minLength"] = rng.randint(0, found["maxLength"])
    elif rng.random() < 0.5:
        found["pattern"] = rng.choice(["^[a-c]{2,4}$", "^(yes|no)$", "^\\d{4}-\\d{2}$"])
    else:
        found["maxLength"] = 8
    return found


def _number(rng: random.Random, depth: int) -> dict[str, Any]:
    low = rng.randint(-50, 50)
    return {"type": rng.choice(["integer", "number"]), "minimum": low, "maximum": low + rng.randint(0, 100)}


def _flat(rng: random.Random, depth: int) -> dict[str, Any]:
    return rng.choice(
        [
            {"type": "boolean"},
            {"type": "null"},
            {"enum": ["red", 3, None, True, "a\nb", 'quote"']},
            {"const": "fixed"},
            {"enum": [rng.randint(0, 9)]},
        ]
    )


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(_NAMES, rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: _any(rng, depth - 1 if depth > 0 else 0) for name in names},
        "required": rng.sample(names, rng.randint(0, len(names))),
        "additionalProperties": False,
    }


def _array(rng: random.Random, depth: int) -> dict[str, Any]:
    most = rng.randint(0, 3)
    return {"type": "array", "items": _any(rng, max(depth, 0)), "minItems": rng.randint(0, most), "maxItems": most}


def _union(rng: random.Random, depth: int) -> dict[str, Any]:
    return {"anyOf": [_any(rng, max(depth, 0)) for _ in range(rng.randint(2, 3))]}


def valid(value: Any, schema: dict[str, Any]) -> bool:
    """Whether a value is what a schema describes; of JSON Schema, what is used above."""
    if "anyOf" in schema:
        return any(valid(value, one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        allowed = schema.get("enum", [schema.get("const")])
        return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed)
    return _CHECKS[schema["type"]](value, schema)


def _valid_string(value: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, str) or not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", 1 << 20):
        return False
    return "pattern" not in schema or re.search(schema["pattern"], value) is not None


def _valid_number(value: Any, schema: dict[str, Any]) -> bool:
    kinds = int | float if schema["type"] == "number" else int
    whole = isinstance(value, kinds) or (isinstance(value, float) and value.is_integer())
    return whole and not isinstance(value, bool) and bool(schema["minimum"] <= value <= schema["maximum"])


def _valid_object(value: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, dict) or set(schema["required"]) - set(value) or set(value) - set(schema["properties"]):
        return False
    return all(valid(one, schema["properties"][name]) for name, one in value.items())


def _valid_array(value: Any, schema: dict[str, Any]) -> bool:
    if not isinstance(value, list) or not schema["minItems"] <= len(value) <= schema["maxItems"]:
        return False
    return all(valid(one, schema["items"]) for one in value)


_CHECKS = {
    "string": _valid_string,
    "integer": _valid_number,
    "number": _valid_number,
    "object": _valid_object,
    "array": _valid_array,
    "boolean": lambda value, schema: isinstance(value, bool),
    "null": lambda value, schema: value is None,
}
