"""What the tests of optimizers train."""

from __future__ import annotations

from typing import Any

import numpy as np

import smelt as sm
from smelt import tree
from tests.interpreted import settled

RNG = np.random.default_rng(11)
X = sm.asarray(RNG.standard_normal((8, 5)).astype(np.float32))
Y = sm.asarray(RNG.standard_normal((8, 3)).astype(np.float32))


class Net(sm.nn.Module):
    """A network with a frozen part, a buffer, and a weight with two names."""

    buffer_names = ("shift",)

    def __init__(self) -> None:
        self.first, self.last = sm.nn.Linear(5, 6), sm.nn.Linear(6, 3)
        self.middle = sm.nn.Linear(6, 6)
        self.again = self.middle
        self.constant = sm.nn.Linear(6, 6).freeze()
        self.shift = sm.ones(3)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        hidden = self.constant(self.middle(self.first(x).tanh()).tanh())
        return self.last(self.again(hidden).tanh()) + self.shift


def net(seed: int = 0) -> Net:
    sm.random.seed(seed)
    return settled(Net())  # type: ignore[no-any-return]


def loss(model: Any, x: sm.Tensor = X, y: sm.Tensor = Y) -> Any:
    return sm.nn.losses.mse_loss(model(x), y)


def step(optimizer: Any, model: Any, state: Any) -> Any:
    return optimizer.update(model, sm.grad(loss)(model), state)


def arrays(value: Any) -> list[Any]:
    """The tensors of a tree, in NumPy."""
    return [leaf.numpy() for leaf in tree.flatten(value)[0]]


OPTIM = sm.optim
OPTIMIZERS: dict[str, Any] = {
    "SGD": OPTIM.SGD(lr=0.1),
    "SGD with momentum": OPTIM.SGD(lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": OPTIM.Adam(lr=0.01),
    "AMSGrad": OPTIM.Adam(lr=0.01, amsgrad=True),
    "AdamW": OPTIM.AdamW(lr=0.01),
    "NAdam": OPTIM.NAdam(lr=0.01),
    "RAdam": OPTIM.RAdam(lr=0.05),
    "Adamax": OPTIM.Adamax(lr=0.02),
    "RMSprop": OPTIM.RMSprop(lr=0.01, momentum=0.5, centered=True),
    "Adagrad": OPTIM.Adagrad(lr=0.05, lr_decay=0.1),
    "Adadelta": OPTIM.Adadelta(lr=5.0),
    "Rprop": OPTIM.Rprop(),
    "LAMB": OPTIM.LAMB(lr=0.05, weight_decay=0.01),
    "Lion": OPTIM.Lion(lr=0.01, weight_decay=0.1),
    "Muon": OPTIM.Muon(lr=0.05),
    "Adafactor": OPTIM.Adafactor(lr=0.05),
    "a chain": OPTIM.chain(
        OPTIM.ClipValue(0.5), OPTIM.ClipNorm(1.0), OPTIM.AdamW(lr=OPTIM.schedules.cosine(0.02, 100))
    ),
    "groups": OPTIM.groups(("*.bias", OPTIM.SGD(lr=0.1)), ("first.*", OPTIM.Lion(lr=0.01)), OPTIM.AdamW(lr=0.01)),
    "accumulation": OPTIM.Accumulate(OPTIM.AdamW(lr=0.02), every=2),
    "a scale": OPTIM.LossScale(OPTIM.AdamW(lr=0.01), init_scale=1.0),
}
