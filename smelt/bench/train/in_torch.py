"""The training steps in PyTorch, eager and compiled, with its fused Adam."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from smelt.bench.train.cases import BETAS, CASES, EPSILON, RATE, SIZES, Gpt, resnet_blocks


class _Block(nn.Module):  # type: ignore[misc]
    def __init__(self, size: Gpt) -> None:
        super().__init__()
        width = size.width
        self.heads = size.heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.inward, self.outward = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.inward(self.norm1(x)).reshape(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.outward(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class _Gpt(nn.Module):  # type: ignore[misc]
    def __init__(self, size: Gpt) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(_Block(size) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, x: Any) -> Any:
        h = self.tokens(x) + self.positions.weight
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)).flatten(0, 1)


def _normed(inner: int, outer: int, size: int, stride: int = 1) -> Any:
    convolution = nn.Conv2d(inner, outer, size, stride=stride, padding=size // 2, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(outer))


class _Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, inner: int, outer: int, stride: int) -> None:
        super().__init__()
        self.first, self.second = _normed(inner, outer, 3, stride), _normed(outer, outer, 3)
        self.short = _normed(inner, outer, 1, stride) if stride > 1 else None

    def forward(self, x: Any) -> Any:
        h = self.second(F.relu(self.first(x)))
        return F.relu(h + (x if self.short is None else self.short(x)))


class _ResNet(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = _normed(3, 16, 3), nn.Linear(128, 10)
        self.blocks = nn.ModuleList(_Residual(inner, outer, stride) for _, inner, outer, stride in resnet_blocks())

    def forward(self, x: Any) -> Any:
        h = F.relu(self.stem(x))
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean((2, 3)))


def _model(case: str) -> Any:
    if case in SIZES:
        return _Gpt(SIZES[case])
    if case == "resnet":
        return _ResNet()
    if case == "mlp":
        return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return nn.Sequential(
        *(nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def training(library: str, case: str, threads: int) -> Callable[[], float]:
    """One step on the same batch again, as a function that gives the loss; `torch.float64` is what losses should be."""
    torch.set_num_threads(threads)
    model = _model(case)
    weights = {name: torch.from_numpy(value) for name, value in CASES[case].weights().items()}
    model.load_state_dict(weights, strict=False)  # running averages stay as they begin
    x, y = (torch.from_numpy(part) for part in CASES[case].batch())
    if library == "torch.float64":
        model, x = model.double(), x.double() if x.is_floating_point() else x
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE, betas=BETAS, eps=EPSILON, fused=True)

    def loss_of(x: Any, y: Any) -> Any:
        return F.cross_entropy(model(x), y.reshape(-1))

    modes = {"torch.compile": None, "torch.max-autotune": "max-autotune"}
    loss_of = torch.compile(loss_of, dynamic=False, mode=modes[library]) if library in modes else loss_of

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step
