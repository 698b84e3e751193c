"""Functions with gradients of their own, and values that count as constants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from smelt import runtime, tree
from smelt.derive import Call, Custom, stopped, zeros
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import Node, alias, build, shape_text
from smelt.tensor import Tensor, conjugated, imaginary, wrap
from smelt.transform.arguments import called, function_name, tensor_nodes

T = TypeVar("T")


def stop_gradient(x: T) -> T:
    """The same tensor (or tree of tensors), which counts as a constant for every derivative.

    >>> import smelt as sm
    >>> sm.grad(lambda x: x * sm.stop_gradient(x))(3.0).tolist()
    3.0
    """
    constant: T = tree.map(lambda leaf: wrap(stopped(leaf._node)) if isinstance(leaf, Tensor) else leaf, x)
    return constant


class custom_vjp(Generic[T]):
    """A function whose gradient is given by two others.

    `forward` takes the arguments and gives (value, what the way back needs). `backward` takes that and the cotangent of
    the value, and gives a tuple with the cotangent of each argument, or None where there is none. Arguments that are
    no float tensors are constants; so is whatever the function reaches otherwise.

    >>> import smelt as sm
    >>> @sm.custom_vjp
    ... def clipped(x):  # its gradient is limited
    ...     return x * x
    >>> clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (sm.clip(2 * x * ct, -1, 1),))
    >>> sm.grad(clipped)(3.0).tolist()
    1.0
    """

    __wrapped__: Callable[..., T]

    def __init__(self, function: Callable[..., T]) -> None:
        functools.update_wrapper(self, function)
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"custom_vjp({function_name(self.__wrapped__)})"

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Say how the value is computed when it will be differentiated, and the way back."""
        self._forward, self._backward = forward, backward

    @property
    def also_calls(self) -> tuple[Callable[..., Any], ...]:
        """Further functions that `jit` looks at for what they read."""
        return () if self._forward is None or self._backward is None else (self._forward, self._backward)

    def __call__(self, *args: Any) -> T:
        name = f"custom_vjp {getattr(self.__wrapped__, '__name__', type(self.__wrapped__).__name__)}"
        if self._forward is None or self._backward is None:
            raise ArgumentError(f"{name}: it has no gradient yet", hint="Call defvjp(forward, backward) first.")
        with runtime.free_to_read():
            result = called(self._forward, *args)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentError(f"{name}: forward must return (value, what the way back needs)")
        value, kept = result
        roots, structure = tensor_nodes(value, name, "the value")
        leaves, arguments = tree.flatten(args)
        inputs = [leaf._node for leaf in leaves if _is_float(leaf)]
        needed, _ = tree.flatten(kept)
        further = [leaf._node for leaf in needed if isinstance(leaf, Tensor)]
        call = Call(_WayBack(name, self._backward, kept, roots, structure, leaves, arguments))
        outputs = [wrap(alias(root, Custom(call, k), *inputs, *further)) for k, root in enumerate(roots)]
        given: T = tree.unflatten(structure, outputs)
        return given


class _WayBack:
    """Runs the user's function on cotangents, and checks what comes out."""

    def __init__(
        self,
        name: str,
        backward: Callable[..., Any],
        kept: Any,
        roots: list[Node],
        structure: tree.Structure,
        leaves: list[Any],
        arguments: tree.Structure,
    ) -> None:
        self.name, self.backward, self.kept = name, backward, kept
        self.roots, self.structure, self.leaves, self.arguments = roots, structure, leaves, arguments

    def __call__(self, given: Mapping[int, Node], sources: Sequence[Node]) -> list[Node | None]:
        slopes = [given[k] if k in given else zeros(x.shape, x) for k, x in enumerate(self.roots)]
        cotangents = [wrap(slope) for slope in conjugated(self.structure, slopes)]
        needed, nested = tree.flatten(self.kept)
        further = iter(sources[sum(map(_is_float, self.leaves)) :])
        kept = tree.unflatten(nested, [wrap(next(further)) if isinstance(leaf, Tensor) else leaf for leaf in needed])
        found = called(self.backward, kept, tree.unflatten(self.structure, cotangents))
        if not isinstance(found, tuple) or len(found) != len(self.arguments.children):
            raise ArgumentError(
                f"{self.name}: backward must return a tuple with one cotangent for each of the "
                f"{len(self.arguments.children)} arguments"
            )
        parts: list[Node | None] = []
        start = 0
        for k, (one, structure) in enumerate(zip(found, self.arguments.children, strict=True)):
            leaves = self.leaves[start : start + tree.leaf_count(structure)]
            start += len(leaves)
            parts += self._argument(k, one, structure, leaves)
        return [*parts, *[None] * (len(sources) - len(parts))]

    def _argument(self, k: int, found: Any, structure: tree.Structure, leaves: list[Any]) -> list[Node | None]:
        if found is None:
            return [None for leaf in leaves if _is_float(leaf)]
        values, given = tree.flatten(found)
        if given != structure:
            raise ArgumentError(
                f"{self.name}: the cotangent of argument {k} has the structure {given}", rule=f"it must be {structure}."
            )
        parts: list[Node | None] = []
        for leaf, value, is_imaginary in zip(leaves, values, imaginary(structure), strict=True):
            if _is_float(leaf):
                part = self._checked(k, value, leaf._node)
                parts.append(build.neg(part) if is_imaginary else part)
        return parts

    def _checked(self, k: int, value: Any, x: Node) -> Node:
        if not isinstance(value, Tensor):
            raise ArgumentError(f"{self.name}: the cotangent of argument {k} is {type(value).__name__}, not a tensor")
        node = value._node
        if node.shape != x.shape:
            raise ShapeError(
                f"{self.name}: the cotangent of argument {k} has shape {shape_text(node.shape)}",
                rule=f"it must be that of the argument, {shape_text(x.shape)}.",
            )
        if node.dtype is not x.dtype:
            raise DTypeError(
                f"{self.name}: the cotangent of argument {k} is {node.dtype}", rule=f"it must be {x.dtype}."
            )
        return node


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf._node.dtype.is_float
