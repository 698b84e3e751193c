"""The random generator: threefry2x32 with 20 rounds, and the plain numbers made of its words.

Element i of draw d under a key is threefry(key, (i, d)), two words of 32 bits, so a number depends only on its key, its
draw and its place, never on what ran before or how many threads there are. Distributions that need more words take
several draws in a row: with a key the draws 0, 1, 2, …, without one the next ones of the global sequence.
"""

from __future__ import annotations

from typing import Any

from smelt import dtypes, runtime
from smelt.dtypes import DType
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import build
from smelt.graph.index import product_of, upper
from smelt.graph.node import Node, Shape
from smelt.graph.shapes import shape_text
from smelt.tensor.handle import node_of

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def word(value: int) -> Node:
    """A number as one of the generator's words."""
    return build.const(value, dtypes.uint32)


def threefry(key0: Node, key1: Node, x: Node, y: Node) -> tuple[Node, Node]:
    """Two uint32 words scrambled under a key; all four broadcast."""
    shape = build.broadcast_shapes(x.shape, y.shape, "random")
    keys = (key0, key1, build.binary("xor", build.binary("xor", key0, key1), word(_PARITY)))
    x = build.broadcast_to(build.add(x, keys[0]), shape)
    y = build.broadcast_to(build.add(y, keys[1]), shape)
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = build.add(x, y)
            y = build.binary("xor", x, _rotated(y, distance))
        x = build.add(x, keys[(group + 1) % 3])
        y = build.add(y, build.add(keys[(group + 2) % 3], word(group + 1)))
    return x, y


def _rotated(x: Node, distance: int) -> Node:
    left = build.binary("shl", x, word(distance))
    return build.binary("or", left, build.binary("shr", x, word(32 - distance)))


def key_words(key: Any, name: str) -> tuple[Node, Node]:
    """The two words of a key."""
    node = node_of(key, name)
    if node.dtype is not dtypes.uint32 or node.shape != (2,):
        raise ArgumentError(
            f"{name}: a key is {node.dtype}{shape_text(node.shape)}",
            rule="it must be uint32 of shape (2,).",
            hint="Make one with smelt.random.key(0), or take a row of smelt.random.split(key).",
        )
    return element(node, 0), element(node, 1)


def element(node: Node, at: int) -> Node:
    """One element of a vector, as a scalar."""
    return build.reshape(build.slice_(node, [(at, 1, 1)]), ())


def draw_words(shape: Shape, key: Any, name: str, draws: int | None = None, *, start: int = 0) -> tuple[Node, Node]:
    """Both words of every element of a draw; with `draws`, of as many draws along a new first axis.

    A distribution that asks more than once says with `start` how many draws it has had, which counts with a key.
    """
    count = product_of(shape)
    if upper(count) > 2**32:
        raise ShapeError(f"{name}: shape {shape_text(shape)} has more than 2**32 elements", hint="Make several draws.")
    if key is None:
        state, ahead = runtime.take_random(draws or 1)
        key0, key1, draw = (element(state, i) for i in range(3))
        draw = build.add(draw, word(ahead)) if ahead else draw
    else:
        key0, key1 = key_words(key, name)
        draw = word(start)
    if draws is not None:
        draw = build.add(build.reshape(build.iota(draws, dtypes.uint32), (draws, 1)), draw)
        shape = (draws, *shape)
    a, b = threefry(key0, key1, build.iota(count, dtypes.uint32), draw)
    return build.reshape(a, shape), build.reshape(b, shape)


# --- numbers made of words


def joined(a: Node, b: Node) -> Node:
    """Both words as one of 64 bits."""
    high = build.binary("shl", build.cast(b, dtypes.uint64), build.const(32, dtypes.uint64))
    return build.binary("or", high, build.cast(a, dtypes.uint64))


# How many leading bits of a word each float holds exactly.
PRECISION = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def unit(a: Node, b: Node, dtype: DType) -> Node:
    """Random bits as a float in [0, 1): every value a multiple of the same power of two, all equally likely."""
    bits = joined(a, b) if dtype is dtypes.float64 else a
    kept = PRECISION[dtype]
    leading = build.binary("shr", bits, build.const(bits.dtype.bits - kept, bits.dtype))
    return build.scale(build.cast(leading, dtype), 2.0**-kept)


def share(x: Node, dtype: DType) -> Node:
    """A word as a float in (0, 1], half a step above a multiple of 2**-bits: small values keep all their digits."""
    return build.scale(build.shift(build.cast(x, dtype), 0.5), 2.0**-x.dtype.bits)


def exponential(a: Node, b: Node, dtype: DType) -> Node:
    """Exponential numbers of mean 1, with all their digits both near 0 and in the tail.

    The logarithm of the share below or above an even split, whichever the coin says: neither end is rounded away.
    """
    half = build.scale(share(joined(a, b) if dtype is dtypes.float64 else a, dtype), 0.5)
    # For float64 the coin is the last bit of a fraction of 64 bits, which rounding hides.
    coin = build.ne(build.bitwise_and(b if dtype is not dtypes.float64 else a, word(1)), word(0))
    below = build.log(half)
    above = build.unary("log1p", build.neg(half))
    return build.neg(build.where(coin, below, above))


def gaussian(a: Node, b: Node, dtype: DType) -> Node:
    """Normal numbers (Box-Muller: both words of an element make one number)."""
    # All 32 bits in the radius, so that the tails reach far.
    radius = build.sqrt(build.scale(build.log(share(a, dtype)), -2.0))
    turn = build.scale(build.cast(build.binary("shr", b, word(8)), dtype), 2.0**-24)
    return build.mul(radius, build.unary("cos", build.scale(turn, 6.283185307179586)))
