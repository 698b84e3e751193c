"""Inputs to test with, and where two results differ by more than a contract allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from smelt.dtypes import DType, as_dtype, cast_array
from smelt.rewrite import Contract

if TYPE_CHECKING:
    from numpy.typing import NDArray

Array: TypeAlias = "NDArray[Any]"

# What inputs are drawn from under each contract: infinities are kept where sums are only taken in another order.
KINDS: Final = {
    Contract.EXACT: ("whole", "normal", "special"),
    Contract.REASSOCIATES: ("whole", "normal", "infinite"),
    Contract.REGROUPS: ("whole", "normal"),
    Contract.FAST: ("whole", "normal"),
}
# Units in the last place of the largest element: the reference rounds once for each operation.
_UNITS: Final = {Contract.EXACT: 0, Contract.REASSOCIATES: 64, Contract.REGROUPS: 64, Contract.FAST: 4096}
_INFINITE: Final = (np.nan, np.inf, -np.inf, -0.0, 0.0, 1.0, -1.0, 0.5, 2.5)


class Difference(NamedTuple):
    """The first element that differs."""

    place: tuple[int, ...]
    first: Any
    second: Any

    def __str__(self) -> str:
        at = f"at {list(self.place)}: " if self.place else ""
        return f"{at}{self.first} and {self.second}"


def drawn(dtype: DType, shape: Sequence[int], kind: str, rng: np.random.Generator) -> Array:
    """Values of a kind: small whole numbers, any, with infinities, NaN and signed zeros among them, or with the ends of
    ranges as well.
    """
    if dtype.is_bool:
        return np.asarray(rng.integers(0, 2, tuple(shape)).astype(bool))
    if dtype.is_integer:
        low, high = int(dtype.minimum), int(dtype.maximum)
        if kind in ("whole", "normal"):
            low, high = max(low, 0 if kind == "whole" else -9), min(high, 3 if kind == "whole" else 9)
        wide = np.int64 if low < 0 else np.uint64
        return np.asarray(rng.integers(low, high, tuple(shape), dtype=wide, endpoint=True)).astype(dtype.numpy)
    values = rng.integers(-3, 4, tuple(shape)) if kind == "whole" else rng.normal(0, 1, tuple(shape))
    values = np.asarray(values, np.float64)
    if kind in ("special", "infinite"):
        more = [1e-45, float(dtype.maximum)] if kind == "special" else []
        ends = rng.choice([*_INFINITE, *more], tuple(shape))
        values = np.where(rng.random(tuple(shape)) < 0.5, ends, values)
    with np.errstate(all="ignore"):
        return np.asarray(cast_array(values, dtype))


def difference(first: Array, second: Array, contract: Contract, units: float | None = None) -> Difference | None:
    """Where two arrays of the same type differ by more than a contract allows; integers keep every bit under each."""
    if first.dtype.kind in "biu":
        wrong = first != second
    else:
        a, b = first.astype(np.float64), second.astype(np.float64)
        same = (a == b) & ((np.signbit(a) == np.signbit(b)) | (contract is not Contract.EXACT))
        same |= np.isnan(a) & np.isnan(b)
        allowed = (_UNITS[contract] if units is None else units) * _eps(first.dtype)
        if allowed:
            finite = np.abs(np.where(np.isfinite(a), a, 0.0))
            with np.errstate(all="ignore"):
                same |= np.abs(a - b) <= allowed * (finite + finite.max(initial=0.0))
        wrong = ~same
    if not wrong.any():
        return None
    place = tuple(int(k) for k in np.argwhere(wrong)[0])
    return Difference(place, first[place].item(), second[place].item())


def _eps(dtype: np.dtype[Any]) -> float:
    return float(as_dtype(dtype).limits().eps)
