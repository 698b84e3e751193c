"""The gradient of one tensor by others, through the graph that they have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt import runtime
from smelt.derive.vjp import pull_back
from smelt.dtypes import float32
from smelt.errors import ArgumentError, DTypeError, GradientError, ShapeError
from smelt.graph import Node, Op, build, pairs, shape_text, topological
from smelt.tensor.handle import Handle, wrap
from smelt.tensor.interop import to_node

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor


def gradient(tensor: Tensor, by: Sequence[Any]) -> Any:
    """What `Tensor.gradient` gives."""
    name = "gradient"
    root = scalar_root(tensor, name)
    if not by:
        raise ArgumentError("gradient: by what?", hint="Write loss.gradient(x), or loss.gradient(x, w) for several.")
    inputs = [_input(x, name, f"argument {k}") for k, x in enumerate(by)]

    def slopes(parts: list[Node]) -> list[Node]:
        found = dict(zip(parts, pull_back([root], [build.const(1, root.dtype)], parts), strict=True))
        for k, node in enumerate(inputs):
            own = node.sources if node.op is Op.COMPLEX else (node,)
            if all(found[part] is None for part in own):
                raise _unreachable(root, node, k)
        return [build.const(0, x.dtype, x.shape) if slope is None else slope for x, slope in found.items()]

    results = tuple(wrap(pairs.conj(slope)) for slope in pairs.through_parts(inputs, slopes))
    return results[0] if len(results) == 1 else results


def _unreachable(root: Node, node: Node, k: int) -> GradientError:
    if root.op is Op.LEAF:
        why = "the value has been computed already, and with it its history was released."
        hint = "Ask for the gradient before the value is read, or use sm.value_and_grad."
    else:
        read = [leaf for leaf in topological([root], through_leaves=True) if _was_computed(leaf)]
        shapes = ", ".join(f"{leaf.dtype}{shape_text(leaf.shape)}" for leaf in read[:3])
        why = "nothing that the value was computed from depends on it."
        if read:
            why += f" These were read too early, which released their history: {shapes}."
        hint = "Read values after asking for the gradient, or use sm.value_and_grad, which keeps the history."
    return GradientError(
        f"gradient: the value does not depend on argument {k}, {node.dtype}{shape_text(node.shape)}",
        rule=why,
        hint=hint,
    )


def _was_computed(leaf: Node) -> bool:
    return leaf.op is Op.LEAF and leaf.dtype.is_float and getattr(leaf.attribute, "has_history", False)


def _input(value: Any, name: str, what: str) -> Node:
    node: Node | None = getattr(value, "_node", None)
    return node if node is not None and node.op is Op.COMPLEX else float_node(value, name, what)


def scalar_root(value: Any, name: str) -> Node:
    """The node of what is differentiated."""
    if not isinstance(value, Handle):
        raise ArgumentError(
            f"{name}: the function returned {type(value).__name__}", rule="it must return one scalar tensor."
        )
    node = value._node
    if not node.dtype.is_float:
        hint = "Take a part of it, or its size: abs(x)." if node.dtype.is_complex else ""
        raise DTypeError(f"{name}: the value is {node.dtype}", rule="only float values have a gradient.", hint=hint)
    if node.shape != ():
        raise ShapeError(
            f"{name}: the value has shape {shape_text(node.shape)}",
            rule="only a scalar has a gradient.",
            hint="Sum it, or use sm.vjp or sm.jacobian.",
        )
    return node


def float_node(leaf: Any, name: str, what: str) -> Node:
    """The node of a float tensor, of a Python float, or of an array of another library."""
    if isinstance(leaf, float):
        return build.const(leaf, float32)
    if isinstance(leaf, Handle):
        node = leaf._node
    elif hasattr(leaf, "__array__") or hasattr(leaf, "__dlpack__"):
        node = to_node(leaf, f"{name}: {what}")
    else:
        raise ArgumentError(
            f"{name}: {what} has a leaf of type {type(leaf).__name__}",
            rule="only float tensors and Python floats can be differentiated by.",
            hint=f"Write {leaf}.0."
            if type(leaf) is int
            else "Leave it out of the differentiated arguments, for example with argnums=.",
        )
    if runtime.is_weak(node):
        return build.cast(node, float32)
    if not node.dtype.is_float:
        raise DTypeError(
            f"{name}: {what} has a tensor of {node.dtype} and shape {shape_text(node.shape)}",
            rule="only float tensors can be differentiated by.",
            hint="Cast it with x.astype(sm.float32), or leave it out with argnums=.",
        )
    return node
