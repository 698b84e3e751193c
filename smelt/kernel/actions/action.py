"""What every action has: a text form that is written once, a check against the region, and an effect on lowering."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

from smelt.kernel.lowering.plan import Planner

Parts = tuple[tuple[int, str], ...]  # (extent, kind) from the outside to the inside


@dataclass(frozen=True, slots=True)
class Action:
    """One decision of a schedule. It never changes what is computed.

    `form` is its text: a word, then fields with what they hold (a row of `_TEXTS`). What stands in brackets is left out
    where its field has the default value.
    """

    form: ClassVar[str]
    cuts: ClassVar[bool] = False  # other actions name the loops that this one makes, so it is applied before them

    def apply(self, planner: Planner) -> None:
        """Check the action against the region and those before it, and put it into the plan. Raises `Illegal`."""
        raise NotImplementedError

    @classmethod
    def settle(cls, planner: Planner) -> None:
        """Once all actions of a schedule are in the plan: what they refuse together."""

    def __str__(self) -> str:
        defaults = {field.name: field.default for field in fields(self)}

        def given(bracket: re.Match[str]) -> str:
            (name, _) = _HOLE.findall(bracket[1])[0]
            return bracket[1] if getattr(self, name) != defaults[name] else ""

        return _HOLE.sub(lambda hole: _TEXTS[hole[2]].write(getattr(self, hole[1])), _BRACKET.sub(given, self.form))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The action with a text; None if it is not one of this kind."""
        found = _pattern(cls.form).fullmatch(text)
        if found is None:
            return None
        kinds = dict(_HOLE.findall(cls.form))
        return cls(**{name: _TEXTS[kinds[name]].read(word) for name, word in found.groupdict().items() if word})


class _Text(NamedTuple):
    """How a field is written and read back."""

    pattern: str
    read: Callable[[str], Any] = str
    write: Callable[[Any], str] = str


def _split(text: str) -> tuple[str, ...]:
    return tuple(text.strip("()").replace(",", " ").split())


def _parts(text: str) -> Parts:
    pieces = [piece.split() for piece in text.strip("()").split(",") if piece]
    return tuple((int(extent), kind) for extent, kind in pieces)


_HOLE = re.compile(r"\{(\w+):(\w+)\}")
_BRACKET = re.compile(r"\[(.*?)\]")
_TEXTS = {
    "name": _Text(r"[^\s(),;]+"),
    "axis": _Text(r"[^\s(),;.]+"),
    "word": _Text(r"\w+"),
    "number": _Text(r"\d{1,9}", int),
    "names": _Text(r"[^\s(),;]+(?: [^\s(),;]+)*", _split, " ".join),
    "order": _Text(r"\([^()]*\)", _split, lambda names: f"({', '.join(names)})"),
    "parts": _Text(
        r"\((?:\d{1,9} \w+(?:, \d{1,9} \w+)*)?\)",
        _parts,
        lambda parts: f"({', '.join(f'{extent} {kind}' for extent, kind in parts)})",
    ),
}


@functools.cache
def _pattern(form: str) -> re.Pattern[str]:
    optional = _BRACKET.sub(r"(?:\1)?", form)
    return re.compile(_HOLE.sub(lambda hole: f"(?P<{hole[1]}>{_TEXTS[hole[2]].pattern})", optional))
