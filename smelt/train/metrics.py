"""Metrics that are summed up where the tensors are, and read once at the end.

A metric is a module whose sums are buffers, so `update` may be called inside of `jit`, on a metric that is an argument
or that the function refers to, and outside. `value()` reads; `reset()` begins anew. A `mask` says which elements count,
such as those of a padded batch that are real.

>>> import smelt as sm
>>> accuracy = sm.train.Accuracy()
>>> accuracy.update(sm.asarray([[0.1, 0.9], [0.8, 0.2]]), sm.asarray([1, 1]))
>>> accuracy.update(sm.asarray([0, 1]), sm.asarray([0, 1]))
>>> accuracy.value()
0.75
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt import runtime
from smelt.dtypes import DType, bool_, float64, int64
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.sizes import count
from smelt.tensor import Tensor, arange, asarray, bincount, realize, where, zeros

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Metric(Module):
    """Sums that grow with `update`. Subclasses set `buffer_names` and the buffers, and give a `value`."""

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Count a batch."""
        raise NotImplementedError

    def value(self) -> Any:
        """The metric over everything since the last `reset`; here the sums are read."""
        raise NotImplementedError

    def reset(self) -> None:
        """Forget everything."""
        for name in self.buffer_names:
            old = getattr(self, name)
            setattr(self, name, zeros(old.shape, dtype=old.dtype))

    def _add(self, **more: Tensor) -> None:
        """Add to buffers. Outside of transforms that is computed at once, or each update would make the next longer."""
        for name, tensor in more.items():
            old = getattr(self, name)
            setattr(self, name, old + tensor.astype(old.dtype))
        if not runtime.is_tracing() and not runtime.is_transforming():
            realize(*(getattr(self, name) for name in more))


class _Ratio(Metric):
    """A sum over a count."""

    buffer_names = ("total", "count")
    total_dtype: DType = int64

    def __init__(self) -> None:
        self.total, self.count = zeros((), dtype=self.total_dtype), zeros((), dtype=int64)

    def value(self) -> float:
        """The mean; NaN where nothing was counted."""
        realize(self.total, self.count)
        number = int(self.count)
        return float(self.total) / number if number else float("nan")


class Mean(_Ratio):
    """The mean of all numbers given, such as losses. `weight` counts them several times: the size of the batch, say.

    >>> import smelt as sm
    >>> mean = sm.train.Mean()
    >>> mean.update(sm.asarray([1.0, 2.0]))
    >>> mean.update(6.0)
    >>> mean.value()
    3.0
    """

    total_dtype = float64

    def update(self, values: Any, mask: Tensor | None = None, weight: int = 1) -> None:
        """Count numbers; where there is a mask, only those at which it is True."""
        tensor = asarray(values).astype(float64)
        which = _mask(mask, tensor.shape, "Mean")
        if which is None:
            number = asarray(int(np.prod(tensor.shape, dtype=np.int64)))
        else:
            tensor, number = where(which, tensor, 0.0), which.astype(int64).sum()
        self._add(total=tensor.sum() * weight, count=number * weight)


class Accuracy(_Ratio):
    """The share of predictions that are the target. Predictions are classes, or scores of all classes along the last
    axis, of which the highest counts.

    >>> import smelt as sm
    >>> accuracy = sm.train.Accuracy()
    >>> accuracy.update(sm.asarray([1, 2, 3]), sm.asarray([1, 2, 0]), mask=sm.asarray([True, True, False]))
    >>> accuracy.value()
    1.0
    """

    def update(self, predictions: Tensor, targets: Tensor, mask: Tensor | None = None) -> None:
        """Count a batch."""
        found, wanted, which = _classes(predictions, targets, mask, "Accuracy")
        self._add(**_hits(found == wanted, which))


class TopK(_Ratio):
    """The share of targets that are among the k highest scores; of equal scores the first class counts as higher.

    >>> import smelt as sm
    >>> top = sm.train.TopK(2)
    >>> top.update(sm.asarray([[0.1, 0.5, 0.4], [0.6, 0.3, 0.1]]), sm.asarray([2, 2]))
    >>> top.value()
    0.5
    """

    def __init__(self, k: int = 5) -> None:
        super().__init__()
        self.k = count(k, "TopK", "k", 1)

    def update(self, predictions: Tensor, targets: Tensor, mask: Tensor | None = None) -> None:
        """Count a batch: scores of all classes along the last axis, and the right classes."""
        scores, wanted = asarray(predictions), _integers(targets, "TopK")
        if scores.shape[:-1] != wanted.shape or scores.ndim == 0:
            raise ShapeError(
                f"TopK: scores {shape_text(scores.shape)} for targets {shape_text(wanted.shape)}",
                rule="scores must have one axis more than targets: the classes, last.",
            )
        which = _mask(mask, wanted.shape, "TopK")
        classes = arange(scores.shape[-1])
        right = wanted.expand_dims(-1)
        own = where(classes == right, scores, 0).sum(-1, keepdims=True)
        higher = (scores > own) | ((scores == own) & (classes < right))
        valid = (wanted >= 0) & (wanted < scores.shape[-1])
        self._add(**_hits((higher.astype(int64).sum(-1) < self.k) & valid, which))


class ConfusionMatrix(Metric):
    """How often each class (row) was taken for each other (column). Classes out of range are not counted.

    >>> import smelt as sm
    >>> matrix = sm.train.ConfusionMatrix(2)
    >>> matrix.update(sm.asarray([0, 1, 1]), sm.asarray([0, 0, 1]))
    >>> matrix.value().tolist()
    [[1, 1], [0, 1]]
    >>> print(matrix)
         0  1
      0  1  1
      1  0  1
    """

    buffer_names = ("counts",)

    def __init__(self, classes: int) -> None:
        self.classes = count(classes, type(self).__name__, "the number of classes", 1)
        self.counts = zeros((self.classes, self.classes), dtype=int64)

    def update(self, predictions: Tensor, targets: Tensor, mask: Tensor | None = None) -> None:
        """Count a batch of predictions (classes, or scores along the last axis) and targets."""
        n = self.classes
        found, wanted, which = _classes(predictions, targets, mask, type(self).__name__)
        inside = (found >= 0) & (found < n) & (wanted >= 0) & (wanted < n)
        inside = inside if which is None else inside & which
        pairs = where(inside, wanted * n + found, n * n).reshape(-1)
        self._add(counts=bincount(pairs, length=n * n).reshape(n, n))

    def value(self) -> Any:
        """The counts, as a NumPy array."""
        return self.counts.numpy()

    def __str__(self) -> str:
        counts = self.counts.numpy()
        width = max(len(str(counts.max())), len(str(self.classes - 1)))
        rows = [["", *range(self.classes)], *([k, *row] for k, row in enumerate(counts.tolist()))]
        return "\n".join("  ".join(f"{cell!s:>{width + (k == 0) * 2}}" for k, cell in enumerate(row)) for row in rows)


_AVERAGES: Final = ("macro", "micro", "weighted", None)


class _PerClass(ConfusionMatrix):
    """A share for each class, and a mean of them: `macro` of all classes that occur, `weighted` by how often each does,
    `micro` over all elements; None for the shares themselves.
    """

    def __init__(self, classes: int, average: str | None = "macro") -> None:
        super().__init__(classes)
        if average not in _AVERAGES:
            raise ArgumentError(
                f"{type(self).__name__}: average is {average!r:.80}",
                rule=f"it must be one of {', '.join(map(repr, _AVERAGES))}.",
            )
        self.average = average

    def value(self) -> Any:
        """A number, or one for each class. A class without anything to divide by has 0."""
        counts = self.counts.numpy().astype(np.float64)
        hits, found, wanted = counts.diagonal(), counts.sum(0), counts.sum(1)
        if self.average == "micro":
            return float(self._share(*(np.asarray([x.sum()]) for x in (hits, found, wanted)))[0])
        shares = self._share(hits, found, wanted)
        if self.average is None:
            return shares
        weights = wanted if self.average == "weighted" else ((found + wanted) > 0).astype(np.float64)
        return float((shares * weights).sum() / weights.sum()) if weights.any() else float("nan")

    def _share(self, hits: NDArray[Any], found: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
        raise NotImplementedError

    __str__ = Module.__repr__


class Precision(_PerClass):
    """Of the elements that were taken for a class, the share that belongs to it.

    >>> import smelt as sm
    >>> precision = sm.train.Precision(2, average=None)
    >>> precision.update(sm.asarray([0, 1, 1, 1]), sm.asarray([0, 0, 0, 1]))
    >>> precision.value().round(2).tolist()
    [1.0, 0.33]
    """

    def _share(self, hits: NDArray[Any], found: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
        return _divided(hits, found)


class Recall(_PerClass):
    """Of the elements of a class, the share that was found.

    >>> import smelt as sm
    >>> recall = sm.train.Recall(2, average=None)
    >>> recall.update(sm.asarray([0, 1, 1, 1]), sm.asarray([0, 0, 0, 1]))
    >>> recall.value().round(2).tolist()
    [0.33, 1.0]
    """

    def _share(self, hits: NDArray[Any], found: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
        return _divided(hits, wanted)


class F1(_PerClass):
    """The harmonic mean of precision and recall.

    >>> import smelt as sm
    >>> f1 = sm.train.F1(2)
    >>> f1.update(sm.asarray([0, 1, 1, 1]), sm.asarray([0, 0, 0, 1]))
    >>> f1.value()
    0.5
    """

    def _share(self, hits: NDArray[Any], found: NDArray[Any], wanted: NDArray[Any]) -> NDArray[Any]:
        return _divided(2 * hits, found + wanted)


def _divided(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
    return np.asarray(np.divide(a, b, out=np.zeros_like(a), where=b > 0))


def _hits(hits: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
    """What `_Ratio` adds: how many are right, of how many."""
    if mask is None:
        return {"total": hits.astype(int64).sum(), "count": asarray(int(np.prod(hits.shape, dtype=np.int64)))}
    return {"total": (hits & mask).astype(int64).sum(), "count": mask.astype(int64).sum()}


def _classes(predictions: Any, targets: Any, mask: Any, name: str) -> tuple[Tensor, Tensor, Tensor | None]:
    """Predicted and right classes as integers of one shape, and the mask."""
    found, wanted = asarray(predictions), _integers(targets, name)
    if found.ndim == wanted.ndim + 1 and found.shape[:-1] == wanted.shape:
        found = found.argmax(-1)
    if found.shape != wanted.shape:
        raise ShapeError(
            f"{name}: predictions {shape_text(found.shape)} for targets {shape_text(wanted.shape)}",
            rule="predictions must have the shape of the targets, or one axis of scores more, last.",
        )
    if found.dtype.is_float:
        raise DTypeError(
            f"{name}: predictions of shape {shape_text(found.shape)} are {found.dtype}",
            rule="classes are integers; scores have one axis more than targets.",
            hint="For two classes compare first: (scores > 0).",
        )
    return found.astype(int64), wanted, _mask(mask, wanted.shape, name)


def _integers(targets: Any, name: str) -> Tensor:
    wanted = asarray(targets)
    if wanted.dtype.is_float:
        raise DTypeError(f"{name}: targets are {wanted.dtype}", rule="they must be integers: the right classes.")
    return wanted.astype(int64)


def _mask(mask: Any, shape: tuple[Any, ...], name: str) -> Tensor | None:
    """A mask spread to a shape: one that is given for the first axes counts for all that is along the others."""
    if mask is None:
        return None
    which = asarray(mask)
    if which.dtype is not bool_:
        raise DTypeError(f"{name}: the mask is {which.dtype}", rule="it must be bool: True for what counts.")
    if which.shape != shape[: which.ndim]:
        raise ShapeError(f"{name}: a mask {shape_text(which.shape)} for {shape_text(shape)}")
    return which.reshape(*which.shape, *([1] * (len(shape) - which.ndim))).broadcast_to(shape)
