"""Ctrl-C at any moment: it surfaces, the next computation is right, and nothing half-done stays behind."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from smelt.locks import new_lock
from tests.device.helpers import holds_in_forked_child
from tests.hardening.processes import GRAPHS, damaged, says

# A timer stands for the user. Python runs handlers between two instructions, so raising the signal in one is the same
# as getting it there. What Python swallows, because it came inside a finalizer, comes again a moment later.
INTERRUPTED = (
    GRAPHS
    + """
import gc, os, random, signal, sys
from smelt import runtime
from smelt.device import memory, toolchain
from smelt.graph.node import live_nodes

moments, longest, seed, cold = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "cold"
draw = random.Random(seed)
layer = sm.jit(lambda x, y: (x @ y).relu().softmax(-1))
x = sm.from_numpy(np.linspace(-1, 1, 12 * 12, dtype=np.float32).reshape(12, 12))
first = layer(x, x).numpy()
swallowed = []
sys.unraisablehook = lambda what: swallowed.append(repr(what.object))
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))

def work(fresh):
    while True:
        if cold:
            fresh += 1
            runtime.current().clear_caches()
            layer_ = sm.jit(lambda x, y: (x @ y).relu().softmax(-1))
        else:
            layer_ = layer
        assert np.array_equal(layer_(x, x).numpy(), first)
        assert is_right(fresh % 40 if cold else 3)

is_right(3)
surfaced = 0
for moment in range(moments):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, draw.uniform(1e-4, longest), 0.2)
            work(draw.randrange(1000))
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except KeyboardInterrupt:
        surfaced += 1
    # The same and something new, at once.
    assert np.array_equal(layer(x, x).numpy(), first), moment
    assert is_right(3) and is_right(moment % 40), moment
    assert not runtime.is_tracing()
gc.collect()
print(surfaced, len(swallowed), memory.pool().used_bytes < 100_000)
"""
)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(
    ("moments", "longest", "temperature"),
    [
        (20, 0.004, "warm"),
        pytest.param(200, 0.01, "warm", marks=pytest.mark.slow),
        pytest.param(200, 0.1, "cold", marks=pytest.mark.slow),
    ],
)
def test_ctrl_c_at_random_moments(tmp_path: Path, moments: int, longest: float, temperature: str) -> None:
    cache, temporary = tmp_path / "cache", tmp_path / "tmp"
    temporary.mkdir()
    said = says(INTERRUPTED, cache, moments, longest, 11, temperature, TMPDIR=str(temporary))
    surfaced, swallowed, freed = said.split()
    assert int(surfaced) == moments
    assert int(swallowed) <= moments // 20  # Python itself drops what is raised in a finalizer
    assert freed == "True"
    assert damaged(cache) == []
    assert list(temporary.iterdir()) == []


LONG = """
import signal, sys
import numpy as np
import smelt as sm
from smelt.device import cpu

@sm.jit
def long(x):
    for _ in range(400):
        x = (x @ x) / 1500.0
    return x

x = sm.ones((1500, 1500)).realize()
long.memory(x)
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    long(x)
    print("finished")
except KeyboardInterrupt:
    print("interrupted", float((x + 1).sum()) == 2 * 1500 * 1500)
"""


@pytest.mark.slow
def test_ctrl_c_ends_a_long_call_between_two_kernels(tmp_path: Path) -> None:
    """All of it takes many times as long as the timer waits."""
    assert says(LONG, tmp_path / "cache") == "interrupted True"


ENDLESS = """
import signal
import numpy as np
import smelt as sm

signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
loop = sm.jit(lambda x: sm.while_loop(lambda s: s.sum() > -1, lambda s: (s + 1) % 7, x))
x = sm.ones((5,)).realize()
loop.memory(x)
signal.setitimer(signal.ITIMER_REAL, 0.1)
try:
    loop(x)
    print("finished")
except KeyboardInterrupt:
    print("interrupted", sm.fori_loop(0, 5, lambda i, s: s + i, x).tolist())
"""


def test_ctrl_c_ends_an_endless_loop(tmp_path: Path) -> None:
    assert says(ENDLESS, tmp_path / "cache") == f"interrupted {[11.0] * 5}"


def test_a_lock_is_free_after_an_interrupt_and_in_a_child() -> None:
    lock = new_lock()
    with pytest.raises(KeyboardInterrupt), lock:
        raise KeyboardInterrupt
    free: list[bool] = []

    def take() -> None:
        free.append(lock.acquire(blocking=False))
        lock.release()

    thread = threading.Thread(target=take)
    thread.start()
    thread.join()
    assert free == [True]
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert holds_in_forked_child(lambda: lock.acquire(blocking=False))
    finally:
        done.set()
        thread.join()
