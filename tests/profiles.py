"""Processors as tests name them, so that no test knows the machine of its author.

Tests of schedules give one of these to what they test. A whole run chooses its kernels as for another processor with
SMELT_TEST_PROFILE=avx2 (see `BY_NAME`): the C compiler spells vectors of any width on any machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from unittest.mock import PropertyMock, patch

from smelt.cost import Profile, profile
from smelt.device.cpu import CPU

_HALVES: Final = frozenset({"avx2", "fma", "f16c"})
_WORDS: Final = _HALVES | {"avx512f", "avx512bw", "avx512vl", "avx512_vnni", "avx512_bf16"}
_TILES: Final = frozenset({"amx_tile", "amx_bf16", "amx_int8"})

AVX512: Final = Profile("a server", "x86_64", 64, 32, 2, 48 << 10, 2 << 20, 32 << 20, _WORDS)
AMX: Final = AVX512._replace(name="a server with matrix instructions", cores=4, features=_WORDS | _TILES)
AVX2: Final = Profile("a laptop", "x86_64", 32, 16, 8, 32 << 10, 256 << 10, 12 << 20, _HALVES)
NEON: Final = Profile("an ARM processor", "aarch64", 16, 32, 2, 64 << 10, 1 << 20, 32 << 20, frozenset({"asimd"}))

BY_NAME: Final = {"amx": AMX, "avx512": AVX512, "avx2": AVX2, "neon": NEON}


def here() -> Profile:
    """The processor that kernels are chosen for in this run."""
    return CPU().profile


@contextmanager
def emulated(machine: Profile) -> Iterator[None]:
    """Choose kernels as for this processor, with its vectors, registers, caches and cores. Threads and instructions are
    those of the real one: what it lacks would be spelled out, and take the C compiler minutes. What was compiled before
    stays as it is."""
    machine = machine._replace(features=machine.features & profile().features)
    identity = f"{CPU().identity}\nas {machine.name}"
    with (
        patch.object(CPU, "profile", PropertyMock(return_value=machine)),
        patch.object(CPU, "identity", PropertyMock(return_value=identity)),
    ):
        yield
