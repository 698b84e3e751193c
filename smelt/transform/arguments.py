"""What transforms share: functions made from others, and arguments as trees of tensors to differentiate by."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from smelt import runtime, tree
from smelt.derive.custom import Variable
from smelt.errors import ArgumentError
from smelt.graph.alias import alias
from smelt.graph.node import Node
from smelt.tensor import Tensor, wrap
from smelt.tensor.derivatives import float_node


class Derived:
    """A function made from another one, which is `__wrapped__`: `jit` finds there which tensors it reaches."""

    def __init__(self, function: Callable[..., Any], call: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self._call = call

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)


class Variables(NamedTuple):
    """A tree whose leaves are variables of their own, and the nodes of these."""

    tree: Any
    nodes: list[Node]
    structure: tree.Structure

    def like(self, values: Sequence[Node]) -> Any:
        """A tree of the same structure with other values."""
        return tree.unflatten(self.structure, [wrap(value) for value in values])


def variables(value: Any, name: str, what: str) -> Variables:
    """Stand-ins for a tree of float tensors, told apart from everything that the function reaches otherwise."""
    leaves, structure = tree.flatten(value)
    nodes = [alias(float_node(leaf, name, what), Variable()) for leaf in leaves]
    return Variables(tree.unflatten(structure, [wrap(node) for node in nodes]), nodes, structure)


def function_of(value: Any, name: str) -> Callable[..., Any]:
    """What a transform is applied to."""
    if not callable(value):
        raise ArgumentError(f"{name}: {value!r:.80} is not a function")
    return value  # type: ignore[no-any-return]


def positions(argnums: int | Sequence[int], count: int, name: str) -> list[int]:
    """Argument numbers, counted from the front."""
    wanted = [argnums] if isinstance(argnums, int) else list(argnums)
    for number in wanted:
        if isinstance(number, bool) or not isinstance(number, int) or not -count <= number < count:
            raise ArgumentError(
                f"{name}: there is no positional argument {number!r}",
                rule=f"the function was called with {count}.",
                hint="Pass the arguments to differentiate by in order, not by name.",
            )
    places = [number % count for number in wanted]
    if len(set(places)) != len(places):
        raise ArgumentError(f"{name}: argnums names an argument twice: {argnums}")
    return places


def tensor_nodes(value: Any, name: str, what: str) -> tuple[list[Node], tree.Structure]:
    """The nodes of a tree of tensors that a function returned."""
    leaves, structure = tree.flatten(value)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ArgumentError(
                f"{name}: {what} has a leaf of type {type(leaf).__name__}", rule="all leaves must be tensors."
            )
    return [leaf._node for leaf in leaves], structure


def called(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A function's result; tensors made inside keep their history, whatever it reads."""
    with runtime.transforming():
        return function(*args, **kwargs)
