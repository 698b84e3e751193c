"""Measures what `cost.Rates` holds, in under a second when its kernels have been compiled before.

Bandwidths and functions are those of kernels as smelt makes them, run by themselves; multiply-adds are counted in
registers (`peak`). Each figure is the best of several runs: whatever else the machine does only makes it slower.
`python -m smelt.bench.rates THREADS` prints them as JSON.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from smelt.bench import peak
from smelt.bench.contest import pin
from smelt.bench.kernels import Runner, buffer_bytes, memory_of
from smelt.cost import Profile
from smelt.cost.rates import Rates, assumed
from smelt.device.cpu import CPU
from smelt.kernel import Kernel, parse_region
from smelt.schedule.default import choose

_ROWS = 64  # tasks of each kernel
_SECONDS = 0.006  # for each figure and round
_ROUNDS = 3
_REST = 0.002  # seconds after which threads no longer wait for work
_RESTS = 6

_ELEMENTWISE = """region
axis i0 in 0 .. {last_row}
axis i1 in 0 .. {last}
buffer b0 float32 [{rows}, {size}] strides [{size}, 1] offset 0
%0: float32 = load b0[i0, i1]
%1: float32 = {op} %0
output o float32 [{rows}, {size}] strides [{size}, 1] offset 0
store o[i0, i1] = %1
"""
_SUM = """region
axis i0 in 0 .. {last_row}
axis r0 in 0 .. {last}
buffer b0 float32 [{rows}, {size}] strides [{size}, 1] offset 0
%0: float32 = load b0[i0, r0]
%1: float32 = reduce %0 add over r0
output o float32 [{rows}] strides [1] offset 0
store o[i0] = %1
"""
_PRODUCT = """region
axis i0 in 0 .. 511
axis i1 in 0 .. 511
axis r0 in 0 .. 511
buffer b0 bfloat16 [512, 512] strides [512, 1] offset 0
buffer b1 bfloat16 [512, 512] strides [512, 1] offset 0
%0: float32 = load b0[i0, r0]
%1: float32 = load b1[r0, i1]
%2: float32 = mul %0 %1
%3: float32 = reduce %2 add over r0
role A %0
role B %1
role y %3
output o float32 [512, 512] strides [512, 1] offset 0
store o[i0, i1] = %3
"""


class _Made(NamedTuple):
    kernel: Kernel
    library: Any
    memory: list[NDArray[np.uint8]]


def measured() -> Rates:
    """The figures of this machine: the best of a few rounds, since others may use it meanwhile."""
    profile = CPU().profile
    sizes = {  # bytes that are read
        "second": profile.l2_bytes // 2,
        "third": min(profile.l3_bytes // 2, 8 << 20),
        "memory": max(2 * profile.l3_bytes, 64 << 20),
    }
    texts = {name: _text(_SUM, nbytes) for name, nbytes in sizes.items()}
    texts |= {"copy": _text(_ELEMENTWISE, sizes["memory"], "neg"), "launch": _text(_SUM, 4 * _ROWS)}
    texts |= {op: _text(_ELEMENTWISE, sizes["second"] // 2, op) for op in ("neg", "exp", "reciprocal")}
    if assumed(profile).words:
        texts["words"] = _PRODUCT
    made, products = _built(texts, profile), peak.prepared(1)
    rounds = [_round(made, products, sizes, profile) for _ in range(_ROUNDS)]
    best = {name: max(figures) for name, *figures in zip(Rates._fields, *rounds, strict=True)}
    best |= {name: min(getattr(rates, name) for rates in rounds) for name in ("launch", "wake")}
    # Others may have kept all cores but one busy.
    return Rates(**best | {f"{name}_all": max(best[name], best[f"{name}_all"]) for name in ("memory", "copy")})


def _round(
    made: Mapping[str, _Made], products: tuple[Callable[[], None], float], sizes: Mapping[str, int], profile: Profile
) -> Rates:
    everyone = profile.cores
    figures = {name: nbytes / _nanoseconds(made[name], 1) for name, nbytes in sizes.items()}
    figures["memory_all"] = sizes["memory"] / _nanoseconds(made["memory"], everyone)
    for name, threads in (("copy", 1), ("copy_all", everyone)):
        figures[name] = 2 * sizes["memory"] / _nanoseconds(made["copy"], threads)
    plain = _nanoseconds(made["neg"], 1)  # what functions take to load and store, half of which they hide
    for name, op in (("function", "exp"), ("divide", "reciprocal")):
        figures[name] = sizes["second"] / 8 / max(_nanoseconds(made[op], 1) - plain / 2, plain / 4)
    figures["words"] = 2 * 512**3 / _nanoseconds(made["words"], 1) if "words" in made else 0.0
    alone, together = (_rested(made["launch"], threads) for threads in (1, everyone))
    start = time.process_time()
    products[0]()
    figures["multiply_add"] = 1e-9 * products[1] / (time.process_time() - start)
    return Rates(**figures, launch=alone, wake=max(together - alone, alone))


def _text(template: str, nbytes: int, op: str = "") -> str:
    """A kernel over so many bytes of its input."""
    size = max(1, nbytes // 4 // _ROWS)
    return template.format(rows=_ROWS, last_row=_ROWS - 1, size=size, last=size - 1, op=op)


def _built(texts: Mapping[str, str], profile: Profile) -> dict[str, _Made]:
    """The kernels of regions, all in one library; their memory is that of the largest."""
    kernels = {}
    for name, text in texts.items():
        _, kernel = choose(parse_region(text), profile)
        kernels[name] = replace(kernel, name=f"rate_{name}")
    [library] = CPU().build([CPU().render(list(kernels.values()))])
    needed = [buffer_bytes(buffer) for kernel in kernels.values() for buffer in kernel.buffers]
    shared = [memory_of(max(needed)) for _ in range(3)]
    return {name: _Made(kernel, library, shared[: len(kernel.buffers)]) for name, kernel in kernels.items()}


def _nanoseconds(made: _Made, threads: int) -> float:
    """The best time of a kernel, of which each thread takes the same share."""
    return 1e9 * _runner(made, threads).best(_SECONDS, least=2)


def _runner(made: _Made, threads: int) -> Runner:
    return Runner(*made[:2], -(-made.kernel.tasks.high // threads), threads, made.memory)


def _rested(made: _Made, threads: int) -> float:
    """The time of a kernel that does next to nothing, when nobody expects it."""
    runner, best = _runner(made, threads), math.inf
    for _ in range(_RESTS):
        time.sleep(_REST)
        best = min(best, runner())
    return max(1.0, 1e9 * best)


def main(threads: int) -> None:
    """On so many cores: print the figures, and the sizes of the caches."""
    pin(threads)
    profile = CPU().profile
    print(json.dumps(measured()._asdict() | {"l2": profile.l2_bytes, "l3": profile.l3_bytes}))


if __name__ == "__main__":
    main(int(sys.argv[1]))
