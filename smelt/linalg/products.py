"""Functions of vectors and matrices that are ordinary tensor code."""

from __future__ import annotations

from smelt.errors import DTypeError, ShapeError
from smelt.graph import Index, marked, normalized_axis
from smelt.linalg.matrices import check_matrices, shape_of
from smelt.tensor import DTypeLike, Tensor, diagonal_number, integer, node_of, pair, stack, wrap

__all__ = ["cross", "diagonal", "trace"]


def cross(x: Tensor, y: Tensor, *, axis: int = -1) -> Tensor:
    """The vector product of vectors of three elements along an axis; the other axes broadcast.

    >>> import smelt as sm
    >>> sm.linalg.cross(sm.asarray([1.0, 0.0, 0.0]), sm.asarray([0.0, 1.0, 0.0])).tolist()
    [0.0, 0.0, 1.0]
    """
    a, b = pair(x, y, "cross")
    if a.dtype.is_bool:
        raise DTypeError("cross: bool is not supported", hint="Cast to an integer or a float first.")
    along = integer(axis, "cross", "axis")
    places = [normalized_axis(along, node.rank, "cross") for node in (a, b)]
    for node, place in zip((a, b), places, strict=True):
        if node.shape[place] != 3:
            raise ShapeError(
                f"cross: the vectors have no three elements\n{marked((node.shape, {place}))}",
                rule=f"axis {along} of both must have size 3.",
            )
    if a.rank - places[0] != b.rank - places[1]:
        raise ShapeError(
            f"cross: axis {along} is not the same one of tensors of rank {a.rank} and {b.rank}",
            rule="axes broadcast from the last one on, so count the axis from there: it is negative.",
        )
    behind = a.rank - places[0]
    first, second = ([wrap(node)[(..., k, *[slice(None)] * (behind - 1))] for k in range(3)] for node in (a, b))
    parts = [first[k - 2] * second[k - 1] - first[k - 1] * second[k - 2] for k in range(3)]
    return stack(parts, axis=-behind)


def diagonal(x: Tensor, *, offset: int = 0) -> Tensor:
    """The elements of each matrix whose column is `offset` further than its row, along a new last axis.

    >>> import smelt as sm
    >>> sm.linalg.diagonal(sm.arange(9).reshape(3, 3), offset=1).tolist()
    [1, 5]
    """
    node = node_of(x, "diagonal")
    check_matrices(node, "diagonal")
    return wrap(node).diagonal(offset=integer(offset, "diagonal", "offset"))


def trace(x: Tensor, *, offset: int = 0, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of the elements of a diagonal of each matrix.

    >>> import smelt as sm
    >>> sm.linalg.trace(sm.arange(9).reshape(3, 3)).item()
    12
    """
    node = node_of(x, "trace")
    check_matrices(node, "trace")
    given, place = wrap(node), diagonal_number(offset, "trace", "offset")
    if any(isinstance(size, Index) for size in shape_of(given)[-2:]):
        return (given.tril(place).triu(place)).sum((-2, -1), dtype=dtype)
    return given.diagonal(offset=place).sum(-1, dtype=dtype)
