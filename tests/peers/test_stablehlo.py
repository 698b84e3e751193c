"""Programs of JAX's through StableHLO text: the numbers, the derivatives, the random bits, and the text itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import smelt as sm
from smelt.formats import mlir
from smelt.graph import Op, topological

RNG = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def text_of(function: Callable[..., Any], *args: Any) -> str:
    return jax.jit(function, keep_unused=True).lower(*args).as_text()


def check(function: Callable[..., Any], *args: Any, tolerance: float = 2e-5) -> sm.stablehlo.Imported:
    program = sm.stablehlo.load(text_of(function, *args))
    found = program(*(np.asarray(jnp.asarray(x)) for x in jax.tree.leaves(args)))
    for a, b in zip(
        found if isinstance(found, tuple) else (found,), jax.tree.leaves(jax.jit(function)(*args)), strict=True
    ):
        np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=tolerance, atol=tolerance)
    return program


def norm(x: Any, weight: Any) -> Any:
    centered = x - x.mean(-1, keepdims=True)
    return centered * jax.lax.rsqrt((centered**2).mean(-1, keepdims=True) + 1e-5) * (1 + weight)


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    seen = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(seen, scores, -1e9), -1), v)


def parameters(layers: int, width: int, words: int) -> dict[str, Any]:
    layer = {"qkv": (width, 3 * width), "out": (width, width), "up": (width, 4 * width), "down": (4 * width, width)}
    return {
        "words": 0.1 * draw(words, width),
        "layers": [
            {name: 0.1 * draw(*shape) for name, shape in layer.items()} | {"norm1": draw(width), "norm2": draw(width)}
            for _ in range(layers)
        ],
    }


def loss(weights: dict[str, Any], tokens: Any) -> Any:
    x = weights["words"][tokens[:, :-1]]
    for layer in weights["layers"]:
        parts = jnp.split(norm(x, layer["norm1"]) @ layer["qkv"], 3, -1)
        q, k, v = (part.reshape(*part.shape[:2], 4, -1) for part in parts)
        x = x + attention(q, k, v).reshape(x.shape) @ layer["out"]
        x = x + jax.nn.gelu(norm(x, layer["norm2"]) @ layer["up"]) @ layer["down"]
    logits = jax.nn.log_softmax(x @ weights["words"].T)
    return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


def test_a_transformer_with_its_gradients() -> None:
    tokens = RNG.integers(0, 50, (2, 9)).astype(np.int32)
    check(jax.value_and_grad(loss), parameters(2, 16, 50), tokens, tolerance=1e-4)


FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "mlp": (lambda x, a, b: jnp.tanh(x @ a) @ b, (draw(4, 5), draw(5, 7), draw(7, 2))),
    "softmax": (lambda x: jax.nn.softmax(x, 0), (draw(4, 5),)),
    "attention": (attention, (draw(2, 6, 2, 4), draw(2, 6, 2, 4), draw(2, 6, 2, 4))),
    "moments": (lambda x: (x.var(0), x.std(), jnp.median(x, 1), jnp.percentile(x, 30, 0)), (draw(6, 5),)),
    "searching": (lambda x: (x.argmax(1), x.argmin(0), jnp.nanargmax(x), x > x.mean()), (draw(6, 5),)),
    "running": (
        lambda x: (x.cumsum(0), x.cumprod(1), jax.lax.cummax(x, reverse=True), jax.lax.cumlogsumexp(x)),
        (draw(6, 5),),
    ),
    "sorting": (
        lambda x: (jnp.sort(x, 0), jnp.argsort(-x, 1), jax.lax.sort([x, -x], num_keys=2), jnp.unique(x, size=4)),
        (draw(6, 5),),
    ),
    "pooling": (
        jax.grad(lambda x: jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (2, 2), (2, 1), "SAME").sum()),
        (draw(6, 5),),
    ),
    "convolution": (
        jax.grad(
            lambda x, w: jax.lax.conv_general_dilated(x, w, (2, 1), "SAME", rhs_dilation=(1, 2)).sum() ** 2, (0, 1)
        ),
        (draw(2, 3, 8, 8), draw(4, 3, 3, 3)),
    ),
    "groups": (
        jax.grad(
            lambda x, w: (jax.lax.conv_general_dilated(x, w, (1, 1), "VALID", feature_group_count=2) ** 2).sum(), (0, 1)
        ),
        (draw(2, 4, 6, 6), draw(6, 2, 3, 3)),
    ),
    "indexing": (
        lambda x, i: (x[i], x.at[i].add(1.0), x.at[i, i].mul(2.0), x.at[i].max(0.5), x[::-1, ::2], jnp.roll(x, 2)),
        (draw(6, 5), np.array([3, 0, 1, 3])),
    ),
    "scan": (lambda x: jax.lax.scan(lambda c, y: (jnp.tanh(c) + y, c * y), x[0], x), (draw(6, 5),)),
    "reverse scan": (
        lambda x: jax.lax.scan(lambda c, y: (jnp.tanh(c) + y, c * y), x[0], x, reverse=True),
        (draw(6, 5),),
    ),
    "gradient of a scan": (
        jax.grad(lambda x: jax.lax.scan(lambda c, y: (jnp.tanh(c) + y, c * y), x[0], x)[1].sum()),
        (draw(6, 5),),
    ),
    "while": (lambda x: jax.lax.while_loop(lambda x: x.sum() < 1000, lambda x: x * 1.5 + 1, x), (abs(draw(6, 5)),)),
    "switch": (lambda x, i: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x), (draw(6, 5), np.int32(1))),
    "special": (
        lambda x: (
            jax.scipy.special.erf(x),
            jax.scipy.special.i1e(x),
            jax.scipy.special.zeta(x + 1, x),
            jax.scipy.special.polygamma(2, x),
            jax.scipy.special.gammainc(x, x),
        ),
        (abs(draw(6)) + 0.3,),
    ),
    "special, at zeros and poles": (
        lambda x: (
            jnp.signbit(jax.lax.bessel_i1e(x)),
            jax.scipy.special.i1e(x),
            jax.scipy.special.polygamma(1, x),
            jax.scipy.special.polygamma(2, x),
            jax.scipy.special.zeta(jnp.float32(1), x + 5),
        ),
        (np.array([0.0, -0.0, -1.0, -2.0, 1.5, -1.5, -2.25, np.nan], np.float32),),
    ),
    "complex": (
        lambda x: (
            jnp.exp(1j * x) @ (x + 1j * x.T),
            jnp.sort(jnp.sign(x) + 1j * x, 0),
            (1j * x).cumsum(0),
            (x + 1j).prod(1),
            (x + 1j).at[jnp.array([0, 0, 2])].multiply(2j - x[:3]),
            jax.lax.fori_loop(0, 4, lambda _, z: z * z + 0.1j, 0.3j * x),
            jax.lax.scan(lambda c, y: (c * y, jnp.conj(c)), 1j + x[0], 1j - x),
            jnp.arcsinh(1j + x),
            jnp.linalg.norm(x + 1j),
        ),
        (draw(5, 5),),
    ),
    "linear algebra": (
        lambda x: (
            jnp.linalg.cholesky(x @ x.T),
            jnp.linalg.solve(x, x[0]),
            jnp.linalg.det(x),
            jnp.linalg.svd(x, compute_uv=False),
        ),
        (draw(4, 4) + 4 * np.eye(4, dtype=np.float32),),
    ),
    "random": (
        lambda k: (
            jax.random.normal(k, (3,)),
            jax.random.split(k, 3),
            jax.random.permutation(k, 9),
            jax.random.gamma(k, 2.0, (4,)),
        ),
        (np.array([0, 7], np.uint32),),
    ),
    "batched": (
        jax.vmap(lambda x, i: jax.lax.dynamic_slice(x, (i,), (2,)) @ x[:2]),
        (draw(4, 6), np.array([0, 3, 9, -2])),
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_numbers_are_those_of_jax(name: str) -> None:
    function, args = FUNCTIONS[name]
    check(function, *args, tolerance=1e-4)


LOOPS: dict[str, Callable[[Any, Any], Any]] = {
    "scan": lambda x, w: jax.lax.scan(lambda c, y: (jnp.tanh(c @ w) + y, c * y), x[0], x)[1],
    "reverse": lambda x, w: jax.lax.scan(lambda c, y: (jnp.tanh(c @ w) + y, c * y), x[0], x, reverse=True)[1],
    "map": lambda x, w: jax.lax.map(lambda row: jnp.tanh(row @ w), x),
    "fori": lambda x, w: jax.lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w) + i, x),
    "fori over rows": lambda x, w: jax.lax.fori_loop(1, 4, lambda i, c: jnp.tanh(c @ w) + x[i], x[0]),
    "two carries": lambda x, w: jax.lax.scan(lambda c, y: ((c[1], c[0] @ w + y), c[0]), (x[0], x[1]), x)[1],
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_are_counted_and_differentiate_as_in_jax(name: str) -> None:
    function, x, w = LOOPS[name], draw(4, 5), draw(5, 5)
    program = sm.stablehlo.load(text_of(function, x, w))
    loops = [node for node in topological(program.graph()) if node.op is Op.LOOP]
    assert loops and all(node.attribute.length is not None for node in loops)
    found = sm.grad(lambda x, w: (program(x, w) ** 2).sum())(sm.asarray(x), sm.asarray(w))
    wanted = jax.grad(lambda x, w: (function(x, w) ** 2).sum())(x, w)
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_written_is_what_jax_reads(name: str) -> None:
    from jax._src.interpreters import mlir as jax_mlir
    from jaxlib.mlir import ir

    function, args = FUNCTIONS[name]
    module = mlir.parse(text_of(function, *args))
    text = mlir.write(module)
    assert mlir.parse(text) == module
    with jax_mlir.make_ir_context():
        assert ir.Module.parse(text).operation.verify()
