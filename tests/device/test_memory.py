"""Blocks are aligned, pinned by their views, recycled afterwards, and never more than the machine has."""

from __future__ import annotations

import gc
import itertools
import os
import threading
import weakref
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from smelt.device import memory
from smelt.device.memory import Memory, Pool, available_bytes, lasting, size_class, wrap
from smelt.errors import InternalError, MemoryLimitError
from tests.device.helpers import holds_in_forked_child

FLOAT = np.dtype(np.float32)


@pytest.fixture
def pool() -> Pool:
    return Pool(limit=1 << 20)


@given(st.integers(0, 1 << 45))
def test_size_classes_fit_and_waste_little(nbytes: int) -> None:
    size = size_class(nbytes)
    assert size >= nbytes
    assert size % 64 == 0
    assert size - nbytes <= max(64, nbytes // 4)
    assert size - nbytes <= nbytes // 8 or nbytes < 1 << 20
    assert size_class(size) == size


@pytest.mark.parametrize("nbytes", [0, 1, 63, 64, 65, 1009, 65535, 65536, 1_000_003])
def test_blocks_are_aligned_and_usable(nbytes: int) -> None:
    block = memory.allocate(nbytes)
    assert block.nbytes == nbytes
    assert block.address % (4096 if nbytes >= 65536 else 64) == 0
    block.view(np.dtype(np.uint8), (nbytes,), writeable=True)[...] = 7
    assert (block.view(np.dtype(np.uint8), (nbytes,)) == 7).all()


def test_live_blocks_do_not_overlap(pool: Pool) -> None:
    blocks = sorted(
        (pool.take(nbytes) for nbytes in [0, 1, 64, 100, 4096, 70000] * 20), key=lambda block: block.address
    )
    for one, next_one in itertools.pairwise(blocks):
        assert one.address + max(1, one.nbytes) <= next_one.address


def test_a_block_comes_back_when_its_last_reference_dies(pool: Pool) -> None:
    block = pool.take(1000)
    address = block.address
    other = block
    del block
    assert pool.kept_bytes == 0
    del other
    assert pool.kept_bytes == size_class(1000)
    assert pool.take(1001).address == address  # the same size class
    assert pool.kept_bytes == size_class(1000)


def test_views_pin_their_block(pool: Pool) -> None:
    block = pool.take(1000)
    view = block.view(FLOAT, (250,), writeable=True)
    view[:] = np.arange(250)
    part = view.reshape(10, 25)[3:, ::2].T
    del block, view
    gc.collect()
    assert pool.kept_bytes == 0
    pool.take(1000).view(FLOAT, (250,), writeable=True)[:] = -1
    np.testing.assert_array_equal(part, np.arange(250).reshape(10, 25)[3:, ::2].T)
    del part
    assert pool.kept_bytes == 2 * size_class(1000)


def test_a_read_only_view_stays_read_only(pool: Pool) -> None:
    view = pool.take(64).view(FLOAT, (16,))
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1
    with pytest.raises(ValueError, match="WRITEABLE"):
        view.setflags(write=True)
    with pytest.raises(ValueError, match="WRITEABLE"):
        view[2:].setflags(write=True)


def test_views_of_all_kinds(pool: Pool) -> None:
    block = pool.take(240)
    flat = block.view(FLOAT, (60,), writeable=True)
    flat[:] = np.arange(60)
    np.testing.assert_array_equal(block.view(FLOAT, (3, 4, 5)), flat.reshape(3, 4, 5))
    np.testing.assert_array_equal(block.view(FLOAT, (5, 3), (4, 20), 8), flat[2:17].reshape(3, 5).T)
    np.testing.assert_array_equal(block.view(FLOAT, (4,), (-8,), 24), flat[6::-2])
    np.testing.assert_array_equal(block.view(FLOAT, (2, 3), (0, 4), 4), [[1, 2, 3], [1, 2, 3]])
    assert block.view(FLOAT, (), None, 236) == 59
    assert block.view(FLOAT, (0, 7)).shape == (0, 7)
    assert block.view(FLOAT, (7, 0), None, 240).size == 0
    assert block.view(np.dtype(ml_dtypes.bfloat16), (120,)).dtype == ml_dtypes.bfloat16


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [((61,), None, 0), ((60,), None, 4), ((1,), None, -4), ((2,), (240,), 0), ((2,), (-4,), 0)],
)
def test_a_view_never_leaves_its_block(
    pool: Pool, shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int
) -> None:
    with pytest.raises(InternalError):
        pool.take(240).view(FLOAT, shape, strides, offset)


def test_the_oldest_blocks_are_released_past_the_limit() -> None:
    pool = Pool(limit=10_000)
    blocks = [pool.take(4096), pool.take(1024), pool.take(4096), pool.take(4096)]
    addresses = [block.address for block in blocks]
    while blocks:
        del blocks[0]
    assert pool.kept_bytes == 1024 + 2 * 4096  # without the first
    assert [pool.take(4096).address, pool.take(1024).address] == [addresses[3], addresses[1]]
    pool.trim()
    assert pool.kept_bytes == 0


def test_a_block_larger_than_the_limit_is_not_kept() -> None:
    pool = Pool(limit=1000)
    pool.take(5000)
    assert pool.kept_bytes == 0


def test_too_much_is_a_typed_error(pool: Pool) -> None:
    pool.take(5000)
    with pytest.raises(MemoryLimitError, match="cannot allocate"):
        pool.take(1 << 60)
    assert pool.kept_bytes == 0  # everything was released in the attempt


def test_wrapped_arrays_are_shared_and_kept_alive() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    block = wrap(array)
    assert block.nbytes == 48
    assert not block.recycled
    array[0, 0] = 99
    del array
    gc.collect()
    view = block.view(FLOAT, (3, 4), writeable=True)
    assert view[0, 0] == 99
    del block
    np.testing.assert_array_equal(view[1], [4, 5, 6, 7])


def test_wrapping_strided_arrays_begins_at_the_lowest_byte() -> None:
    whole = np.arange(20, dtype=np.float32)
    backwards = whole[::-2]
    block = wrap(backwards)
    offset = backwards.__array_interface__["data"][0] - block.address
    np.testing.assert_array_equal(block.view(FLOAT, backwards.shape, backwards.strides, offset), backwards)
    assert wrap(whole[3:3]).nbytes == 0
    assert wrap(np.broadcast_to(np.float32(1), (1000,))).nbytes == 4


def test_wrapping_keeps_read_only_arrays_read_only() -> None:
    array = np.zeros(3, np.float32)
    array.setflags(write=False)
    with pytest.raises(InternalError):
        wrap(array).view(FLOAT, (3,), writeable=True)
    with pytest.raises(InternalError):
        wrap(np.array([object()]))


def test_what_lasts_lies_side_by_side() -> None:
    arrays = [lasting((3, 50), np.float32) for _ in range(8)]
    places = [array.__array_interface__["data"][0] for array in arrays]
    assert all(place % 64 == 0 for place in places)
    assert all(array.shape == (3, 50) and array.dtype == np.float32 for array in arrays)
    assert sum(after - place == 640 for place, after in itertools.pairwise(places)) >= 6  # but where a stretch ended
    for k, array in enumerate(arrays):
        array[...] = k
    assert [array.min() for array in arrays] == [array.max() for array in arrays] == list(range(8))
    assert lasting((0, 4), np.int8).size == 0


def test_what_lasts_is_returned_when_all_of_a_stretch_is_gone() -> None:
    stretch = weakref.ref(_owner(lasting((1 << 20,), np.int64)))  # long enough for one of its own
    gc.collect()
    assert stretch() is None


def _owner(array: Any) -> Any:
    while array.base is not None:
        array = array.base
    return array


def test_threads_share_the_pool(pool: Pool) -> None:
    wrong: list[int] = []

    def storm(number: int) -> None:
        held: list[tuple[Memory, int]] = []
        for turn in range(300):
            block = pool.take((turn * 37 + number) % 3000 + 8)
            block.view(np.dtype(np.int64), (1,), writeable=True)[0] = value = number * 1000 + turn
            held.append((block, value))
            if turn % 3 == 0:
                block, value = held.pop(turn % len(held))
                wrong.extend([value] if block.view(np.dtype(np.int64), (1,))[0] != value else [])

    threads = [threading.Thread(target=storm, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    gc.collect()
    kept = pool.kept_bytes
    pool.trim()
    assert kept > 0
    assert pool.kept_bytes == 0


def test_a_forked_child_allocates() -> None:
    with memory._pool._lock:  # as if another thread were allocating
        assert holds_in_forked_child(lambda: memory.allocate(100).nbytes == 100)


def write(root: Path, texts: dict[str, str]) -> Path:
    for name, text in texts.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


MACHINE = {"proc/meminfo": "MemTotal: 16000 kB\nMemFree: 1000 kB\nMemAvailable: 8000 kB\n"}
STAT = "anon 5\ninactive_file 1000\ntotal_inactive_file 2000\n"

SITUATIONS = {
    "no groups": ({}, 8_192_000),
    "version 2, limited": (
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "900000\n",
            "sys/fs/cgroup/a/b/memory.current": "400000\n",
            "sys/fs/cgroup/a/b/memory.stat": STAT,
        },
        501_000,
    ),
    "version 2, limited further out": (
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/memory.max": "500000\n",
            "sys/fs/cgroup/a/memory.current": "100000\n",
            "sys/fs/cgroup/a/memory.stat": STAT,
        },
        401_000,
    ),
    "version 2, in a container": (
        {
            "proc/self/cgroup": "0::/../../x\n",
            "sys/fs/cgroup/memory.max": "300000\n",
            "sys/fs/cgroup/memory.current": "100000\n",
            "sys/fs/cgroup/memory.stat": STAT,
        },
        201_000,
    ),
    "version 1": (
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/c\n4:memory:/c\n0::/\n",
            "sys/fs/cgroup/memory/c/memory.limit_in_bytes": "700000\n",
            "sys/fs/cgroup/memory/c/memory.usage_in_bytes": "200000\n",
            "sys/fs/cgroup/memory/c/memory.stat": STAT,
        },
        502_000,
    ),
    "more used than allowed": (
        {
            "proc/self/cgroup": "0::/\n",
            "sys/fs/cgroup/memory.max": "100\n",
            "sys/fs/cgroup/memory.current": "900000\n",
            "sys/fs/cgroup/memory.stat": "",
        },
        0,
    ),
    "nonsense": ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "lots\n"}, 8_192_000),
}


@pytest.mark.parametrize("situation", SITUATIONS)
def test_available_bytes_minds_control_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, situation: str) -> None:
    monkeypatch.setattr(memory, "_pool", Pool(limit=0))
    texts, expected = SITUATIONS[situation]
    assert available_bytes(write(tmp_path, MACHINE | texts)) == expected


def test_available_bytes_of_this_machine() -> None:
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < available_bytes() <= physical + memory._pool.kept_bytes
    assert available_bytes(Path("/nonexistent")) >= physical
