"""Random choices: categories, counts of them, orders, and elements of a tensor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import IndexLike, Node, Shape, build, draws, normalized_axis, product_of, shape_text, upper
from smelt.tensor.arguments import as_shape, flag, integer
from smelt.tensor.handle import Handle, floating, node_of, wrap
from smelt.tensor.random import generator
from smelt.tensor.types import DTypeLike, ShapeLike, TensorLike

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor


def categorical(
    logits: TensorLike | None = None,
    *,
    probs: TensorLike | None = None,
    axis: int = -1,
    shape: ShapeLike | None = None,
    dtype: DTypeLike = dtypes.int64,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers of categories along an axis, by logits (logarithms of weights) or by probabilities (any weights).

    `shape` is that of the result: the other axes, with the sizes of a sample before them.

    >>> sm.random.categorical(probs=[0.0, 1.0, 0.0], shape=(4,)).tolist()
    [1, 1, 1, 1]
    """
    if (logits is None) == (probs is None):
        raise ArgumentError("categorical: give either logits or probs")
    wanted = _index_dtype(dtype, "categorical")
    node = floating(probs if logits is None else logits, "categorical")
    node = build.cast(node, dtypes.compute_dtype(node.dtype))
    scores = _last(build.log(node) if logits is None else node, axis, "categorical")
    *batch, count = scores.shape
    size = tuple(batch) if shape is None else as_shape(shape, "categorical")
    if build.broadcast_shapes(tuple(batch), size, "categorical") != size:
        raise ShapeError(
            f"categorical: a batch of shape {shape_text(tuple(batch))} does not broadcast to {shape_text(size)}",
            hint="Put the sizes of a sample before those of the batch.",
        )
    noise = generator.draw("gumbel", node.dtype, (*size, count), key, "categorical")
    return wrap(build.cast(_largest(build.add(scores, noise)), wanted))


def _index_dtype(dtype: DTypeLike, name: str) -> DType:
    wanted = as_dtype(dtype, name)
    if wanted not in dtypes.INTEGERS:
        raise DTypeError(f"{name}: the dtype must be an integer, got {wanted}")
    return wanted


def _last(node: Node, axis: int, name: str) -> Node:
    """The node with an axis, which must not be empty, moved to the end."""
    if node.rank == 0:
        raise ShapeError(f"{name}: a scalar has no categories", rule="there must be an axis of them.")
    at = normalized_axis(axis, node.rank, name)
    if node.shape[at] == 0:
        raise ShapeError(f"{name}: there are no categories in shape {shape_text(node.shape)}")
    return build.permute(node, [*(i for i in range(node.rank) if i != at), at])


def _largest(node: Node) -> Node:
    """Where the largest element of the last axis stands; the first of equal ones."""
    top = build.reduce("max", node, (node.rank - 1,), keep_axes=True)
    count = node.shape[-1]
    places = build.broadcast_to(build.iota(count, dtypes.int64), node.shape)
    last = build.shift(build.size_node(count, dtypes.int64), -1)
    return build.reduce("min", build.where(build.eq(node, top), places, last), (node.rank - 1,))


def multinomial(
    n: int,
    probs: TensorLike,
    shape: ShapeLike | None = None,
    *,
    dtype: DTypeLike = dtypes.int64,
    key: Tensor | None = None,
) -> Tensor:
    """How often each category comes up in `n` trials; the categories lie along the last axis of `probs`.

    The probabilities may be any weights. `shape` is that of the result without the last axis.

    >>> int(sm.random.multinomial(20, [0.5, 0.25, 0.25]).sum())
    20
    """
    trials = integer(n, "multinomial", "the number of trials")
    if trials < 0:
        raise ArgumentError(f"multinomial: the number of trials must not be negative, got {trials}")
    wanted = _index_dtype(dtype, "multinomial")
    weights = _last(build.cast(floating(probs, "multinomial"), dtypes.float64), -1, "multinomial")
    *batch, count = weights.shape
    size = tuple(batch) if shape is None else as_shape(shape, "multinomial")
    if build.broadcast_shapes(tuple(batch), size, "multinomial") != size:
        raise ShapeError(
            f"multinomial: a batch of shape {shape_text(tuple(batch))} does not broadcast to {shape_text(size)}",
            hint="Put the sizes of a sample before those of the batch.",
        )
    sums = build.broadcast_to(_sums(weights), (*size, count))
    below = build.reduce("add", _below((*size, trials), sums, key, "multinomial"), (len(size),))
    # Trials below the sum up to each category, less those below the sum before it.
    before = build.pad(_without_last(below), [*((0, 0) for _ in size), (1, 0)], build.const(0, dtypes.int64))
    return wrap(build.cast(build.sub(below, before), wanted))


def _without_last(node: Node) -> Node:
    *others, count = node.shape
    return build.slice_(node, [*((0, size, 1) for size in others), (0, count - 1, 1)])


def _sums(weights: Node) -> Node:
    """The sums of the weights up to each category."""
    return build.scan("add", weights, weights.rank - 1, name="random")


def _below(shape: Shape, sums: Node, key: Any, name: str) -> Node:
    """1 where a random share of the whole is below the sum up to a category, of shape (*shape, categories).

    52 bits: a share of the whole is always below the whole, so that a category without weight never comes up.
    """
    words = draws.joined(*generator.draw_words(shape, key, name))
    leading = build.binary("shr", words, build.const(12, dtypes.uint64))
    unit = build.scale(build.cast(leading, dtypes.float64), 2.0**-52)
    *others, count = sums.shape
    sums = build.reshape(sums, (*others, 1, count))
    whole = build.slice_(sums, [*((0, size, 1) for size in sums.shape[:-1]), (count - 1, 1, 1)])
    return build.cast(build.lt(build.mul(build.reshape(unit, (*shape, 1)), whole), sums), dtypes.int64)


# --- orders and elements


def permutation(x: int | TensorLike, *, axis: int = 0, key: Tensor | None = None) -> Tensor:
    """The numbers below `x` in random order, or a tensor with its parts along an axis in random order.

    >>> sorted(sm.random.permutation(4).tolist())
    [0, 1, 2, 3]
    """
    if not isinstance(x, Handle) and not hasattr(x, "__len__"):
        count = _count(x, "permutation")
        return wrap(_order(count, count, key, "permutation"))
    node = node_of(x, "permutation")
    at = _part_axis(node, axis, "permutation")
    return wrap(_taken(node, _order(node.shape[at], None, key, "permutation"), at))


def choice(
    a: int | TensorLike,
    shape: ShapeLike = (),
    *,
    replace: bool = True,
    p: TensorLike | None = None,
    axis: int = 0,
    key: Tensor | None = None,
) -> Tensor:
    """Numbers below `a`, or parts of the tensor `a` along an axis, each equally likely or with weights `p`.

    Without `replace` no place is chosen twice.

    >>> sm.random.choice(sm.asarray([5, 6, 7]), (2,), replace=False).shape
    (2,)
    """
    name = "choice"
    tensor = isinstance(a, Handle) or hasattr(a, "__len__")
    node = node_of(a, name) if tensor else None
    at = 0 if node is None else _part_axis(node, axis, name)
    count = _count(a, name) if node is None else node.shape[at]
    size = as_shape(shape, name)
    weights = None if p is None else build.cast(floating(p, name), dtypes.float64)
    if weights is not None and weights.shape != (count,):
        raise ShapeError(
            f"choice: p has shape {shape_text(weights.shape)} for {count} choices", rule="there is one p per choice."
        )
    wanted = product_of(size)
    if count == 0 and wanted != 0:
        raise ArgumentError("choice: there is nothing to choose from")
    if flag(replace, name, "replace"):
        places = _places(count, size, weights, key)
    else:
        if not isinstance(wanted, int) or not isinstance(count, int) or wanted > count:
            raise ArgumentError(
                f"choice: {wanted} of {count} without replacement", rule="there must be as many choices as are wanted."
            )
        places = build.reshape(_order(count, wanted, key, name, weights), size)
    return wrap(places if node is None else _taken(node, places, at))


def _count(value: Any, name: str) -> int:
    count = integer(value, name, "the number of choices")
    if count < 0:
        raise ArgumentError(f"{name}: the number of choices must not be negative, got {count}")
    return count


def _part_axis(node: Node, axis: int, name: str) -> int:
    if node.rank == 0:
        raise ShapeError(f"{name}: a scalar tensor has no parts", hint="Pass a Python integer for numbers below it.")
    return normalized_axis(axis, node.rank, name)


def _places(count: IndexLike, size: Shape, weights: Node | None, key: Any) -> Node:
    """Independent places below `count`."""
    if weights is not None:
        # The place is the number of sums that a random share of the whole is not below.
        line = size if size else (1,)
        below = _below(line, build.broadcast_to(_sums(weights), (*line[:-1], count)), key, "choice")
        found = build.reduce("add", build.sub(build.const(1, dtypes.int64), below), (below.rank - 1,))
        return build.minimum(build.reshape(found, size), build.shift(build.size_node(count, dtypes.int64), -1))
    if upper(count) > 2**32:
        raise ArgumentError(f"choice: there are {count} choices", rule="one word chooses from at most 2**32.")
    a, _ = generator.draw_words(size, key, "choice")
    product = build.mul(build.cast(a, dtypes.uint64), build.size_node(count, dtypes.uint64))
    return build.cast(build.binary("shr", product, build.const(32, dtypes.uint64)), dtypes.int64)


def _order(count: IndexLike, wanted: int | None, key: Any, name: str, weights: Node | None = None) -> Node:
    """The first places of a random order: that of random words, or of logarithms of weights plus Gumbel noise."""
    if weights is None:
        words = draws.joined(*generator.draw_words((count,), key, name))
        return build.sort(words, 0, indices=True, count=wanted, name=name)
    noise = generator.draw("gumbel", dtypes.float64, (count,), key, name)
    scores = build.add(build.log(weights), noise)
    return build.sort(scores, 0, descending=True, indices=True, count=wanted, name=name)


def _taken(node: Node, places: Node, axis: int) -> Node:
    """The parts of a node at places along an axis, whose axes take its place."""
    before, after = node.shape[:axis], node.shape[axis + 1 :]
    shape = (*before, *places.shape, *after)
    index = build.reshape(places, (*(1 for _ in before), *places.shape, *(1 for _ in after)))
    shifted = len(before) + places.rank
    axes = [*range(axis), -1, *range(shifted, shifted + len(after))]
    return build.gather(node, [build.broadcast_to(index, shape)], axes, shape)
