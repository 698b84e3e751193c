"""What memory itself can do, as a contender: a copy.

The copy stands for the least that a kernel has to do which reads and writes so many bytes in all: half of them are read
from one array and written to another of the same size, so that the bytes moved and the memory touched are the kernel's.
Its stores are plain ones. Each thread copies one contiguous part, and all wait for each other after every copy.
"""

from __future__ import annotations

import ctypes
import threading
import time

import numpy as np
from numpy.typing import NDArray

from smelt.cost import profile
from smelt.device import toolchain

# The empty assembly keeps compilers from calling memcpy, whose stores are not plain ones for arrays of this size.
_SOURCE = """
typedef float vec __attribute__((vector_size({nbytes}), aligned({nbytes})));
void copy_rounds(const char *from, char *to, long bytes, long rounds, int *arrived, int threads) {{
    const long step = 4 * (long)sizeof(vec);
    for (long round = 1; round <= rounds; round++) {{
        for (long i = 0; i < bytes; i += step) {{
            const vec *source = (const vec *)(from + i);
            vec *target = (vec *)(to + i);
            vec a = source[0], b = source[1], c = source[2], d = source[3];
            target[0] = a; target[1] = b; target[2] = c; target[3] = d;
            __asm__ volatile("" ::: "memory");
        }}
        __atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL);
        while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < round * threads) {{ }}
    }}
}}
"""
_SIGNATURE = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_int)
_ALIGNMENT = 4096


class Copier:
    """Copies that move `nbytes` bytes each, reading and writing taken together; a call gives the seconds of one."""

    def __init__(self, nbytes: float, threads: int) -> None:
        [self._library] = toolchain.build([_SOURCE.format(nbytes=profile().vector_bytes)])
        self._function = ctypes.CFUNCTYPE(None, *_SIGNATURE)(self._library.address("copy_rounds"))
        self._threads = threads
        self._part = int(nbytes) // 2 // threads // _ALIGNMENT * _ALIGNMENT
        self.source, self.target = (_aligned(threads * self._part, value) for value in (1, 0))

    def __call__(self, calls: int) -> float:
        arrived = ctypes.c_int(0)
        source, target = self.source.ctypes.data, self.target.ctypes.data
        rest = (self._part, calls, ctypes.addressof(arrived), self._threads)
        workers = [
            threading.Thread(target=self._function, args=(source + offset, target + offset, *rest))
            for offset in range(0, self._threads * self._part, self._part)
        ]
        start = time.perf_counter()
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        return (time.perf_counter() - start) / calls


def _aligned(nbytes: int, value: int) -> NDArray[np.uint8]:
    """Filled, so that its pages are there."""
    block = np.full(nbytes + _ALIGNMENT, value, np.uint8)
    offset = -block.ctypes.data % _ALIGNMENT
    return block[offset : offset + nbytes]
