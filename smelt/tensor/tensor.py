"""The Tensor: an immutable handle on a node of the graph, with every function of the families as a method."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Generic, Never

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError, TraceError
from smelt.graph import build
from smelt.graph.index import Index, product_of
from smelt.graph.shapes import shape_text
from smelt.tensor import (
    activations,
    elementwise,
    formatting,
    indexing,
    interop,
    joining,
    layers,
    linear,
    movement,
    norms,
    operators,
    reductions,
    scans,
)
from smelt.tensor.arguments import check_device
from smelt.tensor.handle import Handle, register, wrap
from smelt.tensor.types import DT, A, B, DTypeLike, R, S, Size, TensorLike

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Tensor(Handle, Generic[DT, *S]):
    """A multidimensional array that is computed when it is asked for and never changes.

    `Tensor[Float32, Literal[2], Literal[3]]` tells a type checker dtype and shape; see `smelt.types`. Make tensors with
    `asarray`, `zeros`, `random.normal` and the like.
    """

    __slots__ = ()

    # NumPy leaves operators with an array on the left to the tensor.
    __array_ufunc__ = None
    __array_priority__ = 1000.0

    def __init__(self, data: TensorLike, dtype: DTypeLike | None = None) -> None:
        self._node = interop.to_node(data, "Tensor", None if dtype is None else as_dtype(dtype))

    # --- what it is

    @property
    def shape(self) -> tuple[*S]:
        return self._node.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> DType:
        return self._node.dtype

    @property
    def ndim(self) -> builtins.int:
        """The number of axes."""
        return len(self._node.shape)

    @property
    def size(self) -> Size:
        """The number of elements."""
        return product_of(self._node.shape)

    @property
    def nbytes(self) -> Size:
        """The number of bytes that the elements take."""
        return product_of((*self._node.shape, self._node.dtype.itemsize))

    @property
    def device(self) -> str:
        return "cpu"

    def numel(self) -> Size:
        """The number of elements."""
        return product_of(self._node.shape)

    def dim(self) -> builtins.int:
        """The number of axes."""
        return len(self._node.shape)

    @property
    def T(self: Tensor[DT, A, B]) -> Tensor[DT, B, A]:
        """The transpose of a matrix."""
        if len(self._node.shape) != 2:
            raise ShapeError(
                f"T: shape {shape_text(self._node.shape)} has rank {len(self._node.shape)}",
                rule="T is the transpose of a matrix, of rank 2.",
                hint="Use mT for the last two axes, or permute_dims for any order.",
            )
        return wrap(build.permute(self._node, (1, 0)))

    @property
    def mT(self: Tensor[DT, *R, A, B]) -> Tensor[DT, *R, B, A]:
        """The last two axes exchanged."""
        return movement.matrix_transpose(self)

    # --- values

    def realize(self) -> Tensor[DT, *S]:
        """Compute the values now, and remember them."""
        interop.realize(self)
        return self

    def numpy(self) -> NDArray[Any]:
        """The values as a read-only NumPy array that shares memory with the tensor."""
        return interop.numpy(self)

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return interop.numpy(self, "tolist").tolist()

    def item(self) -> Any:
        """The value of a tensor with one element, as a Python number."""
        return interop.one_value(self, "item")

    def __float__(self) -> builtins.float:
        return builtins.float(interop.one_value(self, "float"))

    def __int__(self) -> builtins.int:
        return builtins.int(interop.one_value(self, "int"))

    def __bool__(self) -> builtins.bool:
        return builtins.bool(interop.one_value(self, "bool"))

    def __index__(self) -> builtins.int:
        if not self._node.dtype.is_integer:
            raise DTypeError(f"index: a {self._node.dtype} tensor cannot be used as an index")
        return builtins.int(interop.one_value(self, "index"))

    def __len__(self) -> builtins.int:
        if not self._node.shape:
            raise ArgumentError("len: a tensor of rank 0 has no length")
        size = self._node.shape[0]
        if isinstance(size, Index):
            raise TraceError(f"len: the first axis has the symbolic size {size}", hint="Use x.shape[0] instead.")
        return size

    def __iter__(self) -> Iterator[Tensor]:
        if not self._node.shape:
            raise ArgumentError("iteration: a tensor of rank 0 has no elements to go through")
        return (indexing.index(self, i) for i in range(len(self)))

    def __contains__(self, value: Any) -> builtins.bool:
        return builtins.bool(reductions.any(elementwise.equal(self, value)))

    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> NDArray[Any]:
        return interop.array_protocol(self, dtype, copy)

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[builtins.int, builtins.int] | None = None,
        dl_device: tuple[builtins.int, builtins.int] | None = None,
        copy: builtins.bool | None = None,
    ) -> Any:
        return interop.dlpack(self, max_version=max_version, copy=copy)

    def __dlpack_device__(self) -> tuple[builtins.int, builtins.int]:
        return 1, 0  # kDLCPU

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        import sys

        return sys.modules["smelt"]

    # --- text and identity

    def __repr__(self) -> str:
        return formatting.describe(self)

    def __str__(self) -> str:
        return formatting.show(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def _repr_html_(self) -> str:
        return formatting.show_html(self)

    __hash__ = object.__hash__

    def __copy__(self) -> Tensor[DT, *S]:
        return self

    def __deepcopy__(self, memo: Any) -> Tensor[DT, *S]:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return interop.asarray, (np.array(self.numpy()),)

    # --- indexing

    __getitem__ = indexing.index

    def __setitem__(self, key: Any, value: Any) -> Never:
        raise ArgumentError("item assignment: tensors never change", hint="Use smelt.where to make a changed copy.")

    # --- operators

    __add__ = operators.add
    __sub__ = operators.subtract
    __mul__ = operators.multiply
    __truediv__ = operators.divide
    __matmul__ = operators.forward(linear.matmul)
    __floordiv__ = operators.forward(elementwise.floor_divide)
    __mod__ = operators.forward(elementwise.remainder)
    __pow__ = operators.forward(elementwise.pow)
    __and__ = operators.forward(elementwise.bitwise_and)
    __or__ = operators.forward(elementwise.bitwise_or)
    __xor__ = operators.forward(elementwise.bitwise_xor)
    __lshift__ = operators.forward(elementwise.bitwise_left_shift)
    __rshift__ = operators.forward(elementwise.bitwise_right_shift)
    __eq__ = operators.forward(elementwise.equal)  # type: ignore[assignment]
    __ne__ = operators.forward(elementwise.not_equal)  # type: ignore[assignment]
    __lt__ = operators.forward(elementwise.less)
    __le__ = operators.forward(elementwise.less_equal)
    __gt__ = operators.forward(elementwise.greater)
    __ge__ = operators.forward(elementwise.greater_equal)
    __radd__ = operators.reflected(elementwise.add)
    __rsub__ = operators.reflected(elementwise.subtract)
    __rmul__ = operators.reflected(elementwise.multiply)
    __rtruediv__ = operators.reflected(elementwise.divide)
    __rmatmul__ = operators.reflected(linear.matmul)
    __rfloordiv__ = operators.reflected(elementwise.floor_divide)
    __rmod__ = operators.reflected(elementwise.remainder)
    __rpow__ = operators.reflected(elementwise.pow)
    __rand__ = operators.reflected(elementwise.bitwise_and)
    __ror__ = operators.reflected(elementwise.bitwise_or)
    __rxor__ = operators.reflected(elementwise.bitwise_xor)
    __rlshift__ = operators.reflected(elementwise.bitwise_left_shift)
    __rrshift__ = operators.reflected(elementwise.bitwise_right_shift)
    __neg__ = elementwise.negative
    __pos__ = elementwise.positive
    __abs__ = elementwise.abs
    __invert__ = elementwise.bitwise_invert

    # --- families: what each does is said at its definition

    abs = elementwise.abs
    absolute = elementwise.abs
    negative = neg = elementwise.negative
    sign = elementwise.sign
    bitwise_invert = elementwise.bitwise_invert
    logical_not = elementwise.logical_not
    exp = elementwise.exp
    exp2 = elementwise.exp2
    expm1 = elementwise.expm1
    log = elementwise.log
    log2 = elementwise.log2
    log1p = elementwise.log1p
    sqrt = elementwise.sqrt
    rsqrt = elementwise.rsqrt
    reciprocal = elementwise.reciprocal
    sin = elementwise.sin
    cos = elementwise.cos
    tan = elementwise.tan
    tanh = elementwise.tanh
    erf = elementwise.erf
    floor = elementwise.floor
    ceil = elementwise.ceil
    trunc = elementwise.trunc
    round = elementwise.round
    square = elementwise.square
    isnan = elementwise.isnan
    isinf = elementwise.isinf
    isfinite = elementwise.isfinite

    add = elementwise.add
    subtract = sub = elementwise.subtract
    multiply = mul = elementwise.multiply
    divide = div = elementwise.divide
    floor_divide = elementwise.floor_divide
    remainder = elementwise.remainder
    pow = power = elementwise.pow
    maximum = elementwise.maximum
    minimum = elementwise.minimum
    bitwise_and = elementwise.bitwise_and
    bitwise_or = elementwise.bitwise_or
    bitwise_xor = elementwise.bitwise_xor
    bitwise_left_shift = elementwise.bitwise_left_shift
    bitwise_right_shift = elementwise.bitwise_right_shift
    equal = eq = elementwise.equal
    not_equal = ne = elementwise.not_equal
    less = lt = elementwise.less
    less_equal = le = elementwise.less_equal
    greater = gt = elementwise.greater
    greater_equal = ge = elementwise.greater_equal
    logical_and = elementwise.logical_and
    logical_or = elementwise.logical_or
    logical_xor = elementwise.logical_xor
    clip = clamp = elementwise.clip
    lerp = elementwise.lerp

    relu = activations.relu
    leaky_relu = activations.leaky_relu
    elu = activations.elu
    gelu = activations.gelu
    silu = activations.silu
    sigmoid = activations.sigmoid
    softplus = activations.softplus
    softmax = activations.softmax
    log_softmax = activations.log_softmax
    layer_norm = layers.layer_norm
    rms_norm = layers.rms_norm
    cross_entropy = layers.cross_entropy

    sum = reductions.sum
    prod = reductions.prod
    max = amax = reductions.max
    min = amin = reductions.min
    any = reductions.any
    all = reductions.all
    count_nonzero = reductions.count_nonzero
    mean = reductions.mean
    var = reductions.var
    std = reductions.std
    logsumexp = reductions.logsumexp
    argmax = reductions.argmax
    argmin = reductions.argmin
    norm = norms.norm
    vector_norm = norms.vector_norm

    cumsum = scans.cumsum
    cumprod = scans.cumprod
    cumulative_sum = scans.cumulative_sum
    cumulative_prod = scans.cumulative_prod
    cummax = scans.cummax
    cummin = scans.cummin
    logcumsumexp = scans.logcumsumexp
    diff = scans.diff

    reshape = view = movement.reshape
    flatten = movement.flatten
    squeeze = movement.squeeze
    expand_dims = unsqueeze = movement.expand_dims
    permute_dims = permute = movement.permute_dims
    transpose = movement.transpose
    matrix_transpose = movement.matrix_transpose
    swapaxes = movement.swapaxes
    moveaxis = movedim = movement.moveaxis
    flip = movement.flip
    roll = movement.roll
    broadcast_to = movement.broadcast_to
    expand = movement.expand
    tile = movement.tile
    repeat = movement.repeat
    pad = movement.pad
    tril = movement.tril
    triu = movement.triu
    unstack = joining.unstack
    split = joining.split
    chunk = joining.chunk

    matmul = linear.matmul
    vecdot = linear.vecdot
    outer = linear.outer
    tensordot = linear.tensordot

    # --- casts; last, as their names hide Python's types

    astype = interop.astype

    def to(self, target: Any, /) -> Tensor[Any, *S]:
        """`astype` for a dtype, `to_device` for a device."""
        return self.to_device(target) if isinstance(target, str) and target == "cpu" else self.astype(target)

    def to_device(self, device: Any, /, *, stream: Any = None) -> Tensor[DT, *S]:
        """The tensor on a device."""
        check_device(device, "to_device")
        return self

    def half(self) -> Tensor[Any, *S]:
        """The values as float16."""
        return self.astype(dtypes.float16)

    def bfloat16(self) -> Tensor[Any, *S]:
        """The values as bfloat16."""
        return self.astype(dtypes.bfloat16)

    def double(self) -> Tensor[Any, *S]:
        """The values as float64."""
        return self.astype(dtypes.float64)

    def long(self) -> Tensor[Any, *S]:
        """The values as int64."""
        return self.astype(dtypes.int64)

    def float(self) -> Tensor[Any, *S]:
        """The values as float32."""
        return self.astype(dtypes.float32)

    def int(self) -> Tensor[Any, *S]:
        """The values as int32."""
        return self.astype(dtypes.int32)

    def bool(self) -> Tensor[Any, *S]:
        """True where a value is not zero."""
        return self.astype(dtypes.bool_)


register(Tensor)
