"""How a batch is made: items taken or stacked, transformed, padded, and turned into tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from smelt.data.datasets import Dataset, taking
from smelt.data.order import generator
from smelt.dtypes import as_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.tensor import Tensor, asarray, from_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

Collate = Callable[[list[Any]], Any]
Transform = Callable[[Any], Any]
Augment = Callable[[Any, np.random.Generator], Any]

MASK = "mask"  # its name in batches that are dictionaries


class Recipe(NamedTuple):
    """All that is needed to make any batch of a loader, in whichever thread or process."""

    dataset: Dataset
    collate: Collate | None
    transform: Transform | None
    augment: Augment | None
    padded: int | None  # the size that all batches get
    seed: int

    def arrays(self, indices: NDArray[np.int64], epoch: int, number: int) -> Any:
        """A batch as a tree of arrays."""
        take = taking(self.dataset) if self.collate is None else None
        if take is not None:
            batch = take(indices)
        else:
            batch = (self.collate or stacked)([self.dataset[int(index)] for index in indices])
        if self.augment is not None:
            batch = self.augment(batch, generator(self.seed, epoch, number))
        if self.transform is not None:
            batch = self.transform(batch)
        return batch if self.padded is None else _with_mask(batch, len(indices), self.padded)


def tensors(batch: Any) -> Any:
    """A tree of arrays as one of tensors that share their memory; what is neither stays as it is."""
    if isinstance(batch, np.ndarray | np.generic):
        array = np.asarray(batch)
        try:
            as_dtype(array.dtype)
        except DTypeError:
            return batch
        return from_numpy(array)
    return _mapped(tensors, batch)


def _mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """A tuple, list or dictionary with a function applied to what is in it."""
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[function(item) for item in value])
    if isinstance(value, tuple | list):
        return type(value)([function(item) for item in value])
    if isinstance(value, dict):
        return {key: function(item) for key, item in value.items()}
    return value


def stacked(items: list[Any]) -> Any:
    """Items as one batch: numbers and arrays get a new first axis, tuples and dictionaries are batched part by part,
    and anything else stays a list.
    """
    first = items[0]
    if isinstance(first, tuple | list):
        if len({len(item) for item in items}) != 1:
            raise ShapeError(
                "the items of a batch have different lengths", hint="Give the loader collate= to pad them."
            )
        columns = [stacked([item[k] for item in items]) for k in range(len(first))]
        return type(first)(*columns) if hasattr(first, "_fields") else tuple(columns)
    if isinstance(first, Mapping):
        if any(item.keys() != first.keys() for item in items):
            raise ArgumentError("the items of a batch have different keys")
        return {key: stacked([item[key] for item in items]) for key in first}
    if isinstance(first, float) and not isinstance(first, np.generic):
        return np.asarray(items, np.float32)
    if isinstance(first, bool | int | np.generic):
        return np.asarray(items)
    if hasattr(first, "__array__") or hasattr(first, "__dlpack__"):
        rows = [item if isinstance(item, np.ndarray) else asarray(item).numpy() for item in items]
        shapes = {row.shape for row in rows}
        if len(shapes) > 1:
            raise ShapeError(
                f"the items of a batch have shapes {', '.join(map(str, sorted(shapes)[:4]))}",
                hint="Give the loader collate= to pad them.",
            )
        return np.stack(rows)
    return items


def _with_mask(batch: Any, real: int, size: int) -> Any:
    """A batch of `size` with zeros at its end, and a mask that is True for what is real."""

    def filled(value: Any) -> Any:
        if isinstance(value, Tensor):
            value = value.numpy()
        if not isinstance(value, np.ndarray):
            return _mapped(filled, value)
        if value.ndim == 0 or value.shape[0] != real:
            raise ShapeError(
                f"a batch of {real} has an array of shape {value.shape}",
                rule="to be padded, the first axis of all arrays must count the items.",
            )
        if real == size:
            return value
        out = np.zeros((size, *value.shape[1:]), value.dtype)
        out[:real] = value
        return out

    whole, mask = filled(batch), np.arange(size) < real
    if isinstance(whole, dict):
        if MASK in whole:
            raise ArgumentError(f"a padded batch gets a {MASK!r}, which the items have already")
        return {**whole, MASK: mask}
    if isinstance(whole, tuple | list):
        return (*whole, mask)
    return whole, mask
