"""Tensors from other libraries' arrays and the other way: NumPy, nested lists, DLPack.

`asarray` copies; `from_numpy` and `from_dlpack` share memory, so the array must not be changed while the tensor is in
use. What a tensor hands out is a read-only view of its memory.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import dtypes, runtime
from smelt.dtypes import DType, as_dtype, cast_array
from smelt.errors import ArgumentError, DTypeError, TraceError
from smelt.graph import build
from smelt.graph.index import Index
from smelt.graph.node import Node, topological
from smelt.graph.ops import Op
from smelt.graph.shapes import shape_text
from smelt.runtime import Storage
from smelt.tensor.arguments import check_device
from smelt.tensor.handle import Handle, is_weak, node_of, wrap
from smelt.tensor.types import DT, DTypeLike, S, TensorLike

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.tensor.tensor import Tensor


# --- in


def asarray(
    x: TensorLike, /, dtype: DTypeLike | None = None, *, device: Any = None, copy: bool | None = None
) -> Tensor:
    """A tensor of a scalar, nested lists, an array, or anything that speaks DLPack or NumPy's array protocol.

    Python numbers become bool, int64 or float32. `copy` is accepted for the array API: tensors never change, so there
    is never a need to copy one, and memory of others is always copied (see `from_numpy` to share it).
    """
    check_device(device, "asarray")
    if copy is False and not isinstance(x, Handle):
        raise ArgumentError("asarray: cannot do without a copy", hint="Use from_numpy or from_dlpack to share memory.")
    return wrap(to_node(x, "asarray", None if dtype is None else as_dtype(dtype)))


def from_numpy(array: NDArray[Any], /) -> Tensor:
    """A tensor that shares an array's memory, whatever its strides."""
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"from_numpy: expected a NumPy array, got {type(array).__name__}", hint="Use asarray.")
    _numeric(array, "from_numpy")
    return wrap(runtime.leaf(Storage.of(_native(array), copy=False)))


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's tensor."""
    check_device(device, "from_dlpack")
    if not hasattr(x, "__dlpack__"):
        raise ArgumentError(f"from_dlpack: a {type(x).__name__} does not speak DLPack", hint="Use asarray.")
    if isinstance(x, Handle):
        return wrap(x._node)
    array = np.from_dlpack(x)
    _numeric(array, "from_dlpack")
    return wrap(runtime.leaf(Storage.of(array, copy=bool(copy))))


def astype(x: Tensor[DT, *S], dtype: DTypeLike, /, *, copy: bool = True) -> Tensor[Any, *S]:
    """The values in another dtype. Floats saturate to integers and NaN becomes 0; integers wrap."""
    return wrap(build.cast(node_of(x, "astype"), as_dtype(dtype)))


def to_node(value: Any, name: str, dtype: DType | None = None) -> Node:
    """The node of anything that `asarray` takes."""
    if isinstance(value, Handle):
        return value._node if dtype is None else build.cast(value._node, dtype)
    if is_weak(value):
        return _scalar(value, dtype, name)
    if isinstance(value, list | tuple) and _holds_tensors(value):
        return _stacked(value, name, dtype)
    array = _array(value, name)
    wanted = dtype or _default_dtype(array, value)
    # NumPy would raise or warn about values that do not fit; smelt's own casts have their own rules.
    array = array if as_dtype(array.dtype) is wanted else cast_array(array, wanted)
    return runtime.leaf(Storage.of(_native(array), copy=True))


def _scalar(value: Any, dtype: DType | None, name: str) -> Node:
    wanted = dtype or dtypes.scalar_dtype(_plain(value))
    if isinstance(value, int) and not isinstance(value, bool) and dtype is None and not -(2**63) <= value < 2**63:
        raise ArgumentError(f"{name}: an integer of {value.bit_length()} bits does not fit in int64")
    return build.const(_plain(value), wanted)


def _plain(value: Any) -> Any:
    """Subclasses of Python's numbers, such as enums, as plain numbers."""
    return value if type(value) in (bool, int, float) else int(value) if isinstance(value, int) else float(value)


def _holds_tensors(value: Any) -> bool:
    return any(isinstance(v, Handle) or (isinstance(v, list | tuple) and _holds_tensors(v)) for v in value)


def _stacked(value: Any, name: str, dtype: DType | None) -> Node:
    from smelt.tensor.joining import stack

    parts = stack([wrap(to_node(v, name)) for v in value])._node
    return parts if dtype is None else build.cast(parts, dtype)


def _array(value: Any, name: str) -> NDArray[Any]:
    try:
        if isinstance(value, np.ndarray) or hasattr(value, "__array__"):
            array = np.asarray(value)
        elif hasattr(value, "__dlpack__"):
            array = np.from_dlpack(value)
        else:
            array = np.asarray(value)
    except (ValueError, OverflowError) as error:
        reason = "the nested lists are ragged" if "inhomogeneous" in str(error) else str(error)
        raise ArgumentError(f"{name}: no tensor can be made of a {type(value).__name__}: {reason}") from None
    _numeric(array, name)
    return array


def _numeric(array: NDArray[Any], name: str) -> None:
    try:
        as_dtype(array.dtype)
    except DTypeError:
        raise DTypeError(
            f"{name}: no tensor can hold elements of the NumPy dtype {array.dtype}",
            hint=f"Use one of: {', '.join(d.name for d in dtypes.ALL + dtypes.STORAGE)}.",
        ) from None


def _native(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _default_dtype(array: NDArray[Any], value: Any) -> DType:
    """The array's own dtype, but float32 for what came from Python's floats."""
    dtype = as_dtype(array.dtype)
    if dtype is not dtypes.float64 or not isinstance(value, list | tuple):
        return dtype
    first = value
    while isinstance(first, list | tuple) and first:
        first = first[0]
    return dtype if isinstance(first, np.ndarray | np.generic) else dtypes.float32


# --- out


def storage_of(tensor: Tensor, asked: str) -> Storage:
    """Where the values of a tensor lie; computes them if need be. `asked` is the user's call, for messages."""
    node = tensor._node
    if node.op is not Op.LEAF:
        _refuse_traced(node, asked)
        (node,) = runtime.realize([node])
        tensor._node = node
    storage = node.attribute
    if not isinstance(storage, Storage) or runtime.is_tracing():
        _refuse_traced(node, asked)
    return storage  # type: ignore[no-any-return]


def _refuse_traced(node: Node, asked: str) -> None:
    """While a function is traced its arguments have no values, and neither has what is computed from them."""
    symbolic = any(isinstance(size, Index) for size in node.shape)
    if not symbolic and not runtime.is_tracing():
        return
    if symbolic or any(n.op is Op.LEAF and runtime.is_traced_input(n) for n in topological([node])):
        raise TraceError(
            f"{asked}: the value is not known while the function is traced",
            rule=f"the tensor is {node.dtype}{shape_text(node.shape)}, computed from the inputs of the function.",
            hint="Use smelt.where to choose between values and smelt.cond to choose between computations.",
        )


def numpy(tensor: Tensor, asked: str = "numpy") -> NDArray[Any]:
    """The values as a read-only NumPy array that shares the tensor's memory."""
    return storage_of(tensor, asked).numpy()


def one_value(tensor: Tensor, asked: str) -> Any:
    """The Python scalar of a tensor with one element."""
    shape = tensor._node.shape
    if any(size != 1 and not isinstance(size, Index) for size in shape):
        raise ArgumentError(
            f"{asked}: the tensor has shape {shape_text(shape)}",
            rule="only a tensor with exactly one element has a single value.",
            hint="Use any() or all() for a verdict on all elements."
            if asked == "bool"
            else "Use tolist() for all values.",
        )
    return numpy(tensor, asked).reshape(()).item()


def array_protocol(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    """What `np.asarray(tensor)` gets."""
    array = numpy(tensor, "np.asarray")
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ArgumentError(f"np.asarray: {tensor.dtype} cannot become {np.dtype(dtype)} without a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def dlpack(tensor: Tensor, *, max_version: tuple[int, int] | None, copy: bool | None) -> Any:
    """A DLPack capsule. It is marked read-only; consumers too old to know the mark get a copy."""
    array = numpy(tensor, "dlpack")
    if tensor.dtype is dtypes.bfloat16 or tensor.dtype in dtypes.STORAGE:
        raise DTypeError(f"dlpack: {tensor.dtype} cannot be exported", hint="Use x.astype(smelt.float32) first.")
    if copy or max_version is None or max_version < (1, 0):
        if copy is False:
            raise ArgumentError("dlpack: the consumer is too old to take read-only memory without a copy")
        array = array.copy()
        return array.__dlpack__() if max_version is None else array.__dlpack__(max_version=max_version)
    return array.__dlpack__(max_version=max_version)


def realize(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Compute several tensors together, as one graph."""
    nodes = [node_of(tensor, "realize") for tensor in tensors]
    for node in nodes:
        _refuse_traced(node, "realize")
    for tensor, node in zip(tensors, runtime.realize(nodes), strict=True):
        tensor._node = node
    return tensors
