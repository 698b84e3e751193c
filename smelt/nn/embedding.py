"""Tables whose rows are found by number: one row for each, or the rows of a bag folded to one."""

from __future__ import annotations

from typing import Any, Self

from smelt.dtypes import int64
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import shape_text
from smelt.nn.module import Module
from smelt.nn.sizes import count, one_of, tensor
from smelt.tensor import Tensor, arange, embedding, flag, full, integer, maximum, random, searchsorted, where, zeros
from smelt.transform import stop_gradient

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A table of rows, of which one may stand for nothing."""

    def _set_rows(self, num_embeddings: int, embedding_dim: int, padding_idx: Any, max_norm: float | None) -> None:
        name = type(self).__name__
        self.num_embeddings = count(num_embeddings, name, "num_embeddings", 1)
        self.embedding_dim = count(embedding_dim, name, "embedding_dim")
        self.padding_idx = _row(padding_idx, num_embeddings, name)
        if max_norm is not None:
            raise ArgumentError(
                f"{name}: max_norm is not supported",
                rule="a call does not change weights.",
                hint="Scale the rows of `weight` after each update instead.",
            )
        self.weight = random.normal((num_embeddings, embedding_dim))
        if self.padding_idx is not None:
            self.weight = self.weight.at[self.padding_idx].set(0.0)

    def _rows(self, x: Tensor) -> Tensor:
        """The rows; that of `padding_idx` counts as a constant."""
        rows, present = embedding(x, self.weight), self._present(x)
        return rows if present is None else where(present.expand_dims(-1), rows, stop_gradient(rows))

    def _present(self, x: Tensor) -> Tensor | None:
        """Where a row is not that of `padding_idx`, if there is one. Negative numbers count from the end."""
        if self.padding_idx is None:
            return None
        numbers = x.astype(int64)
        return where(numbers < 0, numbers + self.num_embeddings, numbers) != self.padding_idx


def _row(value: Any, rows: int, name: str) -> int | None:
    if value is None:
        return None
    number = integer(value, name, "padding_idx")
    if not -rows <= number < rows:
        raise ArgumentError(f"{name}: padding_idx is {number}", rule=f"the table has {rows} rows.")
    return number % rows


def _indices(x: Any, name: str) -> Tensor:
    given = tensor(x)
    if not given.dtype.is_integer:
        raise DTypeError(f"{name}: the input is {given.dtype}", rule="it must be integers: the numbers of rows.")
    return given


class Embedding(_Table):
    """The rows of a table that integers of any shape name.

    The row `padding_idx` begins as zeros, and its gradient is zero.

    >>> import smelt as sm
    >>> sm.nn.Embedding(10, 3)(sm.asarray([[1, 2], [3, 4]])).shape
    (2, 2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
    ) -> None:
        self._set_rows(num_embeddings, embedding_dim, padding_idx, max_norm)

    def __call__(self, x: Tensor) -> Tensor:
        return self._rows(_indices(x, "Embedding"))

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: int | None = None) -> Self:
        """An embedding with this table, frozen unless `freeze` is False."""
        table = tensor(embeddings)
        if table.ndim != 2:
            raise ShapeError(f"Embedding: the table has shape {shape_text(table.shape)}", rule="it must be a matrix.")
        module = cls(table.shape[0], table.shape[1], padding_idx)
        module.weight = table
        return module.freeze() if freeze else module


class EmbeddingBag(_Table):
    """The rows that a bag of integers names, folded by "sum", "mean" or "max".

    A matrix has a bag in each row. A vector comes with `offsets`, where each bag begins; the first begins at 0.
    `per_sample_weights` are factors of the rows, for "sum". The row `padding_idx` is in no bag, and an empty bag gives
    zeros.

    >>> import smelt as sm
    >>> bag = sm.nn.EmbeddingBag(10, 3, mode="sum")
    >>> bag(sm.asarray([[1, 2], [3, 4]])).shape
    (2, 3)
    >>> bag(sm.asarray([1, 2, 3, 4, 5]), sm.asarray([0, 4])).shape
    (2, 3)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        *,
        mode: str = "mean",
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> None:
        self.mode = one_of(mode, ("sum", "mean", "max"), "EmbeddingBag", "mode")
        self.include_last_offset = flag(include_last_offset, "EmbeddingBag", "include_last_offset")
        self._set_rows(num_embeddings, embedding_dim, padding_idx, max_norm)

    def __call__(self, x: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        x = _indices(x, "EmbeddingBag")
        _check_bags(x, offsets)
        rows = self._rows(x)
        if per_sample_weights is not None:
            rows = rows * self._factors(x, per_sample_weights)
        present = self._present(x)
        if present is not None:
            nothing = -float("inf") if self.mode == "max" else 0.0
            rows = where(present.expand_dims(-1), rows, nothing)
        if offsets is None:
            return self._folded(rows, present)
        starts = _indices(offsets, "EmbeddingBag")
        return self._gathered(rows, present, starts[:-1] if self.include_last_offset else starts)

    def _factors(self, x: Tensor, weights: Any) -> Tensor:
        factors = tensor(weights)
        if self.mode != "sum":
            raise ArgumentError(f"EmbeddingBag: per_sample_weights with mode {self.mode!r}", rule='they need "sum".')
        if factors.shape != x.shape:
            raise ShapeError(
                f"EmbeddingBag: per_sample_weights have shape {shape_text(factors.shape)}",
                rule=f"they must have that of the input, {shape_text(x.shape)}.",
            )
        return factors.expand_dims(-1)

    def _folded(self, rows: Tensor, present: Tensor | None) -> Tensor:
        """Bags along axis 1."""
        if self.mode == "sum":
            return rows.sum(1)
        number = full(rows.shape[:1], rows.shape[1], dtype=int64) if present is None else present.sum(1)
        if self.mode == "mean":
            return _mean(rows.sum(1), number)
        return zeros((rows.shape[0], rows.shape[2])) if rows.shape[1] == 0 else _or_zeros(rows.max(1), number)

    def _gathered(self, rows: Tensor, present: Tensor | None, starts: Tensor) -> Tensor:
        """Bags that begin at `starts`."""
        bag = maximum(searchsorted(starts, arange(rows.shape[0]), side="right") - 1, 0)
        shape = (starts.shape[0], self.embedding_dim)
        ones = full(rows.shape[:1], 1, dtype=int64) if present is None else present.astype(int64)
        number = zeros(shape[:1], dtype=int64).at[bag].add(ones)
        if self.mode == "max":
            return _or_zeros(full(shape, -float("inf"), dtype=rows.dtype).at[bag].max(rows), number)
        total = zeros(shape, dtype=rows.dtype).at[bag].add(rows)
        return total if self.mode == "sum" else _mean(total, number)


def _check_bags(x: Tensor, offsets: Any) -> None:
    if x.ndim not in (1, 2):
        raise ShapeError(f"EmbeddingBag: the input has shape {shape_text(x.shape)}", rule="its rank must be 1 or 2.")
    if (x.ndim == 1) == (offsets is None):
        raise ArgumentError(
            f"EmbeddingBag: the input has rank {x.ndim}, and there are {'no ' if offsets is None else ''}offsets",
            rule="a vector needs offsets, a matrix has a bag in each row.",
        )
    if offsets is not None and tensor(offsets).ndim != 1:
        raise ShapeError(f"EmbeddingBag: offsets have shape {shape_text(offsets.shape)}", rule="they are a vector.")


def _mean(total: Tensor, number: Tensor) -> Tensor:
    return total / maximum(number, 1).astype(total.dtype).expand_dims(-1)


def _or_zeros(largest: Tensor, number: Tensor) -> Tensor:
    return where((number > 0).expand_dims(-1), largest, 0.0)
