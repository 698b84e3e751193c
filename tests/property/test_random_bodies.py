"""Random bodies: loops and branches of any make give what Python gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.tensor import Tensor
from tests.transform.test_control import Functions, agree

State = tuple[Any, ...]
Step = Callable[[Functions, State], State]

SHAPES = [(3,), (2, 3), ()]


def _mixed(a: Tensor, b: Tensor) -> Tensor:
    """b in the shape of a, as far as its values go: its mean, spread out."""
    return a * 0 + b.mean() if a.shape != b.shape else b


LOCAL: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda a, b: a * 0.5 + _mixed(a, b),
    lambda a, b: sm.tanh(a) - _mixed(a, b) * 0.25,
    lambda a, b: sm.maximum(a, _mixed(a, b)),
    lambda a, b: a - a.mean() + 1,
    lambda a, b: a[::-1] if a.ndim else a + 1,
    lambda a, b: sm.where(a > _mixed(a, b), a * 0.5, 1.0),
    lambda a, b: a.cumsum(-1) * 0.3 if a.ndim else sm.sin(a),
    lambda a, b: a,
]


@st.composite
def steps(draw: st.DrawFn, depth: int = 2) -> Step:
    """A function from one state to the next: a few assignments, loops and branches inside."""
    parts = [
        draw(st.one_of(assignments(), *([loops(depth - 1), branches(depth - 1)] if depth else []))) for _ in range(2)
    ]

    def step(f: Functions, state: State) -> State:
        for part in parts:
            state = part(f, state)
        return state

    return step


@st.composite
def assignments(draw: st.DrawFn) -> Step:
    """state[at] = function(state[one], state[other]), or two states of one shape swapped."""
    at, other = draw(st.integers(0, 3)), draw(st.integers(0, 3))
    function = draw(st.sampled_from(LOCAL))
    swap = draw(st.booleans())

    def step(f: Functions, state: State) -> State:
        new = list(state)
        if swap and state[at].shape == state[other].shape:
            new[at], new[other] = state[other], state[at]
        else:
            new[at] = function(state[at], state[other])
        return tuple(new)

    return step


@st.composite
def loops(draw: st.DrawFn, depth: int) -> Step:
    inner, count, kind = draw(steps(depth)), draw(st.integers(0, 4)), draw(st.sampled_from(["fori", "while", "scan"]))
    reverse = draw(st.booleans())

    def step(f: Functions, state: State) -> State:
        if kind == "fori":
            return f.fori_loop(1, 1 + count, lambda i, s: inner(f, (s[0] + i * 0.1, *s[1:])), state)  # type: ignore[no-any-return]
        if kind == "while":
            first = (sm.asarray(0), state)
            found = f.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, inner(f, s[1])), first)
            return found[1]  # type: ignore[no-any-return]
        # state[1] has two rows
        after, ys = f.scan(
            lambda s, row: (inner(f, (s[0] + row, *s[1:])), s[0].sum() + row), state, state[1], reverse=reverse
        )
        return (after[0], after[1] + ys, *after[2:])

    return step


@st.composite
def branches(draw: st.DrawFn, depth: int) -> Step:
    true, false, at = draw(steps(depth)), draw(steps(depth)), draw(st.integers(0, 3))

    def step(f: Functions, state: State) -> State:
        return f.cond(state[at].sum() > 0.5, lambda s: true(f, s), lambda s: false(f, s), state)  # type: ignore[no-any-return]

    return step


@pytest.mark.by_turns(3)
@given(steps(), st.integers(0, 2**31))
def test_random_bodies(step: Step, seed: int) -> None:
    random = np.random.default_rng(seed)
    values = [random.normal(size=shape).astype(np.float32) for shape in (*SHAPES, (3,))]
    agree(lambda f, *state: step(f, state), *values)
