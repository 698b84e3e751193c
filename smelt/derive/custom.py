"""What aliases say about derivatives: variables, values that count as constants, and functions with gradients of their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from smelt.dtypes import DType
from smelt.graph import Node, Shape, alias, parameter


class Variable:
    """A value to differentiate by, told apart from equal ones."""

    __slots__ = ()


def stand_in(dtype: DType, shape: Shape) -> Node:
    """A node of a type that is nothing else, and of whose value nothing is known."""
    return alias(parameter(0, dtype, shape), Variable())


class Stopped:
    """A value that counts as a constant."""

    __slots__ = ()


_STOPPED = Stopped()


def stopped(node: Node) -> Node:
    """A node with the same value, which counts as a constant."""
    return alias(node, _STOPPED)


PullBack = Callable[[Mapping[int, Node], Sequence[Node], Sequence[bool]], list[Node | None]]
PushForward = Callable[[Sequence[Node | None], Sequence[Node]], list[Node | None]]


@dataclass(frozen=True, eq=False, slots=True)
class Call:
    """One call of a function with its own way back: from cotangents of its results, by number, and the further sources
    of its aliases, to the cotangents of these, of which some are wanted. It reads nothing else: in a loop or a branch
    those are other nodes than where the function was called. So does its way forward, from the tangents of those
    sources to those of all results. Where it `changes_as_computed`, the tangents are those of what it computes.
    """

    pull_back: PullBack
    push_forward: PushForward | None = None
    changes_as_computed: bool = False


@dataclass(frozen=True, slots=True)
class Custom:
    """Result `number` of a call. All results of one call have the same sources after the first."""

    call: Call
    number: int
