"""The most floating-point operations per second that this machine does, measured: independent multiply-adds in
registers, on every core. `python -m smelt.bench.peak` is a contender (see `contest`): machines are not equally fast at
all times, so that the peak is measured in alternation with what is compared to it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable

from smelt.bench.contest import seconds_per_call, serve
from smelt.cost import profile
from smelt.device import toolchain

_ACCUMULATORS = 12  # enough to hide the latency of a multiply-add, few enough to stay in registers
_ITERATIONS = 2_000_000

# The assembly, which is empty, keeps compilers from multiplying once and for all.
_SOURCE = """
#if defined(__aarch64__)
#define REGISTER "+w"
#else
#define REGISTER "+v"
#endif
typedef float vec __attribute__((vector_size({nbytes})));
float multiply_adds(long iterations, float start) {{
    vec a = {{}}, b = {{}};
    a += start; b += 1.0f - start;
    vec {names};
    {clear}
    for (long i = 0; i < iterations; i++) {{ __asm__("" : REGISTER(a)); {body} }}
    vec total = {total};
    float sum = 0;
    for (int k = 0; k < {lanes}; k++) sum += total[k];
    return sum;
}}
"""


def marked(cores: int = 0) -> Callable[[], float]:
    """What says how fast the machine is at the moment: the seconds of a millisecond's work on so many cores, or all."""
    call, _ = prepared(cores or profile().cores, _ITERATIONS // 8)

    def mark() -> float:
        return min(seconds_per_call(call, 1) for _ in range(3))

    return mark


def prepared(cores: int, iterations: int = _ITERATIONS) -> tuple[Callable[[], None], float]:
    """A call that keeps so many cores busy, and how many operations it does."""
    nbytes = profile().vector_bytes
    lanes = nbytes // 4
    names = [f"c{k}" for k in range(_ACCUMULATORS)]
    source = _SOURCE.format(
        nbytes=nbytes,
        names=", ".join(names),
        clear=" ".join(f"{name} = a + {k};" for k, name in enumerate(names)),  # equal ones would become one
        body=" ".join(f"{name} += a * b;" for name in names),
        total=" + ".join(names),
        lanes=lanes,
    )
    [library] = toolchain.build([source])
    function = ctypes.CFUNCTYPE(ctypes.c_float, ctypes.c_long, ctypes.c_float)(library.address("multiply_adds"))

    def call(library: object = library) -> None:  # which has to stay loaded
        threads = [threading.Thread(target=function, args=(iterations, 0.5)) for _ in range(cores)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return call, 2.0 * _ACCUMULATORS * lanes * iterations * cores


def main() -> None:
    """Prepare, say how many operations a call does, and serve."""
    call, flops = prepared(profile().cores)
    serve(call, {"flops": flops})


if __name__ == "__main__":
    main()
