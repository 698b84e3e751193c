"""Realizing: nothing twice, memory flat, long chains, threads, forks."""

from __future__ import annotations

import gc
import linecache
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import dtypes, runtime
from smelt.compiler import trace
from smelt.config import configure
from smelt.device.toolchain import compile_count
from smelt.errors import TraceWarning
from smelt.graph.interpret import interpret
from smelt.graph.node import live_nodes, topological
from smelt.graph.ops import Op
from smelt.tensor import handle
from tests.turns import TEST_ALL

rng = np.random.default_rng(3)


def floats(*shape: int) -> sm.Tensor:
    return sm.asarray(rng.standard_normal(shape).astype(np.float32))


def test_realizing_rebinds_to_a_leaf() -> None:
    x = floats(3) * 2
    assert x._node.op is not Op.LEAF
    x.realize()
    assert x._node.op is Op.LEAF


def test_a_computed_value_is_not_computed_again() -> None:
    x = floats(3)
    y = x * 2
    z = y + 1
    y.realize()
    assert z._node.sources[0].leaf is not None
    np.testing.assert_allclose(z.numpy(), x.numpy() * 2 + 1, rtol=1e-6)


@pytest.mark.parametrize("make", [lambda: sm.full((), 7.25), lambda: sm.full((3, 5), 7.25), lambda: sm.arange(11)])
def test_a_number_stays_a_number(make: Callable[[], sm.Tensor]) -> None:
    kept = make().realize()  # the nodes of constants are shared by every graph that has them
    assert kept._node.op is Op.LEAF
    again = make()._node
    assert again.op is not Op.LEAF
    assert again.leaf is None


def test_several_results_in_one_graph() -> None:
    x = floats(4)
    a, b, c = x + 1, x * 2, x
    sm.realize(a, b, c)
    np.testing.assert_allclose(a.numpy(), x.numpy() + 1)
    np.testing.assert_allclose(b.numpy(), x.numpy() * 2)


def test_a_view_of_a_leaf_needs_no_kernel_and_no_memory() -> None:
    x = floats(6, 4).realize()
    before = len(runtime.current().graphs)
    view = x.T[1:3, ::-2].reshape(2, 3)
    view.realize()
    assert len(runtime.current().graphs) <= before + 1
    storage = view._node.attribute
    assert storage.memory is x._node.attribute.memory
    np.testing.assert_array_equal(view.numpy(), x.numpy().T[1:3, ::-2])


def test_a_loop_with_changing_scalars_and_slices_compiles_at_most_twice() -> None:
    x = sm.asarray(rng.standard_normal((1000, 3)).astype(np.float32))
    expected = x.numpy()
    before = compile_count()
    for i in range(1000):
        np.testing.assert_allclose((x[i] * (i * 0.1)).numpy(), expected[i] * np.float32(i * 0.1), rtol=1e-6)
    assert compile_count() - before <= 2


CHANGING_INTEGERS: dict[str, Callable[[sm.Tensor, int], sm.Tensor]] = {
    "compared": lambda ids, k: ids < k,
    "computed with": lambda ids, k: (ids + k) * (k + 100) - ids,
    "chosen": lambda ids, k: sm.where(ids == k, ids, k),
    "clipped": lambda ids, k: ids.clip(-3, k),
    "filled": lambda ids, k: sm.full((7,), k, dtype=ids.dtype),
    "counted from": lambda ids, k: sm.arange(k, k + 7, dtype=ids.dtype),
    "as a key": lambda ids, k: sm.random.bits((7,), key=sm.random.key(k)),
    "folded in": lambda ids, k: sm.random.fold_in(sm.random.key(k + 1), k),
    "drawn below": lambda ids, k: sm.random.randint(0, k, (7,), key=sm.random.key(k)),
    "in a loop": lambda ids, k: sm.while_loop(lambda i: (i < k).all(), lambda i: i + 3, ids),
}


@pytest.mark.parametrize("use", CHANGING_INTEGERS)
def test_a_loop_with_changing_integers_compiles_at_most_twice(use: str) -> None:
    ids = sm.asarray(np.arange(-3, 4))
    function = CHANGING_INTEGERS[use]
    results = []
    before = len(runtime.current().graphs)
    for k in range(10, 30):
        results.append(function(ids, k).numpy())
    assert len(runtime.current().graphs) - before <= 2
    for k, result in zip(range(10, 30), results, strict=True):
        np.testing.assert_array_equal(
            result, interpret([function(ids, k)._node], lambda leaf: leaf.attribute.numpy())[0]
        )


def test_selections_by_changing_integers_compile_at_most_twice() -> None:
    ids, x = sm.asarray(np.arange(20) % 7), floats(20)
    before = len(runtime.current().graphs)
    for k in range(2, 7):
        np.testing.assert_array_equal(x[ids == k].numpy(), x.numpy()[ids.numpy() == k])
    assert len(runtime.current().graphs) - before <= 2


@pytest.mark.parametrize("dtype", dtypes.INTEGERS, ids=str)
@pytest.mark.by_turns(4)
def test_integers_beside_tensors_of_any_integer_type(dtype: dtypes.DType) -> None:
    values = np.array([0, 1, 2, 3, 100, dtype.minimum, dtype.maximum], dtype.numpy)
    x = sm.asarray(values)
    for k in (0, 1, 5, 7, 64, 100, int(dtype.maximum) - 1, dtype.maximum, int(dtype.minimum) + 3):
        number = values.dtype.type(k)
        found = (x + k, x * k, x - k, k - x, x < k, x == k, sm.maximum(x, k), x & k, x ^ k, sm.where(x > 2, x, k))
        sm.realize(*found)
        with np.errstate(over="ignore"):
            first = (values + number, values * number, values - number, number - values, values < number)
            rest = (values == number, np.maximum(values, number), values & number, values ^ number)
        for one, other in zip(found, (*first, *rest, np.where(values > 2, values, number)), strict=True):
            np.testing.assert_array_equal(one.numpy(), other)
        if k:
            np.testing.assert_array_equal((x // k).numpy(), values // number)


def test_slices_of_computed_values_compile_once() -> None:
    x = sm.asarray(rng.standard_normal((50, 3)).astype(np.float32))
    graphs = len(runtime.current().graphs)
    for i in range(20):
        np.testing.assert_allclose((x * 3)[i].numpy(), x.numpy()[i] * 3, rtol=1e-6)
        np.testing.assert_allclose((x * 3)[i::-1].numpy()[0], x.numpy()[i] * 3, rtol=1e-6)
    assert len(runtime.current().graphs) - graphs <= 30


def test_memory_stays_flat_in_a_long_loop() -> None:
    x = sm.zeros((16,)).realize()

    def steps(n: int) -> None:
        nonlocal x
        for _ in range(n):
            x = (x * 0.9 + 1).realize()

    def fewest() -> int:
        """Blocks in use, without the traces of dead nodes, which are swept up a thousand at a time."""
        found = []
        for _ in range(10 if TEST_ALL else 4):
            steps(1_000)
            live_nodes()  # sweeps
            gc.collect()
            found.append(sys.getallocatedblocks())
        return min(found)

    steps(500)
    gc.collect()
    nodes, blocks = live_nodes(), fewest()
    later = fewest()
    assert live_nodes() <= nodes + 5
    assert later - blocks < 500
    assert abs(float(x[0]) - 10.0) < 1e-4


@pytest.mark.parametrize("length", [2_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_a_long_chain_of_elementwise_nodes(length: int) -> None:
    x = sm.zeros((3,)).realize()
    with configure(node_limit=10**9):
        for _ in range(length):
            x = x + 1
        traced = trace([x._node])
        compiled = runtime.find(traced.key, runtime.default_device())
        parts = sum(kernel.form.count("elementwise") for kernel in compiled.kernels)  # several are a series at most
        assert parts >= length // 300
        assert x.tolist() == [float(length)] * 3


def test_a_graph_past_the_limit_realizes_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handle, "_told", True)
    with configure(node_limit=100):
        x = sm.zeros((3,)).realize()
        for _ in range(2000):
            x = x + 1
        assert len(topological([x._node])) < 1500
        assert x.tolist() == [2000.0] * 3


def test_many_threads_at_once() -> None:
    errors: list[BaseException] = []
    shared = floats(64, 64)

    def work(seed: int) -> None:
        try:
            local = np.random.default_rng(seed)
            for k in range(15):
                a = local.standard_normal((8 + k % 3, 64)).astype(np.float32)
                got = ((sm.asarray(a) @ shared).relu() + seed * 0.1).sum(-1).numpy()
                expected = (np.maximum(a @ shared.numpy(), 0) + np.float32(seed * 0.1)).sum(-1)
                np.testing.assert_allclose(got, expected, rtol=1e-4)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes() -> None:
    x = floats(300, 300)
    expected = (x @ x).sum().item()
    child = os.fork()
    if child == 0:
        try:
            ok = abs((x @ x).sum().item() - expected) < 1e-3 * abs(expected) and (x + 5).numpy()[0, 0] is not None
            os._exit(0 if ok else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_results_do_not_depend_on_the_number_of_threads() -> None:
    a, b = floats(97, 130), floats(130, 201)
    results: list[Any] = []
    for threads in (1, 2, 5):
        with configure(threads=threads):
            runtime.current().clear_caches()
            results.append(((a @ b).softmax(-1).sum(0)).numpy().copy())
            (a @ b)._node.leaf = None
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_numpy_views_pin_their_memory() -> None:
    view = (floats(1000) + 1).numpy()
    before = view.copy()
    for _ in range(10):
        (floats(1000) * 3).realize()
    np.testing.assert_array_equal(view, before)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 1


def test_a_graph_too_large_for_the_machine_says_so() -> None:
    x = sm.zeros((1 << 14, 1)) + sm.zeros((1, 1 << 14))
    huge = (x.reshape(1 << 14, 1 << 14, 1) + sm.ones((1, 1, 1 << 14))) * 2
    with pytest.raises(sm.errors.MemoryLimitError, match="MiB"):
        huge.realize()


def test_a_process_that_holds_tensors_ends_quietly() -> None:
    code = "import smelt as sm; held = [sm.zeros((3,)).realize() for _ in range(5)]; view = held[0].numpy()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("dtype", [sm.float32, sm.bfloat16, sm.bool, sm.int8, sm.float64], ids=str)
def test_numbers_alone_compile_nothing(dtype: sm.DType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["smelt.runtime.realize"], "find", None)
    one = sm.full((3, 4), 1, dtype=dtype)
    for x, shape in ((one, (3, 4)), (one[1:, ::2].T, (2, 2)), (sm.zeros((2, 0), dtype=dtype), (2, 0))):
        np.testing.assert_array_equal(x.numpy(), np.ones(shape, dtype.numpy))
    other = sm.full((3, 4), 1, dtype=dtype)
    assert not np.shares_memory(one.numpy(), other.numpy())


def test_many_sizes_outside_of_jit_are_warned_about(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    runtime.current().clear_caches()
    for n in range(1, 15):
        (sm.ones(n).realize() * 2.5 + 1).numpy()  # asked for here
    [found] = [one for one in recwarn if issubclass(one.category, TraceWarning)]
    assert "differ in sizes only, such as (9,) and (10,)" in str(found.message)
    assert "sm.jit(f, dynamic=True)" in str(found.message)
    assert found.filename == __file__ and "asked for here" in linecache.getline(__file__, found.lineno)


def test_different_programs_at_one_line_are_none_to_warn_about(recwarn: pytest.WarningsRecorder) -> None:
    warnings.simplefilter("always")
    x = sm.ones(3).realize()
    for k in range(12):
        y = x
        for _ in range(k):
            y = (y + x).sin()
        y.numpy()
    assert not [one for one in recwarn if issubclass(one.category, TraceWarning)]
