"""Sixteen threads that build, compile and compute at once, each with graphs of its own and the same as others."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import compiler, runtime
from smelt.device import memory
from smelt.device.cpu import CPU
from smelt.errors import InternalError
from smelt.graph.node import live_nodes
from smelt.search.processes import Worker
from tests.turns import TEST_ALL

THREADS = 16
SECONDS = float(os.environ.get("SMELT_TEST_SECONDS", "8" if TEST_ALL else "1"))

_shared = sm.jit(lambda x, y: (x * y + 1).sum(axis=-1))
_weights = np.linspace(-1, 1, 32 * 8, dtype=np.float32).reshape(32, 8)
_hidden = sm.from_numpy(_weights)
_layer = sm.jit(lambda x: (x @ _hidden).relu().softmax(-1))


def _softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _same_graph(draw: random.Random, x: np.ndarray) -> tuple[sm.Tensor, np.ndarray]:
    return (sm.from_numpy(x) * 3 - 1).max(axis=0), (x * 3 - 1).max(axis=0)


def _own_graph(draw: random.Random, x: np.ndarray) -> tuple[sm.Tensor, np.ndarray]:
    n = draw.randrange(1, 9)
    return sm.from_numpy(x[:n].copy()).cumsum(0) + n, x[:n].cumsum(0) + n


def _shared_function(draw: random.Random, x: np.ndarray) -> tuple[sm.Tensor, np.ndarray]:
    n = draw.randrange(1, 4)
    return _shared(sm.from_numpy(x[:n].copy()), sm.from_numpy(x[-1:].copy())), (x[:n] * x[-1:] + 1).sum(-1)


def _shared_layer(draw: random.Random, x: np.ndarray) -> tuple[sm.Tensor, np.ndarray]:
    return _layer(sm.from_numpy(x)), _softmax(np.maximum(x @ _weights, 0))


def _own_function(draw: random.Random, x: np.ndarray) -> tuple[sm.Tensor, np.ndarray]:
    return sm.jit(lambda a: a.sum() * 2)(sm.from_numpy(x)), x.sum() * 2


CASES: tuple[Callable[[random.Random, np.ndarray], tuple[sm.Tensor, np.ndarray]], ...] = (
    *(_same_graph, _own_graph, _shared_function, _shared_layer, _own_function),
)


def _storm(number: int, stop: threading.Event, wrong: list[str], turns: list[int]) -> None:
    draw = random.Random(number)
    noise = np.random.default_rng(number)
    try:
        while not stop.is_set():
            case = draw.choice(CASES)
            result, expected = case(draw, noise.random((16, 32), np.float32))
            if draw.random() < 0.02:
                runtime.current().clear_caches()
            if not np.allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4):
                wrong.append(case.__name__)
            turns[number] += 1
    except BaseException as error:
        wrong.append("".join(traceback.format_exception(error)))


def _run_storm(seconds: float) -> tuple[list[str], list[int]]:
    stop, wrong, turns = threading.Event(), list[str](), [0] * THREADS
    threads = [threading.Thread(target=_storm, args=(k, stop, wrong, turns), daemon=True) for k in range(THREADS)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)  # let the threads meet in the middle of everything
    try:
        for thread in threads:
            thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end and not wrong:
            threads[0].join(0.05)
        stop.set()
        for thread in threads:
            thread.join(120)
    finally:
        sys.setswitchinterval(interval)
    assert not [thread for thread in threads if thread.is_alive()], "threads wait for each other"
    return wrong, turns


def test_sixteen_threads_build_and_compute() -> None:
    wrong, turns = _run_storm(SECONDS)
    assert wrong == []
    assert min(turns) > 0


@pytest.mark.slow
def test_memory_stays_flat_under_threads() -> None:
    _run_storm(3)  # every graph and size has been met
    runtime.current().clear_caches()  # how much is known depends on when a thread last cleared them
    gc.collect()
    used, nodes, blocks = memory.pool().used_bytes, live_nodes(), sys.getallocatedblocks()
    wrong, turns = _run_storm(SECONDS)
    runtime.current().clear_caches()
    gc.collect()
    assert wrong == []
    assert sum(turns) > 500
    assert memory.pool().used_bytes <= used + 4096 * THREADS
    assert live_nodes() <= nodes + 50
    assert sys.getallocatedblocks() - blocks < 20_000


def test_threads_that_meet_a_jitted_function_for_the_first_time_together(monkeypatch: pytest.MonkeyPatch) -> None:
    passes: list[object] = []
    true_compile = compiler.Compiler.compile

    def counted(*arguments: Any) -> Any:
        passes.append(arguments[1])
        return true_compile(*arguments)

    monkeypatch.setattr(compiler.Compiler, "compile", counted)
    turns = 20 if TEST_ALL else 3
    for turn in range(turns):
        function = sm.jit(lambda x: (x + 1) * 2 - x)
        x = sm.from_numpy(np.arange(11 + turn, dtype=np.float32))
        barrier, results = threading.Barrier(THREADS), []

        def work(
            function: Callable[[sm.Tensor], sm.Tensor] = function,
            x: sm.Tensor = x,
            barrier: threading.Barrier = barrier,
            results: list[np.ndarray] = results,
        ) -> None:
            barrier.wait()
            results.append(function(x).numpy())

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == THREADS
        for result in results:
            np.testing.assert_array_equal(result, np.arange(11 + turn, dtype=np.float32) + 2)
    assert len(passes) == turns  # one thread compiles, the others wait for it


def test_a_tensor_realized_by_many_threads_at_once_has_one_value() -> None:
    for _ in range(20):
        lazy = sm.from_numpy(np.arange(1009, dtype=np.float32)) * 2 + 1
        barrier, results = threading.Barrier(8), []

        def work(
            lazy: sm.Tensor = lazy, barrier: threading.Barrier = barrier, results: list[np.ndarray] = results
        ) -> None:
            barrier.wait()
            results.append(lazy.numpy())

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 8
        for result in results:
            np.testing.assert_array_equal(result, np.arange(1009, dtype=np.float32) * 2 + 1)


def test_workers_outlive_the_thread_that_started_the_first() -> None:
    workers: list[Worker] = []

    def start() -> None:
        workers.append(Worker(CPU()))
        workers[0].ready()

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    time.sleep(0.2)  # the kernel would end it by now
    with pytest.raises(InternalError, match="could not region"):  # it answers
        workers[0].ask(10.0, "region", text="no region", sizes={}, seed=0, is_checked=True)
