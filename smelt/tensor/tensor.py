"""The Tensor: an immutable handle on a node of the graph, with every function of the families as a method."""

from __future__ import annotations

import builtins
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Generic, Never

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType, as_dtype
from smelt.errors import ArgumentError, DTypeError, ShapeError, TraceError
from smelt.graph import Index, build, product_of, shape_text
from smelt.tensor import complexes, devices, families, formatting, interop, operators
from smelt.tensor.arguments import check_device
from smelt.tensor.habits import Habits, refuse_changes
from smelt.tensor.handle import note_scope, register, wrap
from smelt.tensor.index import assignment
from smelt.tensor.index import nonzero as finding
from smelt.tensor.index import read_write as indexing
from smelt.tensor.index import take_scatter as lookup
from smelt.tensor.index import unique as sets
from smelt.tensor.math import (
    einsums,
    elementwise,
    floats,
    histograms,
    linear,
    nans,
    norms,
    ordering,
    quantiles,
    reductions,
    scans,
    special,
    trigonometry,
)
from smelt.tensor.networks import activations, layers
from smelt.tensor.protocols import Protocols
from smelt.tensor.shape import joining, movement, padding
from smelt.tensor.types import DT, A, B, DTypeLike, R, S, Size, TensorLike
from smelt.tensor.windows import adaptive_pooling, convolution, folding, pooling, resizing

if TYPE_CHECKING:
    from numpy.typing import NDArray

families.prepare()


class Tensor(Habits, Protocols, Generic[DT, *S]):
    """A multidimensional array that is computed when it is asked for and never changes.

    `Tensor[Float32, Literal[2], Literal[3]]` tells a type checker dtype and shape; see `smelt.types`. Make tensors with
    `asarray`, `zeros`, `random.normal` and the like.
    """

    __slots__ = ()

    def __init__(self, data: TensorLike, dtype: DTypeLike | None = None) -> None:
        self._node = interop.to_node(data, "Tensor", None if dtype is None else as_dtype(dtype, "Tensor"))
        note_scope(self)
        if self._node.dtype.is_complex:
            self.__class__ = ComplexTensor

    # --- what it is

    @property
    def shape(self) -> tuple[*S]:
        """The size of each axis."""
        return self._node.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
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
        """Where the values lie or will lie."""
        return devices.device_of(self._node)

    @property
    def real(self) -> Tensor[Any, *S]:
        """The real part; of what is not complex, the tensor itself."""
        return elementwise.real(self)

    @property
    def imag(self) -> Tensor[Any, *S]:
        """The imaginary part; zeros for what is not complex."""
        return elementwise.imag(self)

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
        """The values as a read-only NumPy array that shares memory with the tensor. Refused inside of a function that
        is differentiated by something that they depend on."""
        interop.refuse_differentiated(self, "numpy")
        return interop.numpy(self)

    def gradient(self, *by: Any) -> Any:
        """The gradient of this scalar by one tensor, or a tuple of gradients by several.

        >>> x, w = sm.asarray([1.0, 2.0]), sm.asarray([3.0, 4.0])
        >>> loss = (x * w).sum()
        >>> [slope.tolist() for slope in loss.gradient(x, w)]
        [[3.0, 4.0], [1.0, 2.0]]
        """
        from smelt.tensor import derivatives  # loaded when first used: `import smelt` stays instant

        return derivatives.gradient(self, by)

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

    def __complex__(self) -> builtins.complex:
        value = interop.one_value(self, "complex")
        if self._node.dtype.is_complex:
            return builtins.complex(value)
        return builtins.complex(value, value if math.isnan(value) else 0.0)  # the array API's rule for NaN

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
        if isinstance(self._node.shape[0], Index):
            raise TraceError(
                f"iteration: the first axis has the symbolic size {self._node.shape[0]}",
                hint="Use sm.scan(f, state, x) to go through it inside the compiled function.",
            )
        return (indexing.index(self, i) for i in range(len(self)))

    def __contains__(self, value: Any) -> builtins.bool:
        return builtins.bool(reductions.any(elementwise.equal(self, value)))

    # --- text and identity

    def __repr__(self) -> str:
        return formatting.represent(self)

    def __str__(self) -> str:
        return formatting.show(self)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def _repr_html_(self) -> str:
        return formatting.show_html(self)

    __hash__ = object.__hash__

    # A copy shares the values for as long as both live; donating one of them leaves the other.
    def __copy__(self, memo: Any = None) -> Tensor[DT, *S]:
        return wrap(self._node)

    __deepcopy__ = __copy__

    def __reduce__(self) -> tuple[Any, ...]:
        return interop.asarray, (np.array(self.numpy()),)

    # --- indexing

    __getitem__ = indexing.index

    def __round__(self, ndigits: builtins.int = 0) -> Tensor[DT, *S]:
        return elementwise.round(self, ndigits)

    __setitem__ = assignment.assign

    def __delitem__(self, key: Any) -> Never:
        raise ArgumentError(
            "item deletion: tensors never change",
            hint="Write y = sm.concatenate([x[:i], x[i + 1:]]), or y = x[mask] with True for what stays.",
        )

    @property
    def at(self) -> indexing.At:
        """Changed copies: `x.at[key].set(values)`, or `add`, `multiply`, `min`, `max`; with any key of `x[key]`."""
        return indexing.At(self)

    # --- operators

    __add__ = operators.add
    __sub__ = operators.subtract
    __mul__ = operators.multiply
    __truediv__ = operators.divide
    __matmul__ = operators.forward(linear.matmul)
    __floordiv__ = operators.forward(elementwise.floor_divide)
    __mod__ = operators.forward(elementwise.remainder)
    __divmod__ = operators.forward(elementwise.divmod)
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
    __rdivmod__ = operators.reflected(elementwise.divmod)
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
    divmod = elementwise.divmod
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

    acos = arccos = trigonometry.acos
    acosh = arccosh = trigonometry.acosh
    asin = arcsin = trigonometry.asin
    asinh = arcsinh = trigonometry.asinh
    atan = arctan = trigonometry.atan
    atan2 = arctan2 = trigonometry.atan2
    atanh = arctanh = trigonometry.atanh
    cosh = trigonometry.cosh
    deg2rad = radians = trigonometry.deg2rad
    hypot = trigonometry.hypot
    rad2deg = degrees = trigonometry.rad2deg
    sinc = trigonometry.sinc
    sinh = trigonometry.sinh
    cbrt = special.cbrt
    digamma = special.digamma
    erfc = special.erfc
    erfinv = special.erfinv
    lgamma = special.lgamma
    log10 = special.log10
    logaddexp = special.logaddexp
    logit = special.logit
    xlogy = special.xlogy
    allclose = floats.allclose
    array_equal = floats.array_equal
    bitcast = floats.bitcast
    copysign = floats.copysign
    fmax = floats.fmax
    fmin = floats.fmin
    fmod = floats.fmod
    frac = floats.frac
    heaviside = floats.heaviside
    isclose = floats.isclose
    nan_to_num = floats.nan_to_num
    nextafter = floats.nextafter
    signbit = floats.signbit

    relu = activations.relu
    leaky_relu = activations.leaky_relu
    elu = activations.elu
    gelu = activations.gelu
    silu = swish = activations.silu
    celu = activations.celu
    glu = activations.glu
    hard_sigmoid = activations.hard_sigmoid
    hard_swish = activations.hard_swish
    hard_tanh = activations.hard_tanh
    log_sigmoid = activations.log_sigmoid
    mish = activations.mish
    prelu = activations.prelu
    relu6 = activations.relu6
    selu = activations.selu
    softmin = activations.softmin
    softsign = activations.softsign
    swiglu = activations.swiglu
    tanhshrink = activations.tanhshrink
    threshold = activations.threshold
    sigmoid = activations.sigmoid
    softplus = activations.softplus
    softmax = activations.softmax
    log_softmax = activations.log_softmax
    layer_norm = layers.layer_norm
    rms_norm = layers.rms_norm

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
    median = quantiles.median
    quantile = quantiles.quantile
    percentile = quantiles.percentile
    nanmedian = quantiles.nanmedian
    nanquantile = quantiles.nanquantile
    nanpercentile = quantiles.nanpercentile
    nanmax = nans.nanmax
    nanmean = nans.nanmean
    nanmin = nans.nanmin
    nanprod = nans.nanprod
    nanstd = nans.nanstd
    nansum = nans.nansum
    nanvar = nans.nanvar
    digitize = histograms.digitize
    histogram = histograms.histogram

    cumsum = scans.cumsum
    cumprod = scans.cumprod
    cumulative_sum = scans.cumulative_sum
    cumulative_prod = scans.cumulative_prod
    cummax = scans.cummax
    cummin = scans.cummin
    logcumsumexp = scans.logcumsumexp
    diff = scans.diff

    sort = ordering.sort
    argsort = ordering.argsort
    topk = ordering.topk
    nonzero = finding.nonzero
    argwhere = finding.argwhere
    flatnonzero = finding.flatnonzero
    bincount = finding.bincount
    unique = sets.unique
    unique_values = sets.unique_values
    unique_counts = sets.unique_counts
    unique_inverse = sets.unique_inverse
    unique_all = sets.unique_all
    isin = sets.isin

    reshape = movement.reshape
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
    repeat = repeat_interleave = movement.repeat
    pad = padding.pad
    tril = movement.tril
    triu = movement.triu
    atleast_1d = movement.atleast_1d
    atleast_2d = movement.atleast_2d
    atleast_3d = movement.atleast_3d
    diag = movement.diag
    diagonal = movement.diagonal
    ravel = movement.ravel
    rot90 = movement.rot90
    unflatten = movement.unflatten
    unstack = joining.unstack
    split = joining.split
    chunk = joining.chunk
    array_split = tensor_split = joining.array_split

    take = lookup.take
    take_along_axis = lookup.take_along_axis
    gather = lookup.gather
    scatter = lookup.scatter
    scatter_add = lookup.scatter_add
    index_select = lookup.index_select
    masked_fill = lookup.masked_fill
    masked_select = lookup.masked_select
    one_hot = lookup.one_hot
    searchsorted = lookup.searchsorted

    conj = elementwise.conj
    angle = elementwise.angle

    matmul = mm = bmm = linear.matmul
    dot = linear.dot
    vecdot = linear.vecdot
    outer = linear.outer
    tensordot = linear.tensordot
    inner = einsums.inner
    kron = einsums.kron

    conv = convolution.conv
    conv1d = convolution.conv1d
    conv2d = convolution.conv2d
    conv3d = convolution.conv3d
    conv_transpose1d = convolution.conv_transpose1d
    conv_transpose2d = convolution.conv_transpose2d
    conv_transpose3d = convolution.conv_transpose3d
    pool = pooling.pool
    max_pool1d = pooling.max_pool1d
    max_pool2d = pooling.max_pool2d
    max_pool3d = pooling.max_pool3d
    avg_pool1d = pooling.avg_pool1d
    avg_pool2d = pooling.avg_pool2d
    avg_pool3d = pooling.avg_pool3d
    lp_pool1d = pooling.lp_pool1d
    lp_pool2d = pooling.lp_pool2d
    lp_pool3d = pooling.lp_pool3d
    adaptive_avg_pool1d = adaptive_pooling.adaptive_avg_pool1d
    adaptive_avg_pool2d = adaptive_pooling.adaptive_avg_pool2d
    adaptive_avg_pool3d = adaptive_pooling.adaptive_avg_pool3d
    adaptive_max_pool1d = adaptive_pooling.adaptive_max_pool1d
    adaptive_max_pool2d = adaptive_pooling.adaptive_max_pool2d
    adaptive_max_pool3d = adaptive_pooling.adaptive_max_pool3d
    fractional_max_pool2d = adaptive_pooling.fractional_max_pool2d
    unfold = folding.unfold
    fold = folding.fold
    interpolate = resize = resizing.interpolate

    # --- casts; last, as their names hide Python's types

    astype = interop.astype

    def to(self, target: Any = None, *, dtype: Any = None, device: Any = None) -> Tensor[Any, *S]:
        """`astype` for a dtype, `to_device` for a device."""
        if isinstance(target, str) and not dtypes.is_dtype(target):
            device = target
        elif target is not None:
            dtype = target
        cast = self if dtype is None else self.astype(dtype)
        return cast if device is None else cast.to_device(device)

    def to_device(self, device: Any, *, stream: Any = None) -> Tensor[DT, *S]:
        """The tensor on a device, which is copied if it lies on another one. Streams are not for users to name."""
        check_device(device, "to_device")
        if stream is not None:
            raise ArgumentError(f"to_device: stream {stream!r}", rule="devices have no streams here: it must be None.")
        return devices.placed(self, device, "to_device")

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


refuse_changes(Tensor)
register(Tensor)
ComplexTensor = complexes.prepare(Tensor)
