"""A deep-learning compiler with a tensor library on top: `import smelt as sm`.

Takes tensor programs; gives fused kernels and their results. Always holds: nothing is computed before it is asked for,
a tensor never changes, and what this module names is the whole public surface.
"""

from __future__ import annotations

import importlib
import math as _math
from typing import TYPE_CHECKING, Any

from smelt import errors
from smelt.dtypes import (
    DType,
    bfloat16,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int4,
    int8,
    int16,
    int32,
    int64,
    uint4,
    uint8,
    uint16,
    uint32,
    uint64,
)
from smelt.dtypes import bool_ as bool
from smelt.graph.index import Dim
from smelt.tensor import Tensor, random, types
from smelt.tensor.activations import (
    elu,
    gelu,
    leaky_relu,
    log_softmax,
    relu,
    sigmoid,
    silu,
    softmax,
    softplus,
)
from smelt.tensor.creation import (
    arange,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    zeros,
    zeros_like,
)
from smelt.tensor.elementwise import (
    abs,
    add,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    cos,
    divide,
    equal,
    erf,
    exp,
    exp2,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    isfinite,
    isinf,
    isnan,
    lerp,
    less,
    less_equal,
    log,
    log1p,
    log2,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    not_equal,
    positive,
    pow,
    reciprocal,
    remainder,
    round,
    rsqrt,
    sign,
    sin,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
    where,
)
from smelt.tensor.interop import asarray, astype, from_dlpack, from_numpy, realize
from smelt.tensor.joining import chunk, concat, meshgrid, split, stack, unstack
from smelt.tensor.layers import attention, cross_entropy, layer_norm, rms_norm, scaled_dot_product_attention
from smelt.tensor.linear import matmul, outer, tensordot, vecdot
from smelt.tensor.movement import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    expand,
    expand_dims,
    flatten,
    flip,
    matrix_transpose,
    moveaxis,
    pad,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    swapaxes,
    tile,
    transpose,
    tril,
    triu,
)
from smelt.tensor.norms import norm, vector_norm
from smelt.tensor.reductions import (
    all,
    any,
    argmax,
    argmin,
    count_nonzero,
    logsumexp,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from smelt.tensor.scalars import finfo, iinfo, isdtype, result_type
from smelt.tensor.scans import (
    cummax,
    cummin,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    diff,
    logcumsumexp,
)

if TYPE_CHECKING:
    from smelt.transform.explain import explain as explain
    from smelt.transform.jit import jit as jit

# Names that other libraries use for the same functions.
absolute = abs
neg = negative
sub = subtract
mul = multiply
div = true_divide = divide
mod = remainder
power = pow
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
clamp = clip
amax, amin = max, min
cat = concatenate = concat
unbind = unstack
permute = permute_dims
unsqueeze = expand_dims
movedim = moveaxis

e: float = _math.e
inf: float = _math.inf
nan: float = _math.nan
pi: float = _math.pi
newaxis = None

__version__ = "0.1.0"
__array_api_version__ = "2023.12"

# Loaded when first used, so that `import smelt` stays instant.
_LAZY = {"jit": "smelt.transform", "explain": "smelt.transform"}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'smelt' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "errors",
    "DType",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "int4",
    "uint4",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "Dim",
    "Tensor",
    "jit",
    "explain",
    "random",
    "types",
    "elu",
    "gelu",
    "leaky_relu",
    "log_softmax",
    "relu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "arange",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "ones",
    "ones_like",
    "zeros",
    "zeros_like",
    "abs",
    "add",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "cos",
    "divide",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "isfinite",
    "isinf",
    "isnan",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "positive",
    "pow",
    "reciprocal",
    "remainder",
    "round",
    "rsqrt",
    "sign",
    "sin",
    "sqrt",
    "square",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "where",
    "asarray",
    "astype",
    "from_dlpack",
    "from_numpy",
    "realize",
    "chunk",
    "concat",
    "meshgrid",
    "split",
    "stack",
    "unstack",
    "attention",
    "cross_entropy",
    "layer_norm",
    "rms_norm",
    "scaled_dot_product_attention",
    "matmul",
    "outer",
    "tensordot",
    "vecdot",
    "broadcast_arrays",
    "broadcast_shapes",
    "broadcast_to",
    "expand",
    "expand_dims",
    "flatten",
    "flip",
    "matrix_transpose",
    "moveaxis",
    "pad",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "swapaxes",
    "tile",
    "transpose",
    "tril",
    "triu",
    "all",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
    "norm",
    "vector_norm",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "logcumsumexp",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
    "absolute",
    "neg",
    "sub",
    "mul",
    "div",
    "true_divide",
    "mod",
    "power",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "clamp",
    "amax",
    "amin",
    "cat",
    "concatenate",
    "unbind",
    "permute",
    "unsqueeze",
    "movedim",
    "e",
    "inf",
    "nan",
    "pi",
    "newaxis",
]
