"""Windows from which one element is chosen, by the definition."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest

import smelt as sm
from smelt.graph import Op, topological
from tests.interpreted import interpreted

TEXT = """func.func @main(%x: tensor<XxTYPE>, %s: tensor<SxTYPE>) -> tensor<XxTYPE> {
  %init = stablehlo.constant dense<INIT> : tensor<TYPE>
  %0 = "stablehlo.select_and_scatter"(%x, %s, %init) <{window_dimensions = array<i64: SIZES>,
    window_strides = array<i64: STEPS>, padding = dense<PADS> : tensor<2x2xi64>}> ({
  ^bb0(%a: tensor<TYPE>, %b: tensor<TYPE>):
    %r = stablehlo.compare SELECT, %a, %b : (tensor<TYPE>, tensor<TYPE>) -> tensor<i1>
    stablehlo.return %r : tensor<i1>
  }, {
  ^bb0(%a: tensor<TYPE>, %b: tensor<TYPE>):
    %r = stablehlo.SCATTER %a, %b : tensor<TYPE>
    stablehlo.return %r : tensor<TYPE>
  }) : (tensor<XxTYPE>, tensor<SxTYPE>, tensor<TYPE>) -> tensor<XxTYPE>
  return %0 : tensor<XxTYPE> }"""

Pads = tuple[tuple[int, int], tuple[int, int]]
Pair = tuple[int, int]
SELECT: dict[str, Callable[[float, float], bool]] = {"GE": lambda a, b: a >= b, "LE": lambda a, b: a <= b}
SCATTER: dict[str, Callable[[float, float], float]] = {"add": lambda a, b: a + b, "maximum": max}


def counts(shape: Pair, sizes: Pair, steps: Pair, pads: Pads) -> Pair:
    found = [
        (n + low + high - size) // step + 1
        for n, size, step, (low, high) in zip(shape, sizes, steps, pads, strict=True)
    ]
    return found[0], found[1]


def by_definition(
    x: np.ndarray, source: np.ndarray, init: float, windows: tuple[Pair, Pair, Pads], select: str, scatter: str
) -> np.ndarray:
    sizes, steps, pads = windows
    result = np.full_like(x, init)
    for window in itertools.product(*map(range, source.shape)):
        best: tuple[int, ...] | None = None
        for offset in itertools.product(*map(range, sizes)):
            at = tuple(w * step + k - pad[0] for w, step, k, pad in zip(window, steps, offset, pads, strict=True))
            if all(0 <= k < n for k, n in zip(at, x.shape, strict=True)):
                best = at if best is None or not SELECT[select](x[best], x[at]) else best
        if best is not None:
            result[best] = SCATTER[scatter](result[best], source[window])
    return result


def text_of(
    shape: Pair, windows: tuple[Pair, Pair, Pads], dtype: str, init: float, select: str, scatter: str
) -> tuple[str, Pair]:
    sizes, steps, pads = windows
    count = counts(shape, *windows)
    text = TEXT
    for name, value in {
        "tensor<X": f"tensor<{shape[0]}x{shape[1]}",
        "tensor<S": f"tensor<{count[0]}x{count[1]}",
        "TYPE": dtype,
        "INIT": f"{init:.1f}" if dtype == "f32" else str(init),
        "SIZES": f"{sizes[0]}, {sizes[1]}",
        "STEPS": f"{steps[0]}, {steps[1]}",
        "PADS": str([list(pair) for pair in pads]),
        "SELECT": select,
        "SCATTER": scatter,
    }.items():
        text = text.replace(name, value)
    return text, count


NONE: Pads = ((0, 0), (0, 0))
WINDOWS: dict[str, tuple[Pair, Pair, Pads]] = {
    "side by side": ((2, 2), (2, 2), NONE),
    "apart": ((1, 2), (2, 3), NONE),
    "overlapping": ((3, 3), (2, 2), NONE),
    "padded": ((3, 2), (2, 1), ((1, 1), (0, 1))),
    "nothing but padding": ((2, 2), (2, 2), ((2, 2), (0, 2))),
    "cut off": ((2, 2), (1, 2), ((-1, 0), (0, -1))),
    "everything": ((7, 6), (1, 1), NONE),
}


@pytest.mark.parametrize("windows", WINDOWS.values(), ids=WINDOWS)
@pytest.mark.parametrize(
    ("dtype", "init", "select", "scatter"),
    [("f32", 0, "GE", "add"), ("f32", 3, "LE", "add"), ("i32", 0, "GE", "add"), ("f32", 0, "GE", "maximum")],
)
def test_every_window_gives_its_source_to_the_first_of_its_best(
    windows: tuple[Pair, Pair, Pads], dtype: str, init: float, select: str, scatter: str
) -> None:
    shape = (7, 6)
    text, count = text_of(shape, windows, dtype, init, select, scatter)
    generator = np.random.default_rng(0)
    x, source = (generator.integers(-2, 3, shape) for shape in (shape, count))  # so few values that there are equals
    kind = np.float32 if dtype == "f32" else np.int32
    x, source = x.astype(kind), source.astype(kind)
    [found] = interpreted([sm.stablehlo.load(text)(x, source)])
    np.testing.assert_array_equal(found, by_definition(x, source, init, windows, select, scatter))
    np.testing.assert_array_equal(sm.stablehlo.load(text)(x, source).numpy(), found)


def test_sums_of_few_windows_are_no_scatter() -> None:
    for shape, sizes, scatters in (((8, 8), (3, 3), False), ((32, 32), (9, 9), True), ((32, 32), (32, 32), False)):
        text, _ = text_of(shape, (sizes, sizes if sizes[0] == 32 else (1, 1), NONE), "f32", 0, "GE", "add")
        assert (Op.SCATTER in {node.op for node in topological(sm.stablehlo.load(text).graph())}) is scatters


def test_what_is_not_equal_to_itself_is_never_kept() -> None:
    text, _ = text_of((1, 4), ((1, 4), (1, 4), NONE), "f32", 0, "GE", "add")
    x = np.array([[5, np.nan, 1, 0]], np.float32)
    found = sm.stablehlo.load(text)(x, np.ones((1, 1), np.float32)).numpy()
    assert found.tolist() == [[0, 0, 1, 0]]
