"""Gradients where a derivative has to be chosen are PyTorch's: on bounds, at kinks, of nothing, of hidden rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm

pytestmark = pytest.mark.peers

torch: Any = pytest.importorskip("torch", reason="peers: torch is not installed")
F: Any = torch.nn.functional

INF = np.inf
POINTS = [-6.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 6.0, 20.0]
ROWS = [[0.0, 0.0, 0.0], [1.0, 0.0, -1.0], [1.0, 2.0, 0.0], [1.0, 1.0, 1.0]]


class Case(NamedTuple):
    """The same function twice, and where it is looked at."""

    ours: Callable[..., Any]
    theirs: Callable[..., Any]
    inputs: tuple[Any, ...]


def norm(p: float) -> Case:
    return Case(lambda x: sm.vector_norm(x, ord=p, axis=1), lambda x: torch.linalg.vector_norm(x, p, dim=1), (ROWS,))


def spread(correction: int, rows: Any) -> Case:
    return Case(lambda x: x.std(axis=1, correction=correction), lambda x: x.std(dim=1, correction=correction), (rows,))


CASES = {
    "clip": Case(lambda x: x.clip(-1, 1), lambda x: x.clamp(-1, 1), (POINTS,)),
    "clip below": Case(lambda x: x.clip(min=-1), lambda x: x.clamp(min=-1), (POINTS,)),
    "clip above": Case(lambda x: x.clip(max=1), lambda x: x.clamp(max=1), (POINTS,)),
    "clip crossed": Case(lambda x: x.clip(1, -1), lambda x: x.clamp(1, -1), (POINTS,)),
    "clip by tensors": Case(
        lambda x, low, high: x.clip(low, high),
        torch.clamp,
        ([-2.0, -1.0, 0.0, 1.0, 2.0], [-1.0] * 5, [1.0] * 5),
    ),
    "maximum": Case(sm.maximum, torch.maximum, ([-1.0, 0.0, 1.0], [0.0, 0.0, 0.0])),
    "fmax": Case(sm.fmax, torch.fmax, ([-1.0, 0.0, 1.0], [0.0, 0.0, 0.0])),
    "fmin": Case(sm.fmin, torch.fmin, ([-1.0, 0.0, 1.0], [0.0, 0.0, 0.0])),
    "abs": Case(sm.abs, torch.abs, (POINTS,)),
    "sqrt": Case(sm.sqrt, torch.sqrt, ([0.0, 4.0],)),
    "prod": Case(lambda x: x.prod(axis=1), lambda x: x.prod(1), (ROWS,)),
    "cumprod": Case(lambda x: x.cumprod(axis=1), lambda x: x.cumprod(1), (ROWS,)),
    "max": Case(lambda x: x.max(axis=1), lambda x: x.amax(1), (ROWS,)),
    "atan2": Case(sm.atan2, torch.atan2, ([0.0, 0.0, 1.0], [0.0, 1.0, 0.0])),
    "xlogy": Case(
        lambda x: sm.xlogy(x, sm.asarray([0.0, 2.0, 2.0])),
        lambda x: torch.xlogy(x, torch.tensor([0.0, 2.0, 2.0])),
        ([0.0, 0.0, 1.0],),
    ),
    "sinc": Case(sm.sinc, torch.sinc, (POINTS,)),
    "sigmoid": Case(sm.sigmoid, torch.sigmoid, ([*POINTS, INF, -INF],)),
    "softplus": Case(sm.softplus, F.softplus, (POINTS,)),
    "log_sigmoid": Case(sm.log_sigmoid, F.logsigmoid, (POINTS,)),
    "logsumexp": Case(lambda x: x.logsumexp(axis=1), lambda x: x.logsumexp(1), ([[0.0, -INF], [1.0, 2.0]],)),
    "bce with logits": Case(
        lambda x: sm.nn.losses.binary_cross_entropy_with_logits(x, sm.ones(3), reduction="none"),
        lambda x: F.binary_cross_entropy_with_logits(x, torch.ones(3, dtype=torch.float64), reduction="none"),
        ([0.0, 1.0, -1.0],),
    ),
    "huber": Case(
        lambda x: sm.nn.losses.huber_loss(x, sm.zeros(4), reduction="none"),
        lambda x: F.huber_loss(x, torch.zeros(4, dtype=torch.float64), reduction="none"),
        ([0.0, 1.0, -1.0, 2.0],),
    ),
    "hinge": Case(
        lambda x: sm.nn.losses.hinge_embedding_loss(x, sm.asarray([1.0, -1.0, -1.0]), reduction="none"),
        lambda x: F.hinge_embedding_loss(x, torch.tensor([1.0, -1.0, -1.0]), reduction="none"),
        ([0.0, 1.0, 0.5],),
    ),
    "margin": Case(
        lambda x, y: sm.nn.losses.margin_ranking_loss(x, y, sm.asarray([1.0, -1.0, 1.0]), reduction="none"),
        lambda x, y: F.margin_ranking_loss(x, y, torch.tensor([1.0, -1.0, 1.0]), reduction="none"),
        ([0.0, 1.0, 2.0], [0.0, 1.0, 1.0]),
    ),
    "multi margin": Case(
        lambda x: sm.nn.losses.multi_margin_loss(x, sm.asarray([0])),
        lambda x: F.multi_margin_loss(x, torch.tensor([0])),
        ([[1.0, 0.0, 0.0, 1.0]],),
    ),
    **{f"norm {p}": norm(p) for p in (0.5, 1, 1.5, 2, 3, INF, -INF)},
    **{f"deviation of equal numbers less {c}": spread(c, ROWS) for c in (0, 1)},
    **{f"deviation of one number less {c}": spread(c, [[2.0], [0.0]]) for c in (0, 1)},
}

LAYERS = (
    "ReLU", "ReLU6", "LeakyReLU", "ELU", "SELU", "CELU", "GELU", "SiLU", "Mish", "Sigmoid", "LogSigmoid", "Tanh",
    "Softplus", "Softsign", "Hardtanh", "Hardsigmoid", "Hardswish", "Hardshrink", "Softshrink", "Tanhshrink", "PReLU",
)  # fmt: skip


def compare(case: Case) -> None:
    theirs = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in case.inputs]
    expected = case.theirs(*theirs)
    share = np.random.default_rng(0).normal(size=tuple(expected.shape))
    slopes = torch.autograd.grad((expected * torch.tensor(share)).sum(), theirs)
    ours = [sm.asarray(np.asarray(x, np.float64)) for x in case.inputs]
    found = sm.grad(lambda inputs: (case.ours(*inputs) * sm.asarray(share)).sum())(ours)
    np.testing.assert_allclose(case.ours(*ours).numpy(), expected.detach().numpy(), rtol=1e-6, atol=1e-12)
    for slope, wanted in zip(found, slopes, strict=True):
        np.testing.assert_allclose(slope.numpy(), wanted.numpy(), rtol=1e-6, atol=1e-12)


@pytest.mark.filterwarnings("ignore:std")  # PyTorch's about one number less one
@pytest.mark.parametrize("name", CASES)
def test_functions(name: str) -> None:
    compare(CASES[name])


@pytest.mark.parametrize("name", LAYERS)
def test_activations(name: str) -> None:
    ours, theirs = getattr(sm.nn, name)(), getattr(torch.nn, name)().to(torch.float64)
    compare(Case(ours.astype(sm.float64), theirs, (POINTS,)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("added", [False, True])
def test_attention_of_queries_that_see_nothing(added: bool, causal: bool) -> None:
    generator = np.random.default_rng(1)
    q, k, v = (generator.normal(size=(1, 2, 3, 4)) for _ in range(3))
    mask = np.array([[False, True, True], [False, False, False], [True, True, False]])
    seen = mask & np.tri(3, dtype=bool) if causal else mask  # PyTorch takes one or the other

    def kind(mask: Any) -> Any:
        return np.where(mask, 0.0, -INF) if added else mask

    compare(
        Case(
            lambda q, k, v: sm.attention(q, k, v, sm.asarray(kind(mask)), causal=causal),
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, torch.tensor(kind(seen))),
            (q, k, v),
        )
    )
