"""`associative_scan`: all prefixes of a sequence under an associative operation, in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from smelt import tree
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Index, normalized_axis, shape_text
from smelt.tensor import Tensor, concat, flag, flip, stack

T = TypeVar("T")


def associative_scan(f: Callable[[Any, Any], Any], xs: T, reverse: bool = False, axis: int = 0) -> T:
    """Element k of the result is x[0] ∘ x[1] ∘ … ∘ x[k], with ∘ the function, which must be associative.

    `xs` is a tree of tensors of one length along the axis. The function is given two such trees and combines them
    element by element along it; it is called about 2·log₂(n) times, where a `scan` would take n steps one by one. With
    `reverse`, element k is x[k] ∘ x[k + 1] ∘ … ∘ x[n - 1] (JAX turns the operands round as well).

    >>> sm.associative_scan(sm.add, sm.asarray([1, 2, 3, 4])).tolist()
    [1, 3, 6, 10]
    >>> decay, x = sm.full((4,), 0.5), sm.asarray([1.0, 0.0, 0.0, 4.0])  # y[k] = decay[k] * y[k - 1] + x[k]
    >>> sm.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decay, x))[1].tolist()
    [1.0, 0.5, 0.25, 4.125]
    """
    if not callable(f):
        raise ArgumentError(f"associative_scan: {f!r:.80} is not a function")
    leaves, structure = tree.flatten(xs)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ArgumentError(
                f"associative_scan: xs has a leaf of type {type(leaf).__name__}", rule="all leaves must be tensors."
            )
    axes = [normalized_axis(axis, leaf.ndim, "associative_scan") for leaf in leaves]
    sizes = {leaf.shape[k] for leaf, k in zip(leaves, axes, strict=True)}
    if len(sizes) > 1:
        shapes = ", ".join(shape_text(leaf.shape) for leaf in leaves)
        raise ShapeError(
            f"associative_scan: the tensors have different lengths along axis {axis}: {shapes}",
            rule="all xs must have the same number of elements along it.",
        )
    if any(isinstance(size, Index) for size in sizes):
        raise ArgumentError(
            f"associative_scan: the size {min(map(str, sizes))} is symbolic",
            rule="how many steps there are depends on it.",
            hint="Use sm.scan, which takes any number of steps.",
        )
    backward = flag(reverse, "associative_scan", "reverse")

    def combined(a: list[Any], b: list[Any]) -> list[Any]:
        left, right = tree.unflatten(structure, a), tree.unflatten(structure, b)
        found, given = tree.flatten(f(right, left) if backward else f(left, right))
        if given != structure:
            raise ArgumentError(f"associative_scan: the function gave {given}", rule=f"it must give {structure}.")
        for new, old in zip(found, a, strict=True):
            if not isinstance(new, Tensor) or (new.shape, new.dtype) != (old.shape, old.dtype):
                raise ShapeError(
                    f"associative_scan: the function gave {new!r:.80} for {old.dtype}{shape_text(old.shape)}",
                    rule="what it gives has the shapes and dtypes of what it is given.",
                )
        return found

    if backward:
        leaves = [flip(leaf, axis=k) for leaf, k in zip(leaves, axes, strict=True)]
    results = _prefixes(combined, leaves, axes)
    if backward:
        results = [flip(leaf, axis=k) for leaf, k in zip(results, axes, strict=True)]
    result: T = tree.unflatten(structure, results)
    return result


def _prefixes(combined: Callable[[list[Any], list[Any]], list[Any]], xs: list[Any], axes: list[int]) -> list[Any]:
    """Pairs of neighbors first; their prefixes are those of every second element, and one step gives the others."""
    size = xs[0].shape[axes[0]] if xs else 0
    if size < 2:
        return xs

    def cut(values: list[Any], part: slice) -> list[Any]:
        return [value[(slice(None),) * axis + (part,)] for value, axis in zip(values, axes, strict=True)]

    odd = _prefixes(combined, combined(cut(xs, slice(0, size - 1, 2)), cut(xs, slice(1, None, 2))), axes)
    before = odd if size % 2 else cut(odd, slice(0, -1))
    first = cut(xs, slice(0, 1))
    even = first
    if size > 2:
        even = [
            concat([a, b], axis=axis)
            for a, b, axis in zip(first, combined(before, cut(xs, slice(2, None, 2))), axes, strict=True)
        ]
    return [_interleaved(a, b, axis) for a, b, axis in zip(even, odd, axes, strict=True)]


def _interleaved(even: Tensor, odd: Tensor, axis: int) -> Tensor:
    """even[0], odd[0], even[1], … along an axis; there may be one even element more."""
    pairs = odd.shape[axis]
    whole = (slice(None),) * axis
    both = stack([even[(*whole, slice(0, pairs))], odd], axis=axis + 1)
    result = both.reshape(*odd.shape[:axis], 2 * pairs, *odd.shape[axis + 1 :])
    rest = even[(*whole, slice(pairs, None))]
    return result if rest.shape[axis] == 0 else concat([result, rest], axis=axis)
