"""Layers of one product, linear and bilinear, and those that only change the shape."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.errors import ShapeError
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.sizes import count, refuse_tensors, tensor, with_features
from smelt.tensor import Tensor, bounded, einsum, integer

__all__ = ["Bilinear", "Flatten", "Identity", "Linear", "Unflatten"]


def weights(shape: tuple[int, ...], outputs: int, bias: bool, bound: float) -> tuple[Tensor, Tensor | None]:
    """A first weight, and a bias if there is one: numbers spread evenly from -bound to bound."""
    if not bias:
        return bounded(bound, shape)[0], None
    weight, first = bounded(bound, shape, (outputs,))
    return weight, first


class Linear(Module):
    """x @ weight.T + bias, over the last axis. The weight has shape (out_features, in_features), as in PyTorch.

    >>> import smelt as sm
    >>> sm.nn.Linear(3, 5)(sm.ones(2, 3)).shape
    (2, 5)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        self.in_features = count(in_features, "Linear", "in_features")
        self.out_features = count(out_features, "Linear", "out_features")
        bound = in_features**-0.5 if in_features else 0.0
        self.weight, self.bias = weights((out_features, in_features), out_features, bias, bound)

    def __call__(self, x: Tensor) -> Tensor:
        y = with_features(x, -1, self.in_features, "Linear", "in_features") @ self.weight.T
        return y if self.bias is None else y + self.bias


class Bilinear(Module):
    """x1 @ weight[k] @ x2 + bias[k] for each output k, over the last axes. The other axes of both broadcast.

    >>> import smelt as sm
    >>> sm.nn.Bilinear(3, 4, 5)(sm.ones(2, 3), sm.ones(2, 4)).shape
    (2, 5)
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True) -> None:
        self.in1_features = count(in1_features, "Bilinear", "in1_features", 1)
        self.in2_features = count(in2_features, "Bilinear", "in2_features")
        self.out_features = count(out_features, "Bilinear", "out_features")
        bound = in1_features**-0.5
        self.weight, self.bias = weights((out_features, in1_features, in2_features), out_features, bias, bound)

    def __call__(self, x1: Tensor, x2: Tensor) -> Tensor:
        x1 = with_features(x1, -1, self.in1_features, "Bilinear", "in1_features")
        x2 = with_features(x2, -1, self.in2_features, "Bilinear", "in2_features")
        y = einsum("...i,oij,...j->...o", x1, self.weight, x2)
        return y if self.bias is None else y + self.bias


class Identity(Module):
    """Its input. Whatever it is made with is ignored, so that it can take the place of any layer.

    >>> import smelt as sm
    >>> sm.nn.Identity()(sm.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        refuse_tensors("Identity", args)

    def __call__(self, x: Tensor) -> Tensor:
        return x


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` (both included) as one; all but the batch, unless given.

    >>> import smelt as sm
    >>> sm.nn.Flatten()(sm.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        self.start_dim = integer(start_dim, "Flatten", "start_dim")
        self.end_dim = integer(end_dim, "Flatten", "end_dim")

    def __call__(self, x: Tensor) -> Tensor:
        return tensor(x).flatten(self.start_dim, self.end_dim)


class Unflatten(Module):
    """One axis as several of these sizes; one of them may be -1.

    >>> import smelt as sm
    >>> sm.nn.Unflatten(1, (3, -1))(sm.ones(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: Sequence[int]) -> None:
        self.dim = integer(dim, "Unflatten", "dim")
        self.unflattened_size = tuple(integer(size, "Unflatten", "a size") for size in unflattened_size)
        if sum(size < 0 for size in self.unflattened_size) > 1 or min(self.unflattened_size, default=-2) < -1:
            raise ShapeError(
                f"Unflatten: the sizes are {shape_text(self.unflattened_size)}",
                rule="there must be one or more, and only one of them may be -1.",
            )

    def __call__(self, x: Tensor) -> Tensor:
        return tensor(x).unflatten(self.dim, self.unflattened_size)
