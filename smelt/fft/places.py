"""Which frequency stands where, and the zero frequency in the middle."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt import dtypes
from smelt.dtypes import as_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.graph import build, normalized_axes
from smelt.tensor import DTypeLike, asarray, integer, node_of, real_number, wrap
from smelt.tensor import roll as _roll

if TYPE_CHECKING:
    from smelt.tensor import Tensor


def fftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """The frequencies of `fft` of n elements that are d apart: 0 and up, then the negative ones.

    >>> sm.fft.fftfreq(5).tolist()
    [0.0, 0.20000000298023224, 0.4000000059604645, -0.4000000059604645, -0.20000000298023224]
    """
    return _frequencies("fftfreq", n, d, dtype, device, range(-(n // 2), 0))


def rfftfreq(n: int, d: float = 1.0, *, dtype: DTypeLike | None = None, device: Any = None) -> Tensor:
    """The frequencies of `rfft` of n elements that are d apart.

    >>> sm.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", n, d, dtype, device, None)


def _frequencies(name: str, n: int, d: float, dtype: DTypeLike | None, device: Any, below: range | None) -> Tensor:
    count, step = integer(n, name, "n"), real_number(d, name, "d")
    if count < 1 or step == 0:
        raise ArgumentError(f"{name}: n is {n} and d is {d}", rule="n is 1 at least, and d is not 0.")
    wanted = as_dtype(dtype or dtypes.float32, name)
    if not wanted.is_float:
        raise DTypeError(f"{name}: the dtype must be a float, got {wanted}")
    numbers = [*range((count + 1) // 2), *below] if below is not None else [*range(count // 2 + 1)]
    return asarray([k / (count * step) for k in numbers], dtype=wanted, device=device)


def fftshift(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """The zero frequency in the middle of the axes (all, unless given).

    >>> sm.fft.fftshift(sm.asarray([0, 1, 2, -2, -1])).tolist()
    [-2, -1, 0, 1, 2]
    """
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Tensor, axes: int | Sequence[int] | None = None) -> Tensor:
    """The inverse of `fftshift`.

    >>> sm.fft.ifftshift(sm.asarray([-2, -1, 0, 1, 2])).tolist()
    [0, 1, 2, -2, -1]
    """
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Tensor:
    node = node_of(x, name)
    chosen = range(node.rank) if axes is None else [axes] if isinstance(axes, int) else axes
    places = normalized_axes(chosen, node.rank, name)
    tensor = wrap(build.reshape(node, node.shape))
    for axis in places:
        size = node.shape[axis]
        if not isinstance(size, int):
            raise ShapeError(f"{name}: axis {axis} has the symbolic size {size}", rule="its size must be a number.")
        tensor = _roll(tensor, sign * (size // 2), axis=axis)
    return tensor
