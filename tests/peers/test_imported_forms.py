"""Forms that JAX writes where smelt has an operation of its own: normalized, they are as many kernels as that.

One case for each rule that normalizes them: maxima with -inf and minima with inf (`max_minus_infinity`,
`min_infinity`), NaN where something is NaN already, conditions that always hold (`and_all`), casts that lose nothing
(`cast_chain`), sums laid along axes of size 1 (`reshape_below_expand`), transposed operands (`contract_permuted`),
products with reciprocals, masks that are added, and masks by positions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import smelt as sm
from smelt.transform import examine

RNG = np.random.default_rng(7)
SIZE = 64


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def seen() -> Any:
    place = jnp.arange(SIZE)
    return place[:, None] >= place[None, :]


def by_exponentials(scores: Any) -> tuple[Any, Any]:
    powers = jnp.exp(scores - scores.max(-1, keepdims=True))
    return powers, powers.sum(-1, keepdims=True)


def quotient(scores: Any) -> Any:
    powers, total = by_exponentials(scores)
    return powers / total


def product_with_reciprocal(scores: Any) -> Any:
    powers, total = by_exponentials(scores)
    return powers * (1 / total)


LOWEST = float(np.finfo(np.float32).min)
WEIGHTS: dict[str, Callable[[Any], Any]] = {
    "maximum with -inf": jax.nn.softmax,
    "minimum with inf": lambda s: quotient(jnp.minimum(s, jnp.inf)),
    "NaN where it is": lambda s: jax.nn.softmax(jnp.where(s != s, jnp.nan, s)),  # noqa: PLR0124
    "a condition that holds": lambda s: jax.nn.softmax(jnp.where(seen() & jnp.ones((SIZE, SIZE), bool), s, -jnp.inf)),
    "casts": lambda s: jax.nn.softmax(jnp.where(seen().astype(jnp.int8).astype(jnp.int32) > 0, s, -jnp.inf)),
    "an axis of size 1": lambda s: jax.nn.softmax(s[:, :, None])[:, :, 0],
    "quotient": quotient,
    "product with a reciprocal": product_with_reciprocal,
    "added -inf": lambda s: jax.nn.softmax(s + jnp.where(seen(), 0.0, -jnp.inf).astype(s.dtype)),
    "added lowest": lambda s: jax.nn.softmax(s + jnp.where(seen(), 0.0, LOWEST).astype(s.dtype)),
    "-inf by positions": lambda s: jax.nn.softmax(jnp.where(seen(), s, -jnp.inf)),
    "lowest by positions": lambda s: jax.nn.softmax(jnp.where(seen(), s, LOWEST)),
    "a triangle": lambda s: jax.nn.softmax(jnp.where(jnp.tril(jnp.ones(s.shape[-2:], bool)), s, -jnp.inf)),
}


def attention(weights: Callable[[Any], Any]) -> Callable[..., Any]:
    def function(q: Any, k: Any, v: Any) -> Any:
        return jnp.einsum("bhqk,bhkd->bhqd", weights(jnp.einsum("bhqd,bhkd->bhqk", q, k) / 4), v)

    return function


def compare(function: Callable[..., Any], native: Callable[..., Any], *arrays: np.ndarray) -> None:
    """The values are JAX's, and there are as many kernels as of the native form."""
    imported, tensors = sm.from_jax(function), [sm.asarray(x) for x in arrays]
    np.testing.assert_allclose(imported(*tensors).numpy(), function(*arrays), rtol=2e-5, atol=2e-5)
    count, wanted = (len(examine(sm.jit(f), *tensors).kernels) for f in (imported, native))
    assert count == wanted


@pytest.mark.parametrize("name", WEIGHTS)
def test_attention_is_one_kernel_however_its_weights_are_written(name: str) -> None:
    shape = (2, 2, SIZE, 16)
    compare(attention(WEIGHTS[name]), sm.attention, draw(*shape), draw(*shape), draw(*shape))


def test_attention_of_jax() -> None:
    function = jax.nn.dot_product_attention
    shape = (2, SIZE, 2, 16)
    native = sm.jit(lambda *xs: sm.attention(*(x.permute(0, 2, 1, 3) for x in xs)))
    compare(function, native, *(draw(*shape) for _ in "qkv"))
    compare(lambda *xs: function(*xs, is_causal=True), native, *(draw(*shape) for _ in "qkv"))
    compare(function, native, draw(*shape), *(draw(2, SIZE, 1, 16).repeat(2, 2) for _ in "kv"))


def test_attention_of_transposed_and_of_repeated_operands() -> None:
    def transposed(*operands: Any) -> Any:
        return attention(jax.nn.softmax)(*(jnp.transpose(x, (0, 2, 1, 3)) for x in operands))

    def grouped(q: Any, k: Any, v: Any) -> Any:
        return attention(jax.nn.softmax)(q, jnp.repeat(k, 2, 1), jnp.repeat(v, 2, 1))

    shape = (2, SIZE, 2, 16)
    compare(transposed, lambda *xs: sm.attention(*(x.permute(0, 2, 1, 3) for x in xs)), *(draw(*shape) for _ in "qkv"))
    shape = (2, 2, SIZE, 16)
    compare(grouped, lambda q, k, v: sm.attention(q[:, :2], k, v), draw(2, 4, SIZE, 16), draw(*shape), draw(*shape))


def test_a_row_without_anything_to_see_stays_what_it_was() -> None:
    nothing = np.zeros((SIZE, SIZE), bool)
    arrays = [draw(1, 1, SIZE, 16) for _ in "qkv"]
    for lowest in (-np.inf, LOWEST):
        function = attention(lambda s, lowest=lowest: jax.nn.softmax(jnp.where(nothing, s, lowest)))
        np.testing.assert_allclose(sm.from_jax(function)(*arrays).numpy(), function(*arrays), rtol=2e-5, atol=2e-5)


def test_norms_and_losses_are_as_many_kernels_as_native_ones() -> None:
    def layer_norm(x: Any, w: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        return centered * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5) * w + w

    def by_roots(x: Any, w: Any) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        return centered / jnp.sqrt(jnp.square(centered).mean(-1, keepdims=True) + 1e-5) * w + w

    def rms_norm(x: Any, w: Any) -> Any:
        return x * jax.lax.rsqrt(jnp.square(x).mean(-1, keepdims=True) + 1e-5) * w

    x, w, labels = draw(32, 48), draw(48), np.arange(32) % 48
    compare(layer_norm, lambda x, w: sm.layer_norm(x, w, w, axes=1), x, w)
    compare(by_roots, lambda x, w: sm.layer_norm(x, w, w, axes=1), x, w)
    compare(rms_norm, lambda x, w: sm.rms_norm(x, w, axes=1), x, w)
    compare(lambda x: jax.nn.logsumexp(x, -1), lambda x: sm.logsumexp(x, -1), x)

    def cross_entropy(x: Any, labels: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x), labels[:, None], -1).mean()

    compare(cross_entropy, sm.cross_entropy, x, labels)
