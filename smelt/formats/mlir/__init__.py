"""MLIR's text: takes what JAX and others print, gives a tree of functions and operations, and writes it again.

Knows syntax and the meaning of no operation: the pretty forms of StableHLO, CHLO and `func` become the operations that
their generic forms stand for. Always holds: text is hostile until it has been read; what is wrong with it is a
`ParseError` with line and column; the time and memory that reading takes grow with the text, not with what it claims.
"""

from smelt.formats.mlir.garbage import kept
from smelt.formats.mlir.lex import Place, Tokens, place, tokens
from smelt.formats.mlir.limits import LIMITS, Limits
from smelt.formats.mlir.parse import Parser, parse
from smelt.formats.mlir.tree import (
    Argument,
    Array,
    Attribute,
    Block,
    Coded,
    Dense,
    Function,
    FunctionType,
    Module,
    Opaque,
    Operation,
    Ranked,
    Region,
    Resource,
    Symbol,
    Tuple,
    Type,
    Typed,
)
from smelt.formats.mlir.write import write

__all__ = [
    "LIMITS",
    "Argument",
    "Array",
    "Attribute",
    "Block",
    "Coded",
    "Dense",
    "Function",
    "FunctionType",
    "Limits",
    "Module",
    "Opaque",
    "Operation",
    "Parser",
    "Place",
    "Ranked",
    "Region",
    "Resource",
    "Symbol",
    "Tokens",
    "Tuple",
    "Type",
    "Typed",
    "kept",
    "parse",
    "place",
    "tokens",
    "write",
]
