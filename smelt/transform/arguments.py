"""What transforms share: functions made from others, and arguments as trees of tensors to differentiate by."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import numpy as np

from smelt import runtime, tree
from smelt.derive import Variable
from smelt.errors import ArgumentError
from smelt.graph import Node, alias, build
from smelt.tensor import Tensor, asarray, conjugated, wrap
from smelt.tensor.derivatives import float_node
from smelt.transform.attributes import attributes_of, hand_over

P = ParamSpec("P")
R = TypeVar("R")


class Derived(Generic[P, R]):
    """A function made from another one, which is `__wrapped__`: `jit` finds there which tensors it reaches."""

    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[..., Any], call: Callable[..., Any], name: str) -> None:
        functools.update_wrapper(self, function, updated=())
        self._call, self._name = call, name

    def __repr__(self) -> str:
        return f"{self._name}({function_name(self.__wrapped__)})"

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        result: R = self._call(*args, **kwargs)
        return result


class Variables(NamedTuple):
    """A tree whose leaves are variables of their own, and the nodes of these; where a tree has constants among its
    leaves, as modules have, `constants` are their nodes, and None stands for a variable.
    """

    tree: Any
    nodes: list[Node]
    structure: tree.Structure
    constants: list[Node | None]

    @property
    def every(self) -> list[Node]:
        """The nodes of all leaves."""
        rest = iter(self.nodes)
        return [next(rest) if constant is None else constant for constant in self.constants]

    def like(self, values: Sequence[Node]) -> Any:
        """A tree of the same structure with gradients, and zeros for constants."""
        rest = iter(values)
        found = [next(rest) if x is None else build.const(0, x.dtype, x.shape) for x in self.constants]
        gradients = [wrap(value) for value in conjugated(self.structure, found)]
        for gradient in gradients:
            gradient._known_as = "gradient"
        return tree.unflatten(self.structure, gradients)


def flattened(value: Any) -> tuple[list[Any], tree.Structure]:
    """The leaves of a tree and its structure, with other libraries' complex arrays as tensors: two leaves each."""
    leaves, structure = tree.flatten(value)
    if any(map(_is_complex_array, leaves)):
        tensors = [asarray(leaf) if _is_complex_array(leaf) else leaf for leaf in leaves]
        return tree.flatten(tree.unflatten(structure, tensors))
    return leaves, structure


def _is_complex_array(leaf: Any) -> bool:
    array = not isinstance(leaf, Tensor | np.generic) and hasattr(leaf, "dtype")
    return array and "complex" in str(leaf.dtype)


def variables(value: Any, name: str, what: str) -> Variables:
    """Stand-ins for a tree of float tensors, told apart from everything that the function reaches otherwise."""
    leaves, structure = flattened(value)
    constants: list[Node | None] = [None] * len(leaves)
    if structure.kind is not None:
        for k, fixed in enumerate(tree.fixed(structure)):
            constants[k] = leaves[k]._node if fixed else None
    nodes: list[Node] = []
    for k, leaf in enumerate(leaves):
        if constants[k] is None:
            nodes.append(alias(float_node(leaf, name, what), Variable()))
            leaves[k] = wrap(nodes[-1])
    return Variables(tree.unflatten(structure, leaves), nodes, structure, constants)


def function_of(value: Any, name: str, hint: str = "") -> Callable[..., Any]:
    """What a transform is applied to."""
    if not callable(value):
        raise ArgumentError(f"{name}: {value!r:.80} is not a function", hint=hint)
    return value  # type: ignore[no-any-return]


def function_name(function: Any) -> str:
    """What a function is called; of an object that is one, what it shows of itself."""
    plain = isinstance(function, types.FunctionType | types.MethodType | types.BuiltinFunctionType)
    return function.__qualname__ if plain else f"{function!r:.200}"


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


def called_with(
    function: Callable[..., Any], args: Sequence[Any], stand_ins: Mapping[int, Variables], kwargs: Mapping[str, Any]
) -> Any:
    """A function's result with variables in the place of some arguments. What it sets in these, modules with running
    means, is set in the arguments as well.
    """
    replaced = [stand_ins[k].tree if k in stand_ins else value for k, value in enumerate(args)]
    before = {k: attributes_of(tree.holders(one.tree)) for k, one in stand_ins.items()}
    with runtime.transforming([node for one in stand_ins.values() for node in one.nodes]):
        result = function(*replaced, **kwargs)
    for k, one in stand_ins.items():
        hand_over(tree.holders(one.tree), before[k], tree.holders(args[k]))
    return result
