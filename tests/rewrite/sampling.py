"""Inputs for graphs made of leaves, and the comparison of results before and after rewriting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from smelt.dtypes import DType
from smelt.graph.interpret import interpret
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.graph.shapes import dims_of

Array = NDArray[Any]
DIM_VALUE = 5


def sample(dtype: DType, shape: tuple[int, ...], rng: np.random.Generator, special: bool) -> Array:
    """Random values; if `special`, with NaN, infinities, signed zeros and the ends of the range among them."""
    size = int(np.prod(shape))
    if dtype.is_bool:
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        low, high = (int(dtype.minimum), int(dtype.maximum)) if special else (0 if not dtype.is_signed else -3, 3)
        values = rng.integers(low, high, shape, dtype=dtype.numpy, endpoint=True).reshape(-1)
        ends: list[float] = [low, high, 0, 1, high - 1]
    else:
        values = rng.normal(0, 1, size).astype(dtype.numpy)
        ends = [np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, float(dtype.maximum), 1e-45, 2.5]
    if special and size:
        places = rng.permutation(size)[: max(1, size * 2 // 3)]
        picked = rng.permutation(len(ends))
        for at, place in enumerate(places):
            with np.errstate(all="ignore"):
                values[place] = np.asarray(ends[picked[at % len(ends)]]).astype(dtype.numpy)
    return values.reshape(shape)


def run(roots: Sequence[Node], leaves: dict[Node, Array], dim: int = DIM_VALUE) -> list[Array]:
    """The results of the reference interpreter, with every dim at one value, or the least that it may have."""
    return interpret(roots, leaves, _values(topological(roots), dim))


def _values(nodes: Sequence[Node], dim: int) -> dict[str, int]:
    return {name: max(dim, variable.low) for name, variable in dims_of(nodes).items()}


def sizes(node: Node, dim: int = DIM_VALUE) -> tuple[int, ...]:
    """The shape with every dim at one value."""
    values = _values([node], dim)
    return tuple(size if isinstance(size, int) else size.evaluate(values) for size in node.shape)


def inputs(roots: Sequence[Node], seed: int, special: bool, dim: int = DIM_VALUE) -> dict[Node, Array]:
    """A value for every leaf."""
    rng = np.random.default_rng(seed)
    leaves = [node for node in topological(roots) if node.op is Op.LEAF]
    return {node: sample(node.dtype, sizes(node, dim), rng, special) for node in leaves}


def identical(a: Array, b: Array) -> bool:
    """The same dtype, shape and bits; any NaN equals any other."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype.kind in "biu":
        return bool(np.array_equal(a, b))
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    same = (wide_a == wide_b) & (np.signbit(wide_a) == np.signbit(wide_b))
    return bool(np.all(same | (np.isnan(wide_a) & np.isnan(wide_b))))


def any_order(node: Node) -> bool:
    """Whether a rule that only takes sums in another order must keep every bit of a node."""
    return not node.dtype.is_float or (node.op is Op.REDUCE and node.attribute.op in ("max", "min"))


TOLERANCE = {1: 0.0, 2: 4e-2, 4: 1e-5, 8: 1e-13}


def close(a: Array, b: Array) -> bool:
    """Equal up to the rounding of a few sums in the dtype; integers and bools exactly."""
    if a.dtype.kind in "biu":
        return identical(a, b)
    tolerance = TOLERANCE[a.dtype.itemsize]
    return a.dtype == b.dtype and bool(
        np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance, equal_nan=True)
    )
