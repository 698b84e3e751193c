"""Transforms of tensors: along one axis or several, of complex numbers, real ones, and those with a real spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from smelt import dtypes
from smelt.errors import ArgumentError, DTypeError, ShapeError
from smelt.fft.halves import real_numbers, spectrum
from smelt.fft.steps import LARGEST_PRIME, LONGEST, is_smooth, joined, part, resized, transformed
from smelt.graph import IndexLike, Node, Shape, build, normalized_axes, normalized_axis, pairs, product_of
from smelt.tensor import integer, node_of, wrap

if TYPE_CHECKING:
    from smelt.tensor import Tensor

Norm = Literal["backward", "ortho", "forward"]
# How the sums of a transform there, and of one back, are divided: by which power of the size.
_POWERS: Final = {"backward": (0.0, 1.0), "ortho": (0.5, 0.5), "forward": (1.0, 0.0)}


def fft(x: Tensor, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The discrete Fourier transform along an axis, which is cut off or filled with zeros to `n` elements first.

    >>> sm.fft.fft(sm.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j), (-2-2j)]
    """
    return wrap(_complex("fft", _inexact(x, "fft"), n, axis, norm, 1))


def ifft(x: Tensor, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `fft`.

    >>> sm.fft.ifft(sm.asarray([10, -2 + 2j, -2, -2 - 2j])).real.tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return wrap(_complex("ifft", _inexact(x, "ifft"), n, axis, norm, -1))


def fftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """`fft` along several axes (all, unless given), with a size in `s` for each of them.

    >>> abs(sm.fft.fftn(sm.ones((2, 3)))).tolist()
    [[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    """
    return wrap(_several("fftn", _inexact(x, "fftn"), s, axes, norm, 1))


def ifftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `fftn`."""
    return wrap(_several("ifftn", _inexact(x, "ifftn"), s, axes, norm, -1))


def rfft(x: Tensor, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The first half of `fft` of real numbers, n // 2 + 1 elements: the others are their conjugates.

    >>> sm.fft.rfft(sm.asarray([1.0, 2.0, 3.0, 4.0])).tolist()
    [(10+0j), (-2+2j), (-2+0j)]
    """
    return wrap(_real("rfft", x, n, axis, norm))


def irfft(x: Tensor, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `rfft`: n real numbers (2 * (size - 1), unless given).

    >>> sm.fft.irfft(sm.asarray([10, -2 + 2j, -2])).tolist()
    [1.0, 2.0, 3.0, 4.0]
    """
    return wrap(_back_to_real("irfft", _inexact(x, "irfft"), n, axis, norm, -1))


def rfftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """`rfft` along the last of several axes, and `fft` along the others."""
    node = node_of(x, "rfftn")
    places, sizes = _axes("rfftn", node, s, axes)
    found = _real("rfftn", x, sizes[-1], places[-1], norm)
    for axis, size in zip(places[:-1], sizes[:-1], strict=True):
        found = _complex("rfftn", found, size, axis, norm, 1)
    return wrap(found)


def irfftn(
    x: Tensor, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward"
) -> Tensor:
    """The inverse of `rfftn`."""
    node = _inexact(x, "irfftn")
    places, sizes = _axes("irfftn", node, s, axes, halved=s is None)
    for axis, size in zip(places[:-1], sizes[:-1], strict=True):
        node = _complex("irfftn", node, size, axis, norm, -1)
    return wrap(_back_to_real("irfftn", node, sizes[-1], places[-1], norm, -1))


def hfft(x: Tensor, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """`fft` of numbers whose second half, which is not given, are conjugates of the first: n real numbers.

    >>> sm.fft.hfft(sm.asarray([1.0, 2.0, 3.0])).tolist()
    [8.0, -2.0, 0.0, -2.0]
    """
    return wrap(_back_to_real("hfft", _inexact(x, "hfft"), n, axis, norm, 1))


def ihfft(x: Tensor, n: int | None = None, axis: int = -1, norm: Norm = "backward") -> Tensor:
    """The inverse of `hfft`: the first half of `ifft` of real numbers.

    >>> sm.fft.ihfft(sm.asarray([8.0, -2.0, 0.0, -2.0])).real.tolist()
    [1.0, 2.0, 3.0]
    """
    there = {"backward": "forward", "forward": "backward"}
    return wrap(pairs.conj(_real("ihfft", x, n, axis, there.get(norm, norm))))


# --- what they share


def _inexact(x: Any, name: str) -> Node:
    """A node of floats or complex numbers that transforms are computed in."""
    node = node_of(x, name)
    if node.dtype in dtypes.STORAGE:
        raise DTypeError(f"{name}: {node.dtype} is not supported", hint="Cast first: x.astype(sm.float32).")
    if node.dtype.is_complex or node.dtype in (dtypes.float32, dtypes.float64):
        return node
    return build.cast(node, dtypes.float32)


class _Lines(NamedTuple):
    """A tensor as (before, elements that are transformed, after), and how it becomes one of the first shape again."""

    nodes: list[Node]  # both parts of complex numbers
    shape: Shape
    along: int
    size: int
    beside: bool  # whether all lines lie beside each other, with nothing before

    def parts(self) -> tuple[Node, Node]:
        """Both parts, of which real numbers have only one."""
        first, *others = self.nodes
        return first, others[0] if others else build.const(0, first.dtype, first.shape)

    def restored(self, found: Node) -> Node:
        size = found.shape[1]
        outside = [n for k, n in enumerate(self.shape) if k != self.along]
        if self.beside:
            order = list(range(1, len(self.shape)))
            order.insert(self.along, 0)
            return build.permute(build.reshape(found, (size, *outside)), order)
        return build.reshape(found, (*self.shape[: self.along], size, *self.shape[self.along + 1 :]))


_LANES: Final = 16  # lines beside each other from which on kernels work on so many at once


def _lines(name: str, node: Node, n: int | None, axis: int, halved: bool = False) -> _Lines:
    """The lines of a tensor along an axis, as long as they are transformed: n, or of half a spectrum n // 2 + 1."""
    if not node.rank:
        raise ShapeError(f"{name}: a tensor of rank 0 has no axis to transform along")
    along = normalized_axis(axis, node.rank, name)
    had = node.shape[along]
    default = 2 * (had - 1) if halved and isinstance(had, int) else had
    size = default if n is None else integer(n, name, "n")
    if not isinstance(size, int):
        raise ShapeError(f"{name}: axis {along} has the symbolic size {size}", rule="its size must be a number.")
    if size < 1:
        raise ArgumentError(f"{name}: {size} elements cannot be transformed", rule="there is one at least.")
    _check_tables(name, size)
    before, after = product_of(node.shape[:along]), product_of(node.shape[along + 1 :])
    lines = product_of((before, after))
    beside = not _at_least(after, _LANES) and _at_least(lines, _LANES)
    if beside:
        order = [along] + [k for k in range(node.rank) if k != along]
        shape: Shape = (1, had, lines)
        nodes = [build.reshape(build.permute(x, order), shape) for x in pairs.all_parts([node])]
    else:
        nodes = [build.reshape(x, (before, had, after)) for x in pairs.all_parts([node])]
    count = size // 2 + 1 if halved else size
    return _Lines([resized(x, count) for x in nodes], node.shape, along, size, beside)


def _check_tables(name: str, size: int) -> None:
    """A size whose tables of angles are too large is told before they are made."""
    if size > LONGEST or (2 * size > LONGEST and not is_smooth(size)):
        rule = f"there are at most {LONGEST} elements, and half as many with a prime factor above {LARGEST_PRIME}."
        raise ArgumentError(f"{name}: {size} elements are too many for a transform", rule=rule)


def _at_least(size: IndexLike, least: int) -> bool:
    return isinstance(size, int) and size >= least


def _divided(name: str, x: Node, size: int, norm: Any, sign: int) -> Node:
    if norm not in _POWERS:
        raise ArgumentError(f"{name}: norm is {norm!r:.40}", rule=f"it is one of {', '.join(map(repr, _POWERS))}.")
    power = _POWERS[norm][sign < 0]
    return build.scale(x, size**-power) if power else x


def _complex(name: str, node: Node, n: int | None, axis: int, norm: Any, sign: int) -> Node:
    lines = _lines(name, node, n, axis)
    real, imaginary = lines.parts()
    found = _divided(name, transformed(joined(real, imaginary), sign), lines.size, norm, sign)
    return pairs.paired(*(lines.restored(part(found, k)) for k in (0, 1)))


def _several(name: str, node: Node, s: Any, axes: Any, norm: Any, sign: int) -> Node:
    for axis, size in zip(*_axes(name, node, s, axes), strict=True):
        node = _complex(name, node, size, axis, norm, sign)
    return node


def _axes(name: str, node: Node, s: Any, axes: Any, halved: bool = False) -> tuple[list[int], list[int | None]]:
    """The axes to transform along, and the size for each."""
    if axes is None:
        places = list(range(node.rank - len(s), node.rank)) if s is not None else list(range(node.rank))
    else:
        places = list(normalized_axes(axes, node.rank, name))
    if not places or places[0] < 0 or (s is not None and len(s) != len(places)):
        raise ArgumentError(f"{name}: s is {s} and axes are {axes}", rule="there is a size for each axis, and an axis.")
    return places, [None] * len(places) if s is None else list(s)


def _real(name: str, x: Any, n: int | None, axis: int, norm: Any) -> Node:
    node = _inexact(x, name)
    if node.dtype.is_complex:
        raise DTypeError(f"{name}: {node.dtype} is not supported", rule="the numbers are real.", hint="Use fft.")
    lines = _lines(name, node, n, axis)
    found = _divided(name, spectrum(lines.nodes[0], lines.size), lines.size, norm, 1)
    return pairs.paired(*(lines.restored(part(found, k)) for k in (0, 1)))


def _back_to_real(name: str, node: Node, n: int | None, axis: int, norm: Any, sign: int) -> Node:
    """Real numbers from the first half of what is conjugate around its middle."""
    lines = _lines(name, node, n, axis, halved=True)
    found = _divided(name, real_numbers(*lines.parts(), lines.size, sign), lines.size, norm, sign)
    return lines.restored(found)
