"""What Python's operators do. An operand that is no number, list, array or tensor is left to its own type to handle;
so are arrays of libraries whose operators take tensors.

The overloads let a type checker follow shapes through arithmetic: equal shapes, scalars, and the two usual
broadcasts. Other broadcasts between tensors with annotated shapes need `broadcast_to`, or a plain `Tensor`
annotation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, cast, overload
from typing import Literal as L

import numpy as np

from smelt.tensor.handle import OPERANDS
from smelt.tensor.math import elementwise
from smelt.tensor.types import DT, N, R, S

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.tensor.tensor import Tensor

Array: TypeAlias = "NDArray[Any] | np.generic"
F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

_TAKE_TENSORS = ("jax", "jaxlib")  # libraries whose operators do, and give arrays of theirs


@overload
def add(x: Tensor[DT, *S], y: Tensor[DT, *S], /) -> Tensor[DT, *S]: ...
@overload
def add(x: Tensor[DT, *S], y: float, /) -> Tensor[DT, *S]: ...
@overload
def add(x: Tensor[DT, *R, N], y: Tensor[DT, N], /) -> Tensor[DT, *R, N]: ...
@overload
def add(x: Tensor[DT, *R, N], y: Tensor[DT, *R, L[1]], /) -> Tensor[DT, *R, N]: ...
@overload
def add(x: Tensor[DT, *S], y: Array, /) -> Tensor: ...
def add(x: Any, y: Any, /) -> Any:
    return elementwise.add(x, y) if isinstance(y, OPERANDS) or _foreign(y) else NotImplemented


@overload
def subtract(x: Tensor[DT, *S], y: Tensor[DT, *S], /) -> Tensor[DT, *S]: ...
@overload
def subtract(x: Tensor[DT, *S], y: float, /) -> Tensor[DT, *S]: ...
@overload
def subtract(x: Tensor[DT, *R, N], y: Tensor[DT, N], /) -> Tensor[DT, *R, N]: ...
@overload
def subtract(x: Tensor[DT, *R, N], y: Tensor[DT, *R, L[1]], /) -> Tensor[DT, *R, N]: ...
@overload
def subtract(x: Tensor[DT, *S], y: Array, /) -> Tensor: ...
def subtract(x: Any, y: Any, /) -> Any:
    return elementwise.subtract(x, y) if isinstance(y, OPERANDS) or _foreign(y) else NotImplemented


@overload
def multiply(x: Tensor[DT, *S], y: Tensor[DT, *S], /) -> Tensor[DT, *S]: ...
@overload
def multiply(x: Tensor[DT, *S], y: float, /) -> Tensor[DT, *S]: ...
@overload
def multiply(x: Tensor[DT, *R, N], y: Tensor[DT, N], /) -> Tensor[DT, *R, N]: ...
@overload
def multiply(x: Tensor[DT, *R, N], y: Tensor[DT, *R, L[1]], /) -> Tensor[DT, *R, N]: ...
@overload
def multiply(x: Tensor[DT, *S], y: Array, /) -> Tensor: ...
def multiply(x: Any, y: Any, /) -> Any:
    return elementwise.multiply(x, y) if isinstance(y, OPERANDS) or _foreign(y) else NotImplemented


@overload
def divide(x: Tensor[DT, *S], y: Tensor[DT, *S], /) -> Tensor[DT, *S]: ...
@overload
def divide(x: Tensor[DT, *S], y: float, /) -> Tensor[DT, *S]: ...
@overload
def divide(x: Tensor[DT, *R, N], y: Tensor[DT, N], /) -> Tensor[DT, *R, N]: ...
@overload
def divide(x: Tensor[DT, *R, N], y: Tensor[DT, *R, L[1]], /) -> Tensor[DT, *R, N]: ...
@overload
def divide(x: Tensor[DT, *S], y: Array, /) -> Tensor: ...
def divide(x: Any, y: Any, /) -> Any:
    return elementwise.divide(x, y) if isinstance(y, OPERANDS) or _foreign(y) else NotImplemented


def _foreign(y: Any) -> bool:
    """Whether y is an array of a library whose operators refuse tensors: `==` would be False, silently."""
    kind = type(y)
    return hasattr(kind, "__dlpack__") and kind.__module__.partition(".")[0] not in _TAKE_TENSORS


def forward(function: F) -> F:
    """The operator method for x ∘ y."""

    def operator(x: Any, y: Any, /) -> Any:
        return function(x, y) if isinstance(y, OPERANDS) or _foreign(y) else NotImplemented

    return cast(F, operator)


def reflected(function: Callable[[Any, Any], T]) -> Callable[[Tensor[DT, *S], float | Array], T]:
    """The operator method for y ∘ x, when y does not know tensors."""

    def operator(x: Any, y: Any, /) -> Any:
        return function(y, x) if isinstance(y, OPERANDS) or _foreign(y) else NotImplemented

    return operator
