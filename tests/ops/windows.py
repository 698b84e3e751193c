"""Functions of windows: convolution, pooling, unfolding; and resizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, ShapeError
from tests.ops import window_references as reference
from tests.ops.samples import Array, Sample, Samples, call, special, strided, values
from tests.ops.spec import (
    FLOATS,
    NUMBERS,
    OpSpec,
    Tolerance,
    Wrong,
    not_flag,
    not_number,
    to_float,
    wrong,
    zeros,
)

SUMS = Tolerance(ulps=8, epsilons=128)
AVERAGE = Tolerance(ulps=4, epsilons=16)


def small(dtype: DType, *shape: int) -> Array:
    """Numbers whose products are small, with other bounds than `values` has."""
    return values(dtype, *shape, low=-1.0, high=1.0) if dtype.is_float else values(dtype, *shape, low=-2, high=2)


def odd(dtype: DType, *shape: int) -> Array:
    """Numbers among which there are NaN, infinities and zeros of both signs."""
    x = values(dtype, *shape).reshape(-1)
    found = special(dtype)
    x[:: max(1, x.size // len(found))][: len(found)] = found[: len(x[:: max(1, x.size // len(found))])]
    return x.reshape(shape)


# --- convolution


def conv1_samples(dtype: DType) -> list[Sample]:
    w = small(dtype, 5, 3, 4)
    return [
        call(small(dtype, 2, 3, 11), w),
        call(small(dtype, 2, 3, 11), w, small(dtype, 5), stride=3, padding=(2,)),
        call(strided(dtype, 2, 3, 17, low=-1, high=1), w, None, 2, [(1, 4)], 3),
        call(small(dtype, 3, 19), w, padding="same"),
        call(small(dtype, 0, 3, 11), w),
    ]


def conv2_samples(dtype: DType) -> list[Sample]:
    x = small(dtype, 2, 6, 9, 13)
    return [
        call(x, small(dtype, 7, 6, 3, 3), padding=1),
        call(x, small(dtype, 7, 6, 3, 2), small(dtype, 7), stride=2, padding=(1, 0), dilation=(1, 2)),
        call(x, small(dtype, 4, 3, 3, 3), small(dtype, 4), padding="same", groups=2),
        call(x, small(dtype, 6, 1, 3, 3), padding=1, groups=6),
        call(x, small(dtype, 12, 1, 2, 3), stride=(2, 1), groups=6),
        call(x, small(dtype, 17, 6, 1, 1)),
        call(x, small(dtype, 17, 6, 1, 1), stride=2),
        call(small(dtype, 1, 3, 20, 21), small(dtype, 8, 3, 7, 7), stride=2, padding=3),
        call(strided(dtype, 2, 6, 5, 7, low=-1, high=1), small(dtype, 5, 6, 5, 7)),
        call(small(dtype, 6, 8, 8), small(dtype, 3, 6, 2, 2), stride=2),
        call(small(dtype, 1, 1, 1, 1), small(dtype, 1, 1, 3, 3), padding=1),
        call(small(dtype, 2, 6, 8, 8), small(dtype, 6, 6, 4, 4), padding="same", dilation=2),
    ]


def conv3_samples(dtype: DType) -> list[Sample]:
    x = small(dtype, 1, 2, 5, 6, 7)
    return [
        call(x, small(dtype, 3, 2, 2, 3, 3), padding=1),
        call(x, small(dtype, 2, 1, 3, 1, 2), small(dtype, 2), stride=(1, 2, 3), groups=2),
        call(x, small(dtype, 3, 2, 2, 2, 2), dilation=(2, 1, 3), padding="valid"),
    ]


def transposed_samples(count: int) -> Samples:
    def samples(dtype: DType) -> list[Sample]:
        space = (7, 5, 4)[:count]
        x, w = small(dtype, 2, 4, *space), small(dtype, 4, 3, *(3, 4, 2)[:count])
        return [
            call(x, w),
            call(x, w, small(dtype, 3), stride=2),
            call(x, w, stride=2, padding=1, output_padding=1),
            call(x, small(dtype, 4, 3, *(3, 4, 2)[:count]), small(dtype, 6), stride=(3, 1, 2)[:count], groups=2),
            call(x, w, stride=2, dilation=(3, 2, 1)[:count]),
            call(x, w, padding=1, dilation=2),
            call(small(dtype, 4, *space), w, stride=4),
        ][: 7 if count < 3 else 4]

    return samples


def conv_errors(count: int) -> list[Wrong]:
    x, w = zeros(1, 4, *(5,) * count), zeros(2, 4, *(3,) * count)
    return [
        wrong(ShapeError, "the channels differ", zeros(1, 3, *(5,) * count), w),
        wrong(ShapeError, "has rank 1", x, zeros(3)),
        wrong(ShapeError, "reaches over 3 elements", zeros(1, 4, *(2,) * count), w),
        wrong(
            ShapeError,
            "cannot be divided into 3 groups",
            zeros(1, 3, *(5,) * count),
            zeros(2, 1, *(3,) * count),
            groups=3,
        ),
        wrong(ArgumentError, "'valid' or 'same'", x, w, padding="full"),
        wrong(ArgumentError, "needs a stride of 1", x, w, padding="same", stride=2),
        wrong(ArgumentError, "stride 0 is too small", x, w, stride=0),
        wrong(ShapeError, "the bias has shape (3,)", x, w, zeros(3)),
    ]


def transposed_errors(count: int) -> list[Wrong]:
    x, w = zeros(1, 4, *(5,) * count), zeros(4, 2, *(3,) * count)
    return [
        wrong(ShapeError, "the channels differ", zeros(1, 3, *(5,) * count), w),
        wrong(ArgumentError, "output_padding 2 is too large", x, w, stride=2, output_padding=2),
        wrong(ShapeError, "the result would have the shape", zeros(1, 4, *(1,) * count), w, padding=2),
        wrong(ArgumentError, "groups must be at least 1", x, w, groups=0),
        wrong(ArgumentError, f"stride {10**9} is too large", x, w, stride=10**9),
        wrong(ShapeError, "has rank 1", x, zeros(3)),
    ]


CONVOLUTIONS = [
    OpSpec(
        "conv",
        reference.conv,
        lambda d: [*conv1_samples(d)[:2], *conv2_samples(d)[:2], *conv3_samples(d)[:1]],
        NUMBERS,
        tolerance=SUMS,
        errors=conv_errors(2),
    ),
    OpSpec("conv1d", reference.conv, conv1_samples, NUMBERS, tolerance=SUMS, errors=conv_errors(1)),
    OpSpec("conv2d", reference.conv, conv2_samples, NUMBERS, tolerance=SUMS, errors=conv_errors(2)),
    OpSpec("conv3d", reference.conv, conv3_samples, NUMBERS, tolerance=SUMS, errors=conv_errors(3)),
    *(
        OpSpec(
            f"conv_transpose{n}d",
            reference.conv_transpose,
            transposed_samples(n),
            NUMBERS,
            tolerance=SUMS,
            errors=transposed_errors(n),
        )
        for n in (1, 2, 3)
    ),
]


# --- pooling


def pool_samples(count: int) -> Samples:
    def samples(dtype: DType) -> list[Sample]:
        shape = (2, 3, *(13, 9, 6)[:count])
        return [
            call(values(dtype, *shape), 2),
            call(odd(dtype, *shape), 3, stride=2, padding=1),
            call(strided(dtype, *shape), (3, 2, 2)[:count], stride=1),
            call(values(dtype, *shape), 3, 2, 1, ceil_mode=True),
            call(values(dtype, *shape[1:]), (2, 4, 3)[:count], ceil_mode=True),
            call(values(dtype, *shape), 1),
        ]

    return samples


def max_samples(count: int) -> Samples:
    return lambda dtype: [
        *pool_samples(count)(dtype),
        call(values(dtype, 1, 7, *(13, 12, 9)[:count]), 3, stride=2, dilation=2, padding=1),
    ]


def avg_samples(count: int) -> Samples:
    return lambda dtype: [
        *pool_samples(count)(dtype),
        call(values(dtype, 1, 3, *(9, 7, 5)[:count]), 3, 2, 1, count_include_pad=False),
        call(values(dtype, 1, 3, *(9, 7, 5)[:count]), 3, 2, 1, True, False),
        call(values(dtype, 1, 3, *(8, 7, 6)[:count]), 2, divisor_override=3),
    ]


def lp_samples(count: int) -> Samples:
    return lambda dtype: [
        call(values(dtype, 2, 3, *(13, 9, 6)[:count]), 2, 2),
        call(values(dtype, 2, 3, *(13, 9, 6)[:count]), 1, 3, stride=2),
        call(values(dtype, 2, 3, *(13, 9, 6)[:count]), 3.5, 2, ceil_mode=True),
        call(values(dtype, 2, 3, *(13, 9, 6)[:count]), np.inf, 2),
    ]


def pool_errors(count: int, *before: Any) -> list[Wrong]:
    x = zeros(2, 3, *(5,) * count)
    return [
        wrong(ShapeError, "there must be channels", zeros(*(5,) * count), *before, 2),
        wrong(ShapeError, "reaches over 6 elements", x, *before, 6),
        wrong(ArgumentError, "stride 0 is too small", x, *before, 2, stride=0),
        wrong(ArgumentError, "the window must be an integer", x, *before, 1.5),
        wrong(ArgumentError, "numbers for", x, *before, (2,) * (count + 1)),
        not_flag("ceil_mode", x, *before, 2),
    ]


def padded_errors(count: int) -> list[Wrong]:
    return [
        *pool_errors(count),
        wrong(ArgumentError, "wider than a window of 2", zeros(2, 3, *(5,) * count), 2, padding=2),
    ]


def average_errors(count: int) -> list[Wrong]:
    x = zeros(2, 3, *(5,) * count)
    return [
        *padded_errors(count),
        not_flag("count_include_pad", x, 2),
        wrong(ArgumentError, "divisor_override must not be 0", x, 2, divisor_override=0),
        not_number("divisor_override", x, 2),
    ]


def lp_errors(count: int) -> list[Wrong]:
    x = zeros(2, 3, *(5,) * count)
    return [
        wrong(ArgumentError, "norm_type must be a positive number, got 0", x, 0, 2),
        wrong(ArgumentError, "norm_type must be a number, got 'two'", x, "two", 2),
        wrong(ArgumentError, "norm_type is an integer of 1329 bits", x, 10**400, 2),
    ]


def adaptive_samples(count: int) -> Samples:
    return lambda dtype: [
        call(values(dtype, 2, 3, *(12, 9, 6)[:count]), 3),
        call(strided(dtype, 2, 3, *(13, 9, 6)[:count]), (5, 2, 4)[:count]),
        call(values(dtype, 3, *(13, 9, 6)[:count]), 1),
        call(values(dtype, 1, 3, *(4, 3, 5)[:count]), 7),
        *([call(values(dtype, 2, 3, *(13, 9, 6)[:count]), (4, None, 2)[:count])] if count > 1 else []),
    ]


def adaptive_errors(count: int) -> list[Wrong]:
    x = zeros(2, 3, *(5,) * count)
    return [
        wrong(ArgumentError, "output_size", x, 0),
        wrong(ShapeError, "there must be channels", zeros(*(5,) * count), 2),
        wrong(ArgumentError, "must be an integer", x, 2.5),
    ]


def fractional_samples(dtype: DType) -> list[Sample]:
    samples = np.random.default_rng(7).uniform(size=(2, 3, 2)).astype(np.float32)
    return [
        call(values(dtype, 2, 3, 13, 9), 2, (5, 3), random_samples=samples),
        call(values(dtype, 2, 3, 13, 9), (3, 2), 1, random_samples=samples),
        call(strided(dtype, 2, 3, 12, 8), 2, output_ratio=(0.5, 0.75), random_samples=samples),
    ]


def general(x: Array, function: str, window: Any, *args: Any, **kwargs: Any) -> Array:
    count = len(window) if isinstance(window, tuple) else 1
    folds: dict[str, tuple[Callable[..., Any], float]] = {
        "max": (np.max, -np.inf),
        "min": (np.min, np.inf),
        "sum": (np.sum, 0),
        "prod": (np.prod, 1),
        "mean": (np.mean, 0),
    }
    fold, fill = folds[function]
    return reference.pooled(lambda w: fold(w, -1), x, count, window, *args, fill=fill, **kwargs)


POOLING = [
    OpSpec(
        "pool",
        general,
        lambda dtype: [
            call(values(dtype, 11), "max", 3),
            call(values(dtype, 3, 11, 7), "min", (3, 2), stride=1, padding=1),
            call(values(dtype, 3, 11, 7), "sum", (3, 2), dilation=(2, 1)),
            call(values(dtype, 11, 7, low=-1, high=1), "prod", (2, 2), padding=1),
            call(values(dtype, 2, 11, 7), "mean", (2, 3), ceil_mode=True),
        ],
        FLOATS[2:],
        tolerance=AVERAGE,
        errors=[
            wrong(ArgumentError, "there is no pooling called 'median'", zeros(5), "median", 2),
            wrong(ArgumentError, "there is no pooling called 3", zeros(5), 3, 2),
            wrong(ShapeError, "fewer axes than the 2 of the window", zeros(5), "max", (2, 2)),
            wrong(ShapeError, "reaches over 7 elements", zeros(5), "max", 7),
            wrong(ArgumentError, "it must be at least 1", zeros(5), "max", 0),
        ],
    ),
    *(
        OpSpec(f"max_pool{n}d", reference.max_pool(n), max_samples(n), NUMBERS, errors=padded_errors(n))
        for n in (1, 2, 3)
    ),
    *(
        OpSpec(
            f"avg_pool{n}d", reference.avg_pool(n), avg_samples(n), FLOATS, tolerance=AVERAGE, errors=average_errors(n)
        )
        for n in (1, 2, 3)
    ),
    *(
        OpSpec(
            f"lp_pool{n}d",
            reference.lp_pool(n),
            lp_samples(n),
            FLOATS,
            tolerance=SUMS,
            errors=[*pool_errors(n, 2), *lp_errors(n)],
        )
        for n in (1, 2, 3)
    ),
    *(
        OpSpec(
            f"adaptive_avg_pool{n}d",
            reference.adaptive(np.mean, n),
            adaptive_samples(n),
            FLOATS + NUMBERS[-1:],
            to_float,
            tolerance=AVERAGE,
            errors=adaptive_errors(n),
        )
        for n in (1, 2, 3)
    ),
    *(
        OpSpec(
            f"adaptive_max_pool{n}d",
            reference.adaptive(np.max, n),
            adaptive_samples(n),
            NUMBERS,
            errors=adaptive_errors(n),
        )
        for n in (1, 2, 3)
    ),
    OpSpec(
        "fractional_max_pool2d",
        reference.fractional,
        fractional_samples,
        NUMBERS,
        errors=[
            wrong(ShapeError, "has rank 3", zeros(3, 5, 5), 2, 2),
            wrong(ArgumentError, "either output_size or output_ratio", zeros(1, 1, 5, 5), 2),
            wrong(ShapeError, "5 windows of 2 do not fit", zeros(1, 1, 5, 5), 2, 5),
            wrong(ArgumentError, "between 0 and 1", zeros(1, 1, 5, 5), 2, output_ratio=1.5),
            wrong(ShapeError, "random_samples is", zeros(1, 1, 5, 5), 2, 3, random_samples=zeros(2)),
            wrong(
                DTypeError, "random_samples is", zeros(1, 1, 5, 5), 2, 3, random_samples=np.zeros((1, 1, 2), np.int32)
            ),
        ],
    ),
]


# --- unfolding and resizing


def unfold_samples(dtype: DType) -> list[Sample]:
    x = values(dtype, 2, 3, 7, 9)
    return [
        call(x, -1, 3),
        call(strided(dtype, 5, 7), 0, 2, 3),
        call(values(dtype, 5), 0, 5),
        call(x, (2, 3)),
        call(x, 2, stride=2, padding=1, dilation=(2, 1)),
        call(values(dtype, 3, 7, 9), (3, 3), padding=1),
        call(values(dtype, 2, 3, 11), 4, stride=3),
    ]


def fold_samples(dtype: DType) -> list[Sample]:
    return [
        call(values(dtype, 2, 12, 30), (6, 7), 2),
        call(values(dtype, 2, 12, 9), (5, 6), (2, 3), stride=2, padding=1),
        call(values(dtype, 8, 20), (6, 6), 2, (2, 1), 0),
        call(values(dtype, 1, 6, 4), (13,), 3, 1, 0, 3),
        call(values(dtype, 1, 6, 5), (4,), 2, 1, 1, 1),
        call(values(dtype, 1, 6, 1), (4,), 2, 1, 0, 10**9),
    ]


def sizes_samples(*modes: tuple[str, bool]) -> Samples:
    spaces: dict[str, tuple[tuple[int, ...], ...]] = {
        "linear": ((7,),),
        "bilinear": ((5, 7),),
        "bicubic": ((5, 7),),
        "trilinear": ((3, 4, 5),),
    }

    def samples(dtype: DType) -> list[Sample]:
        found = []
        for mode, corners in modes:
            for space in spaces.get(mode, ((7,), (5, 6), (3, 4, 5))):
                x = values(dtype, 2, 3, *space)
                more = {"mode": mode, **({"align_corners": True} if corners else {})}
                found.append(call(x, (9, 4, 6)[: len(space)], **more))
                if mode in ("nearest", "nearest-exact", "linear"):
                    found += [call(x, scale_factor=s, **more) for s in (1.5, 2)] + [call(x, 1, **more)]
        return found

    return samples


RESIZE_ERRORS = [
    wrong(ArgumentError, "there is no mode 'spline'", zeros(1, 1, 5), 3, mode="spline"),
    wrong(ArgumentError, "there is no mode ['linear']", zeros(1, 1, 5), 3, mode=["linear"]),
    wrong(ShapeError, f"size {2**70} is too large", zeros(1, 1, 5), 2**70, mode="linear"),
    wrong(ArgumentError, "scale_factor 1e+300", zeros(1, 1, 5), scale_factor=1e300),
    not_flag("align_corners", zeros(1, 1, 5), 3, mode="linear"),
    wrong(ShapeError, "it needs a batch, channels and 2 spatial axes", zeros(1, 1, 5), 3, mode="bicubic"),
    wrong(ArgumentError, "either size or scale_factor", zeros(1, 1, 5)),
    wrong(ArgumentError, "has no align_corners", zeros(1, 1, 5), 3, align_corners=True),
    wrong(ArgumentError, "scale_factor 0", zeros(1, 1, 5), scale_factor=0),
    wrong(ShapeError, "the result would have the sizes (0,)", zeros(1, 1, 5), scale_factor=0.1),
]
SMOOTH = (
    ("linear", False),
    ("linear", True),
    ("bilinear", False),
    ("bilinear", True),
    ("trilinear", False),
    ("bicubic", False),
    ("bicubic", True),
    ("area", False),
)

UNFOLDING = [
    OpSpec(
        "unfold",
        reference.unfolded,
        unfold_samples,
        NUMBERS,
        errors=[
            wrong(ShapeError, "reaches over 6 elements", zeros(5), 0, 6),
            wrong(ArgumentError, "both must be at least 1", zeros(5), 0, 0),
            wrong(ShapeError, "no spatial axes", zeros(5), 2),
            wrong(ArgumentError, "dilation, padding and stride go with a window", zeros(5), 0, 2, stride=2),
            wrong(ArgumentError, "padding -1 is negative", zeros(1, 1, 5), 2, padding=-1),
        ],
    ),
    OpSpec(
        "fold",
        reference.folded,
        fold_samples,
        NUMBERS,
        tolerance=SUMS,
        errors=[
            wrong(ShapeError, "a multiple of 4 rows, and 9 columns", zeros(1, 4, 8), (4, 4), 2),
            wrong(ShapeError, "a multiple of 4 rows", zeros(1, 3, 9), (4, 4), 2),
            wrong(ArgumentError, "output_size must be a list", zeros(1, 4, 8), 4, 2),
            wrong(ShapeError, "has rank 4", zeros(1, 1, 4, 8), (4, 4), 2),
        ],
    ),
    OpSpec(
        "interpolate",
        reference.interpolated,
        sizes_samples(("nearest", False), ("nearest-exact", False)),
        NUMBERS,
        errors=RESIZE_ERRORS,
    ),
    OpSpec(
        "resize",
        reference.interpolated,
        sizes_samples(*SMOOTH),
        FLOATS,
        tolerance=Tolerance(ulps=8, epsilons=64),
        errors=RESIZE_ERRORS,
    ),
]
