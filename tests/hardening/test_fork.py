"""Children by fork: made while the pool exists, while another thread computes or compiles, while locks are held."""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import diskcache, runtime
from smelt.config import configure
from smelt.device import cpu, memory, toolchain
from smelt.errors import InternalError
from smelt.search.processes import Worker
from tests.device.helpers import holds_in_forked_child
from tests.turns import TEST_ALL

TURNS = 10 if TEST_ALL else 4

X = np.linspace(-1, 1, 300 * 200, dtype=np.float32).reshape(300, 200)


def _known_graph_is_right() -> bool:
    return bool(np.allclose((sm.from_numpy(X) * 2 + 1).sum(0).numpy(), (X * 2 + 1).sum(0), rtol=1e-4, atol=1e-3))


def _new_graph_is_right() -> bool:
    """Lowered and compiled anew, whatever is in memory or on disk."""
    runtime.current().clear_caches()
    toolchain._libraries.clear()
    with configure(disk_cache=False):
        return bool(np.allclose((sm.from_numpy(X) - 3).max(0).numpy(), (X - 3).max(0)))


@contextlib.contextmanager
def _meanwhile(work: Callable[[], bool]) -> Iterator[None]:
    """Another thread does something over and over."""
    stop, failed = threading.Event(), list[BaseException]()

    def over_and_over() -> None:
        try:
            while not stop.is_set():
                assert work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=over_and_over)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
    assert failed == []


def test_children_and_parent_compute_while_another_thread_does() -> None:
    with configure(threads=2), _meanwhile(_known_graph_is_right):
        for _ in range(TURNS):
            assert holds_in_forked_child(_known_graph_is_right)
            assert _known_graph_is_right()


@pytest.mark.slow
def test_children_compile_while_another_thread_does() -> None:
    with _meanwhile(_new_graph_is_right):
        for _ in range(TURNS):
            assert holds_in_forked_child(lambda: _new_graph_is_right() and _known_graph_is_right())
            assert _known_graph_is_right()


LOCKS: dict[str, Callable[[], Any]] = {
    "the runtime's": lambda: runtime.current()._lock,
    "the graphs in memory": lambda: runtime.current().graphs._lock,
    "the kernels in memory": lambda: runtime.current().compiler.kernels._lock,
    "the random state": lambda: runtime.current().random._lock,
    "the pool of memory": lambda: memory.pool()._lock,
    "the libraries": lambda: toolchain._lock,
    "the native runtime": lambda: cpu._runtime_lock,
    "the cache on disk": lambda: diskcache._pruning,
}


@pytest.mark.parametrize("name", LOCKS)
def test_a_fork_while_another_thread_holds_a_lock(name: str) -> None:
    lock, held, done = LOCKS[name](), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    def check() -> bool:
        sm.random.seed(1)
        memory.pool().trim()
        return _known_graph_is_right() and LOCKS[name]().acquire(blocking=False)

    _known_graph_is_right()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert holds_in_forked_child(check)
    finally:
        done.set()
        thread.join()
    assert _known_graph_is_right()


def test_every_lock_is_in_the_list() -> None:
    """Locks that `new_lock` makes are all renewed; others are few, and each has an entry above."""
    import ast
    from pathlib import Path

    package, names = Path(sm.__file__).parent, {"Lock", "RLock", "Condition", "Event", "Semaphore"}
    plain = [
        path.name
        for path in sorted(package.rglob("*.py"))
        for text in [path.read_text(encoding="utf-8")]
        if any(f".{name}" in text for name in names)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in names
        and "bench" not in path.parts
    ]
    # That of the disk cache is renewed; those who build have theirs, and a child forgets them. The thread of an engine
    # for language models does not live in a child, so nobody waits for it there; nor does that which tells long work.
    assert sorted(set(plain)) == ["build.py", "diskcache.py", "engine.py", "locks.py", "toolchain.py", "working.py"]


def _square(k: int) -> float:
    return float((sm.arange(float(k)) ** 2).sum())


def test_a_pool_of_forked_workers() -> None:
    assert _square(5) == 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking a process with threads is the point
        with multiprocessing.get_context("fork").Pool(3) as workers:
            assert workers.map(_square, [3, 5, 3, 7]) == [5.0, 30.0, 5.0, 91.0]
    assert _square(5) == 30


def test_a_child_has_the_same_random_numbers_and_its_own_state() -> None:
    sm.random.seed(11)
    expected = sm.random.normal((7,)).numpy()
    sm.random.seed(11)

    def check() -> bool:
        return bool(np.array_equal(sm.random.normal((7,)).numpy(), expected))

    assert holds_in_forked_child(check)
    assert check()


def test_grandchildren_compute() -> None:
    assert holds_in_forked_child(lambda: _known_graph_is_right() and holds_in_forked_child(_known_graph_is_right))


def test_what_a_parent_compiled_serves_its_child() -> None:
    _known_graph_is_right()
    before = toolchain.compile_count()
    assert holds_in_forked_child(lambda: _known_graph_is_right() and toolchain.compile_count() == before)


def test_a_child_leaves_the_workers_of_its_parent_alone() -> None:
    workers = [Worker(cpu.CPU())]
    workers[0].ready()

    def check() -> bool:
        workers.clear()  # which would end it, and so does a child that ends as usual
        own = Worker(cpu.CPU())
        own.ready()
        own.stop()
        return True

    assert holds_in_forked_child(check)
    with pytest.raises(InternalError, match="could not region"):  # it answers
        workers[0].ask(10.0, "region", text="no region", sizes={}, seed=0, is_checked=True)
