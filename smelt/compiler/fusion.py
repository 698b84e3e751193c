"""How a graph is cut into kernels: as somebody has chosen before and measured, or as the limits say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from smelt.compiler.compile import MEASURED_AS, kernels_of
from smelt.compiler.trace import Argument, Bases, LeafView, base_of
from smelt.compiler.work import AnyWork, all_launches
from smelt.cost import Profile
from smelt.fuse import (
    NO_CHOICES,
    Choices,
    Decision,
    Group,
    Layout,
    Seen,
    contiguous,
    parse_choices,
    partition,
    ready,
    storable,
)
from smelt.graph import Node, Op
from smelt.kernel import Illegal
from smelt.plan import Alias, Stored


class Cut(NamedTuple):
    """A graph cut into kernels: its outputs, for each root which of them, and the nodes that are stored for them."""

    outputs: list[Stored | Alias]
    results: list[int]
    stored: list[Node]
    groups: list[Group]
    decisions: list[Decision]


class Fusion:
    """The ways to cut one graph, and what became of the `answer` to the question how."""

    def __init__(self, roots: Sequence[Node], profile: Profile, answer: str | None, seen: Seen | None) -> None:
        self.roots, self.profile, self.seen, self.refused = roots, profile, seen, ""
        self.text, _, self.measured = (answer or "").partition(MEASURED_AS)

    def cut(self) -> Cut:
        """As it is chosen, if that can be."""
        try:
            return fused(self.roots, self.profile, parse_choices(self.text), self.seen)
        except Illegal as refusal:
            return self.default(str(refusal))

    def default(self, refused: str) -> Cut:
        """As the limits say, since something is to be said against what was chosen."""
        self.measured, self.refused = "", refused
        return fused(self.roots, self.profile, NO_CHOICES, self.seen)

    def is_stale(self, work: Sequence[AnyWork]) -> bool:
        """Whether what was measured were other kernels."""
        return bool(self.measured) and kernels_of(launch.built.text for launch in all_launches(work)) != self.measured

    def __str__(self) -> str:
        return f"{self.text}\nnot taken: {self.refused}" if self.refused else self.text


def fused(roots: Sequence[Node], profile: Profile, choices: Choices = NO_CHOICES, seen: Seen | None = None) -> Cut:
    """Cut a rewritten graph into kernels. Choices that cannot be are `Illegal`."""
    roots, pieces, chains = ready(roots, layout_of, profile, seen, choices)
    outputs, results, stored = _outputs(roots)
    return Cut(outputs, results, stored, *partition(stored, pieces, chains, choices))


def _outputs(roots: Sequence[Node]) -> tuple[list[Stored | Alias], list[int], list[Node]]:
    """What each root becomes, and the nodes that have to be stored."""
    bases: Bases = {}
    outputs: list[Stored | Alias] = []
    stored: dict[Node, int] = {}
    results: list[int] = []
    for root in roots:
        view = base_of(root, bases)
        if isinstance(view, LeafView) and view.leaf.attribute.kind == "input":
            outputs.append(Alias(view.leaf.attribute.number, view.shape, view.strides, view.offset))
            results.append(len(outputs) - 1)
            continue
        root = storable(root)
        if root not in stored:
            stored[root] = len(outputs)
            outputs.append(Stored(root.dtype, root.shape))
        results.append(stored[root])
    return outputs, results, list(stored)


def layout_of(node: Node) -> Layout:
    """How the values of a node lie in memory."""
    if node.op is Op.LEAF:
        argument: Argument = node.attribute
        return Layout(node.shape, argument.strides)
    return contiguous(node)
