"""Small kernels built by hand, compiled and run."""

from __future__ import annotations

import ctypes
import platform
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from smelt.config import settings
from smelt.dtypes import DType, as_dtype, compute_dtype
from smelt.graph.index import Index, IndexLike, Variable, as_index, of
from smelt.graph.shapes import row_major
from smelt.kernel.ir import Compute, For, Kernel, Load, Part, Statement, Store, Value, named_part
from smelt.kernel.region import Buffer, Less
from smelt.render import render, workspace_bytes

_SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_long, ctypes.c_long)
# This machine; the same without its widest vectors; what every machine of the kind can do.
MACHINES = [
    "-march=native",
    *([pytest.param("-march=native -mno-avx512f", marks=pytest.mark.slow)] if platform.machine() == "x86_64" else []),
    pytest.param("", id="baseline", marks=pytest.mark.slow),
]
_FLAGS = "-O2 -ffp-contract=fast -fno-math-errno -fno-trapping-math -fno-tree-vectorize -fwrapv -shared -fPIC -w"


def buffer(name: str, dtype: DType, *shape: IndexLike) -> Buffer:
    return Buffer(name, dtype, shape, row_major(shape))


def part(name: str, extent: int) -> Part:
    found = named_part(name, extent)
    assert found is not None, name
    return found


def loop(name: str, count: IndexLike) -> tuple[Variable, Index]:
    v = Variable(name, 0, as_index(count) - 1)
    return v, of(v)


def kernel(
    name: str, buffers: Sequence[Buffer], body: Sequence[Statement], parameters: Sequence[Variable] = ()
) -> Kernel:
    tasks: Index = as_index(0)
    grids = [s for s in body if isinstance(s, For) and s.kind == "grid"]
    for grid in grids:
        tasks = tasks + grid.count
    return Kernel(name, tuple(buffers), tuple(parameters), tuple(body), tasks if grids else as_index(1))


def elementwise(
    name: str, op: str, sources: Sequence[DType], result: DType, count: int, lanes: int, attribute: Any = None
) -> Kernel:
    """result[i] = op(source0[i], ...), `lanes` elements at a time, the last ones masked."""
    i, index = loop("i", -(-count // lanes))
    lane = part("i.lane", lanes)
    at = index * lanes + of(lane.variable)
    mask = () if count % lanes == 0 else (_less(at, count),)
    buffers = [buffer("out", result, count), *(buffer(f"x{k}", d, count) for k, d in enumerate(sources))]
    values = [Value(f"a{k}", compute_dtype(d), (lane,)) for k, d in enumerate(sources)]
    out = Value("r", compute_dtype(result), (lane,))
    body: list[Statement] = [Load(v, b, (at,), mask) for v, b in zip(values, buffers[1:], strict=True)]
    body += [Compute(out, op, tuple(values), attribute), Store(buffers[0], (at,), out, mask)]
    return kernel(name, buffers, [For(i, as_index(-(-count // lanes)), body)])


def _less(a: IndexLike, b: IndexLike) -> Any:
    return Less(as_index(a), as_index(b))


class Compiled:
    """The kernels of one translation unit."""

    def __init__(
        self, kernels: Sequence[Kernel], folder: Path, compiler: str = "", flags: str = "-march=native"
    ) -> None:
        self.kernels = {k.name: k for k in kernels}
        self.text = render(kernels)
        source, library = folder / "k.c", folder / "k.so"
        source.write_text(self.text)
        command = [
            *(compiler or settings().compiler or "cc").split(),
            *_FLAGS.split(),
            *flags.split(),
            "-o",
            str(library),
            str(source),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000]
        self.library = ctypes.CDLL(str(library))

    def run(
        self,
        name: str,
        arrays: Sequence[np.ndarray[Any, Any]],
        integers: Sequence[int] = (),
        tasks: tuple[int, int] | None = None,
    ) -> None:
        """Run on the storage of the arrays, over all tasks unless a range is given."""
        k = self.kernels[name]
        for array, b in zip(arrays, k.buffers, strict=True):
            assert as_dtype(array.dtype) is b.dtype
        numbers = (ctypes.c_long * max(1, len(integers)))(*integers)
        pointers = (ctypes.c_void_p * max(1, len(arrays)))(*[a.ctypes.data for a in arrays])
        room = np.full(workspace_bytes(k) + 128, 0xFF, np.uint8)
        start = room.ctypes.data + -room.ctypes.data % 64
        begin, end = tasks or (0, self.tasks(name, integers))
        function = _SIGNATURE((name, self.library))
        function(ctypes.addressof(pointers), ctypes.addressof(numbers), start, begin, end)

    def tasks(self, name: str, integers: Sequence[int] = ()) -> int:
        k = self.kernels[name]
        if k.tasks.value is not None:
            return k.tasks.value
        function = getattr(self.library, f"{name}_tasks")
        function.restype, function.argtypes = ctypes.c_long, [ctypes.c_void_p]
        numbers = (ctypes.c_long * max(1, len(integers)))(*integers)
        return int(function(ctypes.addressof(numbers)))
