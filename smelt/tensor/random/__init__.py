"""Random numbers, the same on every device: `smelt.random`.

Without a `key=`, draws use the global key and its counter, set by `seed`; with one, the same key gives the same
numbers, and `split` or `fold_in` make new keys. Parameters are numbers, which are checked at the call, or tensors,
which broadcast to the shape of the draw; a tensor's element that is no valid parameter gives NaN. Without a shape, the
result has the shape of the parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt import dtypes, runtime
from smelt.dtypes import as_dtype
from smelt.errors import ArgumentError, DTypeError
from smelt.graph import Node, build, draws, shape_text
from smelt.names import door
from smelt.tensor.arguments import as_shape, integer
from smelt.tensor.handle import Handle, wrap
from smelt.tensor.random import generator
from smelt.tensor.random.arguments import (
    NOT_NEGATIVE,
    NUMBER,
    PROBABILITY,
    check_order,
    checked_number,
    draw_shape,
    float_dtype,
    is_number,
    parameter,
    shape_first,
)
from smelt.tensor.random.choices import categorical, choice, multinomial, permutation
from smelt.tensor.random.generator import draw_words, key_node
from smelt.tensor.random.initializers import (
    kaiming_normal,
    kaiming_uniform,
    lecun_normal,
    lecun_uniform,
    orthogonal,
    truncated,
    xavier_normal,
    xavier_uniform,
)
from smelt.tensor.random.rejection import beta, gamma, poisson
from smelt.tensor.random.tails import truncated_normal
from smelt.tensor.types import DTypeLike, Operand, ShapeLike, Size

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

# Names that other libraries use for the same functions.
shuffle = permutation
glorot_uniform, glorot_normal = xavier_uniform, xavier_normal
he_uniform, he_normal = kaiming_uniform, kaiming_normal

__all__ = [
    "seed",
    "key",
    "split",
    "fold_in",
    "bits",
    "uniform",
    "normal",
    "rand",
    "randn",
    "truncated_normal",
    "exponential",
    "laplace",
    "gumbel",
    "gamma",
    "beta",
    "bernoulli",
    "randint",
    "poisson",
    "categorical",
    "multinomial",
    "permutation",
    "shuffle",
    "choice",
    "kaiming_uniform",
    "kaiming_normal",
    "xavier_uniform",
    "xavier_normal",
    "lecun_uniform",
    "lecun_normal",
    "truncated",
    "orthogonal",
    "glorot_uniform",
    "glorot_normal",
    "he_uniform",
    "he_normal",
]

# Second counter words that no draw uses, so that keys made from a key are not among its numbers.
_SPLIT, _FOLD = 0xFFFFFFFF, 0xFFFFFFFE


# --- state and keys


def seed(value: int) -> None:
    """Start the global sequence of draws anew.

    >>> sm.random.seed(0)
    """
    runtime.current().random.seed(_seed(value, "seed"))


def key(value: int | Tensor) -> Tensor:
    """A key for `key=`, from an integer.

    >>> sm.random.key(7).tolist()
    [7, 0]
    """
    return wrap(_pair_of(*_halves(value, "key")))


def split(key: Tensor, count: int = 2) -> Tensor:
    """`count` new keys from one, as the rows of a tensor.

    >>> a, b = sm.random.split(sm.random.key(0))
    >>> a.shape
    (2,)
    """
    number = integer(count, "split", "the number of keys")
    if number < 0:
        raise ArgumentError(f"split: the number of keys must not be negative, got {number}")
    if number > 2**32:
        raise ArgumentError(f"split: {number} keys", rule="one key gives at most 2**32.", hint="Split the new keys.")
    a, b = draws.words(key_node(key, "split"), build.iota(number, dtypes.uint32), draws.word(_SPLIT))
    return wrap(build.concat([build.reshape(a, (number, 1)), build.reshape(b, (number, 1))], 1))


def fold_in(key: Tensor, data: int | Tensor) -> Tensor:
    """A new key from a key and an integer, such as the number of a step or layer.

    >>> keys = [sm.random.fold_in(sm.random.key(0), layer) for layer in range(3)]
    """
    node = key_node(key, "fold_in")
    low, high = _halves(data, "fold_in")
    far = _pair_of(*draws.words(node, high, draws.word(_FOLD)))
    node = build.where(build.ne(high, draws.word(0)), far, node)
    return wrap(_pair_of(*draws.words(node, low, draws.word(_FOLD))))


def _seed(value: Any, name: str) -> int:
    number = integer(value, name, "the seed")
    if not -(2**63) <= number < 2**64:
        raise ArgumentError(f"{name}: {number} does not fit in 64 bits")
    return number & 0xFFFFFFFFFFFFFFFF


def _halves(value: Any, name: str) -> tuple[Node, Node]:
    """The low and the high word of an integer, which may be a scalar tensor."""
    if not isinstance(value, Handle):
        number = _seed(value, name)
        return draws.word(number & 0xFFFFFFFF), draws.word(number >> 32)
    node = value._node
    if not node.dtype.is_integer or node.shape != ():
        raise ArgumentError(
            f"{name}: the seed must be an integer, got a tensor {node.dtype}{shape_text(node.shape)}",
            hint="Pass an integer or a scalar tensor of integers.",
        )
    whole = build.cast(node, dtypes.uint64)
    high = build.binary("shr", whole, build.const(32, dtypes.uint64))
    return build.cast(whole, dtypes.uint32), build.cast(high, dtypes.uint32)


def _pair_of(a: Node, b: Node) -> Node:
    return build.concat([build.reshape(a, (1,)), build.reshape(b, (1,))], 0)


# --- draws


def bits(shape: ShapeLike = (), *, dtype: DTypeLike = dtypes.uint32, key: Tensor | None = None) -> Tensor:
    """Random bits, as unsigned integers.

    >>> sm.random.bits((2,), key=sm.random.key(0)).tolist()
    [1797259609, 1351547692]
    """
    wanted = as_dtype(dtype, "bits")
    if wanted not in dtypes.INTEGERS or wanted.is_signed:
        raise DTypeError(f"bits: the dtype must be an unsigned integer, got {wanted}")
    a, b = draw_words(as_shape(shape, "bits"), key, "bits")
    return wrap(draws.joined(a, b) if wanted.bits == 64 else build.cast(a, wanted))


@shape_first
def uniform(
    shape: ShapeLike | None = None,
    low: Operand = 0.0,
    high: Operand = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers spread evenly from `low` up to but without `high` (unless rounding reaches it).

    >>> x = sm.random.uniform((2, 3), -1.0, 1.0)
    >>> bool((sm.abs(x) <= 1).all())
    True
    """
    wanted = float_dtype(dtype, "uniform")
    if is_number(low) and is_number(high):
        first, last = checked_number(low, "uniform", "low"), checked_number(high, "uniform", "high")
        if first != last:
            check_order(low, high, "uniform", ("low", "high"))
        size = draw_shape(shape, (), "uniform")
        return wrap(generator.draw("uniform", wanted, size, key, "uniform", last - first, first))
    start, end = parameter(low, wanted, "uniform", "low"), parameter(high, wanted, "uniform", "high")
    node = generator.draw("uniform", wanted, draw_shape(shape, (start, end), "uniform"), key, "uniform")
    node = build.mul(node, build.sub(end, start))
    return wrap(node if is_number(low) and low == 0 else build.add(node, start))


@shape_first
def normal(
    shape: ShapeLike | None = None,
    mean: Operand = 0.0,
    std: Operand = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the normal distribution.

    >>> sm.random.normal((2, 3), std=0.1).shape
    (2, 3)
    """
    return _located("normal", shape, (mean, std), "std", dtype, key)


def rand(shape: ShapeLike = (), *sizes: Size, dtype: DTypeLike = dtypes.float32, key: Tensor | None = None) -> Tensor:
    """Numbers spread evenly from 0 up to but without 1: `rand((2, 3))` or `rand(2, 3)`.

    >>> sm.random.rand(2, 3).shape
    (2, 3)
    """
    return uniform(as_shape((shape, *sizes), "rand"), dtype=dtype, key=key)


def randn(shape: ShapeLike = (), *sizes: Size, dtype: DTypeLike = dtypes.float32, key: Tensor | None = None) -> Tensor:
    """Numbers from the normal distribution of mean 0 and deviation 1: `randn((2, 3))` or `randn(2, 3)`.

    >>> sm.random.randn(2, 3).shape
    (2, 3)
    """
    return normal(as_shape((shape, *sizes), "randn"), dtype=dtype, key=key)


@shape_first
def exponential(
    shape: ShapeLike | None = None,
    scale: Operand = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the exponential distribution of mean `scale`.

    >>> bool((sm.random.exponential((5,), 2.0) > 0).all())
    True
    """
    return _located("exponential", shape, (0.0, scale), "scale", dtype, key)


@shape_first
def laplace(
    shape: ShapeLike | None = None,
    mean: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the Laplace distribution: exponential to both sides of the mean.

    >>> sm.random.laplace((3,)).shape
    (3,)
    """
    return _located("laplace", shape, (mean, scale), "scale", dtype, key)


@shape_first
def gumbel(
    shape: ShapeLike | None = None,
    mean: Operand = 0.0,
    scale: Operand = 1.0,
    *,
    dtype: DTypeLike = dtypes.float32,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers from the Gumbel distribution, which the largest of many numbers follows; `mean` is its mode.

    >>> sm.random.gumbel((3,)).shape
    (3,)
    """
    return _located("gumbel", shape, (mean, scale), "scale", dtype, key)


def _located(
    name: str,
    shape: Any,
    given: tuple[Any, Any],
    second: str,
    dtype: DTypeLike,
    key: Any,
) -> Tensor:
    """A standard distribution, moved to the first parameter and stretched by the second."""
    wanted = float_dtype(dtype, name)
    inside = dtypes.compute_dtype(wanted)
    mean, scale = given
    if is_number(mean) and is_number(scale):
        place, factor = checked_number(mean, name, "mean"), checked_number(scale, name, second, NOT_NEGATIVE)
        drawn = generator.draw(name, inside, draw_shape(shape, (), name), key, name, factor, place)
        return wrap(build.cast(drawn, wanted))
    center = parameter(mean, inside, name, "mean", NUMBER)
    stretch = parameter(scale, inside, name, second, NOT_NEGATIVE)
    node = generator.draw(name, inside, draw_shape(shape, (center, stretch), name), key, name)
    if not is_number(scale):
        invalid = build.lt(stretch, build.const(0.0, inside))
        stretch = build.where(invalid, build.const(float("nan"), inside), stretch)
    node = node if is_number(scale) and scale == 1 else build.mul(node, stretch)
    node = node if is_number(mean) and mean == 0 else build.add(node, center)
    return wrap(build.cast(node, wanted))


def bernoulli(
    p: Operand = 0.5,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike = dtypes.bool_,
    key: Tensor | None = None,
) -> Tensor:
    """True with probability `p`, which counts to within 2**-53; 1 and 0 in other dtypes.

    >>> sm.random.bernoulli(1.0, (3,)).tolist()
    [True, True, True]
    """
    chance = parameter(p, dtypes.float64, "bernoulli", "p", PROBABILITY)
    drawn = generator.draw("uniform", dtypes.float64, draw_shape(shape, (chance,), "bernoulli"), key, "bernoulli")
    return wrap(build.cast(build.lt(drawn, chance), as_dtype(dtype, "bernoulli")))


def randint(
    low: Operand,
    high: Operand,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike = dtypes.int64,
    key: Tensor | None = None,
) -> Tensor:
    """Integers from `low` up to but without `high`, equally likely to within 1 in 2**32.

    >>> x = sm.random.randint(0, 10, (4,))
    >>> bool((x >= 0).all()), bool((x < 10).all())
    (True, True)
    """
    wanted = as_dtype(dtype, "randint")
    if wanted not in dtypes.INTEGERS:
        raise DTypeError(f"randint: the dtype must be an integer, got {wanted}")
    if isinstance(low, Handle) or isinstance(high, Handle):
        return _integers_between(low, high, shape, wanted, key)
    first, end = integer(low, "randint", "low"), integer(high, "randint", "high")
    if not (wanted.minimum <= first < end <= int(wanted.maximum) + 1):
        raise ArgumentError(
            f"randint: no integer from {first} up to but without {end} is {wanted}",
            rule=f"low must be less than high, and both within {wanted.minimum} to {int(wanted.maximum) + 1}.",
        )
    a, b = draw_words(draw_shape(shape, (), "randint"), key, "randint")
    span = end - first
    if span == 2**64:
        offset = draws.joined(a, b)
    else:
        offset = _below(a, b, build.const(span, dtypes.uint64), wide=span > 2**32)
    # Integers wrap, so adding in the result's own dtype is right also where the offset does not fit in it.
    return wrap(build.binary("add", build.cast(offset, wanted), build.const(first, wanted)))


def _integers_between(low: Any, high: Any, shape: Any, wanted: dtypes.DType, key: Any) -> Tensor:
    """`randint` with tensors as limits. Where there is no integer between them, `low`."""
    first, end = (_limit(value, wanted, what) for value, what in ((low, "low"), (high, "high")))
    a, b = draw_words(draw_shape(shape, (first, end), "randint"), key, "randint")
    span = build.sub(build.cast(end, dtypes.uint64), build.cast(first, dtypes.uint64))
    wide = build.le(build.const(2**32, dtypes.uint64), span)
    offset = build.where(wide, _below(a, b, span, wide=True), _below(a, b, span, wide=False))
    offset = build.where(build.le(end, first), build.const(0, dtypes.uint64), offset)
    return wrap(build.add(build.cast(offset, wanted), first))


def _limit(value: Any, wanted: dtypes.DType, what: str) -> Node:
    if isinstance(value, Handle):
        if not value._node.dtype.is_integer:
            raise DTypeError(f"randint: {what} must be an integer, got a tensor of {value._node.dtype}")
        return build.cast(value._node, wanted)
    number = integer(value, "randint", what)
    if not wanted.minimum <= number <= wanted.maximum:
        raise ArgumentError(f"randint: {what} is {number}, which is not {wanted}")
    return build.const(number, wanted)


def _below(a: Node, b: Node, span: Node, wide: bool) -> Node:
    """An integer below `span` (uint64) out of the words of an element."""
    if wide:
        return build.binary("mod", draws.joined(a, b), span)
    # The high word of the product of a 32-bit number and the span.
    return build.binary("shr", build.mul(build.cast(a, dtypes.uint64), span), build.const(32, dtypes.uint64))


if not TYPE_CHECKING:
    __getattr__, __dir__ = door("smelt.random", __all__)
