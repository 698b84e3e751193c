"""Random tensor programs, written with the public functions, whose results are known as they are built.

An *exact* program has small whole numbers (and NaN, infinities and zeros of both signs) as floats, so that every
order of evaluation and every precision gives the same result. A *smooth* program has ordinary floats and functions
without jumps, so that rounding stays small.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

import smelt as sm
from smelt import dtypes
from smelt.dtypes import DType
from smelt.graph.interpret import interpret

Array = NDArray[Any]

SIZES = (0, 1, 1, 2, 3, 5, 7)
MOST_ELEMENTS = 1500
LARGEST_FLOAT = 128.0  # whole numbers up to here are exact in every float dtype
SPECIAL_FLOATS = (0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0)


@dataclass
class Program:
    """Tensors made so far with their values; the last ones depend on many before them."""

    rng: random.Random
    exact: bool
    tensors: list[sm.Tensor] = field(default_factory=list)
    expected: list[Array] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def pick(self, wanted: Callable[[sm.Tensor], bool] = lambda x: True) -> sm.Tensor:
        """One of the tensors that fit, more likely a late one."""
        fitting = [x for x in self.tensors if wanted(x)]
        return fitting[-1] if self.rng.random() < 0.5 else self.rng.choice(fitting)

    def value(self, tensor: sm.Tensor) -> Array:
        at = next(i for i, x in enumerate(self.tensors) if x is tensor)
        return self.expected[at]

    def add(self, tensor: sm.Tensor, step: str) -> None:
        """Keep a result, if it is small; floats that are too large are brought back."""
        if tensor.size > MOST_ELEMENTS or tensor.ndim > 6:  # type: ignore[operator]
            return
        value = evaluated(tensor)
        if tensor.dtype.is_float:
            finite = np.abs(value[np.isfinite(value)].astype(np.float64))
            if finite.size and finite.max() > (LARGEST_FLOAT if self.exact else 4.0):
                tensor, step = (tensor.clip(-7, 7), f"{step}.clip") if self.exact else (tensor.tanh(), f"{step}.tanh")
                value = evaluated(tensor)
        self.tensors.append(tensor)
        self.expected.append(value)
        self.steps.append(step)


def evaluated(tensor: sm.Tensor) -> Array:
    (value,) = interpret([tensor._node], lambda leaf: leaf.attribute.numpy())
    return value


# --- inputs


def leaf_array(rng: random.Random, dtype: DType, exact: bool) -> Array:
    """An array of any rank with any strides: skipping, reversed, permuted, repeated."""
    shape = [rng.choice(SIZES) for _ in range(rng.randint(0, 6))]
    while np.prod(shape, dtype=np.int64) > 300:
        shape.pop()
    steps = [rng.choice((1, 1, 2, -1, -3)) for _ in shape]
    base = numbers(rng, dtype, tuple(size * abs(step) for size, step in zip(shape, steps, strict=True)), exact)
    array = np.asarray(base[tuple(slice(None, None, step) for step in steps)])
    array = array.transpose(rng.sample(range(array.ndim), array.ndim))
    if array.ndim and rng.random() < 0.2:
        axis = rng.randrange(array.ndim)
        if array.shape[axis]:
            array = np.broadcast_to(array.take([0], axis), array.shape)
    return array


def numbers(rng: random.Random, dtype: DType, shape: tuple[int, ...], exact: bool) -> Array:
    count = int(np.prod(shape, dtype=np.int64))
    picked: list[Any]
    if dtype.is_bool:
        picked = [rng.random() < 0.5 for _ in range(count)]
    elif dtype.is_integer:
        low, high = int(dtype.minimum), int(dtype.maximum)
        odd = (low, high, low + 1, high - 1, 0)
        picked = [rng.choice(odd) if rng.random() < 0.2 else rng.randint(max(low, -9), 9) for _ in range(count)]
    elif exact:
        picked = [rng.choice(SPECIAL_FLOATS) if rng.random() < 0.2 else float(rng.randint(-9, 9)) for _ in range(count)]
    else:
        picked = [rng.uniform(-2, 2) for _ in range(count)]
    return np.array(picked, object if dtype.is_integer else np.float64).astype(dtype.numpy).reshape(shape)


# --- steps that only move elements


def some_axes(rng: random.Random, x: sm.Tensor) -> tuple[int, ...]:
    return tuple(axis for axis in range(x.ndim) if rng.random() < 0.4)


def any_slice(rng: random.Random, size: int) -> slice:
    ends = [None, *range(-size - 1, size + 2)]
    return slice(rng.choice(ends), rng.choice(ends), rng.choice((None, 1, 2, 3, -1, -2)))


def any_key(rng: random.Random, x: sm.Tensor) -> Any:
    key: list[Any] = []
    for size in x.shape:
        if rng.random() < 0.15:
            key.append(None)
        key.append(rng.randrange(-size, size) if size and rng.random() < 0.3 else any_slice(rng, size))
    if rng.random() < 0.2:
        key = [*key[: len(key) // 2], Ellipsis]
    return tuple(key)


def any_shape(rng: random.Random, x: sm.Tensor) -> tuple[int, ...]:
    """Another shape with as many elements."""
    count, shape = int(x.size), []  # type: ignore[arg-type]
    while count > 1 and len(shape) < 4:
        factor = rng.choice([f for f in range(1, count + 1) if count % f == 0][:6])
        shape.append(factor)
        count //= factor
    shape.append(count)
    rng.shuffle(shape)
    return tuple(shape)


def movement(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    axis = rng.randrange(x.ndim) if x.ndim else None
    kind = rng.choice(MOVEMENTS if x.ndim else SCALAR_MOVEMENTS)
    match kind:
        case "reshape":
            return kind, x.reshape(any_shape(rng, x))
        case "permute":
            return kind, x.permute_dims(rng.sample(range(x.ndim), x.ndim))
        case "expand_dims":
            return kind, x.expand_dims(rng.randint(0, x.ndim))
        case "squeeze":
            return kind, x.squeeze()
        case "broadcast":
            return kind, x.broadcast_to((rng.choice(SIZES), *(rng.choice(SIZES) if s == 1 else s for s in x.shape)))
        case "pad":
            return kind, x.pad([(rng.randint(0, 2), rng.randint(0, 2)) for _ in x.shape], value=rng.choice((0, 1)))
        case "flip":
            return kind, x.flip(some_axes(rng, x))
        case "roll":
            return kind, x.roll(rng.randint(-8, 8), axis)
        case "tile":
            return kind, x.tile([rng.randint(1, 2) for _ in x.shape])
        case "repeat":
            return kind, x.repeat(rng.randint(0, 3), axis)
        case "triangle":
            return kind, (x.tril if rng.random() < 0.5 else x.triu)(rng.randint(-2, 2)) if x.ndim > 1 else x
        case "concat":
            others = [y for y in program.tensors if y.dtype is x.dtype and y.shape == x.shape]
            return kind, sm.concat([x, rng.choice(others), x], axis)
        case "stack":
            return kind, sm.stack([x, x], rng.randint(0, x.ndim))
        case "split":
            return kind, rng.choice(x.chunk(2, axis))
        case _:
            return kind, x[any_key(rng, x)]


SCALAR_MOVEMENTS = ("reshape", "expand_dims", "broadcast", "stack", "index")
MOVEMENTS = (
    *("permute", "squeeze", "pad", "flip", "roll", "tile", "repeat", "triangle", "concat", "split", "index"),
    *SCALAR_MOVEMENTS,
)


# --- steps that compute


def partner(program: Program, x: sm.Tensor) -> Any:
    """Something to combine with x: a tensor that broadcasts with it, a scalar, or x itself."""
    rng = program.rng
    fitting = [y for y in program.tensors if y.dtype is x.dtype and broadcasts(x.shape, y.shape)]
    scalar = True if x.dtype.is_bool else rng.choice((0, 1, 3)) if program.exact else 0.5
    return rng.choice([*fitting, x, scalar])


def broadcasts(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return all(m == n or 1 in (m, n) for m, n in zip(reversed(a), reversed(b), strict=False))


ANY_UNARY = ("logical_not", "isnan", "isinf", "isfinite")
NUMBER_UNARY = ("negative", "abs", "sign", "floor", "ceil", "trunc", "round", "square", "relu")
NUMBER_BINARY = ("add", "subtract", "multiply", "maximum", "minimum", "fmax", "fmin")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "logical_and", "logical_xor")
BIT_BINARY = ("bitwise_and", "bitwise_or", "bitwise_xor")
SHIFTS_AND_DIVISIONS = ("bitwise_left_shift", "bitwise_right_shift", "floor_divide", "remainder", "fmod")
SMOOTH_UNARY = (
    *("tanh", "sin", "cos", "sigmoid", "erf", "gelu", "silu", "softplus", "negative", "square"),
    *("atan", "asinh", "sinh", "cosh", "erfc", "sinc", "mish", "selu", "softsign", "log_sigmoid"),
)


def elementwise(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    if not program.exact:
        unary, binary = SMOOTH_UNARY, NUMBER_BINARY[:3]
    else:
        unary = (
            ANY_UNARY + (() if x.dtype.is_bool else NUMBER_UNARY) + (() if x.dtype.is_float else ("bitwise_invert",))
        )
        binary = COMPARISONS + (() if x.dtype.is_bool else NUMBER_BINARY) + (() if x.dtype.is_float else BIT_BINARY)
        binary += SHIFTS_AND_DIVISIONS if x.dtype.is_integer else ()
    name = rng.choice(unary + binary + binary)
    function = getattr(sm, name)
    return name, function(x) if name in unary else function(x, partner(program, x))


def other(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    if not program.exact:
        return smooth_rows(program, x)
    kind = rng.choice(("cast", "where", "clip", "matmul"))
    if kind == "cast":
        to = rng.choice(dtypes.ALL)
        safe = (
            not to.is_float or x.dtype.is_float or np.all(np.abs(program.value(x).astype(np.float64)) <= LARGEST_FLOAT)
        )
        return f"cast to {to}", x.astype(to) if safe else x.astype(dtypes.bool_)
    if kind == "where":
        return kind, sm.where(x != x.flip(), x, partner(program, x)) if not x.dtype.is_bool else sm.where(x, 1, 2)
    if kind == "clip":
        return kind, x.clip(1, 5) if not x.dtype.is_bool else x.astype(dtypes.int8)
    return "matmul", product(x)


def product(x: sm.Tensor) -> sm.Tensor:
    x = x.astype(dtypes.int32) if x.dtype.is_bool else x
    if x.ndim == 0:
        return x
    return x @ x if x.ndim == 1 else x @ x.mT


def smooth_rows(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    kind = program.rng.choice(("softmax", "log_softmax", "layer_norm", "rms_norm", "matmul", "attention"))
    if x.ndim == 0 or 0 in x.shape:
        return "exp", (x * 0.25).exp()
    match kind:
        case "softmax" | "log_softmax":
            return kind, getattr(sm, kind)(x, program.rng.randrange(x.ndim))
        case "layer_norm" | "rms_norm":
            return kind, getattr(sm, kind)(x, eps=1.0)
        case "attention":
            return kind, sm.attention(x, x, x, causal=program.rng.random() < 0.5) if x.ndim > 1 else x
        case _:
            return kind, product(x * (1 / x.shape[-1]))


def reduction(program: Program, x: sm.Tensor) -> tuple[str, sm.Tensor]:
    rng = program.rng
    axes = some_axes(rng, x)
    keep = rng.random() < 0.5
    if x.ndim and rng.random() < 0.2:
        name = rng.choice(("cummax", "cummin", "cumsum" if program.exact else "logcumsumexp"))
        return name, getattr(sm, name)(x, axis=rng.randrange(x.ndim))
    if not program.exact:
        name = rng.choice(("mean", "max", "min", "logsumexp", "var"))
        if any(x.shape[axis] == 0 for axis in axes):
            name = "sum"
        return name, getattr(sm, name)(x, axis=axes, keepdims=keep)
    name = rng.choice(("sum", "max", "min", "any", "all", "count_nonzero", "prod", "argmax", "argmin"))
    if name in ("argmax", "argmin"):
        axis = rng.randrange(x.ndim) if x.ndim else None
        if 0 in x.shape:
            return "sum", x.sum(axis=axes)
        return name, getattr(sm, name)(x, axis=axis, keepdims=keep)
    folded = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    if name in ("max", "min") and folded == 0:
        name = "any"
    if name == "prod" and x.dtype.is_float and folded > 3:  # large partial products would depend on the order
        name = "sum"
    return f"{name} {axes}", getattr(sm, name)(x, axis=axes, keepdims=keep)


def random_program(seed: int, steps: int, exact: bool) -> Program:
    """A program of about so many steps over one to three inputs."""
    rng = random.Random(seed)
    program = Program(rng, exact)
    choices = dtypes.ALL if exact else dtypes.FLOATS
    for _ in range(rng.randint(1, 3)):
        dtype = rng.choice(choices)
        program.add(sm.from_numpy(leaf_array(rng, dtype, exact)), f"leaf {dtype}")
    for _ in range(steps):
        step = rng.choice((movement, movement, elementwise, elementwise, reduction, other))
        x = program.pick()
        name, result = step(program, x)
        program.add(result, f"{name} of {x.dtype}{list(x.shape)}")
    return program
