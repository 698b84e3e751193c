"""Ways of reading and setting objects that a trace alone would miss: each call does what the plain function does."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

import smelt as sm
from smelt.errors import TraceError

X = sm.asarray([1.0, 2.0])


def test_a_counter_that_is_also_reset() -> None:
    meter = SimpleNamespace(n=5)

    @sm.jit
    def f(x: sm.Tensor) -> sm.Tensor:
        meter.n = 0
        meter.n += 1
        meter.n += 1
        return x * 2

    for _ in range(4):
        f(X)
        assert meter.n == 2


def test_an_attribute_that_is_set_to_what_it_is() -> None:
    state = SimpleNamespace(done=True)

    @sm.jit
    def f(x: sm.Tensor) -> sm.Tensor:
        state.done = True
        return x * 2

    f(X)
    state.done = False
    f(X)
    assert state.done is True


def test_attributes_as_a_dictionary() -> None:
    args = SimpleNamespace(lr=1.0)
    for f in (sm.jit(lambda x: x * vars(args)["lr"]), sm.jit(lambda x: x * args.__dict__["lr"])):
        args.lr = 1.0
        assert f(X).tolist() == [1, 2]
        args.lr = 3.0
        assert f(X).tolist() == [3, 6]


def test_frozen_and_strict_objects_are_left_as_they_were() -> None:
    @dataclass(frozen=True)
    class Config:
        scale: float

        @functools.cached_property
        def twice(self) -> float:
            return self.scale * 2

    class Positive:
        def __init__(self) -> None:
            self.n = 3

        def __setattr__(self, name: str, value: Any) -> None:
            if value <= 0:
                raise ValueError("must be positive")
            super().__setattr__(name, value)

    config, strict = Config(3.0), Positive()

    @sm.jit
    def f(x: sm.Tensor) -> sm.Tensor:
        strict.n += 1
        return x * config.twice

    assert f(X).tolist() == f(X).tolist() == [6, 12]
    assert strict.n == 5


def test_objects_in_a_static_tuple() -> None:
    part = SimpleNamespace(k=2.0)
    f = sm.jit(lambda x, parts: x * parts[0].k, static=1)
    assert f(X, (part,)).tolist() == [2, 4]
    part.k = 3.0
    assert f(X, (part,)).tolist() == [3, 6]


def test_iterators_are_refused_wherever_they_are() -> None:
    state = SimpleNamespace(numbers=iter([1.0, 2.0, 3.0]))
    for f, given in (
        (sm.jit(lambda x: x * next(state.numbers)), ()),
        (sm.jit(lambda x, it: x * next(it)), (iter([1.0]),)),
    ):
        with pytest.raises(TraceError, match="gives something else each time"):
            f(X, *given)


def test_what_a_branch_leaves_in_an_object_says_so() -> None:
    state = SimpleNamespace(kept=None)

    def kept(x: sm.Tensor) -> sm.Tensor:
        state.kept = x
        return x * 2

    with pytest.raises(TraceError, match="left in an object"):
        sm.jit(lambda x: sm.cond(x.sum() > 0, kept, lambda x: x, x))(X)


def test_numbers_that_were_computed_before_may_stand_in_a_body() -> None:
    c = sm.asarray(-0.4)
    y, z = sm.sin(c), sm.sin(c)
    assert float(sm.fori_loop(0, 2, lambda i, s: z, sm.asarray(0.7))) == float(y)
    assert float(sm.fori_loop(0, 2, lambda i, s: z, sm.asarray(0.7))) == float(y)


def test_a_dataclass_that_may_change_is_an_argument() -> None:
    @dataclass
    class Config:
        scale: float

    config = Config(2.0)
    for f in (sm.jit(lambda x, c: x * c.scale), sm.jit(lambda x, c: x * c.scale, static=1)):
        config.scale = 2.0
        assert f(X, config).tolist() == [2, 4]
        config.scale = 3.0
        assert f(X, config).tolist() == [3, 6]
