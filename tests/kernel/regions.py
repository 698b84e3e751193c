"""Regions for the kernel tests, small and typical."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from smelt.dtypes import DType, bfloat16, bool_, compute_dtype, float16, float32, int8, int32, int64
from smelt.graph.index import Index, IndexLike, Variable, as_index, of, upper
from smelt.graph.shapes import row_major
from smelt.kernel.region import Access, Buffer, Expression, Fold, Less, Mask, Output, Region, mask_expression


def axis(name: str, size: IndexLike) -> Variable:
    return Variable(name, 0, as_index(size) - 1)


def parameter(name: str, low: int, high: int) -> Variable:
    return Variable(name, low, high)


def buffer(name: str, *shape: IndexLike, dtype: DType = float32) -> Buffer:
    return Buffer(name, dtype, shape, row_major(shape))


def at(i: Variable | IndexLike) -> Index:
    return of(i) if isinstance(i, Variable) else as_index(i)


def load(source: Buffer, *index: Variable | IndexLike, mask: Mask = ()) -> Expression:
    return Expression("load", compute_dtype(source.dtype), (), Access(source, tuple(at(i) for i in index), mask))


def gather(source: Buffer, index: Iterable[Variable | IndexLike | Expression], mask: Mask = ()) -> Expression:
    """A load in which some indices are values; they are clamped to their axes."""
    picks: dict[Variable, Expression] = {}
    where: list[Index] = []
    for i, size in zip(index, source.shape, strict=True):
        if isinstance(i, Expression):
            pick = Variable(f"g{len(picks)}", 0, as_index(size) - 1)
            last = const(size - 1, i.dtype) if isinstance(size, int) else Expression("index", int64, (), size - 1)
            picks[pick] = op("max", op("min", i, last), 0)
            i = pick
        where.append(at(i))
    attribute = Access(source, tuple(where), mask, tuple(picks))
    return Expression("load", compute_dtype(source.dtype), tuple(picks.values()), attribute)


def const(value: Any, dtype: DType = float32) -> Expression:
    return Expression("const", dtype, (), value)


def index(i: Variable | IndexLike) -> Expression:
    return Expression("index", int64, (), at(i))


BOOLEAN = {"eq", "ne", "lt", "le", "isnan"}


def op(name: str, *arguments: Expression | float) -> Expression:
    first = next(a for a in (arguments[1:] if name == "where" else arguments) if isinstance(a, Expression))
    full = tuple(a if isinstance(a, Expression) else const(a, first.dtype) for a in arguments)
    dtype = bool_ if name in BOOLEAN else full[1].dtype if name == "where" else first.dtype
    return Expression(name, dtype, full)


def reduce(name: str, x: Expression, *axes: Variable) -> Expression:
    return Expression("reduce", x.dtype, (x,), Fold(name, axes))


def scan(name: str, x: Expression, along: Variable) -> Expression:
    return Expression("scan", x.dtype, (x,), Fold(name, (along,)))


def out(target: Buffer, index: Iterable[Variable | IndexLike], value: Expression) -> Output:
    return Output(target, tuple(at(i) for i in index), value)


def region(
    outputs: Output | Iterable[Output],
    axes: Iterable[Variable],
    parameters: Iterable[Variable] = (),
    **roles: Expression,
) -> Region:
    listed = (outputs,) if isinstance(outputs, Output) else tuple(outputs)
    return Region(listed, tuple(axes), tuple(parameters), tuple(roles.items()))


@dataclass
class Case:
    """A region with values for its parameters."""

    region: Region
    integers: dict[str, int] = field(default_factory=dict)

    def arrays(self, seed: int = 0, special: bool = False) -> dict[str, np.ndarray[Any, Any]]:
        """Random storage for every buffer, with NaN and infinities if `special`; outputs hold what nothing computes."""
        generator = np.random.default_rng(seed)
        outputs = {output.buffer.name for output in self.region.outputs}
        found: dict[str, np.ndarray[Any, Any]] = {}
        for b in self.region.buffers():
            size = storage(b, self.integers)
            if b.name in outputs:
                poison: Any = np.nan if b.dtype.is_float else 77
                found[b.name] = np.full(size, poison, np.float64).astype(b.dtype.numpy)
            elif b.dtype.is_float:
                found[b.name] = generator.standard_normal(size).astype(b.dtype.numpy)
                if special:
                    kinds = np.array([np.nan, np.inf, -np.inf, -np.inf, -0.0])
                    chosen = generator.random(size) < generator.choice([0.05, 0.5])
                    found[b.name][chosen] = generator.choice(kinds, int(chosen.sum()))
            elif b.dtype.is_bool:
                found[b.name] = generator.integers(0, 2, size).astype(np.bool_)
            else:
                found[b.name] = generator.integers(-9, 10, size).astype(b.dtype.numpy)
        return found


def storage(b: Buffer, integers: dict[str, int]) -> int:
    sizes = [int(as_index(n).evaluate(integers)) for n in b.shape]
    strides = [int(as_index(n).evaluate(integers)) for n in b.strides]
    if 0 in sizes:
        return int(as_index(b.offset).evaluate(integers))
    return (
        int(as_index(b.offset).evaluate(integers)) + sum((n - 1) * s for n, s in zip(sizes, strides, strict=True)) + 1
    )


def gelu(x: Expression) -> Expression:
    inner = op("mul", op("add", x, op("mul", op("mul", op("mul", x, x), x), 0.044715)), 2 * 0.7978845608)
    return op("sub", x, op("div", x, op("add", op("exp", inner), 1.0)))


# --- the regions


def elementwise(n: int = 77) -> Case:
    i = axis("i", n)
    x, w, b, o = (buffer(name, n) for name in "xwbo")
    value = gelu(op("add", op("mul", load(x, i), load(w, i)), load(b, i)))
    return Case(region(out(o, [i], value), [i]))


def bias(rows: int = 5, columns: int = 19) -> Case:
    i, j = axis("i", rows), axis("j", columns)
    x, b, o = buffer("x", rows, columns), buffer("b", columns), buffer("o", rows, columns)
    return Case(region(out(o, [i, j], op("add", load(x, i, j), load(b, j))), [i, j]))


def softmax(rows: int = 3, columns: int = 37) -> Case:
    r, c = axis("r", rows), axis("c", columns)
    x, o = buffer("x", rows, columns), buffer("o", rows, columns)
    v = load(x, r, c)
    m = reduce("max", v, c)
    e = op("exp", op("sub", v, m))
    z = reduce("add", e, c)
    return Case(region(out(o, [r, c], op("mul", e, op("div", 1.0, z))), [r, c], v=v, m=m, e=e, z=z))


def layer_norm(rows: int = 3, columns: int = 33) -> Case:
    r, c = axis("r", rows), axis("c", columns)
    x, y, o = (buffer(name, rows, columns) for name in "xyo")
    w, b = buffer("w", columns), buffer("b", columns)
    h = op("add", load(x, r, c), load(y, r, c))
    mean = op("mul", reduce("add", h, c), 1.0 / max(columns, 1))
    d = op("sub", h, mean)
    variance = op("mul", reduce("add", op("mul", d, d), c), 1.0 / max(columns, 1))
    s = op("div", 1.0, op("sqrt", op("add", variance, 1e-5)))
    value = op("add", op("mul", op("mul", d, s), load(w, c)), load(b, c))
    return Case(region(out(o, [r, c], value), [r, c], h=h, d=d))


def matmul(m: int = 7, n: int = 13, k: int = 11, symbolic: str = "", transposed: bool = False) -> Case:
    """symbolic: which of the sizes are parameters, as letters out of m, n and k."""
    given = {"m": m, "n": n, "k": k}
    parameters = [parameter(name.upper(), 1 if name == "k" else 0, 2 * given[name] + 3) for name in symbolic]
    sizes: dict[str, IndexLike] = {**given, **{v.name.lower(): of(v) for v in parameters}}
    am, an, ak = (axis(name, sizes[name]) for name in "mnk")
    a, c = buffer("A", sizes["m"], sizes["k"]), buffer("c", sizes["n"])
    o = buffer("o", sizes["m"], sizes["n"])
    left = load(a, am, ak)
    right = (
        load(buffer("B", sizes["n"], sizes["k"]), an, ak)
        if transposed
        else load(buffer("B", sizes["k"], sizes["n"]), ak, an)
    )
    y = reduce("add", op("mul", left, right), ak)
    value = gelu(op("add", y, load(c, an)))
    return Case(
        region(out(o, [am, an], value), [am, an, ak], parameters, A=left, B=right, y=y),
        {v.name: given[v.name.lower()] for v in parameters},
    )


def batched(b: int = 2, m: int = 5, n: int = 18, k: int = 7) -> Case:
    ab, am, an, ak = axis("b", b), axis("m", m), axis("n", n), axis("k", k)
    left, right = load(buffer("A", b, m, k), ab, am, ak), load(buffer("B", b, k, n), ab, ak, an)
    y = reduce("add", op("mul", left, right), ak)
    return Case(region(out(buffer("o", b, m, n), [ab, am, an], y), [ab, am, an, ak], A=left, B=right, y=y))


def padded(n: int = 23, before: int = 3, after: int = 2) -> Case:
    i = axis("i", n + before + after)
    inside = (Less(as_index(before - 1), of(i)), Less(of(i), as_index(n + before)))
    x = load(buffer("x", n), of(i) - before, mask=inside)
    value = op("where", mask_expression(inside), op("exp", x), 5.0)
    return Case(region(out(buffer("o", n + before + after), [i], value), [i], x=x))


def concatenated(n: int = 11, m: int = 22) -> Case:
    i, j = axis("i", n), axis("j", m)
    o = buffer("o", n + m)
    first = out(o, [i], op("neg", load(buffer("x", n), i)))
    second = out(o, [of(j) + n], op("abs", load(buffer("y", m), j)))
    return Case(region([first, second], [i, j]))


def reshaped(rows: int = 6, columns: int = 10) -> Case:
    """A transposed matrix read as one row."""
    i = axis("i", rows * columns)
    x = load(buffer("x", columns, rows), of(i) % columns, of(i) // columns)
    return Case(region(out(buffer("o", rows * columns), [i], op("mul", x, 2.0)), [i], x=x))


def column_sums(rows: int = 17, columns: int = 11) -> Case:
    r, c = axis("r", rows), axis("c", columns)
    s = reduce("add", load(buffer("x", rows, columns), r, c), r)
    return Case(region(out(buffer("o", columns), [c], s), [c, r], s=s))


def full(name: str = "add", rows: int = 7, columns: int = 19, dtype: DType = float32) -> Case:
    r, c = axis("r", rows), axis("c", columns)
    s = reduce(name, load(buffer("x", rows, columns, dtype=dtype), r, c), r, c)
    return Case(region(out(buffer("o", dtype=dtype), [], s), [r, c], s=s))


def counted(n: int = 21) -> Case:
    """A sum whose summand does not vary over the axis."""
    i = axis("i", n)
    s = reduce("add", load(buffer("x", 1), 0), i)
    return Case(region(out(buffer("o"), [], s), [i], s=s))


def nested(n: int = 5, m: int = 18) -> Case:
    """A reduction in a reduction, and an axis that is stored over and reduced in one expression."""
    i, j = axis("i", n), axis("j", m)
    x = load(buffer("x", n, m), i, j)
    inner = reduce("max", x, j)
    value = op("add", load(buffer("y", m), j), reduce("add", op("mul", x, inner), i))
    return Case(region(out(buffer("o", m), [j], value), [j, i], x=x, inner=inner))


def wrapping(n: int = 45) -> Case:
    i = axis("i", n)
    x = load(buffer("x", n, dtype=int8), i)
    total = reduce("mul", op("add", op("mul", x, const(37, int8)), const(91, int8)), i)
    value = op("add", op("mul", x, const(15, int8)), total)
    return Case(region(out(buffer("o", n, dtype=int8), [i], value), [i], x=x, total=total))


def any_true(rows: int = 4, columns: int = 37) -> Case:
    r, c = axis("r", rows), axis("c", columns)
    x = load(buffer("x", rows, columns, dtype=bool_), r, c)
    return Case(region(out(buffer("o", rows, dtype=bool_), [r], reduce("max", x, c)), [r, c]))


def half(rows: int = 3, columns: int = 21) -> Case:
    r, c = axis("r", rows), axis("c", columns)
    x, o = buffer("x", rows, columns, dtype=float16), buffer("o", rows, columns, dtype=float16)
    v = load(x, r, c)
    value = op("sub", v, op("mul", reduce("add", v, c), 1.0 / columns))
    return Case(region(out(o, [r, c], value), [r, c], v=v))


def two_outputs(rows: int = 6, columns: int = 21) -> Case:
    r, c = axis("r", rows), axis("c", columns)
    v = load(buffer("x", rows, columns), r, c)
    m = reduce("max", v, c)
    first = out(buffer("o", rows, columns), [r, c], op("sub", v, m))
    second = out(buffer("p", rows), [r], m)
    return Case(region([first, second], [r, c], v=v, m=m))


def attention(heads: int = 1, length: int = 7, width: int = 4, causal: bool = False, low: float = -1e30) -> Case:
    h, q, d, k, e = (axis(n, s) for n, s in zip("hqdke", (heads, length, width, length, width), strict=True))
    queries, keys, values, o = (buffer(name, heads, length, width) for name in "QKVo")
    right = load(keys, h, k, e)
    s = op("mul", reduce("add", op("mul", load(queries, h, q, e), right), e), width**-0.5)
    condition = op("le", index(k), index(q))
    if causal:
        s = op("where", condition, s, low)
    m = reduce("max", s, k)
    p = op("exp", op("sub", s, m))
    z = reduce("add", p, k)
    y = reduce("add", op("mul", p, load(values, h, k, d)), k)
    roles = {"Kt": right, "m": m, "p": p, "z": z, "y": y} | ({"condition": condition} if causal else {})
    return Case(region(out(o, [h, q, d], op("div", y, z)), [h, q, d, k, e], **roles))


def log_sum_exp(rows: int = 3, columns: int = 21) -> Case:
    """The maximum and the sum leave the kernel, so that both must be exact."""
    r, c = axis("r", rows), axis("c", columns)
    v = load(buffer("x", rows, columns), r, c)
    m = reduce("max", v, c)
    z = reduce("add", op("exp", op("sub", v, m)), c)
    first = out(buffer("o", rows), [r], op("add", m, op("log", z)))
    second = out(buffer("p", rows), [r], m)
    return Case(region([first, second], [r, c], v=v, m=m, z=z))


def first_place(rows: int = 3, columns: int = 21, lead: str = "max", blocks: int = 0) -> Case:
    """Where the first extreme value, or NaN, is; of `blocks`, each of which has an extreme value of its own."""
    r, c, b = axis("r", rows), axis("c", columns), axis("b", blocks or 1)
    x = buffer("x", rows, columns, blocks or 1)
    v = reduce(lead, load(x, r, c, b), b) if blocks else load(x, r, c, 0)
    m = reduce(lead, v, c)
    found = op("or", op("eq", v, m), op("isnan", v))
    place = reduce("min", op("where", found, index(c), const(int64.maximum, int64)), c)
    axes = [r, c, b] if blocks else [r, c]
    return Case(region(out(buffer("o", rows, dtype=int64), [r], place), axes, v=v, m=m, z=place))


def two_laws(rows: int = 3, columns: int = 21) -> Case:
    """The place of a maximum, and the sum of exponentials relative to it: they follow it in two ways."""
    r, c = axis("r", rows), axis("c", columns)
    v = load(buffer("x", rows, columns), r, c)
    m = reduce("max", v, c)
    place = reduce("min", op("where", op("eq", v, m), index(c), const(int64.maximum, int64)), c)
    z = reduce("add", op("exp", op("sub", v, m)), c)
    first = out(buffer("o", rows, dtype=int64), [r], place)
    return Case(region([first, out(buffer("p", rows), [r], z)], [r, c], m=m, z=z))


def windowed(length: int = 9, width: int = 3, offset: int = -2, low: float = float("-inf"), data: str = "") -> Case:
    """Attention with a mask in which whole rows may be out, or one by integers that `data` says where to find."""
    q, d, k, e = (axis(n, s) for n, s in zip("qdke", (length, width, length, width), strict=True))
    queries, keys, values, o = (buffer(name, length, width) for name in "QKVo")
    one, each = load(buffer("N", dtype=int32)), load(buffer("N", length, dtype=int32), q)
    key, query = (Expression("cast", int32, (index(axis),)) for axis in (k, q))
    condition = {
        "": lambda: mask_expression((Less(of(k), of(q) + (offset + 1)),)),
        "one": lambda: op("le", key, one),
        "each": lambda: op("lt", key, each),
        "from": lambda: op("le", each, key),
        "past": lambda: op("le", key, op("add", query, one)),
    }[data]()
    s = op("where", condition, reduce("add", op("mul", load(queries, q, e), load(keys, k, e)), e), low)
    m = reduce("max", s, k)
    p = op("exp", op("sub", s, m))
    y = reduce("add", op("mul", load(values, k, d), p), k)
    value = op("div", y, reduce("add", p, k))
    return Case(region(out(o, [q, d], value), [q, d, k, e], m=m, p=p, y=y, condition=condition))


def scored(
    queries: int = 7, keys: int = 9, width: int = 4, offset: int = 0, by_keys: bool = False, kind: str = "masked"
) -> Case:
    """A product with what is made of another product, zero where a mask excludes it, as gradients of attention are.

    It sums over the keys, or `by_keys` over the queries, so that there is a row for each key. What `skip` cannot work
    with: `plain` has no mask, `one` has ones instead of zeros, `less` has the mask around something that is added to.
    """
    q, k, d, e = (axis(n, s) for n, s in zip("qkde", (queries, keys, width, width), strict=True))
    left, right = load(buffer("Q", queries, width), q, e), load(buffer("K", keys, width), k, e)
    condition = op("le", index(k), index(of(q) + offset))
    x = op("exp", op("neg", op("abs", reduce("add", op("mul", left, right), e))))
    p = x if kind == "plain" else op("where", condition, x, 1.0 if kind == "one" else 0.0)
    slope = op("mul", p, op("sub", load(buffer("r", queries), q), 0.5)) if kind != "less" else op("add", p, 0.5)
    row, summed = (k, q) if by_keys else (q, k)
    w = load(buffer("W", queries if by_keys else keys, width), summed, d)
    y = reduce("add", op("mul", slope, w), summed)
    # The plain one uses the condition elsewhere, so that it has a name.
    value = op("where", reduce("max", condition, summed), y, 0.0) if kind == "plain" else y
    roles = {"Q": left, "K": right, "x": x, "p": p, "slope": slope, "y": y, "condition": condition}
    o = buffer("o", keys if by_keys else queries, width)
    return Case(region(out(o, [row, d], value), [row, d, summed, e], **roles))


def scored_twice(queries: int = 7, keys: int = 9, width: int = 4, causal: bool = True) -> Case:
    """Two products with what is made of one other product, and its row sums: the second and third output need less."""
    q, k, d, e = (axis(n, s) for n, s in zip("qkde", (queries, keys, width, width), strict=True))
    left, right = load(buffer("Q", queries, width), q, e), load(buffer("K", keys, width), k, e)
    condition = op("le", index(k), index(q))
    p = op("exp", op("neg", op("abs", reduce("add", op("mul", left, right), e))))
    p = op("where", condition, p, 0.0) if causal else p
    slope = op("mul", p, op("sub", load(buffer("r", queries), q), 0.5))
    w = load(buffer("W", queries, width), q, d)
    y, z = reduce("add", op("mul", slope, w), q), reduce("add", op("mul", p, w), q)
    total = reduce("add", p, q)
    outputs = [out(buffer("o", keys, width), [k, d], y), out(buffer("s", keys, width), [k, d], op("mul", z, 2.0))]
    outputs.append(out(buffer("t", keys), [k], op("add", total, 1.0)))
    roles = {"Q": left, "p": p, "slope": slope, "y": y, "z": z, "total": total}
    return Case(region(outputs, [k, d, q, e], **roles, **({"condition": condition} if causal else {})))


def symbolic_rows(rows: int = 5, columns: int = 37) -> Case:
    """Layer-norm-like rows whose length is a parameter."""
    n = parameter("N", 1, 100)
    r, c = axis("r", rows), axis("c", of(n))
    v = load(buffer("x", rows, of(n)), r, c)
    m = reduce("max", v, c)
    e = op("exp", op("sub", v, m))
    value = op("div", e, reduce("add", e, c))
    return Case(region(out(buffer("o", rows, of(n)), [r, c], value), [r, c], [n], v=v, m=m, e=e), {"N": columns})


def embedding(rows: int = 6, columns: int = 19, table: int = 5) -> Case:
    """Whole rows found by index: within a row the index is one number."""
    r, c = axis("r", rows), axis("c", columns)
    k = load(buffer("t", rows, dtype=int64), r)
    x = gather(buffer("x", table, columns), [k, c])
    return Case(region(out(buffer("o", rows, columns), [r, c], op("mul", x, 2.0)), [r, c], k=k, x=x))


def picked(n: int = 37, rows: int = 3, columns: int = 5, dtype: DType = float32) -> Case:
    """Single elements found by two indices, one of them computed, under a condition."""
    i = axis("i", n)
    row = op("add", load(buffer("t", n, dtype=int32), i), const(1, int32))
    column = op("mod", index(i), const(7, int64))
    inside = (Less(as_index(0), of(i)),)
    x = gather(buffer("x", rows, columns, dtype=dtype), [row, column], inside)
    return Case(region(out(buffer("o", n, dtype=dtype), [i], x), [i], row=row, x=x))


def chained(rows: int = 3, columns: int = 17) -> Case:
    """An index found by index, of a table whose length is a parameter, summed and used as an index again."""
    n = parameter("N", 1, 30)
    r, c = axis("r", rows), axis("c", columns)
    first = gather(buffer("t", of(n), dtype=int64), [load(buffer("j", columns, dtype=int64), c)])
    x = gather(buffer("x", rows, of(n)), [r, first])
    best = reduce("max", first, c)
    value = op("add", reduce("add", x, c), gather(buffer("y", 9), [best]))
    return Case(region(out(buffer("o", rows), [r], value), [r, c], [n], first=first, x=x, best=best), {"N": 11})


def selected_product(m: int = 5, n: int = 13, k: int = 7) -> Case:
    """A product with rows of its second factor found by index."""
    am, an, ak = axis("m", m), axis("n", n), axis("k", k)
    left = load(buffer("A", m, k), am, ak)
    right = gather(buffer("B", 4, n), [load(buffer("j", k, dtype=int64), ak), an])
    y = reduce("add", op("mul", left, right), ak)
    return Case(region(out(buffer("o", m, n), [am, an], y), [am, an, ak], A=left, B=right, y=y))


def dots(m: int = 5, n: int = 13, k: int = 7, name: str = "dot4", moved: int = 0, also: bool = False) -> Case:
    """Inner products of bytes, four in a word; of words with something added; with a sum of the words beside them."""
    am, an, ak = axis("m", m), axis("n", n), axis("k", k)
    left, right = load(buffer("A", m, k, dtype=int32), am, ak), load(buffer("B", k, n, dtype=int32), ak, an)
    factor = op("add", left, const(moved, int32)) if moved else left
    y = reduce("add", op(name, factor, right), ak)
    z = reduce("add", right, ak)
    value = op("add", y, z) if also else y
    nodes = {"A": left, "B": right, "y": y, **({"z": z} if also else {})}
    return Case(region(out(buffer("o", m, n, dtype=int32), [am, an], value), [am, an, ak], **nodes))


def pairs(m: int = 5, n: int = 13, k: int = 7) -> Case:
    """Inner products of bfloat16, two in a word, with their first factor added: its memory is read in both forms."""
    am, an, ak = axis("m", m), axis("n", n), axis("k", k)
    a, b = buffer("A", m, 2 * k, dtype=bfloat16), buffer("B", n, 2 * k, dtype=bfloat16)
    left, right = (Expression("load", int32, (), Access(words(x), (of(i), of(ak)))) for x, i in ((a, am), (b, an)))
    y = reduce("add", Expression("dot2", float32, (left, right)), ak)
    value = op("add", y, op("add", load(a, am, 0), load(b, an, 2 * k - 1)))
    return Case(region(out(buffer("o", m, n), [am, an], value), [am, an, ak], A=left, B=right, y=y))


def words(source: Buffer) -> Buffer:
    view = source.viewed(int32)
    assert view is not None
    return view


def integers(n: int = 50) -> Case:
    i = axis("i", n)
    x = load(buffer("x", n, dtype=int32), i)
    return Case(region(out(buffer("o", dtype=int32), [], reduce("max", x, i)), [i], x=x))


CASES = {
    "elementwise": elementwise,
    "dots": dots,
    "pairs": pairs,
    "bias": bias,
    "softmax": softmax,
    "layer_norm": layer_norm,
    "matmul": matmul,
    "matmul_transposed": lambda: matmul(transposed=True),
    "matmul_symbolic": lambda: matmul(symbolic="mnk"),
    "batched": batched,
    "padded": padded,
    "concatenated": concatenated,
    "reshaped": reshaped,
    "column_sums": column_sums,
    "sum": full,
    "product": lambda: full("mul", 3, 5),
    "counted": counted,
    "nested": nested,
    "wrapping": wrapping,
    "any_true": any_true,
    "half": half,
    "two_outputs": two_outputs,
    "attention": lambda: attention(length=5, width=4),
    "attention_causal": lambda: attention(length=5, width=4, causal=True),
    "log_sum_exp": log_sum_exp,
    "first_place": first_place,
    "two_laws": two_laws,
    "windowed": lambda: windowed(5),
    "scored": scored,
    "scored_twice": scored_twice,
    "scored_by_keys": lambda: scored(by_keys=True, offset=-1),
    "symbolic_rows": symbolic_rows,
    "integers": integers,
    "embedding": embedding,
    "picked": picked,
    "picked_half": lambda: picked(dtype=float16),
    "picked_bool": lambda: picked(dtype=bool_),
    "chained": chained,
    "selected_product": selected_product,
}


def largest(b: Buffer) -> int:
    """The most elements that a buffer can have."""
    return max([1, *(upper(n) for n in b.shape)])


def crossed(n: int = 5, m: int = 7, late: bool = False) -> Case:
    """The same row sums for the row that is stored, and again for every row inside its loop, before or after."""
    i, j = axis("i", n), axis("j", m)
    e = op("exp", load(buffer("x", n, m), i, j))
    rows = reduce("add", e, j)
    columns = reduce("add", op("mul", rows, load(buffer("w", n, m), i, j)), i)
    value = op("mul", op("mul", columns, rows), e) if late else op("mul", e, op("mul", rows, columns))
    return Case(region(out(buffer("o", n, m), [i, j], value), [i, j], e=e, rows=rows))


CASES["crossed"] = crossed
CASES["crossed_late"] = lambda: crossed(late=True)


def running(name: str = "add", rows: int = 5, columns: int = 21, first: bool = False, dtype: DType = float32) -> Case:
    """A scan along the rows or (`first`) down the columns, of a computed value, with an epilogue."""
    r, c = axis("r", rows), axis("c", columns)
    v = load(buffer("x", rows, columns, dtype=dtype), r, c)
    s = scan(
        name, v if dtype.is_bool else op("mul", v, const(0.5 if dtype.is_float else 3, v.dtype)), r if first else c
    )
    value = s if dtype.is_bool else op("add", s, v)
    return Case(region(out(buffer("o", rows, columns, dtype=dtype), [r, c], value), [r, c], v=v, s=s))


def running_twice(rows: int = 5, columns: int = 21) -> Case:
    """The running maximum of running sums of shares of a row's sum, over another axis as well; rows are symbolic."""
    n = parameter("N", 0, 2 * rows + 3)
    r, c, k = axis("r", of(n)), axis("c", columns), axis("k", 3)
    v = load(buffer("x", of(n), columns), r, c)
    total = reduce("max", op("abs", v), c)
    s = scan("add", op("div", v, op("add", total, 1.0)), c)
    m = scan("max", op("mul", s, s), c)
    value = op("add", op("mul", m, load(buffer("w", 3), k)), s)
    o = buffer("o", of(n), 3, columns)
    return Case(region(out(o, [r, k, c], value), [r, k, c], [n], v=v, s=s, m=m), {"N": rows})


def counting(n: int = 21) -> Case:
    """A scan of what does not vary over the axis."""
    i = axis("i", n)
    s = scan("mul", load(buffer("x", 1), 0), i)
    return Case(region(out(buffer("o", n), [i], s), [i], s=s))


CASES["running"] = running
CASES["running_down"] = lambda: running("max", first=True)
CASES["running_twice"] = running_twice
CASES["counting"] = counting


def two_scans(rows: int = 3, columns: int = 7) -> Case:
    """Two outputs, of which one is a running sum."""
    r, c = axis("r", rows), axis("c", columns)
    v = load(buffer("x", rows, columns), r, c)
    outputs = [out(buffer("o", rows, columns), [r, c], scan("add", v, c)), out(buffer("p", rows, columns), [r, c], v)]
    return Case(region(outputs, [r, c]))


CASES["two_scans"] = two_scans
