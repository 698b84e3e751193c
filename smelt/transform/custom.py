"""Functions with gradients of their own, and values that count as constants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
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
    no float tensors are constants; so is whatever the function reaches otherwise. `defjvp` adds derivatives in forward
    mode.

    >>> import smelt as sm
    >>> @sm.custom_vjp
    ... def clipped(x):  # its gradient is limited
    ...     return x * x
    >>> clipped.defvjp(lambda x: (x * x, x), lambda x, ct: (sm.clip(2 * x * ct, -1, 1),))
    >>> sm.grad(clipped)(3.0).tolist()
    1.0
    """

    __wrapped__: Callable[..., T]
    takes_wanted = False  # whether the way back is also told, for each argument, of which leaves cotangents are wanted

    def __init__(self, function: Callable[..., T]) -> None:
        functools.update_wrapper(self, function)
        self._forward: Callable[..., Any] | None = None
        self._backward: Callable[..., Any] | None = None
        self._push: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"custom_vjp({function_name(self.__wrapped__)})"

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Say how the value is computed when it will be differentiated, and the way back."""
        self._forward, self._backward = forward, backward

    def defjvp(self, push: Callable[..., Any]) -> None:
        """Say how the value changes: `push` takes what the way back needs, and a tuple with the tangent of each
        argument, or None for one that does not change. It gives a tree like the value, of which only leaves in the
        place of float tensors count, or None for a value that does not change.
        """
        self._push = push

    @property
    def also_calls(self) -> tuple[Callable[..., Any], ...]:
        """Further functions that `jit` looks at for what they read."""
        return tuple([one for one in (self._forward, self._backward, self._push) if one is not None])

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
        ways = _Ways(name, self._backward, self._push, self.takes_wanted, kept, roots, structure, leaves, arguments)
        call = Call(ways.pull_back, None if self._push is None else ways.push_forward)
        outputs = [wrap(alias(root, Custom(call, k), *inputs, *further)) for k, root in enumerate(roots)]
        given: T = tree.unflatten(structure, outputs)
        return given


@dataclass(frozen=True, slots=True)
class _Ways:
    """Runs the user's functions on cotangents and tangents of one call, and checks what comes out."""

    name: str
    backward: Callable[..., Any]
    push: Callable[..., Any] | None
    takes_wanted: bool
    kept: Any
    roots: list[Node]
    structure: tree.Structure
    leaves: list[Any]
    arguments: tree.Structure

    def _kept_among(self, sources: Sequence[Node]) -> Any:
        """What the way back needs, from the sources of where it is needed."""
        needed, nested = tree.flatten(self.kept)
        further = iter(sources[sum(map(_is_float, self.leaves)) :])
        return tree.unflatten(nested, [wrap(next(further)) if isinstance(leaf, Tensor) else leaf for leaf in needed])

    def _by_argument(self, leaves: Iterable[T]) -> list[list[T]]:
        """What belongs to the leaves of all arguments, argument by argument."""
        rest = iter(leaves)
        return [list(islice(rest, tree.leaf_count(structure))) for structure in self.arguments.children]

    def pull_back(
        self, given: Mapping[int, Node], sources: Sequence[Node], wanted: Sequence[bool]
    ) -> list[Node | None]:
        """The cotangents of all sources, from those of results."""
        slopes = [given[k] if k in given else zeros(x.shape, x) for k, x in enumerate(self.roots)]
        cotangents = [wrap(slope) for slope in conjugated(self.structure, slopes)]
        more = []
        if self.takes_wanted:
            which = iter(wanted)
            more = [self._by_argument([_is_float(leaf) and next(which) for leaf in self.leaves])]
        found = called(self.backward, self._kept_among(sources), tree.unflatten(self.structure, cotangents), *more)
        if not isinstance(found, tuple) or len(found) != len(self.arguments.children):
            raise ArgumentError(
                f"{self.name}: backward must return a tuple with one cotangent for each of the "
                f"{len(self.arguments.children)} arguments"
            )
        parts: list[Node | None] = []
        every = zip(found, self.arguments.children, self._by_argument(self.leaves), strict=True)
        for k, (one, structure, leaves) in enumerate(every):
            parts += self._argument(k, one, structure, leaves)
        return [*parts, *[None] * (len(sources) - len(parts))]

    def push_forward(self, given: Sequence[Node | None], sources: Sequence[Node]) -> list[Node | None]:
        """The tangents of all results, from those of sources."""
        assert self.push is not None
        changes = iter(given)
        tangents = []
        moving = self._by_argument([next(changes) if _is_float(leaf) else None for leaf in self.leaves])
        for structure, leaves, parts in zip(
            self.arguments.children, self._by_argument(self.leaves), moving, strict=True
        ):
            tangents.append(None if all(part is None for part in parts) else _tangent(structure, leaves, parts))
        if all(tangent is None for tangent in tangents):
            return [None] * len(self.roots)
        found = called(self.push, self._kept_among(sources), tuple(tangents))
        if found is None:
            return [None] * len(self.roots)
        values, nested = tree.flatten(found)
        if nested != self.structure:
            raise ArgumentError(
                f"{self.name}: the tangent of the value has the structure {nested}",
                rule=f"it must be {self.structure}.",
            )
        pairs = zip(values, self.roots, strict=True)
        return [
            self._checked("the tangent of the value", x, root) if root.dtype.is_float else None for x, root in pairs
        ]

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
                part = self._checked(f"the cotangent of argument {k}", value, leaf._node)
                parts.append(build.neg(part) if is_imaginary else part)
        return parts

    def _checked(self, what: str, value: Any, x: Node) -> Node:
        """The node of a derivative, which must have the type of what it belongs to."""
        if not isinstance(value, Tensor):
            raise ArgumentError(f"{self.name}: {what} is {type(value).__name__}, not a tensor")
        node = value._node
        if node.shape != x.shape:
            raise ShapeError(
                f"{self.name}: {what} has shape {shape_text(node.shape)}",
                rule=f"it must be {shape_text(x.shape)}, as that is.",
            )
        if node.dtype is not x.dtype:
            raise DTypeError(f"{self.name}: {what} is {node.dtype}", rule=f"it must be {x.dtype}.")
        return node


def _tangent(structure: tree.Structure, leaves: Sequence[Any], parts: Sequence[Node | None]) -> Any:
    """A tree of tangents like an argument: zeros for floats that do not change, None for what has no tangent."""
    found = []
    for leaf, part in zip(leaves, parts, strict=True):
        plain = zeros(leaf._node.shape, leaf._node) if _is_float(leaf) else None
        node = plain if part is None else part
        found.append(None if node is None else wrap(node))
    return tree.unflatten(structure, found)


def _is_float(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf._node.dtype.is_float
