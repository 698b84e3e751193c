"""Reductions with any body, over axes and over windows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

from smelt.dtypes import bool_
from smelt.formats.stablehlo import elementwise, movement, regions
from smelt.formats.stablehlo.elementwise import number
from smelt.formats.stablehlo.regions import Body, Combine
from smelt.formats.stablehlo.rows import Call, Row, Value, rows
from smelt.graph import (
    IndexLike,
    Node,
    Op,
    build,
    constant_bytes,
    constant_value,
    identity,
    least,
    pairs,
)


def fold(xs: Sequence[Node], axis: int, combine: Combine) -> list[Node]:
    """One axis of several tensors folded by a body, in order: a tree over blocks whose sizes are powers of two, largest
    first, so that nothing has to be laid side by side again.
    """
    size = xs[0].shape[axis]
    assert isinstance(size, int)
    found: list[Node] | None = None
    start = 0
    while start < size:
        length = 1 << ((size - start).bit_length() - 1)
        block = _powers(_part(xs, axis, start, length), axis, combine)
        found = block if found is None else combine(found, block)
        start += length
    assert found is not None
    return found


def _part(xs: Sequence[Node], axis: int, start: int, length: int, step: int = 1) -> list[Node]:
    spans = [(start, length, step) if k == axis else (0, size, 1) for k, size in enumerate(xs[0].shape)]
    return [build.slice_(x, spans) for x in xs]


def _powers(xs: Sequence[Node], axis: int, combine: Combine) -> list[Node]:
    """The fold of an axis whose size is a power of two, which then is gone."""
    size = xs[0].shape[axis]
    assert isinstance(size, int)
    while size > 1:
        size //= 2
        xs = combine(_part(xs, axis, 0, size, 2), _part(xs, axis, 1, size, 2))
    return [build.reshape(x, (*x.shape[:axis], *x.shape[axis + 1 :])) for x in xs]


def is_identity(init: Node, op: str) -> bool:
    """Whether a scalar changes nothing when it is combined."""
    if init.dtype.is_complex:
        real, imaginary = pairs.parts(init)
        return op in ("add", "mul") and is_identity(real, op) and is_identity(imaginary, "add")
    if init.op is not Op.CONST:
        return False
    neutral = (0, -0.0) if op == "add" else (identity(op, init.dtype),)
    return any(init.attribute == constant_bytes(value, init.dtype) for value in neutral)


def reduced(op: str, x: Node, init: Node, axes: Sequence[int]) -> Node:
    """A reduction that the graph has, with a first value."""
    result = build.reduce(op, x, axes)
    if is_identity(init, op):
        return result
    return build.binary(op, build.broadcast_to(init, result.shape), result)


def _argument_of(body: Body, lowest: bool) -> list[Node]:
    """The body of argmax or argmin as JAX prints it."""
    a, i, b, j = (body.parameters[k] for k in (0, 1, 2, 3))
    better = elementwise.compare("LT" if lowest else "GT", a, b, "FLOAT")
    if a.dtype.is_float:
        better = build.binary("or", better, build.ne(a, a))
    same = build.bitwise_and(build.eq(a, b), build.lt(i, j))
    first = build.binary("or", better, same)
    return [elementwise.select(better, a, b), elementwise.select(first, i, j)]


def _argument(body: Body, xs: Sequence[Node], inits: Sequence[Node], axis: int) -> list[Node] | None:
    """argmax and argmin: the best value, and the smallest position where it stands. NaN is the best of all."""
    if len(xs) != 2 or not body.parameters[1].dtype.is_integer or xs[0].dtype.is_complex:
        return None
    for lowest, op in ((False, "max"), (True, "min")):
        x, positions = xs
        if body.roots != _argument_of(body, lowest) or not is_identity(inits[0], op):
            continue
        best = build.reduce(op, x, (axis,), keep_axes=True)
        hit = build.eq(x, build.expand(best, x.shape))
        if x.dtype.is_float:
            hit = build.binary("or", hit, build.unary("isnan", x))
        far = number(positions.dtype.maximum, positions)
        at = build.reduce("min", build.where(hit, positions, far), (axis,))
        return [build.reshape(best, at.shape), at]
    return None


def _is_first(positions: Node, init: Node, axes: Sequence[int]) -> bool:
    """Whether positions along these axes begin with 0, which a first one does not come before."""
    if init.op is not Op.CONST or constant_value(init) < 0 or 0 in map(least, positions.shape):
        return False
    return any(positions is movement.iota(positions.dtype, positions.shape, axis) for axis in axes)


def _reduce(call: Call) -> list[Value]:
    xs, inits = _halves(call)
    axes = call.axes("dimensions", xs[0].rank)
    body = regions.read_body(call, [x.dtype for x in (*inits, *inits)], [x.dtype for x in inits])
    return list(fold_axes(call, xs, inits, body, sorted(axes)))


def _halves(call: Call) -> tuple[list[Node], list[Node]]:
    """Tensors, and as many first values."""
    count = len(call.operands) // 2
    if len(call.operands) != 2 * count or count == 0:
        call.wrong("every operand needs a first value")
    xs, inits = call.operands[:count], call.operands[count:]
    for x, init in zip(xs, inits, strict=True):
        if init.shape or x.shape != xs[0].shape:
            call.wrong("first values are scalars, and all operands have one shape")
    return xs, inits


def fold_axes(call: Call, xs: Sequence[Node], inits: Sequence[Node], body: Body, axes: Sequence[int]) -> Sequence[Node]:
    """Tensors with some axes folded by a body that begins with first values."""
    parts = regions.split(body, len(xs))
    names = [regions.known(part) for part in parts] if parts is not None else [None]
    if None not in names:
        return [
            reduced(str(name), elementwise.convert(x, init.dtype), init, axes)
            for name, x, init in zip(names, xs, inits, strict=True)
        ]
    if not axes:
        return regions.lifted(body, [*(build.broadcast_to(init, xs[0].shape) for init in inits), *xs])
    shape = tuple(size for axis, size in enumerate(xs[0].shape) if axis not in axes)
    if 0 in xs[0].shape:
        return [build.broadcast_to(init, shape) for init in inits]
    rows = [_joined(x, axes) for x in xs]
    axis = rows[0].rank - 1
    found = _argument(body, rows, inits, axis)
    if found is not None and _is_first(xs[1], inits[1], axes):
        return found
    if found is None:
        if not isinstance(rows[0].shape[axis], int):
            call.refuse("a body that is no known function, over an axis whose size is not known")
        found = fold(rows, axis, regions.combining(body))
    return regions.lifted(body, [*(build.broadcast_to(init, shape) for init in inits), *found])


def _joined(x: Node, axes: Sequence[int]) -> Node:
    """x with some axes last, as one."""
    kept = [axis for axis in range(x.rank) if axis not in axes]
    moved = build.permute(x, [*kept, *axes])
    total = 1
    for size in moved.shape[len(kept) :]:
        total = size * total  # type: ignore[assignment]
    return build.reshape(moved, (*moved.shape[: len(kept)], total))


# --- windows


def windows(x: Node, sizes: Sequence[int], steps: Sequence[int], dilations: Sequence[int]) -> Node:
    """All windows: the axes count them, and new axes behind these have their elements, unless that is all of them."""
    for axis, (size, step, dilation) in enumerate(zip(sizes, steps, dilations, strict=True)):
        x = x if size == step == 1 else build.window(x, axis, size, step, dilation)
    return x


def _fits(x: Node, sizes: Sequence[int], dilations: Sequence[int]) -> bool:
    """Whether there is a window at all."""
    reach = [(size - 1) * dilation + 1 for size, dilation in zip(sizes, dilations, strict=True)]
    return all(not isinstance(n, int) or n >= r for n, r in zip(x.shape, reach, strict=True))


class Windows(NamedTuple):
    """Which windows are folded: sizes, steps, how far elements of the tensor and of a window are apart, and padding."""

    sizes: Sequence[IndexLike]
    steps: Sequence[int]
    gaps: Sequence[int]
    dilations: Sequence[int]
    pads: Sequence[tuple[IndexLike, IndexLike]]


def _reduce_window(call: Call) -> list[Value]:
    xs, inits = _halves(call)
    ones = [1] * xs[0].rank
    numbers = [
        call.integers(name, ones)
        for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations")
    ]
    body = regions.read_body(call, [x.dtype for x in (*inits, *inits)], [x.dtype for x in inits])
    sizes, steps, gaps, dilations = numbers
    pads = call.pairs("padding", xs[0].rank)
    return reduce_windows(call, xs, inits, body, Windows(sizes, steps, gaps, dilations, pads))


def reduce_windows(call: Call, xs: Sequence[Node], inits: Sequence[Node], body: Body, which: Windows) -> list[Value]:
    """Windows of tensors, each folded by a body."""
    sizes, steps, gaps, dilations, pads = which
    rank = xs[0].rank
    if any(least(n) < 1 for n in (*sizes, *steps, *gaps, *dilations)):
        call.wrong("sizes, strides and dilations of windows are positive")
    plain = all(n == 1 for n in (*steps, *gaps, *dilations))
    running = partial(_running, sizes=sizes, pads=pads, plain=plain)
    parts = regions.split(body, len(xs))
    names = [regions.known(part) for part in parts] if parts is not None else [None]
    if None not in names:
        scans = [running(str(name), x, init) for name, x, init in zip(names, xs, inits, strict=True)]
        if all(x is not None for x in scans):
            return list(scans)
    fixed = [size for size in sizes if isinstance(size, int)]
    if len(fixed) != rank:
        call.refuse("windows whose sizes are not known")
    wide = []
    for x, init in zip(xs, inits, strict=True):
        x = movement.spread_out(x, [gap - 1 for gap in gaps], init)
        x = movement.padded(x, pads, init)
        if not _fits(x, fixed, dilations):
            return [build.broadcast_to(init, call.type(k)[1]) for k, init in enumerate(inits)]
        wide.append(windows(x, fixed, steps, dilations))
    return list(fold_axes(call, wide, inits, body, range(rank, wide[0].rank)))


def _running(
    op: str,
    x: Node,
    init: Node,
    *,
    sizes: Sequence[IndexLike],
    pads: Sequence[tuple[IndexLike, IndexLike]],
    plain: bool,
) -> Node | None:
    """A window that reaches back to the first element, or ahead to the last, along one axis: a scan."""
    axes = [axis for axis, size in enumerate(sizes) if size != 1]
    if not plain or len(axes) != 1 or not is_identity(init, op) or (x.dtype.is_bool and op in ("add", "mul")):
        return None
    [axis] = axes
    size = x.shape[axis]
    if sizes[axis] != size or any(pair != (0, 0) for k, pair in enumerate(pads) if k != axis):
        return None
    if pads[axis] == (size - 1, 0):
        return build.scan(op, x, axis)
    if pads[axis] == (0, size - 1):
        return movement.reverse(build.scan(op, movement.reverse(x, [axis]), axis), [axis])
    return None


ROWS: Final = rows(
    {
        "reduce": Row(_reduce, ("dimensions",), None, "any body; several operands; known bodies are single reductions"),
        "reduce_window": Row(
            _reduce_window,
            ("window_dimensions", "window_strides", "base_dilations", "window_dilations", "padding"),
            None,
            "any body; a running sum, product, maximum or minimum becomes a scan",
        ),
    }
)
__all__ = ["ROWS", "bool_", "fold", "fold_axes", "is_identity", "windows"]
