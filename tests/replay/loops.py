"""Programs with loops and branches: functions, and what they are called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import smelt as sm

T = sm.Tensor

STEPS, BATCH, WIDTH = 37, 8, 48


def recurrent(x: T, w: T, u: T) -> T:
    """A recurrent network, and all that it says."""
    said: T = sm.scan(lambda h, row: (sm.tanh(h @ w + row @ u),) * 2, sm.zeros((BATCH, WIDTH)), x)[1]
    return said


def loss(x: T, w: T, u: T) -> T:
    return (recurrent(x, w, u) ** 2).mean()


def weights_as_states(ys: T, w: T) -> Any:
    """A way back as JAX prints it: the gradients of weights are states, and what is stacked is made of what is."""

    def back(carry: tuple[T, T, T], y: T) -> tuple[Any, Any]:
        slope, weights, bias = carry
        inner = slope * (1 - y * y)
        return (inner @ w.T + y, weights + y.T @ inner, bias + inner.sum(axis=0)), (inner, inner * 2, y.exp())

    return sm.scan(back, (sm.zeros((BATCH, WIDTH)), sm.zeros((WIDTH, WIDTH)), sm.zeros(WIDTH)), ys, reverse=True)


def nested(x: T, w: T) -> Any:
    """Two loops that both can do less: sums of products, and what is made of what is stacked."""

    def outer(carry: tuple[T, T], rows: T) -> tuple[Any, Any]:
        def inner(carry: tuple[T, T], row: T) -> tuple[Any, Any]:
            h, weights = carry
            new = sm.tanh(h @ w + row)
            return (new, weights + h.T @ new), (new, 1 - new * new)

        h, total = carry
        (h, weights), (said, slopes) = sm.scan(inner, (h, sm.zeros((WIDTH, WIDTH))), rows)
        return (h, total + weights), (said.sum(axis=0), slopes.exp())

    (h, total), said = sm.scan(outer, (sm.zeros((BATCH, WIDTH)), sm.zeros((WIDTH, WIDTH))), x)
    return h, total @ w[0], said


def power(a: T, x: T) -> Any:
    """An eigenvector, until it stays where it is."""

    def body(state: tuple[T, T]) -> tuple[T, T]:
        x, _ = state
        y = a @ x
        y = y / sm.sqrt((y * y).sum())
        return y, ((y - x) ** 2).sum()

    return sm.while_loop(lambda state: state[1] > 1e-6, body, (x, sm.asarray(1.0)))


def chosen(x: T, w: T) -> Any:
    """A branch in a loop, and its gradient."""

    def body(i: T, h: T) -> T:
        found: T = sm.cond((h.sum() > 0) & (i < 3), lambda h: sm.tanh(h @ w), lambda h: sm.softmax(h) * i, h)
        return found

    return sm.grad(lambda x: sm.fori_loop(0, 5, body, x).sum())(x)


_X, _W = sm.zeros((STEPS, BATCH, WIDTH)), sm.zeros((WIDTH, WIDTH))
_LINE = sm.zeros(WIDTH)

LOOPS: Final[dict[str, tuple[Callable[..., Any], tuple[T, ...]]]] = {
    "recurrent network": (recurrent, (_X, _W, _W)),
    "recurrent network, its gradient": (sm.value_and_grad(loss, (1, 2)), (_X, _W, _W)),
    "weights as states": (weights_as_states, (_X, _W)),
    "nested": (nested, (sm.zeros((5, STEPS, BATCH, WIDTH)), _W)),
    "while": (power, (_W, _LINE)),
    "branch": (chosen, (_LINE, _W)),
}
