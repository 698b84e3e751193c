"""Derivatives against differences: a function of float64 arrays, looked at along random directions.

Functions with corners are checked where they have none: a sample counts only if differences over two distances agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import smelt as sm
from smelt import dtypes, tree
from smelt.graph import without_aliases
from smelt.graph.interpret import interpret
from smelt.graph.node import Node
from tests.ops.samples import Sample
from tests.ops.spec import OpSpec

Array = Any
MOST_ELEMENTS = 400
FIRST, SECOND = 1e-6, 1e-4  # how near derivatives of first and second order must be, relatively


@dataclass
class Subject:
    """A scalar function of float arrays: one call of a public function, its results weighed and added up."""

    label: str
    call: Callable[[list[sm.Tensor]], sm.Tensor]
    arrays: list[Array]


def subject(spec: OpSpec, sample: Sample, seed: int) -> Subject | None:
    """A call to differentiate; None if it has no float64 arguments, too many elements, or values without a slope."""
    rng = np.random.default_rng(seed)
    leaves, structure = tree.flatten((list(sample.args), dict(sample.kwargs)))
    places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray) and leaf.dtype == np.float64]
    arrays = [leaves[k] for k in places]
    if not places or sum(x.size for x in arrays) > MOST_ELEMENTS or not all(x.size for x in arrays):
        return None
    if not all(np.isfinite(x).all() and np.abs(x).max() < 1e3 for x in arrays):
        return None
    # Round numbers lie on corners and are equal to each other.
    arrays = [x * (1 + 0.01 * rng.uniform(-1, 1, x.shape)) + 0.001 * rng.uniform(-1, 1, x.shape) for x in arrays]

    def outputs(tensors: list[sm.Tensor]) -> list[sm.Tensor]:
        given = [sm.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
        for k, tensor in zip(places, tensors, strict=True):
            given[k] = tensor
        args, kwargs = tree.unflatten(structure, given)
        result = spec.function(*args, **kwargs)
        parts = list(result) if isinstance(result, list | tuple) else [result]
        return [part for part in parts if isinstance(part, sm.Tensor) and part.dtype is dtypes.float64]

    shapes = [part.shape for part in outputs([sm.asarray(x) for x in arrays])]
    if not shapes or not all(np.prod(shape) for shape in shapes):
        return None
    weights = [sm.asarray(rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape)) for shape in shapes]

    def weighed(tensors: list[sm.Tensor]) -> sm.Tensor:
        total = sm.asarray(0.0, dtype=sm.float64)
        for part, weight in zip(outputs(tensors), weights, strict=True):
            total = total + (part * weight).sum()
        return total

    return Subject(spec.name, weighed, arrays)


def values(tensors: Sequence[sm.Tensor]) -> list[Array]:
    nodes = without_aliases([tensor._node for tensor in tensors])
    return [np.asarray(array, np.float64) for array in interpret(nodes, _array)]


def _array(leaf: Node) -> Array:
    return leaf.attribute.numpy()


def slope(function: Callable[[list[Array]], float], at: list[Array], along: list[Array], distance: float) -> float:
    """The derivative along a direction, by differences of fourth order."""

    def moved(steps: float) -> float:
        return function([x + steps * distance * d for x, d in zip(at, along, strict=True)])

    return (8 * (moved(1) - moved(-1)) - (moved(2) - moved(-2))) / (12 * distance)


def smooth_slope(
    function: Callable[[list[Array]], float], at: list[Array], along: list[Array], tolerance: float
) -> float | None:
    """The derivative along a direction, if there is one nearby as well."""
    with np.errstate(all="ignore"):
        near, far = (slope(function, at, along, distance) for distance in (1e-4, 1.7e-4))
    if not np.isfinite([near, far]).all() or abs(near - far) > 0.1 * tolerance * (1 + abs(near)):
        return None
    return near


# Where functions are defined, if not everywhere: all numbers, those above one, those between -1 and 1.
DOMAINS: list[Callable[[Array], Array]] = [lambda x: x, lambda x: np.abs(x) + 1.1, lambda x: 0.9 * np.tanh(x)]


def check(one: Subject, seed: int) -> bool:
    """Compare derivatives with differences, in the first domain in which there are any."""
    return any(check_here(replace(one, arrays=[domain(x) for x in one.arrays]), seed) for domain in DOMAINS)


def check_here(one: Subject, seed: int) -> bool:
    """Compare derivatives of first and second order with differences; False if there is no slope here."""
    rng = np.random.default_rng(seed)
    along, other = ([rng.uniform(-1, 1, x.shape) for x in one.arrays] for _ in range(2))

    def value(arrays: list[Array]) -> float:
        return float(values([one.call([sm.asarray(x) for x in arrays])])[0])

    def derivative(tensors: list[sm.Tensor]) -> sm.Tensor:
        """Along the first direction, in reverse mode."""
        gradients = sm.grad(one.call)(tensors)
        total = sm.asarray(0.0, dtype=sm.float64)
        for gradient, direction in zip(gradients, along, strict=True):
            total = total + (gradient * sm.asarray(direction)).sum()
        return total

    expected = smooth_slope(value, one.arrays, along, FIRST)
    if expected is None:
        return False
    tensors = [sm.asarray(x) for x in one.arrays]
    changes = [sm.asarray(x) for x in along]
    _, forward = sm.jvp(one.call, (tensors,), (changes,))
    reverse, pushed = values([derivative(tensors), forward])
    scale = 1 + abs(expected)
    assert abs(reverse - expected) <= FIRST * scale, f"{one.label}: reverse {reverse}, differences {expected}"
    assert abs(pushed - expected) <= FIRST * scale, f"{one.label}: forward {pushed}, differences {expected}"

    def first(arrays: list[Array]) -> float:
        return float(values([derivative([sm.asarray(x) for x in arrays])])[0])

    curvature = smooth_slope(first, one.arrays, other, SECOND)
    if curvature is None:
        return True
    directions = [sm.asarray(x) for x in other]
    _, forward = sm.jvp(derivative, (tensors,), (directions,))
    again = sm.grad(derivative)(tensors)
    reverse_total = sm.asarray(0.0, dtype=sm.float64)
    for gradient, direction in zip(again, directions, strict=True):
        reverse_total = reverse_total + (gradient * direction).sum()
    pushed, reverse = values([forward, reverse_total])
    scale = 1 + abs(curvature)
    assert abs(pushed - curvature) <= SECOND * scale, (
        f"{one.label}: forward of reverse {pushed}, differences {curvature}"
    )
    assert abs(reverse - curvature) <= SECOND * scale, f"{one.label}: reverse twice {reverse}, differences {curvature}"
    return True
