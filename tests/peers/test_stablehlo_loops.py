"""Forty loops as JAX prints them: each is counted, and reverse mode gives what JAX's gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import smelt as sm
from smelt.graph import Loop, Node, topological

RNG = np.random.default_rng(0)
X, W, B = (RNG.normal(size=shape).astype(np.float32) * 0.5 for shape in ((4, 5), (5, 5), (5,)))


def cell(w: Any) -> Callable[[Any, Any], Any]:
    return lambda c, y: (jnp.tanh(c @ w) + y, c * y)


def gru(c: Any, y: Any, w: Any) -> Any:
    gate = jax.nn.sigmoid(y @ w + c)
    return (1 - gate) * c + gate * jnp.tanh(c * y)


def lstm(state: Any, y: Any, w: Any) -> Any:
    h, c = state
    i, f = jax.nn.sigmoid(h @ w + y), jax.nn.sigmoid(y @ w + h)
    c = f * c + i * jnp.tanh(h + y)
    h = jnp.tanh(c) * i
    return (h, c), h


def masked(c: Any, pair: Any, w: Any) -> Any:
    y, keep = pair
    new = jnp.where(keep, jnp.tanh(c @ w) + y, c)
    return new, new


def power(w: Any, b: Any, count: int) -> Any:
    return lax.fori_loop(0, count, lambda i, v: (w @ v) / (1e-3 + jnp.sqrt((v * v).sum())), b)


PROGRAMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "scan": lambda x, w, b: lax.scan(cell(w), b, x),
    "scan, carry only": lambda x, w, b: lax.scan(lambda c, y: (jnp.tanh(c @ w) + y, None), b, x)[0],
    "scan, results only": lambda x, w, b: lax.scan(lambda c, y: (c, jnp.tanh(y @ w) * c), b, x)[1],
    "scan from behind": lambda x, w, b: lax.scan(cell(w), b, x, reverse=True),
    "scan of two": lambda x, w, b: lax.scan(lambda c, y: (c * y[0] + y[1], c @ w), b, (x, jnp.sin(x))),
    "scan with two carries": lambda x, w, b: lax.scan(lambda c, y: ((c[1], c[0] @ w + y), c[0]), (b, x[0]), x),
    "scan with a dictionary": lambda x, w, b: lax.scan(
        lambda c, y: ({"h": c["h"] @ w + y, "n": c["n"] + 1.0}, c["h"]), {"h": b, "n": 0.0}, x
    ),
    "scan without inputs": lambda x, w, b: lax.scan(lambda c, _: (jnp.tanh(c @ w), c), b, None, length=6),
    "scan of numbers": lambda x, w, b: lax.scan(lambda c, i: (c * 0.9 + b * i, c), b, jnp.arange(4.0)),
    "scan of integers": lambda x, w, b: lax.scan(lambda c, i: (c + x[i], c @ w), b, jnp.arange(4)),
    "scan, unrolled by two": lambda x, w, b: lax.scan(cell(w), b, x, unroll=2),
    "scan in scan": lambda x, w, b: lax.scan(
        lambda c, y: (lax.scan(lambda d, z: (jnp.tanh(d + z), None), c, w)[0] + y, c), b, x
    ),
    "scan in scan, over both": lambda x, w, b: lax.scan(
        lambda c, y: (c + y, lax.scan(lambda d, z: (d * z, d + z), y, w)[1].sum(0)), b, x
    ),
    "scan of one": lambda x, w, b: lax.scan(cell(w), b, x[:1]),
    "scan with a constant": lambda x, w, b: lax.scan(lambda c, y: (c @ w + y * x[1], c), b, x),
    "scan with a condition": lambda x, w, b: lax.scan(
        lambda c, y: (lax.cond(y.sum() > 0, lambda v: v @ w, lambda v: v * 0.5, c) + y, c), b, x
    ),
    "scan with a mask": lambda x, w, b: lax.scan(lambda c, p: masked(c, p, w), b, (x, x[:, :1] > 0)),
    "scan with matrices": lambda x, w, b: lax.scan(lambda c, y: (jnp.tanh(c @ w) + y, c[0]), jnp.stack([b, b]), x),
    "scan over the other axis": lambda x, w, b: lax.scan(lambda c, y: (c * 0.5 + y, c), x[:, 0], x.T),
    "scan of a scan's results": lambda x, w, b: lax.scan(cell(w), b, lax.scan(cell(w), b, x)[1]),
    "scan and back": lambda x, w, b: lax.scan(cell(w), b, lax.scan(cell(w), b, x)[1], reverse=True),
    "gated": lambda x, w, b: lax.scan(lambda c, y: (gru(c, y, w), c), b, x),
    "long and short": lambda x, w, b: lax.scan(lambda s, y: lstm(s, y, w), (b, b), x),
    "batched scan": lambda x, w, b: jax.vmap(lambda v: lax.scan(cell(w), b, v)[1])(jnp.stack([x, 2 * x])),
    "batched carry": lambda x, w, b: jax.vmap(lambda v: lax.scan(cell(w), v, x)[0])(x),
    "running mean": lambda x, w, b: lax.scan(lambda c, y: (c + (y - c) / 3.0, c), b, x)[1],
    "moving average": lambda x, w, b: lax.scan(lambda c, y: (0.9 * c + 0.1 * y, 0.9 * c + 0.1 * y), b, x)[1] @ w,
    "product": lambda x, w, b: lax.scan(lambda c, y: (c * (1 + 0.1 * y), c), b, x)[0],
    "Horner": lambda x, w, b: lax.scan(lambda c, y: (c * 0.3 + y, None), jnp.zeros(5), x, reverse=True)[0] * b,
    "map": lambda x, w, b: lax.map(lambda row: jnp.tanh(row @ w) + b, x),
    "map in batches": lambda x, w, b: lax.map(lambda row: jnp.tanh(row @ w) + b, x, batch_size=2),
    "map of two": lambda x, w, b: lax.map(lambda pair: pair[0] @ w * pair[1], (x, jnp.cos(x))),
    "fori": lambda x, w, b: lax.fori_loop(0, 3, lambda i, c: jnp.tanh(c @ w) + i, x),
    "fori from two on": lambda x, w, b: lax.fori_loop(2, 5, lambda i, c: jnp.tanh(c @ w) * i, x),
    "fori over rows": lambda x, w, b: lax.fori_loop(0, 4, lambda i, c: jnp.tanh(c @ w) + x[i], b),
    "fori over some rows": lambda x, w, b: lax.fori_loop(1, 3, lambda i, c: jnp.tanh(c @ w) + x[i], b),
    "fori that writes rows": lambda x, w, b: lax.fori_loop(0, 4, lambda i, c: c.at[i].set(jnp.tanh(x[i] @ w)), x),
    "fori that adds to rows": lambda x, w, b: lax.fori_loop(0, 4, lambda i, c: c.at[i].add(b), x),
    "fori with a power": lambda x, w, b: power(w, b, 4),
    "fori of Newton": lambda x, w, b: lax.fori_loop(0, 5, lambda i, y: 0.5 * (y + (1.0 + b * b) / y), jnp.ones(5)),
}


def test_there_are_forty() -> None:
    assert len(PROGRAMS) == 40


def total(values: Any) -> Any:
    leaves = values if isinstance(values, tuple) else (values,)
    return sum((value**2).sum() for value in leaves)


def loops(roots: Sequence[Node]) -> Iterator[Loop]:
    """All loops, and those in their bodies."""
    for node in topological(roots):
        if isinstance(node.attribute, Loop):
            yield node.attribute
            yield from loops(node.attribute.body)


@pytest.mark.parametrize("name", PROGRAMS)
def test_loops(name: str) -> None:
    function = PROGRAMS[name]
    text = jax.jit(function, keep_unused=True).lower(X, W, B).as_text()
    program = sm.stablehlo.load(text)
    found_loops = list(loops(program.graph()))
    assert found_loops and all(loop.length is not None for loop in found_loops)
    found = sm.grad(lambda x, w, b: total(program(x, w, b)), argnums=(0, 1, 2))(*map(sm.asarray, (X, W, B)))
    wanted = jax.grad(lambda *args: total(tuple(jax.tree.leaves(function(*args)))), argnums=(0, 1, 2))(X, W, B)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), np.asarray(b), rtol=1e-3, atol=1e-4)
