"""Element types of texts as dtypes, and constants as arrays."""

from __future__ import annotations

from typing import Any, Final

from smelt import dtypes
from smelt.dtypes import DType
from smelt.formats.mlir import dense

_DTYPES: Final[dict[str, DType]] = {
    "i1": dtypes.bool_,
    **{f"i{d.bits}": d for d in dtypes.INTEGERS if d.is_signed},
    **{f"si{d.bits}": d for d in dtypes.INTEGERS if d.is_signed},
    **{f"ui{d.bits}": d for d in dtypes.INTEGERS if not d.is_signed},
    "f16": dtypes.float16,
    "bf16": dtypes.bfloat16,
    "f32": dtypes.float32,
    "f64": dtypes.float64,
    "f8E4M3FN": dtypes.float8_e4m3fn,
    "f8E5M2": dtypes.float8_e5m2,
    "complex<f32>": dtypes.complex64,
    "complex<f64>": dtypes.complex128,
    "i4": dtypes.int4,
    "si4": dtypes.int4,
    "ui4": dtypes.uint4,
    "index": dtypes.int64,
}
NAMES: Final = {d: name for name, d in reversed(_DTYPES.items()) if not name.startswith("si") and name != "index"}


def dtype_of(element: str) -> DType | None:
    """The dtype of an element type; None if there is none."""
    return _DTYPES.get(element)


def array(constant: Any) -> Any:
    """The elements of a `dense<…>` as a NumPy array of its shape; those of a splat as one of rank 0."""
    return dense.array(constant)
