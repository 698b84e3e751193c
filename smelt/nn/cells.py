"""Cells of recurrent networks: one step from an input and a state to the next state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from smelt.errors import ArgumentError
from smelt.nn.inputs import floats, shaped
from smelt.nn.module import Module
from smelt.nn.sizes import count
from smelt.tensor import Tensor, bounded, flag, result_type, zeros

__all__ = ["GRUCell", "LSTMCell", "RNNCell"]

States = tuple[Tensor, ...]  # the hidden state; for an LSTM also the cell state


class Weights(NamedTuple):
    """What a cell multiplies its input (ih), its hidden state (hh) and its result (hr) with, and what it adds."""

    ih: Tensor
    hh: Tensor
    bias_ih: Tensor | None
    bias_hh: Tensor | None
    hr: Tensor | None = None


class Kind(NamedTuple):
    """A kind of cell: how many gates and states it has, and its step.

    A step takes what comes from the input (`from_input`) and so can be one of a loop: the product of all inputs is made
    before it.
    """

    gates: int
    states: int
    step: Callable[[Tensor, States, Weights], States]
    apart: bool = False  # the bias of the hidden state belongs into the step

    def from_input(self, x: Tensor, weights: Weights) -> Tensor:
        """What the input gives to the gates; all that is known before the step."""
        gates = x @ weights.ih.T
        if weights.bias_ih is None or weights.bias_hh is None:
            return gates
        return gates + (weights.bias_ih if self.apart else weights.bias_ih + weights.bias_hh)


def _plain(activation: Callable[[Tensor], Tensor]) -> Callable[[Tensor, States, Weights], States]:
    def step(given: Tensor, states: States, weights: Weights) -> States:
        [h] = states
        return (activation(given + h @ weights.hh.T),)

    return step


def _lstm_step(given: Tensor, states: States, weights: Weights) -> States:
    h, c = states
    i, f, g, o = (given + h @ weights.hh.T).split(4, axis=-1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    return (h if weights.hr is None else h @ weights.hr.T), c


def _gru_step(given: Tensor, states: States, weights: Weights) -> States:
    [h] = states
    kept = h @ weights.hh.T
    if weights.bias_hh is not None:
        kept = kept + weights.bias_hh
    (r, z, n), (kept_r, kept_z, kept_n) = given.split(3, axis=-1), kept.split(3, axis=-1)
    r, z = (r + kept_r).sigmoid(), (z + kept_z).sigmoid()
    n = (n + r * kept_n).tanh()
    return (n + z * (h - n),)


LSTM_KIND = Kind(4, 2, _lstm_step)
GRU_KIND = Kind(3, 1, _gru_step, apart=True)
_PLAIN_KINDS = {"tanh": Kind(1, 1, _plain(Tensor.tanh)), "relu": Kind(1, 1, _plain(Tensor.relu))}


def plain_kind(nonlinearity: str, name: str) -> Kind:
    """The kind of a cell without gates."""
    if not isinstance(nonlinearity, str) or nonlinearity not in _PLAIN_KINDS:
        raise ArgumentError(
            f"{name}: nonlinearity is {nonlinearity!r}", rule=f"it must be one of {', '.join(_PLAIN_KINDS)}."
        )
    return _PLAIN_KINDS[nonlinearity]


def first_states(given: Any, name: str, shapes: list[tuple[Any, ...]], x: Tensor, weight: Tensor) -> States:
    """The states to begin with, in the type that gates have: the given ones (one, or a pair), or zeros."""
    dtype = result_type(x, weight)
    if given is None:
        return tuple(zeros(shape, dtype=dtype, device=x.device) for shape in shapes)
    states = (given,) if len(shapes) == 1 else given
    if not isinstance(states, tuple | list) or len(states) != len(shapes):
        raise ArgumentError(f"{name}: the state is of type {type(given).__name__}", rule="it must be a pair (h, c).")
    found = []
    for which, state, shape in zip("hc", states, shapes, strict=False):
        state = shaped(floats(state, name, f"the state {which}", (len(shape),)), name, f"the state {which}", shape)
        found.append(state.astype(dtype))
    return tuple(found)


class _Cell(Module):
    """One step of a recurrent network, over inputs (batch, features) or (features)."""

    _kind: ClassVar[Kind]

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        name, gates = type(self).__name__, self._chosen().gates
        self.input_size = count(input_size, name, "input_size")
        self.hidden_size = count(hidden_size, name, "hidden_size", least=1)
        rows = gates * hidden_size
        biases = ((rows,), (rows,)) if flag(bias, name, "bias") else ()
        first = bounded(hidden_size**-0.5, (rows, input_size), (rows, hidden_size), *biases)
        self.weight_ih, self.weight_hh = first[:2]
        self.bias_ih: Tensor | None = first[2] if biases else None
        self.bias_hh: Tensor | None = first[3] if biases else None

    def _chosen(self) -> Kind:
        return self._kind

    def _next(self, x: Tensor, hx: Any) -> States:
        name, kind = type(self).__name__, self._chosen()
        floats(x, name, "the input", (1, 2), self.input_size)
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        states = first_states(hx, name, [(*x.shape[:-1], self.hidden_size)] * kind.states, x, self.weight_ih)
        return kind.step(kind.from_input(x, weights), states, weights)


class RNNCell(_Cell):
    """tanh (or relu) of a product of the input plus one of the state: the next state.

    >>> import smelt as sm
    >>> sm.nn.RNNCell(3, 5)(sm.ones(2, 3)).shape
    (2, 5)
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh") -> None:
        plain_kind(nonlinearity, "RNNCell")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, bias)

    def _chosen(self) -> Kind:
        return plain_kind(self.nonlinearity, "RNNCell")

    def __call__(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(x, hx)[0]


class LSTMCell(_Cell):
    """A cell that forgets, takes up and gives out as its gates say: the next (hidden state, cell state).

    >>> import smelt as sm
    >>> h, c = sm.nn.LSTMCell(3, 5)(sm.ones(2, 3))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    _kind = LSTM_KIND

    def __call__(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        h, c = self._next(x, hx)
        return h, c


class GRUCell(_Cell):
    """A cell whose gates choose between its state and a new one: the next state.

    >>> import smelt as sm
    >>> sm.nn.GRUCell(3, 5)(sm.ones(2, 3)).shape
    (2, 5)
    """

    _kind = GRU_KIND

    def __call__(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        return self._next(x, hx)[0]
