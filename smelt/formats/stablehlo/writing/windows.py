"""Convolutions and pooling found again: the graph has them as windows, and a product or a reduction of these.

Takes the roots of a graph, gives roots over leaves with a `Convolution` or a `Pooling` that stand for these. Always
holds: what stands there computes the same from the same elements; what is not exactly that stays as it is. What is
read of the text that is written for one is found as the same one again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from smelt.dtypes import compute_dtype
from smelt.formats.mlir import Coded
from smelt.formats.stablehlo.writing.body import Body, Value, integers, number, pairs_of
from smelt.formats.stablehlo.writing.folds import fold_windows
from smelt.graph import (
    IndexLike,
    Node,
    Op,
    Window,
    build,
    constant_bytes,
    constant_of,
    identity,
    label_sizes,
    make_leaf,
    rewritten,
    size_of,
    topological,
    upper,
)

_MOST = 3  # axes of windows: compilers have fast convolutions of as many
_FOLDS: Final = ("add", "mul", "max", "min")

Pads = tuple[tuple[int, int], ...]


class Convolution(NamedTuple):
    """(batch, group * inner, place…) with (group * output, inner, window…): (batch, group * output, place…)."""

    image: Node
    kernel: Node
    steps: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads
    groups: int

    @property
    def sources(self) -> tuple[Node, ...]:
        return self.image, self.kernel

    def write(self, body: Body, node: Node, sources: Sequence[Value]) -> Value:
        """The operation."""
        return body.op(
            "convolution",
            sources,
            node.dtype,
            node.shape,
            dimension_numbers=Coded("#stablehlo.conv", (), _numbers(len(self.steps))),
            window_strides=integers(self.steps),
            padding=pairs_of(self.pads),
            rhs_dilation=integers(self.dilations),
            feature_group_count=number(self.groups),
            batch_group_count=number(1),
        )


def _numbers(count: int) -> tuple[str, ...]:
    """`[b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1]`."""
    places = "".join(f" , {k}" for k in range(count))
    return tuple(f"[ b , f{places} ] x [ o , i{places} ] -> [ b , f{places} ]".split())


class Pooling(NamedTuple):
    """Windows of an image, one for each of its axes, each folded to one element."""

    image: Node
    op: str
    windows: tuple[Window, ...]
    pads: Pads

    @property
    def sources(self) -> tuple[Node, ...]:
        return (self.image,)

    def write(self, body: Body, node: Node, sources: Sequence[Value]) -> Value:
        """The operation."""
        [x] = sources
        return fold_windows(body, self.op, x, self.windows, self.pads, node.shape)


def found_again(roots: Sequence[Node]) -> list[Node]:
    """The roots, over leaves for convolutions and pooling."""
    if not any(node.op is Op.WINDOW for node in topological(roots)):
        return list(roots)
    return rewritten(roots, _found)


def standing_for(node: Node) -> Convolution | Pooling | None:
    """What a leaf was put for."""
    return node.attribute if node.op is Op.LEAF and isinstance(node.attribute, Convolution | Pooling) else None


def _found(node: Node, same: Node) -> Node:
    if same.leaf is not None:
        return same
    if same.op is Op.CONTRACT:
        return _convolution(same) or same
    if same.op is Op.REDUCE:
        return _pooling(same) or same
    if same.op is Op.RESHAPE:  # the result may be in another shape, and back again
        source = same.sources[0].sources[0] if same.sources[0].op is Op.RESHAPE else same.sources[0]
        return same if standing_for(source) is None else build.reshape(source, same.shape)
    return same


# --- windows of an image


class _Windowed(NamedTuple):
    """What a node is windows of: its last axes have their elements, in the order of the windows."""

    image: Node
    windows: tuple[Window, ...]
    pads: Pads  # of each axis of the image


def _windowed(x: Node, fill: bytes, anywhere: bool) -> _Windowed | None:
    """The windows that a node is, perhaps with axes in front of theirs in another shape; of an image without what it is
    padded with along their axes, or anywhere, if that is `fill`.
    """
    top = x.sources[0] if x.op is Op.RESHAPE and x.leaf is None else x
    below, windows = top, list[Window]()
    while below.op is Op.WINDOW and below.leaf is None:
        windows.insert(0, below.attribute)
        below = below.sources[0]
    axes = [window.axis for window in windows]
    if not axes or len({*axes}) < len(axes) or max(axes) >= below.rank:
        return None
    first = min(axes)
    image, pads = _unpadded(below, range(0 if top is x else first, below.rank) if anywhere else axes, fill)
    if 0 in x.shape or not all(isinstance(image.shape[axis], int) for axis in axes):
        return None
    if top is x:
        return _Windowed(image, tuple(windows), pads)
    before = x.rank - (top.rank - first)
    if before < 0 or x.shape[before:] != top.shape[first:]:
        return None
    image = build.reshape(image, (*x.shape[:before], *image.shape[first:]))
    moved = tuple(window._replace(axis=window.axis + before - first) for window in windows)
    return _Windowed(image, moved, ((0, 0),) * before + pads[first:])


def _unpadded(x: Node, axes: Sequence[int], fill: bytes) -> tuple[Node, Pads]:
    """What was padded along no other axes, and how far along each."""
    none = ((0, 0),) * x.rank
    if x.op is not Op.PAD or x.leaf is not None:
        return x, none
    source, value = x.sources
    constant = constant_of(value)
    if constant is None or constant.attribute != fill:
        return x, none
    if any(not isinstance(n, int) or (n and axis not in axes) for axis, pair in enumerate(x.attribute) for n in pair):
        return x, none
    return source, x.attribute


# --- products


class _Along(NamedTuple):
    """One axis of the windows of a convolution: the label that the result has, the one that is summed over, and which
    windows these are.
    """

    place: int
    element: int
    size: int
    step: int
    dilation: int


def _along(window: Window, counted: int, inside: int, count: int, other: Sequence[int], out: Sequence[int]) -> _Along:
    """Windows that are counted by one label and have their elements along another. The way back to a kernel sums over
    the places: with these as elements, and the other way round, that is a convolution as well.
    """
    if counted in other:
        return _Along(inside, counted, count, window.dilation, window.step if count > 1 else 1)
    return _Along(counted, inside, window.size, window.step, window.dilation if window.size > 1 else 1)


class _Labels(NamedTuple):
    """What the labels of a convolution are for."""

    batch: list[int]
    groups: list[int]
    inner: list[int]
    outputs: list[int]
    along: list[_Along]


def _convolution(node: Node) -> Node | None:
    left, right, out = node.attribute
    a, b = node.sources
    for image, own, kernel, other in ((a, left, b, right), (b, right, a, left)):
        windowed = _windowed(image, constant_bytes(0, image.dtype), False)
        if windowed is None or len(windowed.windows) > _MOST or 0 in (*kernel.shape, *node.shape):
            continue
        labels = _labels(node, windowed, own, other, out)
        if labels is not None and all(isinstance(size, int) for size in kernel.shape):
            found = _product(node, windowed, own, kernel, other, labels)
            if found is not None:
                return found
    return None


def _labels(
    node: Node, windowed: _Windowed, own: Sequence[int], other: Sequence[int], out: Sequence[int]
) -> _Labels | None:
    """The labels by what they are for; None if one is for something else."""
    sizes, rank = label_sizes(node), windowed.image.rank
    along = []
    for k, window in enumerate(windowed.windows):
        counted, inside = own[window.axis], own[rank + k]
        count = sizes[counted]
        assert isinstance(count, int)  # as those of the image are
        along.append(_along(window, counted, inside, count, other, out))
    if not all(
        one.place in out and one.place not in other and one.element in other and one.element not in out for one in along
    ):
        return None
    rest = [label for label in own[:rank] if label not in [n for one in along for n in one[:2]]]
    alone = [label for label in other if label not in own]
    if any(label not in (*other, *out) for label in rest) or any(label not in out for label in alone):
        return None  # summed over in one factor
    return _Labels(
        [label for label in rest if label not in other],
        [label for label in rest if label in other and label in out],
        [label for label in rest if label not in out],
        alone,
        along,
    )


def _product(
    node: Node, windowed: _Windowed, own: Sequence[int], kernel: Node, other: Sequence[int], labels: _Labels
) -> Node | None:
    """The convolution, in the shape of the product."""
    batch, groups, inner, outputs, along = labels
    sizes, places = label_sizes(node), [one.place for one in along]
    image, pads = windowed.image, list[tuple[int, int]]()
    for one, window in zip(along, windowed.windows, strict=True):
        fitted = _fitted(image, window.axis, windowed.pads[window.axis], one, upper(sizes[one.place]))
        if fitted is None:
            return None
        image = fitted[0]
        pads.append(fitted[1])
    at = {label: axis for axis, label in enumerate(own[: image.rank])}
    spatial = [window.axis for window in windowed.windows]
    image = _merged(
        build.cast(image, node.dtype),
        [[at[n] for n in batch], [at[n] for n in (*groups, *inner)], *([axis] for axis in spatial)],
    )
    kernel = _merged(
        build.cast(kernel, node.dtype),
        [
            [other.index(n) for n in (*groups, *outputs)],
            [other.index(n) for n in inner],
            *([other.index(one.element)] for one in along),
        ],
    )
    steps, dilations = tuple(one.step for one in along), tuple(one.dilation for one in along)
    count = math.prod(upper(sizes[n]) for n in groups)
    shape = (image.shape[0], kernel.shape[0], *(sizes[n] for n in places))
    leaf = make_leaf(node.dtype, shape, Convolution(image, kernel, steps, dilations, tuple(pads), count))
    given = [*batch, *groups, *outputs, *places]
    apart = build.reshape(leaf, tuple(sizes[n] for n in given))
    return build.permute(apart, [given.index(n) for n in node.attribute.out])


def _fitted(
    image: Node, axis: int, pair: tuple[int, int], one: _Along, count: int
) -> tuple[Node, tuple[int, int]] | None:
    """An image and its padding, of which there are so many windows: what lies behind all of these is cut off where it
    would make further ones.
    """
    size, (low, high) = upper(image.shape[axis]), pair
    beyond = size + low + high - (one.size - 1) * one.dilation - (count - 1) * one.step - 1
    if 0 <= beyond < one.step:
        return image, pair
    if beyond <= high:
        return (image, (low, high - beyond)) if beyond > 0 else None
    left = size - (beyond - high)
    if left < 1:  # all that is left are zeros
        whole = build.pad(
            image, [pair if k == axis else (0, 0) for k in range(image.rank)], build.const(0, image.dtype)
        )
        return _fitted(whole, axis, (0, 0), one, count)
    spans = [(0, left if k == axis else n, 1) for k, n in enumerate(image.shape)]
    return build.slice_(image, spans), (low, 0)


def _merged(x: Node, axes: Sequence[Sequence[int]]) -> Node:
    """x with some axes beside each other as one. A shape that it had before is not made again."""
    order = [axis for group in axes for axis in group]
    target: list[IndexLike] = []
    for group in axes:
        size: IndexLike = 1
        for axis in group:
            size = size_of(size * x.shape[axis])
        target.append(size)
    if order == sorted(order):
        before = x
        while before.op is Op.RESHAPE and before.leaf is None and before.shape != tuple(target):
            before = before.sources[0]
        x = before if before.shape == tuple(target) else x
        return build.reshape(x, tuple(target))
    return build.reshape(build.permute(x, order), tuple(target))


# --- reductions


def _pooling(node: Node) -> Node | None:
    op, axes = node.attribute
    (x,) = node.sources
    if op not in _FOLDS:
        return None
    windowed = _windowed(x, constant_bytes(identity(op, x.dtype), x.dtype), True)
    if windowed is None or axes != tuple(range(windowed.image.rank, x.rank)):
        return None
    if all(window.size == window.step == 1 for window in windowed.windows):  # nothing is folded
        padded = any(pair != (0, 0) for pair in windowed.pads)
        return None if padded else build.cast(windowed.image, node.dtype)
    rank = windowed.image.rank
    wide = compute_dtype(x.dtype) if op in ("add", "mul") and x.dtype.is_float else x.dtype
    windows = [Window(k, 1, 1, 1) for k in range(rank)]
    for window in windowed.windows:
        windows[window.axis] = window if window.size > 1 else window._replace(dilation=1)
    pooling = Pooling(build.cast(windowed.image, wide), op, tuple(windows), windowed.pads)
    return build.cast(make_leaf(wide, node.shape, pooling), node.dtype)
