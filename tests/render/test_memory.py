"""Loads and stores: masks at every count, strides of every kind, gathers, streams, 16-bit floats in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from smelt import dtypes
from smelt.dtypes import DType, compute_dtype
from smelt.graph.index import Index, IndexLike, Variable, as_index, of
from smelt.kernel.ir import For, Kernel, Load, Statement, Store, Value
from smelt.kernel.region import Less, Mask
from tests.render.accuracy import identical
from tests.render.support import Compiled, buffer, elementwise, kernel, loop, part

pytestmark = pytest.mark.xdist_group("memory")  # compiled once

Array = NDArray[Any]


def copy_kernel(
    name: str,
    dtype: DType,
    lanes: int,
    source: Any,
    target: Any,
    mask: Any,
    sizes: tuple[int, int],
    stream: bool = False,
) -> Kernel:
    """out[target(lane)] = x[source(lane)] where mask(lane, n); n is a parameter."""
    lane, n = part("i.lane", lanes), Variable("n", -100, 100)
    j = of(lane.variable) if lanes > 1 else as_index(0)
    value = Value("a", compute_dtype(dtype), (lane,))
    out, x = buffer("out", dtype, sizes[0]), buffer("x", dtype, sizes[1])
    conditions: Mask = mask(j, of(n)) if mask else ()
    body: list[Statement] = [
        Load(value, x, (as_index(source(j)),), conditions),
        Store(out, (as_index(target(j)),), value, conditions, stream),
    ]
    return kernel(name, [out, x], body, [n])


def values(dtype: DType, count: int) -> Array:
    data = np.arange(1, count + 1)
    return data % 2 == 1 if dtype.is_bool else data.astype(dtype.numpy)


PREFIX_LANES = (2, 4, 8, 16, 32, 64)


@pytest.fixture(scope="module")
def masked(tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    kernels = [
        copy_kernel(f"m_{d.name}_{lanes}", d, lanes, lambda j: j, lambda j: j, lambda j, n: (Less(j, n),), (64, 64))
        for d in dtypes.ALL
        for lanes in PREFIX_LANES
    ]
    return Compiled(kernels, tmp_path_factory.mktemp("masked"), flags="-march=native -O1")


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_masked_copy_at_every_count(dtype: DType, masked: Compiled) -> None:
    x = values(dtype, 64)
    for lanes in PREFIX_LANES:
        for count in range(-1, lanes + 2):
            out = np.zeros(64, dtype.numpy)
            masked.run(f"m_{dtype.name}_{lanes}", [out, x], [count])
            kept = max(0, min(count, lanes))
            assert (out[:kept] == x[:kept]).all() and not out[kept:].any(), (lanes, count)


def less(a: IndexLike, b: IndexLike) -> Less:
    return Less(as_index(a), as_index(b))


ACCESSES: dict[str, tuple[Any, Any, Any]] = {
    "broadcast": (lambda j: 5, lambda j: j, None),
    "stride 2": (lambda j: 2 * j + 1, lambda j: j, None),
    "reversed": (lambda j: 15 - j, lambda j: j, None),
    "reversed store": (lambda j: j, lambda j: 15 - j, None),
    "scattered": (lambda j: j, lambda j: 3 * j + 2, None),
    "divided": (lambda j: j // 3, lambda j: j, None),
    "folded": (lambda j: (j * 5 + 3) % 7, lambda j: j, None),
    "floor of negatives": (lambda j: (j - 8) // 3 + 3, lambda j: (j - 5) % 16, None),
    "middle lanes": (lambda j: j, lambda j: j, lambda j, n: (less(j, 11), less(2, j))),
    "steep mask": (lambda j: j, lambda j: j, lambda j, n: (less(3 * j, n), less(n, 4 * j + 19))),
    "masked gather": (lambda j: 2 * j, lambda j: 2 * j, lambda j, n: (less(j, n),)),
    "masked broadcast": (lambda j: 5, lambda j: j, lambda j, n: (less(j, n),)),
    "one lane stores": (lambda j: j, lambda j: 0, lambda j, n: (less(j, n), less(n - 2, j))),
    "scalar condition": (lambda j: j, lambda j: j, lambda j, n: (less(n, 10),)),
    "both conditions": (lambda j: j, lambda j: j, lambda j, n: (less(n, 10), less(j, n))),
    "condition under division": (lambda j: j, lambda j: j, lambda j, n: (less(j // 3, n), less(0, (j + 1) % 4))),
    "pairs": (lambda j: 3 + j // 2, lambda j: j, None),
    "pairs, the first": (lambda j: 3 + j // 2, lambda j: j, lambda j, n: (less(j, 11),)),
    "pairs, some, under a condition": (
        lambda j: j // 3,
        lambda j: j,
        lambda j, n: (less(2, j), less(j, 14), less(n, 10)),
    ),
    "pairs from behind": (lambda j: (31 - j) // 2, lambda j: j, None),
    "remainders": (lambda j: 5 + j % 4, lambda j: j, None),
    "never": (lambda j: j, lambda j: j, lambda j, n: (less(j + 20, 20),)),
    "always": (lambda j: j, lambda j: j, lambda j, n: (less(j, 16),)),
}


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float16, dtypes.int64, dtypes.bool_, dtypes.uint8], ids=str)
@pytest.mark.by_turns(2)
def test_access_patterns(dtype: DType, tmp_path: Path) -> None:
    kernels, expected = [], []
    for number, (source, target, mask) in enumerate(ACCESSES.values()):
        for lanes in (1, 16):
            kernels.append(copy_kernel(f"k{number}_{lanes}", dtype, lanes, source, target, mask, (64, 64)))
            expected.append((source, target, mask, lanes))
    compiled = Compiled(kernels, tmp_path, flags="-march=native -O1")
    x = values(dtype, 64)
    for k, (source, target, mask, lanes) in zip(kernels, expected, strict=True):
        for n in (-3, 0, 1, 9, 12, 40):
            out, wanted = np.zeros(64, dtype.numpy), np.zeros(64, dtype.numpy)
            compiled.run(k.name, [out, x], [n])
            for j in range(lanes):
                conditions = [(int(_number(a)), int(_number(b))) for a, b in mask(j, n)] if mask else []
                if all(a < b for a, b in conditions):
                    wanted[target(j)] = x[source(j)]
            assert (out == wanted).all(), (k.name, n)


def _number(value: Any) -> int:
    return value.constant if isinstance(value, Index) else value


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_streamed_stores_reach_memory_wherever_they_lie(dtype: DType, tmp_path: Path) -> None:
    lanes = 64 // dtype.itemsize if dtype.itemsize < 8 else 16
    k = copy_kernel("k", dtype, lanes, lambda j: j, lambda j: j, None, (lanes, lanes), stream=True)
    compiled = Compiled([k], tmp_path, flags="-march=native -O1")
    room, x = np.zeros(4 * lanes + 128, dtype.numpy), values(dtype, lanes)
    for offset in range(0, lanes + 1, max(1, lanes // 4)):
        out = room[offset : offset + lanes]
        out[:] = 0
        compiled.run("k", [out, x], [0])
        assert (out == x).all()


def test_any_nonzero_byte_is_true(tmp_path: Path) -> None:
    kernels = [elementwise(f"k{n}", "not", [dtypes.bool_], dtypes.bool_, 256, n) for n in (1, 16)]
    compiled = Compiled(kernels, tmp_path)
    x = np.arange(256, dtype=np.uint8).view(bool)
    for k in kernels:
        out = np.full(256, 9, np.uint8)
        compiled.run(k.name, [out.view(bool), x])
        assert out.tolist() == [1] + [0] * 255


@pytest.mark.parametrize("flags", ["-march=native -O1", "-O1"])
@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16], ids=str)
def test_16_bit_floats_in_full(dtype: DType, flags: str, tmp_path: Path) -> None:
    kernels = []
    for lanes in (1, 4, 8, 16, 32):
        kernels.append(elementwise(f"widen{lanes}", "copy", [dtype], dtypes.float32, 65536, lanes))
        kernels.append(elementwise(f"narrow{lanes}", "copy", [dtypes.float32], dtype, 65536 * 4, lanes))
        kernels.append(
            elementwise(f"round{lanes}", "round16", [dtypes.float32], dtypes.float32, 65536 * 4, lanes, dtype)
        )
    compiled = Compiled(kernels, tmp_path, flags=flags)
    patterns = np.arange(65536, dtype=np.uint16).view(dtype.numpy)
    with np.errstate(all="ignore"):
        exact = patterns.astype(np.float32)
    # halfway between neighbors, just beside it, and the values themselves
    wide = exact.view(np.uint32)
    step = np.uint32(1 << 12 if dtype is dtypes.float16 else 1 << 15)
    samples = np.concatenate([wide, wide + step, wide + step - np.uint32(1), wide + step + np.uint32(1)]).view(
        np.float32
    )
    samples[:32] = [0.0, -0.0, np.inf, np.nan, 65519.996, 65520.0, 6e-8, 2.9e-8, 3e-8, 1e-45, 3.4e38, 3.39e38] + [
        1.0
    ] * 20
    with np.errstate(all="ignore"):
        rounded = samples.astype(dtype.numpy)
    for lanes in (1, 4, 8, 16, 32):
        out = np.ones(65536, np.float32)
        compiled.run(f"widen{lanes}", [out, patterns])
        assert identical(out, exact).all(), lanes
        stored = np.ones(65536 * 4, dtype.numpy)
        compiled.run(f"narrow{lanes}", [stored, samples])
        assert identical(stored.astype(np.float32), rounded.astype(np.float32)).all(), lanes
        back = np.ones(65536 * 4, np.float32)
        compiled.run(f"round{lanes}", [back, samples])
        assert identical(back, rounded.astype(np.float32)).all(), lanes


def test_symbolic_strides_and_sizes(tmp_path: Path) -> None:
    """A transposed copy of n rows of m: lanes step by a parameter, the tail is masked by one."""
    n, m = Variable("n", 1, 64), Variable("m", 1, 64)
    i, row = loop("i", of(n))
    j, block = loop("j", (of(m) + 7) // 8)
    lane = part("j.lane", 8)
    column = 8 * block + of(lane.variable)
    x, out = buffer("x", dtypes.float32, of(m), of(n)), buffer("out", dtypes.float32, of(n), of(m))
    value, mask = Value("a", dtypes.float32, (lane,)), (Less(column, of(m)),)
    body = [Load(value, x, (column, row), mask), Store(out, (row, column), value, mask)]
    k = kernel("k", [out, x], [For(i, of(n), [For(j, (of(m) + 7) // 8, body)], "grid")], [n, m])
    compiled = Compiled([k], tmp_path)
    for rows, columns in [(1, 1), (7, 13), (16, 8), (3, 64)]:
        source = np.random.default_rng(rows).standard_normal((columns, rows)).astype(np.float32)
        result = np.zeros((rows, columns), np.float32)
        assert compiled.tasks("k", [rows, columns]) == rows
        compiled.run("k", [result.reshape(-1), source.reshape(-1)], [rows, columns])
        assert (result == source.T).all()
