"""The ways in which users run a program: each gives what NumPy gives, also when called again with other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import smelt as sm
from smelt.errors import SmeltError
from tests.hunt.programs import Array, Program

Way = Callable[[Program, list[list[Array]]], list[list[Any]]]  # the results for each of several draws of the inputs


def _tensors(arrays: list[Array]) -> list[Any]:
    return [sm.asarray(array) for array in arrays]


def plain(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    return [program.results(sm, _tensors(arrays)) for arrays in draws]


def views(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    """Inputs that lie in memory in another order."""
    turned = [[sm.from_numpy(np.asfortranarray(np.repeat(a[..., None], 2, -1))[..., 1]) for a in d] for d in draws]
    return [program.results(sm, tensors) for tensors in turned]


def compiled(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(lambda *inputs: program.results(sm, inputs))
    return [f(*_tensors(arrays)) for arrays in draws]


def arrays_as_arguments(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(lambda inputs: program.results(sm, inputs))
    return [f(arrays) for arrays in draws]


def donated(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    f = sm.jit(lambda inputs, k: (program.results(sm, inputs), k + 1), donate=0)
    return [f(_tensors(arrays), k)[0] for k, arrays in enumerate(draws)]


def through_an_object(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    class Holder:
        inputs: list[Any]

        @sm.jit
        def run(self) -> Any:
            return program.results(sm, self.inputs)

    holder, found = Holder(), []
    for arrays in draws:
        holder.inputs = _tensors(arrays)
        found.append(holder.run())
    return found


def batched(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    stacked = [sm.asarray(np.stack(column)) for column in zip(*draws, strict=True)]
    results = sm.vmap(lambda *inputs: program.results(sm, inputs))(*stacked)
    return [[result[k] for result in results] for k in range(len(draws))]


def branched(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    def run(flag: Any, inputs: list[Any]) -> Any:
        return sm.cond(
            flag, lambda i: program.results(sm, i), lambda i: [x * 1 for x in program.results(sm, i)], inputs
        )

    f = sm.jit(run)
    return [f(sm.asarray(k % 2 == 0), _tensors(arrays)) for k, arrays in enumerate(draws)]


def looped(program: Program, draws: list[list[Array]]) -> list[list[Any]]:
    stacked = [sm.asarray(np.stack(column)) for column in zip(*draws, strict=True)]
    _, results = sm.scan(lambda state, inputs: (state, program.results(sm, inputs)), sm.asarray(0), stacked)
    return [[result[k] for result in results] for k in range(len(draws))]


WAYS: dict[str, Way] = {
    way.__name__: way
    for way in (plain, views, compiled, arrays_as_arguments, donated, through_an_object, batched, branched, looped)
}


def difference(program: Program, way: str) -> str | None:
    """What is wrong with a way of running a program; None if nothing is. A typed refusal is not wrong."""
    draws = [program.arrays(k) for k in range(2)]
    with np.errstate(all="ignore"):
        expected = [[np.asarray(x) for x in program.results(np, arrays)] for arrays in draws]
    try:
        found = WAYS[way](program, draws)
        got = [[x.numpy() for x in results] for results in found]
    except SmeltError as error:
        return None if way in _MAY_REFUSE else f"{type(error).__name__}: {error}"
    for k, (left, right) in enumerate(zip(got, expected, strict=True)):
        for number, (a, b) in enumerate(zip(left, right, strict=True)):
            if a.shape != b.shape:
                return f"draw {k}, result {number}: shape {a.shape}, and NumPy's is {b.shape}"
            if a.dtype.kind != b.dtype.kind or not np.array_equal(a, b, equal_nan=a.dtype.kind == "f"):
                return f"draw {k}, result {number}: {a.dtype}\n{a}\nand NumPy's is {b.dtype}\n{b}"
    return None


_MAY_REFUSE = frozenset({"branched", "looped", "batched"})


def reduced(program: Program, way: str) -> Program:
    """The same fault with fewer steps."""
    smaller = True
    while smaller:
        smaller = False
        used = {k for step in program.steps for k in step.operands}
        for number in reversed(range(len(program.steps))):
            if len(program.inputs) + number in used or len(program.steps) == 1:
                continue
            shorter = program.without(number)
            if difference(shorter, way) is not None:
                program, smaller = shorter, True
                break
    return program
