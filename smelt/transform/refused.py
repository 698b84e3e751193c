"""What a trace must not give or read, since later calls could not do it again."""

from __future__ import annotations

import inspect
from collections.abc import Container, Sequence
from typing import Any

from smelt import runtime
from smelt.errors import TraceError
from smelt.graph import Node, Op, shape_text
from smelt.runtime import Placeholder, Storage
from smelt.tensor import Tensor
from smelt.transform.marks import is_used_up


def check_results(results: Sequence[Any]) -> None:
    """Refuse results that later calls could not give."""
    for result in results:
        if isinstance(result, Tensor):
            continue
        kind = type(result).__name__
        if inspect.iscoroutine(result):
            result.close()  # nobody will wait for it
        if is_used_up(result) or inspect.isawaitable(result) or inspect.isasyncgen(result):
            raise TraceError(
                f"jit: the function gives a {kind}, which can be used only once",
                rule="a function is traced once: all its calls would give the same one.",
                hint="Return a list or a tuple." if is_used_up(result) else "Compile a function that is not async.",
            )
        items = list(getattr(result, "__dict__", {}).values())
        items += result if isinstance(result, list | tuple | set) else ()
        items += result.values() if isinstance(result, dict) else ()
        if any(isinstance(item, Tensor) and runtime.is_traced(item._node) for item in items):
            raise TraceError(
                f"jit: the function gives a {kind} that holds tensors",
                rule="results are tensors, or trees of them: tuples, lists, dictionaries, dataclasses, modules.",
                hint="Return one of these, or make the class one with @sm.tree.register.",
            )


def check_nodes(order: Sequence[Node], outside: Container[Node]) -> None:
    """Refuse tensors without a value that are read in a way that jit cannot follow: new ones would not be seen."""
    for node in reversed(order):
        if node.op is not Op.LEAF and node in outside:
            raise unknown_tensor(node)


def left_behind(stand_in: Placeholder) -> TraceError:
    """The error for what the body of a loop or branch has put elsewhere."""
    return TraceError(
        f"jit: a {stand_in.dtype} tensor has no value: it is what a loop, a branch or vmap left in an object",
        rule="their functions run once, on stand-ins.",
        hint="Return the tensor from the function, or carry it in the state of the loop.",
    )


def unknown_tensor(tensor: Storage | Node) -> TraceError:
    """The error for a tensor that is read in a way that jit cannot follow."""
    return TraceError(
        f"jit: the function reads a tensor {tensor.dtype}{shape_text(tensor.shape)} that it is not given, and in a "
        "way that jit cannot follow",
        rule="a tensor that a compiled function reads from outside must be found again at the next call, when another "
        "one may be in its place.",
        hint="Pass it, or the object that holds it, as an argument; or read it by a name: a variable, or an attribute.",
    )
