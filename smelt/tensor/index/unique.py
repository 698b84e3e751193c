"""Distinct elements, and whether elements belong to others. All of it is n log n: by sorting.

The `unique_*` functions are those of the array API, in ascending order; NaN differs from NaN there. They compute at the
call, since the number of distinct elements decides the size of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from smelt import runtime
from smelt.dtypes import bool_, int64
from smelt.graph import Node, Span, build, product_of, variable
from smelt.tensor.arguments import flag
from smelt.tensor.handle import computed, node_of, pair, wrap
from smelt.tensor.index.nonzero import counted

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "isin",
    "unique",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
]

_DISTINCT = "distinct"  # the dim whose value is counted


class UniqueAll(NamedTuple):
    """What `unique_all` gives."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` gives."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` gives."""

    values: Tensor
    inverse_indices: Tensor


def unique_values(x: Tensor) -> Tensor:
    """The distinct elements of x, in ascending order.

    >>> sm.unique_values(sm.asarray([3, 1, 3])).tolist()
    [1, 3]
    """
    return wrap(_distinct(x, "unique_values", ("values",))["values"])


def unique_counts(x: Tensor) -> UniqueCounts:
    """The distinct elements of x, and how often each occurs.

    >>> values, counts = sm.unique_counts(sm.asarray([3, 1, 3]))
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    return UniqueCounts(**_wrapped(_distinct(x, "unique_counts", ("values", "counts"))))


def unique_inverse(x: Tensor) -> UniqueInverse:
    """The distinct elements of x, and for each element of x which of them it is.

    >>> values, inverse = sm.unique_inverse(sm.asarray([3, 1, 3]))
    >>> values.tolist(), inverse.tolist()
    ([1, 3], [1, 0, 1])
    """
    return UniqueInverse(**_wrapped(_distinct(x, "unique_inverse", ("values", "inverse_indices"))))


def unique_all(x: Tensor) -> UniqueAll:
    """The distinct elements of x, where each occurs first, which of them each element is, and how often they occur.

    >>> [part.tolist() for part in sm.unique_all(sm.asarray([3, 1, 3]))]
    [[1, 3], [1, 0], [1, 0, 1], [1, 2]]
    """
    return UniqueAll(**_wrapped(_distinct(x, "unique_all", UniqueAll._fields)))


@overload
def unique(x: Tensor, *, equal_nan: bool = ...) -> Tensor: ...
@overload
def unique(
    x: Tensor,
    *,
    return_index: Literal[True],
    return_inverse: bool = ...,
    return_counts: bool = ...,
    equal_nan: bool = ...,
) -> tuple[Tensor, ...]: ...
@overload
def unique(
    x: Tensor,
    *,
    return_index: bool = ...,
    return_inverse: Literal[True],
    return_counts: bool = ...,
    equal_nan: bool = ...,
) -> tuple[Tensor, ...]: ...
@overload
def unique(
    x: Tensor,
    *,
    return_index: bool = ...,
    return_inverse: bool = ...,
    return_counts: Literal[True],
    equal_nan: bool = ...,
) -> tuple[Tensor, ...]: ...
def unique(
    x: Tensor,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    equal_nan: bool = True,
) -> Tensor | tuple[Tensor, ...]:
    """The distinct elements of x in ascending order; with any of the `return_*`, a tuple with what they ask for.

    `return_index` asks where each occurs first in the flattened x, `return_inverse` which of them each element is,
    `return_counts` how often each occurs. NaN counts once, unless `equal_nan` is false.

    >>> values, counts = sm.unique(sm.asarray([3, 1, 3]), return_counts=True)
    >>> values.tolist(), counts.tolist()
    ([1, 3], [1, 2])
    """
    asked = {
        "indices": flag(return_index, "unique", "return_index"),
        "inverse_indices": flag(return_inverse, "unique", "return_inverse"),
        "counts": flag(return_counts, "unique", "return_counts"),
    }
    names = ("values", *(name for name, wanted in asked.items() if wanted))
    parts = tuple(_wrapped(_distinct(x, "unique", names, flag(equal_nan, "unique", "equal_nan"))).values())
    return parts if len(parts) > 1 else parts[0]


def isin(x: Tensor, test_elements: Tensor, *, invert: bool = False) -> Tensor:
    """True where an element of x equals one of the others (or, with `invert`, none of them).

    >>> sm.isin(sm.asarray([3, 1, 4]), sm.asarray([1, 3])).tolist()
    [True, True, False]
    """
    invert = flag(invert, "isin", "invert")
    a, b = pair(x, test_elements, "isin")
    n, m = product_of(a.shape), product_of(b.shape)
    if n == 0 or m == 0:
        result = build.const(False, bool_, a.shape)
        return wrap(build.unary("not", result) if invert else result)
    # Sorted stably, the first of equal elements is one to test for, if there is one among them.
    both = build.concat([build.reshape(b, (m,)), build.reshape(a, (n,))], 0)
    order, values = build.sort(both, 0, indices=True, name="isin"), build.sort(both, 0)
    places = build.iota(both.shape[0], int64)
    tested = build.cast(build.lt(order, build.size_node(m, int64)), int64)
    mark = build.add(build.add(places, places), tested)
    marks = build.where(_begins(values, False), mark, build.const(-1, int64))
    found = build.cast(build.binary("and", build.scan("max", marks, 0), build.const(1, int64)), bool_)
    at_home = _sent(found, order, both.shape[0])
    result = build.reshape(build.slice_(at_home, [Span(m, n, 1)]), a.shape)
    return wrap(build.unary("not", result) if invert else result)


def _wrapped(nodes: dict[str, Node]) -> dict[str, Tensor]:
    return {name: wrap(node) for name, node in nodes.items()}


def _begins(values: Node, equal_nan: bool) -> Node:
    """Where a sorted vector has an element that differs from the one before it."""
    n = values.shape[0]
    after, before = (build.slice_(values, [Span(start, n - 1, 1)]) for start in (1, 0))
    differs = build.binary("ne", after, before)
    if equal_nan and values.dtype.is_float:
        # NaN is the greatest, so what follows one is another.
        differs = build.binary("and", differs, build.unary("not", build.unary("isnan", before)))
    first = build.const(True, bool_, (1,))
    return build.concat([first, differs], 0) if n != 1 else first


def _sent(values: Node, places: Node, size: Any) -> Node:
    """A vector with values at their places."""
    return build.scatter("set", build.const(0, values.dtype, (size,)), values, [places], (-1,))


def _distinct(x: Tensor, name: str, wanted: tuple[str, ...], equal_nan: bool = False) -> dict[str, Node]:
    """The parts of a `unique_all` that are wanted, computed."""
    node = computed(node_of(x, name), name)
    n = product_of(node.shape)
    flat = build.reshape(node, (n,))
    if n == 0:
        empty = build.const(0, int64, (0,))
        parts = {"values": flat, "indices": empty, "inverse_indices": build.reshape(empty, node.shape), "counts": empty}
        return {part: parts[part] for part in wanted}
    values, order = build.sort(flat, 0, name=name), build.sort(flat, 0, indices=True)
    first = _begins(values, equal_nan)
    groups = build.scan("add", build.cast(first, int64), 0)
    whole = [values, first]
    if "indices" in wanted:
        whole.append(order)
    if "inverse_indices" in wanted:
        inverse = _sent(build.sub(groups, build.const(1, int64)), order, n)
        whole.append(build.reshape(inverse, node.shape))
    total = build.reduce("add", build.cast(first, int64), (0,))
    count = counted([*whole, total], name, "")
    size = variable(_DISTINCT, 1, n)
    positions = build.nonzero(first, size)
    later = build.slice_(positions, [Span(1, size - 1, 1)])
    ends = build.concat([later, build.reshape(build.size_node(n, int64), (1,))], 0)
    made = {
        "values": build.gather(values, [positions], (-1,)),
        "indices": build.gather(order, [positions], (-1,)),
        "counts": build.sub(ends, positions),
    }
    names = [part for part in wanted if part in made]
    found = dict(zip(names, runtime.realize_sized([made[part] for part in names], {_DISTINCT: count}), strict=True))
    return {part: whole[-1] if part == "inverse_indices" else found[part] for part in wanted}
