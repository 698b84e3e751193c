"""Recurrent networks over whole sequences: one native loop for each layer and direction."""

from __future__ import annotations

from typing import Any, ClassVar

from smelt.errors import ArgumentError
from smelt.nn.cells import GRU_KIND, LSTM_KIND, Kind, States, Weights, first_states, plain_kind
from smelt.nn.dropout import Dropout
from smelt.nn.inputs import floats
from smelt.nn.module import Module
from smelt.nn.sizes import count
from smelt.tensor import Tensor, bounded, concat, flag, stack
from smelt.transform import scan

__all__ = ["GRU", "LSTM", "RNN"]


class _Recurrent(Module):
    """Layers of cells over a sequence (length, batch, features), (batch, length, features) or (length, features).

    Gives the last layer's hidden states at all steps, and the last states of all layers and directions.
    """

    _kind: ClassVar[Kind]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
    ) -> None:
        name = type(self).__name__
        self.input_size = count(input_size, name, "input_size")
        self.hidden_size = count(hidden_size, name, "hidden_size", least=1)
        self.num_layers = count(num_layers, name, "num_layers", least=1)
        self.bias, self.batch_first = flag(bias, name, "bias"), flag(batch_first, name, "batch_first")
        self.dropout = Dropout(dropout).p
        self.bidirectional = flag(bidirectional, name, "bidirectional")
        self.proj_size = count(proj_size, name, "proj_size")
        if proj_size >= hidden_size:
            raise ArgumentError(f"{name}: proj_size is {proj_size}", rule=f"it must be less than {hidden_size}.")
        gates, given = self._chosen().gates * hidden_size, self.proj_size or hidden_size
        for layer in range(num_layers):
            for end in self._ends(layer):
                taken = given * len(self._ends(layer)) if layer else input_size
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (gates, taken), "weight_hh": (gates, given)}
                if bias:
                    shapes |= {"bias_ih": (gates,), "bias_hh": (gates,)}
                if proj_size:
                    shapes["weight_hr"] = (proj_size, hidden_size)
                for kind, first in zip(shapes, bounded(hidden_size**-0.5, *shapes.values()), strict=True):
                    setattr(self, kind + end, first)

    def _chosen(self) -> Kind:
        return self._kind

    def _ends(self, layer: int) -> list[str]:
        """How the names of a layer's parameters end, for each direction."""
        return [f"_l{layer}", f"_l{layer}_reverse"] if self.bidirectional else [f"_l{layer}"]

    def _weights(self, end: str) -> Weights:
        names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh", "weight_hr")
        return Weights(*[getattr(self, name + end, None) for name in names])  # type: ignore[arg-type]

    def _run(self, x: Tensor, hx: Any) -> tuple[Tensor, States]:
        name, kind = type(self).__name__, self._chosen()
        floats(x, name, "the input", (2, 3), self.input_size)
        swapped = self.batch_first and x.ndim == 3
        x = x.swapaxes(0, 1) if swapped else x
        rows, batch = self.num_layers * len(self._ends(0)), x.shape[1:-1]
        sizes = (self.proj_size or self.hidden_size, self.hidden_size)[: kind.states]
        first = first_states(hx, name, [(rows, *batch, size) for size in sizes], x, self._weights("_l0").ih)
        last: list[States] = []
        for layer in range(self.num_layers):
            if layer and self.training and self.dropout:
                x = Dropout(self.dropout)(x)
            results = []
            for reverse, end in enumerate(self._ends(layer)):
                states, ys = _scanned(x, tuple(s[len(last)] for s in first), self._weights(end), kind, bool(reverse))
                last.append(states)
                results.append(ys)
            x = concat(results, axis=-1) if len(results) > 1 else results[0]
        x = x.swapaxes(0, 1) if swapped else x
        return x, tuple(stack(each) for each in zip(*last, strict=True))


def _scanned(x: Tensor, first: States, weights: Weights, kind: Kind, reverse: bool) -> tuple[States, Tensor]:
    """A cell over a sequence: its last states, and its hidden states at all steps."""

    def step(states: States, given: Tensor) -> tuple[States, States]:
        states = kind.step(given, states, weights)
        return states, states  # all of them, since the way back needs all; what nobody reads is not stored

    last, all_states = scan(step, first, kind.from_input(x, weights), reverse=reverse)
    return last, all_states[0]


class RNN(_Recurrent):
    """Layers of cells without gates over a sequence: the outputs at all steps, and the last states.

    >>> import smelt as sm
    >>> output, h_n = sm.nn.RNN(3, 5, num_layers=2)(sm.ones(7, 2, 3))
    >>> output.shape, h_n.shape
    ((7, 2, 5), (2, 2, 5))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        plain_kind(nonlinearity, "RNN")
        self.nonlinearity = nonlinearity
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def _chosen(self) -> Kind:
        return plain_kind(self.nonlinearity, "RNN")

    def __call__(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, [h] = self._run(x, hx)
        return output, h


class LSTM(_Recurrent):
    """Layers of long short-term memory over a sequence: the outputs at all steps, and the last (hidden, cell) states.

    >>> import smelt as sm
    >>> output, (h_n, c_n) = sm.nn.LSTM(3, 5, batch_first=True, bidirectional=True)(sm.ones(2, 7, 3))
    >>> output.shape, h_n.shape, c_n.shape
    ((2, 7, 10), (2, 2, 5), (2, 2, 5))
    """

    _kind = LSTM_KIND

    def __call__(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        output, (h, c) = self._run(x, hx)
        return output, (h, c)


class GRU(_Recurrent):
    """Layers of gated recurrent units over a sequence: the outputs at all steps, and the last states.

    >>> import smelt as sm
    >>> output, h_n = sm.nn.GRU(3, 5)(sm.ones(7, 2, 3))
    >>> output.shape, h_n.shape
    ((7, 2, 5), (1, 2, 5))
    """

    _kind = GRU_KIND

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional)

    def __call__(self, x: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        output, [h] = self._run(x, hx)
        return output, h
