"""What optimizers and schedules refuse, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import smelt as sm
from smelt.errors import ArgumentError, ShapeError

OPTIM, S = sm.optim, sm.optim.schedules
W = {"w": sm.ones(3)}
SGD = OPTIM.SGD(lr=0.1)

WITH_RATES = ("SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad", "Adadelta", "Rprop")
WITH_RATES = (*WITH_RATES, "LAMB", "Lion", "Muon", "Adafactor")


@pytest.mark.parametrize("name", WITH_RATES)
@pytest.mark.parametrize("rate", [-1.0, float("nan"), "fast", True])
def test_rates(name: str, rate: Any) -> None:
    with pytest.raises(ArgumentError, match="lr is"):
        getattr(OPTIM, name)(lr=rate)


@pytest.mark.parametrize("name", [name for name in WITH_RATES if name != "Rprop"])
@pytest.mark.parametrize("decay", [-0.1, "much"])
def test_decays(name: str, decay: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name}: weight_decay is"):
        getattr(OPTIM, name)(weight_decay=decay)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "LAMB", "Lion"])
@pytest.mark.parametrize("betas", [(0.9, 1.0), (-0.1, 0.5), 0.9, (0.9,)])
def test_betas(name: str, betas: Any) -> None:
    with pytest.raises(ArgumentError, match=f"{name}: betas"):
        getattr(OPTIM, name)(betas=betas)


WRONG: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: SGD.init({}), ArgumentError, "nothing to update"),
    (lambda: SGD.init(sm.nn.Linear(2, 2).freeze()), ArgumentError, "frozen"),
    (lambda: SGD.init({"w": 1.0}), ArgumentError, "type float"),
    (lambda: SGD.update(W, {"v": sm.ones(3)}, SGD.init(W)), ArgumentError, "structure"),
    (lambda: SGD.update(W, {"w": sm.ones(1)}, SGD.init(W)), ShapeError, "gradient of w"),
    (lambda: SGD.update(W, {"w": 1.0}, SGD.init(W)), ShapeError, "the gradient of w: float"),
    (lambda: OPTIM.SGD(momentum=-1.0), ArgumentError, "momentum"),
    (lambda: OPTIM.SGD(nesterov=True), ArgumentError, "Nesterov"),
    (lambda: OPTIM.Adam(eps=-1.0), ArgumentError, "eps"),
    (lambda: OPTIM.NAdam(momentum_decay=-1.0), ArgumentError, "momentum_decay"),
    (lambda: OPTIM.RMSprop(alpha=-1.0), ArgumentError, "alpha"),
    (lambda: OPTIM.Adagrad(lr_decay=-1.0), ArgumentError, "lr_decay"),
    (lambda: OPTIM.Adadelta(rho=1.5), ArgumentError, "rho"),
    (lambda: OPTIM.Rprop(etas=(1.2, 0.5)), ArgumentError, "etas"),
    (lambda: OPTIM.Muon(momentum=1.0), ArgumentError, "momentum"),
    (lambda: OPTIM.Muon(ns_steps=0), ArgumentError, "ns_steps"),
    (lambda: OPTIM.Muon(ns_coefficients=(1.0, 2.0)), ArgumentError, "three numbers"),  # type: ignore[arg-type]
    (lambda: OPTIM.Muon(adjust_lr_fn="no"), ArgumentError, "match_rms_adamw"),
    (lambda: OPTIM.Adafactor(d=0.5), ArgumentError, "at least 1"),
    (lambda: OPTIM.Adafactor(eps=1e-3), ArgumentError, "a pair"),  # type: ignore[arg-type]
    (lambda: OPTIM.Adafactor(beta2_decay=0.8), ArgumentError, "at most 0"),
    (lambda: OPTIM.Optimizer(sm.relu, lr=0.1), ArgumentError, "not a step"),  # type: ignore[arg-type]
    (lambda: OPTIM.chain(OPTIM.ClipNorm(1.0)), ArgumentError, "an optimizer"),
    (OPTIM.chain, ArgumentError, "an optimizer"),
    (lambda: OPTIM.chain(OPTIM.ClipNorm(1.0), OPTIM.Accumulate(SGD, 2)), ArgumentError, "an optimizer"),  # type: ignore[arg-type]
    (lambda: OPTIM.ClipNorm(0.0), ArgumentError, "positive"),
    (lambda: OPTIM.ClipValue(-1.0), ArgumentError, "positive"),
    (lambda: OPTIM.groups(("w", 3)), ArgumentError, "no group"),  # type: ignore[arg-type]
    (lambda: OPTIM.groups((3, SGD)), ArgumentError, "no choice"),  # type: ignore[arg-type]
    (lambda: OPTIM.groups(("v*", SGD), SGD).init(W), ArgumentError, "There are: w"),
    (lambda: OPTIM.groups((lambda name, p: False, SGD)).init(W), ArgumentError, "'w' is in no group"),
    (lambda: OPTIM.Accumulate(SGD, 0), ArgumentError, "positive integer"),
    (lambda: OPTIM.Accumulate(OPTIM.ClipNorm(1.0), 2), ArgumentError, "no optimizer"),
    (lambda: OPTIM.LossScale(SGD, init_scale=0.0), ArgumentError, "init_scale"),
    (lambda: OPTIM.LossScale(SGD, growth_factor=1.0), ArgumentError, "growth_factor"),
    (lambda: OPTIM.LossScale(SGD, backoff_factor=2.0), ArgumentError, "backoff_factor"),
    (lambda: OPTIM.LossScale(SGD, growth_interval=0), ArgumentError, "growth_interval"),
    (lambda: OPTIM.EMA(1.5), ArgumentError, "decay"),
    (lambda: OPTIM.EMA().update(OPTIM.EMA().init(W), {"v": sm.ones(3)}), ArgumentError, "the average: the structure"),
    (lambda: OPTIM.ReduceOnPlateau(0.1, mode="up"), ArgumentError, "mode"),
    (lambda: OPTIM.ReduceOnPlateau(0.1, factor=1.0), ArgumentError, "factor"),
    (lambda: OPTIM.ReduceOnPlateau(0.1, threshold_mode="x"), ArgumentError, "threshold_mode"),
    (lambda: OPTIM.ReduceOnPlateau(0.1).load_state_dict({}), ArgumentError, "state"),
    (lambda: S.constant(-1.0), ArgumentError, "lr"),
    (lambda: S.step(0.1, 0), ArgumentError, "step_size"),
    (lambda: S.multistep(0.1, [0.5]), ArgumentError, "milestone"),  # type: ignore[list-item]
    (lambda: S.exponential(0.1, -1.0), ArgumentError, "gamma"),
    (lambda: S.linear(0.1, total_iters=0), ArgumentError, "total_iters"),
    (lambda: S.polynomial(0.1, power=-1.0), ArgumentError, "power"),
    (lambda: S.cosine(0.1, 0), ArgumentError, "T_max"),
    (lambda: S.cosine_restarts(0.1, 5, 0), ArgumentError, "T_mult"),
    (lambda: S.one_cycle(0.1, 10, pct_start=1.5), ArgumentError, "pct_start"),
    (lambda: S.one_cycle(0.1, 10, anneal_strategy="sine"), ArgumentError, "anneal_strategy"),
    (lambda: S.one_cycle(0.1, 10, div_factor=0.0), ArgumentError, "positive"),
    (lambda: S.warmup(0.1, 0), ArgumentError, "steps"),
    (lambda: S.warmup("slowly", 5), ArgumentError, "a rate"),  # type: ignore[arg-type]
    (lambda: S.join([0.1, 0.2], [5, 3]), ArgumentError, "milestone"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_mistakes(number: int) -> None:
    call, kind, words = WRONG[number]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("parameters", [sm.nn.Linear(2, 1), {"w": sm.ones(2)}])
def test_gradients_in_the_place_of_parameters(parameters: Any, compiled: bool) -> None:
    def loss(parameters: Any) -> sm.Tensor:
        x = sm.ones(3, 2)
        return (x * parameters["w"] if isinstance(parameters, dict) else parameters(x)).square().sum()

    def step(parameters: Any, state: Any) -> Any:
        return SGD.update(sm.grad(loss)(parameters), parameters, state)

    with pytest.raises(ArgumentError, match=r"the gradients come in the place[\s\S]*opt.update\(model, grads"):
        (sm.jit(step) if compiled else step)(parameters, SGD.init(parameters))


def test_a_gradient_may_be_a_parameter_of_something_else() -> None:
    first = sm.grad(lambda x: (x**2).sum())(sm.ones(2))
    second = sm.grad(lambda x: (x**2).sum())(first)
    assert SGD.update(first, second, SGD.init(first))[0].tolist() == pytest.approx([1.6, 1.6])
