"""Python integers that a compiled function is given must fit the dtypes of the tensors that they meet, in every call as
they must outside of it: the code that is replayed would wrap them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from smelt import runtime
from smelt.graph import Index, Node, Ranges, topological
from smelt.runtime import Narrowed
from smelt.tensor import misfit
from smelt.transform.symbolic import ShapeCheck


class Limit(NamedTuple):
    """An integer that meets a tensor, and which leaves and sizes it is computed from."""

    met: Narrowed
    leaves: dict[Node, int]
    sizes: dict[Node, Index]

    def check(self, leaves: list[Any], shapes: ShapeCheck | None) -> None:
        """Refuse leaves of a call with which the integer does not fit."""
        known = {node: leaves[k] for node, k in self.leaves.items()}
        if self.sizes and shapes is not None:
            found = shapes.sizes(leaves)
            known |= {node: size.evaluate(found) for node, size in self.sizes.items()}
        node, dtype, name, location = self.met
        low, high = Ranges({node: (value, value) for node, value in known.items()})(node)
        if low == high and not dtype.minimum <= low <= dtype.maximum:  # else it is computed in some other way
            raise misfit(low, dtype, name, location)


class SizeLimit(NamedTuple):
    """What sizes of a call must fulfil: `asserted` raises if they do not."""

    asserted: Callable[[dict[str, int]], None]

    def check(self, leaves: list[Any], shapes: ShapeCheck | None) -> None:
        """Refuse leaves of a call whose sizes do not fit."""
        if shapes is not None:
            self.asserted(shapes.sizes(leaves))


def limits_of(
    narrowed: Iterable[Narrowed],
    numbers: Mapping[Node, int],
    asserted: Iterable[Callable[[dict[str, int]], None]] = (),
) -> list[Limit | SizeLimit]:
    """What to look at in every call. `numbers` are those of the leaves."""
    limits: list[Limit | SizeLimit] = [SizeLimit(check) for check in asserted]
    for met in dict.fromkeys(narrowed):
        below = topological([met.node])
        sizes = {node: size for node in below if (size := runtime.counted(node)) is not None}
        limits.append(Limit(met, {node: numbers[node] for node in below if node in numbers}, sizes))
    return limits
