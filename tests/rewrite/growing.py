"""Random nodes: one step on top of what is there, whole graphs, and for each rule the nodes on which it fires."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import product
from random import Random
from typing import TypeVar

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph import BINARY, UNARY, build
from smelt.graph.index import Dim, IndexLike, upper
from smelt.graph.node import Node, make
from smelt.graph.ops import Op, Span
from smelt.rewrite import RULES
from tests.rewrite.sampling import any_order
from tests.turns import TEST_ALL

T = TypeVar("T")
Step = Callable[["Grower", Node], Node | None]
N = Dim("n", 0, 9)
SIZES: tuple[IndexLike, ...] = (*(1, 1, 1, 2, 2, 3, 3, 5, N) * 3, 0)


class Sample:
    """Stands for the storage of a leaf."""


def leaf(dtype: DType, *shape: IndexLike) -> Node:
    """A fresh input."""
    return make(Op.LEAF, dtype, shape, (), Sample())


class Grower:
    """Grows a random graph, one node at a time, from leaves, constants and what is there already."""

    def __init__(self, random: Random, dtype: DType) -> None:
        self.random, self.dtype = random, dtype
        self.pool = [self.leaf(self.number(0, 4)), self.leaf(self.number(1, 3))]

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def coin(self) -> bool:
        return self.random.random() < 0.5

    def pick(self, options: Sequence[T]) -> T:
        return self.random.choice(options)

    def leaf(self, rank: int) -> Node:
        return leaf(self.dtype, *(self.pick(SIZES) for _ in range(rank)))

    def grow(self) -> None:
        self.apply(self.pick(STEPS), self.pool[-1] if self.random.random() < 0.8 else self.pick(self.pool))

    def apply(self, step: Step, x: Node | None = None) -> None:
        node = step(self, x or self.pool[-1])
        if node is not None and np.prod([upper(size) for size in node.shape]) < 4_000:
            if node.dtype is not self.dtype:
                self.dtype, self.pool = node.dtype, []
            self.pool.append(node)


def _reshape(g: Grower, x: Node) -> Node:
    shape = list(x.shape)
    for _ in range(g.number(1, 3)):
        at = g.number(0, len(shape))
        kind = g.number(0, 2)
        if kind == 0 and len(shape) < 5:
            shape.insert(at, 1)
        elif kind == 1 and 1 in shape:
            shape.remove(1)
        elif at + 1 < len(shape) and all(isinstance(size, int) for size in shape[at : at + 2]):
            shape[at : at + 2] = [shape[at] * shape[at + 1]]
    return build.reshape(x, tuple(shape))


def _permute(g: Grower, x: Node) -> Node:
    return build.permute(x, g.random.sample(range(x.rank), x.rank))


def _expand(g: Grower, x: Node) -> Node:
    return build.expand(x, tuple(g.pick((*SIZES, 1, 4)) if size == 1 else size for size in x.shape))


def _slice(g: Grower, x: Node) -> Node:
    spans = []
    for size in x.shape:
        if not isinstance(size, int):
            spans.append(g.pick((Span(0, size, 1), Span(size - 1, size, -1))))
            continue
        start, stop, step = g.number(0, size), g.number(0, size), g.number(1, 3)
        positions = range(start, stop, step) if start <= stop else range(start - 1, stop - 1, -step)
        spans.append(Span(positions.start, len(positions), positions.step) if positions else Span(0, 0, 1))
    return build.slice_(x, spans)


def _pad(g: Grower, x: Node) -> Node:
    fill = build.const(g.number(0, 1), g.dtype)
    return build.pad(x, [(g.number(0, 2), g.number(0, 1)) for _ in x.shape], fill)


def _concat(g: Grower, x: Node) -> Node | None:
    if not x.rank:
        return None
    axis = g.number(0, x.rank - 1)
    fits = [y for y in g.pool if y.rank == x.rank and all(y.shape[i] == x.shape[i] for i in range(x.rank) if i != axis)]
    return build.concat([x, *(g.pick(fits) for _ in range(g.number(0, 2)))], axis)


def _unary(g: Grower, x: Node) -> Node:
    names = ("neg", "abs", "sign") if not g.dtype.is_bool else ("not",)
    return build.unary(g.pick(names), x)


def _binary(g: Grower, x: Node) -> Node:
    names = ("add", "sub", "mul", "max", "min") if not g.dtype.is_bool else ("and", "or", "xor", "max", "eq")
    name = g.pick(names)
    if g.coin():
        return build.binary(name, x, build.const(g.pick((0, 1, -1, -0.0)), g.dtype, x.shape))
    fits = [y for y in g.pool if y.shape == x.shape] + [leaf(g.dtype, *((1,) * x.rank)), leaf(g.dtype)]
    return build.binary(name, x, g.pick(fits))


def _split(g: Grower, x: Node) -> Node | None:
    """A tensor cut in two and joined again."""
    axes = [axis for axis, size in enumerate(x.shape) if isinstance(size, int) and size > 1]
    if not axes:
        return None
    axis = g.pick(axes)
    size = x.shape[axis]
    assert isinstance(size, int)
    at = g.number(0, size)

    def part(start: int, stop: int) -> Node:
        whole = [Span(0, other, 1) for other in x.shape]
        return build.slice_(x, [*whole[:axis], Span(start, stop - start, 1), *whole[axis + 1 :]])

    pieces = [part(0, at), part(at, size)]
    return build.concat(pieces[:: g.pick((1, 1, -1))], axis)


def _written_out(g: Grower, x: Node) -> Node | None:
    """A matrix product as a sum of products."""
    if not x.rank or g.dtype.is_bool:
        return None
    y = leaf(g.dtype, x.shape[-1], g.number(1, 3))
    return build.reduce("add", build.binary("mul", build.reshape(x, (*x.shape, 1)), y), (x.rank - 1,))


def _outer(g: Grower, x: Node) -> Node:
    y = g.leaf(1)
    return build.binary("max" if g.dtype.is_bool else "mul", build.reshape(x, (*x.shape, 1)), y)


def _where(g: Grower, x: Node) -> Node:
    y = g.pick([y for y in g.pool if y.shape == x.shape])
    return build.where(build.binary("le", x, y), y, build.unary("not" if g.dtype.is_bool else "neg", x))


def _cast(g: Grower, x: Node) -> Node:
    return build.cast(build.cast(x, g.pick((dtypes.int64, dtypes.float64, dtypes.int8))), g.dtype)


def _reduce(g: Grower, x: Node) -> Node | None:
    axes = [axis for axis in range(x.rank) if g.coin()]
    names = ("add", "add", "max", "min") if not g.dtype.is_bool else ("max", "min")
    name = g.pick(names)
    if any(x.shape[axis] in (0, N) for axis in axes) and name != "add":
        return None  # infinities would spread
    return build.reduce(name, x, axes, keep_axes=g.coin())


def _contract(g: Grower, x: Node) -> Node | None:
    if g.dtype.is_bool:
        return None
    labels = range(x.rank)
    known_sizes = dict(zip(labels, x.shape, strict=True)) | {x.rank: g.number(1, 3)}
    right = g.random.sample(list(known_sizes), g.number(0, min(3, len(known_sizes))))
    y = leaf(g.dtype, *(known_sizes[label] for label in right))
    known = sorted({*labels, *right})
    out = g.random.sample(known, g.number(0, len(known)))
    return build.contract(x, y, labels, right, out)


def _window(g: Grower, x: Node) -> Node | None:
    if not x.rank:
        return None
    axis = g.number(0, x.rank - 1)
    size = x.shape[axis]
    if not isinstance(size, int) or not size:
        return None
    length = g.number(1, size)
    return build.window(x, axis, length, g.pick((1, 2, length)), 1)


STEPS = (
    *(_reshape, _reshape, _permute, _permute, _expand, _expand, _slice, _slice, _pad, _pad, _concat),
    *(
        _unary,
        _unary,
        _binary,
        _binary,
        _binary,
        _split,
        _written_out,
        _outer,
        _where,
        _cast,
        _reduce,
        _reduce,
        _contract,
        _contract,
    ),
)


# --- what rules fire on

NO_BITS = frozenset({dtypes.bool_, *dtypes.STORAGE})
ALL_DTYPES = tuple(d for d in dtypes.ALL + dtypes.STORAGE if d.bits >= 8)
SOME_DTYPES = (dtypes.float32, dtypes.int32, dtypes.bfloat16, dtypes.uint8, dtypes.bool_)
CONSTANTS = (0, 1, -1, 2, -0.0, float("inf"), float("-inf"), "minimum", "maximum")
TURNS = 100 if TEST_ALL else 25  # shapes and arguments of each pair of steps
PER_RULE = 1_000 if TEST_ALL else 24  # examples of each op at most, spread over all that were found


def _constants(dtype: DType) -> Iterator[Node]:
    """The constants of a dtype that functions may have a rule for."""
    for value in CONSTANTS:
        known = getattr(dtype, value) if isinstance(value, str) else value
        if dtype.is_float or (abs(known) != float("inf") and str(known) != "-0.0"):
            yield build.const(known, dtype, (17,))


def _elementwise() -> Iterator[Node]:
    """Every function of every pair of dtype and constant, of one operand twice, and of another function."""
    for dtype in ALL_DTYPES if TEST_ALL else (*SOME_DTYPES, dtypes.float16, dtypes.float8_e5m2):
        x, y = leaf(dtype, 17), leaf(dtype, 17)
        yield from _casts(x)
        if dtype in dtypes.STORAGE:
            continue
        constants = list(_constants(dtype))
        functions = [name for name, function in UNARY.items() if function.takes(dtype)]
        inner = [build.unary(name, x) for name in functions]
        yield from (build.unary(name, z) for name in functions for z in (*constants, *inner) if z.dtype is dtype)
        for name, function in BINARY.items():
            if function.takes(dtype):
                negated = [build.unary("neg", z) for z in (x, y)] if not dtype.is_bool else []
                pairs = product((x, *negated, *constants), (x, y, *negated, *constants[:4]))
                pairs = (*pairs, *product((x,), constants))
                yield from (build.binary(name, a, b) for a, b in pairs)
        yield from _conditions(x, y, constants)


def _conditions(a: Node, b: Node, constants: list[Node]) -> Iterator[Node]:
    condition, other = leaf(dtypes.bool_, 17), leaf(dtypes.bool_, 17)
    known = [build.const(value, dtypes.bool_, (17,)) for value in (True, False)]
    for test in (condition, build.unary("not", condition), *known):
        inner = build.where(condition, a, b)
        below = [inner, build.where(other, inner, a), *([] if a.dtype.is_bool else [build.unary("abs", inner)])]
        operands = (a, b, *constants[:2], *below)
        yield from (build.where(test, yes, no) for yes, no in product(operands, operands))


def _casts(x: Node) -> Iterator[Node]:
    yield from (build.cast(z, dtype) for z in _constants(x.dtype) for dtype in ALL_DTYPES)
    for middle, target in product(ALL_DTYPES, ALL_DTYPES):
        yield build.cast(build.cast(x, middle), target)
        if x.dtype.bits == middle.bits == target.bits and not NO_BITS & {x.dtype, middle, target}:
            yield build.bitcast(build.bitcast(x, middle), target)


def _constant(g: Grower, x: Node) -> Node:
    return build.const(g.number(0, 3), g.dtype, x.shape)


def _iota(g: Grower, x: Node) -> Node:
    return build.iota(g.number(0, 2), dtypes.int32 if g.dtype.is_bool else g.dtype)


def _wide(g: Grower, x: Node) -> Node:
    return build.cast(x, dtypes.float64 if g.dtype.is_float else dtypes.int64)


def _total(g: Grower, x: Node) -> Node:
    """Any reduction, over axes of any size."""
    name = g.pick(("max", "min") if g.dtype.is_bool else ("add", "add", "mul", "min"))
    return build.reduce(name, x, [axis for axis in range(x.rank) if g.coin()])


def _matmul(g: Grower, x: Node) -> Node | None:
    if x.rank < 2 or g.dtype.is_bool:
        return None
    return build.matmul(x, leaf(g.dtype, *x.shape[:-2], x.shape[-1], g.pick((1, 3))))


_STACKED: tuple[Step, ...] = (_reshape, _permute, _expand, _slice, _pad, _concat, _window, _constant, _iota)
_STACKED += (_unary, _binary, _wide, _split, _written_out, _total, _contract, _matmul)


def _stacked() -> Iterator[Node]:
    """Every step on every other, with many shapes and arguments; and movements with a cast in between."""
    movements = [(step, _wide, step) for step in (_reshape, _permute, _slice)]
    for at, steps in enumerate((*product(_STACKED, _STACKED), *movements)):
        for turn in range(TURNS):
            g = Grower(Random(at * TURNS + turn), SOME_DTYPES[turn % len(SOME_DTYPES)])
            g.pool = [g.leaf(g.number(2, 4))]
            for step in steps:
                g.apply(step)
            yield g.pool[-1]


def _odd() -> Iterator[Node]:
    """What steps seldom meet, and what rules only just must leave alone."""
    f32, n = dtypes.float32, Dim("n", 1, 9)
    yield build.reshape(build.reshape(leaf(f32, n, 6), (n * 6,)), (n, 2, 3))
    yield build.reshape(build.expand(leaf(f32, 4, 6, 1, 1), (4, 6, 3, 5)), (2, 12, 15))
    yield build.reduce("max", build.expand(leaf(f32, 1, 3), (n, 3)), (0,))
    yield from (build.reduce("mul", build.const(value, dtypes.int16, (7, 3)), (0,)) for value in (3, -1, 0))
    fill = leaf(f32)
    padded = build.pad(leaf(f32, 5, 7), ((2, 1), (0, 3)), fill)
    yield build.pad(padded, ((0, 3), (1, 1)), fill)
    for rows, columns in (
        ((2, 5, 1), (0, 7, 1)),
        ((6, 2, -3), (2, 3, 1)),
        ((0, 2, 1), (2, 3, 1)),
        ((0, 8, 1), (9, 2, -1)),
    ):
        yield build.slice_(padded, (rows, columns))
    joined = build.concat([leaf(f32, size, 4) for size in (2, 3, 5)], 0)
    spans = ((2, 3, 1), (9, 3, -2), (1, 4, 1), (0, 3, 2), (3, 3, 2), (4, 3, -2))
    yield from (build.slice_(joined, (span, (0, 4, 1))) for span in spans)
    x = leaf(f32, 6, 5)
    parts = [build.slice_(x, ((0, 3, 1), (at, 2, 1))) for at in (0, 1)] + [build.slice_(x, ((3, 3, 1), (1, 2, 1)))]
    yield from (build.concat([a, b], axis) for a in parts for b in parts for axis in (0, 1))
    yield from (build.window(x, 0, 3, step) for step in (1, 2, 3, 4))
    half = build.reshape(build.cast(leaf(dtypes.float16, 3, 4), f32), (3, 4, 1))
    yield build.reduce("add", build.binary("mul", half, leaf(f32, 1, 4, 5)), (1,))
    yield build.reduce("add", build.matmul(leaf(f32, 2, 3, 4), leaf(f32, 2, 4, 5)), (0,))
    yield build.contract(leaf(dtypes.float16, 3), leaf(dtypes.float16, 5), (0,), (1,), (1, 0), f32)
    one, zero, nan = (build.const(value, f32, (3, 4)) for value in (1.0, 0.0, float("nan")))
    chosen = [build.where(leaf(dtypes.bool_, 3, 4), a, b) for a, b in ((one, zero), (zero, one), (nan, zero))]
    yield from (build.binary(name, x, zero) for name in ("eq", "ne", "lt", "le") for x in chosen)
    yield from (build.binary(name, one, x) for name in ("eq", "lt", "le") for x in chosen)
    yield from (build.cast(x, dtype) for dtype in (dtypes.bool_, dtypes.int8, dtypes.float16) for x in chosen)


@cache
def examples() -> dict[str, list[Node]]:
    """For each rule by name, nodes on which it fires."""
    found: dict[tuple[str, Op, bool], list[Node]] = defaultdict(list)
    rules = {op: [rule for rule in RULES if op in rule.ops] for op in Op}
    for node in dict.fromkeys((*_elementwise(), *_stacked(), *_odd())):
        for rule in rules[node.op]:
            if (not rule.functions or node.attribute in rule.functions) and rule.function(node) is not None:
                found[rule.name, node.op, any_order(node)].append(node)
    chosen: dict[str, list[Node]] = defaultdict(list)
    for (name, _, _), nodes in found.items():
        chosen[name] += nodes[:: -(-len(nodes) // PER_RULE)]
    return chosen
