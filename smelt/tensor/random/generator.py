"""The random generator as functions use it: a draw under a key, or the next one of the global sequence.

Element i of draw d under a key is threefry(key, (i, d)), two words of 32 bits, so a number depends only on its key, its
draw and its place, never on what ran before or how many threads there are. Distributions that need more words take
several draws in a row: with a key the draws 0, 1, 2, …, without one the next ones of the global sequence.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt import dtypes, runtime
from smelt.dtypes import DType
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Node, Shape, build, draws, product_of, shape_text, upper
from smelt.tensor.handle import node_of


def key_node(key: Any, name: str) -> Node:
    """The node of a key."""
    node = node_of(key, name)
    if node.dtype is not dtypes.uint32 or node.shape != (2,):
        raise ArgumentError(
            f"{name}: a key is {node.dtype}{shape_text(node.shape)}",
            rule="it must be uint32 of shape (2,).",
            hint="Make one with sm.random.key(0), or take a row of sm.random.split(key).",
        )
    return node


def draw(kind: str, dtype: DType, shape: Shape, key: Any, name: str, factor: float = 1.0, summand: float = 0.0) -> Node:
    """One draw of a standard distribution, one of `draws.KINDS`, times a number plus another one."""
    return draw_each(kind, dtype, [shape], key, name, factor, summand)[0]


def draw_each(
    kind: str, dtype: DType, shapes: Sequence[Shape], key: Any, name: str, factor: float = 1.0, summand: float = 0.0
) -> list[Node]:
    """A draw for each of several shapes: the numbers that as many draws in a row would give, out of one state."""
    affine = (factor, summand) if summand else (factor,) if factor != 1 else ()
    scalars = [build.const(value, dtype) for value in affine]
    state, first = _state(key, name, len(shapes))
    flat = [draws.numbers(kind, dtype, first + k, state, _places(s, name), *scalars) for k, s in enumerate(shapes)]
    return [build.reshape(node, shape) for node, shape in zip(flat, shapes, strict=True)]


def draw_words(shape: Shape, key: Any, name: str, count: int | None = None, *, start: int = 0) -> tuple[Node, Node]:
    """Both words of every element of a draw; with `count`, of as many draws along a new first axis.

    A distribution that asks more than once says with `start` how many draws it has had, which counts with a key.
    """
    x = _places(shape, name)
    state, first = _state(key, name, count or 1, start)
    y = draws.word(first)
    if count is not None:
        y = build.add(build.reshape(build.iota(count, dtypes.uint32), (count, 1)), y)
        shape = (count, *shape)
    a, b = draws.words(state, x, y)
    return build.reshape(a, shape), build.reshape(b, shape)


def _state(key: Any, name: str, count: int, start: int = 0) -> tuple[Node, int]:
    """The key of the next draws, and the number of the first."""
    return runtime.take_random(count) if key is None else (key_node(key, name), start)


def _places(shape: Shape, name: str) -> Node:
    """The numbers of the elements."""
    elements = product_of(shape)
    if upper(elements) > 2**32:
        raise ShapeError(f"{name}: shape {shape_text(shape)} has more than 2**32 elements", hint="Make several draws.")
    return build.iota(elements, dtypes.uint32)
