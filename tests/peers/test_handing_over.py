"""Tensors in the hands of other libraries, as the guide says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm

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


def test_scikit_learn_makes_arrays_of_tensors() -> None:
    preprocessing: Any = pytest.importorskip("sklearn.preprocessing", reason="peers: scikit-learn is not installed")
    scaled = preprocessing.StandardScaler().fit_transform(sm.asarray(X))
    assert isinstance(scaled, np.ndarray) and np.allclose(scaled, (X - X.mean(0)) / X.std(0))
