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


class Net(sm.nn.Module):
    def __init__(self) -> None:
        self.layer = sm.nn.Linear(4, 2)

    def __call__(self, x: Tensor) -> Tensor:
        return self.layer(x)


def energy(x: Tensor, scale: float = 1.0) -> Tensor:
    return (x * scale).square().sum()


def fit(model: Net, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    logits = model(x)
    return sm.nn.losses.cross_entropy(logits, y), logits


def transforms(x: Tensor, y: Tensor, model: Net) -> None:
    """What transforms make of a function is known from its annotations; of a lambda, the value."""
    assert_type(sm.grad(energy)(x, scale=2.0), Tensor)
    assert_type(sm.grad(energy, argnums=(0,))(x), tuple[Any, ...])
    assert_type(sm.value_and_grad(energy)(x, 2.0), tuple[Tensor, Tensor])
    assert_type(sm.grad(fit, has_aux=True)(model, x, y), tuple[Net, Tensor])
    assert_type(sm.value_and_grad(fit, has_aux=True)(model, x, y), tuple[tuple[Tensor, Tensor], Net])
    assert_type(sm.value_and_grad(lambda m: sm.nn.losses.cross_entropy(m(x), y))(model)[0], Tensor)
    assert_type(sm.jit(sm.value_and_grad(energy))(x), tuple[Tensor, Tensor])
    assert_type(sm.vmap(sm.grad(energy))(x), Tensor)
    assert_type(sm.grad(sm.jit(energy))(x), Tensor)
    assert_type(sm.checkpoint(energy)(x), Tensor)
    assert_type(sm.stop_gradient(model), Net)
    assert_type(sm.jvp(energy, (x,), (x,)), tuple[Tensor, Tensor])
    value, pullback = sm.vjp(energy, x)
    assert_type(value, Tensor)
    assert_type(pullback(value), tuple[Any, ...])
    opt = sm.optim.AdamW(lr=1e-3)
    assert_type(opt.update(model, sm.grad(lambda m: energy(m(x)))(model), opt.init(model))[0], Net)
    sm.grad(energy)(x, scale="2")  # E
    sm.grad(fit, has_aux=True)(x, x, y)  # E
    sm.value_and_grad(fit)(model, x, y)[0].item()  # E


class Lengths:
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> dict[str, int]:
        return {"length": index}


def loaders(x: Tensor, y: Tensor) -> None:
    """Batches of arrays are tensors, of which a tuple has one for each; other datasets may give anything."""
    for images, labels in sm.data.DataLoader(sm.data.digits(), batch=32, shuffle=True, workers=0):
        assert_type(images, Tensor)
        assert_type(labels.argmax(), Tensor)
    for batch in sm.data.DataLoader(sm.data.TensorDataset(x, y), 8, pad_last=True):
        assert_type(batch, tuple[Tensor, ...])
    for numbers in sm.data.DataLoader(range(10), 2):
        assert_type(numbers, Tensor)
    train, _ = sm.data.random_split(sm.data.ArrayDataset(x, y), [0.8, 0.2])
    for inputs, *_ in sm.data.DataLoader(train):
        assert_type(inputs, Tensor)
    for anything in sm.data.DataLoader(Lengths(), 2):
        assert_type(anything, Any)
    for anything in sm.data.DataLoader((x, y), collate=list):
        assert_type(anything, Any)
    loader: sm.data.DataLoader = sm.data.DataLoader(train, 2)
    del loader
    sm.data.DataLoader(train, 2, shufle=True)  # E


def distinct(x: Tensor) -> None:
    """The sort of result is known from the arguments."""
    assert_type(sm.unique(x), Tensor)
    values, counts = sm.unique(x, return_counts=True)
    assert_type(values, Tensor)
    assert_type(counts, Tensor)
    assert_type(sm.unique(x, return_index=True, return_inverse=True), tuple[Tensor, ...])
    assert_type(sm.unique_counts(x).counts, Tensor)
    assert_type(sm.unique_all(x).inverse_indices, Tensor)
    assert_type(x.unique(), Tensor)
    _ = sm.unique(x).counts  # E
