"""Optimizers and schedules take the steps of PyTorch's."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm

pytestmark = pytest.mark.peers

STEPS = 10
RNG = np.random.default_rng(5)
S = sm.optim.schedules

MLP = {"0.weight": (7, 5), "0.bias": (7,), "2.weight": (3, 7), "2.bias": (3,)}
ODD = {
    "scalar": (),
    "one": (1,),
    "vector": (11,),
    "row": (1, 6),
    "column": (6, 1),
    "cube": (2, 3, 5),
    "flat": (2, 1, 1, 3),
}
VALUES = {name: RNG.standard_normal(shape) for name, shape in (MLP | ODD).items()}
X, Y = RNG.standard_normal((6, 5)), RNG.standard_normal((6, 3))


@pytest.fixture(autouse=True, scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="peers: torch is not installed (make test-peers installs it)")


def loss(parameters: dict[str, Any], x: Any, y: Any) -> Any:
    """Of a small network and of parameters of all shapes, in either library."""
    hidden = (x @ parameters["0.weight"].mT + parameters["0.bias"]).tanh()
    total = ((hidden @ parameters["2.weight"].mT + parameters["2.bias"] - y) ** 2).mean()
    for k, name in enumerate(ODD):
        p = parameters[name]
        total = total + ((k + 1.5) * (p - 0.3)).tanh().sum() * 0.7 + (p * p * p * p).sum()
    return total


CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {"lr": 0.01}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 0.1}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.3}),
    ("SGD", {"lr": 0.01, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.05}),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.9), "eps": 1e-3, "weight_decay": 0.1}),
    ("Adam", {"lr": 0.05, "betas": (0.0, 0.9), "amsgrad": True}),
    ("AdamW", {"lr": 0.05}),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True, "betas": (0.5, 0.6)}),
    ("NAdam", {"lr": 0.05}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "momentum_decay": 0.1, "betas": (0.8, 0.9)}),
    ("NAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"lr": 0.05}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.9)}),
    ("RAdam", {"lr": 0.05, "weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("Adamax", {"lr": 0.05}),
    ("Adamax", {"lr": 0.05, "weight_decay": 0.1, "betas": (0.8, 0.5), "eps": 1e-2}),
    ("RMSprop", {}),
    ("RMSprop", {"alpha": 0.5, "momentum": 0.9, "weight_decay": 0.1}),
    ("RMSprop", {"centered": True, "eps": 1e-3, "momentum": 0.5}),
    ("Adagrad", {}),
    ("Adagrad", {"lr": 0.1, "lr_decay": 0.2, "weight_decay": 0.1, "initial_accumulator_value": 0.5}),
    ("Adadelta", {}),
    ("Adadelta", {"lr": 0.5, "rho": 0.5, "eps": 1e-3, "weight_decay": 0.1}),
    ("Rprop", {}),
    ("Rprop", {"lr": 0.1, "etas": (0.3, 1.5), "step_sizes": (0.05, 0.2)}),
    ("Adafactor", {}),
    ("Adafactor", {"lr": 0.5, "beta2_decay": -0.5, "eps": (1e-6, 0.1), "d": 1.5, "weight_decay": 0.1}),
]


def theirs(
    torch: Any, make: Callable[[Any], Any], names: Any, dtype: str, clip: Callable[[Any], Any] | None = None
) -> Any:
    """The parameters after some steps in PyTorch."""
    parameters = {name: torch.tensor(VALUES[name].astype(dtype), requires_grad=True) for name in VALUES}
    optimizer = make([parameters[name] for name in names])
    x, y = torch.tensor(X.astype(dtype)), torch.tensor(Y.astype(dtype))
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss(parameters, x, y).backward()
        if clip is not None:
            clip([parameters[name] for name in names])
        optimizer.step()
    return {name: parameters[name].detach().numpy() for name in names}


def ours(optimizer: Any, names: Any, dtype: str) -> Any:
    """The same, in one compiled function."""
    values = {name: sm.asarray(VALUES[name].astype(dtype)) for name in VALUES}
    fixed = {name: value for name, value in values.items() if name not in names}
    parameters = {name: values[name] for name in names}
    x, y = sm.asarray(X.astype(dtype)), sm.asarray(Y.astype(dtype))

    @sm.jit(donate=(1,))
    def step(parameters: Any, state: Any) -> Any:
        return optimizer.update(parameters, sm.grad(lambda p: loss(fixed | p, x, y))(parameters), state)

    state = optimizer.init(parameters)
    for _ in range(STEPS):
        parameters, state = step(parameters, state)
    return {name: tensor.numpy() for name, tensor in parameters.items()}


def compare(got: Any, expected: Any, dtype: str, loose: float = 1.0) -> None:
    tolerance = loose * (2e-5 if dtype == "float32" else 1e-9)
    for name, value in expected.items():
        assert got[name].dtype == value.dtype
        np.testing.assert_allclose(got[name], value, rtol=tolerance, atol=tolerance, err_msg=name)
        assert abs(value - VALUES[name]).max() > 1e-4, f"{name} has not moved"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), CASES, ids=[f"{k}-{name}" for k, (name, _) in enumerate(CASES)])
def test_ten_steps(torch: Any, name: str, options: dict[str, Any], dtype: str) -> None:
    expected = theirs(torch, lambda p: getattr(torch.optim, name)(p, **options), VALUES, dtype)
    got = ours(getattr(sm.optim, name)(**options), list(VALUES), dtype)
    # PyTorch keeps the product of NAdam's momentums in 32 bits.
    compare(got, expected, dtype, 100.0 if (name, dtype) == ("NAdam", "float64") else 1.0)


@pytest.mark.parametrize("options", [{}, {"nesterov": False, "weight_decay": 0.0}, {"adjust_lr_fn": "match_rms_adamw"}])
def test_muon(torch: Any, options: dict[str, Any]) -> None:
    """PyTorch makes updates orthogonal in bfloat16: no more than its accuracy can agree."""
    names = [name for name, value in VALUES.items() if value.ndim == 2]
    options = options | {"lr": 0.01}
    expected = theirs(torch, lambda p: torch.optim.Muon(p, **options), names, "float32")
    got = ours(sm.optim.Muon(**options), names, "float32")
    for name in names:
        moved = np.linalg.norm(expected[name] - VALUES[name])
        assert np.linalg.norm(got[name] - expected[name]) < 0.03 * moved, name


def test_every_optimizer_has_the_options_of_pytorchs(torch: Any) -> None:
    gone = {"params", "foreach", "maximize", "capturable", "differentiable", "fused", "decoupled_weight_decay"}
    for name in {name for name, _ in CASES} | {"Muon"}:
        expected = inspect.signature(getattr(torch.optim, name)).parameters
        given = inspect.signature(getattr(sm.optim, name)).parameters
        assert [p for p in expected if p not in gone] == [p for p in given if p in expected and p not in gone], name
        for option in given:
            if option in expected:
                assert given[option].default == expected[option].default, (name, option)


def test_clipping(torch: Any) -> None:
    clip = sm.optim.chain(sm.optim.ClipNorm(1.5), sm.optim.SGD(lr=0.1, momentum=0.5))
    norm = theirs(
        torch,
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5),
        VALUES,
        "float64",
        lambda p: torch.nn.utils.clip_grad_norm_(p, 1.5),
    )
    compare(ours(clip, list(VALUES), "float64"), norm, "float64")
    value = theirs(
        torch,
        lambda p: torch.optim.SGD(p, lr=0.1),
        VALUES,
        "float64",
        lambda p: torch.nn.utils.clip_grad_value_(p, 0.2),
    )
    got = ours(sm.optim.chain(sm.optim.ClipValue(0.2), sm.optim.SGD(lr=0.1)), list(VALUES), "float64")
    compare(got, value, "float64")


def test_groups(torch: Any) -> None:
    def make(p: Any) -> Any:
        biases = [t for name, t in zip(VALUES, p, strict=True) if name.endswith("bias")]
        others = [t for name, t in zip(VALUES, p, strict=True) if not name.endswith("bias")]
        return torch.optim.AdamW([{"params": biases, "weight_decay": 0.0, "lr": 0.1}, {"params": others}], lr=0.02)

    optimizer = sm.optim.groups(("*bias", sm.optim.AdamW(lr=0.1, weight_decay=0.0)), sm.optim.AdamW(lr=0.02))
    compare(ours(optimizer, list(VALUES), "float64"), theirs(torch, make, VALUES, "float64"), "float64")


# --- schedules

L = "lr_scheduler"
SCHEDULES: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "constant": (S.constant(0.5, 0.3, 7), lambda t, o: t.ConstantLR(o, 0.3, 7)),
    "step": (S.step(0.5, 7, 0.6), lambda t, o: t.StepLR(o, 7, 0.6)),
    "multistep": (S.multistep(0.5, [3, 10, 11, 40], 0.5), lambda t, o: t.MultiStepLR(o, [3, 10, 11, 40], 0.5)),
    "exponential": (S.exponential(0.5, 0.93), lambda t, o: t.ExponentialLR(o, 0.93)),
    "linear": (S.linear(0.5, 0.1, 0.8, 20), lambda t, o: t.LinearLR(o, 0.1, 0.8, 20)),
    "linear by default": (S.linear(0.5), lambda t, o: t.LinearLR(o)),
    "polynomial": (S.polynomial(0.5, 30, 1.7), lambda t, o: t.PolynomialLR(o, 30, 1.7)),
    "cosine": (S.cosine(0.5, 50, 0.01), lambda t, o: t.CosineAnnealingLR(o, 50, 0.01)),
    "restarts": (S.cosine_restarts(0.5, 7), lambda t, o: t.CosineAnnealingWarmRestarts(o, 7)),
    "longer restarts": (
        S.cosine_restarts(0.5, 4, 2, 0.02),
        lambda t, o: t.CosineAnnealingWarmRestarts(o, 4, 2, 0.02),
    ),
    "one cycle": (S.one_cycle(0.5, 50), lambda t, o: t.OneCycleLR(o, 0.5, 50)),
    "one linear cycle": (
        S.one_cycle(0.5, 50, 0.2, "linear", 10.0, 100.0),
        lambda t, o: t.OneCycleLR(
            o, 0.5, 50, pct_start=0.2, anneal_strategy="linear", div_factor=10.0, final_div_factor=100.0
        ),
    ),
    "three phases": (
        S.one_cycle(0.5, 50, 0.4, three_phase=True),
        lambda t, o: t.OneCycleLR(o, 0.5, 50, pct_start=0.4, three_phase=True),
    ),
    "warm-up": (
        S.warmup(S.cosine(0.5, 40), 10, 0.1),
        lambda t, o: t.SequentialLR(o, [t.LinearLR(o, 0.1, 1.0, 10), t.CosineAnnealingLR(o, 40)], [10]),
    ),
    "join": (
        S.join([S.exponential(0.5, 0.9), S.step(0.5, 5, 0.5)], [20]),
        lambda t, o: t.SequentialLR(o, [t.ExponentialLR(o, 0.9), t.StepLR(o, 5, 0.5)], [20]),
    ),
}


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize("name", SCHEDULES)
def test_fifty_rates(torch: Any, name: str) -> None:
    schedule, make = SCHEDULES[name]
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5, momentum=0.9)
    scheduler = make(torch.optim.lr_scheduler, optimizer)
    expected = []
    for _ in range(50):
        expected.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    traces: list[int] = []

    @sm.jit
    def rate(count: sm.Tensor) -> Any:
        traces.append(1)
        return schedule(count) + 0

    got = [rate(sm.asarray(k, dtype=sm.int32)).item() for k in range(50)]
    np.testing.assert_allclose(got, expected, rtol=2e-5, atol=1e-7)
    assert len(traces) == 1


@pytest.mark.parametrize("options", [{}, {"mode": "max", "threshold_mode": "abs", "threshold": 0.05}, {"cooldown": 3}])
def test_plateaus(torch: Any, options: dict[str, Any]) -> None:
    options = options | {"factor": 0.5, "patience": 2, "min_lr": 0.01}
    optimizer = torch.optim.SGD([torch.zeros(1)], lr=0.5)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
    plateau = sm.optim.ReduceOnPlateau(0.5, **options)
    for k in range(50):
        metric = 1 / (1 + k // 6) + 0.01 * np.sin(k)
        scheduler.step(metric)
        plateau.step(metric)
        assert plateau.rate.item() == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-6)


# --- averages and scales


def test_averages(torch: Any) -> None:
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    net = torch.nn.Linear(3, 2)
    average = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.7))
    average.update_parameters(net)  # the first one copies
    ema = sm.optim.EMA(0.7)
    model = sm.nn.Linear(3, 2).load_state_dict({k: v.detach().numpy() for k, v in net.state_dict().items()})
    state = ema.init(model)
    for k in range(5):
        with torch.no_grad():
            net.weight.add_(0.1 * k)
        model.weight = model.weight + 0.1 * k
        average.update_parameters(net)
        state = ema.update(state, model)
    expected = average.module.weight.detach().numpy()
    np.testing.assert_allclose(state.average.weight.numpy(), expected, rtol=1e-5, atol=1e-6)


def test_scales(torch: Any) -> None:
    """The scale goes up and down as PyTorch's does."""
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3)
    parameter = torch.ones(2, requires_grad=True)
    peer = torch.optim.SGD([parameter], lr=0.1)
    optimizer = sm.optim.LossScale(sm.optim.SGD(lr=0.1), init_scale=16.0, growth_interval=3)
    x = sm.ones(2)
    state = optimizer.init(x)
    for k in range(14):
        factor = float("inf") if k in (2, 6, 7) else 1.0
        peer.zero_grad()
        scaler.scale((parameter * parameter).sum() * factor).backward()
        scaler.step(peer)
        scaler.update()
        slope = sm.grad(lambda x, factor=factor: optimizer.scaled((x * x).sum() * factor, state))(x)  # noqa: B023
        x, state = optimizer.update(x, slope, state)
        assert state.scale.item() == scaler.get_scale(), k
        np.testing.assert_allclose(x.numpy(), parameter.detach().numpy(), rtol=1e-6)
