"""The families of functions: what is in `__all__` of these modules is public, and most of it a method."""

from __future__ import annotations

from smelt.names import understand
from smelt.tensor import (
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
