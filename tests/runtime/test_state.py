"""One object holds what a process remembers, and several threads compile side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import Compiler, driver
from smelt.compiler.compile import Choices
from smelt.config import configure
from smelt.locks import Remembered
from smelt.plan import CompiledGraph
from smelt.runtime import Runtime

LIMIT = 60.0  # seconds after which a test gives up; none takes so long


def together(*works: Callable[[], Any]) -> list[Any]:
    """What each of several threads returns."""
    results: list[Any] = [None] * len(works)

    def run(k: int) -> None:
        results[k] = works[k]()

    threads = [threading.Thread(target=run, args=(k,)) for k in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_a_fresh_runtime_knows_nothing_and_leaves_nothing() -> None:
    before = repr(runtime.current()), runtime.current().random.get()
    with runtime.using(Runtime()) as fresh:
        assert repr(fresh) == "Runtime(0 graphs, 0 kernels, devices: cpu)"
        sm.random.seed(3)
        assert (sm.arange(4) * 3 + sm.ones(4)).tolist() == [1, 4, 7, 10]
        assert len(fresh.graphs) == 1
        assert fresh.random.get() == (3, 0, 0)
        fresh.clear_caches()
        assert repr(fresh) == "Runtime(0 graphs, 0 kernels, devices: cpu)"
        assert fresh.random.get() == (3, 0, 0)
    assert (repr(runtime.current()), runtime.current().random.get()) == before


def test_different_graphs_are_compiled_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of two threads is inside of the compiler until the other one is, too."""
    barrier = threading.Barrier(2, timeout=LIMIT)
    true_rebuild = driver.rebuild

    def rebuild(key: Any) -> Any:
        barrier.wait()
        return true_rebuild(key)

    monkeypatch.setattr(driver, "rebuild", rebuild)
    x = np.linspace(0, 1, 7 * 11, dtype=np.float32).reshape(7, 11)
    with runtime.using(Runtime()) as fresh, configure(disk_cache=False):
        a = sm.asarray(x)
        found = together((a @ a.T).numpy, (a.exp().sum(0) * 2).numpy)
        assert len(fresh.graphs) == 2
    np.testing.assert_allclose(found[0], x @ x.T, rtol=1e-5)
    np.testing.assert_allclose(found[1], np.exp(x).sum(0) * 2, rtol=1e-5)


def test_a_graph_that_is_being_compiled_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second thread is let go while the first compiles; it never begins to compile itself."""
    begun, passes = threading.Event(), list[object]()
    true_compile = Compiler.compile

    def compile(self: Compiler, *arguments: Any) -> CompiledGraph:
        passes.append(arguments)
        begun.set()
        return true_compile(self, *arguments)

    monkeypatch.setattr(Compiler, "compile", compile)

    def wanted() -> Any:
        return (sm.arange(5) * 7 - sm.ones(5)).tolist()

    def later() -> Any:
        assert begun.wait(LIMIT)
        return wanted()

    with runtime.using(Runtime()), configure(disk_cache=False):
        first, second = together(wanted, later)
    assert first == second == [-1, 6, 13, 20, 27]
    assert len(passes) == 1


def test_what_fails_to_be_made_is_made_by_the_next() -> None:
    known: Remembered[str, int] = Remembered(2)

    def fails() -> int:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        known.get_or_make("a", fails)
    assert known.get_or_make("a", lambda: 1) == 1
    assert known.get_or_make("a", fails) == 1
    known.put("b", 2)
    known.get("a")
    known.put("c", 3)  # "b" is the one that was not used for longest
    assert known.values() == [1, 3]
    assert known.get("b") is None


def test_choices_come_with_a_runtime() -> None:
    class Mine:
        def ask(self, device: Any, question: str, text: str = "") -> str | None:
            return None

    mine: Choices = Mine()
    assert Runtime(mine).compiler.choices is mine
