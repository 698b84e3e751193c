"""Facts about a region that lowering asks for again and again."""

from __future__ import annotations

from smelt.graph import Variable
from smelt.kernel.region import Expression, Region, walk


class Facts:
    """Computed once per region, without recursion."""

    def __init__(self, region: Region) -> None:
        self.position = {axis: at for at, axis in enumerate(region.axes)}
        self._axes: dict[frozenset[Variable], tuple[Variable, ...]] = {}
        self._reductions: dict[Expression, tuple[Expression, ...]] = {}
        self._below: dict[Expression, frozenset[Expression]] = {}
        for e in region.order():
            self._reductions[e] = tuple(dict.fromkeys(r for a in e.arguments for r in self.reductions(a)))

    def axes(self, e: Expression) -> tuple[Variable, ...]:
        """The region's axes that an expression varies over, in the region's order."""
        found = self._axes.get(e.axes)
        if found is None:
            found = tuple(sorted((a for a in e.axes if a in self.position), key=self.position.__getitem__))
            self._axes[e.axes] = found
        return found

    def reductions(self, e: Expression) -> tuple[Expression, ...]:
        """The reductions that an expression needs directly: itself, or those below it with no other in between."""
        return (e,) if e.op == "reduce" else self._reductions[e]

    def scans(self, e: Expression) -> tuple[Expression, ...]:
        """The scans in an expression, those that others need first."""
        return tuple(inner for inner in walk([e]) if inner.op == "scan")

    def below(self, e: Expression) -> frozenset[Expression]:
        """Everything that an expression is made of, and itself."""
        if e not in self._below:
            self._below[e] = frozenset(walk([e]))
        return self._below[e]
