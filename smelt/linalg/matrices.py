"""What the functions of matrices share: their checks, and small steps of their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from smelt.dtypes import DType, int64
from smelt.errors import ShapeError
from smelt.graph import IndexLike, Node, Shape, broadcast_shapes, build, marked, shape_text
from smelt.tensor import Tensor, floating, pair, where, widened, wrap


def matrices(x: Any, name: str) -> tuple[Tensor, DType]:
    """A batch of matrices of floats or complex numbers, as wide as formulas are computed, and the dtype that results
    have.
    """
    node = floating(x, name)
    check_matrices(node, name)
    return wrap(widened(node)), node.dtype


def square_matrices(x: Any, name: str) -> tuple[Tensor, DType]:
    """The same, of square ones."""
    node = floating(x, name)
    check_square(node, name)
    return wrap(widened(node)), node.dtype


def pair_of(x1: Any, x2: Any, name: str) -> tuple[Tensor, Tensor, DType]:
    """Two operands in their common dtype, as wide as formulas are computed, and that dtype."""
    a, b = (floating(wrap(node), name) for node in pair(x1, x2, name))
    return wrap(widened(a)), wrap(widened(b)), a.dtype


def check_matrices(node: Node, name: str) -> None:
    """Refuse what has no two last axes."""
    if node.rank < 2:
        raise ShapeError(
            f"{name}: shape {shape_text(node.shape)} has rank {node.rank}",
            rule="the last two axes are those of matrices, so there must be two or more.",
        )


def check_square(node: Node, name: str) -> None:
    """Refuse matrices that are not square."""
    check_matrices(node, name)
    if node.shape[-2] != node.shape[-1]:
        raise ShapeError(
            f"{name}: the matrices are not square\n" + marked((node.shape, {node.rank - 2, node.rank - 1})),
            rule="the last two axes must have the same size.",
        )


def rounded(x: Tensor, dtype: DType) -> Tensor:
    """A result in the dtype that it is given out in; a real one of complex matrices in that of their parts."""
    return wrap(build.cast(x._node, dtype if x._node.dtype.is_complex else dtype.part))


def adjoint(x: Tensor) -> Tensor:
    """The conjugate transpose, which is the transpose of real matrices."""
    return x.mT.conj()


def shape_of(x: Tensor) -> Shape:
    """The sizes, of which some may be symbolic."""
    return x._node.shape


def batch_of(x: Tensor) -> Shape:
    """The sizes before those of the matrices."""
    return x._node.shape[:-2]


def over(x: Tensor, batch: Shape) -> Tensor:
    """Matrices repeated along axes in front of them."""
    return wrap(build.broadcast_to(x._node, (*batch, *shape_of(x)[-2:])))


def spread(a: Tensor, b: Tensor, name: str) -> tuple[Tensor, Tensor]:
    """Two batches of matrices with the same axes in front."""
    batch = broadcast_shapes(batch_of(a), batch_of(b), name)
    return over(a, batch), over(b, batch)


def on_diagonal(size: IndexLike) -> Tensor:
    """Where the diagonal of a square matrix is."""
    places = build.iota(size, int64)
    return wrap(build.eq(build.reshape(places, (size, 1)), build.reshape(places, (1, size))))


def identity(size: IndexLike, like: Tensor) -> Tensor:
    """One matrix with ones on its diagonal."""
    return wrap(build.cast(on_diagonal(size)._node, like._node.dtype))


def diagonal_values(x: Tensor) -> Tensor:
    """The diagonal of square matrices, of any size."""
    size = shape_of(x)[-1]
    return x.diagonal() if isinstance(size, int) else where(on_diagonal(size), x, 0.0).sum(-1)


def symmetric(x: Tensor) -> Tensor:
    """The symmetric part, which is the Hermitian one of complex matrices."""
    return (x + adjoint(x)) * 0.5


def turning(x: Tensor) -> Tensor:
    """What is imaginary on the diagonal: of complex factors, how much each vector turns."""
    return where(on_diagonal(shape_of(x)[-1]), x - x.real, 0.0)


def half_triangle(x: Tensor) -> Tensor:
    """The lower triangle, with half of the diagonal: half of a symmetric matrix."""
    return where(on_diagonal(shape_of(x)[-1]), x * 0.5, x.tril())


def gap_reciprocals(gaps: Tensor) -> Tensor:
    """1/gap for each two of some values, and 0 on the diagonal. Infinite where two values are equal."""
    own = on_diagonal(shape_of(gaps)[-1])
    return where(own, 0.0, 1 / where(own, 1.0, gaps))


def finite(x: Any) -> Any:
    """An array for which singular vectors can be found: of infinite elements, LAPACK may never come back."""
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError
    return x
