"""Draws from the global random sequence: the same ones with and without `jit`."""

from __future__ import annotations

from smelt.dtypes import uint32
from smelt.graph import Node, build
from smelt.runtime.state import GOLDEN, current
from smelt.runtime.storage import host_leaf
from smelt.runtime.tracing import Trace, batched_elements, current_trace

_ODD = 0x85EBCA6B


def take_random(draws: int = 1) -> tuple[Node, int]:
    """A uint32[3] leaf (key, key, draw) and what to add to `draw`, for `draws` draws in a row. Each element of a batch
    has keys of its own.
    """
    state, first = draw_random(current_trace(), draws)
    for element in batched_elements():
        second = build.eq(build.iota(3, uint32), build.const(1, uint32, (3,)))
        step = build.mul(build.add(element, build.const(1, uint32)), build.const(GOLDEN, uint32))
        spread = build.expand(build.reshape(step, (1,)), (3,))
        # A product, too, so that elements of batches in batches differ from their neighbors diagonally.
        state = build.where(second, build.add(build.mul(state, build.const(_ODD, uint32, (3,))), spread), state)
    return state, first


def draw_random(trace: Trace | None, draws: int) -> tuple[Node, int]:
    """The same inside a trace, or outside of all."""
    if trace is not None:
        return trace.take_random(draws)
    return host_leaf(current().random.advance(draws), uint32), 0
