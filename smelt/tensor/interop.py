"""Tensors from other libraries' arrays and the other way: NumPy, nested lists, DLPack.

`asarray` copies unless told not to; `from_numpy` and `from_dlpack` share memory, so the array must not be changed while
the tensor is in use. What a tensor hands out is a read-only NumPy array over its memory; by DLPack it is a copy, unless
the consumer asks for the memory with `copy=False`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from smelt import dtypes, runtime
from smelt.device import HOST
from smelt.dtypes import DType, as_dtype, cast_array
from smelt.errors import ArgumentError, DTypeError, ExchangeError, GradientError, ShapeError, SmeltError, TraceError
from smelt.graph import Index, Node, Op, build, pairs, shape_text
from smelt.runtime import Storage
from smelt.tensor.arguments import check_copy, check_device, refuse_dtype
from smelt.tensor.devices import placed
from smelt.tensor.handle import Handle, check_fits, fitted, is_weak, node_of, scalar_node, wrap
from smelt.tensor.types import DT, DTypeLike, S, TensorLike

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smelt.tensor.tensor import Tensor

__all__ = [
    "asarray",
    "astype",
    "from_dlpack",
    "from_numpy",
    "realize",
]


MAXIMUM_RANK: Final = 64  # of NumPy's arrays, and so of values that can be looked at

# What to write for arrays that hold no numbers, by NumPy's kinds.
_TEXTS: Final = "Tensors hold numbers: names, numbers = np.unique(texts, return_inverse=True) makes some of texts."
_TIMES: Final = "Tensors hold numbers: write x.astype(np.int64), in the units of the array."
_OBJECTS: Final = "Tensors hold numbers: x.astype(np.float64) makes some of an array of objects, if all of them are."
_NO_NUMBERS: Final = {"U": _TEXTS, "S": _TEXTS, "T": _TEXTS, "M": _TIMES, "m": _TIMES, "O": _OBJECTS}


# --- in


def asarray(obj: TensorLike, dtype: DTypeLike | None = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor of a scalar, nested lists, an array, or anything that speaks DLPack or NumPy's array protocol.

    Python numbers become bool, int64 or float32; integers that do not fit in the dtype are refused, while the elements
    of arrays and tensors are cast. Of tensors that another library differentiates by, the values are taken. Without
    `copy`, memory that others could change is copied, and a tensor is taken as it is. `copy=False` shares memory and
    refuses where it cannot; `copy=True` computes a tensor's values into memory of their own.

    >>> sm.asarray([[1, 2], [3, 4]], dtype=sm.float32).shape
    (2, 2)
    >>> sm.asarray([True, False]).dtype
    smelt.bool
    """
    check_device(device, "asarray")
    check_copy(copy, "asarray")
    wanted = None if dtype is None else as_dtype(dtype, "asarray")
    if copy is False:
        return wrap(_shared(obj, wanted))
    node = to_node(obj, "asarray", wanted)
    return placed(wrap(_copied(node, "asarray") if copy and isinstance(obj, Handle) else node), device, "asarray")


def _shared(obj: Any, dtype: DType | None) -> Node:
    """The node of what can be taken without a copy."""
    if isinstance(obj, Handle):
        if dtype is None or dtype is obj._node.dtype:
            return obj._node
        raise ArgumentError(f"asarray: {obj._node.dtype} cannot become {dtype} without a copy", hint="Leave copy out.")
    if not isinstance(obj, list | tuple | range | np.generic) and not is_weak(obj):
        array = array_of(obj, "asarray")
        here = runtime.default_device().name == HOST
        if here and (dtype is None or as_dtype(array.dtype) is dtype) and Storage.shares(array):
            return _leaf(array, copy=False)
    raise ArgumentError(
        f"asarray: a {type(obj).__name__} cannot do without a copy",
        rule="only aligned memory of a dtype that stays as it is can be shared, and only by the processor.",
        hint="Leave copy out.",
    )


def _copied(node: Node, name: str) -> Node:
    """The values of a node in memory of their own; while a function is traced, there is none to copy."""
    if runtime.is_tracing() or runtime.is_traced(node) or any(isinstance(size, Index) for size in node.shape):
        return node
    if runtime.is_differentiated(node):  # a copy would be a constant
        return node
    return _leaf(numpy(wrap(node), name), copy=True)


def _leaf(array: NDArray[Any], *, copy: bool) -> Node:
    """The node of an array; of a complex one, the parts are."""
    if array.dtype.kind == "c":
        return pairs.paired(*(runtime.leaf(Storage.of(part, copy=copy)) for part in (array.real, array.imag)))
    return runtime.leaf(Storage.of(array, copy=copy))


def from_numpy(array: NDArray[Any]) -> Tensor:
    """A tensor that shares an array's memory, whatever its strides.

    What is written into the array later is seen by the tensor, and by all that has not been computed from it yet;
    `asarray` makes a copy. Weights want one: of memory that others can write to, `jit` keeps nothing between calls,
    neither panels for products nor what is computed from weights alone.

    >>> sm.from_numpy(np.arange(6.0).reshape(2, 3)[:, ::2]).tolist()
    [[0.0, 2.0], [3.0, 5.0]]
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentError(f"from_numpy: expected a NumPy array, got {type(array).__name__}", hint="Use asarray.")
    _numeric(array, "from_numpy")
    return wrap(_leaf(_native(array), copy=False))


def from_dlpack(x: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of another library's tensor, or a copy of it.

    `copy=True` always copies and `copy=False` never does. Memory that Python cannot read, such as a GPU's, is copied to
    main memory by its own library if `device="cpu"` asks for that.

    >>> sm.from_dlpack(np.arange(3)).tolist()
    [0, 1, 2]
    """
    check_device(device, "from_dlpack")
    check_copy(copy, "from_dlpack")
    if isinstance(x, Handle):
        return wrap(_copied(x._node, "from_dlpack") if copy else x._node)
    x = _resolved(x)
    from smelt.tensor import dlpack

    try:
        array, is_copy = dlpack.incoming(x, device, copy)
    except BufferError as error:
        raise error if isinstance(error, SmeltError) else ExchangeError(f"from_dlpack: {error}") from None
    _numeric(array, "from_dlpack")
    if copy is False and not Storage.shares(array):
        raise ExchangeError("from_dlpack: memory that is not aligned cannot do without a copy", hint="Leave copy out.")
    if copy is False and runtime.default_device().name != HOST:
        raise ExchangeError("from_dlpack: another device cannot do without a copy", hint="Leave copy out.")
    leaf = _leaf(array, copy=bool(copy) and not is_copy)
    return placed(wrap(leaf), device, "from_dlpack")


def astype(x: Tensor[DT, *S], dtype: DTypeLike, *, copy: bool = True, device: Any = None) -> Tensor[Any, *S]:
    """The values in another dtype. Floats saturate to integers and NaN becomes 0; integers wrap.

    With `copy=False`, a tensor that has the dtype already is returned itself. Tensors never change, so a copy could not
    be told from the original, and none is made.

    >>> sm.asarray([1.7, -2.5]).astype(sm.int8).tolist()
    [1, -2]
    """
    check_device(device, "astype")
    check_copy(copy, "astype")
    node, wanted = node_of(x, "astype"), as_dtype(dtype, "astype")
    if copy is False and node.dtype is wanted and isinstance(x, Handle):
        return placed(x, device, "astype")
    return placed(wrap(build.cast(node, wanted)), device, "astype")


def to_node(value: Any, name: str, dtype: DType | None = None) -> Node:
    """The node of anything that `asarray` takes."""
    if isinstance(value, Handle):
        return value._node if dtype is None else fitted(value._node, dtype, name)
    if is_weak(value) and not isinstance(value, np.generic):  # on its own, np.float64 is one
        return _scalar(value, dtype, name)
    if isinstance(value, Index):
        return build.size_node(value, dtype or dtypes.int64)
    if isinstance(value, list | tuple) and _holds_tensors(value, name):
        return _stacked(value, name, dtype)
    array = array_of(value, name)
    if isinstance(value, list | tuple | range):
        _check_integers(array, value, dtype, name)
    wanted = dtype or _default_dtype(array, value)
    if array.dtype.kind == "c" and not wanted.is_complex:
        raise DTypeError(f"{name}: {array.dtype} cannot become {wanted}", hint="Take a part first: x.real or x.imag.")
    # NumPy would raise or warn about values that do not fit; smelt's own casts have their own rules.
    array = array if as_dtype(array.dtype) is wanted else cast_array(array, wanted)
    return _leaf(_native(array), copy=True)


def _scalar(value: Any, dtype: DType | None, name: str) -> Node:
    plain = _plain(value)
    wanted = dtype or dtypes.scalar_dtype(plain)
    if isinstance(plain, float) and not wanted.is_complex:
        return build.const(plain, wanted)
    if isinstance(plain, complex) or wanted.is_complex:
        return scalar_node(plain, wanted, name)
    check_fits(plain, wanted, name)
    return scalar_node(plain, wanted, name)


def _check_integers(array: NDArray[Any], value: Any, dtype: DType | None, name: str) -> None:
    """Refuse lists of integers that the dtype does not hold: numbers that somebody wrote down are never wrapped."""
    if not array.size or not (dtype is None or dtype.is_integer):
        return
    if array.dtype.kind in "iu":
        for extreme in (array.min(), array.max()):
            check_fits(int(extreme), dtype or as_dtype(array.dtype), name)
    elif array.dtype.kind == "f" and np.abs(array).max() >= 2**63:
        # NumPy makes floats of integers when no integer type holds all of them.
        whole = np.asarray(value, object).ravel()
        if all(isinstance(number, int) for number in whole):
            check_fits(max(whole, key=abs), dtype or dtypes.int64, name)


def _plain(value: Any) -> Any:
    """Subclasses of Python's numbers, such as enums, as plain numbers."""
    if type(value) in (bool, int, float, complex):
        return value
    return int(value) if isinstance(value, int) else float(value) if isinstance(value, float) else complex(value)


def _holds_tensors(value: Any, name: str, depth: int = 1) -> bool:
    if depth > MAXIMUM_RANK:
        raise ArgumentError(
            f"{name}: a list contains itself, or lists are nested deeper than {MAXIMUM_RANK} levels",
            rule="every level of nesting is an axis.",
        )
    # All are looked at, so that a list that contains itself is met here and not by whoever goes through it next.
    return any(
        [
            isinstance(v, Handle | Index) or (isinstance(v, list | tuple) and _holds_tensors(v, name, depth + 1))
            for v in value
        ]
    )


def _stacked(value: Any, name: str, dtype: DType | None) -> Node:
    from smelt.tensor.shape.joining import stack

    return stack([wrap(to_node(v, name, dtype)) for v in value])._node


def array_of(value: Any, name: str) -> NDArray[Any]:
    """A NumPy array of anything else that `asarray` takes, which shares its memory where it can."""
    if getattr(value, "requires_grad", False) is True and hasattr(value, "detach"):
        value = value.detach()  # libraries that record derivatives give values out without them only
    value = _resolved(value)
    try:
        array = _by_protocol(value)
    except SmeltError:
        raise
    except (ValueError, TypeError, OverflowError, RuntimeError, BufferError) as error:
        if type(error).__name__ == "TracerArrayConversionError":  # JAX's
            raise TraceError(
                f"{name}: a function of tensors cannot take what JAX traces",
                rule="jax.jit, jax.grad, jax.vmap and sm.from_jax run functions that were written with JAX, on tracers "
                "without values.",
                hint="sm.to_jax(function) makes a function of tensors one of JAX's. Where smelt alone calls it, it "
                "needs neither.",
            ) from None
        reason = "the nested lists are ragged" if "inhomogeneous" in str(error) else str(error)
        raise ArgumentError(f"{name}: no tensor can be made of a {type(value).__name__}: {reason}") from None
    if array.dtype.kind == "O" and not array.ndim and not isinstance(value, np.ndarray):
        refuse_dtype(value, name)
        raise DTypeError(f"{name}: no tensor can hold {value!r:.80}", rule="tensors hold numbers.")
    _numeric(array, name)
    return array


def _resolved(value: Any) -> Any:
    """PyTorch's memory may hold the opposite of what it means, which no protocol says."""
    return value.resolve_neg() if callable(getattr(type(value), "is_neg", None)) and value.is_neg() else value


def _by_protocol(value: Any) -> NDArray[Any]:
    """NumPy's own way; where that fails, as for types that the other library knows and NumPy does not, DLPack."""
    speaks = not isinstance(value, np.ndarray) and hasattr(value, "__dlpack__")
    if speaks and not hasattr(value, "__array__"):
        return _by_dlpack(value)
    try:
        return np.asarray(value)
    except (TypeError, RuntimeError):
        if not speaks:
            raise
        try:
            return _by_dlpack(value)
        except (SmeltError, BufferError, RuntimeError, ValueError):
            pass
        raise  # what the library said first


def _by_dlpack(value: Any) -> NDArray[Any]:
    from smelt.tensor import dlpack

    return dlpack.incoming(value, None, None)[0]


def _numeric(array: NDArray[Any], name: str) -> None:
    try:
        as_dtype(array.dtype)
    except DTypeError:
        names = ", ".join(d.name for d in dtypes.ALL + dtypes.COMPLEX + dtypes.STORAGE)
        raise DTypeError(
            f"{name}: no tensor can hold elements of the NumPy dtype {array.dtype}",
            hint=_NO_NUMBERS.get(array.dtype.kind, f"Use one of: {names}."),
        ) from None


def _native(array: NDArray[Any]) -> NDArray[Any]:
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def _default_dtype(array: NDArray[Any], value: Any) -> DType:
    """The array's own dtype, but float32 or complex64 for what came from Python's numbers."""
    dtype = as_dtype(array.dtype)
    if dtype.part is not dtypes.float64 or not isinstance(value, list | tuple):
        return dtype
    first = value
    while isinstance(first, list | tuple) and first:
        first = first[0]
    if isinstance(first, np.ndarray | np.generic):
        return dtype
    return dtypes.complex64 if dtype.is_complex else dtypes.float32


# --- out


def storage_of(tensor: Tensor, asked: str) -> Storage:
    """Where the values of a tensor lie; computes them if need be. `asked` is the user's call, for messages."""
    node = tensor._node
    if node.op is Op.COMPLEX:
        return _joined(tensor, asked)
    if node.op is not Op.LEAF:
        _refuse_traced(node, asked)
        (node,) = runtime.realize([node])
        if not runtime.is_transforming():
            tensor._node = node
    storage = node.attribute
    if not isinstance(storage, Storage) or runtime.is_tracing():
        _refuse_traced(node, asked)
    return storage  # type: ignore[no-any-return]


def _joined(tensor: Tensor, asked: str) -> Storage:
    """The values of a complex tensor in one memory."""
    realize(tensor)
    first, second = (storage_of(wrap(part), asked).numpy() for part in pairs.parts(tensor._node))
    return Storage.of(pairs.joined(first, second), copy=False)


_OUTSIDE: Final = (
    "Compute with smelt's functions, or return the tensor and read it outside. sm.debug.print shows it as it runs."
)
_INSTEAD: Final = {  # by what asks for a value
    "bool": "Use sm.where to choose between values and sm.cond to choose between computations.",
    "index": 'sm.jit(f, static="n") compiles for each size n. x[i + sm.arange(4)] is x[i : i + 4] for a start that is '
    "known later; a loop that counts is sm.fori_loop.",
}


def _is_unknown(node: Node) -> bool:
    """While a function is traced or batched its arguments have no values, nor has what is computed from them."""
    return any(isinstance(size, Index) for size in node.shape) or runtime.is_traced(node)


def _refuse_traced(node: Node, asked: str) -> None:
    if _is_unknown(node):
        raise TraceError(
            f"{asked}: the value is not known while the function is traced",
            rule=f"the tensor is {node.dtype}{shape_text(node.shape)}, computed from the inputs of the function; "
            "jit and vmap run it with stand-ins for them.",
            hint=_INSTEAD.get(asked, _OUTSIDE),
        )


def refuse_differentiated(tensor: Tensor, asked: str) -> None:
    """What other libraries compute from a value is a constant here, whose gradient would be zeros without a word."""
    if runtime.is_differentiated(tensor._node):
        raise GradientError(
            f"{asked}: a value that is being differentiated leaves smelt",
            rule="what is computed from it elsewhere would count as a constant, and its gradient would be zeros.",
            hint="Compute with smelt's functions. To use the value as a constant write "
            "sm.stop_gradient(x).numpy(); a function with a gradient of its own is a sm.custom_vjp.",
        )


def refuse_in_jax(tensor: Tensor) -> None:
    """JAX's functions take arrays, and would take a value that is differentiated for a constant."""
    if _is_unknown(tensor._node) or runtime.is_differentiated(tensor._node):
        # No TypeError, as a TraceError is: JAX would catch it and say something of its own instead.
        raise ExchangeError(
            "a function of JAX's cannot take a tensor that is traced",
            rule="jit, vmap and derivatives run a function with stand-ins for its inputs: no arrays of JAX's.",
            hint="Wrap what was written with JAX: sm.from_jax(function). An array of JAX's that meets the tensor is "
            "sm.asarray(array).",
        )


def to_jax_array(tensor: Tensor) -> Any:
    """What `jnp.asarray(tensor)` gets."""
    import jax.numpy

    return jax.numpy.asarray(numpy(tensor, "jax"))


def numpy(tensor: Tensor, asked: str = "numpy") -> NDArray[Any]:
    """The values as a read-only NumPy array that shares the tensor's memory."""
    if len(tensor._node.shape) > MAXIMUM_RANK:
        raise ShapeError(f"{asked}: a NumPy array cannot have rank {len(tensor._node.shape)}", hint="Reshape first.")
    return storage_of(tensor, asked).numpy()


def one_value(tensor: Tensor, asked: str) -> Any:
    """The Python scalar of a tensor with one element."""
    shape = tensor._node.shape
    if any(size != 1 and not isinstance(size, Index) for size in shape):
        raise ArgumentError(
            f"{asked}: the tensor has shape {shape_text(shape)}",
            rule="only a tensor with exactly one element has a single value.",
            hint="Use any() or all() for a verdict on all elements; element by element write &, |, ~ and sm.maximum."
            if asked == "bool"
            else "Use tolist() for all values.",
        )
    return storage_of(tensor, asked).element()


def array_protocol(tensor: Tensor, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
    """What `np.asarray(tensor)` gets."""
    refuse_differentiated(tensor, "np.asarray")
    array = numpy(tensor, "np.asarray")
    if dtype is not None and np.dtype(dtype) != array.dtype:
        if copy is False:
            raise ArgumentError(f"np.asarray: {tensor.dtype} cannot become {np.dtype(dtype)} without a copy")
        return array.astype(dtype)
    return array.copy() if copy else array


def to_dlpack(tensor: Tensor, stream: Any, max_version: Any, device: Any, copy: bool | None) -> Any:
    """A DLPack capsule of the tensor."""
    from smelt.tensor import dlpack

    dlpack.check_request(stream, max_version, device, copy)
    check_copy(copy, "dlpack")
    refuse_differentiated(tensor, "dlpack")
    return dlpack.outgoing(numpy(tensor, "dlpack"), tensor.dtype, max_version, copy)


def realize(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Compute several tensors together, as one graph."""
    for tensor in tensors:
        if not isinstance(tensor, Handle):
            raise ArgumentError(f"realize: expected tensors, got {type(tensor).__name__}", hint="Give each on its own.")
    nodes = [tensor._node for tensor in tensors]
    if all(type(node.attribute) is Storage for node in nodes):  # they have their values
        return tensors
    for node in nodes:
        _refuse_traced(node, "realize")
    leaves = runtime.realize(nodes)
    if not runtime.is_transforming():
        for tensor, node in zip(tensors, leaves, strict=True):
            tensor._node = node
    return tensors
