"""Small launches of a graph that has many run as series, which changes no bit of its results."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.compiler import driver
from smelt.config import configure
from smelt.plan import CompiledGraph
from smelt.runtime import Runtime
from smelt.transform import examine

LAYERS = 12
RANDOM = np.random.default_rng(7)
WEIGHTS = RANDOM.standard_normal((LAYERS, 48, 48)).astype(np.float32)
STATES = np.zeros((LAYERS, 5, 48), np.float32)


def layers(weights: sm.Tensor, states: sm.Tensor, x: sm.Tensor, at: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
    """Products, softmaxes and updates by turns, none of which is worth a second thread."""
    for k in range(LAYERS):
        x = (x @ weights[k]).softmax(-1) + x / 2
        states = states.at[k, at].set(x[0])
        x = x - states[k].sum(0) / 9
    return states, x


def inputs(rows: int) -> list[sm.Tensor]:
    x = RANDOM.standard_normal((rows, 48)).astype(np.float32)
    return [*map(sm.from_numpy, (WEIGHTS, STATES.copy(), x)), sm.asarray(3, dtype=sm.int32)]


def compiled(rows: int, threads: int) -> tuple[CompiledGraph, list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]]:
    given = inputs(rows)
    with runtime.using(Runtime()), configure(disk_cache=False, threads=threads):
        return examine(layers, *given), [part.numpy() for part in sm.jit(layers)(*given)]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("rows", [1, 4, 7])
def test_results_have_the_same_bits(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    state = RANDOM.bit_generator.state
    series, found = compiled(rows, threads=2)
    monkeypatch.setattr(driver, "FEWEST", 1 << 30)
    RANDOM.bit_generator.state = state
    alone, expected = compiled(rows, threads=1)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(series.kernels) <= len(alone.kernels) / 2
    assert any(kernel.form.startswith("series: ") for kernel in series.kernels)
    # Each part is named, and what each of them moves is counted.
    assert sum(kernel.bytes_moved for kernel in series.kernels) <= sum(kernel.bytes_moved for kernel in alone.kernels)


def test_an_update_is_as_small_as_what_it_writes() -> None:
    large = sm.zeros(LAYERS, 1 << 14, 48)
    given = inputs(2)
    with runtime.using(Runtime()), configure(disk_cache=False, threads=2):
        graph = examine(layers, given[0], large, given[2], given[3])
    updates = [kernel for kernel in graph.kernels if "scatter" in kernel.nodes]
    assert updates and all(kernel.form.startswith("series: ") for kernel in updates)


def test_rounding_of_some_rows_is_shared_by_threads() -> None:
    codes, part = RANDOM.integers(0, 16, (576, 576), np.uint8), np.full((576, 18), 2**-6, np.float32)
    layer = sm.nn.QuantizedLinear(sm.nn.QuantizedWeight(codes, 8, part, part))

    def many(x: sm.Tensor) -> sm.Tensor:
        for _ in range(LAYERS):
            x = layer(sm.tanh(x))
        return x

    x = sm.from_numpy(RANDOM.standard_normal((4, 576)).astype(np.float32))
    with runtime.using(Runtime()), configure(disk_cache=False, threads=2):
        step = sm.jit(many)
        np.testing.assert_array_equal(step(x).numpy(), many(x).numpy())
    (entry,) = step._entries.values()
    launches = zip(entry.compiled.launches, entry.compiled.kernels, strict=True)
    tasks = [launch.tasks for launch, kernel in launches if kernel.form.startswith("series: ")]
    assert len(entry.compiled.launches) <= 2 * LAYERS + 1
    assert tasks and all(count % 4 == 0 for count in tasks)  # a piece for each row at least


def test_few_launches_are_left_alone() -> None:
    given = sm.from_numpy(WEIGHTS[0])
    graph = examine(lambda x: sm.sort(sm.sort(x, axis=0) @ x, axis=1).softmax(-1), given)
    assert not any(kernel.form.startswith("series") for kernel in graph.kernels)


def test_a_donated_state_is_updated_in_its_place() -> None:
    given = inputs(2)
    with runtime.using(Runtime()), configure(disk_cache=False):
        step = sm.jit(layers, donate=(1,))
        before = given[1].numpy().copy()
        states, _ = step(given[0], given[1], given[2], given[3])
        expected, _ = layers(given[0], sm.from_numpy(before), given[2], given[3])
        np.testing.assert_array_equal(states.numpy(), expected.numpy())
