"""From what users pass to nodes, and from nodes to tensors: the first and last step of every public function.

Python scalars are weak: they take the dtype of the tensor that they meet, within its kind. So is `np.float64`, which is
a Python float, and what NumPy gives where nobody asked for a dtype. Other NumPy scalars, and arrays, are tensors of
their own dtype.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from smelt import dtypes, runtime, tree
from smelt.config import settings
from smelt.dtypes import DType, Scalar
from smelt.errors import ArgumentError, DTypeError, Location, TraceWarning, user_location
from smelt.graph import Index, Node, Op, build, index_numbers, kind_letter, live_nodes, topological

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor


class Handle:
    """The part of a Tensor that the function families need: a reference to a node."""

    __slots__ = ("__weakref__", "_known_as", "_node", "_scope")

    _node: Node
    _known_as: str  # "gradient": a derivative gave it. "parameter": somebody has said so
    _scope: int  # of the function that has made it, if anybody follows that; see `runtime.scope`


_new: Any = object.__new__
_class: type[Any] = Handle
_complex_class: type[Any] = Handle
_INTERVAL = 256
_until_check = _INTERVAL
_counts = 0
_observer: Callable[[Any], None] | None = None
_following = False  # whether each tensor is told in which scope it was made
_until_growth = 0  # tensors until the next check, while all are looked at
_told = False  # that a graph grows

_WEAK = (bool, int, float, complex)
OPERANDS: tuple[type[Any], ...] = (Handle, bool, int, float, complex, np.ndarray, np.generic, Index, list, tuple)


def register(tensor: type[Any]) -> None:
    """Say which class `wrap` makes."""
    global _class
    _class = tensor
    tree.tensor_types.add(tensor)


def register_complex(tensor: type[Any]) -> None:
    """Say which class `wrap` makes of complex nodes."""
    global _complex_class
    _complex_class = tensor


def wrap(node: Node) -> Tensor:
    """A tensor for a node."""
    global _until_check
    tensor: Tensor = _new(_class if node.op is not Op.COMPLEX else _complex_class)
    tensor._node = node
    _until_check -= 1
    if _until_check < 0:
        _look_at(tensor)
    return tensor


def observe(observer: Callable[[Tensor], None] | None) -> None:
    """Show every tensor that is made from now on to an observer; None: to nobody."""
    global _observer
    _observer = observer
    _look_at_all()


def follow_scopes(wanted: bool) -> None:
    """Whether tensors know from now on in which scope they were made."""
    global _following
    _following = wanted
    _look_at_all()


def is_following_scopes() -> bool:
    return _following


def note_scope(tensor: Handle) -> None:
    """Tell a tensor in which scope it was made, if that is followed."""
    if _following:
        tensor._scope = runtime.scope()


def _look_at_all() -> None:
    """Have `wrap` go the long way, if somebody wants to look at every tensor."""
    global _until_check
    _until_check = -1 if _observer or _following else _INTERVAL


def _look_at(tensor: Tensor) -> None:
    """What is done to some of the tensors that are made; to all, if they are observed or followed: `_until_check` stays
    negative then.
    """
    global _until_check, _until_growth
    note_scope(tensor)
    if _observer is not None:
        _observer(tensor)
    elif _following:
        _until_growth -= 1
        if _until_growth < 0:
            _until_growth = _check_growth(tensor)
    else:
        _until_check = _check_growth(tensor)


def _check_growth(tensor: Tensor) -> int:
    """Realize a tensor whose unrealized history is over the limit, so that endless loops need bounded memory; and warn
    once when it is well on the way there, since every step of such a loop takes longer than the one before.

    No graph has more nodes than are alive, so counting the nodes of one is seldom needed. The interval between counts
    drifts: a loop with the same period would otherwise always show the same one of its tensors. Gives that interval.
    """
    global _counts, _told
    limit = settings().node_limit
    if live_nodes() <= (limit if _told else limit // 8):
        return _INTERVAL
    _counts += 1
    interval = limit // (8 if _told else 64) + _counts % 31
    if runtime.is_tracing():
        return interval
    count = len(topological([tensor._node]))
    if count > limit // 8 and not _told:
        _told = True
        _tell_growth(count)
    if count > limit and not runtime.is_transforming():
        tensor.realize()
    return interval


def _tell_growth(count: int) -> None:
    place = user_location()
    warnings.warn_explicit(
        f"a tensor depends on {count} operations that have not been computed, because nothing was read. Where a loop "
        "adds to them, each step takes longer than the one before: put the step into sm.jit, or end it with "
        "sm.realize(w, b) for what it carries on.",
        TraceWarning,
        *(place or ("smelt", 0)),
    )


def size_number(size: Index, fractional: bool) -> Tensor:
    """A symbolic size as a number of Python's: it takes the dtype of what it meets."""
    return wrap(build.size_node(size, dtypes.float64 if fractional else dtypes.int64))


index_numbers.register(index_numbers.Program(size_number, runtime.is_tracing))


def node_of(value: Any, name: str) -> Node:
    """The node of a tensor, or of anything that `asarray` takes. `name` is the calling function, for messages."""
    if isinstance(value, Handle):
        return value._node
    from smelt.tensor.interop import to_node

    return to_node(value, name)


def floating(value: Any, name: str) -> Node:
    """The node of a tensor, in float32 unless it is a float or complex already."""
    node = computed(node_of(value, name), name)
    return node if node.dtype.is_inexact else build.cast(node, dtypes.float32)


def computed(node: Node, name: str) -> Node:
    """The node itself, whose dtype must be one that smelt computes with."""
    if node.dtype in dtypes.STORAGE:
        raise DTypeError(
            f"{name}: {node.dtype} is not supported",
            rule=f"{node.dtype} only stores values.",
            hint=f"Cast first, for example with x.astype(sm.{dtypes.sum_dtype(node.dtype)}).",
        )
    return node


def widened(node: Node) -> Node:
    """A float node in the type in which formulas of several steps are computed, so that they round once."""
    return build.cast(node, dtypes.compute_dtype(node.dtype))


def scalar_node(value: Scalar | complex, dtype: DType, name: str) -> Node:
    """A Python scalar as a constant of a dtype that must be able to hold it."""
    if isinstance(value, complex) and not dtype.is_complex:
        raise DTypeError(f"{name}: {value} does not fit in {dtype}", hint="Take a part of it: value.real.")
    if dtype.is_complex:
        return build.const(value, dtype)
    assert not isinstance(value, complex)
    if dtype.is_integer:
        value, (least, most) = int(value), dtype.range
        if not least <= value <= most:
            raise misfit(value, dtype, name)
    elif dtype.is_float:
        try:
            value = float(value)
        except OverflowError:
            raise ArgumentError(f"{name}: the integer {_short(int(value))} does not fit in {dtype}") from None
    return build.const(value, dtype)


def misfit(value: int, dtype: DType, name: str, location: Location | None = None) -> ArgumentError:
    """The error for a Python integer that meets a tensor whose dtype does not hold it."""
    return ArgumentError(
        f"{name}: the integer {_short(value)} does not fit in {dtype}",
        rule=f"a Python integer takes the dtype of the tensor that it meets; {dtype} holds {dtype.minimum} to "
        f"{dtype.maximum}.",
        hint="Cast the tensor first, for example with x.astype(sm.int64).",
        location=location,
    )


def check_fits(value: int, dtype: DType, name: str) -> None:
    """Refuse an integer that somebody wrote down with an integer dtype that does not hold it."""
    if dtype.is_integer and not dtype.minimum <= value <= dtype.maximum:
        raise ArgumentError(
            f"{name}: the integer {_short(value)} does not fit in {dtype}",
            rule=f"{dtype} holds {dtype.minimum} to {dtype.maximum}.",
            hint="Choose a wider dtype. Casts wrap, if that is what you want: x.astype(...).",
        )


def _short(value: int) -> str:
    # Python refuses to print integers of thousands of digits.
    return str(value) if value.bit_length() < 256 else f"of {value.bit_length()} bits"


def weak(node: Node, value: Scalar | complex, name: str) -> tuple[Node, Node]:
    """A node and a Python scalar in their common dtype."""
    dtype = dtypes.promote_scalar(node.dtype, value)
    return build.cast(node, dtype), scalar_node(value, dtype, name)


def common(a: Node, b: Node, name: str) -> tuple[Node, Node]:
    """Two nodes in their common dtype."""
    if a.dtype is b.dtype:
        return a, b
    dtype = _common_dtype(a, b, name)
    return fitted(a, dtype, name), fitted(b, dtype, name)


def fitted(node: Node, dtype: DType, name: str) -> Node:
    """A node in the dtype of what it meets. Of an integer that a traced function is given, every call sees whether it
    fits.
    """
    if node.dtype is dtypes.int64 and dtype.is_integer and dtype is not dtypes.int64 and _is_number(node):
        runtime.note_narrowed(node, dtype, name)
    return build.cast(node, dtype)


def _common_dtype(a: Node, b: Node, name: str) -> DType:
    if runtime.is_tracing():
        # Python numbers given to a traced function stay weak, although they are tensors inside it.
        if _is_number(b) and not _is_number(a):
            return dtypes.promote_scalar(a.dtype, _EXAMPLES[kind_letter(b.dtype)])
        if _is_number(a) and not _is_number(b):
            return dtypes.promote_scalar(b.dtype, _EXAMPLES[kind_letter(a.dtype)])
    return promoted(a.dtype, b.dtype, name)


_EXAMPLES: dict[str, Scalar | complex] = {"b": False, "i": 0, "f": 0.0, "c": 0j}


def _is_number(node: Node) -> bool:
    """True for what was computed from a Python number that was passed to a traced function."""
    return runtime.is_weak(node)


def promoted(a: DType, b: DType, name: str) -> DType:
    """The dtype that two tensors have in common."""
    try:
        return dtypes.promote(a, b)
    except DTypeError:
        raise DTypeError(
            f"{name}: {a} and {b} have no common dtype",
            rule="no integer dtype holds the values of both.",
            hint="Cast one of them first, for example with x.astype(sm.int64).",
        ) from None


def pair(x: Any, y: Any, name: str) -> tuple[Node, Node]:
    """Two operands in their common dtype, not yet broadcast."""
    if isinstance(x, Handle):
        if isinstance(y, Handle):
            a, b = x._node, y._node
            return (a, b) if a.dtype is b.dtype else common(a, b, name)
        if is_weak(y):
            return weak(x._node, y, name)
        return common(x._node, node_of(y, name), name)
    if is_weak(x):
        if is_weak(y):
            return common(node_of(x, name), node_of(y, name), name)
        b, a = weak(node_of(y, name), x, name)
        return a, b
    if is_weak(y):
        return weak(node_of(x, name), y, name)
    return common(node_of(x, name), node_of(y, name), name)


def is_weak(value: Any) -> bool:
    """True for Python scalars, which take the dtype of what they meet."""
    return isinstance(value, _WEAK)


def all_common(values: Sequence[Any], name: str) -> list[Node]:
    """Several operands in their common dtype; Python scalars are weak unless all are."""
    strong = {i: node_of(v, name) for i, v in enumerate(values) if not is_weak(v)}
    if not strong:
        strong = {i: node_of(v, name) for i, v in enumerate(values)}
    numbers = [node for node in strong.values() if _is_number(node)]
    first, *others = [node for node in strong.values() if node not in numbers] or numbers
    dtype = first.dtype
    for node in others:
        dtype = promoted(dtype, node.dtype, name)
    for value in [value for i, value in enumerate(values) if i not in strong]:
        dtype = dtypes.promote_scalar(dtype, value)
    for node in numbers:
        dtype = dtypes.promote_scalar(dtype, _EXAMPLES[kind_letter(node.dtype)])
    return [
        fitted(strong[i], dtype, name) if i in strong else scalar_node(value, dtype, name)
        for i, value in enumerate(values)
    ]
