"""Sorting by any comparator: known ones by SORT, others by a network."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from smelt.dtypes import bool_, int64
from smelt.formats.stablehlo import elementwise, movement, regions
from smelt.formats.stablehlo.regions import Body
from smelt.formats.stablehlo.rows import Call, Row, Value, rows
from smelt.graph import IndexLike, Node, as_index, build, certain, pairs, upper

_LARGEST_NETWORK = 1 << 12


class Key(NamedTuple):
    """One operand by which elements are ordered."""

    operand: int
    descending: bool
    total: bool  # floats by TOTALORDER: zeros and NaNs of both signs differ


def _canonical(x: Node) -> Node:
    """A float as JAX compares it: one zero and one NaN."""
    zero = elementwise.number(0.0, x)
    plain = elementwise.select(build.eq(x, zero), zero, x)
    return elementwise.select(build.ne(x, x), elementwise.number(float("nan"), x), plain)


def _compared(a: Node, b: Node, descending: bool, form: str) -> tuple[Node, Node]:
    """Whether a comes before b, and whether they are alike."""
    direction = "GT" if descending else "LT"
    if form == "canonical" and a.dtype.is_float:
        a, b = _canonical(a), _canonical(b)
    kind = "FLOAT" if form == "float" else "TOTALORDER"
    return elementwise.compare(direction, a, b, kind), elementwise.compare("EQ", a, b, kind)


def _known(body: Body) -> list[Key] | None:
    """The keys of a comparator: `a0 < b0`, or `a0 < b0 or (a0 == b0 and (a1 < b1 …))`, as JAX prints it."""
    sides = body.parameters[0::2], body.parameters[1::2]
    for form in ("canonical", "total", "float"):
        for descending in (False, True):
            for keys in range(1, len(sides[0]) + 1):
                if _nested(sides, keys, descending, form) == body.roots[0]:
                    return [Key(k, descending, form == "total") for k in range(keys)]
    if len(sides[0]) > 1:
        for k, (a, b) in enumerate(zip(*sides, strict=True)):
            for form in ("canonical", "total", "float"):
                for descending in (False, True):
                    if _compared(a, b, descending, form)[0] is body.roots[0]:
                        return [Key(k, descending, form == "total")]
    return None


def _nested(sides: tuple[list[Node], list[Node]], keys: int, descending: bool, form: str) -> Node:
    pairs = list(zip(*sides, strict=True))[:keys]
    before, _ = _compared(*pairs[-1], descending, form)
    for a, b in reversed(pairs[:-1]):
        first, same = _compared(a, b, descending, form)
        before = build.binary("or", first, build.bitwise_and(same, before))
    return before


def _sort(call: Call) -> list[Value]:
    xs = call.operands
    if not xs:
        call.wrong("there is nothing to sort")
    rank = xs[0].rank
    axis = call.integer("dimension", -1)
    axis += rank if axis < 0 else 0
    if any(x.shape != xs[0].shape for x in xs) or not 0 <= axis < max(rank, 1):
        call.wrong("all operands have one shape, and the axis is one of theirs")
    body = regions.read_body(call, [dtype for x in xs for dtype in (x.dtype, x.dtype)], [bool_])
    return list(pairs.in_pairs([x.dtype for x in xs], _sorted(call, *_in_parts(xs, body), axis)))


def _in_parts(xs: Sequence[Node], body: Body) -> tuple[list[Node], Body]:
    """Complex operands as two real ones, beside each other."""
    sides = zip(body.parameters[0::2], body.parameters[1::2], strict=True)
    parameters = [x for a, b in sides for both in zip(*map(pairs.all_parts, ([a], [b])), strict=True) for x in both]
    return pairs.all_parts(xs), Body(parameters, body.roots)


def _sorted(call: Call, xs: list[Node], body: Body, axis: int) -> Sequence[Value]:
    rank = xs[0].rank
    if rank == 0 or xs[0].shape[axis] in (0, 1) or 0 in xs[0].shape:
        return xs
    keys = _known(body)
    if keys is None:
        return _network(call, xs, axis, body)
    if len(xs) == 1 and len(keys) == 1 and not (keys[0].total and xs[0].dtype.is_float):
        return [build.sort(xs[0], axis, descending=keys[0].descending)]
    order = positions([(_key(xs[key.operand], key), key.descending) for key in keys], axis)
    return [taken(x, order, axis) for x in xs]


def _key(x: Node, key: Key) -> Node:
    return elementwise.total_order(x) if key.total and x.dtype.is_float else x


def positions(keys: Sequence[tuple[Node, bool]], axis: int) -> Node:
    """Where the elements of several keys stand that come first, second …: the last key is sorted by first, and every
    sort keeps the order that it finds among equals.
    """
    order: Node | None = None
    for key, descending in reversed(keys):
        now = key if order is None else taken(key, order, axis)
        step = build.sort(now, axis, descending=descending, indices=True)
        order = step if order is None else taken(order, step, axis)
    assert order is not None
    return order


def taken(x: Node, order: Node, axis: int) -> Node:
    """The elements at these positions of an axis."""
    return build.gather(x, [order], [-1 if k == axis else k for k in range(x.rank)], order.shape)


def _network(call: Call, xs: Sequence[Node], axis: int, body: Body) -> list[Value]:
    """A bitonic network, whose last key is the position, so that equals keep their order. What is missing to a power of
    two is filled with elements that come last.
    """
    size = xs[0].shape[axis]
    if not isinstance(size, int) or size > _LARGEST_NETWORK:
        call.refuse(f"an unknown comparator over more than {_LARGEST_NETWORK} elements")
    wide = 1 << (size - 1).bit_length()
    pads = [(0, wide - size if k == axis else 0) for k in range(xs[0].rank)]
    full = [build.pad(x, pads, build.const(0, x.dtype)) for x in xs]
    place = movement.iota(int64, full[0].shape, axis)
    data = [*full, place]
    block = 2
    while block <= wide:
        step = block // 2
        while step:
            data = _exchanged(data, axis, step, block, size, body)
            step //= 2
        block *= 2
    spans = [(0, size if k == axis else n, 1) for k, n in enumerate(full[0].shape)]
    return [build.slice_(x, spans) for x in data[:-1]]


def _exchanged(data: Sequence[Node], axis: int, step: int, block: int, size: int, body: Body) -> list[Node]:
    """Elements `step` apart put in order: ascending in even blocks, descending in odd ones."""
    shape = data[0].shape
    count = upper(shape[axis])
    split = (*shape[:axis], count // (2 * step), 2, step, *shape[axis + 1 :])

    def side(x: Node, which: int) -> Node:
        return build.slice_(x, [(which, 1, 1) if k == axis + 1 else (0, n, 1) for k, n in enumerate(x.shape)])

    pairs = [(side(build.reshape(x, split), 0), side(build.reshape(x, split), 1)) for x in data]
    values, (here, there) = pairs[:-1], pairs[-1]

    def before(a: Sequence[Node], i: Node, b: Sequence[Node], j: Node) -> Node:
        first = regions.lifted(body, [x for pair in zip(a, b, strict=True) for x in pair])[0]
        second = regions.lifted(body, [x for pair in zip(b, a, strict=True) for x in pair])[0]
        tie = build.bitwise_and(build.logical_not(second), build.lt(i, j))
        inside = build.binary("or", first, tie)
        end = build.const(size, int64, i.shape)
        real_a, real_b = build.lt(i, end), build.lt(j, end)
        both = build.bitwise_and(real_a, real_b)
        return build.where(both, inside, build.where(real_a, build.const(True, bool_, i.shape), build.lt(i, j)))

    ordered = before([a for a, _ in values], here, [b for _, b in values], there)
    groups = movement.iota(int64, here.shape, axis)
    odd = build.binary(
        "and",
        build.binary("floordiv", groups, elementwise.number(max(block // (2 * step), 1), groups)),
        elementwise.number(1, groups),
    )
    keeps = build.eq(ordered, build.eq(odd, elementwise.number(0, odd)))
    found = []
    for a, b in pairs:
        low, high = build.where(keeps, a, b), build.where(keeps, b, a)
        found.append(build.reshape(build.concat([low, high], axis + 1), shape))
    return found


def top_k(call: Call) -> list[Value]:
    """The largest elements of the last axis, and where they stood: the first of equals first. Floats are in the total
    order: -NaN, -inf … -0, 0 … inf, NaN.
    """
    (x,) = call.operands
    return best(call, x, call.integer("k"))


def best(call: Call, x: Node, count: IndexLike) -> list[Value]:
    """So many of the largest elements of the last axis, and where they stood."""
    axis = x.rank - 1
    if axis < 0 or not (certain(as_index(count)) and certain(as_index(x.shape[axis] - count))):
        call.wrong(f"there are no {count} elements")
    key = elementwise.total_order(x) if x.dtype.is_float else x
    order = build.sort(key, axis, descending=True, indices=True, count=count)
    return [taken(x, order, axis), build.cast(order, call.reading.dtype(call.operation, call.operation.types[1]))]


ROWS: Final = {
    **rows({"sort": Row(_sort, ("dimension", "is_stable"), None, "any comparator; unknown ones up to 4096 elements")}),
    **rows({"top_k": Row(top_k, ("k",), 1)}, "chlo"),
}
