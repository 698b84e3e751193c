"""A program for the type checker: `test_typing.py` runs mypy on it. Lines marked `E` must be errors, and no others."""

from __future__ import annotations

from typing import Any, TypeVar, assert_type
from typing import Literal as L

import smelt as sm
from smelt import Tensor, zeros
from smelt.tensor.types import Float16, Float32

Q = TypeVar("Q")
K = TypeVar("K")
D = TypeVar("D")


class Batch(int): ...


class Features(int): ...


def right(
    x: Tensor[Float32, L[2], L[3]],
    w: Tensor[Float32, L[3], L[4]],
    bias: Tensor[Float32, L[4]],
    column: Tensor[Float32, L[2], L[1]],
    batch: Tensor[Float32, L[5], L[2], L[3]],
    named: Tensor[Float32, Batch, Features],
    square: Tensor[Float32, Features, Features],
) -> None:
    assert_type(x @ w, Tensor[Float32, L[2], L[4]])
    assert_type(batch @ w, Tensor[Float32, L[5], L[2], L[4]])
    assert_type(x @ w + bias, Tensor[Float32, L[2], L[4]])
    assert_type(x * 2.0 - x, Tensor[Float32, L[2], L[3]])
    assert_type(x / column, Tensor[Float32, L[2], L[3]])
    assert_type(x.T, Tensor[Float32, L[3], L[2]])
    assert_type(batch.mT, Tensor[Float32, L[5], L[3], L[2]])
    assert_type(batch.sum(axis=0), Tensor[Float32, L[2], L[3]])
    assert_type(batch.sum(axis=-1), Tensor[Float32, L[5], L[2]])
    assert_type(batch.sum(), Tensor[Float32])
    assert_type(x.relu(), Tensor[Float32, L[2], L[3]])
    assert_type(named @ square, Tensor[Float32, Batch, Features])
    assert_type(x.shape, tuple[L[2], L[3]])


def attention(q: Tensor[Float32, Q, D], k: Tensor[Float32, K, D], v: Tensor[Float32, K, D]) -> Tensor[Any, Q, D]:
    return (q @ k.mT).softmax(-1) @ v


def plain(x: Tensor, y: Tensor) -> Tensor:
    """Without annotated shapes nothing is refused."""
    z = (x @ y + 1).softmax(-1).sum(axis=(0, 1), keepdims=True).reshape(2, -1)[0, ..., None]
    return z.mT + x.sum(0) + y.mean(dim=-1) + x.numpy() + zeros(2, 3).T


def wrong(
    x: Tensor[Float32, L[2], L[3]],
    w: Tensor[Float32, L[3], L[4]],
    half: Tensor[Float16, L[2], L[3]],
    vector: Tensor[Float32, L[6]],
    named: Tensor[Float32, Batch, Features],
    square: Tensor[Float32, Features, Features],
) -> None:
    x @ x  # E
    x + w  # E
    x @ w + vector  # E
    x + half  # E
    _ = vector.T  # E
    _ = vector.mT  # E
    square @ named  # E
    declared: Tensor[Float32, L[4], L[2]] = x @ w  # E
    del declared


def names(x: Tensor, net: sm.nn.Module) -> None:
    """Names that are there, by any of their names; and names that are not, although the error at run time helps."""
    assert_type(sm.tensor([1.0]), Tensor)
    assert_type(sm.nn.functional.relu(x).detach().clone(), Tensor)
    assert_type(sm.randn(2, 3), Tensor)
    sm.softmax(x, axis=-1)
    sm.sofmax(x)  # E
    sm.no_grad()  # E
    sm.softmax(x, axsi=-1)  # E
    x.backward()  # E
    x.sofmax()  # E
    net.cuda()  # E
    sm.nn.Conv2D(1, 2, 3)  # E
    sm.nn.functional.reluu(x)  # E
    sm.optim.adam()  # E
    sm.optim.SGD(lr=0.1).step()  # E
    sm.random.nornal((2,))  # E
    sm.data.DataLoder([])  # E
    sm.train.Acuracy()  # E
