"""Datasets: anything with a length and items by number. Those that can, give many items at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, overload

import numpy as np

from smelt.data.order import permutation
from smelt.errors import ArgumentError, IndexRangeError, ShapeError
from smelt.shown import Shown
from smelt.tensor import Tensor, from_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeVar

    D_co = TypeVar("D_co", bound="Dataset", covariant=True, default=Any)
    D = TypeVar("D", bound="Dataset")
else:
    from typing import TypeVar

    D_co = TypeVar("D_co", covariant=True)


class Dataset(Protocol):
    """What a `DataLoader` goes through: `len(dataset)` items, `dataset[0]` to `dataset[len(dataset) - 1]`.

    An item is a number, an array, or a tuple or dictionary of them; the same kind for all.
    """

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> Any: ...


class Rows(Dataset, Protocol):
    """A dataset that gives several items at once, as a tuple of arrays."""

    def take(self, indices: NDArray[np.int64], /) -> tuple[NDArray[Any], ...]: ...


Take = Callable[["NDArray[np.int64]"], Any]


def taking(dataset: Any) -> Take | None:
    """How a dataset gives many items at once, in arrays with a new first axis, if it can: by a method `take(indices)`.
    Of arrays and tensors, whose method means something else, rows are taken.
    """
    if isinstance(dataset, np.ndarray | Tensor):
        return partial(_as_array(dataset).take, axis=0)
    found: Take | None = getattr(dataset, "take", None)
    return found


class ArrayDataset:
    """Arrays or tensors of equal length side by side: an item is a tuple with a row of each.

    The arrays are used as they are and must not change meanwhile. A batch is one `take` per array.

    >>> import smelt as sm
    >>> dataset = sm.data.ArrayDataset(np.arange(6).reshape(3, 2), [10, 20, 30])
    >>> len(dataset), dataset[1]
    (3, (array([2, 3]), np.int64(20)))
    """

    def __init__(self, *arrays: Any) -> None:
        name = type(self).__name__
        if not arrays:
            raise ArgumentError(f"{name}: there is no array")
        self.arrays: tuple[NDArray[Any], ...] = tuple([_as_array(array) for array in arrays])
        lengths = [array.shape[0] if array.ndim else None for array in self.arrays]
        if None in lengths or len(set(lengths)) > 1:
            raise ShapeError(
                f"{name}: the arrays have shapes {', '.join([str(array.shape) for array in self.arrays])}",
                rule="their first axis counts the items, and must be as long for all.",
            )

    def __repr__(self) -> str:
        rows = ", ".join([f"{array.dtype}{array.shape[1:]}" for array in self.arrays])
        return f"{type(self).__name__} of {len(self)} items: {rows}"

    def __len__(self) -> int:
        return int(self.arrays[0].shape[0])

    def __getitem__(self, index: int, /) -> Any:
        at = checked_index(index, len(self))
        return tuple([array[at] for array in self.arrays])

    def take(self, indices: NDArray[np.int64], /) -> tuple[NDArray[Any], ...]:
        """The rows at these places, of each array."""
        return tuple([array.take(indices, 0) for array in self.arrays])


class TensorDataset(ArrayDataset):
    """Tensors of equal length side by side: an item is a tuple with a row of each, as tensors.

    >>> import smelt as sm
    >>> sm.data.TensorDataset(sm.arange(3), sm.ones(3, 2))[2][1].tolist()
    [1.0, 1.0]
    """

    def __getitem__(self, index: int, /) -> Any:
        at = checked_index(index, len(self))
        return tuple([from_numpy(array[at : at + 1].reshape(array.shape[1:])) for array in self.arrays])


class NamedArrays(ArrayDataset):
    """Arrays of equal length side by side: an item is a dictionary with a row of each."""

    def __init__(self, arrays: Mapping[Any, Any]) -> None:
        super().__init__(*arrays.values())
        self.names = tuple(arrays)

    def __getitem__(self, index: int, /) -> Any:
        return dict(zip(self.names, super().__getitem__(index), strict=True))

    def take(self, indices: NDArray[np.int64], /) -> Any:
        return dict(zip(self.names, super().take(indices), strict=True))


def side_by_side(dataset: Any) -> Any:
    """The dataset itself; of a tuple or dictionary of arrays, which means one row of each, a dataset of these."""
    if isinstance(dataset, Mapping) and not all(isinstance(key, int) for key in dataset):
        for key, part in dataset.items():
            if not _has_rows(part) and not isinstance(part, list):
                raise ArgumentError(
                    f"a dictionary is no dataset if {key!r} is of type {type(part).__name__}",
                    rule="its values must be arrays, whose first axis counts the items.",
                )
        return NamedArrays(dataset)
    is_pair = isinstance(dataset, tuple) and dataset and all(_has_rows(part) for part in dataset)
    return ArrayDataset(*dataset) if is_pair else dataset


def _has_rows(value: Any) -> bool:
    """Whether a value is an array, of any library, with at least one axis."""
    return (hasattr(value, "__array__") or hasattr(value, "__dlpack__")) and len(getattr(value, "shape", ())) > 0


class MapDataset(Shown):
    """Another dataset with a function applied to each item.

    >>> import smelt as sm
    >>> sm.data.MapDataset(range(5), lambda n: n * n)[3]
    9
    """

    def __init__(self, dataset: Dataset, function: Callable[[Any], Any]) -> None:
        self.dataset, self.function = dataset, function

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> Any:
        return self.function(self.dataset[index])


class Subset(Generic[D_co]):
    """Some items of another dataset, in a given order.

    >>> import smelt as sm
    >>> subset = sm.data.Subset(sm.data.ArrayDataset([5, 6, 7]), [2, 0])
    >>> len(subset), int(subset[0][0])
    (2, 7)
    """

    def __init__(self, dataset: D_co, indices: Sequence[int] | NDArray[np.int64]) -> None:
        self.dataset = dataset
        self.indices = np.asarray(indices)
        if self.indices.size == 0:
            self.indices = self.indices.astype(np.int64)
        if self.indices.ndim != 1 or self.indices.dtype.kind not in "iu":
            raise ArgumentError(
                f"Subset: indices of shape {self.indices.shape} and type {self.indices.dtype}",
                rule="they must be a list of integers.",
            )
        self.indices = self.indices.astype(np.int64)
        outside = (self.indices < 0) | (self.indices >= len(dataset))
        if outside.any():
            raise IndexRangeError(f"Subset: {self.indices[outside][0]} is not an item of a dataset of {len(dataset)}")

    def __repr__(self) -> str:
        return f"Subset: {len(self)} of {self.dataset!r}"

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int, /) -> Any:
        return self.dataset[int(self.indices[checked_index(index, len(self))])]

    def __getattr__(self, name: str) -> Any:
        """`take`, if the other dataset has it."""
        take = taking(self.__dict__.get("dataset")) if name == "take" else None
        if take is None:
            raise AttributeError(f"Subset has no attribute {name!r}")
        return lambda indices: take(self.indices[indices])


@overload
def random_split(
    dataset: tuple[Any, ...], lengths: Sequence[int | float], seed: int = ...
) -> list[Subset[ArrayDataset]]: ...
@overload
def random_split(dataset: D, lengths: Sequence[int | float], seed: int = ...) -> list[Subset[D]]: ...
def random_split(
    dataset: Dataset | tuple[Any, ...], lengths: Sequence[int | float], seed: int = 0
) -> list[Subset[Any]]:
    """Parts of a dataset, or of a tuple of arrays, without common items, the same for the same seed. Lengths are
    numbers of items, or shares that add up to 1; what rounding leaves over goes to the first parts.

    >>> import smelt as sm
    >>> train, test = sm.data.random_split(range(10), [0.8, 0.2])
    >>> len(train), len(test)
    (8, 2)
    """
    dataset = side_by_side(dataset)
    count = len(dataset)
    sizes = _sizes(lengths, count)
    order = permutation(count, seed)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


def _sizes(lengths: Sequence[int | float], count: int) -> list[int]:
    if all(isinstance(length, int) and not isinstance(length, bool) and length >= 0 for length in lengths):
        if sum(lengths) == count:
            return [int(length) for length in lengths]
    elif all(isinstance(length, int | float) and length >= 0 for length in lengths) and abs(sum(lengths) - 1) < 1e-6:
        sizes = [int(count * length + 1e-9) for length in lengths]
        for k in range(count - sum(sizes)):
            sizes[k % len(sizes)] += 1
        return sizes
    raise ArgumentError(
        f"random_split: lengths {lengths!r:.80} for a dataset of {count}",
        rule=f"they must be integers that add up to {count}, or shares that add up to 1.",
    )


def checked_index(index: Any, length: int) -> int:
    """A place in a dataset, counted from the front."""
    try:
        at = operator.index(index)
    except TypeError:
        raise ArgumentError(f"a dataset has items by number, not by {type(index).__name__}") from None
    if not -length <= at < length:
        raise IndexRangeError(f"{at} is not an item of a dataset of {length}")
    return at % length


def _as_array(value: Any) -> NDArray[Any]:
    return value.numpy() if isinstance(value, Tensor) else np.asarray(value)
