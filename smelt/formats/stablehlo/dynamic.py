"""Operations whose sizes are operands: read off what is known of these, see `sizes`."""

from __future__ import annotations

from typing import Any, Final

from smelt.formats.stablehlo import folds, indexing, movement, products, regions, sorts
from smelt.formats.stablehlo.rows import Call, Row, Value, rows
from smelt.formats.stablehlo.sizes import Condition, filled
from smelt.graph import IndexLike, Node, as_index, build, index, size_of


def known_sizes(call: Call, k: int) -> list[IndexLike]:
    """What an operand says about sizes: its elements, in row-major order."""
    operand = call.operands[k]
    elements = call.reading.entries.of(operand)
    if elements is None:
        call.wrong(f"operand {k} holds no sizes")
    found = list(elements.reshape(-1))
    for entry in found:
        if not call.reading.entries.is_size(entry):
            call.reading.unknown_size(call.operation, operand)
    return found


def lengths(call: Call, k: int, rank: int) -> list[IndexLike]:
    """The sizes of so many axes, none of which is negative."""
    found = known_sizes(call, k)
    if len(found) != rank:
        call.misfit(f"it has {len(found)} sizes for {rank} axes")
    for size in found:
        if index.upper(size) < 0:
            call.misfit(f"a size is negative: {size}")
    return [size_of(_not_negative(size)) if isinstance(size, index.Index) else size for size in found]


def _not_negative(size: index.Index) -> index.Index:
    return size if index.nonnegative(size) else index.maximum(size, 0)


def _rank(call: Call) -> int:
    """How many axes the declared result has."""
    kind = call.operation.types[0] if call.operation.types else None
    if not hasattr(kind, "sizes"):
        call.wrong("its result is no tensor")
    return len(kind.sizes)  # type: ignore[union-attr]


def _reshape(call: Call) -> Node:
    return build.reshape(call.operands[0], lengths(call, 1, _rank(call)))


def _broadcast(call: Call) -> Node:
    x, shape = call.operands[0], tuple(lengths(call, 1, _rank(call)))
    return movement.placed(x, shape, call.axes("broadcast_dimensions", len(shape), x.rank))


def _iota(call: Call) -> Node:
    shape, axis = lengths(call, 0, _rank(call)), call.integer("iota_dimension")
    if not 0 <= axis < len(shape):
        call.wrong(f"there is no axis {axis}")
    return movement.iota(call.dtype, shape, axis)


def _pad(call: Call) -> Node:
    x, fill = call.operands[:2]
    low, high, gaps = (known_sizes(call, k) for k in (2, 3, 4))
    if not len(low) == len(high) == len(gaps) == x.rank:
        call.wrong(f"it needs three numbers for each of {x.rank} axes")
    if any(index.least(gap) < 0 for gap in gaps):
        call.wrong("interior padding is negative")
    return movement.padded(movement.spread_out(x, gaps, fill), list(zip(low, high, strict=True)), fill)


def _gather(call: Call) -> Node:
    x, indices = call.operands[:2]
    return indexing.gathered(call, x, indices, lengths(call, 2, x.rank))


def _slice(call: Call) -> Node:
    """From starts up to limits. The starts may be values, where the sizes are known for all that."""
    x: Node = call.operands[0]
    starts, limits = (_elements(call, k) for k in (1, 2))
    steps = [step for step in known_sizes(call, 3) if isinstance(step, int) and step > 0]
    if not len(starts) == len(limits) == len(steps) == x.rank:
        call.wrong(f"it needs a start, a limit and a positive stride for each of {x.rank} axes")
    counts = [size_of((as_index(b) - a + (s - 1)) // s) for a, b, s in zip(starts, limits, steps, strict=True)]
    entries = call.reading.entries
    if not all(entries.is_size(n) for n in counts):
        call.reading.unknown_size(call.operation, call.operands[2])
    if all(entries.is_size(a) for a in starts):
        return build.slice_(x, list(zip(starts, counts, steps, strict=True)))
    shape = tuple(counts)
    where = indexing.Coordinates(shape)
    for axis, (count, step) in enumerate(zip(counts, steps, strict=True)):
        if x.shape[axis] == count and step == 1:
            where.axis(axis)
            continue
        start = build.reshape(build.slice_(call.operands[1], [(axis, 1, 1)]), ())
        reach = size_of(as_index(count - 1) * step + 1)
        first = indexing.clamped(indexing.wide(start), x.shape[axis], reach)
        where.window(build.broadcast_to(first, shape), axis, count, step)
    return build.gather(x, where.indices, where.axes, shape) if where.indices else x


def _elements(call: Call, k: int) -> list[Any]:
    elements = call.reading.entries.of(call.operands[k])
    if elements is None:
        call.wrong(f"operand {k} holds no sizes")
    return list(elements.reshape(-1))


def _convolution(call: Call) -> Node:
    x, _, pads = call.operands
    flat = known_sizes(call, 2)
    if pads.rank != 2 or len(flat) != 2 * (x.rank - 2):
        call.wrong(f"its padding is a pair for each of {x.rank - 2} axes")
    return products.convolution(call, list(zip(flat[::2], flat[1::2], strict=True)))


# --- custom_call


def reduce_window(call: Call) -> list[Value]:
    """Windows whose numbers are operands: sizes, steps, dilations, padding."""
    count = (len(call.operands) - 5) // 2
    if count < 1 or len(call.operands) != 2 * count + 5:
        call.wrong("it has inputs, as many first values, and five rows of numbers")
    xs, inits = call.operands[:count], call.operands[count : 2 * count]
    rank = xs[0].rank
    sizes, *others, flat = (known_sizes(call, k) for k in range(2 * count, 2 * count + 5))
    fixed = [[n for n in row if isinstance(n, int)] for row in others]
    steps, gaps, dilations = fixed
    if any(len(row) != rank for row in (sizes, steps, gaps, dilations)) or len(flat) != 2 * rank:
        call.wrong(f"it needs numbers for each of {rank} axes, of which only sizes and padding may be symbolic")
    names = call.attribute("called_computations") or (None,)
    body = regions.read_function(call, str(getattr(names[0], "name", "")), [x.dtype for x in (*inits, *inits)])
    pads = list(zip(flat[::2], flat[1::2], strict=True))
    return folds.reduce_windows(call, xs, inits, body, folds.Windows(sizes, steps, gaps, dilations, pads))


def top_k(call: Call) -> list[Value]:
    """`chlo.top_k` with the number of elements as an operand."""
    [count] = known_sizes(call, 1)
    return sorts.best(call, call.operands[0], count)


def shape_assertion(call: Call) -> list[Value]:
    """What the sizes must fulfil: it holds, it is an error, or it is looked at in every call."""
    entries = call.reading.entries
    asserted, *values = call.operands
    known = entries.of(asserted)
    entry = None if known is None or known.shape != () else known[()]
    told = [entries.of(x) for x in values]
    numbers = [None if x is None or x.shape != () else x[()] for x in told]
    message = str(call.attribute("error_message") or "the sizes do not fit")
    if entry == 0:
        call.reading.refuse_sizes(call.operation, filled(message, numbers))
    if isinstance(entry, Condition) and entries.is_size(entry.amount):
        call.reading.asserted(call.operation, entry, message, numbers)
    elif entry != 1:
        call.reading.unknown_size(call.operation, asserted)
    return []


_SIZES: Final = "sizes that follow from those of arguments, or from arguments that are numbers"

ROWS: Final = rows(
    {
        "dynamic_reshape": Row(_reshape, (), 2, _SIZES),
        "dynamic_broadcast_in_dim": Row(_broadcast, ("broadcast_dimensions",), 2, _SIZES),
        "dynamic_iota": Row(_iota, ("iota_dimension",), 1, _SIZES),
        "dynamic_pad": Row(_pad, (), 5, _SIZES),
        "dynamic_gather": Row(_gather, ("dimension_numbers",), 3, _SIZES),
        "dynamic_conv": Row(
            _convolution,
            (
                *("dimension_numbers", "window_strides", "lhs_dilation", "rhs_dilation"),
                *("window_reversal", "feature_group_count", "batch_group_count"),
            ),
            3,
            _SIZES,
        ),
        "real_dynamic_slice": Row(_slice, (), 4, f"{_SIZES}; starts may be any values"),
    }
)
__all__ = ["ROWS", "known_sizes", "lengths", "shape_assertion"]
