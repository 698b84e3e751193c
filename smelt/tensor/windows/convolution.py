"""Convolutions and transposed convolutions, in PyTorch's layout: (batch, channels, space...).

A convolution is a contraction of the weight with windows of the padded input, which are a view: the kernel pads and
copies what one row of the result needs, never the whole. A transposed convolution with stride s is s small convolutions
per axis, one for each remainder of the position, whose results lie interleaved: nothing is multiplied by the zeros that
its definition inserts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smelt.errors import ArgumentError, ShapeError
from smelt.graph import Node, build, marked, shape_text, size_of
from smelt.tensor.arguments import integer
from smelt.tensor.handle import all_common, wrap
from smelt.tensor.types import Operand, Size
from smelt.tensor.windows.places import Widths, fitted, for_each, paddings, spatial, windowed

if TYPE_CHECKING:
    from smelt.tensor.tensor import Tensor

__all__ = [
    "conv",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
]

Numbers = int | Sequence[int]
Padding = str | int | Sequence[int] | Sequence[tuple[int, int]]

MOST_PHASES = 4096  # small convolutions that a transposed one may be made of


def conv(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """The convolution of x (batch, channels, space...) with a weight (outputs, channels / groups, window...).

    Element p of the result is the sum over channels and window places k of x[p * stride + k * dilation - padding] *
    weight[k]. Padding is a width, one for each axis, pairs (before, after), "valid" (none) or "same" (the result has
    the size of the input; stride 1). The batch axis may be missing.

    >>> import smelt as sm
    >>> sm.conv(sm.arange(5.0).reshape(1, 1, 5), sm.ones(1, 1, 3)).tolist()
    [[[3.0, 6.0, 9.0]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, None, "conv")


def conv1d(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` over one spatial axis.

    >>> import smelt as sm
    >>> sm.conv1d(sm.arange(5.0).reshape(1, 1, 5), sm.ones(1, 1, 2), stride=2).tolist()
    [[[1.0, 5.0]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, 1, "conv1d")


def conv2d(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` over two spatial axes.

    >>> import smelt as sm
    >>> sm.conv2d(sm.ones(1, 2, 3, 3), sm.ones(1, 2, 3, 3), padding="same")[0, 0].tolist()
    [[8.0, 12.0, 8.0], [12.0, 18.0, 12.0], [8.0, 12.0, 8.0]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, 2, "conv2d")


def conv3d(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Numbers = 1,
    padding: Padding = 0,
    dilation: Numbers = 1,
    groups: int = 1,
) -> Tensor:
    """`conv` over three spatial axes.

    >>> import smelt as sm
    >>> sm.conv3d(sm.ones(1, 1, 2, 2, 2), sm.ones(1, 1, 2, 2, 2)).tolist()
    [[[[[8.0]]]]]
    """
    return _conv(x, weight, bias, stride, padding, dilation, groups, 3, "conv3d")


def conv_transpose1d(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """The transposed convolution of x (batch, channels, space) with a weight (channels, outputs / groups, window).

    Each element of x adds a copy of the weight, times itself, to the result at stride times its place; `padding`
    elements are cut off at both ends, `output_padding` are added at the end.

    >>> import smelt as sm
    >>> sm.conv_transpose1d(sm.asarray([[[1.0, 2.0]]]), sm.ones(1, 1, 3), stride=2).tolist()
    [[[1.0, 1.0, 3.0, 2.0, 2.0]]]
    """
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation, 1)


def conv_transpose2d(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """`conv_transpose1d` over two spatial axes.

    >>> import smelt as sm
    >>> sm.conv_transpose2d(sm.ones(1, 1, 2, 2), sm.ones(1, 1, 2, 2)).tolist()
    [[[[1.0, 2.0, 1.0], [2.0, 4.0, 2.0], [1.0, 2.0, 1.0]]]]
    """
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation, 2)


def conv_transpose3d(
    x: Tensor,
    weight: Operand,
    bias: Operand | None = None,
    stride: Numbers = 1,
    padding: Numbers = 0,
    output_padding: Numbers = 0,
    groups: int = 1,
    dilation: Numbers = 1,
) -> Tensor:
    """`conv_transpose1d` over three spatial axes.

    >>> import smelt as sm
    >>> sm.conv_transpose3d(sm.ones(1, 1, 1, 1, 1), sm.ones(1, 1, 1, 1, 2), stride=2).tolist()
    [[[[[1.0, 1.0]]]]]
    """
    return _conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation, 3)


# --- operands


def _operands(x: Any, weight: Any, bias: Any, count: int | None, name: str) -> tuple[Node, Node, Node | None, bool]:
    """Input with a batch axis, weight, bias (if any) in one dtype, and whether the batch axis is new."""
    nodes = all_common([x, weight] if bias is None else [x, weight, bias], name)
    image, kernel, *rest = nodes
    if kernel.rank < 3 or (count is not None and kernel.rank != count + 2):
        wanted = "at least 3" if count is None else str(count + 2)
        raise ShapeError(
            f"{name}: the weight of shape {shape_text(kernel.shape)} has rank {kernel.rank}",
            rule=f"its rank must be {wanted}: two axes of channels, then the window.",
        )
    if any(not isinstance(size, int) for size in kernel.shape):
        raise ShapeError(f"{name}: the weight has symbolic sizes: {shape_text(kernel.shape)}")
    image, added = spatial(image, kernel.rank - 2, name)
    return image, kernel, rest[0] if rest else None, added


def _groups(groups: Any, name: str) -> int:
    count = integer(groups, name, "groups")
    if count < 1:
        raise ArgumentError(f"{name}: groups must be at least 1, got {count}")
    return count


def _check_divides(groups: int, channels: Size, what: str, name: str) -> None:
    if not isinstance(channels, int) or channels % groups:
        raise ShapeError(f"{name}: {channels} {what} cannot be divided into {groups} groups")


def _check_bias(bias: Node | None, outputs: int, name: str) -> None:
    if bias is not None and bias.shape != (outputs,):
        raise ShapeError(
            f"{name}: the bias has shape {shape_text(bias.shape)}",
            rule=f"it must be ({outputs},), one for each output.",
        )


def _contracted(image: Node, kernel: Node, bias: Node | None, count: int, name: str) -> Node:
    """Windows (batch, group, channel, place..., window...) times weights (group, output, channel, window...).

    Gives (batch, group, output, place...). The bias is added here, so that it becomes part of the kernel.
    """
    places, window = tuple(range(4, 4 + count)), tuple(range(4 + count, 4 + 2 * count))
    result = build.contract(
        kernel, image, (1, 2, 3, *window), (0, 1, 3, *places, *window), (0, 1, 2, *places), name=name
    )
    if bias is None:
        return result
    return build.add(result, build.reshape(bias, (*kernel.shape[:2], *(1,) * count)))


def _conv(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    groups: Any,
    axes: int | None,
    name: str,
) -> Tensor:
    image, kernel, shift, added = _operands(x, weight, bias, axes, name)
    outputs, inner, *window = kernel.shape
    count, parts = len(window), _groups(groups, name)
    steps, gaps = for_each(stride, count, name, "stride"), for_each(dilation, count, name, "dilation")
    if image.shape[1] != inner * parts:
        raise ShapeError(
            f"{name}: the channels differ\n" + marked((image.shape, {1}), " with ", (kernel.shape, {1})),
            rule=f"the input must have {inner} channels for each of {parts} groups.",
        )
    _check_divides(parts, outputs, "outputs", name)
    _check_bias(shift, outputs, name)  # type: ignore[arg-type]
    widths = _widths(padding, window, steps, gaps, name)  # type: ignore[arg-type]
    image = windowed(fitted(image, 2, widths), 2, window, steps, gaps, name)  # type: ignore[arg-type]
    image = build.reshape(image, (image.shape[0], parts, inner, *image.shape[2:]))
    kernel = build.reshape(kernel, (parts, outputs // parts, inner, *window))
    return _finished(_contracted(image, kernel, shift, count, name), added)


def _widths(
    padding: Any, window: Sequence[int], steps: Sequence[int], gaps: Sequence[int], name: str
) -> tuple[Widths, ...]:
    if not isinstance(padding, str):
        return paddings(padding, len(window), name)
    if padding == "valid":
        return ((0, 0),) * len(window)
    if padding != "same":
        raise ArgumentError(f"{name}: padding {padding!r}", rule="as a word, it must be 'valid' or 'same'.")
    if any(step != 1 for step in steps):
        raise ArgumentError(f"{name}: padding 'same' with stride {tuple(steps)}", rule="it needs a stride of 1.")
    totals = [(size - 1) * gap for size, gap in zip(window, gaps, strict=True)]
    return tuple((total // 2, total - total // 2) for total in totals)


def _finished(result: Node, added: bool) -> Tensor:
    """(batch, group, output, place...) as (batch, channel, place...), without the batch axis if that is new."""
    batch, parts, outputs, *places = result.shape
    front = () if added else (batch,)
    return wrap(build.reshape(result, (*front, size_of(parts * outputs), *places)))


# --- transposed


def _conv_transpose(
    x: Any,
    weight: Any,
    bias: Any,
    stride: Any,
    padding: Any,
    output_padding: Any,
    groups: Any,
    dilation: Any,
    count: int,
) -> Tensor:
    name = f"conv_transpose{count}d"
    image, kernel, shift, added = _operands(x, weight, bias, count, name)
    channels, outputs, *window = kernel.shape
    parts = _groups(groups, name)
    steps, gaps = for_each(stride, count, name, "stride"), for_each(dilation, count, name, "dilation")
    if math.prod(steps) > MOST_PHASES:
        raise ArgumentError(
            f"{name}: stride {stride} is too large", rule=f"the product over the axes must be at most {MOST_PHASES}."
        )
    cuts = for_each(padding, count, name, "padding", 0)
    extra = for_each(output_padding, count, name, "output_padding", 0)
    if image.shape[1] != channels:
        raise ShapeError(
            f"{name}: the channels differ\n" + marked((image.shape, {1}), " with ", (kernel.shape, {0})),
            rule="axis 1 of the input must equal axis 0 of the weight.",
        )
    _check_divides(parts, channels, "channels", name)
    assert isinstance(channels, int)
    assert isinstance(outputs, int)
    _check_bias(shift, outputs * parts, name)
    for more, step, gap in zip(extra, steps, gaps, strict=True):
        if more >= max(step, gap):
            raise ArgumentError(
                f"{name}: output_padding {more} is too large", rule="it must be less than the stride or the dilation."
            )
    sizes = [
        size_of((size - 1) * step - 2 * cut + (length - 1) * gap + more + 1)
        for size, step, cut, length, gap, more in zip(image.shape[2:], steps, cuts, window, gaps, extra, strict=True)
    ]
    for size in sizes:
        if (size if isinstance(size, int) else size.low) < 1:
            raise ShapeError(f"{name}: the result would have the shape {shape_text(tuple(sizes))}")
    image = build.reshape(image, (image.shape[0], parts, channels // parts, *image.shape[2:]))
    kernel = build.reshape(kernel, (parts, channels // parts, outputs, *window))
    kernel = build.permute(kernel, (0, 2, 1, *range(3, 3 + count)))
    counts = [size_of((size + (step - 1)) // step) for size, step in zip(sizes, steps, strict=True)]
    phases = [
        [_Phase(remainder, step, cut, length, gap) for remainder in range(step)]  # type: ignore[arg-type]
        for step, cut, length, gap in zip(steps, cuts, window, gaps, strict=True)
    ]
    results = [_phase_result(image, kernel, shift, phase, counts, name) for phase in itertools.product(*phases)]
    return _finished(_interleaved(results, steps, counts, sizes), added)


class _Phase:
    """The window places that reach the positions with one remainder, along one axis: first, and how far apart.

    Position step * j + remainder of the result gets element j + start - m * dilation of the input times place
    first + m * apart of the window, for m below `taps`.
    """

    def __init__(self, remainder: int, step: int, cut: int, length: int, gap: int) -> None:
        common = math.gcd(step, gap)
        position = remainder + cut
        hits = [k for k in range(min(length, step // common)) if (position - k * gap) % step == 0]
        self.apart, self.dilation = step // common, gap // common
        self.first = hits[0] if hits else length
        self.taps = -(-(length - self.first) // self.apart)
        self.start = (position - self.first * gap) // step


def _phase_result(
    image: Node, kernel: Node, bias: Node | None, phases: Sequence[_Phase], counts: Sequence[Size], name: str
) -> Node:
    """The elements of one remainder per axis: (batch, group, output, place...)."""
    count = len(phases)
    if any(phase.taps == 0 for phase in phases):
        shape = (image.shape[0], *kernel.shape[:2], *counts)
        zero = build.broadcast_to(build.const(0, image.dtype), shape)
        return zero if bias is None else build.add(zero, build.reshape(bias, (*kernel.shape[:2], *(1,) * count)))
    widths: list[tuple[Size, Size]] = []
    spans: list[tuple[Size, Size, int]] = [(0, size, 1) for size in kernel.shape[:3]]
    for axis, phase in enumerate(phases):
        before = (phase.taps - 1) * phase.dilation - phase.start
        widths.append((before, size_of(counts[axis] + phase.start - image.shape[3 + axis])))
        # Windows run forwards and the taps backwards.
        spans.append((phase.first + (phase.taps - 1) * phase.apart, phase.taps, -phase.apart))
    taps, gaps = [phase.taps for phase in phases], [phase.dilation for phase in phases]
    windows = windowed(fitted(image, 3, widths), 3, taps, [1] * count, gaps, name)
    return _contracted(windows, build.slice_(kernel, spans), bias, count, name)


def _interleaved(results: list[Node], steps: Sequence[int], counts: Sequence[Size], sizes: Sequence[Size]) -> Node:
    """Results for every remainder, the last axis' fastest, put in their places and cut to size."""
    if len(results) == 1:
        return results[0]
    first = results[0]
    lead, count = first.rank - len(steps), len(steps)
    flat = build.concat([build.reshape(result, (1, *result.shape)) for result in results], 0)
    split = build.reshape(flat, (*steps, *first.shape))
    order = [count + axis for axis in range(lead)]
    for axis in range(count):
        order += [count + lead + axis, axis]
    moved = build.permute(split, order)
    whole = [size_of(step * number) for step, number in zip(steps, counts, strict=True)]
    joined = build.reshape(moved, (*first.shape[:lead], *whole))
    return build.slice_(joined, [*((0, size, 1) for size in first.shape[:lead]), *((0, size, 1) for size in sizes)])
