"""The quantized suite: products with matrices of codes in blocks, one for each format of GGUF files that can be made.

One row of inputs reads the whole matrix, which fits no cache: it is measured against the read bandwidth, which the same
process measures. Many rows are bound by products of bytes. Each number of threads has a process of its own, `python -m
smelt.bench.quantized FORMAT SECONDS`, which prints JSON.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import numpy as np

import smelt as sm
from smelt import cost
from smelt.bench.report import Row, threads_text
from smelt.bench.timing import best_of, run_json
from smelt.formats import blocks
from smelt.graph import upper
from smelt.llm import bench

FORMATS: Final = tuple(name for name, block in blocks.BLOCKS.items() if block.dtype is None and block.fit is not None)
LEAST_SHARE: Final = 0.9  # of the read bandwidth, with one row
ROWS: Final = (1, 64)
_INPUTS: Final = 2048
_OUTPUTS: Final = 256  # that are made; further ones repeat them
_CACHES: Final = 2  # times the last cache that a matrix is as large as
_LEAST_BYTES: Final = 32 << 20


def measure_quantized(
    names: Iterable[str], threads: Sequence[int], quick: bool, progress: Callable[[str], None]
) -> list[Row]:
    """For each format and number of threads a row for one row of inputs, and one for many."""
    rows: list[Row] = []
    for name in names:
        for count in threads:
            progress(f"{name}: {threads_text(count)}")
            words = ["-m", "smelt.bench.quantized", name, "0.1" if quick else "1"]
            for found in run_json(words, {"SMELT_THREADS": str(count)}):
                rows.append(_row(name, count, found, quick))
    return rows


def _row(name: str, threads: int, found: dict[str, float], quick: bool) -> Row:
    speed, share = found["nbytes"] / found["seconds"], found["nbytes"] / found["seconds"] / found["bandwidth"]
    one = found["rows"] == 1
    columns = {
        "GB/s": f"{1e-9 * speed:.1f}",
        "of read": f"{share:.0%}",
        "GOP/s": f"{1e-9 * found['operations'] / found['seconds']:.1f}",
        "error l2": f"{found['error']:.1e}",
    }
    detail = f"{found['bits']:.2f} bits a weight; reading {1e-9 * found['bandwidth']:.1f} GB/s"
    return Row(
        f"{name}, {found['rows']:.0f} row{'' if one else 's'}, {threads_text(threads)}",
        share if one else found["operations"] / found["seconds"],
        "×" if one else "GFLOP/s",
        LEAST_SHARE if one and not quick else None,
        at_least=True,
        detail=detail,
        columns=columns,
    )


# --- inside the processes


def _found(name: str, seconds: float) -> list[dict[str, float]]:
    """What products with a matrix of a format take, and how far they are from exact ones."""
    block, rng = blocks.BLOCKS[name], np.random.default_rng(0)
    raw = block.quantize(rng.standard_normal((_OUTPUTS, _INPUTS)).astype(np.float32))
    weights, codes = block.dequantize(raw).astype(np.float64), block.apart(raw.reshape(_OUTPUTS, -1))
    wanted = max(_CACHES * cost.profile().l3_bytes, _LEAST_BYTES)
    times = -(-wanted // raw.nbytes)
    part, zero, scale, minimum = codes
    many = [None if x is None else np.tile(x, (times, 1)) for x in (scale, minimum)]
    assert many[0] is not None
    layer = sm.nn.QuantizedLinear(sm.nn.QuantizedWeight(np.tile(part, (times, 1)), zero, many[0], many[1]))
    planes = [layer.weight.words, layer.weight.high, layer.weight.scale, layer.weight.minimum]
    nbytes = sum(upper(plane.nbytes) for plane in planes if plane is not None)
    bandwidth, rows = bench.read_bandwidth(), list[dict[str, float]]()
    for count in ROWS:
        x = rng.standard_normal((count, _INPUTS)).astype(np.float32)
        product, given = sm.jit(lambda layer, x: layer(x)), sm.asarray(x)
        exact = x.astype(np.float64) @ weights.T
        error = np.linalg.norm(product(layer, given).numpy()[:, :_OUTPUTS] - exact) / np.linalg.norm(exact)

        def call(product: Any = product, given: Any = given) -> None:
            product(layer, given).numpy()

        taken = best_of(call, window=seconds / 5)
        bandwidth = max(bandwidth, bench.read_bandwidth())
        numbers = _OUTPUTS * times * _INPUTS
        rows.append(
            {
                "rows": count,
                "seconds": taken,
                "nbytes": nbytes,
                "bits": 8 * nbytes / numbers,
                "operations": 2 * count * numbers,
                "error": float(error),
            }
        )
    return [row | {"bandwidth": bandwidth} for row in rows]


if __name__ == "__main__":
    print(json.dumps(_found(sys.argv[1], float(sys.argv[2]))))
