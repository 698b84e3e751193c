"""Tensors as text. `str` shows values; `repr` and notebooks show those that exist already, and never compute."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import runtime
from smelt.device import HOST
from smelt.graph import Index, Op, shape_text
from smelt.runtime import Storage
from smelt.tensor.interop import numpy

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

_MANY = 1000  # more elements than this are shown in part


def is_computed(tensor: Tensor) -> bool:
    """True if the values exist already."""
    node = tensor._node
    return isinstance((node if node.leaf is None else node.leaf).attribute, Storage) and (
        node.op is Op.LEAF or node.leaf is not None
    )


def _state(tensor: Tensor) -> str:
    """Whether the values are there, are still to be computed, or have been given away."""
    if not is_computed(tensor) or runtime.is_traced(tensor._node):
        return "lazy"
    node = tensor._node
    return "donated" if (node if node.leaf is None else node.leaf).attribute.is_donated() else ""


def represent(tensor: Tensor) -> str:
    """The text of `repr`: the values that are there, or a description."""
    return describe(tensor) if _state(tensor) else _values(tensor)


def describe(tensor: Tensor) -> str:
    """What a tensor is, without its values."""
    state = _state(tensor)
    marks = f"device={tensor.device}, {state}" if state else f"device={tensor.device}"
    return f"Tensor(shape={shape_text(tensor.shape)}, dtype={tensor.dtype}, {marks})"


def show(tensor: Tensor) -> str:
    """The text of `str`: the values, or a description where there are none yet."""
    symbolic = any(isinstance(size, Index) for size in tensor.shape)
    if not is_computed(tensor) and (symbolic or runtime.is_tracing() or runtime.is_traced(tensor._node)):
        return describe(tensor)
    return _values(tensor)


def _values(tensor: Tensor) -> str:
    start = "Tensor("
    values = np.array2string(_printable(numpy(tensor)), separator=", ", prefix=start, threshold=_MANY)
    shape = f"shape={shape_text(tensor.shape)}, " if 0 in tensor.shape or len(values) > _MANY else ""
    place = f", device={tensor.device}" if tensor.device != HOST else ""
    return f"{start}{values}, {shape}dtype={tensor.dtype}{place})"


def show_html(tensor: Tensor) -> str:
    """What notebooks display: a description, and the values if they exist already."""
    import html

    head = f"<code>{html.escape(describe(tensor))}</code>"
    if _state(tensor):
        return f"<div>{head}</div>"
    body = np.array2string(_printable(numpy(tensor)), separator=", ", threshold=_MANY)
    return f"<div>{head}<pre>{html.escape(body)}</pre></div>"


def _printable(array: Any) -> Any:
    # NumPy prints the numbers of types that it does not know itself one by one, without lining them up.
    if array.dtype.name in ("int4", "uint4"):
        return array.astype(np.int8)
    own = array.dtype.kind != "V" and array.dtype.name not in ("bfloat16", "float8_e5m2")
    return array if own else array.astype(np.float32)
