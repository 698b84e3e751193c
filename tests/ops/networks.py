"""Activations and the layers that the compiler knows as a whole."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from tests.ops.elementwise import erf
from tests.ops.samples import (
    Array,
    Sample,
    Samples,
    as_real,
    call,
    one,
    strided,
    values,
)
from tests.ops.spec import (
    ALL,
    AXIS_2,
    AXIS_FLOAT,
    AXIS_NONE,
    AXIS_TENSOR,
    BOTH_AXES,
    FLOATS,
    OpSpec,
    Tolerance,
    Wrong,
    not_computed,
    not_number,
    not_tensors,
    to_float,
    too_large,
    wrong,
    zeros,
)

# --- activations


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def along(x: Array, axis: int | None, dim: int | None) -> int:
    return -1 if axis is None and dim is None else dim if axis is None else axis  # type: ignore[return-value]


def log_softmax(x: Array, axis: int | None = None, dim: int | None = None) -> Array:
    at = along(x, axis, dim)
    x = np.asarray(x, np.float64)
    shifted = x - np.max(x, at, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.sum(np.exp(shifted), at, keepdims=True))


def softmax(x: Array, axis: int | None = None, dim: int | None = None) -> Array:
    at = along(x, axis, dim)
    x = np.asarray(x, np.float64)
    powers = np.exp(x - np.max(x, at, keepdims=True, initial=-np.inf))
    return powers / np.sum(powers, at, keepdims=True)


def gelu(x: Array, approximate: str = "none") -> Array:
    x = np.asarray(x, np.float64)
    if approximate == "none":
        return 0.5 * x * (1 + erf(x * math.sqrt(0.5)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def rows(dtype: DType) -> list[Sample]:
    x = values(dtype, 3, 5, 7)
    calls = [call(x), call(x, 1), call(x, axis=0), call(x, dim=-2), call(strided(dtype, 4, 13), -1)]
    calls += [
        call(values(dtype, 2, 1031)),
        call(values(dtype, 4, 1)),
        call(values(dtype, 0, 3)),
        call(values(dtype, 3, 0)),
    ]
    if dtype.is_float:
        calls.append(
            call(np.array([[0, np.inf, 1], [-np.inf] * 3, [np.nan, 1, 2], [-np.inf, 0, 1]]).astype(dtype.numpy))
        )
        calls.append(call((values(dtype, 5, 11) * 8).astype(dtype.numpy)))
    return calls


def activation(name: str, reference: Callable[..., Array], samples: Samples = one, **more: Any) -> OpSpec:
    def wide(x: Array, *args: Any, **kwargs: Any) -> Array:
        return reference(as_real(x), *args, **kwargs)

    errors = (*more.pop("errors", ()), not_computed(name), *not_tensors(name))
    tolerance = Tolerance(ulps=8, epsilons=4)
    return OpSpec(name, wide, samples, (*FLOATS, dtypes.int16), to_float, tolerance, errors=errors, **more)


def moderate(*extra: Any, **keywords: Any) -> Samples:
    """Ordinary values with further arguments, and without the extremes at which formulas overflow in a narrow type."""

    def samples(dtype: DType) -> list[Sample]:
        return [call(*s.args, *extra, **keywords) for s in one(dtype, low=-20, high=20)]

    return samples


ROWS_ERRORS = (AXIS_2, AXIS_FLOAT, AXIS_NONE, AXIS_TENSOR, BOTH_AXES)
SLOPES = [not_number("negative_slope", zeros(2)), too_large("negative_slope", zeros(2))]
ALPHAS = [not_number("alpha", zeros(2)), too_large("alpha", zeros(2))]
MODES = [
    wrong(ArgumentError, "approximate must be 'none', 'tanh' or 'quick', got 'fast'", zeros(2), "fast"),
    wrong(ArgumentError, "approximate must be 'none', 'tanh' or 'quick', got True", zeros(2), approximate=True),
]

ACTIVATIONS = [
    OpSpec(
        "relu",
        lambda x: np.maximum(x, np.zeros((), x.dtype)),
        one,
        ALL,
        errors=[not_computed("relu"), *not_tensors("relu")],
    ),
    activation("leaky_relu", lambda x, slope=0.01: np.where(x > 0, x, slope * x), errors=SLOPES),
    activation(
        "leaky_relu", lambda x, negative_slope: np.where(x > 0, x, negative_slope * x), moderate(negative_slope=0.25)
    ),
    activation("elu", lambda x, alpha=1.0: np.where(x > 0, x, alpha * np.expm1(x)), moderate(0.5), errors=ALPHAS),
    activation("sigmoid", sigmoid),
    activation("softplus", lambda x: np.logaddexp(0, x)),
    activation("silu", lambda x: x * sigmoid(x), moderate()),
    activation("gelu", gelu, moderate(), errors=MODES),
    activation("gelu", gelu, moderate(approximate="tanh")),
    activation("softmax", softmax, rows, errors=ROWS_ERRORS),
    activation("log_softmax", log_softmax, rows, errors=ROWS_ERRORS),
]

# --- layers


def normalized(x: Array, weight: Any = None, bias: Any = None, *, axes: int = 1, eps: float = 1e-5) -> Array:
    last = tuple(range(-axes, 0))
    result = (x - x.mean(last, keepdims=True)) / np.sqrt(x.var(last, keepdims=True) + eps)
    return result * (1 if weight is None else weight) + (0 if bias is None else bias)


def rms(x: Array, weight: Any = None, *, axes: int = 1, eps: float = 1e-5) -> Array:
    return x / np.sqrt(np.mean(x * x, tuple(range(-axes, 0)), keepdims=True) + eps) * (1 if weight is None else weight)


def norms(dtype: DType) -> list[Sample]:
    x, w = values(dtype, 3, 5, 7), values(dtype, 7)
    return [
        call(x),
        call(x, w),
        call(x, eps=0.5),
        call(x, values(dtype, 5, 7), axes=2),
        call(strided(dtype, 4, 13)),
        call(values(dtype, 2, 1031)),
        call(values(dtype, 0, 3)),
    ]


def affine_norms(dtype: DType) -> list[Sample]:
    x, w, b = values(dtype, 3, 5, 7), values(dtype, 7), values(dtype, 7, high=2)
    return [*norms(dtype), call(x, w, b), call(x, bias=b), call(x, weight=w)]


def attention(
    q: Array, k: Array, v: Array, mask: Any = None, *, causal: bool = False, scale: float | None = None
) -> Array:
    if q.ndim > 2 and q.shape[-3] % k.shape[-3] == 0 and q.shape[-3] > k.shape[-3] == v.shape[-3] > 1:
        k, v = (np.repeat(x, q.shape[-3] // x.shape[-3], -3) for x in (k, v))
    scores = (q @ np.swapaxes(k, -1, -2)) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    return softmax(scores) @ v


def queries(dtype: DType) -> list[Sample]:
    q, k, v = values(dtype, 2, 5, 4), values(dtype, 2, 7, 4), values(dtype, 2, 7, 3)
    square = values(dtype, 1, 3, 6, 8), values(dtype, 2, 1, 6, 8), values(dtype, 2, 3, 6, 8)
    mask = np.ones((5, 7), bool)
    mask[:, 3:] = False
    many = values(dtype, 6, 19, 4), values(dtype, 2, 19, 4), values(dtype, 2, 19, 5)  # queries enough for one kernel
    return [
        call(q, k, v),
        call(q, k, v, mask),
        call(q, k, v, values(dtype, 7)),
        call(*square, causal=True),
        call(*square, scale=0.25),
        call(q[0], k[0], v[0]),
        call(*many),
        call(*many, causal=True),
        call(*many, np.tri(19, dtype=bool)[:, ::-1].copy()),
    ]


def renamed_attention(
    q: Array, k: Array, v: Array, attn_mask: Any = None, *, is_causal: bool = False, enable_gqa: bool = True
) -> Array:
    return attention(q, k, v, attn_mask, causal=is_causal)


def cross_entropy(logits: Array, labels: Array, axis: int = 1, reduction: str = "mean") -> Any:
    logits = np.moveaxis(logits, axis, -1)
    losses = -np.take_along_axis(log_softmax(logits), labels[..., None].astype(np.int64), -1)[..., 0]
    return {"mean": np.mean, "sum": np.sum, "none": np.array}[reduction](losses)


def classified(dtype: DType) -> list[Sample]:
    logits, labels = values(dtype, 6, 5), np.array([0, 4, 2, 2, 1, 3])
    images = values(dtype, 2, 3, 4)
    return [
        call(logits, labels),
        call(logits, labels.astype(np.uint8), reduction="sum"),
        call(images, labels[:2, None] % 4 * np.ones((1, 3), np.int32), reduction="none", axis=-1),
        call(images, labels.reshape(2, 3)[:, :, None].repeat(4, 2)[:, 0] % 3),
    ]


LAYER = Tolerance(ulps=16, epsilons=32)


def norm_errors(name: str) -> list[Wrong]:
    return [
        wrong(ShapeError, f"{name}: a weight or bias does not fit", zeros(2, 3), zeros(2)),
        wrong(ArgumentError, "number of last axes", zeros(2, 3), axes=3),
        wrong(ArgumentError, f"{name}: eps is -1", zeros(2, 3), eps=-1),
        wrong(ArgumentError, f"{name}: eps must be a finite number, got 'small'", zeros(2, 3), eps="small"),
        wrong(DTypeError, f"{name}: no tensor can hold elements of the NumPy dtype <U4", zeros(2, 3), "text"),
        not_computed(name),
    ]


def attention_errors(mask: str, causal: str) -> list[Wrong]:
    """With the names of two arguments, which differ between libraries."""
    x = zeros(2, 3)
    return [
        wrong(ShapeError, "queries and keys have different numbers of features", x, zeros(2, 4), zeros(2, 4)),
        wrong(ShapeError, "attention: there are not as many keys as values", x, x, zeros(4, 3)),
        wrong(ArgumentError, "attention: causal must be True or False", x, x, x, **{causal: 1}),
        wrong(ArgumentError, "attention: scale must be a finite number", x, x, x, scale="small"),
        wrong(DTypeError, "attention: no tensor can hold elements of the NumPy dtype <U4", x, x, x, **{mask: "text"}),
    ]


LAYERS = [
    OpSpec(
        "layer_norm",
        normalized,
        affine_norms,
        FLOATS,
        tolerance=LAYER,
        errors=[
            wrong(ShapeError, "a weight or bias does not fit", zeros(2, 3), bias=zeros(2)),
            *norm_errors("layer_norm"),
        ],
    ),
    OpSpec("rms_norm", rms, norms, FLOATS, tolerance=LAYER, errors=norm_errors("rms_norm")),
    OpSpec(
        "attention",
        attention,
        queries,
        FLOATS,
        tolerance=LAYER,
        errors=attention_errors("mask", "causal"),
    ),
    OpSpec(
        "scaled_dot_product_attention",
        renamed_attention,
        lambda dtype: [
            call(*queries(dtype)[3].args, is_causal=True),
            call(*queries(dtype)[1].args),
            call(*queries(dtype)[6].args, enable_gqa=True),
        ],
        FLOATS,
        tolerance=LAYER,
        errors=[
            *attention_errors("attn_mask", "is_causal"),
            wrong(ArgumentError, "enable_gqa must be True or False", *[zeros(2, 3, 4)] * 3, enable_gqa=1),
            wrong(ShapeError, "attention", zeros(4, 3, 4), zeros(2, 3, 4), zeros(2, 3, 4), enable_gqa=False),
        ],
    ),
    OpSpec(
        "cross_entropy",
        cross_entropy,
        classified,
        FLOATS,
        tolerance=LAYER,
        errors=[
            wrong(ShapeError, "probabilities have the shape of the input", zeros(2, 3), zeros(2)),
            wrong(ShapeError, "without its axis 1, the classes", zeros(2, 3), np.array([1])),
            wrong(ShapeError, "Say axis=-1", zeros(2, 4, 3), np.ones((2, 4), np.int64)),
            wrong(AxisError, "axis 2", zeros(2, 3), np.array([1, 1]), axis=2),
            wrong(ArgumentError, "one of mean, sum, none", zeros(2, 3), np.array([1, 1]), reduction="average"),
        ],
    ),
]
