"""Products of matrices and convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

from smelt import dtypes
from smelt.dtypes import DType
from smelt.formats.mlir import Coded
from smelt.formats.stablehlo import movement
from smelt.formats.stablehlo.elementwise import convert
from smelt.formats.stablehlo.rows import Call, Row, rows
from smelt.graph import IndexLike, Node, build, upper

# Types in which an `algorithm` may ask for its operands.
_ALGORITHM_TYPES: Final = {"f16", "bf16", "f32", "f64", "f8E4M3FN", "f8E5M2"}


def contract(a: Node, b: Node, left: Sequence[int], right: Sequence[int], out: Sequence[int], dtype: DType) -> Node:
    """A contraction of operands of any types, summed as and given in `dtype`; that of bools is whether any pair is."""
    if dtype.is_bool or (a.dtype.is_bool and b.dtype.is_bool):
        a, b = (build.cast(x, dtypes.int32) for x in (a, b))
        return convert(build.contract(a, b, left, right, out, dtypes.int32), dtype)
    if a.dtype is not b.dtype:
        common = _wider(a.dtype, b.dtype)
        a, b = build.cast(a, common), build.cast(b, common)
    if a.dtype.is_inexact and not dtype.is_inexact:
        return build.cast(build.contract(a, b, left, right, out), dtype)
    wide = dtypes.sum_dtype(dtype)
    return build.cast(build.contract(a, b, left, right, out, wide), dtype)


def _wider(a: DType, b: DType) -> DType:
    if a in dtypes.STORAGE or b in dtypes.STORAGE:
        a, b = dtypes.sum_dtype(a), dtypes.sum_dtype(b)
    return dtypes.promote(a, b)


def _checked_algorithm(call: Call) -> None:
    """An algorithm in a type that is no narrower than what is computed here is one that is followed."""
    algorithm = call.attribute("algorithm")
    if algorithm is None:
        return
    for field in ("lhs_precision_type", "rhs_precision_type", "accumulation_type"):
        wanted = str(algorithm.get(field, "")) if hasattr(algorithm, "get") else ""
        if wanted not in _ALGORITHM_TYPES:
            call.refuse(f"an algorithm with the type {wanted or algorithm}")


def _dot_general(call: Call) -> Node:
    _checked_algorithm(call)
    a, b = call.operands
    return contract(a, b, *_labels(call, call.coded("dot_dimension_numbers")), call.dtype)


def _labels(call: Call, numbers: Coded) -> tuple[list[int], list[int], list[int]]:
    """The labels of the axes of both factors (those of the left one are their numbers) and of the result."""
    a, b = call.operands[:2]
    batch, inner = (
        (tuple(numbers.get(f"lhs_{kind}_dimensions", ())), tuple(numbers.get(f"rhs_{kind}_dimensions", ())))
        for kind in ("batching", "contracting")
    )
    pairs = list(zip((*batch[0], *inner[0]), (*batch[1], *inner[1]), strict=False))
    if len(batch[0]) != len(batch[1]) or len(inner[0]) != len(inner[1]):
        call.wrong("its axes do not come in pairs")
    if any(not (0 <= i < a.rank and 0 <= j < b.rank) for i, j in pairs):
        call.wrong("it names an axis that an operand does not have")
    left = list(range(a.rank))
    fresh = count(a.rank)
    joined = {j: left[i] for i, j in pairs}
    right = [joined[j] if j in joined else next(fresh) for j in range(b.rank)]
    free = [i for i in range(a.rank) if i not in (*batch[0], *inner[0])]
    other = [j for j in range(b.rank) if j not in joined]
    return left, right, [*batch[0], *free, *(right[j] for j in other)]


def _ragged_dot(call: Call) -> Node:
    """An axis of the left factor in groups, one behind the other, of given sizes. Where it is kept, each group has a
    right factor of its own; where it is summed over, a result of its own.
    """
    a, b, sizes = call.operands
    numbers = call.coded("ragged_dot_dimension_numbers")
    left, right, out = _labels(call, numbers)
    ragged, groups = numbers.get("lhs_ragged_dimensions", ()), numbers.get("rhs_group_dimensions", ())
    if len(ragged) != 1 or not 0 <= ragged[0] < a.rank or sizes.rank != 1:
        call.refuse("groups that differ from batch to batch")
    axis, group = ragged[0], max((*left, *right), default=0) + 1
    if axis in numbers.get("lhs_batching_dimensions", ()):
        return contract(a, b, left, right, out, call.dtype)
    if axis in numbers.get("lhs_contracting_dimensions", ()):
        out = [group, *out]
    elif len(groups) == 1 and 0 <= groups[0] < b.rank:
        out.remove(right[groups[0]])
        right[groups[0]] = group
    else:
        call.wrong("the right factor has one axis of groups")
    return contract(_in_groups(a, axis, sizes), b, [group, *left], right, out, call.dtype)


def _in_groups(a: Node, axis: int, sizes: Node) -> Node:
    """For each group a whole of which only that group's part is not 0."""
    shape = (sizes.shape[0], *a.shape)
    ends = build.scan("add", build.cast(sizes, dtypes.int64), 0)
    starts = build.sub(ends, build.cast(sizes, dtypes.int64))
    place = movement.along(build.iota(a.shape[axis], dtypes.int64), shape, axis + 1)
    inside = build.bitwise_and(
        build.le(movement.along(starts, shape, 0), place), build.lt(place, movement.along(ends, shape, 0))
    )
    return build.where(inside, build.broadcast_to(a, shape), build.const(0, a.dtype, shape))


def _einsum(call: Call) -> Node:
    """`ij,jk->ik`: every letter is a label."""
    config = call.attribute("einsum_config")
    sides = config.replace(" ", "").split("->") if isinstance(config, str) else []
    names = sides[0].split(",") if len(sides) == 2 else []
    fits = all(len(word) == x.rank for word, x in zip(names, call.operands, strict=False))
    letters = [*names, sides[-1] if sides else ""]
    if len(names) != len(call.operands) or not fits or any(len(set(word)) != len(word) for word in letters):
        call.refuse(f"the equation {config!r}")
    labels = [[ord(letter) for letter in word] for word in letters]
    if len(names) == 1:  # beside a factor that is 1
        one = build.const(1, call.operands[0].dtype)
        return contract(call.operands[0], one, labels[0], [], labels[1], call.dtype)
    a, b = call.operands
    return contract(a, b, labels[0], labels[1], labels[2], call.dtype)


def _dot(call: Call) -> Node:
    a, b = call.operands
    left = list(range(a.rank))
    right = [a.rank - 1, *range(a.rank, a.rank + b.rank - 1)]
    return contract(a, b, left, right, [*left[:-1], *right[1:]], call.dtype)


class Numbers(NamedTuple):
    """Where the axes of a convolution are: batch (or output), feature (or input), then the spatial ones."""

    image: tuple[int, ...]
    kernel: tuple[int, ...]
    result: tuple[int, ...]


def _numbers(call: Call) -> Numbers:
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`, or the same in fields."""
    coded = call.coded("dimension_numbers")
    if coded.fields:
        return _from_fields(call)
    lists: list[list[str]] = []
    for word in coded.words:
        if word == "[":
            lists.append([])
        elif lists and word not in ("]", ",", "x", "->", "]x["):
            lists[-1].append(word)
    if len(lists) != 3:
        call.wrong("its numbers of axes are written as in [b, 0, f]x[0, i, o]->[b, 0, f]")
    return Numbers(*(_order(call, names, first) for names, first in zip(lists, ("bf", "oi", "bf"), strict=True)))


def _order(call: Call, names: list[str], first: str) -> tuple[int, ...]:
    """The axes by what they are: the two with letters, then those with numbers."""
    wanted = [*first, *map(str, range(len(names) - 2))]
    if sorted(names) != sorted(wanted):
        call.wrong(f"the axes {names} should be {wanted}")
    return tuple(names.index(name) for name in wanted)


def _from_fields(call: Call) -> Numbers:
    coded = call.coded("dimension_numbers")
    found = []
    for side, first, second in (
        ("input", "batch", "feature"),
        ("kernel", "output_feature", "input_feature"),
        ("output", "batch", "feature"),
    ):
        spatial = coded.get(f"{side}_spatial_dimensions", ())
        found.append((coded.get(f"{side}_{first}_dimension"), coded.get(f"{side}_{second}_dimension"), *spatial))
    if any(not isinstance(n, int) for axes in found for n in axes):
        call.wrong("its numbers of axes are not complete")
    return Numbers(*found)


def _convolution(call: Call) -> Node:
    return convolution(call, call.pairs("padding", call.operands[0].rank - 2))


def convolution(call: Call, pads: Sequence[tuple[IndexLike, IndexLike]]) -> Node:
    """A convolution whose image is padded by so many elements before and behind."""
    x, w = call.operands[:2]
    numbers = _numbers(call)
    count_ = x.rank - 2
    ones = [1] * count_
    steps, gaps = call.integers("window_strides", ones), call.integers("lhs_dilation", ones)
    dilations = call.integers("rhs_dilation", ones)
    groups, batches = call.integer("feature_group_count", 1), call.integer("batch_group_count", 1)
    if min((*steps, *gaps, *dilations, groups, batches), default=1) < 1:
        call.wrong("strides, dilations and groups are positive")
    turned = call.attribute("window_reversal")
    reversal = (
        [bool(v) for v in turned.values]
        if hasattr(turned, "values")
        else [bool(v) for v in call.integers("window_reversal", [0] * count_)]
    )
    x, w = build.permute(x, numbers.image), build.permute(w, numbers.kernel)
    w = movement.reverse(w, [2 + k for k, flag in enumerate(reversal) if flag])
    zero = build.const(0, x.dtype)
    x = movement.spread_out(x, [0, 0, *(gap - 1 for gap in gaps)], zero)
    x = movement.padded(x, [(0, 0), (0, 0), *pads], zero)
    order = sorted(range(x.rank), key=lambda k: numbers.result[k])
    if call.is_known and (0 in call.shape or 0 in x.shape or 0 in w.shape):
        return build.const(0, call.dtype, call.shape)
    for k in range(count_):
        x = build.window(x, 2 + k, upper(w.shape[2 + k]), steps[k], dilations[k])
    return build.permute(_grouped(call, x, w, groups, batches, count_), order)


def _grouped(call: Call, x: Node, w: Node, groups: int, batches: int, count_: int) -> Node:
    """Windows (b, f, out…, window…) with kernels (o, i, window…): (b, o, out…)."""
    outer = [100 + k for k in range(count_)]
    inner = [200 + k for k in range(count_)]
    spatial = x.shape[2 : 2 + count_]
    if groups == batches == 1:
        return contract(x, w, [0, 1, *outer, *inner], [2, 1, *inner], [0, 2, *outer], call.dtype)
    b, f, (o, i) = x.shape[0], x.shape[1], w.shape[:2]
    if (upper(f) % groups, upper(o) % groups, upper(b) % batches, upper(o) % batches) != (0, 0, 0, 0):
        call.misfit("groups do not divide the features")
    if groups > 1:
        x = build.reshape(x, (b, groups, upper(f) // groups, *x.shape[2:]))
        w = build.reshape(w, (groups, upper(o) // groups, i, *w.shape[2:]))
        out = contract(x, w, [0, 3, 1, *outer, *inner], [3, 2, 1, *inner], [0, 3, 2, *outer], call.dtype)
        return build.reshape(out, (b, o, *spatial))
    x = build.reshape(x, (batches, upper(b) // batches, *x.shape[1:]))
    w = build.reshape(w, (batches, upper(o) // batches, i, *w.shape[2:]))
    out = contract(x, w, [3, 0, 1, *outer, *inner], [3, 2, 1, *inner], [0, 3, 2, *outer], call.dtype)
    return build.reshape(out, (upper(b) // batches, o, *spatial))


ROWS: Final = {
    **rows({"ragged_dot": Row(_ragged_dot, ("ragged_dot_dimension_numbers",), 3, "groups of one batch")}, "chlo"),
    **rows(
        {
            "dot_general": Row(
                _dot_general, ("dot_dimension_numbers", "algorithm"), 2, "any precision is the full one"
            ),
            "dot": Row(_dot, (), 2),
            "einsum": Row(_einsum, ("einsum_config",), 2),
            "unary_einsum": Row(_einsum, ("einsum_config",), 1),
            "convolution": Row(
                _convolution,
                (
                    *("dimension_numbers", "window_strides", "padding", "lhs_dilation", "rhs_dilation"),
                    *("window_reversal", "feature_group_count", "batch_group_count"),
                ),
                2,
            ),
        }
    ),
}
