"""Trees of tensors that go into bodies and come out of them: the state of a loop, operands, results.

A state must come out of a body as it went in: the same structure, and each leaf with its shape and dtype. Python
numbers are weak: they take the dtype of what they meet, of their kind or a wider one, in a state as in any expression.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from smelt import runtime, tree
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import Node, Op, build, constant_value, kind_letter, marked, row_major
from smelt.runtime import Placeholder
from smelt.tensor import fitted, is_weak, node_of, wrap
from smelt.transform.bodies import keeping_modules
from smelt.transform.weak import default_weak

T = TypeVar("T")

_WIDTH: Final = "bif"  # kinds, from the narrowest to the widest


class Leaves:
    """The leaves of a tree as nodes, which of them are Python numbers, and what a message calls each."""

    def __init__(self, nodes: list[Node], weak: list[bool], structure: tree.Structure, what: str) -> None:
        self.nodes, self.weak, self.structure, self.what = nodes, weak, structure, what

    @property
    def paths(self) -> list[str]:
        return [self.what + path for path in tree.paths(self.structure)]

    def rebuilt(self, nodes: Sequence[Node]) -> Any:
        """A tree of the same structure, with other nodes."""
        return tree.unflatten(self.structure, [wrap(node) for node in nodes])


def leaves_of(value: Any, name: str, what: str) -> Leaves:
    """The leaves of a tree. `name` is the user's call, `what` the tree's name there."""
    parts, structure = tree.flatten(value)
    nodes = [node_of(part, name) for part in parts]
    weak = [is_weak(part) or runtime.is_weak(node) for part, node in zip(parts, nodes, strict=True)]
    return Leaves([default_weak(node) for node in nodes], weak, structure, what)


class State(Leaves):
    """The state with which a loop begins.

    With `counts` it is a pair: an integer that counts, which meets others like a Python number, and the user's state.
    """

    def __init__(self, value: Any, name: str, what: str, counts: bool = False) -> None:
        found = leaves_of(value, name, what)
        super().__init__(found.nodes, found.weak, found.structure, what)
        self.name, self.counts = name, counts
        self.effects: list[Node] = []  # of the body, once it is traced

    @property
    def paths(self) -> list[str]:
        inner = tree.paths(self.structure.children[1]) if self.counts else tree.paths(self.structure)
        return [self.what + path for path in ([""] if self.counts else []) + inner]

    def traced(self, step: Callable[[Any], tuple[Any, T]]) -> tuple[list[Node], list[Node], T]:
        """Run a body on stand-ins: its next state, the stand-ins, and what else it gives.

        Where a number that the loop begins with would have to change its dtype, the loop begins with that dtype.
        """
        while True:
            stand_ins = [self._stand_in(k) for k in range(len(self.nodes))]
            with runtime.tracing_body(self.name, repeats=True) as trace, keeping_modules(self.name):
                following, more = step(self.rebuilt(stand_ins))
                found = leaves_of(following, self.name, self.what)
            self.effects = trace.effects
            if found.structure != self.structure:
                raise ArgumentError(
                    f"{self.name}: the {self.what} {self.structure} becomes {found.structure}",
                    rule=f"the {self.what} that the body gives must have the structure of the one that it is given.",
                )
            if not self._widen(found):
                break
        paths = self.paths
        for old, new, path in zip(self.nodes, found.nodes, paths, strict=True):
            if old.shape != new.shape:
                raise _shape_changed(self.name, path, old, new)
        roots = [self._kept(k, found) for k in range(len(self.nodes))]
        return roots, stand_ins, more

    def _stand_in(self, k: int) -> Node:
        node = self.nodes[k]
        weak = self.weak[k] or (self.counts and k == 0)
        return Placeholder(node.dtype, node.shape, row_major(node.shape), weak).node()

    def _widen(self, found: Leaves) -> bool:
        """Begin with the dtypes that the body gives, where numbers allow it; whether anything has changed."""
        changed = False
        for k, (old, new) in enumerate(zip(self.nodes, found.nodes, strict=True)):
            fits = old.dtype is new.dtype or (found.weak[k] and holds(old.dtype, new))
            if self.weak[k] and not fits and holds(new.dtype, old):
                self.nodes[k], self.weak[k] = converted(old, new.dtype, self.name), found.weak[k]
                changed = True
        return changed

    def _kept(self, k: int, found: Leaves) -> Node:
        """The next value of a leaf, in the dtype that it has."""
        old, new = self.nodes[k], found.nodes[k]
        if old.dtype is new.dtype:
            return new
        if found.weak[k] and holds(old.dtype, new):
            return converted(new, old.dtype, self.name)
        raise DTypeError(
            f"{self.name}: {self.paths[k]} is {old.dtype}, and the body gives {new.dtype}",
            rule=f"every leaf of the {self.what} keeps its dtype from iteration to iteration.",
            hint=f"Begin with {new.dtype}, or cast in the body with .astype(sm.{old.dtype}).",
        )


def _shape_changed(name: str, path: str, old: Node, new: Node) -> ShapeError:
    same = old.rank == new.rank
    faults = {k for k, (a, b) in enumerate(zip(old.shape, new.shape, strict=False)) if a != b} if same else set()
    return ShapeError(
        f"{name}: {path} changes its shape\n" + marked((old.shape, faults), " to ", (new.shape, faults)),
        rule="every leaf keeps its shape from iteration to iteration.",
        hint="Begin with a tensor of the shape that the body gives.",
    )


def agreed(name: str, true: Leaves, false: Leaves) -> tuple[list[Node], list[Node]]:
    """The results of two branches, with numbers in the dtype of the other branch."""
    if true.structure != false.structure:
        raise ArgumentError(
            f"{name}: the branches give {true.structure} and {false.structure}",
            rule="both must give the same structure of tensors.",
        )
    pairs: list[tuple[Node, Node]] = []
    for k, path in enumerate(true.paths):
        a, b = true.nodes[k], false.nodes[k]
        if a.shape != b.shape:
            faults = {j for j, (x, y) in enumerate(zip(a.shape, b.shape, strict=False)) if x != y}
            raise ShapeError(
                f"{name}: the {path} of the branches differs in shape\n"
                + marked((a.shape, faults), " and ", (b.shape, faults)),
                rule="both branches must give the same shapes.",
            )
        if true.weak[k] and holds(b.dtype, a):
            a = converted(a, b.dtype, name)
        elif false.weak[k] and holds(a.dtype, b):
            b = converted(b, a.dtype, name)
        if a.dtype is not b.dtype:
            raise DTypeError(
                f"{name}: the {path} of the branches is {a.dtype} and {b.dtype}",
                rule="both branches must give the same dtypes.",
                hint=f"Cast one of them, for example with .astype(sm.{a.dtype}).",
            )
        pairs.append((a, b))
    return [a for a, _ in pairs], [b for _, b in pairs]


def holds(dtype: DType, number: Node) -> bool:
    """Whether a Python number can take a dtype: one of its kind or a wider one, with room for it."""
    if _WIDTH.index(kind_letter(number.dtype)) > _WIDTH.index(kind_letter(dtype)):
        return False
    if number.op is Op.CONST and dtype.is_integer:
        return bool(dtype.minimum <= constant_value(number) <= dtype.maximum)
    return True


def converted(number: Node, dtype: DType, name: str) -> Node:
    """A number in another dtype."""
    return build.const(constant_value(number), dtype) if number.op is Op.CONST else fitted(number, dtype, name)
