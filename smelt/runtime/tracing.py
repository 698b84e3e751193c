"""Traces: what a function does to stand-ins for its arguments, recorded once and replayed later."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from smelt.dtypes import DType, uint32
from smelt.graph.index import IndexLike
from smelt.graph.node import Node, Shape, make
from smelt.graph.ops import Op


@dataclass(eq=False, slots=True)
class Placeholder:
    """The attribute of a leaf that stands for an argument."""

    dtype: DType
    shape: Shape
    strides: tuple[IndexLike, ...]
    weak: bool = False  # a Python number: takes the dtype of what it meets

    def node(self) -> Node:
        return make(Op.LEAF, self.dtype, self.shape, (), self)


@dataclass(eq=False)
class Trace:
    """One function being traced. `draws` counts the random draws that it made."""

    random: Placeholder = field(default_factory=lambda: Placeholder(uint32, (3,), (1,)))
    random_node: Node | None = None
    draws: int = 0

    def take_random(self) -> tuple[Node, int]:
        if self.random_node is None:
            self.random_node = self.random.node()
        self.draws += 1
        return self.random_node, self.draws - 1


def is_weak(node: Node) -> bool:
    """Whether a traced scalar comes from Python numbers alone."""
    if node.shape != ():
        return False
    if node.op is Op.LEAF:
        return isinstance(node.attribute, Placeholder) and node.attribute.weak
    if node.op is Op.CONST:
        return True
    return node.op in (Op.UNARY, Op.BINARY) and all(is_weak(source) for source in node.sources)


class _Stack(threading.local):
    def __init__(self) -> None:
        self.traces: list[Trace] = []


_stack = _Stack()


def current_trace() -> Trace | None:
    """The innermost trace of this thread."""
    return _stack.traces[-1] if _stack.traces else None


def is_tracing() -> bool:
    return bool(_stack.traces)


@contextmanager
def tracing() -> Iterator[Trace]:
    """Everything inside is recorded, not computed."""
    trace = Trace()
    _stack.traces.append(trace)
    try:
        yield trace
    finally:
        _stack.traces.pop()
