"""Random numbers from counters: threefry2x32 with 20 rounds, the same bits on every device.

Element i of draw d under a key is word 0 of threefry(key, (i, d)), so a number depends only on its key, its draw and
its place, never on what ran before or how many threads there are. Without a `key=`, draws use the global key and its
counter, set by `seed`; with one, the draw is 0: the same key gives the same numbers, and `split` or `fold_in` make
new keys.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from smelt import dtypes, runtime
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import build
from smelt.graph.index import product_of, upper
from smelt.graph.node import Node, Shape
from smelt.graph.shapes import shape_text
from smelt.tensor.arguments import as_shape, integer
from smelt.tensor.handle import node_of, wrap
from smelt.tensor.types import DTypeLike, ShapeLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA
# Second counter words that no draw uses, so that keys made from a key are not among its numbers.
_SPLIT, _FOLD = 0xFFFFFFFF, 0xFFFFFFFE


# --- state and keys


def seed(value: int, /) -> None:
    """Start the global sequence of draws anew."""
    runtime.seed_random(_seed(value, "seed"))


def key(value: int, /) -> Tensor:
    """A key for `key=`, from an integer."""
    number = _seed(value, "key")
    return wrap(_pair_of(_word(number & 0xFFFFFFFF), _word(number >> 32)))


def split(key: Tensor, count: int = 2, /) -> Tensor:
    """`count` new keys from one, as the rows of a tensor."""
    number = integer(count, "split", "the number of keys")
    if number < 0:
        raise ArgumentError(f"split: the number of keys must not be negative, got {number}")
    a, b = threefry(*_key_words(key), build.iota(number, dtypes.uint32), _word(_SPLIT))
    return wrap(build.concat([build.reshape(a, (number, 1)), build.reshape(b, (number, 1))], 1))


def fold_in(key: Tensor, data: int, /) -> Tensor:
    """A new key from a key and an integer, such as the number of a step or layer."""
    number = _seed(data, "fold_in")
    words = _key_words(key)
    if number >> 32:
        words = threefry(*words, _word(number >> 32), _word(_FOLD))
    return wrap(_pair_of(*threefry(*words, _word(number & 0xFFFFFFFF), _word(_FOLD))))


def _seed(value: Any, name: str) -> int:
    number = integer(value, name, "the seed")
    if not -(2**63) <= number < 2**64:
        raise ArgumentError(f"{name}: {number} does not fit in 64 bits")
    return number & 0xFFFFFFFFFFFFFFFF


def _key_words(key: Any) -> tuple[Node, Node]:
    node = node_of(key, "key")
    if node.dtype is not dtypes.uint32 or node.shape != (2,):
        raise ArgumentError(
            f"random: a key is {node.dtype}{shape_text(node.shape)}",
            rule="it must be uint32 of shape (2,).",
            hint="Make one with smelt.random.key(0), or take a row of smelt.random.split(key).",
        )
    return _element(node, 0), _element(node, 1)


def _element(node: Node, at: int) -> Node:
    return build.reshape(build.slice_(node, [(at, 1, 1)]), ())


def _pair_of(a: Node, b: Node) -> Node:
    return build.concat([build.reshape(a, (1,)), build.reshape(b, (1,))], 0)


# --- the generator


def _word(value: int) -> Node:
    return build.const(value, dtypes.uint32)


def threefry(key0: Node, key1: Node, x: Node, y: Node) -> tuple[Node, Node]:
    """Two uint32 words scrambled under a key; all four broadcast."""
    shape = build.broadcast_shapes(x.shape, y.shape, "random")
    keys = (key0, key1, build.binary("xor", build.binary("xor", key0, key1), _word(_PARITY)))
    x = build.broadcast_to(build.add(x, keys[0]), shape)
    y = build.broadcast_to(build.add(y, keys[1]), shape)
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            x = build.add(x, y)
            y = build.binary("xor", x, _rotated(y, distance))
        x = build.add(x, keys[(group + 1) % 3])
        y = build.add(y, build.add(keys[(group + 2) % 3], _word(group + 1)))
    return x, y


def _rotated(x: Node, distance: int) -> Node:
    left = build.binary("shl", x, _word(distance))
    return build.binary("or", left, build.binary("shr", x, _word(32 - distance)))


def _words(shape: Shape, key: Any, name: str) -> tuple[Node, Node]:
    """Both words of every element of a draw."""
    count = product_of(shape)
    if upper(count) > 2**32:
        raise ShapeError(f"{name}: shape {shape_text(shape)} has more than 2**32 elements", hint="Make several draws.")
    if key is None:
        state, ahead = runtime.take_random()
        key0, key1, draw = (_element(state, i) for i in range(3))
        draw = build.add(draw, _word(ahead)) if ahead else draw
    else:
        key0, key1 = _key_words(key)
        draw = _word(0)
    a, b = threefry(key0, key1, build.iota(count, dtypes.uint32), draw)
    return build.reshape(a, shape), build.reshape(b, shape)


# --- draws


def bits(shape: ShapeLike = (), *, dtype: DTypeLike = dtypes.uint32, key: Tensor | None = None) -> Tensor:
    """Random bits, as unsigned integers."""
    wanted = as_dtype(dtype)
    if not wanted.is_integer or wanted.is_signed:
        raise DTypeError(f"bits: the dtype must be an unsigned integer, got {wanted}")
    a, b = _words(as_shape(shape, "bits"), key, "bits")
    return wrap(_joined(a, b) if wanted.bits == 64 else build.cast(a, wanted))


def _joined(a: Node, b: Node) -> Node:
    high = build.binary("shl", build.cast(b, dtypes.uint64), build.const(32, dtypes.uint64))
    return build.binary("or", high, build.cast(a, dtypes.uint64))


def uniform(
    shape: ShapeLike = (),
    low: float = 0.0,
    high: float = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers spread evenly from `low` up to but without `high` (unless rounding reaches it)."""
    wanted = _float(dtype, "uniform")
    a, b = _words(as_shape(shape, "uniform"), key, "uniform")
    node = _unit(a, b, wanted)
    if high - low != 1.0:
        node = build.scale(node, high - low)
    return wrap(build.shift(node, low) if low else node)


# How many leading bits of a word each float holds exactly.
_PRECISION = {dtypes.float16: 11, dtypes.bfloat16: 8, dtypes.float32: 24, dtypes.float64: 53}


def _unit(a: Node, b: Node, dtype: DType) -> Node:
    """Random bits as a float in [0, 1): every value a multiple of the same power of two, all equally likely."""
    word = _joined(a, b) if dtype is dtypes.float64 else a
    kept = _PRECISION[dtype]
    leading = build.binary("shr", word, build.const(word.dtype.bits - kept, word.dtype))
    return build.scale(build.cast(leading, dtype), 2.0**-kept)


def normal(
    shape: ShapeLike = (),
    mean: float = 0.0,
    std: float = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the normal distribution (Box-Muller: both words of an element make one number)."""
    wanted = _float(dtype, "normal")
    inside = dtypes.compute_dtype(wanted)
    a, b = _words(as_shape(shape, "normal"), key, "normal")
    # Half a step above 0, so that the logarithm is finite; all 32 bits, so that the tails reach far.
    share = build.scale(build.shift(build.cast(a, inside), 0.5), 2.0**-32)
    turn = build.scale(build.cast(build.binary("shr", b, _word(8)), inside), 2.0**-24)
    radius = build.sqrt(build.scale(build.log(share), -2.0))
    node = build.mul(radius, build.unary("cos", build.scale(turn, 2 * math.pi)))
    node = node if std == 1.0 else build.scale(node, std)
    node = build.shift(node, mean) if mean else node
    return wrap(build.cast(node, wanted))


def randint(
    low: int,
    high: int,
    /,
    shape: ShapeLike = (),
    *,
    dtype: DTypeLike = dtypes.int64,
    key: Tensor | None = None,
) -> Tensor:
    """Integers from `low` up to but without `high`, equally likely to within 1 in 2**32."""
    first, end = integer(low, "randint", "low"), integer(high, "randint", "high")
    wanted = as_dtype(dtype)
    if not wanted.is_integer:
        raise DTypeError(f"randint: the dtype must be an integer, got {wanted}")
    if not (wanted.minimum <= first < end <= int(wanted.maximum) + 1):
        raise ArgumentError(
            f"randint: no integer from {first} up to but without {end} is {wanted}",
            rule=f"low must be less than high, and both within {wanted.minimum} to {int(wanted.maximum) + 1}.",
        )
    a, b = _words(as_shape(shape, "randint"), key, "randint")
    span = end - first
    if span > 2**32:
        word = _joined(a, b)
        offset = word if span == 2**64 else build.binary("mod", word, build.const(span, dtypes.uint64))
    else:  # the high word of the product of a 32-bit number and the span
        product = build.mul(build.cast(a, dtypes.uint64), build.const(span, dtypes.uint64))
        offset = build.binary("shr", product, build.const(32, dtypes.uint64))
    # Integers wrap, so adding in the result's own dtype is right also where the offset does not fit in it.
    return wrap(build.binary("add", build.cast(offset, wanted), build.const(first, wanted)))


def _float(dtype: DTypeLike, name: str) -> DType:
    wanted = as_dtype(dtype)
    if not wanted.is_float:
        raise DTypeError(f"{name}: the dtype must be a float, got {wanted}")
    return wanted
