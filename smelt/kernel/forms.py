"""Text forms, written once: templates by which records are both printed and read.

A form is literal text with holes `{field:kind}`; a kind says how what is in a field is written and read. What stands in
square brackets is left out where its first field is empty or has its default value.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple


class Hole(NamedTuple):
    """A field of a record and its kind, and the text before it; without a name, only that text."""

    before: str
    name: str
    kind: str


@functools.cache
def runs(form: str) -> tuple[tuple[bool, tuple[Hole, ...]], ...]:
    """The holes of a form, in runs that are in brackets (True) or not."""
    found = [[Hole(*hole) for hole in _HOLE.findall(run) if any(hole)] for run in _BRACKET.split(form)]
    return tuple((at % 2 == 1, tuple(holes)) for at, holes in enumerate(found) if holes)


_BRACKET = re.compile(r"\[(.*?)\]")
_HOLE = re.compile(r"([^{]*)(?:\{(\w+):(\w+)\})?")


def written(form: str, record: Any, write: Callable[[str, Any], str]) -> str:
    """A record in its form; `write` knows the kinds."""
    text: list[str] = []
    for optional, holes in runs(form):
        if optional and _is_left_out(record, next(hole.name for hole in holes if hole.name)):
            continue
        for before, name, kind in holes:
            text += [before, write(kind, getattr(record, name))] if name else [before]
    return "".join(text)


def _is_left_out(record: Any, name: str) -> bool:
    value = getattr(record, name)
    declared = getattr(record, "__dataclass_fields__", {}).get(name)
    return not value or (declared is not None and value == declared.default)
