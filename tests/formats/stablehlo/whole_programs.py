"""Programs that are exported whole: derivatives, loops, branches, models and steps of their training."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import smelt as sm
from smelt import nn


class Example(NamedTuple):
    """A function and what it is called with."""

    function: Callable[..., Any]
    args: tuple[Any, ...]


def _numbers(*shape: int, seed: int = 0) -> sm.Tensor:
    return sm.from_numpy(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


X, Y, W, V = _numbers(4, 6), _numbers(4, 3, seed=1), _numbers(6, 8, seed=2), _numbers(8, 3, seed=3)
TOKENS = sm.from_numpy(np.random.default_rng(4).integers(0, 32, (2, 8)))


def _loss(params: Any, x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
    return ((sm.tanh(x @ params["w"]) @ params["v"] - y) ** 2).mean()


def _running(x: sm.Tensor) -> Any:
    return sm.scan(lambda carry, row: (carry * 0.5 + row, (carry, row.sum())), sm.zeros(6), x)


def _newton(x: sm.Tensor) -> Any:
    return sm.while_loop(lambda s: sm.abs(s[0] * s[0] - x) > 1e-4, lambda s: ((s[0] + x / s[0]) / 2, s[1] + 1), (x, 0))


def _chosen(x: sm.Tensor) -> Any:
    return sm.cond(x.sum() > 0, lambda v: (v * 2, v.sum()), lambda v: (-v, sm.ones(())), x)


def _nested(x: sm.Tensor) -> Any:
    def outer(k: Any, total: Any) -> Any:
        inner = sm.fori_loop(0, 3, lambda j, s: s + sm.sin(x[j]) * k, sm.zeros(6))
        return sm.cond(k > 1, lambda t: t + inner, lambda t: t - inner, total)

    return sm.fori_loop(0, 4, outer, sm.zeros(6))


class Block(nn.Module):
    """One block of a transformer."""

    def __init__(self, width: int) -> None:
        self.norms = [nn.LayerNorm(width), nn.LayerNorm(width)]
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, 2, width // 2).permute(0, 2, 1, 3)
            for part in sm.split(self.qkv(self.norms[0](x)), 3, axis=-1)
        )
        mixed = sm.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.permute(0, 2, 1, 3).reshape(batch, length, width))
        return x + self.down(sm.gelu(self.up(self.norms[1](x))))


class Gpt(nn.Module):
    """A small language model."""

    def __init__(self) -> None:
        self.tokens, self.places = nn.Embedding(32, 16), nn.Embedding(8, 16)
        self.blocks, self.norm = [Block(16), Block(16)], nn.LayerNorm(16)

    def __call__(self, tokens: sm.Tensor) -> sm.Tensor:
        x = self.tokens(tokens) + self.places(sm.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.tokens.weight.T


sm.random.seed(0)
GPT = Gpt()
ADAM = sm.optim.AdamW(lr=1e-3, eps=1e-2)  # some gradients are 0 but for rounding


def _step(model: Any, state: Any, tokens: sm.Tensor) -> Any:
    def loss(m: Any) -> sm.Tensor:
        return nn.losses.cross_entropy(m(tokens[:, :-1]), tokens[:, 1:], axis=-1)

    value, grads = sm.value_and_grad(loss)(model)
    model, state = ADAM.update(model, grads, state)
    return model, state, value


def tensors(example: Example) -> list[sm.Tensor]:
    """The arguments as the exported program takes them."""
    numbers = {int: sm.int64, float: sm.float64}
    leaves = sm.tree.flatten(example.args)[0]
    return [x if isinstance(x, sm.Tensor) else sm.asarray(x, dtype=numbers[type(x)]) for x in leaves]


PARAMS = {"w": W, "v": V}
EXAMPLES: dict[str, Example] = {
    "gradient": Example(sm.value_and_grad(_loss), (PARAMS, X, Y)),
    "forward mode": Example(lambda x, t: sm.jvp(lambda v: sm.softmax(v @ W), (x,), (t,)), (X, X * 0.5)),
    "second derivative": Example(sm.grad(lambda x: sm.grad(lambda y: (sm.tanh(y) ** 3).sum())(x).sum()), (X,)),
    "vmap": Example(sm.vmap(lambda a, b: a @ b + sm.sort(b)[0]), (X, sm.asarray(_numbers(4, 6, seed=5)))),
    "scan": Example(_running, (X,)),
    "gradient of a scan": Example(sm.grad(lambda x: sm.sum(_running(x)[1][0] ** 2)), (X,)),
    "reverse scan": Example(lambda x: sm.scan(lambda c, r: (c + r, c * r), sm.zeros(6), x, reverse=True), (X,)),
    "while": Example(_newton, (sm.asarray(7.0),)),
    "branch": Example(_chosen, (X,)),
    "gradient of a branch": Example(sm.grad(lambda x: sm.sum(_chosen(x)[0])), (X,)),
    "nested": Example(_nested, (X,)),
    "attention": Example(lambda x: sm.scaled_dot_product_attention(x, x, x, is_causal=True), (_numbers(2, 5, 4),)),
    "model": Example(GPT, (TOKENS,)),
    "training step": Example(_step, (GPT, ADAM.init(GPT), TOKENS)),
    "numbers": Example(lambda x, k, a: x * k + a, (X, 3, 0.5)),
    "integers": Example(lambda k: (k // 3, k % 5, k >> 1, -k // 2), (sm.arange(-7, 8),)),
    "constants of the function": Example(lambda x: x + sm.asarray(np.arange(6.0, dtype=np.float32)), (X,)),
    "results that are arguments": Example(lambda x: (x, sm.ones(2), x), (X,)),
}


N, M = sm.Dim("n", 1, 64), sm.Dim("m", 1, 16)
ROWS, MORE = _numbers(5, 3, seed=6), _numbers(2, 3, seed=7)
# A function, the shapes that are declared, and what it is called with.
SYMBOLIC: dict[str, tuple[Callable[..., Any], list[Any], tuple[Any, ...]]] = {
    "softmax": (lambda x: (x @ sm.ones((3, 4))).softmax(0) * 2, [(N, 3)], (ROWS,)),
    "means": (lambda x: x.mean(0) + x.sum(), [(N, 3)], (ROWS,)),
    "joined": (lambda x, y: sm.concat([x, y, x], axis=0), [(N, 3), (M, 3)], (ROWS, MORE)),
    "flat": (lambda x: x.reshape(-1) + 1, [(N, 3)], (ROWS,)),
    "parts": (lambda x: (x[1:], x[:-1], x[::-1], x[:, 1:]), [(N, 3)], (ROWS,)),
    "one dim twice": (lambda x, y: x + y, [(N, 3), (N, 3)], (ROWS, ROWS)),
    "twice a dim": (lambda x, y: y + x.sum(), [(N, 3), (2 * N,)], (ROWS, _numbers(10))),
    "counted": (lambda x: sm.arange(x.shape[0]) + x[:, 0], [(N, 3)], (ROWS,)),
    "product": (lambda x: x @ x.T, [(N, 3)], (ROWS,)),
    "sorted": (lambda x: (sm.sort(x, axis=0), sm.argsort(x, axis=0)), [(N, 3)], (ROWS,)),
    "scan": (lambda x: sm.scan(lambda c, r: (c + r, c.sum()), sm.zeros(3), x), [(N, 3)], (ROWS,)),
    "padded": (lambda x: sm.pad(x, [(1, 2), (0, 0)]), [(N, 3)], (ROWS,)),
    "gradient": (sm.grad(lambda v: (v.softmax(0) ** 2).mean()), [(N, 3)], (ROWS,)),
    "attention": (
        lambda x: sm.scaled_dot_product_attention(x, x, x, is_causal=True),
        [(2, N, 4)],
        (_numbers(2, 5, 4),),
    ),
    "taken": (lambda x, k: x[k], [(N, 3), (M,)], (ROWS, sm.asarray([0, 4, 2, 1]))),
}


def _complex(*shape: int, dtype: str = "complex64") -> sm.Tensor:
    rng = np.random.default_rng(8)
    return sm.asarray((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype))


Z, U = _complex(3, 4), _complex(4, 3)
SPECIAL = sm.from_numpy(np.array([complex(a, b) for a in (0.0, -0.0, 1, np.inf, np.nan) for b in (0.0, -0.0, -np.inf)]))
# Functions of tensors of which some are complex, or which give such.
COMPLEX: dict[str, Example] = {
    "products": Example(lambda z, u: (z @ u, z * z, z / (z + 2)), (Z, U)),
    "functions": Example(lambda z: (sm.exp(z), sm.sqrt(z), sm.log(z), sm.tanh(z)), (Z,)),
    "parts": Example(lambda z: (sm.real(z), sm.imag(z), abs(z), sm.conj(z), sm.angle(z)), (Z,)),
    "wide": Example(lambda z, x: (z + x, z.mean(0)), (_complex(2, 3, dtype="complex128"), _numbers(3))),
    "out of real ones": Example(lambda x: (sm.complex(x, x + 1), x * 1j), (_numbers(5),)),
    "transforms": Example(lambda z: (sm.fft.fft(z), sm.fft.irfft(z)), (_complex(2, 15),)),
    "scalar": Example(lambda z: z * z, (_complex(),)),
    "empty": Example(lambda z: (sm.conj(z), z.sum(0)), (_complex(0, 3),)),
    "unused and handed on": Example(lambda z, u: (u, sm.ones(2), u), (Z, U)),
    "loop": Example(lambda z: sm.fori_loop(0, 5, lambda i, c: c * c + z, z), (_complex(4) * 0.2,)),
    "gradient": Example(sm.grad(lambda z: abs(sm.exp(z) * z).sum()), (Z,)),
    "moved": Example(lambda z: (z.T[::-1], sm.concat([z, z * 0], axis=1)[:, 1:6:2], z[sm.asarray([2, 0])]), (Z,)),
    "special numbers": Example(lambda z: (z, -z, sm.conj(z), z == -z), (SPECIAL,)),
}
