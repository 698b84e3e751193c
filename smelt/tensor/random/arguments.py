"""The parameters of distributions: numbers are checked at the call, tensors broadcast; and the shape of a draw."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import Index, Node, Shape, build, shape_text
from smelt.tensor.arguments import as_shape, real_number
from smelt.tensor.handle import node_of
from smelt.tensor.types import DTypeLike

P = ParamSpec("P")
T = TypeVar("T")

# What a parameter may have to be: the word for messages, and the test of a number.
Rule = tuple[str, Callable[[float], bool]]
POSITIVE: Rule = ("positive", lambda value: value > 0)
NOT_NEGATIVE: Rule = ("at least 0", lambda value: value >= 0)
PROBABILITY: Rule = ("from 0 to 1", lambda value: 0 <= value <= 1)
NUMBER: Rule = ("a number, not NaN", lambda value: not math.isnan(value))


def shape_first(draw: Callable[P, T]) -> Callable[P, T]:
    """A draw whose first argument is a shape, and those after it are parameters. `normal(2, 3)` is refused: it may mean
    two sizes, as `zeros(2, 3)` does.
    """

    @functools.wraps(draw)
    def checked(*args: P.args, **kwargs: P.kwargs) -> T:
        if len(args) > 1 and _is_size(args[0]) and _is_size(args[1]):
            name, (size, number) = draw.__name__, args[:2]
            raise ArgumentError(
                f"{name}: are {size} and {number} two sizes?",
                rule="the shape is the first argument, and what follows it are parameters.",
                hint=f"Write {name}(({size}, {number})) for a shape, and {name}(({size},), {number}) for a parameter.",
            )
        return draw(*args, **kwargs)

    return checked


def _is_size(value: object) -> bool:
    return isinstance(value, int | np.integer | Index) and not isinstance(value, bool)


def is_number(value: Any) -> bool:
    """True for what is known at the call: Python and NumPy numbers."""
    return isinstance(value, bool | int | float | np.bool_ | np.integer | np.floating)


def checked_number(value: Any, name: str, what: str, rule: Rule = NUMBER) -> float:
    """A parameter that is known at the call, as a float that follows the rule."""
    found = float(real_number(value, name, what))
    word, holds = rule
    if not holds(found):
        raise ArgumentError(f"{name}: {what} must be {word}, got {value}")
    return found


def parameter(value: Any, dtype: DType, name: str, what: str, rule: Rule = NUMBER) -> Node:
    """A parameter as a node of the dtype in which the draw is computed. A number must follow the rule, and so must the
    numbers of a list; tensors are not looked at.
    """
    if is_number(value):
        return build.const(checked_number(value, name, what, rule), dtype)
    if isinstance(value, list | tuple):
        for number in filter(is_number, value):
            checked_number(number, name, what, rule)
    node = node_of(value, name)
    if node.dtype.is_bool:
        raise DTypeError(
            f"{name}: {what} is a bool tensor", hint="Cast it first, for example with x.astype(sm.float32)."
        )
    return build.cast(node, dtype)


def check_order(low: Any, high: Any, name: str, words: tuple[str, str]) -> None:
    """Two numbers must be in order; tensors are not looked at."""
    if is_number(low) and is_number(high) and not low < high:
        raise ArgumentError(f"{name}: {words[0]} is {low} and {words[1]} is {high}", rule=f"{words[0]} must be less.")


def draw_shape(shape: Any, parameters: Sequence[Node], name: str) -> Shape:
    """The shape asked for, to which the parameters must broadcast; without one, what they broadcast to together."""
    together: Shape = ()
    for node in parameters:
        together = build.broadcast_shapes(together, node.shape, name)
    if shape is None:
        return together
    wanted = as_shape(shape, name)
    if together and build.broadcast_shapes(together, wanted, name) != wanted:
        raise ShapeError(
            f"{name}: parameters of shape {shape_text(together)} do not broadcast to {shape_text(wanted)}",
            rule="each element of the result has one value of every parameter.",
            hint="Put the sizes of a sample before those of the parameters.",
        )
    return wanted


def float_dtype(dtype: DTypeLike, name: str) -> DType:
    """A dtype that must be one of the floats that smelt computes with."""
    wanted = as_dtype(dtype, name)
    if wanted not in dtypes.FLOATS:
        raise DTypeError(f"{name}: the dtype must be a float, got {wanted}")
    return wanted
