"""A function of tensors as a graph to be written down: leaves for its arguments and for what it reads besides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from smelt import runtime, tree
from smelt.compiler import Argument
from smelt.errors import ArgumentError
from smelt.graph import Node, Op, make, private_nodes, row_major, substituted, topological, without_aliases
from smelt.runtime import Storage
from smelt.tensor import Tensor, asarray, wrap
from smelt.transform import stand_in


class Written(NamedTuple):
    """Leaves for a function's arguments, leaves for the tensors that it reads besides with where they lie, and its
    results.
    """

    arguments: list[Node]
    captured: dict[Node, Storage]
    roots: list[Node]

    @property
    def tensors(self) -> list[Tensor]:
        """What it reads besides, in the order of the leaves."""
        return [wrap(runtime.leaf(storage)) for storage in self.captured.values()]


def written(function: Callable[..., Any], *args: Any) -> Written:
    """The graph of a function for arguments like these: tensors, or trees of tensors. What else is among them, is part
    of the function.
    """
    if not callable(function):
        raise ArgumentError(f"{function!r:.80} is not a function", hint="Give what computes: lambda x: x + 1.")
    name = getattr(function, "__name__", "main")
    with runtime.tracing() as recorded, private_nodes():
        arguments: list[Node] = []

        def replaced(value: Any) -> Any:
            if hasattr(value, "__array__") and not isinstance(value, Tensor):
                value = asarray(value)
            if not isinstance(value, Tensor):
                return value
            arguments.append(stand_in(value.dtype, value.shape))
            return wrap(arguments[-1])

        given = [tree.map(replaced, arg) for arg in args]
        parts = tree.flatten(function(*given))[0]
        roots = without_aliases([part._node for part in parts if isinstance(part, Tensor)])
        if recorded.random_node is not None or recorded.effects:
            does = "draws random numbers" if recorded.random_node is not None else "calls Python"
            raise ArgumentError(f"{name} {does}", rule="what is written down computes the same at every call.")
        return Written(*_renamed(arguments, roots))


def _renamed(arguments: list[Node], roots: list[Node]) -> tuple[list[Node], dict[Node, Storage], list[Node]]:
    """The graph with leaves of its own, which the compiler knows as inputs."""
    new: dict[Node, Node] = {}
    captured: dict[Node, Storage] = {}

    def leaf(node: Node) -> Node:
        argument = Argument("input", len(new), row_major(node.shape))
        return new.setdefault(node, make(Op.LEAF, node.dtype, node.shape, (), argument))

    for node in arguments:
        leaf(node)
    for node in topological(roots):
        if node not in new and (node.op is Op.LEAF or node.leaf is not None):
            captured[leaf(node)] = (node.leaf or node).attribute
    return [new[node] for node in arguments], captured, substituted(roots, new)
