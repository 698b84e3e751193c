"""Elements found by value: gather, scatter, dynamic slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from smelt.dtypes import int32, int64, uint64
from smelt.formats.mlir import Coded
from smelt.formats.stablehlo import regions
from smelt.formats.stablehlo.movement import along, placed
from smelt.formats.stablehlo.regions import Body
from smelt.formats.stablehlo.rows import Call, Row, Value, rows, stand_in
from smelt.graph import (
    IndexLike,
    Loop,
    Node,
    Shape,
    build,
    certain,
    closed,
    constant_of,
    constant_value,
    pairs,
    product_of,
    values_of,
)


def wide(index: Node) -> Node:
    """An index as int64, before any arithmetic: bounds in a narrow type would wrap."""
    if index.dtype is uint64:
        index = build.minimum(index, build.const(int64.maximum, uint64, index.shape))
    return build.cast(index, int64)


def clamped(start: Node, size: IndexLike, window: IndexLike) -> Node:
    """A start from which the window fits: the start is moved, not the elements one by one."""
    last = build.broadcast_to(build.size_node(size - window, int64), start.shape)
    return build.minimum(build.maximum(start, build.const(0, int64, start.shape)), last)


class Coordinates:
    """For each axis of a tensor, where its elements are found: an axis of the other side, or an index tensor."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape  # of the other side: the result of a gather, the updates of a scatter
        self.axes: list[int] = []
        self.indices: list[Node] = []

    def axis(self, k: int) -> None:
        """The same place as on the other side."""
        self.axes.append(k)

    def index(self, index: Node) -> None:
        """A place that is given by a tensor of the other side's shape."""
        self.indices.append(index)
        self.axes.append(-len(self.indices))

    def window(self, start: Node | None, k: int | None, size: IndexLike, step: int = 1) -> None:
        """Places from a start on, along an axis of the other side if there are several of them."""
        parts = [] if start is None else [start]
        if k is not None and size != 1:
            row = build.iota(size, int64)
            parts.append(along(row if step == 1 else build.scale(row, step), self.shape, k))
        if not parts:
            parts.append(build.const(0, int64, self.shape))
        self.index(parts[0] if len(parts) == 1 else build.add(*parts))


class Numbers(NamedTuple):
    """Which axis is what, for gather and scatter alike."""

    window: tuple[int, ...]  # axes of the other side that lie in a window
    collapsed: tuple[int, ...]  # axes of the tensor that are not there on the other side
    batching: tuple[int, ...]  # axes of the tensor that go along with axes of the indices
    index_batching: tuple[int, ...]
    map: tuple[int, ...]  # axes of the tensor that are indexed
    vector: int  # the axis of the indices that has one number for each of these


def _numbers(call: Call, coded: Coded, names: Sequence[str]) -> Numbers:
    lists: list[tuple[int, ...]] = []
    for name in names[:-1]:
        value = coded.get(name, ())
        if not isinstance(value, tuple) or not all(isinstance(k, int) and k >= 0 for k in value):
            call.wrong(f"{name} is no row of axes")
        lists.append(value)
    vector = coded.get(names[-1], 0)
    if not isinstance(vector, int):
        call.wrong(f"{names[-1]} is no axis")
    window, collapsed, batching, index_batching, map_ = lists
    return Numbers(window, collapsed, batching, index_batching, map_, vector)


_GATHER: Final = (
    *("offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims"),
    *("start_index_map", "index_vector_dim"),
)
_SCATTER: Final = (
    *("update_window_dims", "inserted_window_dims", "input_batching_dims", "scatter_indices_batching_dims"),
    *("scatter_dims_to_operand_dims", "index_vector_dim"),
)


def _check(call: Call, numbers: Numbers, rank: int, index_rank: int, other_rank: int) -> None:
    """Check that all axes are there, none is named twice, and those that go along with each other are as many."""
    whole = (*numbers.collapsed, *numbers.batching)
    for axes, count in (
        (numbers.window, other_rank),
        (whole, rank),
        (numbers.map, rank),
        (numbers.index_batching, index_rank),
    ):
        if len(set(axes)) != len(axes) or any(axis >= count for axis in axes):
            call.wrong(f"the axes {list(axes)} are not all there, or not all different")
    if len(numbers.batching) != len(numbers.index_batching) or numbers.vector in numbers.index_batching:
        call.wrong("batching axes do not come in pairs")


def _starts(
    call: Call, x: Node, indices: Node, numbers: Numbers, shape: Shape
) -> tuple[dict[int, Node], dict[int, int]]:
    """For each indexed axis of a tensor its starts, in the shape of the other side; and for each axis of the tensor
    that goes along with one of the indices, the axis of the other side.
    """
    vector = numbers.vector
    if vector == indices.rank:
        indices = build.reshape(indices, (*indices.shape, 1))
    if not 0 <= vector < indices.rank or indices.shape[vector] != len(numbers.map):
        call.wrong("index vectors are as long as there are indexed axes")
    batch = [k for k in range(len(shape)) if k not in numbers.window]
    own = [k for k in range(indices.rank) if k != vector]
    if len(batch) != len(own):
        call.wrong("the axes of the indices do not fit")
    indices = wide(indices)
    starts = {}
    for number, axis in enumerate(numbers.map):
        spans = [(number, 1, 1) if k == vector else (0, size, 1) for k, size in enumerate(indices.shape)]
        one = build.reshape(build.slice_(indices, spans), tuple(indices.shape[k] for k in own))
        starts[axis] = placed(one, shape, batch)
    along_with = dict(zip(numbers.batching, (batch[own.index(k)] for k in numbers.index_batching), strict=True))
    if any(x.shape[axis] != shape[k] for axis, k in along_with.items()):
        call.misfit(f"batching axes have different sizes in {list(x.shape)} and {list(shape)}")
    return starts, along_with


def _window_axes(call: Call, rank: int, numbers: Numbers) -> dict[int, int]:
    """For each axis of the tensor that is in a window, the axis of the other side."""
    inside = [k for k in range(rank) if k not in numbers.collapsed and k not in numbers.batching]
    if len(inside) != len(numbers.window):
        call.wrong("the axes of the windows do not fit")
    return dict(zip(inside, sorted(numbers.window), strict=True))


def _gather(call: Call) -> Node:
    x, indices = call.operands[:2]
    return gathered(call, x, indices, call.integers("slice_sizes"))


def _gathered_shape(call: Call, numbers: Numbers, indices: Node, sizes: Sequence[IndexLike]) -> Shape:
    """The axes of the indices with those of the windows among them."""
    batch = [size for k, size in enumerate(indices.shape) if k != numbers.vector]
    whole = {*numbers.collapsed, *numbers.batching}
    offsets = [size for k, size in enumerate(sizes) if k not in whole]
    rank = len(batch) + len(offsets)
    if len(offsets) != len(numbers.window) or any(k >= rank for k in numbers.window):
        call.wrong("the axes of the windows do not fit")
    first, second = iter(offsets), iter(batch)
    return tuple(next(first) if k in numbers.window else next(second) for k in range(rank))


def gathered(call: Call, x: Node, indices: Node, sizes: Sequence[IndexLike]) -> Node:
    """Windows of x from starts that are moved until the windows fit."""
    numbers = _numbers(call, call.coded("dimension_numbers"), _GATHER)
    fits = (  # where an axis goes along with one of the indices, there may be nothing and no window
        size == 1 if axis in numbers.batching else certain(size) and certain(whole - size)
        for axis, (size, whole) in enumerate(zip(sizes, x.shape, strict=False))
    )
    if len(sizes) != x.rank or not all(fits):
        call.misfit(f"windows of {list(sizes)} do not fit into {list(x.shape)}")
    if len(set(numbers.window)) != len(numbers.window):
        call.wrong(f"the axes {list(numbers.window)} are not all different")
    shape = _gathered_shape(call, numbers, indices, sizes)
    _check(call, numbers, x.rank, indices.rank, len(shape))
    if 0 in shape:
        return build.const(0, x.dtype, shape)
    starts, along_with = _starts(call, x, indices, numbers, shape)
    inside = _window_axes(call, x.rank, numbers)
    where = Coordinates(shape)
    for axis, size in enumerate(sizes):
        k = inside.get(axis)
        if axis in along_with:
            where.axis(along_with[axis])
        elif k is not None and x.shape[axis] == size and shape[k] == size:
            where.axis(k)  # the only start is 0
        else:
            start = starts.get(axis)
            where.window(None if start is None else clamped(start, x.shape[axis], size), k, size)
    if not where.indices:  # a GATHER has an index: that of an axis more, of size 1
        x = build.reshape(x, (1, *x.shape))
        where.index(build.const(0, int64, shape))
        where.axes.insert(0, where.axes.pop())
    return build.gather(x, where.indices, where.axes, shape)


def _dynamic_slice(call: Call) -> Node:
    if not call.operands:
        call.wrong("it has no operand")
    x, starts = call.operands[0], call.operands[1:]
    sizes = call.integers("slice_sizes")
    if len(starts) != x.rank or len(sizes) != x.rank:
        call.wrong(f"it needs a start and a size for each of {x.rank} axes")
    return dynamic_slice(x, starts, sizes, call.reading.filled)


def dynamic_slice(x: Node, starts: Sequence[Node], sizes: Sequence[int], filled: Sequence[IndexLike] = ()) -> Node:
    """A window of x whose start is moved until it fits. Sizes that are `filled` are not 0 where this runs."""
    shape = tuple(sizes)
    if 0 in shape:
        return build.const(0, x.dtype, shape)
    whole, x = x, _never_empty(x, filled)
    where = Coordinates(shape)
    for k, (start, size) in enumerate(zip(starts, sizes, strict=True)):
        if x.shape[k] == size:
            where.axis(k)
        else:
            first = clamped(wide(start), whole.shape[k], size)
            where.window(build.broadcast_to(first, shape), k, size)
    return build.gather(x, where.indices, where.axes, shape) if where.indices else x


def _never_empty(x: Node, filled: Sequence[IndexLike]) -> Node:
    """x with one element more, which is not read, along axes that are not empty where they are read."""
    for axis, size in enumerate(x.shape):
        if size in filled and not certain(size - 1):
            more = build.const(0, x.dtype, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
            x = build.concat([x, more], axis)
    return x


def _dynamic_update_slice(call: Call) -> Node:
    if len(call.operands) < 2:
        call.wrong("it has an operand and an update")
    x, update, *starts = call.operands
    if len(starts) != x.rank or update.rank != x.rank:
        call.wrong(f"it needs a start for each of {x.rank} axes")
    filled = call.reading.filled
    if not all((a == 1 and b in filled) or certain(b - a) for a, b in zip(update.shape, x.shape, strict=True)):
        call.misfit(f"an update of {list(update.shape)} does not fit into {list(x.shape)}")
    return dynamic_update_slice(x, update, starts)


def dynamic_update_slice(x: Node, update: Node, starts: Sequence[Node]) -> Node:
    """x with a window replaced, whose start is moved until it fits."""
    if update.shape == x.shape:
        return update
    if 0 in update.shape:
        return x
    where = Coordinates(update.shape)
    for k, (start, size) in enumerate(zip(starts, update.shape, strict=True)):
        if x.shape[k] == size:
            where.axis(k)
        else:
            first = clamped(wide(start), x.shape[k], size)
            where.window(build.broadcast_to(first, update.shape), k, size)
    return build.scatter("set", x, update, where.indices, where.axes)


# --- scatter


def _scatter(call: Call) -> list[Value]:
    count = (len(call.operands) - 1) // 2
    if len(call.operands) != 2 * count + 1 or count == 0:
        call.wrong("it has inputs, indices, and as many updates as inputs")
    xs, indices, updates = call.operands[:count], call.operands[count], call.operands[count + 1 :]
    numbers = _numbers(call, call.coded("scatter_dimension_numbers"), _SCATTER)
    shape = updates[0].shape
    if any(u.shape != shape for u in updates) or any(x.shape != xs[0].shape for x in xs):
        call.misfit("all inputs have one shape, and so have all updates")
    if 0 in shape or 0 in xs[0].shape:
        return list(xs)
    where = _places(call, xs[0], indices, numbers, shape)
    body = regions.read_body(call, [x.dtype for x in (*xs, *xs)], [x.dtype for x in xs])
    parts = regions.split(body, count)
    if parts is None:
        return list(_one_by_one(xs, updates, where, body))
    return [_updated(call, x, update, where, part) for x, update, part in zip(xs, updates, parts, strict=True)]


def _places(call: Call, x: Node, indices: Node, numbers: Numbers, shape: Shape) -> Coordinates:
    """Where updates go. Those outside of x are dropped one by one, or as whole windows if the rules say so."""
    _check(call, numbers, x.rank, indices.rank, len(shape))
    starts, along_with = _starts(call, x, indices, numbers, shape)
    inside = _window_axes(call, x.rank, numbers)
    sizes = [shape[inside[axis]] if axis in inside else 1 for axis in range(x.rank)]
    if call.reading.rules.whole_windows:
        starts = _whole(starts, x.shape, sizes)
    where = Coordinates(shape)
    for axis, size in enumerate(sizes):
        k = inside.get(axis)
        if axis in along_with:
            where.axis(along_with[axis])
        elif k is not None and x.shape[axis] == size and axis not in starts:
            where.axis(k)
        else:
            where.window(starts.get(axis), k, size)
    return where


def _whole(starts: dict[int, Node], shape: Shape, sizes: Sequence[IndexLike]) -> dict[int, Node]:
    """Starts of windows that lie partly outside moved to where nothing is kept of them."""
    if not starts:
        return starts
    fits = None
    for axis, start in starts.items():
        last = build.broadcast_to(build.size_node(shape[axis] - sizes[axis], int64), start.shape)
        here = build.bitwise_and(build.le(build.const(0, int64, start.shape), start), build.le(start, last))
        fits = here if fits is None else build.bitwise_and(fits, here)
    assert fits is not None
    axis, start = next(iter(starts.items()))
    far = build.broadcast_to(build.size_node(shape[axis], int64), start.shape)
    return {**starts, axis: build.where(fits, start, far)}


def _updated(call: Call, x: Node, update: Node, where: Coordinates, body: Body) -> Node:
    """x with updates combined by a body that sees one input only."""
    old, new = body.parameters
    op = "set" if body.roots[0] is new else regions.known(body)
    if op is not None and not (op == "mul" and x.dtype.is_complex):
        if op in ("add", "set") and (spread := _one_in_each_row(op, x, update, where)) is not None:
            return spread
        return build.scatter(op, x, update, where.indices, where.axes)
    if call.flag("unique_indices") and where.indices:
        before = build.gather(x, where.indices, where.axes, update.shape)
        [after] = regions.lifted(body, [before, update])
        return build.scatter("set", x, after, where.indices, where.axes)
    if old is body.roots[0]:
        return x
    return _one_by_one([x], [update], where, body)[0]


def _one_in_each_row(op: str, x: Node, update: Node, where: Coordinates) -> Node | None:
    """Zeros with at most one number put into each row, as gradients of picks are, by a comparison of places: it is
    computed where it is read. None for another update.
    """
    constant = constant_of(x)
    picked = [axis for axis, k in enumerate(where.axes) if k < 0]
    if constant is None or constant_value(constant) != 0 or len(picked) != 1:
        return None
    kept = [k for k in where.axes if k >= 0]
    others = [k for k in range(update.rank) if k not in kept]
    if any(update.shape[k] != 1 for k in others) or len(set(kept)) != len(kept):
        return None
    [axis] = picked
    narrow = tuple(1 if k == axis else size for k, size in enumerate(x.shape))
    if any(update.shape[k] != narrow[a] for a, k in enumerate(where.axes) if k >= 0):
        return None
    index, value = (build.reshape(build.permute(one, (*kept, *others)), narrow) for one in (where.indices[0], update))
    size = x.shape[axis]
    kind = int32 if certain((1 << 31) - 1 - size) else int64
    # Those outside become -1 or the size, which are not met either, and then fit.
    index = build.maximum(index, build.const(-1, int64, narrow))
    index = build.cast(build.minimum(index, build.broadcast_to(build.size_node(size, int64), narrow)), kind)
    here = build.eq(along(build.iota(size, kind), x.shape, axis), build.broadcast_to(index, x.shape))
    full = build.broadcast_to(value, x.shape)
    return build.where(here, full if op == "set" else build.add(x, full), x)


def _one_by_one(xs: Sequence[Node], updates: Sequence[Node], where: Coordinates, body: Body) -> list[Node]:
    """Updates applied in row-major order, each to what the ones before have left."""
    shape = where.shape
    total = product_of(shape)
    flat_updates = [build.reshape(update, (total,)) for update in updates]
    places = [
        build.reshape(where.indices[-1 - k] if k < 0 else along(build.iota(shape[k], int64), shape, k), (total,))
        for k in where.axes
    ]
    states = [stand_in(x.dtype, x.shape) for x in xs]
    slices = [stand_in(node.dtype, ()) for node in (*flat_updates, *places)]
    new, at = slices[: len(xs)], [build.reshape(index, (1,)) for index in slices[len(xs) :]]
    iteration = stand_in(int64, ())
    axes = [-1 - k for k in range(len(at))]
    now = [build.reshape(build.gather(state, at, axes, (1,)), ()) for state in states]
    combined = regions.lifted(body, [*now, *new])
    following = [
        build.scatter("set", state, build.reshape(value, (1,)), at, axes)
        for state, value in zip(states, combined, strict=True)
    ]
    states, slices, first, cut = map(pairs.all_parts, (states, slices, xs, (*flat_updates, *places)))
    done = closed.close([pairs.all_parts(following)], [*states, *slices, iteration], at=len(states))
    attribute = Loop(done.bodies[0], None, len(states), len(done.hoisted), len(slices), total)
    return pairs.in_pairs([x.dtype for x in xs], values_of(attribute, [*first, *done.hoisted, *cut]))


ROWS: Final = rows(
    {
        "gather": Row(_gather, ("dimension_numbers", "slice_sizes"), 2, "every start is moved until its window fits"),
        "scatter": Row(
            _scatter,
            ("scatter_dimension_numbers", "unique_indices"),
            None,
            "any body; unknown ones run one after the other",
        ),
        "dynamic_slice": Row(_dynamic_slice, ("slice_sizes",)),
        "dynamic_update_slice": Row(_dynamic_update_slice),
    }
)
