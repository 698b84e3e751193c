"""What goes around optimizers: accumulation, averages, loss scales, rates that change, groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.interpreted import interpreted
from tests.optim.training import X, Y, arrays, loss, net


def test_accumulated_gradients_are_those_of_a_larger_batch() -> None:
    inner = sm.optim.AdamW(lr=0.05)
    optimizer, traces = sm.optim.Accumulate(inner, every=4), []

    @sm.jit(donate=(0, 1))
    def step(model: Any, state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        traces.append(1)
        return optimizer.update(model, sm.grad(lambda m: loss(m, x, y))(model), state)

    model, state = net(), optimizer.init(net())
    whole, kept = net(), inner.init(net())
    for _ in range(2):
        before = model.first.weight.numpy().copy()
        for k in range(4):
            np.testing.assert_array_equal(model.first.weight.numpy(), before)
            model, state = step(model, state, X[2 * k : 2 * k + 2], Y[2 * k : 2 * k + 2])
        whole, kept = inner.update(whole, sm.grad(loss)(whole), kept)
    assert len(traces) == 1 and state.inner.done.item() == 2 and state.calls.item() == 0
    for ours, theirs in zip(arrays(model), interpreted(whole), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


def test_averages() -> None:
    ema, model = sm.optim.EMA(0.9), net()
    state = ema.init(model)
    optimizer = sm.optim.SGD(lr=0.1)

    @sm.jit(donate=(0, 1, 2))
    def step(model: Any, kept: Any, state: Any) -> Any:
        model, kept = optimizer.update(model, sm.grad(loss)(model), kept)
        return model, kept, ema.update(state, model)

    kept, expected = optimizer.init(model), model.first.weight.numpy().copy()
    for _ in range(4):
        model, kept, state = step(model, kept, state)
        expected = 0.9 * expected + 0.1 * model.first.weight.numpy()
    np.testing.assert_allclose(state.average.first.weight.numpy(), expected, rtol=1e-5)
    assert type(state.average) is type(model) and state.average.again.weight is state.average.middle.weight
    np.testing.assert_array_equal(state.average.constant.weight.numpy(), model.constant.weight.numpy())
    assert loss(state.average).item() > loss(model).item()


def test_averages_that_warm_up() -> None:
    ema = sm.optim.EMA(0.5, warmup=True)
    state = ema.init(sm.asarray([0.0]))
    expected = 0.0
    for k in range(1, 20):
        state = ema.update(state, sm.asarray([1.0]))
        share = min(0.5, (1 + k) / (10 + k))
        expected = share * expected + (1 - share)
        assert state.average.item() == pytest.approx(expected, rel=1e-5)


# --- mixed precision


def test_gradients_through_bfloat16_are_float32() -> None:
    model = net()
    slopes = sm.jit(sm.grad(lambda m: loss(m.astype(sm.bfloat16), X.astype(sm.bfloat16)).astype(sm.float32)))(model)
    (exact,) = interpreted(sm.grad(loss)(model).first.weight)
    assert slopes.first.weight.dtype is sm.float32
    np.testing.assert_allclose(slopes.first.weight.numpy(), exact, rtol=0.1, atol=0.02)


def test_loss_scaling() -> None:
    """In float16: small gradients arrive, large ones are left out, and all in one trace."""
    optimizer, traces = sm.optim.LossScale(sm.optim.AdamW(lr=0.02), init_scale=2.0**30, growth_interval=5), []

    @sm.jit(donate=(0, 1))
    def step(model: Any, state: Any) -> Any:
        traces.append(1)

        def scaled(model: Any) -> Any:
            found = model.astype(sm.float16)(X.astype(sm.float16)).astype(sm.float32)
            value = sm.nn.losses.mse_loss(found, Y) * 1e-6
            return optimizer.scaled(value, state), value

        (_, value), slopes = sm.value_and_grad(scaled, has_aux=True)(model)
        return *optimizer.update(model, slopes, state), value

    model, state, values, scales = net(), optimizer.init(net()), [], []
    for _ in range(60):
        model, state, value = step(model, state)
        values.append(value.item())
        scales.append(state.scale.item())
    assert len(traces) == 1
    assert values[-1] < 0.6 * values[0]
    assert 0 < state.inner.done.item() < 60  # some were left out
    assert min(scales) < 2.0**40 and max(scales) > 2.0**31
    assert all(np.isfinite(array).all() for array in arrays(model))


def test_an_update_that_is_left_out_changes_nothing() -> None:
    optimizer = sm.optim.LossScale(sm.optim.AdamW(lr=0.02))
    model = net()
    state = optimizer.init(model)
    broken = sm.grad(loss)(model).map(lambda slope: slope + float("nan"))
    new, after = optimizer.update(model, broken, state)
    for ours, theirs in zip(arrays((new, after.inner)), arrays((model, state.inner)), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (after.scale / state.scale).item() == 0.5


# --- rates


def test_schedules_take_numbers() -> None:
    rate = sm.optim.schedules.warmup(sm.optim.schedules.cosine(1.0, 10), 5)
    assert [float(rate(k)) for k in range(8)] == [float(rate(sm.asarray(k))) for k in range(8)]


def test_schedules_need_one_trace() -> None:
    schedules, traces = sm.optim.schedules, []
    optimizer = sm.optim.SGD(lr=schedules.warmup(schedules.cosine(1.0, 10), 5))

    @sm.jit
    def step(x: Any, state: Any) -> Any:
        traces.append(1)
        return optimizer.update(x, sm.ones(1), state)

    x, rates = sm.zeros(1), []
    state = optimizer.init(x)
    for _ in range(20):
        before = x.item()
        x, state = step(x, state)
        rates.append(before - x.item())
    assert len(traces) == 1
    expected = [k / 5 for k in range(5)] + [0.5 * (1 + np.cos(np.pi * k / 10)) for k in range(11)] + [0.0] * 4
    np.testing.assert_allclose(rates, expected, atol=1e-6)


def test_a_plateau_is_an_argument() -> None:
    optimizer, plateau = sm.optim.AdamW(), sm.optim.ReduceOnPlateau(0.5, factor=0.5, patience=0)
    traces = []

    @sm.jit
    def step(x: Any, state: Any, rate: sm.Tensor) -> Any:
        traces.append(1)
        return optimizer.update(x, sm.ones(1), state, lr=rate)

    x = sm.zeros(1)
    moved = []
    for _ in range(3):
        new, _ = step(x, optimizer.init(x), plateau.rate)
        moved.append(-new.item())
        plateau.step(1.0)
    np.testing.assert_allclose(moved, [0.5, 0.5, 0.25], rtol=1e-5)
    assert len(traces) == 1
    other = sm.optim.ReduceOnPlateau(1.0)
    other.load_state_dict(plateau.state_dict())
    assert other.rate.item() == plateau.rate.item()


def test_groups_have_their_own_steps() -> None:
    optimizer = sm.optim.groups(
        ("last.*", sm.optim.SGD(lr=0.0)),
        (lambda name, parameter: parameter.ndim == 1, sm.optim.SGD(lr=0.1)),
        sm.optim.SGD(lr=sm.optim.schedules.linear(1.0, 0.0, 1.0, 1)),
    )
    model = net()
    slopes = sm.grad(loss)(model)
    new, state = optimizer.update(model, slopes, optimizer.init(model))
    np.testing.assert_array_equal(new.last.weight.numpy(), model.last.weight.numpy())
    np.testing.assert_array_equal(new.first.weight.numpy(), model.first.weight.numpy())
    expected = (model.first.bias - 0.1 * slopes.first.bias).numpy()
    np.testing.assert_allclose(new.first.bias.numpy(), expected, rtol=1e-6)
    later, _ = optimizer.update(new, slopes, state)
    expected = (new.first.weight - slopes.first.weight).numpy()
    np.testing.assert_allclose(later.first.weight.numpy(), expected, rtol=1e-6)


def test_names_of_parameters() -> None:
    seen: list[str] = []

    class Seeing(sm.optim.Step):
        def init(self, parameters: sm.optim.Parameters) -> Any:
            seen.extend(parameters.names)
            return ()

    optimizer = sm.optim.Optimizer(Seeing(), lr=0.1)
    optimizer.init(net())
    assert seen == [f"{part}.{name}" for part in ("first", "last", "middle") for name in ("weight", "bias")]
    seen.clear()
    optimizer.init({"a": [sm.ones(1), sm.ones(1)], "b": {"c": sm.ones(1)}})
    assert seen == ["a.0", "a.1", "b.c"]
    seen.clear()
    optimizer.init(sm.nn.Sequential(sm.nn.Linear(2, 2), sm.relu))
    assert seen == ["0.weight", "0.bias"]


def test_pictures() -> None:
    assert repr(sm.optim.AdamW()) == "AdamW(AdamMoments → AddDecay, lr=0.001)"
    chained = sm.optim.chain(sm.optim.ClipNorm(1.0), sm.optim.SGD(lr=sm.optim.schedules.cosine(0.1, 10)))
    assert repr(chained) == "Optimizer(ClipNorm, lr=a schedule)"
