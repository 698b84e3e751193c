"""Kernels that users write as text: right ones run, and whatever is wrong with the text is said."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.errors import ArgumentError, DTypeError, GradientError, ParseError, ShapeError, SmeltError
from smelt.kernel import Illegal
from smelt.search.written import read

rng = np.random.default_rng(5)

PRODUCT = """
    region
    axis i0 in 0 .. 5
    axis i1 in 0 .. 31
    axis r0 in 0 .. 19
    buffer a float32 [6, 20] strides [20, 1] offset 0
    buffer b float32 [20, 32] strides [32, 1] offset 0
    buffer s float32 [] strides [] offset 0
    %0: float32 = load a[i0, r0]
    %1: float32 = load b[r0, i1]
    %2: float32 = mul %0 %1
    %3: float32 = reduce %2 add over r0
    %4: float32 = load s[]
    %5: float32 = mul %3 %4
    output o float32 [6, 32] strides [32, 1] offset 0
    store o[i0, i1] = %5
"""
SCHEDULE = """
split i0 (3 reg)
split i1 (2 reg, 4 lane)
order i1.0 i0.0 r0.0
bind i1.0 grid
unroll r0.0 2
"""
TWICE = """
region
axis i in 0 .. 7
buffer x float32 [8] strides [1] offset 0
%0: float32 = load x[i]
%1: float32 = add %0 %0
output y float32 [8] strides [1] offset 0
store y[i] = %1
"""


def normal(*shape: int) -> sm.Tensor:
    return sm.asarray(np.asarray(rng.normal(size=shape), np.float32))


@pytest.mark.parametrize("schedule", ["", SCHEDULE, "bind i0.0 grid"])
def test_a_product(schedule: str) -> None:
    kernel = sm.custom_kernel(PRODUCT, schedule)
    assert repr(kernel) == "custom_kernel(a float32[6, 20], b float32[20, 32], s float32[] -> o float32[6, 32])"
    assert kernel.inputs == ("a", "b", "s") and kernel.outputs == ("o",)
    a, b = normal(6, 20), normal(20, 32)
    np.testing.assert_allclose(kernel(a, b, 2.0).numpy(), 2 * a.numpy() @ b.numpy(), rtol=1e-4, atol=1e-4)
    found = sm.jit(lambda a, b: kernel(a + 1, b.T.T, 1.0).relu())(a, b).numpy()
    np.testing.assert_allclose(found, np.maximum((a.numpy() + 1) @ b.numpy(), 0), rtol=1e-4, atol=1e-4)
    assert "void k0" in kernel.source and kernel.region.startswith("region")


def test_it_is_batched_and_has_a_gradient_if_somebody_gives_one() -> None:
    kernel = sm.custom_kernel(TWICE, "split i (4 lane)")
    assert sm.vmap(kernel)(sm.ones((3, 8))).tolist() == [[2.0] * 8] * 3
    with pytest.raises(GradientError, match="with sm"):
        sm.grad(lambda x: kernel(x).sum())(sm.ones(8))

    @sm.custom_vjp
    def twice(x: sm.Tensor) -> Any:
        return kernel(x)

    twice.defvjp(lambda x: (kernel(x), None), lambda kept, ct: (2 * ct,))
    assert sm.grad(lambda x: twice(x).sum())(sm.ones(8)).tolist() == [2.0] * 8


def test_inputs_that_do_not_fit() -> None:
    kernel = sm.custom_kernel(TWICE)
    with pytest.raises(ShapeError, match="x has shape"):
        kernel(sm.ones(9))
    with pytest.raises(DTypeError, match="x is float64"):
        kernel(sm.ones(8, dtype=sm.float64))
    with pytest.raises(ArgumentError, match="it takes x"):
        kernel()


@pytest.mark.parametrize(
    ("region", "schedule", "kind", "said"),
    [
        ("", "", ParseError, "expected 'region'"),
        ("region", "", ParseError, "stores something"),
        (TWICE.replace("x[i]", "x[i + 1]"), "", ArgumentError, "the region is wrong: x: .* may leave"),
        (TWICE.replace("x[i]", "x[i - 1]"), "", ArgumentError, "may leave"),
        (TWICE.replace("y[i]", "y[i + 1]"), "", ArgumentError, "may leave"),
        (TWICE.replace("0 .. 7", "0 .. 6"), "", ArgumentError, "1 elements of y are never stored"),
        (TWICE.replace("y[i]", "y[0]"), "", SmeltError, ""),
        (TWICE.replace("strides [1]", "strides [2]"), "", ArgumentError, "buffers are dense"),
        (TWICE.replace("offset 0", "offset 4"), "", ArgumentError, "buffers are dense"),
        (TWICE.replace("7", "99999999999").replace("[8]", "[100000000000]"), "", ArgumentError, "at most"),
        (TWICE.replace("add", "frobnicate"), "", ParseError, "line 6"),
        (TWICE.replace("load x", "load z"), "", ParseError, "line 5"),
        (TWICE.replace("axis i", "axes i"), "", ParseError, "line 3: (?s:.*)Did you mean axis"),
        (TWICE.replace("add", "addd"), "", ParseError, "found 'addd'(?s:.*)Did you mean add"),
        (TWICE.replace("%1: float32", "%1: float23"), "", ParseError, "Did you mean float32"),
        (TWICE.replace("add %0 %0", "reduce %0 ad over i"), "", ParseError, "Did you mean add"),
        (TWICE, "splt i (4 lane)", ParseError, "Did you mean split"),
        (TWICE.replace("axis i", "parameter n in 1 .. 9\naxis i"), "", ArgumentError, "parameters"),
        (
            TWICE.replace("buffer x", "buffer z float32 [8] strides [1] offset 0\nbuffer x"),
            "",
            ArgumentError,
            "never read",
        ),
        (TWICE + "\0", "", ParseError, ""),
        (TWICE, "banana", ParseError, "expected an action"),
        (TWICE, "split j (4 lane)", ArgumentError, "no axis j"),
        (TWICE, "split i (3 lane)", ArgumentError, "power of two"),
        (TWICE, "split i (4 lane); split i (4 lane)", ArgumentError, ""),
        (TWICE + "i" * (1 << 20), "", ArgumentError, "characters"),
    ],
)
def test_wrong_texts_are_refused(region: str, schedule: str, kind: type[Exception], said: str) -> None:
    with pytest.raises(kind) as error:
        sm.custom_kernel(region, schedule)
    assert re.search(said, str(error.value)) and str(error.value).startswith("custom_kernel: ")


def test_what_is_no_text_is_refused() -> None:
    with pytest.raises(ArgumentError, match="the region is int"):
        sm.custom_kernel(3)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="the schedule is bytes"):
        sm.custom_kernel(TWICE, b"")  # type: ignore[arg-type]


def test_computed_indices_are_refused() -> None:
    picked = """
    region
    axis i in 0 .. 7
    buffer k int64 [8] strides [1] offset 0
    buffer x float32 [8] strides [1] offset 0
    %0: int64 = load k[i]
    %1: float32 = load x[p] %0 with p in 0 .. 7
    output y float32 [8] strides [1] offset 0
    store y[i] = %1
    """
    with pytest.raises(SmeltError):
        sm.custom_kernel(picked)


WORDS = [
    "i0",
    "i1",
    "r0",
    "a",
    "o",
    "%0",
    "%3",
    "-1",
    "0",
    "1",
    "8",
    "99999999999999999999",
    "1e9",
    "reg",
    "lane",
    "grid",
]
WORDS += [
    "split",
    "order",
    "(",
    ")",
    "[",
    "]",
    "//",
    "%",
    "*",
    "float32",
    "int8",
    "reduce",
    "store",
    "where",
    "",
    "\n",
    "\0",
]


def mutated(text: str, chance: random.Random) -> str:
    parts = re.split(r"(\s+|[\[\](),])", text)
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(parts))
        match chance.randrange(4):
            case 0:
                parts[at] = chance.choice(WORDS)
            case 1:
                parts[at] = parts[chance.randrange(len(parts))]
            case 2:
                parts[at] = "".join(chance.sample(parts[at], len(parts[at])))
            case 3:
                del parts[at]
    return "".join(parts)


@pytest.mark.parametrize("seed", range(4))
def test_no_text_breaks_the_readers(seed: int) -> None:
    chance, device = random.Random(seed), runtime.device("cpu")
    read(PRODUCT, SCHEDULE, device)
    refused = 0
    for _ in range(150):
        region, schedule = PRODUCT, SCHEDULE
        if chance.random() < 0.5:
            region = mutated(region, chance)
        else:
            schedule = mutated(schedule, chance)
        try:
            read(region, schedule, device)
        except (SmeltError, Illegal):
            refused += 1
    assert refused > 50
