"""Keys of `jax.random.key`, which are trees to smelt's transforms: numbers, and the kind that says what they mean."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np

from smelt import tree
from smelt.tensor import Tensor, asarray


class Kind(NamedTuple):
    """What a key is besides its numbers: its dtype, and how many of their axes are no axes of keys."""

    dtype: Any
    axes: int


class Key:
    """What stands for keys where a function is traced, and what comes back from there."""

    __slots__ = ("data", "kind")

    def __init__(self, kind: Kind, data: Tensor) -> None:
        self.kind, self.data = kind, data

    @property
    def dtype(self) -> Any:
        """JAX's type of such keys."""
        return self.kind.dtype

    @property
    def shape(self) -> tuple[Any, ...]:
        """How many keys there are, along each axis."""
        return self.data.shape[: len(self.data.shape) - self.kind.axes]

    def __repr__(self) -> str:
        return f"Key({self.dtype}{self.shape})"


@cache
def keys_are_trees(jax: Any) -> None:
    """Let `jit`, `vmap` and others look into keys of JAX's, which are arrays that no tensor can hold."""

    def numbers(key: Any) -> tuple[tuple[Any, ...], Kind]:
        data = asarray(jax.random.key_data(key))
        return (data,), Kind(key.dtype, data.ndim - key.ndim)

    with jax.ensure_compile_time_eval():  # a key, and not what stands for one: their class has no public name
        one = jax.random.wrap_key_data(np.zeros(2, np.uint32), impl="threefry2x32")
    tree.register(type(one), numbers, lambda kind, data: Key(kind, *data))
    tree.register(Key, lambda key: ((key.data,), key.kind), lambda kind, data: Key(kind, *data))
