"""Random small graphs with values for their leaves, from a seed."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph import build, infer_reshape
from smelt.graph.index import Dim, IndexLike, as_index
from smelt.graph.node import Node, Shape, make
from smelt.graph.ops import BINARY, REDUCTIONS, SCANS, UNARY, Function, Op

N = Dim("n", 0, 7)
M = Dim("other dim", 1, 5)
SIZES: tuple[IndexLike, ...] = (0, 1, 1, 2, 3, 5, 7, N, M)
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.nan, np.inf, -np.inf, 0.5, 3e38, 1e-40, -7.25, 65504.0)


class Program(NamedTuple):
    """Roots, the value of each leaf, and the value of each dim."""

    roots: list[Node]
    leaves: dict[Node, NDArray[Any]]
    dims: dict[str, int]


def leaf(dtype: DType, shape: Shape) -> Node:
    """A leaf without a value."""
    return make(Op.LEAF, dtype, shape, (), object())


def values(rng: random.Random, dtype: DType, shape: tuple[int, ...]) -> NDArray[Any]:
    """Values of a dtype, with every kind of odd one among them."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype.is_float:
        picked = [rng.choice(SPECIAL) if rng.random() < 0.3 else rng.gauss(0, 3) for _ in range(count)]
    elif dtype.is_bool:
        picked = [rng.random() < 0.5 for _ in range(count)]
    else:
        low, high = int(dtype.minimum), int(dtype.maximum)
        ends = (low, high, 0, 1, max(low, -1))
        picked = [rng.choice(ends) if rng.random() < 0.3 else rng.randint(max(low, -9), 9) for _ in range(count)]
        return np.array(picked, dtype.numpy).reshape(shape)
    with np.errstate(all="ignore"):
        return np.array(picked, np.float64).astype(dtype.numpy).reshape(shape)


def _taken(rng: random.Random, pool: list[Node], function: Function) -> Node | None:
    fitting = [x for x in pool if function.takes(x.dtype)]
    return rng.choice(fitting) if fitting else None


def _elementwise(rng: random.Random, pool: list[Node]) -> Node | None:
    name = rng.choice(sorted(UNARY) + sorted(BINARY))
    table = UNARY if name in UNARY else BINARY
    x = _taken(rng, pool, table[name])
    if x is None or table is UNARY:
        return x and build.unary(name, x)
    same = [y for y in pool if y.dtype is x.dtype and y.shape == x.shape]
    other = rng.choice([*same, build.const(rng.choice((0, 1, 3)), x.dtype)])
    return build.binary(name, x, other)


def _movement(rng: random.Random, pool: list[Node]) -> Node | None:
    x = rng.choice(pool)
    match rng.choice(("reshape", "permute", "expand", "pad", "slice", "concat", "flip", "window")):
        case "reshape":
            if rng.random() < 0.5 or x.rank == 0:
                return build.reshape(x, (1, *x.shape))
            return build.reshape(x, infer_reshape(x.shape, (-1,))) if 0 not in x.shape else x
        case "permute":
            return build.permute(x, rng.sample(range(x.rank), x.rank))
        case "expand":
            return build.expand(x, tuple(rng.choice(SIZES) if size == 1 else size for size in x.shape))
        case "pad":
            widths = [(rng.randint(0, 2), rng.choice((0, 1, N))) for _ in x.shape]
            return build.pad(x, widths, build.const(1, x.dtype))
        case "slice":
            spans = []
            for size in x.shape:
                cut = rng.randint(0, size) if isinstance(size, int) else 0
                spans.append((cut, size - cut, 1))
            return build.slice_(x, spans)
        case "window":
            return _windows(rng, x)
        case "flip":
            return build.slice_(x, [(size - 1, size, -1) for size in x.shape])
        case _:
            return build.concat([x, x], rng.randrange(x.rank)) if x.rank else None


def _windows(rng: random.Random, x: Node) -> Node | None:
    """Windows along an axis that is certain to have room for one."""
    size, dilation = rng.randint(1, 3), rng.randint(1, 2)
    reach = (size - 1) * dilation + 1
    wide = [axis for axis, n in enumerate(x.shape) if (n if isinstance(n, int) else n.low) >= reach]
    return build.window(x, rng.choice(wide), size, rng.randint(1, 3), dilation) if wide else None


def _other(rng: random.Random, pool: list[Node]) -> Node | None:
    x = rng.choice(pool)
    match rng.choice(("cast", "where", "reduce", "matmul", "softmax", "iota", "bitcast", "gather", "scan")):
        case "cast":
            return build.cast(x, rng.choice(dtypes.ALL))
        case "where":
            return build.where(build.cast(x, dtypes.bool_), x, build.const(0, x.dtype))
        case "reduce":
            op = rng.choice(REDUCTIONS)
            axes = [axis for axis in range(x.rank) if rng.random() < 0.5]
            return None if x.dtype.is_bool else build.reduce(op, x, axes, keep_axes=rng.random() < 0.5)
        case "matmul":
            if x.rank < 2 or x.dtype.is_bool:
                return None
            return build.matmul(x, build.permute(x, (*range(x.rank - 2), x.rank - 1, x.rank - 2)))
        case "scan":
            op = rng.choice(SCANS if x.dtype.is_float else ("max", "min") if x.dtype.is_bool else REDUCTIONS)
            return build.scan(op, x, rng.randrange(x.rank)) if x.rank else None
        case "softmax":
            return build.composite("softmax", x, axis=0) if x.rank and x.dtype.is_float else None
        case "gather":
            index = _taken(rng, pool, BINARY["shl"])
            if index is None or not x.rank or as_index(x.shape[0]).low < 1:
                return None
            # Whole rows found by the elements of an integer tensor, whatever they are.
            shape = (*index.shape, *x.shape[1:])
            wide = build.broadcast_to(build.reshape(index, (*index.shape, *(1 for _ in x.shape[1:]))), shape)
            return build.gather(x, [wide], (-1, *range(index.rank, len(shape))))
        case "iota":
            return build.iota(rng.choice(SIZES), rng.choice(dtypes.INTEGERS))
        case _:
            width = [d for d in dtypes.ALL if d.bits == x.dtype.bits and not d.is_bool]
            return build.bitcast(x, rng.choice(width))


def random_program(seed: int, steps: int = 12) -> Program:
    """A program of a few steps over one to three leaves."""
    rng = random.Random(seed)
    pool = [
        leaf(rng.choice(dtypes.ALL), tuple(rng.choice(SIZES) for _ in range(rng.randint(0, 3))))
        for _ in range(rng.randint(1, 3))
    ]
    dims = {"n": rng.randint(0, 7), "other dim": rng.randint(1, 5)}
    given = {x: values(rng, x.dtype, tuple(_number(size, dims) for size in x.shape)) for x in pool}
    for _ in range(steps):
        made = rng.choice((_elementwise, _movement, _other))(rng, pool)
        if made is not None and made.rank <= 5 and _elements(made) <= 3_000:
            pool.append(made)
    return Program(pool[len(given) :] or pool, given, dims)


def _number(size: IndexLike, dims: dict[str, int]) -> int:
    return size if isinstance(size, int) else int(size.evaluate(dims))


def _elements(x: Node) -> int:
    total = 1
    for size in x.shape:
        total *= size if isinstance(size, int) else size.high
    return total
