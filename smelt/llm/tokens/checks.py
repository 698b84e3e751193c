"""Fields of files, with the types that they have to have."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from smelt.errors import ParseError

T = TypeVar("T")

MOST_TOKENS = 1 << 22  # sixteen times the largest vocabulary in use


def field_of(values: Mapping[str, Any], key: str, kind: type[T], default: T | None = None) -> T:
    """`values[key]`, which has to be a `kind` (no boolean is a number); `default` where it is missing or null."""
    value = values.get(key)
    if value is None and default is not None:
        return default
    if kind is float and type(value) is int:
        return kind(value)  # type: ignore[call-arg]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise wrong(key, value, kind.__name__)
    return value


def mapping_of(value: object, what: str) -> Mapping[str, Any]:
    """`value`, which has to be a mapping with strings for keys."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise wrong(what, value, "mapping")
    return value


def list_of(values: Mapping[str, Any], key: str, kind: type[T], count: int | None = None) -> list[T]:
    """`values[key]`: a list of `kind` only, of `count` items if that is given."""
    items: list[T] = list(field_of(values, key, list))
    found = set(map(type, items))
    if kind is float and found == {float, int}:
        items, found = [float(item) for item in items], {float}  # type: ignore[arg-type, misc]
    if found - {kind}:
        raise ParseError(f"{key!r} has items of type {_names(found - {kind})}.", rule=f"All are {kind.__name__}.")
    if len(items) > (8 * MOST_TOKENS if count is None else count) or (count is not None and len(items) != count):
        raise ParseError(f"{key!r} has {len(items)} items.", rule=f"One for each of the {count} tokens is needed.")
    return items


def _names(kinds: set[type]) -> str:
    return ", ".join(sorted(kind.__name__ for kind in kinds))


def wrong(key: str, value: object, expected: str) -> ParseError:
    """The error for a field of another type."""
    what = "is missing" if value is None else f"is of type {type(value).__name__}"
    return ParseError(f"{key!r} {what}.", rule=f"It has to be of type {expected}.", hint="The file may be damaged.")
