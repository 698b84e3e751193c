"""Random numbers as composites: the words of threefry2x32 with 20 rounds, and the standard distributions made of them.

A draw is one node until it is compiled, since what it expands to is long: that would cost a hundred times as much where
a number is drawn outside of `jit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError
from smelt.graph import build as e
from smelt.graph.composites import Inferred, register
from smelt.graph.index import upper
from smelt.graph.node import Node, made
from smelt.graph.ops import Composition, Op
from smelt.graph.shapes import broadcast_shapes

_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY: Final = 0x1BD11BDA


def word(value: int) -> Node:
    """A number as one of the generator's words."""
    return e.const(value, dtypes.uint32)


def words(key: Node, x: Node, y: Node) -> tuple[Node, Node]:
    """Two words for each pair of counters, which broadcast. A key has two words, and may have a third, which is added
    to `y`.
    """
    return e.composite("threefry", key, x, y, number=0), e.composite("threefry", key, x, y, number=1)


def numbers(kind: str, dtype: DType, draw: int, key: Node, x: Node, *affine: Node) -> Node:
    """Numbers of a standard distribution, one of `KINDS`, out of the words for counters and the number of a draw; times
    a scalar, plus another one, if they are given.
    """
    # What `composite` would find out is known here: layers are made of draws, and wait for them.
    parameters = (("draw", draw), ("dtype", dtype.name), ("kind", kind))
    return made(Op.COMPOSITE, dtype, x.shape, (key, x, *affine), Composition("random", parameters))


def _check(name: str, fits: bool, key: Node, *counters: Node) -> None:
    """The functions for users know what fits: only the text of a graph can have something else."""
    if not fits or key.shape not in ((2,), (3,)) or any(x.dtype is not dtypes.uint32 for x in (key, *counters)):
        raise ArgumentError(f"{name}: this is no key, not counters, or not their parameters")


def _infer_words(name: str, key: Node, x: Node, y: Node, number: Any) -> Inferred:
    _check(name, number in (0, 1), key, x, y)
    return Inferred(dtypes.uint32, broadcast_shapes(x.shape, y.shape, name), {"number": int(number)})


def _infer_numbers(name: str, key: Node, x: Node, *affine: Node, draw: Any, kind: Any, dtype: Any) -> Inferred:
    wanted = as_dtype(dtype, name)
    fits = type(draw) is int and 0 <= draw < 2**32 and kind in KINDS and wanted in PRECISION
    _check(name, fits and all(scalar.dtype is wanted and scalar.shape == () for scalar in affine), key, x)
    return Inferred(wanted, x.shape, {"draw": draw, "kind": kind, "dtype": wanted.name})


@register("threefry", _infer_words, (3, 3), number=0)
def _word(key: Node, x: Node, y: Node, number: int) -> Node:
    return _threefry(key, x, y)[number]


@register("random", _infer_numbers, (2, 4), draw=0, kind="uniform", dtype="float32")
def _numbers(key: Node, x: Node, *affine: Node, draw: int, kind: str, dtype: str) -> Node:
    node = KINDS[kind](*_threefry(key, x, word(draw)), as_dtype(dtype))
    for function, scalar in zip(("mul", "add"), affine, strict=False):
        node = e.binary(function, node, scalar)
    return node


def _threefry(key: Node, x: Node, y: Node) -> tuple[Node, Node]:
    first, second, *ahead = (e.reshape(e.slice_(key, [(k, 1, 1)]), ()) for k in range(upper(key.shape[0])))
    for number in ahead:
        y = e.add(y, number)
    shape = broadcast_shapes(x.shape, y.shape, "random")
    keys = (first, second, e.binary("xor", e.binary("xor", first, second), word(_PARITY)))
    x = e.broadcast_to(e.add(x, keys[0]), shape)
    y = e.broadcast_to(e.add(y, keys[1]), shape)
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = e.add(x, y)
            y = e.binary("xor", x, _rotated(y, distance))
        x = e.add(x, keys[(group + 1) % 3])
        y = e.add(y, e.add(keys[(group + 2) % 3], word(group + 1)))
    return x, y


def _rotated(x: Node, distance: int) -> Node:
    left = e.binary("shl", x, word(distance))
    return e.binary("or", left, e.binary("shr", x, word(32 - distance)))


# --- numbers made of words


def joined(a: Node, b: Node) -> Node:
    """Both words as one of 64 bits."""
    high = e.binary("shl", e.cast(b, dtypes.uint64), e.const(32, dtypes.uint64))
    return e.binary("or", high, e.cast(a, dtypes.uint64))


# How many leading bits of a word each float holds exactly.
PRECISION: Final = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def unit(a: Node, b: Node, dtype: DType) -> Node:
    """Random bits as a float in [0, 1): every value a multiple of the same power of two, all equally likely."""
    bits = joined(a, b) if dtype is dtypes.float64 else a
    kept = PRECISION[dtype]
    leading = e.binary("shr", bits, e.const(bits.dtype.bits - kept, bits.dtype))
    return e.scale(e.cast(leading, dtype), 2.0**-kept)


def share(x: Node, dtype: DType) -> Node:
    """A word as a float in (0, 1], half a step above a multiple of 2**-bits: small values keep all their digits."""
    return e.scale(e.shift(e.cast(x, dtype), 0.5), 2.0**-x.dtype.bits)


def exponential(a: Node, b: Node, dtype: DType) -> Node:
    """Exponential numbers of mean 1, with all their digits both near 0 and in the tail.

    The logarithm of the share below or above an even split, whichever the coin says: neither end is rounded away.
    """
    half = e.scale(share(joined(a, b) if dtype is dtypes.float64 else a, dtype), 0.5)
    # For float64 the coin is the last bit of a fraction of 64 bits, which rounding hides.
    coin = e.ne(e.bitwise_and(b if dtype is not dtypes.float64 else a, word(1)), word(0))
    below = e.log(half)
    above = e.unary("log1p", e.neg(half))
    return e.neg(e.where(coin, below, above))


def gaussian(a: Node, b: Node, dtype: DType) -> Node:
    """Normal numbers (Box-Muller: both words of an element make one number)."""
    # All 32 bits in the radius, so that the tails reach far.
    radius = e.sqrt(e.scale(e.log(share(a, dtype)), -2.0))
    turn = e.scale(e.cast(e.binary("shr", b, word(8)), dtype), 2.0**-24)
    return e.mul(radius, e.unary("cos", e.scale(turn, 6.283185307179586)))


def _laplace(a: Node, b: Node, dtype: DType) -> Node:
    sign = e.ne(e.bitwise_and(b, word(2)), word(0))
    size = exponential(a, b, dtype)
    return e.where(sign, e.neg(size), size)


def gumbel(a: Node, b: Node, dtype: DType) -> Node:
    """Gumbel numbers: minus the logarithm of exponential ones."""
    return e.neg(e.log(exponential(a, b, dtype)))


KINDS: Final[dict[str, Callable[[Node, Node, DType], Node]]] = {
    "uniform": unit,
    "normal": gaussian,
    "exponential": exponential,
    "laplace": _laplace,
    "gumbel": gumbel,
}
