"""What a contraction in a region is: its operands, and which axis is rows, columns, sum and batch."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from smelt.graph import Variable, upper
from smelt.kernel import Expression, Region, extent
from smelt.schedule.access import lies_along, stride
from smelt.schedule.choice import Actions

SHORT_COLUMNS = 8  # columns that are not worth a vector if there are others
LONG_COLUMNS = 16  # and how many others
FEWEST_COLUMNS = 4  # that are worth one all the same if the others would have to be turned around first


def sizes(axes: Iterable[Variable]) -> int:
    """The elements of axes together, at most."""
    return math.prod(upper(extent(axis)) for axis in axes)


def loops(axes: Iterable[Variable]) -> tuple[str, ...]:
    """The outermost loop of each axis."""
    return tuple(f"{axis.name}.0" for axis in axes)


@dataclass(frozen=True)
class Contraction:
    """The sum `y` of products of A and B (a GEMM): rows of A, columns of B, which lie next to each other in the result
    if that has enough of them, what is summed, and all other axes of the result; among these, `rows` are more of A.
    """

    region: Region
    a: str
    b: str
    m: Variable | None
    n: Variable
    summed: tuple[Variable, ...]
    batch: tuple[Variable, ...]
    rows: tuple[Variable, ...]
    first: Actions = ()  # actions that every schedule begins with
    last: Actions = ()  # and those that every tiled one ends with

    @property
    def left(self) -> Expression:
        return dict(self.region.roles)[self.a]

    @property
    def right(self) -> Expression:
        return dict(self.region.roles)[self.b]

    @property
    def k(self) -> Variable:
        """The innermost of the summed axes."""
        return self.summed[-1]

    @property
    def height(self) -> int:
        """How many rows there are, at most."""
        return 0 if self.m is None else upper(extent(self.m))

    @functools.cached_property
    def beside(self) -> Variable | None:
        """An axis whose rows may share a register tile where those of `n` alone are short: another axis of B, as the
        rows of an image are.
        """
        output = self.region.outputs[0]
        others = [axis for axis in self.batch if axis in self.right.axes and axis not in self.left.axes]
        steps = {axis: stride(output, axis) for axis in others}
        near = [axis for axis in others if steps[axis] is not None and self.is_static(axis)]
        best = min(near, key=lambda axis: steps[axis] or 0, default=None)
        return None if best is None or upper(extent(best)) < 2 else best

    def exchanged(self) -> Contraction | None:
        """The same with rows for columns."""
        if self.m is None or self.first or self.last:
            return None
        rows = tuple(axis for axis in self.batch if axis in self.right.axes and axis not in self.left.axes)
        return replace(self, a=self.b, b=self.a, m=self.n, n=self.m, rows=rows)

    def is_static(self, *axes: Variable | None) -> bool:
        """Whether the sizes of axes are known."""
        return all(axis is not None and isinstance(extent(axis), int) for axis in axes)


def contraction_of(region: Region, keeps: bool = False) -> Contraction | None:
    """The contraction of a region; None where it has none, or one of another form. A vector `keeps` few columns where
    it need not be filled.
    """
    roles = dict(region.roles)
    if "y" not in roles or roles["y"].op != "reduce":
        return None
    output = region.outputs[0]
    axes = region.parallel_axes(output)
    columns = next((axis for axis in axes if stride(output, axis) == 1), None)
    if columns is None:
        return None
    if upper(extent(columns)) <= SHORT_COLUMNS:
        columns = _longer(roles["A"], roles["B"], axes, columns, keeps and len(roles["y"].attribute.axes) == 1)
    a, b = ("A", "B") if columns in roles["B"].axes else ("B", "A")
    if columns in roles[a].axes or columns not in roles[b].axes:
        return None
    only = [axis for axis in axes if axis in roles[a].axes and axis not in roles[b].axes]
    m = max(only, key=lambda axis: upper(extent(axis)), default=None)
    rows = tuple(axis for axis in only if axis != m)
    batch = tuple(axis for axis in axes if axis not in (m, columns))
    return Contraction(region, a, b, m, columns, tuple(roles["y"].attribute.axes), batch, rows)


def _longer(a: Expression, b: Expression, axes: Sequence[Variable], short: Variable, plain: bool) -> Variable:
    """Columns instead of some that do not fill a vector: the longest axis of one factor alone, if that does; in a
    `plain` product of matrices, unless the factor lies the other way and would have to be packed for little.
    """
    own = [axis for axis in axes if (axis in a.axes) != (axis in b.axes) and isinstance(extent(axis), int)]
    best = max(own, key=lambda axis: upper(extent(axis)), default=short)
    if best not in own or upper(extent(best)) < LONG_COLUMNS:
        return short
    turned = not lies_along(a if best in a.axes else b, best)
    return short if plain and turned and upper(extent(short)) >= FEWEST_COLUMNS else best
