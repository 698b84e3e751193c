"""Functions as linalg on tensors: the text, by what it says and by smelt's own parser."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import UnsupportedOp
from smelt.formats import mlir
from smelt.formats.linalg import emit

X = sm.asarray(np.arange(12, dtype=np.float32).reshape(3, 4))


def operations(text: str) -> list[mlir.Operation]:
    """The operations of the only function."""
    [function] = mlir.parse(text).functions.values()
    assert function.body is not None
    return function.body.blocks[0].operations


def names(text: str) -> list[str]:
    """What is computed, without the tensors that it is written to."""
    beside = ("tensor.empty", "linalg.fill", "arith.constant", "func.return")
    return [operation.name for operation in operations(text) if operation.name not in beside]


def test_what_smelt_fuses_is_one_operation() -> None:
    assert names(emit(lambda x: (x * 2 + 1).tanh().T, X)) == ["linalg.generic"]


def normalized(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    """A product, and what is fused behind it."""
    y = x @ w
    return sm.concat([(y[:, 1:] - y.max(-1, keepdims=True)).exp(), x.astype(sm.bfloat16).astype(sm.float32)], axis=1)


def test_the_text() -> None:
    stored = Path(__file__).parent.parent / "texts" / "linalg.mlir"
    assert emit(normalized, X, sm.ones((4, 4))) == stored.read_text(encoding="utf-8")


def test_softmax_is_a_maximum_a_sum_and_what_they_make() -> None:
    text = emit(lambda x: x.softmax(-1), X)
    maximum, total, result = (o for o in operations(text) if o.name == "linalg.generic")
    kinds = [[kind.words[0] for kind in o.attributes["iterator_types"]] for o in (maximum, total, result)]
    assert kinds == [["parallel", "reduction"], ["parallel", "reduction"], ["parallel", "parallel"]]


def test_products_that_fit_have_their_names() -> None:
    square = sm.ones((4, 4))
    assert names(emit(lambda x, w: x @ w, X, square)) == ["linalg.matmul"]
    assert names(emit(lambda x, w: x @ w, sm.ones((2, 3, 4)), sm.ones((2, 4, 5)))) == ["linalg.batch_matmul"]
    assert names(emit(lambda x, w: x @ w.T, X, square)) == ["linalg.generic"]


def test_reductions_of_one_kernel_over_the_same_axes_share_an_operation() -> None:
    text = emit(lambda x: x.sum(-1) + x.max(-1), X)
    both, _ = (o for o in operations(text) if o.name == "linalg.generic")
    assert len(both.types) == 2


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: x.sort(-1), "sort"),
        (lambda x: x.cumsum(-1), "scan"),
        (lambda x: sm.fori_loop(0, 3, lambda i, s: s * 2, x), "loop"),
        (lambda x: x.lgamma(), "lgamma"),
    ],
)
def test_what_has_no_form_is_refused_by_name(function: Callable[..., Any], name: str) -> None:
    with pytest.raises(UnsupportedOp, match=name) as caught:
        emit(function, X)
    assert caught.value.name == name


def test_calls_of_python_are_refused() -> None:
    with pytest.raises(UnsupportedOp, match=r"sin cannot be written[\s\S]*computed by Python"):
        emit(lambda x: sm.callback(np.sin, x, x), X)


def test_symbolic_sizes_are_refused() -> None:
    n = sm.Dim("n", 1, 8)
    with pytest.raises(UnsupportedOp, match="the size n cannot be written"):
        emit(sm.jit(lambda x: x + 1, shapes=[(n, 4)]), X)


def test_random_numbers_take_an_argument() -> None:
    [function] = mlir.parse(emit(lambda x: x + sm.random.normal((4,)), X)).functions.values()
    assert [str(argument.type) for argument in function.arguments] == ["tensor<3x4xf32>", "tensor<3xi32>"]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x,
        lambda x: (x[:, 1:3] + 1, sm.concat([x, x * 2]), sm.pad(x, ((1, 0), (0, 2)))),
        lambda x: (x[:0].sum(0), x[:0] * 2, sm.zeros((3,)), x.reshape(1, 2, 6) + 1),
        lambda x: (x.astype(sm.int32) // 3, x.astype(sm.bfloat16) + 1, x > 2, x.argmax(-1)),
        lambda x: x.max(0) + x.astype(sm.int8).max().astype(sm.float32),
    ],
)
def test_the_text_reads_back(function: Callable[..., Any]) -> None:
    text = emit(function, X)
    module = mlir.parse(text)
    assert mlir.write(module) == text
    assert mlir.parse(mlir.write(module)) == module


def test_tensors_that_a_function_reads_besides_are_arguments() -> None:
    bias = sm.asarray([1.0, 2.0, 3.0, 4.0])
    [function] = mlir.parse(emit(lambda x: x + bias, X)).functions.values()
    assert [str(argument.type) for argument in function.arguments] == ["tensor<3x4xf32>", "tensor<4xf32>"]
    text = emit(lambda x: x + bias, X, weights="inline")
    assert "arith.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<4xf32>" in text
    assert "dense<[5, 6]> : tensor<2xi64>" in emit(lambda x: x[0, 0] + sm.asarray([5, 6]), X)
