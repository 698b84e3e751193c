"""The most floating-point operations per second that this machine does, measured: independent multiply-adds in
registers, on every core.
"""

from __future__ import annotations

import ctypes
import threading
import time

from smelt.device import toolchain
from smelt.device.cpu import CPU

_ACCUMULATORS = 12  # enough to hide the latency of a multiply-add, few enough to stay in registers
_ITERATIONS = 2_000_000

_SOURCE = """
typedef float vec __attribute__((vector_size({nbytes})));
float multiply_adds(long iterations, float start) {{
    vec a = {{}}, b = {{}};
    a += start; b += 1.0f - start;
    vec {names};
    {clear}
    for (long i = 0; i < iterations; i++) {{ {body} }}
    vec total = {total};
    float sum = 0;
    for (int k = 0; k < {lanes}; k++) sum += total[k];
    return sum;
}}
"""


def peak_flops(rounds: int = 5) -> float:
    """Single-precision operations per second on all cores: the best of several rounds."""
    profile = CPU().profile
    lanes = profile.vector_bytes // 4
    names = [f"c{k}" for k in range(_ACCUMULATORS)]
    source = _SOURCE.format(
        nbytes=profile.vector_bytes,
        names=", ".join(names),
        clear=" ".join(f"{name} = a;" for name in names),
        body=" ".join(f"{name} = {name} * a + b;" for name in names),
        total=" + ".join(names),
        lanes=lanes,
    )
    [library] = toolchain.build([source])
    function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_long, ctypes.c_float)(library.address("multiply_adds"))
    operations = 2.0 * _ACCUMULATORS * lanes * _ITERATIONS * profile.cores
    return max(operations / _seconds(function, profile.cores) for _ in range(rounds))


def _seconds(function: ctypes._FuncPointer, cores: int) -> float:
    threads = [threading.Thread(target=function, args=(_ITERATIONS, 0.5)) for _ in range(cores)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - start
