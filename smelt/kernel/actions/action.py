"""What every action has: a text form that is written once, a check against the region, and an effect on lowering."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

from smelt.kernel.forms import runs, written
from smelt.kernel.ir import Kernel
from smelt.kernel.lowering.plan import Planner

Parts = tuple[tuple[int, str], ...]  # (extent, kind) from the outside to the inside


@dataclass(frozen=True, slots=True)
class Action:
    """One decision of a schedule. It never changes what is computed.

    `form` is its text (see `forms`): a word, then fields, whose kinds are the rows of `_TEXTS`.
    """

    form: ClassVar[str]
    cuts: ClassVar[bool] = False  # other actions name the loops that this one makes, so it is applied before them

    def apply(self, planner: Planner) -> None:
        """Check the action against the region and those before it, and put it into the plan. Raises `Illegal`."""
        raise NotImplementedError

    @classmethod
    def settle(cls, planner: Planner) -> None:
        """Once all actions of a schedule are in the plan: what they refuse together."""

    def on(self, kernel: Kernel) -> Kernel:
        """What the action says about the whole kernel, once that is lowered."""
        return kernel

    def __str__(self) -> str:
        return written(self.form, self, lambda kind, value: _TEXTS[kind].write(value))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The action with a text; None if it is not one of this kind."""
        found = _pattern(cls.form).fullmatch(text)
        if found is None:
            return None
        kinds = {hole.name: hole.kind for _, holes in runs(cls.form) for hole in holes}
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
    pattern = ""
    for optional, holes in runs(form):
        run = "".join(b + (f"(?P<{name}>{_TEXTS[kind].pattern})" if name else "") for b, name, kind in holes)
        pattern += f"(?:{run})?" if optional else run
    return re.compile(pattern)
