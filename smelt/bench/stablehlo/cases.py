"""Eight functions, each written with smelt and with JAX, and what they are given."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import smelt as sm
from smelt.bench.train import in_smelt
from smelt.bench.train.cases import CASES as NETWORKS
from smelt.bench.train.cases import GPT, SMALL_GPT, Gpt, gpt_batch, gpt_weights

Prepared = tuple[Callable[..., Any], tuple[Any, ...]]  # a function and its arguments

GPT2 = Gpt(layers=12, width=768, heads=12, length=128, vocabulary=50257)
CASES: Mapping[str, str] = {
    "mlp": "784-512-512-10, batch 128, with gradients",
    "lenet": "LeNet on 28×28 images, batch 64, with gradients",
    "gpt2": "GPT-2, 12 layers of width 768, 128 tokens: forward",
    "gpt": "6 layers of width 384, 256 tokens, batch 8, with gradients",
    "norm": "layer norm of 4096×1024",
    "cross-entropy": "of 2048×4096, with gradients",
    "resnet": "ResNet-18, width 16, on 32×32 images, batch 64: forward",
    "scan": "a recurrent network of width 64, batch 32, 128 steps, with gradients",
}
STEP = "gpt2-step"  # whose first call `compile` measures
_TRAINED = ("mlp", "lenet", "gpt", STEP)


def _sizes(name: str, quick: bool) -> Gpt:
    return SMALL_GPT if quick else GPT if name == "gpt" else GPT2


def _weights(name: str, quick: bool) -> Any:
    return gpt_weights(_sizes(name, quick)) if name.startswith("gpt") else NETWORKS[name].weights()


def _batch(name: str, quick: bool) -> tuple[Any, Any]:
    found = gpt_batch(_sizes(name, quick), 8 if name == "gpt" else 1) if "gpt" in name else NETWORKS[name].batch()
    return tuple(part.astype(np.int32) if part.dtype == np.int64 else part for part in found)


def _drawn(*shapes: tuple[int, ...]) -> list[Any]:
    generator = np.random.default_rng(0)
    return [generator.standard_normal(shape, dtype=np.float32) for shape in shapes]


def _arrays(name: str, quick: bool) -> tuple[Any, ...]:
    """What those get that are no networks."""
    part = 16 if quick else 1
    if name == "norm":
        return tuple(_drawn((4096 // part, 1024), (1024,), (1024,)))
    if name == "cross-entropy":
        rows = 2048 // part
        return *_drawn((rows, 4096)), np.random.default_rng(1).integers(0, 4096, rows).astype(np.int32)
    x, w, u = _drawn((128 // part, 32, 64), (64, 64), (64, 64))
    return x, w / 8, u / 8


def native(name: str, quick: bool) -> Prepared:
    """A function as it is written with smelt."""
    if name in NETWORKS or name in ("gpt2", STEP):
        network: Any = in_smelt.GptNetwork(_sizes(name, quick)) if "gpt" in name else in_smelt.network(name)
        model = network.load_state_dict(_weights(name, quick), strict=False)
        x, y = (sm.asarray(part) for part in _batch(name, quick))
        if name not in _TRAINED:
            return lambda model, x: model(x), (model, x)
        value = sm.value_and_grad(lambda model, x, y: sm.cross_entropy(model(x), y.reshape(-1)))
        return value, (model, x, y)
    functions: dict[str, Callable[..., Any]] = {
        "norm": lambda x, weight, bias: sm.layer_norm(x, weight, bias, axes=1),
        "cross-entropy": sm.value_and_grad(sm.cross_entropy),
        "scan": sm.value_and_grad(_recurrent, (1, 2)),
    }
    return functions[name], tuple(sm.asarray(array) for array in _arrays(name, quick))


def _recurrent(x: Any, w: Any, u: Any) -> Any:
    _, found = sm.scan(lambda h, row: (sm.tanh(h @ w + row @ u),) * 2, sm.zeros(x.shape[1:]), x)
    return (found * found).mean()


def in_jax(name: str, quick: bool) -> Prepared:
    """The same as it is written with JAX, with NumPy's arrays."""
    import jax
    import jax.numpy as jnp

    from smelt.bench.train import in_jax as networks

    if name in NETWORKS or name in ("gpt2", STEP):
        forward = networks.gpt(_sizes(name, quick)) if "gpt" in name else networks.network(name)
        x, y = _batch(name, quick)
        if name not in _TRAINED:
            return forward, (_weights(name, quick), x)
        return jax.value_and_grad(networks.loss(forward)), (_weights(name, quick), x, y)

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * weight + bias

    def recurrent(x: Any, w: Any, u: Any) -> Any:
        _, found = jax.lax.scan(lambda h, row: (jnp.tanh(h @ w + row @ u),) * 2, jnp.zeros(x.shape[1:]), x)
        return (found * found).mean()

    functions: dict[str, Callable[..., Any]] = {
        "norm": norm,
        "cross-entropy": jax.value_and_grad(networks.loss(lambda _, x: x), 1),
        "scan": jax.value_and_grad(recurrent, (1, 2)),
    }
    arrays = _arrays(name, quick)
    return functions[name], ((), *arrays) if name == "cross-entropy" else arrays
