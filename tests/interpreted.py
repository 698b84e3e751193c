"""What tensors should be by the reference interpreter: values to compare with that need no compiler."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

import smelt as sm
from smelt import tree
from smelt.graph.interpret import interpret


def interpreted(value: Any) -> list[NDArray[Any]]:
    """The arrays of all tensors and numbers in a value, in the order of its leaves."""
    nodes = [sm.asarray(leaf)._node for leaf in tree.flatten(value)[0]]
    return interpret(nodes, lambda leaf: leaf.attribute.numpy())


def settled(value: Any) -> Any:
    """The same with tensors that are there already: what drew or computed them is not compiled with what follows."""
    structure = tree.flatten(value)[1]
    return tree.unflatten(structure, [sm.asarray(array, copy=True) for array in interpreted(value)])
