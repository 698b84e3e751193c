"""What trains: gradients, optimizers and the summary ask the same flag, that of the module which holds the tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.interpreted import settled

X = sm.random.normal((5, 4), key=sm.random.key(0))


class Net(sm.nn.Module):
    def __init__(self) -> None:
        self.body = sm.nn.Sequential(sm.nn.Linear(4, 8), sm.nn.ReLU(), sm.nn.Linear(8, 8))
        self.head = sm.nn.Linear(8, 2)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.head(self.body(x))


class LowRank(sm.nn.Module):
    """A layer and a small correction of it, which begins as nothing."""

    def __init__(self, base: sm.nn.Linear, rank: int) -> None:
        self.base = base
        self.down = sm.nn.Linear(base.in_features, rank, bias=False)
        self.up = sm.zeros((base.out_features, rank))

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return self.base(x) + self.down(x) @ self.up.T


def changed(model: Any, jitted: bool) -> list[str]:
    """The names of the tensors that two steps of training change."""
    optimizer = sm.optim.SGD(lr=0.1)
    before = {name: tensor.numpy().copy() for name, tensor in model.state_dict().items()}

    def step(model: Any, state: Any) -> Any:
        slope = sm.grad(lambda m: (m(X) ** 2).sum())(model)
        return optimizer.update(model, slope, state)

    run, state = sm.jit(step) if jitted else step, optimizer.init(model)
    for _ in range(2):
        model, state = run(model, state)
    return [name for name, tensor in model.state_dict().items() if not np.array_equal(tensor.numpy(), before[name])]


def nonzero(model: Any) -> list[str]:
    """The names of the tensors whose gradients are not zeros."""
    slope = sm.grad(lambda m: (m(X) ** 2).sum())(model)
    return [name for name, tensor in slope.state_dict().items() if bool((tensor != 0).any())]


def frozen_count(model: Any) -> str:
    return str(model.summary((1, 4)).splitlines()[-1].partition("; ")[2])


@pytest.mark.parametrize("jitted", [False, True])
def test_a_head_that_is_unfrozen_in_a_frozen_model_trains(jitted: bool) -> None:
    model = settled(Net()).freeze()
    model.head.unfreeze()
    assert nonzero(model) == changed(model, jitted) == ["head.weight", "head.bias"]
    assert frozen_count(model) == "112 frozen"


@pytest.mark.parametrize("jitted", [False, True])
def test_a_new_module_inside_a_frozen_one_trains(jitted: bool) -> None:
    model = settled(Net()).freeze()
    model.body[2] = LowRank(model.body[2], rank=1)
    assert changed(model, jitted) == ["body.2.down.weight", "body.2.up"]
    assert frozen_count(model) == "130 frozen"
    model.freeze()
    assert nonzero(model) == []
    assert frozen_count(model) == "146 frozen"


def test_a_tensor_belongs_to_the_module_that_holds_it() -> None:
    model = settled(Net())
    model.head.freeze()
    model.head.extra = {"scale": [sm.ones(2)]}
    model.scale = sm.ones(2)  # type: ignore[attr-defined]
    slope = sm.grad(lambda m: (m(X) * m.head.extra["scale"][0] * m.scale).sum())(model)
    assert slope.head.extra["scale"][0].tolist() == [0.0, 0.0]
    assert bool((slope.scale != 0).all())


def test_freezing_and_unfreezing_go_down_from_where_they_are_asked_for() -> None:
    model = settled(Net())
    model.body.freeze()
    model.unfreeze()
    assert frozen_count(model) == ""
    model.body[0].freeze()
    assert frozen_count(model) == "40 frozen"
    assert "body.2.weight" in nonzero(model) and "body.0.weight" not in nonzero(model)


@pytest.mark.parametrize("frozen", ["first", "second"])
def test_a_tied_weight_is_frozen_by_any_of_its_modules(frozen: str) -> None:
    model = sm.nn.Sequential(sm.nn.Linear(4, 4, bias=False), sm.nn.Linear(4, 4, bias=False), sm.nn.Linear(4, 1))
    model[1].weight = model[0].weight
    model[("first", "second").index(frozen)].freeze()
    assert changed(model, jitted=False) == ["2.weight", "2.bias"]
    assert frozen_count(model) == "16 frozen"


@pytest.mark.parametrize(
    "wrap", [lambda opt: opt, lambda opt: sm.optim.Accumulate(opt, 2)], ids=["plain", "accumulated"]
)
@pytest.mark.parametrize("freeze_first", [True, False])
def test_a_state_from_before_a_change_of_what_is_frozen_is_refused(freeze_first: bool, wrap: Any) -> None:
    model = sm.nn.Sequential(sm.nn.Linear(3, 3), sm.nn.Linear(3, 1))
    opt = wrap(sm.optim.AdamW(lr=1e-3))
    if freeze_first:
        model[0].freeze()
    state = opt.init(model)
    model[0].unfreeze() if freeze_first else model[0].freeze()
    gradients = sm.grad(lambda model, x: model(x).sum())(model, sm.ones((2, 3)))
    with pytest.raises(sm.errors.ArgumentError, match=r"(?s)not one of these parameters.*opt\.init\(model\) again"):
        opt.update(model, gradients, state)
    model, _ = opt.update(model, gradients, opt.init(model))


@pytest.mark.parametrize("lr", [1e-3, lambda count: 1e-3 / (count + 1)], ids=["compiled", "as written"])
def test_what_is_remembered_of_one_layer_is_not_taken_for_another_one_of_the_same_shape(lr: Any) -> None:
    model = sm.nn.Sequential(sm.nn.Linear(3, 3), sm.nn.Linear(3, 3))
    opt = sm.optim.Adam(lr=lr)
    model[0].freeze()
    gradients = sm.grad(lambda model, x: model(x).sum())(model, sm.ones((2, 3)))
    model, state = opt.update(model, gradients, opt.init(model))
    model[0].unfreeze()
    model[1].freeze()
    with pytest.raises(sm.errors.ArgumentError, match="not one of these parameters"):
        opt.update(model, gradients, state)


OPT = sm.optim
STATES: list[tuple[Any, Any]] = [
    (OPT.Adam(0.1), OPT.Accumulate(OPT.Adam(0.1), 2)),
    (OPT.AdamW(0.1), OPT.Adam(0.1)),
    (OPT.SGD(0.1), OPT.SGD(0.1, momentum=0.9)),
    (OPT.Accumulate(OPT.Adam(0.1), 2), OPT.Adam(0.1)),
    (OPT.LossScale(OPT.Adam(0.1)), OPT.Adam(0.1)),
    (OPT.groups(("weight", OPT.SGD(0.1)), OPT.SGD(0.2)), OPT.groups(OPT.SGD(0.1))),
]


@pytest.mark.parametrize(("opt", "other"), STATES, ids=range(len(STATES)))
def test_a_state_of_something_else_is_refused(opt: Any, other: Any) -> None:
    model = sm.nn.Linear(3, 3)
    with pytest.raises(sm.errors.ArgumentError, match=r"(?s)the state is .*state = opt\.init\(model\)"):
        opt.update(model, model, other.init(model))


@pytest.mark.parametrize("state", [None, (), {}, [1]])
def test_what_is_no_state_is_refused(state: Any) -> None:
    for opt in (OPT.Adam(0.1), OPT.Accumulate(OPT.Adam(0.1), 2), OPT.LossScale(OPT.Adam(0.1))):
        with pytest.raises(sm.errors.ArgumentError, match="the state is a"):
            opt.update({"w": sm.ones(2)}, {"w": sm.ones(2)}, state)
