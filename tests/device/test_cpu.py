"""Programs of hand-written kernels: in order, over threads, from threads, after a fork, with any number of tasks."""

from __future__ import annotations

import ctypes
import struct
import sys
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from smelt.config import configure
from smelt.device.cpu import CPU, Program
from smelt.device.memory import Memory
from smelt.device.protocol import REGISTER, Control, Launch, Listing
from smelt.errors import InternalError
from tests.device.helpers import holds_in_forked_child

KERNELS = """
#define KERNEL(name) void name(void *const *b, const long *n, char *w, long begin, long end)

/* out[t] = 3 * in[t] + t */
KERNEL(affine) {
    const long *in = b[0];
    long *out = b[1];
    for (long t = begin; t < end; t++) out[t] = 3 * in[t] + t;
}

/* Through the workspace, slowly: others would be seen writing to it. */
KERNEL(scratch) {
    long *out = b[0];
    volatile long *mine = (volatile long *)w;
    for (long t = begin; t < end; t++) {
        for (int i = 0; i < 64; i++) mine[i] = t + i;
        long sum = 0;
        for (int i = 0; i < 64; i++) sum += mine[i];
        out[t] = sum;
    }
}

/* Whose workspace a task has; it takes a moment. */
KERNEL(whose) {
    long *out = b[0];
    for (long t = begin; t < end; t++) {
        out[t] = (long)w;
        for (volatile int i = 0; i < 64; i++) {}
    }
}

KERNEL(add_one) { long *x = b[0]; for (long t = begin; t < end; t++) x[t]++; }
KERNEL(twice) { long *x = b[0]; for (long t = begin; t < end; t++) x[t] *= 2; }
KERNEL(span) { __atomic_add_fetch((long *)b[0], end - begin, 0); __atomic_add_fetch((long *)b[0] + 1, 1, 0); }
KERNEL(integers) { long *out = b[0]; for (long t = begin; t < end; t++) out[t] = n[0] * 100 + n[1]; }
KERNEL(denormal) { float *x = b[0]; for (long t = begin; t < end; t++) x[t] *= 0.5f; }
KERNEL(far) { long *out = b[end > 0 ? 99 : 0]; for (long t = begin; t < end; t++) out[t] = (long)b[1]; }
KERNEL(nothing) {}

/* Two calls wait for each other; each says whether its thread blocks SIGINT. */
extern int sched_yield(void), pthread_sigmask(int, const void *, void *), sigismember(const void *, int);
KERNEL(meet) {
    long *x = b[0], set[16];
    pthread_sigmask(0, 0, set);
    for (long t = begin; t < end; t++) x[1 + t] = sigismember(set, 2);
    __atomic_add_fetch(x, end - begin, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(x, __ATOMIC_SEQ_CST) < 2) sched_yield();
}

long tasks_of_first(const long *n) { return n[0]; }
void flush_to_zero(void) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#endif
}
long float_state(void) {
#if defined(__x86_64__)
    return __builtin_ia32_stmxcsr();
#else
    return 0x8040;
#endif
}
"""

LONG = np.dtype(np.int64)


@pytest.fixture(scope="module")
def cpu() -> CPU:
    return CPU()


@pytest.fixture(scope="module")
def address(cpu: CPU) -> Any:
    return cpu.build([KERNELS])[0].address


def loaded(cpu: CPU, steps: list[Any], slots: list[tuple[int, int]], scratch: int, arena: int) -> Program:
    return cpu.load(Listing(steps, slots, scratch, arena), cpu.build([KERNELS]))


def longs(cpu: CPU, values: NDArray[Any] | list[int]) -> tuple[Memory, NDArray[Any]]:
    block = cpu.allocate(8 * len(values))
    view = block.view(LONG, (len(values),), writeable=True)
    view[:] = values
    return block, view


def run(cpu: CPU, program: Program, *blocks: Memory, integers: tuple[int, ...] = ()) -> None:
    arena = cpu.allocate(program.arena_bytes)
    bases = struct.pack(f"{1 + len(blocks)}q", arena.address, *(block.address for block in blocks))
    program.run(bases, struct.pack(f"{len(integers)}q", *integers))


def test_one_launch(cpu: CPU) -> None:
    source, _ = longs(cpu, np.arange(17))
    target, result = longs(cpu, np.zeros(17))
    program = loaded(cpu, [Launch(0, "affine", "", 17, 100, 1, (0, 1), ())], [(1, 0), (2, 0)], 0, 0)
    run(cpu, program, source, target)
    np.testing.assert_array_equal(result, 4 * np.arange(17))


def test_offsets_and_the_arena(cpu: CPU) -> None:
    """An intermediate in the arena, an input and an output in the same external block."""
    block, values = longs(cpu, np.arange(20))
    launches = [
        Launch(0, "affine", "", 5, 100, 1, (0, 2), ()),
        Launch(0, "affine", "", 5, 100, 1, (2, 1), ()),
    ]
    program = loaded(cpu, launches, [(1, 8 * 3), (1, 8 * 10), (0, 64)], 0, 128)
    run(cpu, program, block)
    inputs, steps = np.arange(3, 8), np.arange(5)
    np.testing.assert_array_equal(values[10:15], 3 * (3 * inputs + steps) + steps)
    np.testing.assert_array_equal(values[:10], np.arange(10))
    np.testing.assert_array_equal(values[15:], np.arange(15, 20))


def test_a_thousand_launches_run_in_order(cpu: CPU) -> None:
    block, value = longs(cpu, [1])
    names = ["add_one", "twice", "add_one", "nothing"] * 250
    expected = 1
    for name in names:
        expected = {"add_one": expected + 1, "twice": expected * 2, "nothing": expected}[name] % (1 << 64)
    launches = [Launch(0, name, "", 1, 1, 1, (0,), ()) for name in names]
    run(cpu, loaded(cpu, launches, [(1, 0)], 0, 0), block)
    assert int(value[0]) % (1 << 64) == expected


def test_parallel_launches_run_in_order(cpu: CPU) -> None:
    block, values = longs(cpu, np.arange(1009))
    launches = [Launch(0, name, "", 1009, 7, 1, (0,), ()) for name in ["add_one", "twice"] * 20]
    expected = np.arange(1009)
    for _ in range(20):
        expected = (expected + 1) * 2
    for threads in (1, 2, 3, 8):
        values[:] = np.arange(1009)
        with configure(threads=threads):
            run(cpu, loaded(cpu, launches, [(1, 0)], 0, 0), block)
        np.testing.assert_array_equal(values, expected)


@given(tasks=st.integers(0, 3000), grain=st.integers(1, 600), threads=st.integers(1, 6))
def test_every_task_runs_once_whatever_the_threads(tasks: int, grain: int, threads: int) -> None:
    cpu = CPU()
    block, values = longs(cpu, np.zeros(tasks + 64))
    with configure(threads=threads):
        run(cpu, loaded(cpu, [Launch(0, "add_one", "", tasks, grain, 1, (0,), ())] * 3, [(1, 0)], 0, 0), block)
    assert (values[:tasks] == 3).all()
    assert (values[tasks:] == 0).all()


def test_each_thread_has_its_own_workspace(cpu: CPU) -> None:
    block, values = longs(cpu, np.zeros(2000))
    with configure(threads=4):
        program = loaded(cpu, [Launch(0, "scratch", "", 2000, 1, 1, (0,), ())] * 5, [(1, 0)], 500, 100)
    assert program.arena_bytes == 128 + 4 * 512
    run(cpu, program, block)
    np.testing.assert_array_equal(values, 64 * np.arange(2000) + 63 * 32)


@pytest.mark.parametrize(("tasks", "grain"), [(64, 1), (97, 1), (1000, 3), (30, 7)])
def test_threads_work_on_neighbors(cpu: CPU, tasks: int, grain: int) -> None:
    block, values = longs(cpu, np.zeros(tasks))
    with configure(threads=2):
        program = loaded(cpu, [Launch(0, "whose", "", tasks, grain, 1, (0,), ())] * 20, [(1, 0)], 64, 0)
    run(cpu, program, block)
    # A share each, of which the other one may have worked through the end.
    assert np.count_nonzero(np.diff(values)) <= 3
    assert len(set(values.tolist())) <= 2


@pytest.mark.parametrize(
    ("tasks", "grain"),
    [
        (0, 1),
        (1, 1),
        (2, 1),
        (2, 1 << 62),
        ((1 << 40) + 1, 1 << 30),
        ((1 << 62) + 3, 1 << 50),
        ((1 << 62) + 3, 1 << 30),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_tasks(cpu: CPU, tasks: int, grain: int, threads: int) -> None:
    block, values = longs(cpu, [0, 0])
    with configure(threads=threads):
        run(cpu, loaded(cpu, [Launch(0, "span", "", tasks, grain, 1, (0,), ())], [(1, 0)], 0, 0), block)
    assert values[0] == tasks
    assert values[1] <= 1 << 24  # calls


def test_symbolic_extents_count_their_tasks(cpu: CPU) -> None:
    block, values = longs(cpu, np.zeros(64))
    launch = Launch(0, "integers", "tasks_of_first", 0, 2, 1, (0,), (2, 0))
    program = loaded(cpu, [launch], [(1, 0)], 0, 0)
    for count in (0, 1, 5, 33):
        values[:] = 0
        run(cpu, program, block, integers=(7, -1, count))
        assert (values[:count] == count * 100 + 7).all()
        assert (values[count:] == 0).all()
    values[:] = 0
    run(cpu, program, block, integers=(7, -1, -5))
    assert (values == 0).all()


def test_kernels_with_many_buffers(cpu: CPU) -> None:
    block, values = longs(cpu, np.zeros(200))
    slots = [(1, 8 * number) for number in range(200)]
    program = loaded(cpu, [Launch(0, "far", "", 1, 1, 1, tuple(range(200)), ())], slots, 0, 0)
    run(cpu, program, block)
    assert values[99] == block.address + 8


def test_an_empty_program(cpu: CPU) -> None:
    program = loaded(cpu, [], [], 0, 0)
    assert program.arena_bytes == 0
    program.run(struct.pack("q", 0), b"")


def test_python_threads_run_programs_at_once(cpu: CPU) -> None:
    """Whoever finds the pool busy works alone, in its own arena."""
    with configure(threads=3):
        program = loaded(cpu, [Launch(0, "scratch", "", 500, 1, 1, (0,), ())] * 20, [(1, 0)], 512, 0)
    barrier = threading.Barrier(8)
    wrong: list[int] = []

    def work(number: int) -> None:
        block, values = longs(cpu, np.zeros(500))
        barrier.wait()
        for _ in range(10):
            values[:] = 0
            run(cpu, program, block)
            if not np.array_equal(values, 64 * np.arange(500) + 63 * 32):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def parallel_work_is_right(cpu: CPU) -> bool:
    block, values = longs(cpu, np.zeros(1009))
    with configure(threads=2):
        program = loaded(cpu, [Launch(0, "add_one", "", 1009, 1, 1, (0,), ())] * 50, [(1, 0)], 0, 0)
    run(cpu, program, block)
    return bool((values == 50).all())


def test_a_forked_child_runs_programs(cpu: CPU) -> None:
    assert parallel_work_is_right(cpu)  # the parent has its threads
    for _ in range(3):
        assert holds_in_forked_child(lambda: parallel_work_is_right(cpu))
    assert holds_in_forked_child(lambda: holds_in_forked_child(lambda: parallel_work_is_right(cpu)))
    assert parallel_work_is_right(cpu)


def test_a_fork_while_the_pool_is_at_work(cpu: CPU) -> None:
    """The child inherits a pool that belongs to a thread which it does not have."""
    with configure(threads=2):
        program = loaded(cpu, [Launch(0, "add_one", "", 1009, 1, 1, (0,), ())] * 50, [(1, 0)], 0, 0)
    stop = threading.Event()

    def work() -> None:
        block, _ = longs(cpu, np.zeros(1009))
        while not stop.is_set():
            run(cpu, program, block)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        for _ in range(10):
            assert holds_in_forked_child(lambda: parallel_work_is_right(cpu))
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(sys.platform != "linux", reason="sizes and numbers of Linux")
def test_threads_work_at_the_same_time_and_leave_signals_alone(cpu: CPU) -> None:
    block, values = longs(cpu, np.zeros(3))
    with configure(threads=2):
        run(cpu, loaded(cpu, [Launch(0, "meet", "", 2, 1, 1, (0,), ())], [(1, 0)], 0, 0), block)
    assert values[0] == 2
    assert sorted(values[1:]) == [0, 1]  # only the thread of the pool blocks SIGINT


def test_the_float_state_of_the_caller_does_not_matter(cpu: CPU, address: Any) -> None:
    """Some libraries switch subnormal numbers off for the thread that loads them."""
    block = cpu.allocate(4 * 4096)
    values = block.view(np.dtype(np.float32), (4096,), writeable=True)
    values[:] = np.float32(2e-38)
    with configure(threads=2):
        program = loaded(cpu, [Launch(0, "denormal", "", 4096, 16, 1, (0,), ())], [(1, 0)], 0, 0)
    states: list[int] = []

    def spoiled() -> None:
        ctypes.CFUNCTYPE(None)(address("flush_to_zero"))()
        run(cpu, program, block)
        states.append(ctypes.CFUNCTYPE(ctypes.c_long)(address("float_state"))())

    thread = threading.Thread(target=spoiled)
    thread.start()
    thread.join()
    assert states[0] & 0x8040 == 0x8040  # the caller's state is as it was
    assert (values.view(np.int32) == np.float32(1e-38).view(np.int32)).all()


def test_the_number_of_threads_comes_from_the_settings(cpu: CPU) -> None:
    assert loaded(cpu, [], [], 0, 0).threads == cpu.profile.cores
    with configure(threads=5):
        assert loaded(cpu, [], [], 64, 0).arena_bytes == 5 * 64
    with configure(threads=1_000_000):
        assert loaded(cpu, [], [], 0, 0).threads == 256


GOOD = Launch(0, "add_one", "", 1, 1, 1, (0,), ())


@pytest.mark.parametrize(
    ("launch", "slots", "scratch", "arena"),
    [
        (replace(GOOD, buffers=(1,)), [(0, 0)], 0, 64),
        (replace(GOOD, buffers=(-1,)), [(0, 0)], 0, 64),
        (replace(GOOD, integers=(-1,)), [(0, 0)], 0, 64),
        (replace(GOOD, kernel="not_there"), [(0, 0)], 0, 64),
        (replace(GOOD, buffers=(0,) * 5000), [(0, 0)], 0, 64),
        (GOOD, [(0, 65)], 0, 64),
        (GOOD, [(-1, 0)], 0, 64),
        (GOOD, [(1, -8)], 0, 64),
        (GOOD, [(0, 0)], -1, 64),
    ],
)
def test_wrong_programs_are_refused(
    cpu: CPU, launch: Launch, slots: list[tuple[int, int]], scratch: int, arena: int
) -> None:
    with pytest.raises(InternalError):
        loaded(cpu, [launch], slots, scratch, arena)


# --- steps between launches

# Slots: the block, the counter, two registers, two places in the arena, and an amount in the block.
SLOTS = [(1, 0), (0, 0), (REGISTER, 8), (REGISTER, 16), (0, 64), (0, 72), (1, 56)]
BLOCK, COUNTER, NOW, NEXT, A, B, AMOUNT = range(7)
ONE_REGISTER = [*SLOTS[:3], (0, 0), *SLOTS[4:]]


def test_a_loop_counts_and_moves_on(cpu: CPU) -> None:
    """Each of five elements is doubled, one per iteration; the number of iterations lies in memory."""
    block, values = longs(cpu, [1, 2, 3, 4, 5, 6, 7, 5])
    steps = [
        Control("point", (NOW, BLOCK)),
        Control("set", (COUNTER,), amount=0),
        Control("until", (COUNTER, AMOUNT), target=6),
        Launch(0, "twice", "", 1, 1, 1, (NOW,), ()),
        Control("advance", (NOW,), amount=8),
        Control("again", (COUNTER,), target=2),
    ]
    run(cpu, loaded(cpu, steps, ONE_REGISTER, 0, 128), block)
    assert values.tolist() == [2, 4, 6, 8, 10, 6, 7, 5]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 1000])
def test_a_state_lies_in_two_places(cpu: CPU, count: int) -> None:
    block, values = longs(cpu, [7, 0])
    steps = [
        Control("point", (NOW, BLOCK)),
        Control("point", (NEXT, A)),
        Control("set", (COUNTER,)),
        Control("until", (COUNTER,), amount=count, target=7),
        Launch(0, "affine", "", 1, 1, 1, (NOW, NEXT), ()),
        Control("rotate", (NOW, NEXT, A, B)),
        Control("again", (COUNTER,), target=3),
        Control("point", (NEXT, BLOCK)),
        Control("advance", (NEXT,), amount=8),
        Control("copy", (NEXT, NOW), amount=8),
    ]
    run(cpu, loaded(cpu, steps, SLOTS, 0, 128), block)
    expected = pow(3, count) * 7
    assert values[0] == 7
    assert values[1] == (expected + 2**63) % 2**64 - 2**63


@pytest.mark.parametrize("flag", [0, 1])
def test_a_branch(cpu: CPU, flag: int) -> None:
    block, values = longs(cpu, [flag, 10])
    steps = [
        Control("unless", (0,), target=3),
        Launch(0, "add_one", "", 1, 1, 1, (1,), ()),
        Control("jump", (), target=4),
        Launch(0, "twice", "", 1, 1, 1, (1,), ()),
    ]
    run(cpu, loaded(cpu, steps, [(1, 0), (1, 8)], 0, 0), block)
    assert values[1] == (11 if flag else 20)


@pytest.mark.parametrize(
    "step",
    [
        Control("unheard of", ()),
        Control("point", (A, B)),
        Control("point", (NOW,)),
        Control("point", (NOW, 99)),
        Control("jump", (), target=3),
        Control("jump", (), target=-1),
        Control("set", (BLOCK,)),
        Control("again", (NOW,)),
        Control("copy", (A, B, AMOUNT, A)),
        Control("rotate", (NOW, A, A, B)),
    ],
    ids=str,
)
def test_wrong_steps_are_refused(cpu: CPU, step: Control) -> None:
    with pytest.raises(InternalError):
        loaded(cpu, [Control("point", (NOW, A)), step], ONE_REGISTER, 0, 128)


def test_too_few_pointers_or_integers_are_refused(cpu: CPU) -> None:
    program = loaded(cpu, [Launch(0, "integers", "", 1, 1, 1, (0,), (0, 3))], [(2, 0)], 0, 0)
    with pytest.raises(InternalError):
        program.run(bytes(16), bytes(32))
    with pytest.raises(InternalError):
        program.run(bytes(24), bytes(24))
