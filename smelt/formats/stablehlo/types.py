"""Element types of texts as dtypes, and constants as arrays."""

from __future__ import annotations

import re
from typing import Any, Final

from smelt import dtypes
from smelt.dtypes import DType
from smelt.formats.mlir import Ranked, dense

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
dtype_of: Final = _DTYPES.get  # of an element type; None if there is none

_BOUNDS: Final = re.compile(
    r"#stablehlo\.bounds<([0-9?, ]+)>|#stablehlo\.type_extensions<bounds = \[([0-9?, ]+)\]>", re.ASCII
)


def bounds(kind: Ranked) -> tuple[int | None, ...]:
    """The largest sizes of axes that are open, as `tensor<?x3xf32, #stablehlo.bounds<8, ?>>` has them."""
    found = _BOUNDS.fullmatch(kind.encoding) if kind.encoding else None
    words = [word.strip() for word in (found[1] or found[2]).split(",")] if found else []
    if len(words) != len(kind.sizes):
        return (None,) * len(kind.sizes)
    return tuple(int(word) if word.isdecimal() and len(word) < 19 else None for word in words)


def array(constant: Any) -> Any:
    """The elements of a `dense<…>` as a NumPy array of its shape; those of a splat as one of rank 0."""
    return dense.array(constant)
