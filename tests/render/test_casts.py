"""Conversions between all dtypes, bitcasts, and constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from smelt import dtypes
from smelt.dtypes import DType, cast_array, compute_dtype
from smelt.errors import InternalError
from smelt.graph.index import as_index, of
from smelt.kernel.ir import Compute, Kernel, Store, Value
from smelt.render import render
from tests.render.support import MACHINES, Compiled, buffer, elementwise, kernel, part

COUNT = 61


def samples(dtype: DType) -> NDArray[Any]:
    rng = np.random.default_rng(7)
    if dtype.is_bool:
        return rng.integers(0, 2, COUNT).astype(bool)
    if dtype.is_integer:
        data = rng.integers(0, 256, COUNT * dtype.itemsize, dtype=np.uint8).view(dtype.numpy).copy()
        data[:4] = [dtype.minimum, dtype.maximum, 0, 1]
        return data
    edges = [0.0, -0.0, np.nan, np.inf, -np.inf, 0.5, -0.5, 0.99, -0.99, 1.5, -1.5, 127.0, 127.9, 128.0, -128.9, -129.0]
    edges += [255.9, 256.0, 32767.5, 32768.0, -32768.9, 65535.9, 65536.0, 2147483520.0, 2147483648.0, -2147483648.0]
    edges += [4294967040.0, 4294967296.0, 9.2e18, 9.3e18, -9.2e18, -9.3e18, 1.84e19, 1.85e19, 1e30, -1e30]
    with np.errstate(all="ignore"):
        return np.concatenate([edges, rng.standard_normal(COUNT) * 300])[:COUNT].astype(dtype.numpy)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("flags", MACHINES)
def test_every_cast(flags: str, tmp_path: Path) -> None:
    kernels = [
        elementwise(f"k_{a.name}_{b.name}_{lanes}", "cast", [a], b, COUNT, lanes)
        for a in dtypes.ALL
        for b in dtypes.ALL
        for lanes in (1, 8)
    ]
    compiled = Compiled(kernels, tmp_path, flags=f"{flags} -O1")
    for a in dtypes.ALL:
        x = samples(a)
        for b in dtypes.ALL:
            with np.errstate(all="ignore"):
                wanted = cast_array(cast_array(x, compute_dtype(a)), compute_dtype(b)).astype(b.numpy)
            for lanes in (1, 8):
                out = np.ones(COUNT, b.numpy)
                compiled.run(f"k_{a.name}_{b.name}_{lanes}", [out, x])
                same = (out == wanted) | (np.isnan(wanted) & np.isnan(out))
                assert same.all(), (a, b, lanes, x[~same], out[~same], wanted[~same])


BITCASTS = [
    (a, b)
    for a in dtypes.ALL
    for b in dtypes.ALL
    if a.bits == b.bits and not (a.is_bool or b.is_bool) and compute_dtype(a) is a and compute_dtype(b) is b
]


def test_bitcasts_keep_every_bit(tmp_path: Path) -> None:
    kernels = [
        elementwise(f"k_{a.name}_{b.name}_{lanes}", "bitcast", [a], b, COUNT, lanes)
        for a, b in BITCASTS
        for lanes in (1, 8)
    ]
    compiled = Compiled(kernels, tmp_path, flags="-march=native -O1")
    for a, b in BITCASTS:
        x = samples(a)
        for lanes in (1, 8):
            out = np.ones(COUNT, b.numpy)
            compiled.run(f"k_{a.name}_{b.name}_{lanes}", [out, x])
            assert out.tobytes() == x.tobytes(), (a, b, lanes)


def test_bitcast_to_another_width_is_refused() -> None:
    with pytest.raises(InternalError, match="bitcast"):
        render([elementwise("k", "bitcast", [dtypes.float32], dtypes.int64, 8, 8)])


def constant_kernel(name: str, value: Any, dtype: DType, lanes: int) -> Kernel:
    lane = part("i.lane", lanes)
    constant, out = Value("c", dtype, (lane,)), buffer("out", dtype, lanes)
    index = of(lane.variable) if lanes > 1 else as_index(0)
    return kernel(name, [out], [Compute(constant, "const", (), value), Store(out, (index,), constant)])


CONSTANTS: dict[DType, list[Any]] = {
    dtypes.bool_: [True, False],
    dtypes.int8: [-128, 127, 0, -1, 300],
    dtypes.int32: [-(2**31), 2**31 - 1, -7],
    dtypes.int64: [-(2**63), 2**63 - 1, 0],
    dtypes.uint8: [255, 0],
    dtypes.uint64: [2**64 - 1, 0, 2**63],
    dtypes.float32: [
        0.1,
        -0.0,
        0.0,
        1e-45,
        1e-46,
        3.4028234663852886e38,
        1e39,
        -1e39,
        np.inf,
        -np.inf,
        np.nan,
        -3.0,
        1e6,
    ],
    dtypes.float64: [0.1, -0.0, 5e-324, 1.7976931348623157e308, np.inf, -np.inf, np.nan, 2.0**60],
}


def test_constants_are_exact(tmp_path: Path) -> None:
    cases = [(d, v, lanes) for d, listed in CONSTANTS.items() for v in listed for lanes in (1, 4)]
    kernels = [constant_kernel(f"k{i}", v, d, lanes) for i, (d, v, lanes) in enumerate(cases)]
    compiled = Compiled(kernels, tmp_path, flags="-march=native -O1")
    for i, (dtype, value, lanes) in enumerate(cases):
        out = np.ones(lanes, dtype.numpy)
        compiled.run(f"k{i}", [out])
        with np.errstate(all="ignore"):
            wanted = np.array([value], np.int64 if value == 300 else None).astype(dtype.numpy).repeat(lanes)
        assert out.tobytes() == wanted.tobytes(), (dtype, value)
