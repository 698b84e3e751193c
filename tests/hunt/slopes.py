"""Derivatives of programs: torch's where it is installed and can run the program, else differences of NumPy's values.

The loss of a program is the sum of its float results, each element with a weight of its own. Where a function has a
kink, torch's choice counts; differences say nothing there, which two widths tell.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import smelt as sm
from tests.hunt.programs import Array, Program, Unfit, Value
from tests.hunt.spaces import FLOATS, SMELT, torch_space

CLOSE = {"float64": 1e-8, "float32": 1e-3, "float16": 0.1, "bfloat16": 0.2}


def _weights(shape: tuple[int, ...], number: int) -> Array:
    return np.cos(np.arange(np.prod(shape, dtype=int)) * 0.7 + number).reshape(shape)


def places(program: Program) -> list[int]:
    """Which inputs to differentiate by."""
    return [k for k, (dtype, _, _) in enumerate(program.inputs) if dtype in FLOATS]


def loss_of(program: Program, arrays: Sequence[Any]) -> Callable[..., Any]:
    """The loss as a function of the float inputs, beside other ones."""
    at = places(program)

    def loss(*floats: Any) -> Any:
        inputs = list(arrays)
        for k, x in zip(at, floats, strict=True):
            inputs[k] = x
        total = sm.asarray(0.0, dtype=sm.float64)
        for number, y in enumerate(program.results(SMELT, inputs)):
            if str(y.dtype).removeprefix("smelt.") in FLOATS:
                total = total + sm.sum(sm.astype(y, sm.float64) * sm.asarray(_weights(y.shape, number)))
        return total

    return loss


def slope_of(program: Program, arrays: Sequence[Any]) -> Callable[..., Any]:
    """The slopes of the loss, each element with a weight, as one number: its own slopes are second derivatives."""
    loss, at = loss_of(program, arrays), tuple(range(len(places(program))))

    def total(*floats: Any) -> Any:
        slopes = enumerate(sm.grad(loss, argnums=at)(*floats))
        return sum(sm.sum(sm.astype(g, sm.float64) * sm.asarray(_weights(g.shape, -k))) for k, g in slopes)

    return total


def expected(program: Program, inputs: Sequence[Value], second: bool = False) -> list[Array] | None:
    """Torch's slopes; None where it has none."""
    xp = torch_space()
    if xp is None:
        return None
    torch = xp.torch
    tensors = [torch.from_numpy(np.array(v.array)) for v in inputs]
    floats = [tensors[k].requires_grad_() for k in places(program)]
    try:
        total = torch.zeros((), dtype=torch.float64)
        with warnings.catch_warnings(action="ignore"):
            results = program.results(xp, tensors)
        for number, y in enumerate(results):
            if y.is_floating_point():
                total = total + (y * torch.from_numpy(_weights(tuple(y.shape), number))).sum()
        if not total.requires_grad:
            return [np.zeros(x.shape) for x in floats]
        if second:
            found = torch.autograd.grad(total, floats, create_graph=True, allow_unused=True, materialize_grads=True)
            parts = [(g * torch.from_numpy(_weights(tuple(g.shape), -k))).sum() for k, g in enumerate(found)]
            total = torch.stack(parts).sum()
            if not total.requires_grad:
                return [np.zeros(x.shape) for x in floats]
        found = torch.autograd.grad(total, floats, allow_unused=True)
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AttributeError, IndexError):
        return None
    return [np.zeros(x.shape) if g is None else g.numpy(force=True) for x, g in zip(floats, found, strict=True)]


def _numpy_loss(program: Program, inputs: Sequence[Value], width: float, ways: Sequence[Array]) -> float:
    moved = [Value("float64", v.array) if v.dtype in FLOATS else v for v in inputs]
    for k, way in zip(places(program), ways, strict=True):
        moved[k] = Value("float64", moved[k].array + width * way, 1e-300)
    total = 0.0
    for number, v in enumerate(program.expected(moved)):
        if v.dtype in FLOATS:
            total += float(np.sum(v.array * _weights(v.array.shape, number)))
    return total


def wrong_slopes(program: Program, inputs: Sequence[Value], got: Sequence[Array], second: bool = False) -> str | None:
    """What is wrong with the slopes; None if nothing is, or nobody knows."""
    trail = program.trail(inputs)
    dtypes = [v.dtype for v in trail if v.dtype in FLOATS]
    close = max(CLOSE[dtype] for dtype in dtypes)
    for k, g in zip(places(program), got, strict=True):
        if str(g.dtype) != program.inputs[k][0] or g.shape != inputs[k].array.shape:
            return f"the slope of v{k} is {g.dtype}{list(g.shape)}"
    reference = expected(program, inputs, second)
    if reference is not None:
        for k, g, wanted in zip(places(program), got, reference, strict=True):
            g = g.astype(np.float64)
            # torch divides 0 by 0 in second slopes of copysign and others: then nobody knows better than we do.
            wanted = np.where(np.isnan(wanted) & np.isfinite(g), g, wanted)
            allowed = close * (1 + np.max(np.abs(wanted), initial=0.0))
            if not np.all(np.abs(g - wanted) <= allowed):
                return f"the slope of v{k}, allowed {allowed:.3g}:\n{g}\nand torch's is\n{wanted}"
        return None
    if close > CLOSE["float64"] or second:
        return None  # differences need 64 bits, and twice as many for second ones
    rng = np.random.default_rng(program.seed)
    ways = [rng.normal(size=g.shape) for g in got]
    try:
        wide, narrow = (
            (_numpy_loss(program, inputs, h, ways) - _numpy_loss(program, inputs, -h, ways)) / (2 * h)
            for h in (1e-5, 3e-6)
        )
    except Unfit:
        return None
    found = sum(float(np.sum(g * way)) for g, way in zip(got, ways, strict=True))
    scale = 1 + abs(narrow)
    if abs(wide - narrow) > 1e-6 * scale or abs(found - narrow) <= 1e-3 * scale:
        return None
    return f"the slope in a direction is {found}, and by differences {narrow}"
