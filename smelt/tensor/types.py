"""The names that signatures use: dtype markers, shape variables, and what counts as a tensor, an axis or a shape.

`Tensor[Float32, Literal[2], Literal[3]]` is a float32 tensor of shape (2, 3) to a type checker, and a plain `Tensor`
is one of any dtype and shape. A dimension may be any type: a literal, or a class that names it (`class Batch(int):
...`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Union, Unpack

import numpy as np

from smelt.dtypes import DType, Scalar
from smelt.graph import IndexLike

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from typing_extensions import TypeVar, TypeVarTuple

    from smelt.tensor.tensor import Tensor

    DT = TypeVar("DT", default=Any)
    S = TypeVarTuple("S", default=Unpack[tuple[Any, ...]])
else:
    from typing import TypeVar, TypeVarTuple

    DT = TypeVar("DT")
    S = TypeVarTuple("S")

# Parts of a shape in the overloads of shape-aware functions.
R = TypeVarTuple("R")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
M = TypeVar("M")
N = TypeVar("N")
K = TypeVar("K")

Size = IndexLike
ShapeLike = Size | Sequence[Size]
Axes = int | Sequence[int] | None
DTypeLike = DType | str | type | np.dtype[Any]
Operand = Union["Tensor", Scalar, "NDArray[Any]", np.generic]
TensorLike = Operand | Sequence[Any]


class Bool:
    """Marks the dtype bool in annotations."""


class Int8:
    """Marks the dtype int8 in annotations."""


class Int16:
    """Marks the dtype int16 in annotations."""


class Int32:
    """Marks the dtype int32 in annotations."""


class Int64:
    """Marks the dtype int64 in annotations."""


class UInt8:
    """Marks the dtype uint8 in annotations."""


class UInt16:
    """Marks the dtype uint16 in annotations."""


class UInt32:
    """Marks the dtype uint32 in annotations."""


class UInt64:
    """Marks the dtype uint64 in annotations."""


class Float16:
    """Marks the dtype float16 in annotations."""


class BFloat16:
    """Marks the dtype bfloat16 in annotations."""


class Float32:
    """Marks the dtype float32 in annotations."""


class Float64:
    """Marks the dtype float64 in annotations."""
