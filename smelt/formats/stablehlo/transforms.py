"""Fourier transforms, by the steps of `smelt.fft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from smelt import fft
from smelt.dtypes import complex_dtype
from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import Node, build
from smelt.tensor import wrap

if TYPE_CHECKING:
    from smelt.tensor import Tensor

_MOST_AXES = 3
_FUNCTIONS: Final[dict[str, Callable[..., Tensor]]] = {
    "FFT": fft.fftn,
    "IFFT": fft.ifftn,
    "RFFT": fft.rfftn,
    "IRFFT": fft.irfftn,
}


def _fft(call: Call) -> Node:
    """Along as many of the last axes as there are lengths."""
    (x,) = call.operands
    kind, lengths = call.word("fft_type"), call.integers("fft_length")
    if kind not in _FUNCTIONS or not 1 <= len(lengths) <= min(_MOST_AXES, x.rank):
        call.wrong(f"it is one of {', '.join(_FUNCTIONS)} along up to {_MOST_AXES} axes")
    if x.dtype.is_complex == (kind == "RFFT") or complex_dtype(x.dtype).part is not x.dtype.part:
        call.wrong(f"{kind} does not take {x.dtype}")
    had: list[Any] = [*lengths[:-1], lengths[-1] // 2 + 1 if kind == "IRFFT" else lengths[-1]]
    if list(x.shape[-len(lengths) :]) != had:
        call.wrong(f"the last axes are {list(x.shape[-len(lengths) :])}, and should be {had}")
    if 0 in x.shape or 0 in lengths:
        return build.const(0, call.dtype, call.shape)
    return _FUNCTIONS[kind](wrap(x), lengths, tuple(range(-len(lengths), 0)))._node


ROWS: Final = rows({"fft": Row(_fft, ("fft_type", "fft_length"), 1, "up to three axes")})
