"""What the standard says about single cases of functions that are not elementwise: no elements, NaN, limits, order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

nan, inf = float("nan"), float("inf")


@dataclass(frozen=True)
class Special:
    """`call` of a namespace must give `expected`."""

    function: str
    rule: str
    call: Callable[[Any], Any]
    expected: Any


@dataclass(frozen=True)
class Refusal:
    """`call` of a namespace must raise `error`."""

    function: str
    rule: str
    error: type[Exception]
    call: Callable[[Any], Any]


def _folded(function: str, rule: str, values: list[Any], expected: Any, **arguments: Any) -> Special:
    return Special(function, rule, lambda xp: getattr(xp, function)(xp.asarray(values), **arguments), expected)


CASES = [
    _folded("sum", "the sum of nothing is 0", [], 0.0),
    _folded("prod", "the product of nothing is 1", [], 1.0),
    _folded("mean", "the mean of nothing is NaN", [], nan),
    _folded("var", "the variance of nothing is NaN", [], nan),
    _folded("std", "the deviation of nothing is NaN", [], nan),
    _folded("all", "all of nothing holds", [], True),
    _folded("any", "nothing of nothing holds", [], False),
    _folded("count_nonzero", "nothing is counted in nothing", [], 0),
    *(
        _folded(name, f"NaN goes through {name}", [1.0, nan, 2.0], nan)
        for name in ("sum", "prod", "mean", "max", "min", "std", "var")
    ),
    _folded("mean", "infinities of both signs have no mean", [inf, -inf, 1.0], nan),
    _folded("max", "the largest of infinities", [-inf, inf, 0.0], inf),
    _folded("any", "NaN counts as true", [0.0, nan], True),
    _folded("all", "NaN and infinities count as true", [inf, nan, -inf], True),
    _folded("all", "-0 counts as false", [1.0, -0.0], False),
    _folded("count_nonzero", "NaN is not zero, -0 is", [nan, -0.0, 0.0, 3.0], 2),
    _folded("var", "correction is taken from the number of elements", [1.0, 2.0, 3.0], 1.0, correction=1),
    _folded("var", "as much correction as elements", [1.0, 2.0], nan, correction=2),
    _folded("std", "more correction than elements", [1.0, 2.0], nan, correction=2.5),
    _folded("argmax", "the first of equals", [1, 3, 3, 0], 1),
    _folded("argmin", "the first of equals", [2, 0, 3, 0], 1),
    Special(
        "sum", "narrow integers are summed in the default one", lambda xp: xp.sum(xp.full(3, 100, dtype=xp.int8)), 300
    ),
    Special("sum", "the dtype that is asked for", lambda xp: xp.sum(xp.asarray([200, 100]), dtype=xp.uint8), 44),
    Special("prod", "narrow unsigned integers too", lambda xp: xp.prod(xp.full(3, 100, dtype=xp.uint8)), 1_000_000),
    Special("linspace", "no points", lambda xp: xp.linspace(0, 1, 0), []),
    Special("linspace", "one point is the start", lambda xp: xp.linspace(3, 5, 1), [3.0]),
    Special("linspace", "the last point is exact", lambda xp: xp.linspace(0, 0.1, 7, dtype=xp.float64)[-1], 0.1),
    Special("linspace", "without the end", lambda xp: xp.linspace(0, 1, 4, endpoint=False), [0.0, 0.25, 0.5, 0.75]),
    Special("linspace", "downwards", lambda xp: xp.linspace(1, -1, 5), [1.0, 0.5, 0.0, -0.5, -1.0]),
    Special("arange", "a step in the wrong direction", lambda xp: xp.arange(3, 0), []),
    Special("arange", "the length is rounded up", lambda xp: xp.arange(0, 5, 2), [0, 2, 4]),
    Special("eye", "a diagonal outside", lambda xp: xp.eye(2, k=5), [[0.0, 0.0], [0.0, 0.0]]),
    Special("tril", "a diagonal above all", lambda xp: xp.tril(xp.ones((2, 2)), k=9), [[1.0, 1.0], [1.0, 1.0]]),
    Special("astype", "bools become 0 and 1", lambda xp: xp.astype(xp.asarray([True, False]), xp.float32), [1.0, 0.0]),
    Special(
        "astype",
        "everything but 0 becomes True",
        lambda xp: xp.astype(xp.asarray([0.0, -0.0, nan, -inf, 0.1]), xp.bool),
        [False, False, True, True, True],
    ),
    Special("matmul", "no products sum to 0", lambda xp: xp.zeros((2, 0)) @ xp.zeros((0, 1)), [[0.0], [0.0]]),
    Special(
        "tensordot",
        "no axes: the outer product",
        lambda xp: xp.tensordot(xp.arange(2), xp.arange(2), axes=0),
        [[0, 0], [0, 1]],
    ),
    Special("roll", "shifts wrap around", lambda xp: xp.roll(xp.arange(3), 4), [2, 0, 1]),
    Special("tile", "no repetitions", lambda xp: xp.tile(xp.arange(3), (0,)), []),
    Special("clip", "without limits", lambda xp: xp.clip(xp.asarray([nan, 1.0])), [nan, 1.0]),
    Special("clip", "NaN stays", lambda xp: xp.clip(xp.asarray([nan, 9.0]), 0, 1), [nan, 1.0]),
    Special(
        "where", "what is not chosen does not matter", lambda xp: xp.where(xp.asarray(True), xp.asarray(1.0), nan), 1.0
    ),
    Special(
        "searchsorted",
        "left and right of equals",
        lambda xp: xp.searchsorted(xp.asarray([1, 2, 2, 3]), xp.asarray([0, 2, 9])),
        [0, 1, 4],
    ),
    Special(
        "searchsorted",
        "right of equals",
        lambda xp: xp.searchsorted(xp.asarray([1, 2, 2, 3]), xp.asarray([0, 2, 9]), side="right"),
        [0, 3, 4],
    ),
    Special("argsort", "equals keep their order", lambda xp: xp.argsort(xp.asarray([1, 0, 1, 0])), [1, 3, 0, 2]),
    Special(
        "argsort",
        "equals keep their order also downwards",
        lambda xp: xp.argsort(xp.asarray([1, 0, 1, 0]), descending=True),
        [0, 2, 1, 3],
    ),
    Special("sort", "downwards", lambda xp: xp.sort(xp.asarray([1.0, 3.0, 2.0]), descending=True), [3.0, 2.0, 1.0]),
    Special(
        "cumulative_sum",
        "with 0 in front",
        lambda xp: xp.cumulative_sum(xp.asarray([1, 2, 3]), include_initial=True),
        [0, 1, 3, 6],
    ),
    Special("cumulative_sum", "NaN stays", lambda xp: xp.cumulative_sum(xp.asarray([1.0, nan, 1.0])), [1.0, nan, nan]),
    Special(
        "cumulative_prod",
        "with 1 in front",
        lambda xp: xp.cumulative_prod(xp.asarray([2, 3]), include_initial=True),
        [1, 2, 6],
    ),
    Special("diff", "no times", lambda xp: xp.diff(xp.asarray([1, 4, 9]), n=0), [1, 4, 9]),
    Special("diff", "more times than elements", lambda xp: xp.diff(xp.asarray([1, 4]), n=2), []),
    Special(
        "unique_values",
        "each NaN is unique",
        lambda xp: xp.sort(xp.unique_values(xp.asarray([nan, 1.0, nan]))),
        [1.0, nan, nan],
    ),
]

REFUSED = [
    Refusal("asarray", "a list cannot do without a copy", ValueError, lambda xp: xp.asarray([1, 2], copy=False)),
    Refusal("broadcast_to", "shapes that do not fit", ValueError, lambda xp: xp.broadcast_to(xp.zeros(3), (2,))),
    Refusal("expand_dims", "an axis outside", IndexError, lambda xp: xp.expand_dims(xp.zeros(3), axis=3)),
    Refusal("squeeze", "an axis of size 3", ValueError, lambda xp: xp.squeeze(xp.zeros((1, 3)), axis=1)),
    Refusal("stack", "an axis outside", IndexError, lambda xp: xp.stack([xp.zeros(2)], axis=2)),
    Refusal("stack", "different shapes", ValueError, lambda xp: xp.stack([xp.zeros(2), xp.zeros(3)])),
    Refusal("unstack", "an axis outside", IndexError, lambda xp: xp.unstack(xp.zeros(2), axis=1)),
    Refusal("concat", "different shapes", ValueError, lambda xp: xp.concat([xp.zeros((2, 2)), xp.zeros((2, 3))])),
    Refusal("reshape", "another number of elements", ValueError, lambda xp: xp.reshape(xp.zeros(3), (2,))),
    Refusal("moveaxis", "an axis twice", ValueError, lambda xp: xp.moveaxis(xp.zeros((2, 2)), (0, 0), (0, 1))),
    Refusal("permute_dims", "an axis too few", ValueError, lambda xp: xp.permute_dims(xp.zeros((2, 2)), (0,))),
    Refusal("matmul", "a scalar", ValueError, lambda xp: xp.matmul(xp.zeros(()), xp.zeros(2))),
    Refusal("matmul", "inner sizes differ", ValueError, lambda xp: xp.matmul(xp.zeros((2, 3)), xp.zeros((2, 3)))),
    Refusal("vecdot", "sizes differ", ValueError, lambda xp: xp.vecdot(xp.zeros(3), xp.zeros(2))),
    Refusal(
        "tensordot", "sizes differ", ValueError, lambda xp: xp.tensordot(xp.zeros((2, 3)), xp.zeros((2, 3)), axes=1)
    ),
    Refusal("matrix_transpose", "a vector", ValueError, lambda xp: xp.matrix_transpose(xp.zeros(3))),
    Refusal("tril", "a vector", ValueError, lambda xp: xp.tril(xp.zeros(3))),
    Refusal("max", "no elements", ValueError, lambda xp: xp.max(xp.zeros(0))),
    Refusal("argmin", "no elements", ValueError, lambda xp: xp.argmin(xp.zeros((2, 0)), axis=1)),
    Refusal("sum", "an axis outside", IndexError, lambda xp: xp.sum(xp.zeros(3), axis=1)),
    Refusal("meshgrid", "a matrix", ValueError, lambda xp: xp.meshgrid(xp.zeros((2, 2)))),
    Refusal("meshgrid", "an unknown order", ValueError, lambda xp: xp.meshgrid(xp.zeros(2), indexing="yx")),
    Refusal("nonzero", "a scalar", ValueError, lambda xp: xp.nonzero(xp.asarray(1))),
    Refusal(
        "searchsorted", "an unknown side", ValueError, lambda xp: xp.searchsorted(xp.zeros(2), xp.zeros(2), side="up")
    ),
    Refusal("take", "an axis is needed", ValueError, lambda xp: xp.take(xp.zeros((2, 2)), xp.asarray([0]))),
    Refusal("cumulative_sum", "an axis is needed", ValueError, lambda xp: xp.cumulative_sum(xp.zeros((2, 2)))),
    Refusal("from_dlpack", "no protocol", AttributeError, lambda xp: xp.from_dlpack([1.0])),
]
