"""`nans`: every operation is computed and looked at as it is written, so that the first NaN is met at its line.

Inside the block functions run without `jit`, and values come from the reference interpreter. A NaN that shows in a
tensor is followed back through the nodes that were computed for it, to the first; the user's line is that of the node
it became part of, or for a gradient that of the operation which it is a gradient of.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from smelt import runtime
from smelt.errors import Location, NaNError, is_own, user_location
from smelt.graph import CONTROL, Node, Op, Origins, checks_of, noting, shape_text, shown, topological
from smelt.graph.interpret import interpret
from smelt.runtime import Storage
from smelt.tensor import Tensor, observe


@contextlib.contextmanager
def nans() -> Iterator[None]:
    """Inside the block, the operation that first makes a NaN raises `NaNError`, with its line.

    Everything runs operation by operation, also what `jit` would compile, and is slower for it. Gradients name the
    operation that they are a gradient of.

    >>> with sm.debug.nans():
    ...     y = sm.sqrt(sm.asarray([4.0, -1.0]))
    Traceback (most recent call last):
    smelt.errors.NaNError: sqrt made a NaN: 1 of 2 values...
    """
    with noting() as origins, runtime.transforming(watched=True):
        observe(_Observer(origins, runtime.transform_depth(), threading.get_ident()))
        try:
            yield
        finally:
            observe(None)


class _Written(NamedTuple):
    """Which function a user called, and where."""

    name: str
    location: Location | None


class _Observer:
    """Computes each tensor that the thread makes, and looks at it."""

    def __init__(self, origins: Origins, depth: int, thread: int) -> None:
        self.origins, self.depth, self.thread = origins, depth, thread
        self.written: weakref.WeakKeyDictionary[Node, _Written] = weakref.WeakKeyDictionary()

    def __call__(self, tensor: Tensor) -> None:
        node = tensor._node
        known = node.op in (Op.LEAF, Op.ALIAS) or node.leaf is not None  # an alias: what a function is derived by
        if known or _is_plain(node) or threading.get_ident() != self.thread:
            return
        self.written.setdefault(node, _Written(_function(), user_location()))
        if runtime.is_traced(node):  # part of a body, or of what is batched: looked at when that is computed
            return
        values = _Values()
        checks = checks_of(topological([node]))
        array, *found = interpret([node, *checks], lambda leaf: leaf.attribute.numpy(), observer=values)
        for check, worst in zip(checks.values(), found, strict=True):
            check.report(int(worst))
        if node in values.nan:
            self._report(values.begin(node, values.nan), values, array)
        node.leaf = runtime.leaf(Storage.of(np.asarray(array, order="C"), copy=True))
        if runtime.transform_depth() == self.depth:  # nobody differentiates: history has served
            tensor._node = node.leaf

    def _report(self, maker: Node, values: _Values, array: Any) -> None:
        if maker.op is Op.CONST:
            return  # the user wrote it
        written, how = self._where(maker, values)
        count = f"{int(np.isnan(_wide(array)).sum())} of {array.size} values"
        if maker.op is Op.LEAF or maker.leaf is not None:
            raise NaNError(
                f"{written.name}: an operand holds a NaN already, which {count} of the result became",
                hint="Look for it where the data come from: sm.isnan(x).any(), or np.isnan before they become tensors.",
                location=written.location,
            )
        here = user_location()
        elsewhere = f"\nasked for at {here}" if here is not None and here != written.location else ""
        raise NaNError(
            f"{how}{written.name} made a NaN: {count}",
            rule=f"the first is made by {_described(maker)}.{elsewhere}",
            hint=self._infinite(maker, values),
            location=written.location,
        )

    def _infinite(self, maker: Node, values: _Values) -> str:
        """Where the infinities come from that a NaN was made of."""
        source = next((source for source in values.read[maker] if source in values.infinite), None)
        if source is None:
            return ""
        first = values.begin(source, values.infinite)
        if first.op is Op.LEAF or first.leaf is not None:
            return "An operand is infinite."
        written, how = self._where(first, values)
        return f"An operand is infinite, first in {how}{written.name} at {written.location}."

    def _where(self, maker: Node, values: _Values) -> tuple[_Written, str]:
        """The user's call that a node belongs to, and what it is to that call."""
        for node in values.following(maker):
            how = ""
            while node in self.origins:
                node, step = self.origins[node]
                how = how or step
            if node in self.written:
                return self.written[node], f"the {how}" if how else ""
        return _Written(_function(), user_location()), ""


class _Values:
    """What one evaluation has met: which nodes are NaN or infinite somewhere, and what they read."""

    def __init__(self) -> None:
        self.nan: set[Node] = set()
        self.infinite: set[Node] = set()
        self.read: dict[Node, tuple[Node, ...]] = {}
        self.makers: dict[Node, Node] = {}  # for loops and branches: what first made a NaN in a body
        self._inside: Node | None = None

    def __call__(self, node: Node, value: Any, read: tuple[Node, ...], inside: bool) -> None:
        self.read[node] = read
        parts = value if isinstance(value, list) else [value]
        for found, test in ((self.nan, np.isnan), (self.infinite, np.isinf)):
            # A node of a body is met in every iteration, and tells of the last.
            (found.add if any(_some(part, test) for part in parts) else found.discard)(node)
        if inside:
            passes_on = node.op is Op.PARAMETER or not self.nan.isdisjoint(read)
            if node in self.nan and not passes_on and self._inside is None:
                self._inside = node
        elif node.op in CONTROL and self._inside is not None:
            self.makers[node] = self._inside
            self._inside = None

    def begin(self, node: Node, found: set[Node]) -> Node:
        """The node at which what was found in this one begins."""
        while True:
            before = next((source for source in self.read[node] if source in found), None)
            if before is None:
                return self.makers.get(node, node)
            node = before

    def following(self, maker: Node) -> Iterator[Node]:
        """A node, and what depends on it, in order."""
        reached = {maker}
        for node, read in self.read.items():
            if node in reached or self.makers.get(node) is maker or not reached.isdisjoint(read):
                reached.add(node)
                yield node


def _is_plain(node: Node) -> bool:
    return shown(node).op in (Op.CONST, Op.IOTA)


def _wide(array: Any) -> Any:
    return array.astype(np.float32) if array.dtype.kind == "V" else array


def _some(array: Any, test: np.ufunc) -> bool:
    return array.dtype.kind in "fV" and bool(test(_wide(array)).any())


def _described(node: Node) -> str:
    sources = ", ".join(f"{source.dtype}{shape_text(source.shape)}" for source in node.sources)
    name = node.attribute if isinstance(node.attribute, str) else getattr(node.attribute, "name", node.op.value)
    return f"`{name}` of {sources}" if sources else f"`{name}`"


_AROUND = frozenset({"called", "called_with"})  # functions around what was called, besides those inside of others


def _function() -> str:
    """The function or layer of smelt's that the user's line calls."""
    frame, name = sys._getframe(2), "an operation"
    while frame is not None and is_own(frame.f_code.co_filename):
        called = frame.f_code.co_name
        if called == "__call__":
            layer = frame.f_locals.get("self")
            name = getattr(layer, "__name__", type(layer).__name__)
        elif called.isidentifier() and not called.startswith("_") and "<locals>" not in frame.f_code.co_qualname:
            name = name if called in _AROUND else called
        frame = frame.f_back  # type: ignore[assignment]
    return name
