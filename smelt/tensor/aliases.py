"""Names that other libraries use for the same functions."""

from __future__ import annotations

from smelt.tensor.interop import asarray
from smelt.tensor.math.elementwise import (
    abs,
    clip,
    divide,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    multiply,
    negative,
    not_equal,
    pow,
    remainder,
    subtract,
)
from smelt.tensor.math.linear import matmul
from smelt.tensor.math.reductions import max, min
from smelt.tensor.math.trigonometry import acos, acosh, asin, asinh, atan, atan2, atanh, deg2rad, rad2deg
from smelt.tensor.networks.activations import silu
from smelt.tensor.random import permutation, rand, randint, randn, seed
from smelt.tensor.shape.joining import array_split, concat, unstack, vstack
from smelt.tensor.shape.movement import expand_dims, moveaxis, permute_dims, repeat
from smelt.tensor.windows.resizing import interpolate

__all__ = [
    "absolute",
    "amax",
    "amin",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "array",
    "as_tensor",
    "bmm",
    "cat",
    "clamp",
    "concatenate",
    "degrees",
    "div",
    "eq",
    "ge",
    "gt",
    "le",
    "lt",
    "manual_seed",
    "mm",
    "mod",
    "movedim",
    "mul",
    "ne",
    "neg",
    "permute",
    "power",
    "radians",
    "rand",
    "randint",
    "randn",
    "randperm",
    "repeat_interleave",
    "resize",
    "row_stack",
    "sub",
    "swish",
    "tensor",
    "tensor_split",
    "true_divide",
    "unbind",
    "unsqueeze",
]

tensor = array = as_tensor = asarray
absolute = abs
neg = negative
sub = subtract
mul = multiply
div = true_divide = divide
mod = remainder
power = pow
eq, ne, lt, le, gt, ge = equal, not_equal, less, less_equal, greater, greater_equal
clamp = clip
arcsin, arccos, arctan, arctan2 = asin, acos, atan, atan2
arcsinh, arccosh, arctanh = asinh, acosh, atanh
mm = bmm = matmul
manual_seed, randperm = seed, permutation
radians, degrees = deg2rad, rad2deg
swish = silu
amax, amin = max, min
cat = concatenate = concat
unbind = unstack
permute = permute_dims
unsqueeze = expand_dims
movedim = moveaxis
row_stack = vstack
tensor_split = array_split
repeat_interleave = repeat
resize = interpolate
