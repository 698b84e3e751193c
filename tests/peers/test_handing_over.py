"""Tensors in the hands of other libraries, as the guide says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError

pytestmark = pytest.mark.peers

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_einops_takes_tensors_by_the_array_api() -> None:
    einops: Any = pytest.importorskip("einops.array_api", reason="peers: einops is not installed")
    x = sm.asarray(X)
    split = einops.rearrange(x, "a (b c) -> (a b) c", c=2)
    assert isinstance(split, sm.Tensor) and split.tolist() == X.reshape(6, 2).tolist()
    assert einops.reduce(x, "a b -> b", "mean").tolist() == X.mean(0).tolist()
    assert einops.repeat(x, "a b -> a b c", c=2).shape == (3, 4, 2)
    compiled = sm.jit(lambda x: einops.rearrange(x, "a b -> b a"))
    assert compiled(x).tolist() == X.T.tolist()


def test_jax_takes_tensors() -> None:
    jnp: Any = pytest.importorskip("jax.numpy", reason="peers: jax is not installed")
    x = sm.asarray(X)
    assert np.allclose(jnp.sin(jnp.asarray(x)), np.sin(X))
    for together in (x + jnp.ones(4), jnp.ones(4) + x):
        assert isinstance(together, jnp.ndarray) and np.allclose(together, X + 1)
    half = jnp.asarray(x.bfloat16())
    assert half.dtype == jnp.bfloat16


def test_torch_datasets_and_loaders() -> None:
    data: Any = pytest.importorskip("torch.utils.data", reason="peers: torch is not installed")

    class Rows(data.Dataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 3

        def __getitem__(self, index: int) -> Any:
            return sm.asarray(X)[index], index

    with pytest.raises(TypeError, match="batch must contain tensors, numpy arrays"):
        next(iter(data.DataLoader(Rows(), batch_size=2)))
    loader = data.DataLoader(Rows(), batch_size=2, collate_fn=lambda items: [*map(sm.stack, zip(*items, strict=True))])
    rows, numbers = next(iter(loader))
    assert rows.tolist() == X[:2].tolist() and numbers.tolist() == [0, 1]
    rows, numbers = next(iter(sm.data.DataLoader(Rows(), batch=2)))
    assert rows.tolist() == X[:2].tolist() and numbers.tolist() == [0, 1]


def test_torch_tensors_beside_ours() -> None:
    torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")
    x, theirs = sm.asarray(X), torch.from_numpy(X.copy())
    for got, expected in (
        (x + theirs, 2 * X),
        (theirs * x, X * X),
        (x @ theirs.T, X @ X.T),
        (x == theirs, np.full((3, 4), True)),  # which Python would answer with False
        (theirs != x, np.full((3, 4), False)),
        (sm.grad(lambda t: (t * t).sum())(theirs), 2 * X),
    ):
        assert isinstance(got, sm.Tensor) and np.array_equal(got.numpy(), expected)
    shifted = sm.jit(lambda x: x + theirs)
    assert np.array_equal(shifted(x).numpy(), 2 * X)
    theirs.mul_(10)
    assert np.array_equal(shifted(x).numpy(), 11 * X)
    labels = torch.tensor([0, 1, 2])
    assert sm.cross_entropy(x, labels).item() == sm.cross_entropy(x, sm.asarray([0, 1, 2])).item()
    with pytest.raises(ArgumentError, match=r"is a torch\.Tensor\n(.|\n)*sm\.asarray"):
        sm.nn.TransformerEncoderLayer(4, 2)(theirs)


def test_items_that_are_torch_tensors_make_batches() -> None:
    torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")
    data = torch.utils.data.TensorDataset(torch.from_numpy(X.copy()), torch.tensor([0, 1, 2]))
    rows, numbers = next(iter(sm.data.DataLoader(data, batch=2)))
    assert isinstance(rows, sm.Tensor) and rows.tolist() == X[:2].tolist()
    assert isinstance(numbers, sm.Tensor) and numbers.tolist() == [0, 1]


def test_scikit_learn_makes_arrays_of_tensors() -> None:
    preprocessing: Any = pytest.importorskip("sklearn.preprocessing", reason="peers: scikit-learn is not installed")
    scaled = preprocessing.StandardScaler().fit_transform(sm.asarray(X))
    assert isinstance(scaled, np.ndarray) and np.allclose(scaled, (X - X.mean(0)) / X.std(0))


def test_weights_of_a_module_of_the_closure_are_seen_when_they_change() -> None:
    torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")

    class Net(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)

    net = Net()
    ways = (
        lambda x: x @ sm.asarray(net.linear.weight.detach()).T + sm.asarray(net.norm.running_mean),
        lambda x: x @ sm.asarray(net.state_dict()["linear.weight"]).T + sm.asarray(next(net.buffers())),
        lambda x: (
            x @ sm.asarray(net.get_submodule("linear").weight).T + sm.asarray(net.get_buffer("norm.running_mean"))
        ),
    )
    compiled = [sm.jit(way) for way in ways]
    for _ in range(3):
        expected = torch.ones(2) @ net.linear.weight.detach().T + net.norm.running_mean
        for f in compiled:
            assert np.allclose(f(sm.ones(2)).numpy(), expected.numpy(), rtol=1e-5)
        with torch.no_grad():
            net.linear.weight.add_(1.0)
        net.norm.running_mean.add_(1.0)
    assert all("traces=3" in repr(f) for f in compiled)
