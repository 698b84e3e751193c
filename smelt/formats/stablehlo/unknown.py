"""Operations whose names nobody knows: what is said of them, and what may have been meant."""

from __future__ import annotations

from typing import Final

from smelt.errors import ParseError, UnsupportedOp
from smelt.formats.mlir import Limits, Module, Parser, Place, place
from smelt.formats.stablehlo.table import ROWS
from smelt.names import guess, nearest

ENDS: Final = frozenset({"stablehlo.return", "func.return", "return", "mhlo.return"})
_OTHERS: Final = frozenset({*ENDS, "func.func", "module", "builtin.module"})  # what is read, and not by a row
_FAMILIES: Final[dict[str, list[str]]] = {}  # operations by their dialect
for _name in sorted({*ROWS, "return", "func.return", "func.func"}):
    _FAMILIES.setdefault(_name.rpartition(".")[0], []).append(_name.rpartition(".")[2])


def parsed(text: str, limits: Limits) -> Module:
    """The module in a text. Where its syntax is not understood behind the name of an operation that nobody knows, the
    name is what is wrong: no other syntax can be expected of it.
    """
    parser = Parser(text, limits)
    try:
        return parser.module()
    except ParseError:
        name = parser.tokens[parser.begun].strip('"')
        # What ends too early has been cut off, maybe in a name; a word without a dialect may be no operation at all.
        if not parser.next or name in ROWS or name in _OTHERS or not ("." in name or meant(name)):
            raise
        raise unknown(name, place(text, parser.begun)) from None


def unknown(name: str, at: Place) -> UnsupportedOp:
    """The error about an operation that nobody knows."""
    return UnsupportedOp(f"{at}: {name}: smelt does not know this operation", name, *at, hint=meant(name))


def meant(name: str) -> str:
    """What may have been meant: a name of the same dialect, or the dialects that there are.

    >>> meant("stablehlo.dot_generall"), meant("stablehl.add")
    ('Did you mean stablehlo.dot_general?', 'Did you mean stablehlo.add?')
    >>> meant("tosa.matmul")
    'smelt reads the dialects chlo, func, sdy, stablehlo.'
    """
    dialect, dot, operation = name.rpartition(".")
    if dialect in _FAMILIES:
        near = nearest(operation, _FAMILIES[dialect])
        return guess(near and f"{dialect}{dot}{near}")
    near = nearest(dialect, _FAMILIES)
    if near and operation in _FAMILIES[near]:
        return guess(f"{near}.{operation}")
    return f"smelt reads the dialects {', '.join(filter(None, _FAMILIES))}."
