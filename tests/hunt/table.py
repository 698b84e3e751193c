"""The steps that programs are made of: one text for every namespace, and how to draw what it needs.

A step that does not fit, NumPy refuses: then another one is drawn. So a row says only what NumPy would not object to.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.hunt.spaces import DTYPES, FLOATS, SIGNED, UNSIGNED

REAL, NUMBERS, WHOLE, ANY = "f", "fiu", "iu", "fiub"


class Unfit(Exception):
    """A step that these values do not allow."""


@dataclass(frozen=True)
class Draw:
    """What a row may draw from: the dtypes and shapes of all values so far, and the one that it is about."""

    rng: random.Random
    dtypes: Sequence[str]
    shapes: Sequence[tuple[int, ...]]
    x: int
    finite: bool = True  # no NaN, no infinities, nothing close to the ends of a float's range

    @property
    def dtype(self) -> str:
        return self.dtypes[self.x]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.shapes[self.x]

    def axis(self) -> int:
        if not self.shape:
            raise Unfit
        return self.rng.randrange(-len(self.shape), len(self.shape))

    def axes(self) -> Any:
        """For reductions: all, one, or some."""
        some = tuple(sorted(self.rng.sample(range(len(self.shape)), self.rng.randint(1, len(self.shape) or 1))))
        return self.rng.choice((None, self.axis(), some)) if self.shape else None

    def other(self, kinds: str = "") -> int:
        """Another value: of the same dtype, or of given kinds."""
        fits = [
            k
            for k, one in enumerate(self.dtypes)
            if (kind(one) in kinds if kinds else one == self.dtype or k == self.x)
        ]
        if not fits:
            raise Unfit
        return self.rng.choice(fits)

    def partner(self) -> int:
        """Another value that promotion has a dtype for."""
        k = self.other() if self.rng.random() < 0.6 else self.other(NUMBERS)
        pair = {self.dtype, self.dtypes[k]}
        if "uint64" in pair and pair & set(SIGNED):
            raise Unfit
        return k

    def indices(self) -> int:
        """A value to index with."""
        fits = [k for k, one in enumerate(self.dtypes) if kind(one) == "i" and len(self.shapes[k]) == 1]
        fits = [k for k in fits if self.shapes[k][0]]
        if not fits:
            raise Unfit
        return self.rng.choice(fits)


def kind(dtype: str) -> str:
    """As NumPy's letters: f, i, u, b."""
    return "f" if dtype in FLOATS else "i" if dtype in SIGNED else "u" if dtype in UNSIGNED else "b"


Drawn = tuple[tuple[int, ...], dict[str, Any]]


@dataclass(frozen=True)
class Row:
    """A step.

    takes: kinds of dtype of its first operand.
    rounds: its results are rounded numbers; otherwise they are elements of its operands, or follow from them exactly.
    jumps: small changes of floats change the result much, so it is asked only about floats that are known exactly.
    errors: what becomes of errors of its operands: "corners" tries the ends of each operand's range, "sums" is for sums
        of products, a number says by how much the largest error may grow.
    mixes: integers beside floats take their dtype.
    several: more than one operation inside, so that 16-bit floats are rounded on the way.
    curved: there are exponentials on the way, so that a plain result is one by chance.
    eager: the shape of its result depends on values, so it is refused where values are not known.
    """

    run: Callable[..., Any]
    draw: Callable[[Draw], Drawn]
    takes: str = ANY
    rounds: bool = False
    jumps: bool = False
    errors: str | float = "corners"
    mixes: bool = False
    several: bool = False
    curved: bool = False
    eager: bool = False
    kinks: bool = False  # its derivative jumps where operands are equal, which roundings to 16 bits make them
    slopes: bool = True  # whether its derivative is to be asked for


def _call(name: str, xp: Any, *values: Any, **parameters: Any) -> Any:
    return getattr(xp, name)(*values, **parameters)


def _f(name: str) -> Callable[..., Any]:
    return functools.partial(_call, name)


def _one(d: Draw) -> Drawn:
    return (d.x,), {}


def _two(d: Draw) -> Drawn:
    return (d.x, d.partner()), {}


def _alike(d: Draw) -> Drawn:
    return (d.x, d.other()), {}


def _along(d: Draw) -> Drawn:
    return (d.x,), {"axis": d.axis()}


def _reduced(d: Draw) -> Drawn:
    return (d.x,), {"axis": d.axes(), "keepdims": d.rng.random() < 0.5}


def _numbered(*numbers: float) -> Callable[[Draw], Drawn]:
    def draw(d: Draw) -> Drawn:
        fits = [n for n in numbers if kind(d.dtype) == "f" or (n == int(n) and (n >= 0 or kind(d.dtype) == "i"))]
        chosen = d.rng.choice(fits)
        return (d.x,), {"number": chosen if kind(d.dtype) == "f" else int(chosen)}

    return draw


def _given(**choices: Sequence[Any]) -> Callable[[Draw], Drawn]:
    """Parameters by choice, and an axis if one is named."""

    def draw(d: Draw) -> Drawn:
        found = {name: d.rng.choice(list(values)) for name, values in choices.items()}
        return (d.x,), {name: d.axis() if value == "axis" else value for name, value in found.items()}

    return draw


def _matrix(d: Draw) -> Drawn:
    if len(d.shape) < 2:
        raise Unfit
    return (d.x,), {"k": d.rng.randint(-2, 2)}


def _body(**choices: Sequence[Any]) -> Callable[[Draw], Drawn]:
    """Parameters of a step with one of the bodies, which need an axis."""

    def draw(d: Draw) -> Drawn:
        d.axis()
        return _given(body=tuple(BODIES), **choices)(d)

    return draw


def _key(d: Draw) -> Drawn:
    key: list[Any] = []
    for size in d.shape:
        chance = d.rng.random()
        if chance < 0.1:
            key.append(None)
        if size and chance < 0.4:
            key.append(d.rng.randrange(-size, size))
        else:
            ends = [None, *range(-size - 1, size + 2)]
            key.append(slice(d.rng.choice(ends), d.rng.choice(ends), d.rng.choice((None, 1, 2, -1, -3))))
    if d.rng.random() < 0.2:
        key[len(key) // 2 :] = [Ellipsis]
    return (d.x,), {"key": tuple(key)}


def _lists(d: Draw, count: int | None = None, repeats: bool = True) -> tuple[list[int], ...]:
    """Lists of indices for some of the first axes, each of the same length."""
    if not d.shape or 0 in d.shape:
        raise Unfit
    count = count or d.rng.randint(1, len(d.shape))
    length = d.rng.choice((1, 2, 3, 5))
    if not repeats:
        rows = d.rng.sample(range(d.shape[0]), min(length, d.shape[0]))
        return (rows, *([d.rng.randrange(n) for _ in rows] for n in d.shape[1:count]))
    return tuple([d.rng.randrange(-n, n) for _ in range(length)] for n in d.shape[:count])


def _listed(d: Draw) -> Drawn:
    key: list[Any] = list(_lists(d))
    chance = d.rng.random()
    if chance < 0.3:
        key.insert(d.rng.randint(0, 1), slice(None, None, d.rng.choice((1, -1))))
    elif chance < 0.5:  # not beside a slice, where torch's order of axes is its own
        key[d.rng.randrange(len(key))] = d.rng.randrange(min(d.shape))
    return (d.x,), {"key": tuple(key)}


def _chosen_by_mask(d: Draw) -> Drawn:
    axis = d.rng.randrange(len(d.shape) or 1)
    size = d.shape[axis] if d.shape else 1
    mask = np.array([d.rng.random() < 0.6 for _ in range(size)], bool)
    return (d.x,), {"key": (*[slice(None)] * axis, mask)}


def _update(d: Draw) -> Drawn:
    how = d.rng.choice(("set", "add", "max", "min"))
    number = d.rng.choice((0, 1, 3))
    return (d.x,), {"key": _lists(d, repeats=how != "set"), "how": how, "number": number}


def _masks(d: Draw) -> Drawn:
    fits = [k for k, one in enumerate(d.shapes) if d.dtypes[k] == "bool" and one == d.shape[: len(one)] and one]
    if not fits:
        raise Unfit
    return (d.x, d.rng.choice(fits)), {}


def _product(d: Draw) -> Drawn:
    x, y = d.shape, d.other()
    labels = "abcd"[: len(x)]
    pool = list("abcdexy")
    second: list[str] = []
    for size in d.shapes[y]:
        fits = [c for c, n in zip(labels, x, strict=True) if n == size and c not in second]
        second.append(d.rng.choice(fits) if fits and d.rng.random() < 0.8 else pool.pop())
    every = sorted({*labels, *second})
    out = d.rng.sample(every, d.rng.randint(0, len(every)))
    if not d.finite:  # what only one operand has may be summed first, and 0 · ∞ is another number than 0
        out += [c for c in every if c not in out and (c in labels) != (c in second)]
    return (d.x, y), {"subscripts": f"{labels},{''.join(second)}->{''.join(out)}"}


def _widths(d: Draw) -> Drawn:
    mode = d.rng.choice(("constant", "constant", "edge", "reflect", "wrap"))
    return (d.x,), {"widths": [(d.rng.randint(0, 2), d.rng.randint(0, 3)) for _ in d.shape], "mode": mode}


def _shapes(d: Draw) -> Drawn:
    size = int(np.prod(d.shape))
    halves = (2, size // 2) if size % 2 == 0 else (1, size)
    return (d.x,), {"shape": d.rng.choice(((-1,), (size,), (1, -1), d.shape[::-1], halves))}


# --- bodies of loops, branches and batches: they keep shape and dtype

BODIES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "roll": lambda xp, x, i: xp.roll(x, 1, axis=0),
    "flip": lambda xp, x, i: xp.flip(x, axis=-1),
    "sort": lambda xp, x, i: xp.sort(x, axis=-1),
    "maximum": lambda xp, x, i: xp.maximum(x, xp.flip(x, axis=0)),
    "other": lambda xp, x, i: xp.where(xp.broadcast_to(xp.asarray(i % 2 == 0), x.shape), x, xp.roll(x, 1, axis=-1)),
}


def _looped(xp: Any, x: Any, *, body: str, count: int) -> Any:
    return xp.fori_loop(0, count, lambda i, s: BODIES[body](xp, s, i), x)


def _until(xp: Any, x: Any, *, body: str, count: int) -> Any:
    start = (xp.asarray(0, dtype=xp.int64), x)
    return xp.while_loop(lambda s: s[0] < count, lambda s: (s[0] + 1, BODIES[body](xp, s[1], s[0])), start)[1]


def _scanned(xp: Any, x: Any, *, reverse: bool, last: bool) -> Any:
    def step(carry: Any, row: Any) -> Any:
        carry = xp.maximum(row, xp.flip(carry, axis=-1) if carry.ndim else carry)
        return carry, xp.minimum(carry, row)

    carry, rows = xp.scan(step, x[0], x, reverse=reverse)
    return carry if last else rows


def _added(xp: Any, x: Any, *, reverse: bool) -> Any:
    return xp.scan(lambda carry, row: (carry + row, carry), x[0], x, reverse=reverse)[1]


def _branched(xp: Any, x: Any, *, body: str, bound: int) -> Any:
    return xp.cond(xp.min(x) < bound, lambda v: BODIES[body](xp, v, 1), lambda v: xp.flip(v, axis=0), x)


def _batched(xp: Any, x: Any, *, body: str, axis: int, out: int) -> Any:
    return xp.vmap(lambda row: BODIES[body](xp, row, 1), axis, out)(x)


def _together(xp: Any, x: Any, *, name: str, axis: int, reverse: bool) -> Any:
    return xp.associative_scan(getattr(xp, name), x, reverse=reverse, axis=axis)


def _gathered(xp: Any, x: Any, i: Any, *, axis: int) -> Any:
    return xp.take(x, xp.remainder(i, xp.asarray(x.shape[axis], dtype=i.dtype)), axis=axis)


def _picked(xp: Any, x: Any, i: Any) -> Any:
    return x[xp.remainder(i, xp.asarray(x.shape[0], dtype=i.dtype))]


def _scattered(xp: Any, x: Any, i: Any, *, how: str) -> Any:
    return xp.updated(x, (xp.remainder(i, xp.asarray(x.shape[0], dtype=i.dtype)),), how, 2)


def _sorted(xp: Any, x: Any, *, axis: int, descending: bool) -> Any:
    found = xp.sort(x, axis=axis)
    return xp.flip(found, axis=axis) if descending else found


def _shifted(name: str, xp: Any, x: Any, y: Any) -> Any:
    return getattr(xp, name)(x, xp.remainder(y, xp.asarray(7, dtype=y.dtype)))


STEPS: dict[str, Row] = {
    # one operand
    "abs": Row(_f("abs"), _one, NUMBERS, kinks=True),
    "negative": Row(_f("negative"), _one, NUMBERS),
    **{name: Row(_f(name), _one, REAL, jumps=True) for name in ("floor", "ceil", "trunc", "isnan", "isfinite")},
    "sign": Row(_f("sign"), _one, NUMBERS, jumps=True),
    "square": Row(_f("square"), _one, NUMBERS, rounds=True),
    "bitwise_invert": Row(_f("bitwise_invert"), _one, "iub"),
    "logical_not": Row(_f("logical_not"), _one, jumps=True),
    **{
        name: Row(_f(name), _one, REAL, rounds=True)
        for name in ("exp", "expm1", "tanh", "sin", "cos", "atan", "sigmoid", "silu", "softplus", "erf")
    },
    "gelu": Row(_f("gelu"), _one, REAL, rounds=True, curved=True, errors=1.5),  # 1 + erf(x) cancels, also for torch
    "relu": Row(_f("relu"), _one, REAL, kinks=True),
    "sqrt": Row(lambda xp, x: xp.sqrt(xp.abs(x) + 1), _one, REAL, rounds=True, several=True),
    "log": Row(lambda xp, x: xp.log(xp.abs(x) + 0.5), _one, REAL, rounds=True, several=True),
    "reciprocal": Row(lambda xp, x: 1 / (xp.square(x) + 1), _one, REAL, rounds=True, several=True),
    "plus": Row(lambda xp, x, number: x + number, _numbered(0.5, 2, -1, 0, 3), NUMBERS, rounds=True),
    "times": Row(lambda xp, x, number: number * x, _numbered(0.5, 2, -1, 0, 3), NUMBERS, rounds=True),
    "minus": Row(lambda xp, x, number: number - x, _numbered(1, 0.5, 0, 2), NUMBERS, rounds=True),
    "power": Row(lambda xp, x, number: x**number, _numbered(2, 3, 0, 1), NUMBERS, rounds=True),
    "clip": Row(
        lambda xp, x, low, high: xp.clip(x, low, high), _given(low=(0, 1, None), high=(1, 5)), NUMBERS, kinks=True
    ),
    "cast": Row(lambda xp, x, dtype: xp.cast(x, dtype), _given(dtype=DTYPES), jumps=True),
    "widened": Row(lambda xp, x, dtype: xp.cast(x, dtype), _given(dtype=FLOATS), REAL, rounds=True),
    # two
    **{name: Row(_f(name), _two, NUMBERS, rounds=True, mixes=True) for name in ("add", "subtract", "multiply")},
    **{name: Row(_f(name), _two, NUMBERS, kinks=True, mixes=True) for name in ("maximum", "minimum")},
    **{
        name: Row(_f(name), _two, NUMBERS, jumps=True, mixes=True)
        for name in ("less", "less_equal", "greater", "greater_equal")
    },
    **{name: Row(_f(name), _alike, jumps=True) for name in ("equal", "not_equal", "logical_and", "logical_xor")},
    **{name: Row(_f(name), _alike, "iub") for name in ("bitwise_and", "bitwise_or", "bitwise_xor")},
    **{
        name: Row(functools.partial(_shifted, name), _alike, WHOLE)
        for name in ("bitwise_left_shift", "bitwise_right_shift")
    },
    **{name: Row(_f(name), _alike, WHOLE) for name in ("floor_divide", "remainder")},
    "divide": Row(lambda xp, x, y: xp.divide(x, xp.square(y) + 1), _alike, REAL, rounds=True, several=True),
    "where": Row(
        lambda xp, c, x, y: xp.where(xp.cast(c, "bool"), x, y),
        lambda d: ((d.other("biu"), d.x, d.other()), {}),
    ),
    "whole_quotient": Row(_f("floor_divide"), _alike, REAL, jumps=True),
    "rest": Row(_f("remainder"), _alike, REAL, jumps=True),
    **{name: Row(_f(name), _alike, REAL, jumps=True) for name in ("fmod", "heaviside")},
    # NaN has no sign that anybody promises, and that of zero depends on which of two zeros was sorted first.
    "copysign": Row(lambda xp, x, y: xp.copysign(x, xp.where(xp.abs(y) > 0, y, x)), _alike, REAL, jumps=True),
    **{name: Row(_f(name), _alike, REAL, kinks=True) for name in ("fmax", "fmin")},
    **{name: Row(_f(name), _alike, REAL, rounds=True, slopes=False) for name in ("hypot", "logaddexp")},
    # reductions
    **{name: Row(_f(name), _reduced, NUMBERS, rounds=True, errors="sums") for name in ("sum", "mean", "prod")},
    **{name: Row(_f(name), _reduced, NUMBERS, kinks=True) for name in ("max", "min")},
    **{name: Row(_f(name), _reduced, jumps=True) for name in ("any", "all", "count_nonzero")},
    "var": Row(_f("var"), _reduced, REAL, rounds=True, errors=2000.0),
    **{name: Row(_f(name), _reduced, REAL, kinks=True, slopes=False) for name in ("nanmax", "nanmin")},
    "nansum": Row(_f("nansum"), _reduced, REAL, rounds=True, errors="sums", slopes=False),
    "median": Row(_f("median"), _reduced, REAL, rounds=True, errors=1.0, slopes=False),
    "logsumexp": Row(_f("logsumexp"), _reduced, REAL, rounds=True, curved=True, errors=2.0),
    **{name: Row(_f(name), _along, NUMBERS, jumps=True) for name in ("argmax", "argmin")},
    **{name: Row(_f(name), _along, REAL, rounds=True, curved=True, errors=2.0) for name in ("softmax", "log_softmax")},
    "layer_norm": Row(_f("layer_norm"), _one, REAL, rounds=True, errors=1000.0),
    "rms_norm": Row(_f("rms_norm"), _one, REAL, rounds=True, errors=1000.0),
    # scans
    "cumulative_sum": Row(_f("cumulative_sum"), _along, NUMBERS, rounds=True, errors="sums"),
    "cumulative_prod": Row(_f("cumulative_prod"), _along, NUMBERS, rounds=True, errors="sums"),
    **{name: Row(_f(name), _along, NUMBERS, kinks=True) for name in ("cummax", "cummin")},
    "logcumsumexp": Row(_f("logcumsumexp"), _along, REAL, rounds=True, curved=True, errors=2.0, slopes=False),
    "diff": Row(lambda xp, x, axis: xp.diff(x, axis=axis), _along, NUMBERS, rounds=True, errors=2.0),
    # order
    "sort": Row(_sorted, _given(axis=("axis",), descending=(True, False)), NUMBERS, kinks=True),
    "argsort": Row(lambda xp, x, axis: xp.argsort(x, axis=axis, stable=True), _along, NUMBERS, jumps=True),
    "by_order": Row(
        lambda xp, x, axis: xp.take_along_axis(x, xp.argsort(x, axis=axis, stable=True), axis=axis),
        _along,
        NUMBERS,
        kinks=True,
    ),
    "topk": Row(
        lambda xp, x, k, axis, largest: xp.topk(x, k, axis=axis, largest=largest)[0],
        _given(k=(1, 2, 3), axis=("axis",), largest=(True, False)),
        "fi",
        kinks=True,
    ),
    "searchsorted": Row(
        lambda xp, x, y: xp.searchsorted(xp.sort(xp.reshape(x, (-1,)), axis=0), y), _alike, NUMBERS, jumps=True
    ),
    # movement
    "reshape": Row(lambda xp, x, shape: xp.reshape(x, shape), _shapes),
    "permute": Row(
        lambda xp, x, axes: xp.permute_dims(x, axes),
        lambda d: ((d.x,), {"axes": tuple(d.rng.sample(range(len(d.shape)), len(d.shape)))}),
    ),
    "expand": Row(
        lambda xp, x, axis: xp.expand_dims(x, axis=axis), lambda d: ((d.x,), {"axis": d.rng.randint(0, len(d.shape))})
    ),
    "flip": Row(lambda xp, x, axis: xp.flip(x, axis=axis), _along),
    "roll": Row(lambda xp, x, shift, axis: xp.roll(x, shift, axis=axis), _given(shift=range(-5, 6), axis=("axis",))),
    "repeat": Row(lambda xp, x, count, axis: xp.repeat(x, count, axis=axis), _given(count=range(4), axis=("axis",))),
    "tile": Row(lambda xp, x, counts: xp.tile(x, counts), _given(counts=((2,), (1, 3), (2, 1)))),
    "broadcast": Row(
        lambda xp, x, shape: xp.broadcast_to(x, shape),
        lambda d: ((d.x,), {"shape": (d.rng.choice((1, 2, 3)), *d.shape)}),
    ),
    **{name: Row(_f(name), _matrix) for name in ("tril", "triu")},
    "windows": Row(
        lambda xp, x, axis, size, step: xp.unfold(x, axis, size, step),
        _given(axis=("axis",), size=(1, 2, 3), step=(1, 2, 4)),
    ),
    "squeezed": Row(lambda xp, x, axis: xp.squeeze(x, axis), _along),
    "halves": Row(lambda xp, x, axis: xp.split(x, 2, axis=axis)[1], _along, slopes=False),
    "diagonal": Row(_f("diagonal"), _one),
    "concat": Row(lambda xp, x, y, axis: xp.concat([x, y], axis=axis), lambda d: (_alike(d)[0], {"axis": d.axis()})),
    "stack": Row(lambda xp, x, y, axis: xp.stack([x, y], axis=axis), lambda d: (_alike(d)[0], {"axis": d.axis()})),
    "pad": Row(lambda xp, x, widths, mode: xp.pad(x, widths, mode=mode), _widths),
    # finding
    "index": Row(lambda xp, x, key: x[key], _key),
    "lists": Row(lambda xp, x, key: x[key], _listed),
    "mask": Row(lambda xp, x, key: x[key], _chosen_by_mask),
    "masked": Row(lambda xp, x, mask: x[mask], _masks, eager=True),
    "gather": Row(_gathered, lambda d: ((d.x, d.indices()), {"axis": d.axis()})),
    "picked": Row(_picked, lambda d: ((d.x, d.indices()), {})),
    "update": Row(
        lambda xp, x, key, how, number: xp.updated(x, key, how, number),
        _update,
        NUMBERS,
        rounds=True,
        errors=1.0,
        kinks=True,
    ),
    "scattered": Row(
        _scattered,
        lambda d: ((d.x, d.indices()), {"how": d.rng.choice(("set", "add", "max"))}),
        NUMBERS,
        rounds=True,
        errors=1.0,
        kinks=True,
    ),
    "counted": Row(
        lambda xp, x: xp.bincount(xp.remainder(xp.reshape(x, (-1,)), xp.asarray(5, dtype=x.dtype)), length=5), _one, "i"
    ),
    "isin": Row(_f("isin"), _alike, WHOLE),
    "one_hot": Row(
        lambda xp, x, classes: xp.one_hot(xp.remainder(x, xp.asarray(classes, dtype=x.dtype)), classes),
        _given(classes=(1, 3, 17)),
        WHOLE,
    ),
    # products
    "matmul": Row(_f("matmul"), _two, NUMBERS, rounds=True, errors="sums", mixes=True),
    "square_matrix": Row(
        lambda xp, x: xp.matmul(x, xp.permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))),
        _one,
        NUMBERS,
        rounds=True,
        errors="sums",
    ),
    "einsum": Row(
        lambda xp, x, y, subscripts: xp.einsum(subscripts, x, y), _product, NUMBERS, rounds=True, errors="sums"
    ),
    **{name: Row(_f(name), _alike, NUMBERS, rounds=True, errors="sums") for name in ("vecdot", "kron", "inner")},
    "attention": Row(
        lambda xp, x, causal: xp.attention(x, x, x, causal=causal),
        lambda d: (_matrix(d)[0], {"causal": d.rng.random() < 0.5}),
        REAL,
        rounds=True,
        curved=True,
        errors=100.0,
    ),
    "conv": Row(
        lambda xp, x, weights, stride, padding, dilation: xp.conv(
            x, weights, stride=stride, padding=padding, dilation=dilation
        ),
        _given(weights=([1, -2, 3], [2], [1, 1]), stride=(1, 2, 3), padding=(0, 2), dilation=(1, 2)),
        REAL,
        rounds=True,
        errors=6.0,
    ),
    "max_pool": Row(
        lambda xp, x, size, stride, padding: xp.max_pool1d(xp.reshape(x, (1, 1, -1)), size, stride, padding),
        _given(size=(2, 3, 5), stride=(1, 2, 3), padding=(0, 1)),
        REAL,
        kinks=True,
    ),
    # control
    "rows_of_loops": Row(
        lambda xp, x, body, count: xp.vmap(lambda row: _looped(xp, row, body=body, count=count), 0, 0)(x),
        lambda d: (_matrix(d)[0], _body(count=range(4))(d)[1]),
        NUMBERS,
        errors=1.0,
        kinks=True,
    ),
    "scanned_loops": Row(
        lambda xp, x, body: xp.scan(
            lambda c, row: (xp.maximum(c, row), BODIES[body](xp, c, 1)), x[0], x, reverse=False
        )[1],
        lambda d: (_matrix(d)[0], _body()(d)[1]),
        NUMBERS,
        errors=1.0,
        kinks=True,
    ),
    "looped": Row(_looped, _body(count=range(5)), NUMBERS, errors=1.0, kinks=True),
    "until": Row(_until, _body(count=range(5)), NUMBERS, errors=1.0, slopes=False),
    "scanned": Row(_scanned, _given(reverse=(True, False), last=(True, False)), NUMBERS, errors=1.0, kinks=True),
    "added": Row(_added, _given(reverse=(True, False)), NUMBERS, rounds=True, errors="sums", several=True),
    "branched": Row(_branched, _body(bound=range(4)), NUMBERS, jumps=True),
    "batched": Row(_batched, _body(axis=range(3), out=range(3)), NUMBERS, errors=1.0, kinks=True),
    "together": Row(
        _together,
        _given(name=("maximum", "minimum"), axis=("axis",), reverse=(True, False)),
        NUMBERS,
        errors=1.0,
        kinks=True,
    ),
}
