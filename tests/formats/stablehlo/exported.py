"""Calls of the op table as functions of the arrays in them, for tests of what is exported."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import smelt as sm
from smelt.dtypes import DType
from tests.op_table import OPS
from tests.ops.spec import OpSpec


class Call(NamedTuple):
    """A function of arrays, and what to call it with."""

    function: Callable[..., Any]
    arrays: list[Any]


def calls(spec: OpSpec, dtype: DType) -> Iterator[Call]:
    """The samples of an entry, each with its arrays taken out."""
    plain = spec.function  # by itself: of the whole entry, jit would read examples of errors, too
    for sample in spec.samples(dtype):
        leaves, structure = sm.tree.flatten((list(sample.args), sample.kwargs))
        places = [k for k, leaf in enumerate(leaves) if isinstance(leaf, np.ndarray)]

        def function(*arrays: Any, leaves: Any = leaves, structure: Any = structure, places: Any = places) -> Any:
            given = dict(zip(places, arrays, strict=True))
            args, kwargs = sm.tree.unflatten(structure, [given.get(k, leaf) for k, leaf in enumerate(leaves)])
            return plain(*args, **kwargs)

        yield Call(function, [leaves[k] for k in places])


def results(value: Any) -> list[Any]:
    """The tensors that a function has returned, as arrays."""
    return [leaf.numpy() for leaf in sm.tree.flatten(value)[0] if isinstance(leaf, sm.Tensor)]


def whole(value: Any) -> list[Any]:
    """The tensors of a tuple as arrays, complex ones as what they are."""
    return [x.numpy() for x in (value if isinstance(value, tuple) else (value,))]


SPECS = [spec for spec in OPS if spec.name != "from_numpy"]  # which takes arrays alone, no tensors
