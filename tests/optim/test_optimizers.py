"""All optimizers: what they leave alone, what they remember, and that compiling them changes nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import tree
from smelt.transform import examine
from tests.optim.training import OPTIMIZERS, X, Y, arrays, loss, net, step

EVERY = pytest.mark.parametrize("name", OPTIMIZERS)


@EVERY
@pytest.mark.by_turns(10)
def test_training(name: str) -> None:
    """The loss falls; what is frozen stays, and so do buffers; tied weights stay tied."""
    optimizer, model = OPTIMIZERS[name], net()
    before, frozen = loss(model).item(), model.constant.weight
    compiled = sm.jit(lambda model, state: step(optimizer, model, state))
    now = (model, optimizer.init(model))
    for _ in range(6):
        now = compiled(*now)
    trained = now[0]
    assert loss(trained).item() < before
    assert trained.again.weight is trained.middle.weight
    np.testing.assert_array_equal(trained.constant.weight.numpy(), frozen.numpy())
    assert trained.shift.tolist() == [1.0] * 3
    assert not np.array_equal(trained.first.weight.numpy(), model.first.weight.numpy())
    assert tree.flatten(now)[1] == tree.flatten((model, optimizer.init(model)))[1]  # no second trace


# Muon's five iterations multiply a small singular value by up to 3.4445 each: what differs by a rounding, 6e-8 of the
# largest, differs by 485 of them at the end, times the rate of 0.02.
AMPLIFIED = {"Muon": 485 * 6e-8 * 0.02}


@EVERY
@pytest.mark.by_turns(20)
def test_donated_steps_have_the_same_bits_and_plain_ones_nearly(name: str) -> None:
    """Without `jit` gradients are rounded before the update takes them; in one program they may not be."""
    optimizer = OPTIMIZERS[name]
    plain, kept, donated = ((net(), optimizer.init(net())) for _ in range(3))
    run = sm.jit(lambda model, state: step(optimizer, model, state))
    run_donated = sm.jit(lambda model, state: step(optimizer, model, state), donate=(0, 1))
    for _ in range(5):
        plain, kept, donated = step(optimizer, *plain), run(*kept), run_donated(*donated)
    for one, two, three in zip(arrays(plain), arrays(kept), arrays(donated), strict=True):
        np.testing.assert_array_equal(two, three)
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=AMPLIFIED.get(name, 1e-7))


@EVERY
@pytest.mark.by_turns(10)
def test_states_survive_as_arrays(name: str) -> None:
    """Saved as plain arrays and rebuilt, training goes on with the same bits."""
    optimizer = OPTIMIZERS[name]
    run = sm.jit(lambda model, state: step(optimizer, model, state))
    now = run(*run(net(), optimizer.init(net())))
    saved = arrays(now)
    structure = tree.flatten((net(), optimizer.init(net())))[1]
    again = tree.unflatten(structure, [sm.asarray(array) for array in saved])
    for ours, theirs in zip(arrays(run(*again)), arrays(run(*now)), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@EVERY
@pytest.mark.by_turns(10)
def test_narrow_parameters_have_wide_states(name: str) -> None:
    optimizer, model = OPTIMIZERS[name], net().astype(sm.bfloat16)
    state = optimizer.init(model)
    assert all(leaf.dtype is not sm.bfloat16 for leaf in tree.flatten(state)[0])
    slopes = sm.grad(lambda m: loss(m, X.astype(sm.bfloat16), Y.astype(sm.bfloat16)))(model)
    new, after = optimizer.update(model, slopes, state)
    assert [leaf.dtype for leaf in tree.flatten((new, after))[0]] == [x.dtype for x in tree.flatten((model, state))[0]]


class Mlp(sm.nn.Module):
    def __init__(self) -> None:
        self.first, self.second = sm.nn.Linear(64, 48), sm.nn.Linear(48, 10)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.second(self.first(x).relu())


def _launches(optimizer: Any) -> int:
    model = Mlp()
    state = optimizer.init(model)

    @sm.jit
    def run(model: Any, state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        value, slopes = sm.value_and_grad(lambda m: sm.nn.losses.cross_entropy(m(x), y))(model)
        return *optimizer.update(model, slopes, state), value

    return len(examine(run, model, state, sm.ones(32, 64), sm.zeros(32, dtype=sm.int64)).kernels)


def test_updates_are_part_of_the_kernels_of_gradients() -> None:
    """More than plain descent, Adam has only the launches of its two numbers for all parameters."""
    plain = _launches(sm.optim.SGD(lr=0.1))
    assert _launches(sm.optim.Adam()) <= plain + 2
    assert _launches(sm.optim.AdamW()) <= plain + 2
    assert _launches(sm.optim.groups(("*.bias", sm.optim.AdamW(weight_decay=0.0)), sm.optim.AdamW())) <= plain + 2
