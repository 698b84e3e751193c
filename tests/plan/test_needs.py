"""What a call takes from memory is known before it runs, and is what it then takes."""

from __future__ import annotations

import gc
import resource
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.device import memory
from smelt.device.memory import size_class
from smelt.graph.node import live_nodes
from smelt.transform import examine


def tensor(*shape: int) -> sm.Tensor:
    return sm.from_numpy(np.random.default_rng(1).standard_normal(shape).astype(np.float32) / 8)


D, H, S = 64, 4, 48
WEIGHTS = [tensor(D, 3 * D), tensor(D, D), tensor(D, 4 * D), tensor(4 * D, D), tensor(D), tensor(D)]


def transformer_block(x: sm.Tensor) -> sm.Tensor:
    qkv, out, up, down, scale, shift = WEIGHTS
    heads = ((sm.layer_norm(x) * scale + shift) @ qkv).reshape(S, 3, H, D // H)
    q, k, v = (heads[:, i].permute(1, 0, 2) for i in range(3))
    mixed = sm.scaled_dot_product_attention(q, k, v, is_causal=True)
    x = x + mixed.permute(1, 0, 2).reshape(S, D) @ out
    return x + sm.gelu((sm.layer_norm(x) * scale + shift) @ up) @ down


n = sm.Dim("n", 1, 300)

CASES: dict[str, tuple[Callable[..., Any], tuple[sm.Tensor, ...]]] = {
    "elementwise": (sm.jit(lambda x: x * 2 + 1), (tensor(1009),)),
    "several results": (sm.jit(lambda x: (x + 1, x.sum(0), x @ x.T)), (tensor(77, 33),)),
    "a chain of matmuls": (
        sm.jit(lambda x, w: ((x @ w).relu() @ w).softmax(-1) @ w),
        (tensor(130, 96), tensor(96, 96)),
    ),
    "a sort": (sm.jit(lambda x: sm.sort(x, axis=0)), (tensor(5000, 3),)),
    "nothing to compute": (sm.jit(lambda x: x[2:5]), (tensor(9, 9),)),
    "no elements": (sm.jit(lambda x: x[:0] + 1), (tensor(9, 9),)),
    "symbolic": (sm.jit(lambda x: (x @ x.T).softmax(-1), shapes=[(n, 32)]), (tensor(150, 32),)),
    "a transformer block": (sm.jit(transformer_block), (tensor(S, D),)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.by_turns(6)
def test_a_call_takes_what_was_predicted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, arguments = CASES[name]
    plan = function.memory(*arguments)  # type: ignore[attr-defined]
    function(*arguments)
    while gc.collect():  # what other tests have left; a cycle that goes may let go of another one
        pass
    pool = memory.pool()
    pool.trim()
    before = pool.used_bytes
    fresh: list[int] = []

    def block(nbytes: int, pool: memory.Pool) -> memory.Block:
        fresh.append(nbytes)
        return memory.Block(nbytes, pool)

    monkeypatch.setattr(pool, "_block", block)
    result = function(*arguments)
    assert sum(fresh) == plan.blocks
    del result
    pool.trim()
    assert pool.used_bytes == before


def test_the_parts_of_a_plan() -> None:
    x, w = tensor(64, 32), tensor(32, 32)
    function = sm.jit(lambda x, w: (x @ w).exp() @ w)
    plan = function.memory(x, w)
    assert plan.inputs == 4 * (64 * 32 + 32 * 32)
    assert plan.results == 4 * 64 * 32
    assert plan.intermediates >= 4 * 64 * 32
    assert plan.peak == plan.inputs + plan.results + plan.intermediates + plan.workspaces
    assert plan.blocks >= size_class(plan.results)
    assert f"a peak of {plan.peak} bytes" in str(plan)
    explanation = examine(function, x, w)
    assert explanation.needs == plan
    assert str(plan) in str(explanation)
    assert explanation.peak_bytes == plan.peak - plan.inputs


def test_weights_in_a_closure_are_inputs_and_each_block_counts_once() -> None:
    w = tensor(32, 32)
    function = sm.jit(lambda x, y: x @ w + y)
    x = tensor(8, 32)
    assert function.memory(x, x).inputs == 4 * (8 * 32 + 32 * 32)
    assert function.memory(x, tensor(8, 32)).inputs == 4 * (2 * 8 * 32 + 32 * 32)


def test_results_follow_the_sizes_of_a_call() -> None:
    function, _ = CASES["symbolic"]
    assert function.memory(tensor(10, 32)).results == 4 * 10 * 10  # type: ignore[attr-defined]
    assert function.memory(tensor(20, 32)).results == 4 * 20 * 20  # type: ignore[attr-defined]


def test_asking_runs_nothing() -> None:
    function = sm.jit(lambda x: x * 3)
    x = tensor(100)
    pool = memory.pool()
    used = pool.used_bytes
    function.memory(x)
    assert pool.used_bytes == used + size_class(8)  # the number 3, which the function keeps


def test_a_thousand_calls_keep_memory_flat() -> None:
    function, arguments = CASES["a transformer block"]
    result = function(*arguments)
    for _ in range(5):
        result = function(*arguments)
    pool = memory.pool()
    live_nodes()  # sweeps up the dead of earlier tests: bodies of loops may hold memory until then
    gc.collect()
    used, had = pool.used_bytes, pool.used_bytes + pool.kept_bytes
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(1000):
        result = function(*arguments)
    assert result.shape == (S, D)
    assert pool.used_bytes <= used  # what earlier tests left behind may go meanwhile
    assert pool.used_bytes + pool.kept_bytes <= had  # not a single fresh block
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 4 << 10  # KiB on Linux
