"""Kernels lowered from regions: C equals the interpreter of Kernel IR."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from smelt.dtypes import DType, bfloat16, compute_dtype, float16, float32
from smelt.graph.index import IndexLike, Variable, as_index, of
from smelt.graph.shapes import row_major
from smelt.kernel import Kernel, Region, interpret, lower, parse_action, verify
from smelt.kernel.region import Access, Buffer, Expression, Fold, Output
from tests.render.support import Compiled
from tests.turns import one_in

pytestmark = pytest.mark.xdist_group("lowered")  # compiled once


def axis(name: str, size: IndexLike) -> Variable:
    return Variable(name, 0, as_index(size) - 1)


def load(name: str, dtype: DType, shape: tuple[IndexLike, ...], *axes: Variable) -> Expression:
    source = Buffer(name, dtype, shape, row_major(shape))
    return Expression("load", compute_dtype(dtype), (), Access(source, tuple(of(a) for a in axes)))


def const(value: float) -> Expression:
    return Expression("const", float32, (), value)


def op(name: str, *arguments: Expression) -> Expression:
    return Expression(name, arguments[0].dtype, arguments)


def reduce(name: str, x: Expression, over: Variable) -> Expression:
    return Expression("reduce", x.dtype, (x,), Fold(name, (over,)))


def matmul(m: IndexLike, n: int, k: int, dtype: DType, parameters: tuple[Variable, ...] = ()) -> Region:
    """out = tanh(a @ b + bias)"""
    i, j, d = axis("m", m), axis("n", n), axis("k", k)
    a, b = load("a", dtype, (m, k), i, d), load("b", dtype, (k, n), d, j)
    y = reduce("add", op("mul", a, b), d)
    value = op("tanh", op("add", y, load("bias", float32, (n,), j)))
    out = Buffer("out", dtype, (m, n), row_major((m, n)))
    return Region((Output(out, (of(i), of(j)), value),), (i, j, d), parameters, (("A", a), ("B", b), ("y", y)))


def softmax(rows: int, columns: int, dtype: DType) -> Region:
    r, c = axis("r", rows), axis("c", columns)
    x = load("x", dtype, (rows, columns), r, c)
    e = op("exp", op("sub", x, reduce("max", x, c)))
    out = Buffer("out", dtype, (rows, columns), row_major((rows, columns)))
    value = op("div", e, reduce("add", e, c))
    return Region((Output(out, (of(r), of(c)), value),), (r, c), (), (("e", e),))


def schedule(text: str) -> tuple[Any, ...]:
    return tuple(parse_action(line.strip()) for line in text.split(";") if line.strip())


ROWS = Variable("rows", 1, 40)
TILED = "split m (6 reg) tail balance; split n (4 reg, 16 lane); order n.0 m.0; stage B at n.0 (k, n); unroll k.0 4"
CASES: dict[str, tuple[Region, str, dict[str, int]]] = {
    "plain matmul": (matmul(7, 11, 5, float32), "", {}),
    "tiled matmul": (matmul(25, 83, 29, float32), TILED, {}),
    "half matmul": (matmul(13, 64, 9, float16), TILED, {}),
    "rows unknown": (
        matmul(of(ROWS), 48, 19, bfloat16, (ROWS,)),
        "split m (4 reg) tail unit; split n (2 reg, 8 lane); bind m.0 grid",
        {"rows": 23},
    ),
    "plain softmax": (softmax(3, 19, float32), "", {}),
    "softmax in vectors": (softmax(5, 301, float32), "split c (4 reg, 16 lane); bind r.0 grid", {}),
    "softmax kept": (softmax(5, 301, float32), "split c (2 reg, 8 lane) tail mask; bind r.0 grid; keep e out", {}),
    "softmax of halves": (softmax(5, 67, bfloat16), "split c (1 reg, 32 lane); keep e local", {}),
}


NAMES = one_in(4, list(CASES))


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    made = {name: lower(CASES[name][0], schedule(CASES[name][1]), f"k{number}") for number, name in enumerate(NAMES)}
    for kernel in made.values():
        verify(kernel)
    return made


@pytest.fixture(scope="module")
def compiled(kernels: dict[str, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    return Compiled(list(kernels.values()), tmp_path_factory.mktemp("lowered"))


@pytest.mark.parametrize("name", NAMES)
def test_c_equals_the_interpreter(name: str, kernels: dict[str, Kernel], compiled: Compiled) -> None:
    kernel, integers = kernels[name], CASES[name][2]
    rng = np.random.default_rng(0)
    arrays: dict[str, Any] = {}
    for buffer in kernel.buffers:
        size = int(np.prod([as_index(n).evaluate(integers) for n in buffer.shape]))
        arrays[buffer.name] = (rng.standard_normal(size) * 0.5).astype(buffer.dtype.numpy)
    expected = {key: array.copy() for key, array in arrays.items()}
    interpret(kernel, expected, integers)
    values = [integers[parameter.name] for parameter in kernel.parameters]
    compiled.run(kernel.name, [arrays[buffer.name] for buffer in kernel.buffers], values)
    dtype = kernel.buffers[0].dtype
    tolerance = {float32: 2e-6, float16: 2e-3, bfloat16: 1e-2}[dtype]
    for key, array in arrays.items():
        np.testing.assert_allclose(
            array.astype(np.float64), expected[key].astype(np.float64), rtol=tolerance, atol=tolerance
        )
