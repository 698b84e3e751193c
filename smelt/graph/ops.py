"""The op set, and the elementwise functions that UNARY and BINARY nodes name."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple

from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph.index import IndexLike


class Op(enum.Enum):
    """What a node does. Every pass has one table indexed by these."""

    CONST = "const"  # attribute: the bytes of one element
    LEAF = "leaf"  # attribute: the storage, compared by identity
    IOTA = "iota"  # 0, 1, 2, … of shape (n,)
    RESHAPE = "reshape"
    PERMUTE = "permute"  # attribute: the source axis of each axis
    EXPAND = "expand"  # same rank; axes of size 1 grow
    PAD = "pad"  # sources: x and a scalar fill; attribute: (before, after) per axis
    SLICE = "slice"  # attribute: Span per axis
    CONCAT = "concat"  # attribute: axis
    UNARY = "unary"  # attribute: name of a function in UNARY
    BINARY = "binary"  # attribute: name of a function in BINARY
    WHERE = "where"
    CAST = "cast"
    BITCAST = "bitcast"
    REDUCE = "reduce"  # attribute: Reduction
    CONTRACT = "contract"  # attribute: Contraction
    COMPOSITE = "composite"  # attribute: Composition

    # Enum's own hash is a Python function; nodes are hashed all the time.
    __hash__ = object.__hash__


MOVEMENT: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.PAD, Op.SLICE, Op.CONCAT})
VIEWS: Final = frozenset({Op.RESHAPE, Op.PERMUTE, Op.EXPAND, Op.SLICE})
ELEMENTWISE: Final = frozenset({Op.UNARY, Op.BINARY, Op.WHERE, Op.CAST, Op.BITCAST})


class Span(NamedTuple):
    """Element i of a sliced axis is element start + step*i of the source axis."""

    start: IndexLike
    size: IndexLike
    step: int


class Reduction(NamedTuple):
    """op: add, mul, max or min; the axes (sorted) disappear from the shape."""

    op: str
    axes: tuple[int, ...]


class Contraction(NamedTuple):
    """A product of two tensors summed over the labels that are not kept, as in einsum: one label per axis."""

    left: tuple[int, ...]
    right: tuple[int, ...]
    out: tuple[int, ...]


class Composition(NamedTuple):
    """A named function with its static parameters, sorted by name."""

    name: str
    parameters: tuple[tuple[str, object], ...]


class Function(NamedTuple):
    """Which kinds an elementwise function takes, and what it gives."""

    kinds: str  # letters out of b (bool), i (integer), f (float)
    boolean: bool = False  # the result is bool


UNARY: Final[dict[str, Function]] = {
    "neg": Function("if"),
    "abs": Function("if"),
    "sign": Function("if"),
    "not": Function("bi"),  # bitwise; logical for bool
    "exp": Function("f"),
    "exp2": Function("f"),
    "expm1": Function("f"),
    "log": Function("f"),
    "log2": Function("f"),
    "log1p": Function("f"),
    "sqrt": Function("f"),
    "rsqrt": Function("f"),
    "reciprocal": Function("f"),
    "sin": Function("f"),
    "cos": Function("f"),
    "tan": Function("f"),
    "tanh": Function("f"),
    "erf": Function("f"),
    "floor": Function("f"),
    "ceil": Function("f"),
    "trunc": Function("f"),
    "round": Function("f"),  # half to even
    "isnan": Function("f", boolean=True),
}

BINARY: Final[dict[str, Function]] = {
    "add": Function("if"),
    "sub": Function("if"),
    "mul": Function("if"),
    "div": Function("f"),
    "floordiv": Function("if"),  # rounds down; integers: x // 0 = 0
    "mod": Function("if"),  # sign of the divisor; integers: x % 0 = 0
    "pow": Function("if"),
    "max": Function("bif"),  # NaN wins
    "min": Function("bif"),
    "and": Function("bi"),
    "or": Function("bi"),
    "xor": Function("bi"),
    "shl": Function("i"),  # beyond the width: 0
    "shr": Function("i"),  # arithmetic for signed; beyond the width: 0
    "eq": Function("bif", boolean=True),
    "ne": Function("bif", boolean=True),
    "lt": Function("bif", boolean=True),
    "le": Function("bif", boolean=True),
}

REDUCTIONS: Final = ("add", "mul", "max", "min")


def kind_letter(dtype: DType) -> str:
    """The letter of a dtype's kind in `Function.kinds`."""
    return "b" if dtype.is_bool else "i" if dtype.is_integer else "f"


def identity(op: str, dtype: DType) -> dtypes.Scalar:
    """What a reduction of nothing gives."""
    if op == "add":
        return 0.0 if dtype.is_float else 0
    if op == "mul":
        return 1.0 if dtype.is_float else 1
    if dtype.is_float:
        return float("-inf") if op == "max" else float("inf")
    return dtype.minimum if op == "max" else dtype.maximum
