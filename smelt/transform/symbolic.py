"""Symbolic shapes of a jitted function: declared once, bound and checked at every call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smelt import tree
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Dim, Index, Shape, Variable, row_major
from smelt.runtime import Placeholder, Storage


class Declared(tuple[Any, ...]):
    """A declared shape, and what messages call the argument, or the part of one, that it is for."""

    name: str

    @classmethod
    def of(cls, shape: Shape, name: str) -> Declared:
        made = cls(shape)
        made.name = name
        return made


def argument_shapes(shapes: Sequence[Any] | None, args: Sequence[Any]) -> dict[int | str, list[Declared | None]]:
    """For each argument with a declared shape, the shapes of its leaves."""
    if shapes is None:
        return {}
    if not isinstance(shapes, tuple | list):
        raise ArgumentError(f"jit: shapes= must be a list of shapes, one for each argument, got {shapes!r:.80}")
    if len(shapes) > len(args):
        raise ArgumentError(f"jit: shapes= names {len(shapes)} arguments, and the call has {len(args)}")
    table: dict[int | str, list[Declared | None]] = {}
    for k, (shape, value) in enumerate(zip(shapes, args, strict=False)):
        names = [f"argument {k}{path}" for path in tree.paths(tree.flatten(value)[1])]
        listed = [shape] if _is_shape(shape) else list(shape or [None] * len(names))
        if len(listed) != len(names):
            raise ArgumentError(
                f"jit: {len(listed)} shapes for argument {k}, which has {len(names)} tensors",
                rule=f"the first is {names[0]}, the last {names[-1]}." if names else "",
                hint="Write None for an argument without dims, else a list with a shape or None for each tensor.",
            )
        table[k] = [None if s is None else Declared.of(s, name) for s, name in zip(listed, names, strict=True)]
    return table


def _is_shape(shape: Any) -> bool:
    return isinstance(shape, tuple | list) and all(isinstance(size, int | Index) for size in shape)


def symbolic_placeholder(storage: Storage, shape: Shape | None) -> Placeholder:
    """A stand-in for an argument: its own layout, or a declared shape in row-major order."""
    if shape is None:
        return Placeholder(storage.dtype, storage.shape, storage.strides)
    return Placeholder(storage.dtype, tuple(shape), row_major(shape))


class ShapeCheck:
    """Finds the values of dims in the shapes of a call, and refuses shapes that do not fit the declaration."""

    def __init__(self) -> None:
        self.declared: list[tuple[int, Declared]] = []
        self.names: list[tuple[str, str]] = []  # the compiled graph's name of a dim, and the user's

    def add(self, leaf: int, shape: Declared) -> None:
        self.declared.append((leaf, shape))

    def order(self, dims: Sequence[Variable]) -> None:
        """Say in which order the compiled graph takes the dims."""
        self.names = [(f"d{k}", v.name) for k, v in enumerate(dims)]

    def bind(self, leaves: Sequence[Any]) -> dict[str, int]:
        """The values of the dims, in order, by the compiled graph's names."""
        values = self.sizes(leaves)
        return {name: values[original] for name, original in self.names}

    def sizes(self, leaves: Sequence[Any]) -> dict[str, int]:
        """The values of all dims, by the user's names."""
        values: dict[str, int] = {}
        for leaf, shape in self.declared:
            actual = leaves[leaf].shape
            if len(actual) != len(shape):
                raise _mismatch(shape, actual, "The number of axes differs.")
            for size, given in zip(shape, actual, strict=True):
                if isinstance(size, Dim) and size.name not in values:
                    if not size.low <= given <= size.high:
                        rule = f"{size.name} = {given} is outside its bounds {size.low} to {size.high}."
                        raise _mismatch(shape, actual, rule)
                    values[size.name] = given
        unknown = {
            v.name for _, shape in self.declared for size in shape if isinstance(size, Index) for v in size.variables()
        }
        if not unknown <= set(values):
            raise ArgumentError(
                f"jit: the value of {', '.join(sorted(unknown - set(values)))} cannot be read off the shapes",
                rule="Each dim must be the whole size of some axis; elsewhere it may be part of an expression.",
            )
        for leaf, shape in self.declared:
            actual = leaves[leaf].shape
            for axis, (size, given) in enumerate(zip(shape, actual, strict=True)):
                expected = size.evaluate(values) if isinstance(size, Index) else size
                if expected != given:
                    raise _mismatch(shape, actual, f"Axis {axis} must be {expected}, and is {given}.")
        return values


def _mismatch(shape: Declared, actual: tuple[int, ...], rule: str) -> ShapeError:
    declared = ", ".join(str(size) for size in shape)
    given = ", ".join(str(size) for size in actual)
    return ShapeError(f"jit: {shape.name} was declared ({declared}) and has shape ({given})", rule=rule)
