"""Whole kernels: loops, tasks, accumulators, folds, masks, and kernels lowered from regions."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import InternalError
from smelt.graph.index import Variable, as_index, of
from smelt.graph.shapes import row_major
from smelt.kernel import lower
from smelt.kernel.ir import (
    Accumulator,
    Compute,
    For,
    If,
    Kernel,
    Let,
    Load,
    Local,
    Reduce,
    Statement,
    Store,
    Update,
    Value,
)
from smelt.kernel.region import Buffer, Less, Place
from smelt.render import render, workspace_bytes
from smelt.schedule.facts import contraction_of
from smelt.schedule.tiling import Tiling
from tests.kernel.regions import Case, matmul
from tests.kernel.runners import evaluate_region
from tests.render.support import Compiled, buffer, elementwise, kernel, loop, part

f32 = dtypes.float32


def tile_kernel(rows: int, registers: int, lanes: int, depth: int, dtype: DType = f32) -> Kernel:
    """A matrix product with one register tile: out[rows, registers*lanes] = a @ b."""
    width = registers * lanes
    m, r, lane = part("m.reg", rows), part("n.reg", registers), part("n.lane", lanes)
    a, b, out = buffer("a", dtype, rows, depth), buffer("b", dtype, depth, width), buffer("out", dtype, rows, width)
    k, at = loop("k", depth)
    column = lanes * of(r.variable) + of(lane.variable)
    total = Value("t", dtype, (m, r, lane))
    left, right = Value("x", dtype, (m,)), Value("y", dtype, (r, lane))
    body: list[Statement] = [
        Accumulator(total, 0),
        For(
            k,
            as_index(depth),
            [
                Load(left, a, (of(m.variable), at)),
                Load(right, b, (at, column)),
                Update(total, "fma", (left, right)),
            ],
            unroll=4,
        ),
        Store(out, (of(m.variable), column), total),
    ]
    return kernel(f"mm_{dtype.name}", [out, a, b], body)


def test_register_tile_multiplies_matrices(tmp_path: Path) -> None:
    kinds = [dtypes.float32, dtypes.float64, dtypes.int8, dtypes.int32, dtypes.uint64]
    compiled = Compiled([tile_kernel(5, 3, 4, 13, dtype) for dtype in kinds], tmp_path)
    rng = np.random.default_rng(0)
    for dtype in kinds:
        a, b = (rng.integers(-100, 100, shape).astype(dtype.numpy) for shape in ((5, 13), (13, 12)))
        out = np.zeros((5, 12), dtype.numpy)
        compiled.run(f"mm_{dtype.name}", [out.reshape(-1), a.reshape(-1), b.reshape(-1)])
        assert (out == a @ b).all(), dtype


@pytest.mark.parametrize("flags", ["-march=native", "-march=native -U__aarch64__"], ids=["here", "by memory"])
def test_packed_rows_are_the_lanes_of_vectors(flags: str, tmp_path: Path) -> None:
    region = matmul(19, 29, 13).region
    contraction = contraction_of(region)
    assert contraction is not None
    lowered = lower(region, Tiling(8, 3, 4, "shrink", panels=2, left="columns", right="panels").actions(contraction))
    compiled = Compiled([replace(lowered, name="k")], tmp_path, flags=flags)
    assert "LANE(q" in compiled.text
    arrays, expected = Case(region).arrays(), Case(region).arrays()
    evaluate_region(region, expected, {})
    compiled.run("k", [arrays[buffer.name].reshape(-1) for buffer in lowered.buffers])
    np.testing.assert_allclose(arrays["o"], expected["o"], rtol=1e-5, atol=1e-5)


def test_the_tile_stays_in_registers() -> None:
    """One statement per multiply-add, no load repeated."""
    text = render([tile_kernel(6, 4, 16, 100)])
    assert text.count(" * v") == 24
    assert text.count("*(const f32x16_u *)") == 4


@pytest.mark.parametrize("op", ["add", "mul", "max", "min"])
@pytest.mark.by_turns(4)
def test_folds_over_registers_and_lanes(op: str, tmp_path: Path) -> None:
    kinds = [d for d in dtypes.ALL if not (d.is_bool and op in ("add", "mul"))]
    shapes = [(1, 16), (3, 1), (5, 2), (4, 8), (2, 64)]
    kernels = []
    for dtype in kinds:
        for registers, lanes in shapes:
            r, lane = part("i.reg", registers), part("i.lane", lanes)
            wide = dtypes.compute_dtype(dtype)
            x, out = buffer("x", dtype, registers * lanes), buffer("out", dtype, lanes + 1)
            value, partial = Value("v", wide, (r, lane)), Value("p", wide, (lane,))
            total = Value("t", wide)
            at = lanes * of(r.variable) + of(lane.variable)
            body: list[Statement] = [
                Load(value, x, (at,)),
                Reduce(partial, op, value, (r,)),
                Reduce(total, op, value, (r, lane)),
                Store(out, (of(lane.variable),), partial),
                Store(out, (as_index(lanes),), total),
            ]
            kernels.append(kernel(f"f_{dtype.name}_{registers}_{lanes}", [out, x], body))
    compiled = Compiled(kernels, tmp_path, flags="-march=native -O1")
    fold: Any = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}[op]
    for dtype in kinds:
        for registers, lanes in shapes:
            numbers = np.array([1, 2, -1] if dtype.is_signed or dtype.is_float else [1, 2, 0])  # exact in any order
            x = np.resize(numbers, registers * lanes).astype(dtype.numpy)
            out = np.ones(lanes + 1, dtype.numpy)
            compiled.run(f"f_{dtype.name}_{registers}_{lanes}", [out, x])
            tile = x.reshape(registers, lanes).astype(dtypes.compute_dtype(dtype).numpy)
            with np.errstate(all="ignore"):
                columns, whole = fold.reduce(tile, 0, dtype=tile.dtype), fold.reduce(tile.reshape(-1), dtype=tile.dtype)
                wanted = np.concatenate([columns, [whole]]).astype(dtype.numpy)
            assert (out == wanted).all(), (dtype, registers, lanes, out, wanted)


def test_fma_sums_lanes_that_the_accumulator_lacks(tmp_path: Path) -> None:
    lane, r = part("k.lane", 8), part("k.reg", 3)
    x, y, out = buffer("x", f32, 24), buffer("y", f32, 24), buffer("out", f32, 1)
    at = 8 * of(r.variable) + of(lane.variable)
    a, b, total = Value("a", f32, (r, lane)), Value("b", f32, (r, lane)), Value("t", f32)
    body: list[Statement] = [
        Accumulator(total, 0.0),
        Load(a, x, (at,)),
        Load(b, y, (at,)),
        Update(total, "fma", (a, b)),
        Store(out, (as_index(0),), total),
    ]
    compiled = Compiled([kernel("k", [out, x, y], body)], tmp_path)
    data = np.arange(24, dtype=np.float32)
    result = np.zeros(1, np.float32)
    compiled.run("k", [result, data, data])
    assert result[0] == (data * data).sum()


@pytest.mark.parametrize("op", ["add", "mul", "max", "min", "set"])
def test_updates_of_fewer_registers_change_only_the_first(op: str, tmp_path: Path) -> None:
    long_part, short_part, lane = part("i.reg", 4), part("i.reg", 2), part("i.lane", 8)
    x, out = buffer("x", f32, 32), buffer("out", f32, 32)
    at, short_at = (8 * of(one.variable) + of(lane.variable) for one in (long_part, short_part))
    total, value = Value("t", f32, (long_part, lane)), Value("v", f32, (short_part, lane))
    body: list[Statement] = [
        Accumulator(total, 2.0),
        Load(value, x, (short_at,)),
        Update(total, op, (value,)),
        Store(out, (at,), total),
    ]
    compiled = Compiled([kernel("k", [out, x], body)], tmp_path)
    data = np.arange(32, dtype=np.float32)
    result, wanted = np.zeros(32, np.float32), np.full((4, 8), 2.0, np.float32)
    compiled.run("k", [result, data])
    head = data.reshape(4, 8)[:2]
    fold = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum, "set": lambda a, b: b}[op]
    wanted[:2] = fold(wanted[:2], head)
    assert (result.reshape(4, 8) == wanted).all()


def test_copies_of_an_accumulator_keep_the_old_value(tmp_path: Path) -> None:
    x, out = buffer("x", f32, 1), buffer("out", f32, 3)
    total, old, value, twice = (Value(name, f32) for name in ("t", "o", "v", "w"))
    body: list[Statement] = [
        Accumulator(total, 1.0),
        Load(value, x, (as_index(0),)),
        Compute(old, "copy", (total,)),
        Compute(twice, "add", (total, total)),
        Update(total, "add", (value,)),
        Store(out, (as_index(0),), old),
        Store(out, (as_index(1),), twice),
        Store(out, (as_index(2),), total),
    ]
    compiled = Compiled([kernel("k", [out, x], body)], tmp_path)
    result = np.zeros(3, np.float32)
    compiled.run("k", [result, np.array([5], np.float32)])
    assert result.tolist() == [1, 2, 6]


def test_loads_come_before_a_store_to_the_same_buffer(tmp_path: Path) -> None:
    x = buffer("x", f32, 32)
    r, lane = part("i.reg", 2), part("i.lane", 16)
    at, swapped = 16 * of(r.variable) + of(lane.variable), 16 * (1 - of(r.variable)) + of(lane.variable)
    value = Value("v", f32, (r, lane))
    compiled = Compiled([kernel("k", [x], [Load(value, x, (swapped,)), Store(x, (at,), value)])], tmp_path)
    data = np.arange(32, dtype=np.float32)
    compiled.run("k", [data])
    assert data.tolist() == [*range(16, 32), *range(16)]


def grid_kernel() -> Kernel:
    """Two grid loops: out[i] = i below n, then out[n + j] = -j below 2*n."""
    n = Variable("n", 0, 100)
    out = buffer("out", dtypes.int64, 3 * of(n))
    (i, first), (j, second) = loop("i", of(n)), loop("j", 2 * of(n))
    a, b = Value("a", dtypes.int64), Value("b", dtypes.int64)
    body: list[Statement] = [
        For(i, of(n), [Compute(a, "index", (), first), Store(out, (first,), a)], "grid"),
        For(j, 2 * of(n), [Compute(b, "index", (), -second), Store(out, (of(n) + second,), b)], "grid"),
    ]
    return kernel("k", [out], body, [n])


def test_tasks_in_pieces_equal_the_whole(tmp_path: Path) -> None:
    compiled = Compiled([grid_kernel()], tmp_path)
    rng = np.random.default_rng(1)
    for n in (0, 1, 7, 30):
        wanted = np.array([*range(n), *(-j for j in range(2 * n))], np.int64)
        assert compiled.tasks("k", [n]) == 3 * n
        for pieces in (1, 2, 5):
            cuts = [0, *sorted(rng.integers(0, 3 * n + 1, pieces - 1)), 3 * n]
            out = np.full(3 * n, 99, np.int64)
            for begin, end in itertools.pairwise(cuts):
                compiled.run("k", [out], [n], (int(begin), int(end)))
            assert (out == wanted).all(), (n, cuts)


def test_a_piece_touches_only_its_own_tasks(tmp_path: Path) -> None:
    compiled = Compiled([grid_kernel()], tmp_path)
    out = np.full(30, 99, np.int64)
    compiled.run("k", [out], [10], (8, 13))
    assert out.tolist() == [99] * 8 + [8, 9, 0, -1, -2] + [99] * 17


def test_locals_conditions_and_integers(tmp_path: Path) -> None:
    """Reverse in a local buffer, then store the first half doubled and the rest as it is."""
    n = Variable("n", 1, 20)
    x, out = buffer("x", dtypes.int32, of(n)), buffer("out", dtypes.int32, of(n))
    room = Buffer("room", dtypes.int32, (20,), row_major((20,)), place=Place.LOCAL)
    (i, at), (j, to) = loop("i", of(n)), loop("j", of(n))
    half = Variable("half", 0, 10)
    a, b, c = (Value(name, dtypes.int32) for name in "abc")
    body: list[Statement] = [
        Local(room),
        Let(half, of(n) // 2),
        For(i, of(n), [Load(a, x, (at,)), Store(room, (of(n) - 1 - at,), a)]),
        For(
            j,
            of(n),
            [
                Load(b, room, (to,)),
                If(
                    (Less(to, of(half)),),
                    [Compute(c, "add", (b, b)), Store(out, (to,), c)],
                    [Store(out, (to,), b)],
                ),
            ],
        ),
    ]
    k = kernel("k", [out, x], body, [n])
    assert workspace_bytes(k) == 128
    compiled = Compiled([k], tmp_path)
    for count in (1, 2, 7, 20):
        data, result = np.arange(count, dtype=np.int32), np.zeros(count, np.int32)
        compiled.run("k", [result, data], [count])
        wanted = data[::-1].copy()
        wanted[: count // 2] *= 2
        assert (result == wanted).all()


@pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.float64, dtypes.int8, dtypes.uint16, dtypes.bool_], ids=str)
def test_where_with_masks_and_indices(dtype: DType, tmp_path: Path) -> None:
    """out = x where (i // 3) % 2 == 0 and n > i and flag, else y; all forms of conditions, several lanes."""
    n = Variable("n", -5, 50)
    kernels = []
    for lanes in (1, 4, 32):
        lane = part("i.lane", lanes)
        i, block = loop("i", 64 // lanes)
        at = lanes * block + (of(lane.variable) if lanes > 1 else 0)
        x, y, out = (buffer(name, dtype, 64) for name in ("x", "y", "out"))
        flag = buffer("flag", dtypes.bool_, 64)
        a, b, c = (Value(name, dtype, (lane,)) for name in "abc")
        m, q, e, f, both, all_ = (Value(name, dtypes.bool_, (lane,)) for name in ("m", "q", "e", "f", "both", "all"))
        position, two = (Value(name, dtypes.int64, (lane,)) for name in ("position", "two"))
        body: list[Statement] = [
            Load(a, x, (at,)),
            Load(b, y, (at,)),
            Load(f, flag, (at,)),
            Compute(m, "mask", (), (Less(at, of(n)), Less(as_index(-4), of(n)))),
            Compute(q, "mask", (), (Less((at // 3) % 2, as_index(1)),)),
            Compute(position, "index", (), at % 5),
            Compute(two, "const", (), 2),
            Compute(e, "ne", (position, two)),
            Compute(both, "and", (m, q)),
            Compute(all_, "and", (both, f)),
            Compute(Value("last", dtypes.bool_, (lane,)), "and", (all_, e)),
            Compute(c, "where", (Value("last", dtypes.bool_, (lane,)), a, b)),
            Store(out, (at,), c),
        ]
        kernels.append(kernel(f"k{lanes}", [out, x, y, flag], [For(i, as_index(64 // lanes), body)], [n]))
    compiled = Compiled(kernels, tmp_path)
    rng, i = np.random.default_rng(3), np.arange(64)
    x, y = rng.integers(0, 2, 64).astype(dtype.numpy), (rng.integers(0, 2, 64) + 1).astype(dtype.numpy)
    flag = rng.integers(0, 2, 64).astype(bool)
    for lanes in (1, 4, 32):
        for count in (-5, 0, 13, 50):
            out = np.zeros(64, dtype.numpy)
            compiled.run(f"k{lanes}", [out, x, y, flag], [count])
            condition = (i < count) & (count > -4) & (i // 3 % 2 < 1) & flag & (i % 5 != 2)
            assert (out == np.where(condition, x, y)).all(), (lanes, count)


def test_a_chain_of_two_thousand_functions(tmp_path: Path) -> None:
    lane = part("i.lane", 8)
    x, out = buffer("x", f32, 8), buffer("out", f32, 8)
    one, value = Value("one", f32), Value("v0", f32, (lane,))
    body: list[Statement] = [Compute(one, "const", (), 1.0), Load(value, x, (of(lane.variable),))]
    for i in range(1, 2001):
        following = Value(f"v{i}", f32, (lane,))
        body.append(Compute(following, "add", (value, one)))
        value = following
    body.append(Store(out, (of(lane.variable),), value))
    compiled = Compiled([kernel("k", [out, x], body)], tmp_path, flags="-march=native -O1")
    result = np.zeros(8, np.float32)
    compiled.run("k", [result, np.arange(8, dtype=np.float32)])
    assert result.tolist() == [2000.0 + j for j in range(8)]


def test_text_is_a_function_of_the_kernel_and_names_stay_out() -> None:
    evil = 'x"; } /* \n#include <stdio.h> */'
    lane = part("i.lane", 8)
    x, out = Buffer(evil, f32, (8,), (1,)), buffer("out", f32, 8)
    value = Value(evil, f32, (lane,))
    k = kernel("k", [out, x], [Load(value, x, (of(lane.variable),)), Store(out, (of(lane.variable),), value)])
    text = render([k])
    assert "include" not in text and evil not in text
    assert text == render([k])
    with pytest.raises(InternalError, match="identifier"):
        render([kernel(evil, [], [])])


def test_only_what_is_used_is_emitted() -> None:
    text = render([elementwise("k", "add", [f32, f32], f32, 32, 16)])
    assert "exp_f32" not in text and "f64x" not in text and "masked" not in text and "#include" not in text


def test_names_never_hide_types(tmp_path: Path) -> None:
    """With many loops their numbers pass 8, 16, 32 and 64, which are also widths of types."""
    out = buffer("out", dtypes.int8, 70)
    body: list[Statement] = []
    for number in range(70):
        variable, _ = loop(f"l{number}", 1)
        value = Value(f"c{number}", dtypes.int8)
        body.append(
            For(variable, as_index(1), [Compute(value, "const", (), -number), Store(out, (as_index(number),), value)])
        )
    k = kernel("k", [out], body)
    result = np.zeros(70, np.int8)
    Compiled([k], tmp_path).run("k", [result])
    np.testing.assert_array_equal(result, -np.arange(70))
