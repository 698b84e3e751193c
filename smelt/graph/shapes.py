"""Shape rules that builders share: broadcasting, axes, element counts, and shapes in messages, with carets."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from smelt.errors import ArgumentError, AxisError, IndexRangeError, ShapeError, TraceError
from smelt.graph.index import (
    Index,
    IndexLike,
    Variable,
    as_index,
    exact_quotient,
    least,
    nonnegative,
    product_of,
    size_of,
)
from smelt.graph.node import Node, Shape
from smelt.graph.ops import Span


def shape_text(shape: Sequence[IndexLike]) -> str:
    """A shape as Python writes a tuple."""
    return f"({', '.join(map(str, shape))}{',' if len(shape) == 1 else ''})"


def marked(*pieces: str | tuple[Sequence[IndexLike], Collection[int]]) -> str:
    """Text and shapes on a line of their own; a second line has carets below the given axes of each shape."""
    text = below = "    "
    for piece in pieces:
        if isinstance(piece, str):
            text += piece
            below += " " * len(piece)
            continue
        shape, faults = piece
        sizes = [str(size) for size in shape]
        text += shape_text(shape)
        below += " " + "  ".join(("^" if axis in faults else " ") * len(size) for axis, size in enumerate(sizes))
        below = below.ljust(len(text))
    return f"{text}\n{below.rstrip()}" if below.strip() else text


def row_major(shape: Shape) -> Shape:
    """The strides of a contiguous array."""
    strides: list[IndexLike] = []
    step: IndexLike = 1
    for size in reversed(shape):
        strides.append(step)
        step = size_of(size * step)
    return tuple(reversed(strides))


def reshape_strides(shape: Shape, strides: tuple[IndexLike, ...], target: Shape) -> tuple[IndexLike, ...] | None:
    """The strides of a reshaped view, or None if the elements do not lie evenly."""
    if 0 in target:
        return row_major(target)
    runs: list[tuple[IndexLike, IndexLike]] = []  # sizes and strides, of axes that lie like one
    for size, stride in zip(shape, strides, strict=True):
        if size != 1 and runs and size * stride == runs[-1][1]:
            runs[-1] = product_of((runs[-1][0], size)), stride
        elif size != 1:
            runs.append((size, stride))
    out: list[IndexLike] = []
    for whole, stride in runs:
        first = len(out)
        while product_of(target[first : len(out)]) != whole:
            if len(out) == len(target):
                return None
            out.append(0)
        inside = target[first : len(out)]
        out[first:] = [0 if size == 1 else step * stride for size, step in zip(inside, row_major(inside), strict=True)]
    rest = target[len(out) :]
    return (*out, *(0 for _ in rest)) if all(size == 1 for size in rest) else None


def checked_shape(shape: Iterable[Any], name: str) -> Shape:
    """A shape given by a caller, with sizes in their simplest form."""
    sizes = tuple(size if type(size) is int else as_size(size, name) for size in shape)
    for size in sizes:
        if least(size) < 0:
            raise ShapeError(f"{name}: a size is negative: {shape_text(sizes)}", rule="sizes are zero or more.")
    return sizes


def as_size(value: Any, name: str) -> IndexLike:
    """An integer or an expression given by a caller, in its simplest form."""
    if isinstance(value, Index):
        return size_of(value)
    number = _whole_number(value)
    if number is None:
        raise ArgumentError(f"{name}: {value!r:.80} is not a size", hint="Use integers or sm.Dim for sizes.")
    return number


def _whole_number(value: Any) -> int | None:
    """An integer given by a caller; None if it is something else."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TraceError:  # a tensor's, which says more
        raise
    except TypeError:  # also from arrays, which only sometimes are integers
        return None


def broadcast_shapes(a: Shape, b: Shape, name: str) -> Shape:
    """The shape that two shapes share by NumPy's rules; a symbolic size fits itself and 1."""
    if a == b:
        return a
    if len(a) < len(b):
        long, short = b, a
    else:
        long, short = a, b
    offset = len(long) - len(short)
    sizes = list(long)
    for axis, size in enumerate(short, offset):
        other = long[axis]
        if other == 1:
            sizes[axis] = size
        elif size not in (1, other):
            raise _no_broadcast(a, b, name)
    return tuple(sizes)


def _no_broadcast(a: Shape, b: Shape, name: str) -> ShapeError:
    """The error that points at all pairs of sizes that do not fit, and explains the last of them."""
    faults = [k for k in range(-1, -1 - min(len(a), len(b)), -1) if a[k] != b[k] and a[k] != 1 and b[k] != 1]
    k = faults[0]
    left, right = k + len(a), k + len(b)
    hint = "Axes are matched from the last one backwards; use reshape or expand_dims to line them up."
    if isinstance(a[k], Index) or isinstance(b[k], Index):
        hint = "A symbolic size only fits the same symbolic size or 1."
    return ShapeError(
        f"{name}: shapes do not broadcast\n"
        + marked((a, {k + len(a) for k in faults}), " and ", (b, {k + len(b) for k in faults})),
        rule=f"axis {left} of the left operand ({described(a[k], b[k])}) must equal axis {right} of the right one "
        f"({described(b[k], a[k])}), or one must be 1.",
        hint=hint,
    )


def described(size: IndexLike, other: IndexLike) -> str:
    """A size for a message; with the bounds of its dims where the names alone do not show that two sizes differ."""
    if str(size) != str(other) or not isinstance(size, Index):
        return str(size)
    bounds = sorted(f"{v.text} in {v.low}..{v.high}" for v in size.variables())
    return f"{size} with {', '.join(bounds)}"


def normalized_axis(axis: Any, rank: int, name: str) -> int:
    """An axis counted from the front."""
    number = _whole_number(axis)
    if number is None:
        raise ArgumentError(f"{name}: an axis must be an integer, got {axis!r:.80}")
    if not -rank <= number < rank:
        allowed = f"the axes are {-rank} to {rank - 1}." if rank else "it has no axes: it is a scalar."
        raise AxisError(f"{name}: axis {number} is out of range for a tensor of rank {rank}", rule=allowed)
    return number % rank


def normalized_axes(axes: Iterable[Any], rank: int, name: str) -> tuple[int, ...]:
    """Distinct axes counted from the front, in the order given."""
    numbers = tuple(normalized_axis(axis, rank, name) for axis in axes)
    if len(set(numbers)) != len(numbers):
        raise AxisError(f"{name}: an axis appears twice: {numbers}", rule="each axis may be named once.")
    return numbers


_BOUNDS: Final = "This must hold for every size: give the Dim bounds that say so."


def checked_span(span: Span, shape: Shape, axis: int, name: str) -> Span:
    """The span in its simplest form, after a check that it stays inside the axis."""
    if span.step == 0:
        raise ArgumentError(f"{name}: the step of axis {axis} is 0", rule="steps must not be zero.")
    if least(span.size) < 0:
        raise ArgumentError(
            f"{name}: the size of axis {axis} may be negative: {span.size}",
            rule=f"axis {axis} of {shape_text(shape)} may be too small for it.",
            hint=_BOUNDS,
        )
    if span.size == 0:
        return Span(0, 0, 1)
    if span.size == 1:
        span = Span(span.start, 1, 1)
    size = shape[axis]
    last = span.start + (span.size - 1) * span.step
    low, high = (span.start, last) if span.step > 0 else (last, span.start)
    if not (certain(low) and certain(size - high - 1)):
        symbolic = not all(isinstance(value, int) for value in (low, high, size))
        raise IndexRangeError(
            f"{name}: elements {low} to {high} do not all lie in axis {axis}\n" + marked((shape, {axis})),
            rule=f"the axis has elements 0 to {size - 1}.",
            hint=_BOUNDS if symbolic else "",
        )
    return span


def certain(amount: IndexLike) -> bool:
    """Whether an amount is proven not to be negative."""
    return amount >= 0 if isinstance(amount, int) else nonnegative(amount)


def infer_reshape(shape: Shape, target: Iterable[Any], name: str = "reshape") -> Shape:
    """`target` with its one -1 (if any) replaced by what keeps the number of elements."""
    sizes = tuple(target)
    holes = [axis for axis, size in enumerate(sizes) if isinstance(size, int | Index) and size == -1]
    if not holes:
        return checked_shape(sizes, name)
    if len(holes) > 1:
        raise ShapeError(
            f"{name}: more than one size is -1\n" + marked((sizes, holes)), rule="only one size can be inferred."
        )
    (hole,) = holes
    known = checked_shape(sizes[:hole] + sizes[hole + 1 :], name)
    size = _missing_factor(list(shape), list(known))
    if size is None:
        raise ShapeError(
            f"{name}: no size fits in place of -1\n" + marked((shape, ()), " to ", (sizes, {hole})),
            rule=f"the {product_of(shape)} elements must be a whole multiple of {product_of(known)}.",
        )
    return (*known[:hole], size, *known[hole:])


def _missing_factor(total: list[IndexLike], known: list[IndexLike]) -> IndexLike | None:
    """The size that multiplies the known ones to the total, if it is certain."""
    if any(size == 0 for size in known):
        return None
    for size in list(known):  # equal sizes cancel, whatever they are
        if size in total:
            total.remove(size)
            known.remove(size)
    quotient = exact_quotient(as_index(product_of(total)), as_index(product_of(known)))
    return None if quotient is None or quotient.low < 0 else size_of(quotient)


def dims_of(nodes: Iterable[Node]) -> dict[str, Variable]:
    """The symbolic sizes in the shapes of nodes, by name. The same name with different bounds is an error."""
    found: dict[str, Variable] = {}
    seen: set[Shape] = set()
    for node in nodes:
        if node.shape in seen:
            continue
        seen.add(node.shape)
        for size in node.shape:
            if type(size) is int:
                continue
            for variable in as_index(size).variables():
                known = found.setdefault(variable.name, variable)
                if known != variable:
                    raise ShapeError(
                        f"two dims are called {variable.name!r}",
                        rule=f"one is {known.low}..{known.high}, the other {variable.low}..{variable.high}.",
                        hint="Make the Dim once and use it everywhere, or give the two different names.",
                    )
    return found
