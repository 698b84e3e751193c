"""Memory of an OpenCL device, with a stand-in for pyopencl: buffers are made rarely, and the oldest are released."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from smelt.device.opencl import Context
from smelt.errors import MemoryLimitError

MEGABYTE = 1 << 20
TOTAL = 64 * MEGABYTE  # of the device; an eighth of it may lie in the pool


class CLError(Exception):
    """What pyopencl calls Error."""


class Driver:
    """Counts buffers, and has room for so many bytes."""

    def __init__(self) -> None:
        self.made = 0
        self.used = 0

    def context(self) -> Context:
        flags: Any = SimpleNamespace(PROFILING_ENABLE=1, READ_WRITE=1)
        cl = SimpleNamespace(
            Context=lambda devices: object(),
            CommandQueue=lambda handle, properties: object(),
            command_queue_properties=flags,
            mem_flags=flags,
            Error=CLError,
            Buffer=lambda handle, flags, nbytes: Buffer(self, nbytes),
        )
        return Context(cl, SimpleNamespace(global_mem_size=TOTAL, name="a stand-in"))


class Buffer:
    def __init__(self, driver: Driver, nbytes: int) -> None:
        self.driver, self.nbytes = driver, 0
        if driver.used + nbytes > TOTAL:
            raise CLError("CL_MEM_OBJECT_ALLOCATION_FAILURE")
        self.nbytes = nbytes
        driver.made += 1
        driver.used += nbytes

    def __del__(self) -> None:
        self.driver.used -= self.nbytes


@pytest.fixture
def driver() -> Driver:
    return Driver()


def test_a_result_of_every_call_is_allocated_once(driver: Driver) -> None:
    context = driver.context()
    result = context.pool.take(3 * MEGABYTE)
    for _ in range(5):
        result = context.pool.take(3 * MEGABYTE)  # the old one lives until the new one is there
    assert result.address
    assert driver.made == 3  # two that take turns, and the one that stands for nothing


def test_a_pool_full_of_other_sizes_makes_room(driver: Driver) -> None:
    context = driver.context()
    others = [context.pool.take(MEGABYTE) for _ in range(8)]
    while others:
        others.pop()
    for _ in range(5):
        context.pool.take(4 * MEGABYTE)
    assert driver.made == 1 + 8 + 1
    assert context.pool.kept_bytes <= TOTAL // 8


def test_what_is_kept_is_released_before_an_allocation_fails(driver: Driver) -> None:
    context = driver.context()
    held = context.pool.take(56 * MEGABYTE)
    context.pool.take(7 * MEGABYTE)
    assert context.pool.kept_bytes
    room = context.pool.take(6 * MEGABYTE)
    assert held.address != room.address
    with pytest.raises(MemoryLimitError, match="cannot allocate"):
        context.pool.take(8 * MEGABYTE)
    assert len(context.blocks) == 3  # with the one that stands for nothing
