"""The training steps in smelt: modules and Adam, compiled as one function; `smelt-plain` is the same without `jit`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import smelt as sm
from smelt import nn
from smelt.bench.train.cases import BETAS, CASES, EPSILON, RATE, SIZES, Gpt, resnet_blocks


class _Block(nn.Module):
    def __init__(self, size: Gpt) -> None:
        width = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        batch, length, width = x.shape
        parts = self.inward(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = sm.attention(query, key, value, causal=True)
        x = x + self.outward(seen.permute(0, 2, 1, 3).reshape(batch, length, width))
        return x + self.down(sm.gelu(self.up(self.norm2(x)), approximate="tanh"))


class GptNetwork(nn.Module):
    def __init__(self, size: Gpt) -> None:
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = [_Block(size) for _ in range(size.layers)]
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        h = self.tokens(x) + self.positions.weight
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)).flatten(0, 1)


def _normed(inner: int, outer: int, size: int, stride: int = 1) -> nn.Sequential:
    convolution = nn.Conv2d(inner, outer, size, stride=stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outer))


class _Residual(nn.Module):
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        self.first, self.second = _normed(inner, outer, 3, stride), _normed(outer, outer, 3)
        self.short = _normed(inner, outer, 1, stride) if stride > 1 else None

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        h = self.second(sm.relu(self.first(x)))
        return sm.relu(h + (x if self.short is None else self.short(x)))


class _ResNet(nn.Module):
    def __init__(self) -> None:
        self.stem, self.head = _normed(3, 16, 3), nn.Linear(128, 10)
        self.blocks = [_Residual(inner, outer, stride) for _, inner, outer, stride in resnet_blocks()]

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        h = sm.relu(self.stem(x))
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean((2, 3)))


def network(case: str) -> nn.Module:
    """The module of a case, with weights of its own."""
    if case in SIZES:
        return GptNetwork(SIZES[case])
    if case == "resnet":
        return _ResNet()
    if case == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def parts(case: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A step, and its arguments: the model, the state of its optimizer, and a batch."""
    model = network(case).load_state_dict(CASES[case].weights(), strict=False)
    optimizer = sm.optim.Adam(lr=RATE, betas=BETAS, eps=EPSILON)
    x, y = (sm.asarray(part) for part in CASES[case].batch())

    def step(model: nn.Module, state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        loss, slopes = sm.value_and_grad(lambda m: sm.cross_entropy(m(x), y.reshape(-1)))(model)
        return (*optimizer.update(model, slopes, state), loss)

    return step, (model, optimizer.init(model), x, y)


def training(library: str, case: str, threads: int) -> Callable[[], float]:
    """One step on the same batch again, as a function that gives the loss."""
    step, (model, memory, x, y) = parts(case)
    run_step: Any = step if library == "smelt-plain" else sm.jit(step, donate=(0, 1))
    state = [model, memory]

    def run() -> float:
        *state[:], loss = run_step(*state, x, y)
        return float(loss)

    return run
