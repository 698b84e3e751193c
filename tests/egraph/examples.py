"""For every rule of the e-graph, small programs on which it fires: functions of a dtype, of odd sizes and of size 1."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph import Node, build
from tests.rewrite.growing import leaf
from tests.rewrite.sampling import Array, inputs

i64 = dtypes.int64


class Example(NamedTuple):
    """A program; `positive`: of inputs that are more than 0."""

    make: Callable[[DType], Node]
    positive: bool = False


Found = Iterator[tuple[str, Example]]


def matmul(a: Node, b: Node) -> Node:
    """A product that is not widened."""
    return build.matmul(a, b, a.dtype)


def contract(a: Node, b: Node, labels: str) -> Node:
    """`contract(a, b, "mk,kn->mn")`."""
    (left, right), out = labels.partition("->")[0].split(","), labels.partition("->")[2]
    return build.contract(a, b, *([ord(label) for label in part] for part in (left, right, out)), a.dtype)


def repeated(dtype: DType, small: tuple[int, ...], shape: tuple[int, ...]) -> Node:
    """An input that is repeated along its axes of size 1."""
    return build.expand(leaf(dtype, *small), shape)


# --- products of three factors: for each rule labels, "the inner two, then the outer one, then the result"

_SIZES = {"m": 3, "k": 5, "n": 7, "p": 3, "z": 2, "o": 1}


def _of(dtype: DType, labels: str) -> Node:
    return leaf(dtype, *(_SIZES[label] for label in labels))


def _product_of_product(inner: str, third: str, out: str, side: str) -> Callable[[DType], Node]:
    """`inner` is as in einsum; `third` stands on the other side of it."""

    def make(dtype: DType) -> Node:
        (a, b), kept = inner.partition("->")[0].split(","), inner.partition("->")[2]
        product = contract(_of(dtype, a), _of(dtype, b), inner)
        if side == "left":
            return contract(product, _of(dtype, third), f"{kept},{third}->{out}")
        return contract(_of(dtype, third), product, f"{third},{kept}->{out}")

    return make


def _scaled(shape: str, scale: str, third: str, out: str, side: str, outer: bool = False) -> Callable[[DType], Node]:
    """A tensor times another one that is repeated; if `outer`, both are."""

    def make(dtype: DType) -> Node:
        sizes = tuple(_SIZES[label] for label in shape)
        small = tuple(_SIZES[label] if label in scale else 1 for label in shape)
        rest = tuple(1 if outer and label in scale else _SIZES[label] for label in shape)
        first = repeated(dtype, rest, sizes) if outer else leaf(dtype, *sizes)
        product = build.mul(first, repeated(dtype, small, sizes))
        if side == "left":
            return contract(product, _of(dtype, third), f"{shape},{third}->{out}")
        return contract(_of(dtype, third), product, f"{third},{shape}->{out}")

    return make


def _sum_of_product(inner: str, axes: tuple[int, ...], side: str) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        (a, b), kept = inner.partition("->")[0].split(","), inner.partition("->")[2]
        factors = (contract(_of(dtype, a), _of(dtype, b), inner), _of(dtype, kept))
        return build.reduce("add", build.mul(*(factors if side == "left" else factors[::-1])), axes)

    return make


def _scale_of_product(small: tuple[int, ...], batch: tuple[int, ...] = ()) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        product = matmul(leaf(dtype, *batch, 3, 5), leaf(dtype, *batch, 5, 7))
        return build.mul(product, repeated(dtype, small, product.shape))  # type: ignore[arg-type]

    return make


def _products() -> Found:
    table: dict[str, list[Callable[[DType], Node]]] = {
        "product_regrouped": [
            _product_of_product("mk,kn->mn", "np", "mp", "left"),
            _product_of_product("zmk,zkn->zmn", "znp", "zpm", "left"),
            _product_of_product("mo,on->mn", "np", "mp", "left"),
            _product_of_product("mk,kn->nm", "n", "m", "left"),
            _product_of_product("kn,np->kp", "mk", "mp", "right"),
            _product_of_product("zkn,znp->zkp", "zmk", "mzp", "right"),
            _scaled("mk", "k", "kn", "mn", "left"),
            _scaled("mk", "", "kn", "nm", "left"),
            _scaled("kn", "n", "mk", "mn", "right"),
            _scaled("mk", "k", "kn", "mn", "left", outer=True),
            _scaled("kn", "n", "mk", "mn", "right", outer=True),
            _sum_of_product("mk,kn->mn", (1,), "left"),
            _sum_of_product("zmk,kn->zmn", (0, 2), "left"),
            _sum_of_product("mk,kn->mn", (0,), "right"),
            _scale_of_product((1, 7)),
            _scale_of_product((2, 1, 7), (2,)),
        ],
        "outer_factors_first": [
            _product_of_product("mk,kn->mn", "mp", "np", "left"),
            _product_of_product("mk,kn->mn", "m", "mn", "left"),
            _product_of_product("kn,np->kp", "mp", "mk", "right"),
            _product_of_product("kn,np->kp", "p", "kp", "right"),
            _scaled("mk", "m", "kn", "mn", "left"),
            _scaled("zmk", "z", "zkn", "zmn", "left"),
            _scaled("kn", "k", "mk", "mn", "right"),
            _scaled("kn", "", "mk", "nm", "right"),
            _scaled("mk", "k", "mn", "kn", "left", outer=True),
            _scaled("kn", "n", "mn", "mk", "right", outer=True),
            _sum_of_product("mk,kn->mn", (0, 1), "left"),
            _sum_of_product("mk,kn->mn", (1,), "right"),
            _scale_of_product((3, 1)),
            _scale_of_product((1, 1)),
        ],
    }
    yield from ((name, Example(make)) for name, makers in table.items() for make in makers)


# --- sums of products


def _common(op: str, *, left: bool) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        common, others = leaf(dtype, 5, 5), [leaf(dtype, 5, 5), leaf(dtype, 5, 5)]
        products = [matmul(common, x) if left else matmul(x, common) for x in others]
        return build.binary(op, *products)

    return make


def _common_turned(dtype: DType) -> Node:
    """One of the others lies the other way."""
    common, b, c = leaf(dtype, 3, 5), leaf(dtype, 5, 7), leaf(dtype, 7, 5)
    return build.add(contract(common, b, "mk,kn->mn"), contract(c, common, "nk,mk->mn"))


def _together(dtype: DType) -> Node:
    a, b, c, x = leaf(dtype, 3, 5), leaf(dtype, 5, 7), leaf(dtype, 5, 7), leaf(dtype, 3, 7)
    return build.add(build.add(matmul(a, b), x), matmul(a, c))


def _out(side: str, *, outer: bool) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        a, d = leaf(dtype, 5, 7), leaf(dtype, 7, 3) if side == "left" else leaf(dtype, 3, 5)
        if outer:
            inner = build.mul(repeated(dtype, (5, 1), (5, 7)), repeated(dtype, (1, 7), (5, 7)))
        else:
            inner = matmul(leaf(dtype, 5, 1), leaf(dtype, 1, 7))
        total = build.add(a, inner)
        return matmul(total, d) if side == "left" else matmul(d, total)

    return make


def _summed_product(axes: tuple[int, ...]) -> Callable[[DType], Node]:
    return lambda dtype: build.reduce("add", matmul(leaf(dtype, 2, 3, 5), leaf(dtype, 2, 5, 7)), axes)


def _summed_terms(more: int, axes: tuple[int, ...]) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        total = matmul(leaf(dtype, 3, 5), leaf(dtype, 5, 7))
        for _ in range(more):
            total = build.add(total, leaf(dtype, 3, 7))
        return build.reduce("add", total, axes)

    return make


def _distances(x: tuple[int, ...], y: tuple[int, ...], axes: tuple[int, ...]) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        shape = tuple(max(a, b) for a, b in zip(x, y, strict=True))
        difference = build.sub(repeated(dtype, x, shape), repeated(dtype, y, shape))
        return build.reduce("add", build.mul(difference, difference), axes)

    return make


def _sums() -> Found:
    table: dict[str, list[Callable[[DType], Node]]] = {
        "common_factor": [
            *(_common(op, left=left) for op in ("add", "sub") for left in (True, False)),
            _common_turned,
        ],
        "products_together": [_together],
        "multiply_out": [_out(side, outer=outer) for outer in (False, True) for side in ("left", "right")],
        "sum_factors_first": [_summed_product(axes) for axes in ((0,), (1,), (2,), (1, 2), (0, 1, 2))],
        "sum_terms": [_summed_terms(1, (0,)), _summed_terms(1, (0, 1)), _summed_terms(2, (1,))],
        "squares_of_differences": [
            _distances((5, 1, 3), (1, 7, 3), (2,)),
            _distances((2, 1, 5, 3), (2, 7, 1, 3), (3,)),
        ],
    }
    yield from ((name, Example(make)) for name, makers in table.items() for make in makers)


# --- joins


def _joined_product(side: str, *parts: int) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        axis, size = (1, sum(parts)) if side == "left" else (0, sum(parts))
        joined = build.concat([leaf(dtype, *((3, k) if side == "left" else (k, 7))) for k in parts], axis)
        return matmul(joined, leaf(dtype, size, 7)) if side == "left" else matmul(leaf(dtype, 3, size), joined)

    return make


def _joined_reduction(op: str, axes: tuple[int, ...], *parts: int) -> Callable[[DType], Node]:
    return lambda dtype: build.reduce(op, build.concat([leaf(dtype, 5, k) for k in parts], 1), axes)


def _joins() -> Found:
    for side in ("left", "right"):
        for parts in ((3, 5), (1, 3, 5), (3, 3)):
            yield "product_of_joined", Example(_joined_product(side, *parts))
    for op in ("add", "max", "min", "mul"):
        yield "reduction_of_joined", Example(_joined_reduction(op, (1,), 3, 1, 3))
    yield "reduction_of_joined", Example(_joined_reduction("add", (0, 1), 3, 5))


# --- picks


def rows(x: Node, *shape: int) -> Node:
    """Some rows of x, by numbers that need not be rows: those read the nearest one."""
    shape = (*shape, *x.shape[1:])  # type: ignore[assignment]
    number = build.reshape(leaf(i64, shape[0]), (shape[0], *(1 for _ in shape[1:])))
    return build.gather(x, [build.broadcast_to(number, shape)], (-1, *range(1, len(shape))), shape)


def _rows_of(name: str, second: str = "") -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        x = leaf(dtype, 7, 5)
        if not second:
            return rows(build.unary(name, x), 3)
        other = {"whole": leaf(dtype, 7, 5), "row": repeated(dtype, (1, 5), (7, 5)), "same": x}[second]
        return rows(build.binary(name, x, other), 3)

    return make


def _rows_of_composite(name: str, axis: int) -> Callable[[DType], Node]:
    return lambda dtype: rows(build.composite(name, leaf(dtype, 7, 5), axis=axis), 3)


def one_hot(number: Node, size: int, dtype: DType, *, turned: bool = False) -> Node:
    """As it is written out: a number compared with a count."""
    shape = (*number.shape, size)
    given = build.expand(build.reshape(number, (*number.shape, 1)), shape)
    count = build.broadcast_to(build.iota(size, number.dtype), shape)
    return build.cast(build.eq(*((count, given) if turned else (given, count))), dtype)


def _eye_product(dtype: DType) -> Node:
    count = build.iota(5, i64)
    across, down = (build.broadcast_to(build.reshape(count, shape), (5, 5)) for shape in ((1, 5), (5, 1)))
    eye = build.cast(build.eq(build.sub(across, down), build.const(0, i64, (5, 5))), dtype)
    return matmul(eye, leaf(dtype, 5, 7))


def _one_hot_product(batch: tuple[int, ...], index: DType, *, turned: bool = False) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        return matmul(one_hot(leaf(index, *batch), 5, dtype, turned=turned), leaf(dtype, 5, 7))

    return make


def argmax(x: Node, axis: int) -> Node:
    """As it is written out: where the largest value, or NaN, is first."""
    size = x.shape[axis]
    found = build.eq(x, build.reduce("max", x, (axis,), keep_axes=True))
    found = build.binary("or", found, build.unary("isnan", x))
    places = build.reshape(build.iota(size, dtypes.int32), (size,) + (1,) * (x.rank - axis - 1))
    return build.reduce("min", build.where(found, places, build.const(2**31 - 1, dtypes.int32)), (axis,))


def _argmax_of(name: str, axis: int) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        x = leaf(dtype, 5, 7)
        return argmax(build.composite(name, x, axis=axis) if "softmax" in name else build.unary(name, x), axis)

    return make


def _argmax_of_binary(name: str) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        small = leaf(dtype, 5, 1)
        if name in ("mul", "div"):
            small = build.exp(small)
        return argmax(build.binary(name, leaf(dtype, 5, 7), build.expand(small, (5, 7))), 1)

    return make


OF_POSITIVE = frozenset({"log", "log2", "log10", "log1p", "sqrt", "rsqrt"})
_BINARY = ("add", "sub", "mul", "div", "max", "min")
_UNARY = ("exp", "log", "tanh", "sqrt", "neg", "abs", "rsqrt", "reciprocal")
_INCREASING = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "cbrt", "tanh", "sinh", "atan", "erf")


def _picks() -> Found:
    for name in _BINARY:
        for second in ("whole", "row", "same"):
            yield "gather_inside", Example(_rows_of(name, second))
    for name in _UNARY:
        yield "gather_inside", Example(_rows_of(name), name in OF_POSITIVE)
    for name in ("softmax", "log_softmax"):
        for axis in (0, 1):
            yield "gather_of_softmax", Example(_rows_of_composite(name, axis))
            yield "argmax_of_increasing", Example(_argmax_of(name, axis))
    for batch in ((3,), (2, 3)):
        yield "one_hot_product", Example(_one_hot_product(batch, i64))
    yield "one_hot_product", Example(_one_hot_product((3,), dtypes.int8, turned=True))
    yield "one_hot_product", Example(_eye_product)
    for name in _INCREASING:
        for axis in (0, 1):
            yield "argmax_of_increasing", Example(_argmax_of(name, axis), name in OF_POSITIVE)
    for name in ("mul", "div", "add", "sub"):
        yield "argmax_of_scaled", Example(_argmax_of_binary(name))


# --- functions


def _extreme(op: str, name: str, axes: tuple[int, ...]) -> Callable[[DType], Node]:
    return lambda dtype: build.reduce(op, build.unary(name, leaf(dtype, 5, 7)), axes)


def _functions() -> Found:
    def both(op: str, name: str) -> Callable[[DType], Node]:
        return lambda dtype: build.binary(
            op, build.unary(name, leaf(dtype, 3, 5)), build.unary(name, leaf(dtype, 3, 5))
        )

    yield "one_exponential", Example(both("mul", "exp"))
    yield "one_logarithm", Example(both("add", "log"), positive=True)
    for small in ((3, 1), (1, 1)):
        yield "divide_once", Example(_divided(small), positive=True)
    for name in ("exp", "tanh", "log", "sqrt", "erf", "log1p", "expm1", "sinh", "atan", "cbrt", "exp2", "log2"):
        for op, axes in (("max", (1,)), ("min", (0,)), ("max", (0, 1))):
            yield "extreme_before_increasing", Example(_extreme(op, name, axes), name in OF_POSITIVE)
    for axis in (0, 1):
        yield "softmax_unshifted", Example(_bounded_softmax(axis))


def _divided(small: tuple[int, int]) -> Callable[[DType], Node]:
    return lambda dtype: build.div(leaf(dtype, 3, 9), repeated(dtype, small, (3, 9)))


def _bounded_softmax(axis: int) -> Callable[[DType], Node]:
    return lambda dtype: build.composite("softmax", build.scale(build.tanh(leaf(dtype, 3, 5)), 7.0), axis=axis)


# --- products of parts


def _joined_kept(labels: str, side: str, axis: int, *parts: int) -> Callable[[DType], Node]:
    """A product one of whose factors is joined of parts along an axis that is kept."""

    def make(dtype: DType) -> Node:
        a, b = labels.partition("->")[0].split(",")
        own = [_SIZES[label] for label in (a if side == "left" else b)]
        joined = build.concat([leaf(dtype, *own[:axis], size, *own[axis + 1 :]) for size in parts], axis)
        factors = (joined, _of(dtype, b)) if side == "left" else (_of(dtype, a), joined)
        return contract(*factors, labels)

    return make


def _attention_of_joined(dtype: DType) -> Node:
    keys, values = (build.concat([leaf(dtype, 2, k, 3) for k in (4, 1)], 1) for _ in range(2))
    return build.composite("attention", leaf(dtype, 2, 3, 3), keys, values)


def _joined_products(labels: str, side: str, axis: int, count: int, columns: bool) -> Callable[[DType], Node]:
    """Products of one factor by several others, joined; `columns`: with an axis for them that is new."""

    def make(dtype: DType) -> Node:
        a, b = labels.partition("->")[0].split(",")
        common, other = _of(dtype, a if side == "left" else b), b if side == "left" else a
        products = []
        for _ in range(count):
            factors = (common, _of(dtype, other))
            product = contract(*(factors if side == "left" else factors[::-1]), labels)
            new = (*product.shape[:axis], 1, *product.shape[axis:])
            products.append(build.reshape(product, new) if columns else product)
        return build.concat(products, axis)

    return make


def _parts() -> Found:
    yield "joined_products", Example(_joined_products("mk,kn->mn", "left", 1, 2, False))
    yield "joined_products", Example(_joined_products("mk,kn->nm", "right", 1, 4, False))
    yield "joined_products", Example(_joined_products("zmk,zkn->zmn", "left", 2, 3, False))
    yield "joined_columns", Example(_joined_products("mk,k->m", "left", 1, 4, True))
    yield "joined_columns", Example(_joined_products("k,mk->m", "right", 0, 2, True))
    yield "attention_of_joined", Example(_attention_of_joined)
    yield "product_of_rows_joined", Example(_joined_kept("mk,kn->mn", "left", 0, 2, 1))
    yield "product_of_rows_joined", Example(_joined_kept("mzk,zkn->zmn", "left", 0, 3, 4, 1))
    yield "product_of_rows_joined", Example(_joined_kept("mzk,mkn->zmn", "left", 0, 1, 2))
    yield "product_of_rows_joined", Example(_joined_kept("mk,kn->mn", "right", 1, 5, 2))
    yield "product_of_rows_joined", Example(_joined_kept("mk,nk->nm", "right", 0, 5, 2))


# --- products of quotients


def _divided_product(labels: str, side: str, small: tuple[int, ...]) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        a, b = labels.partition("->")[0].split(",")
        mine, other = (a, b) if side == "left" else (b, a)
        shape = tuple(_SIZES[label] for label in mine)
        quotient = build.div(leaf(dtype, *shape), repeated(dtype, small, shape))
        factors = (quotient, _of(dtype, other)) if side == "left" else (_of(dtype, other), quotient)
        return contract(*factors, labels)

    return make


def _quotients() -> Found:
    yield "divide_after_product", Example(_divided_product("mk,kn->mn", "left", (3, 1)), positive=True)
    yield "divide_after_product", Example(_divided_product("zmk,zkn->nzm", "left", (2, 3, 1)), positive=True)
    yield "divide_after_product", Example(_divided_product("mk,kn->mn", "left", (1, 1)), positive=True)
    yield "divide_after_product", Example(_divided_product("mk,kn->mn", "right", (1, 7)), positive=True)


# --- rows that are picked of products and sums


def _at(axes: tuple[int, ...], number: tuple[int, ...], shape: tuple[int, ...]) -> Callable[[Node], Node]:
    """Picked from x by an index of a shape with axes of size 1, along which it is repeated."""
    return lambda x: build.gather(x, [build.broadcast_to(leaf(i64, *number), shape)], axes, shape)


def _gathered_product(labels: str, pick: Callable[[Node], Node]) -> Callable[[DType], Node]:
    def make(dtype: DType) -> Node:
        a, b = labels.partition("->")[0].split(",")
        return pick(contract(_of(dtype, a), _of(dtype, b), labels))

    return make


def _product_of_gathered(labels: str, side: str, rows: int) -> Callable[[DType], Node]:
    """A product whose factor on this side is picked of fewer rows than it has itself."""

    def make(dtype: DType) -> Node:
        a, b = labels.partition("->")[0].split(",")
        picked = tuple(_SIZES[label] for label in (a if side == "left" else b))
        pick = _at((-1, *range(1, len(picked))), (picked[0], *(1 for _ in picked[1:])), picked)
        table, other = pick(leaf(dtype, rows, *picked[1:])), _of(dtype, b if side == "left" else a)
        return contract(*((table, other) if side == "left" else (other, table)), labels)

    return make


def _gathers() -> Found:
    table: dict[str, list[Callable[[DType], Node]]] = {
        "gather_of_product": [
            _gathered_product("mk,kn->mn", _at((-1, 1), (2, 1), (2, 7))),
            _gathered_product("mk,kn->mn", _at((0, -1), (1, 2), (3, 2))),
            _gathered_product("mk,kn->nm", _at((1, -1), (2, 1), (2, 7))),
            _gathered_product("zmk,zkn->zmn", _at((0, -1, 2), (2, 1, 1), (2, 1, 7))),
            _gathered_product("zmk,zkn->zmn", _at((-1, 1, 2), (1, 1, 1), (1, 3, 7))),
        ],
        "gather_in_each_row_of_product": [
            _gathered_product("mz,zn->mn", _at((0, -1), (3, 2), (3, 2))),
            _gathered_product("mk,nk->mn", _at((0, -1), (3, 1), (3, 1))),
        ],
        "product_of_gathered": [
            _product_of_gathered("mk,kn->mn", "left", 2),
            _product_of_gathered("nzm,mz->n", "left", 3),
            _product_of_gathered("nk,mk->mn", "left", 1),
            _product_of_gathered("mk,nk->mn", "right", 3),
            _product_of_gathered("mk,nkz->znm", "right", 2),
        ],
        "gather_of_reduction": [
            lambda dtype, op=op, axes=axes: rows(build.reduce(op, leaf(dtype, 7, 5, 3), axes), 3)  # type: ignore[misc]
            for op in ("add", "max")
            for axes in ((1,), (2,), (1, 2))
        ],
        "rows_of_softmax": [_rows_of_composite(name, 1) for name in ("softmax", "log_softmax")],
        "gather_repeated_later": [
            lambda dtype: rows(repeated(dtype, (7, 1), (7, 5)), 3),
            lambda dtype: rows(repeated(dtype, (7, 1, 3), (7, 5, 3)), 2),
        ],
        "gather_of_repeated": [
            lambda dtype: _at((0, -1), (7, 3), (7, 3))(repeated(dtype, (7, 1), (7, 5))),
            lambda dtype: rows(repeated(dtype, (1, 5), (7, 5)), 3),
            lambda dtype: _at((2, -1, 0), (3, 7, 5), (3, 7, 5))(repeated(dtype, (5, 1, 3), (5, 4, 3))),
        ],
        "gather_without_unit_axes": [
            lambda dtype: rows(build.reshape(leaf(dtype, 7, 5), (7, 1, 5)), 3),
            lambda dtype: rows(build.reshape(leaf(dtype, 7), (7, 1)), 3),
        ],
    }
    yield from ((name, Example(make)) for name, makers in table.items() for make in makers)


def _found() -> dict[str, list[Example]]:
    table: dict[str, list[Example]] = {}
    for family in (_products, _sums, _joins, _picks, _functions, _gathers, _parts, _quotients):
        for name, example in family():
            table.setdefault(name, []).append(example)
    return table


EXAMPLES: dict[str, list[Example]] = _found()


def values(example: Example, node: Node, seed: int, special: bool = False) -> dict[Node, Array]:
    """Inputs for an example."""
    drawn = inputs([node], seed, special)
    if not example.positive or special:
        return drawn
    return {x: np.abs(y) + np.asarray(0.25, y.dtype) if x.dtype.is_float else y for x, y in drawn.items()}
