"""The families of functions: what is in `__all__` of these modules is public, and most of it a method."""

from __future__ import annotations

from smelt.names import understand
from smelt.tensor import creation, devices, interop, random, scalars
from smelt.tensor.index import nonzero as finding
from smelt.tensor.index import take_scatter as lookup
from smelt.tensor.index import unique as sets
from smelt.tensor.math import (
    einsums,
    elementwise,
    floats,
    histograms,
    linear,
    nans,
    norms,
    ordering,
    quantiles,
    reductions,
    scans,
    special,
    trigonometry,
)
from smelt.tensor.networks import activations, layers
from smelt.tensor.shape import joining, movement, padding
from smelt.tensor.windows import adaptive_pooling, convolution, folding, pooling, resizing

FAMILIES = (
    activations,
    adaptive_pooling,
    convolution,
    creation,
    devices,
    einsums,
    elementwise,
    finding,
    floats,
    folding,
    histograms,
    interop,
    joining,
    layers,
    linear,
    lookup,
    movement,
    nans,
    norms,
    ordering,
    padding,
    pooling,
    quantiles,
    random,
    reductions,
    resizing,
    scalars,
    scans,
    sets,
    special,
    trigonometry,
)


def prepare() -> None:
    """Let the functions of all families understand other libraries' words, before they become methods and public."""
    for family in FAMILIES:
        understand(family)
