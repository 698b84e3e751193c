"""How a graph is cut into kernels: as somebody has chosen before and measured, or as the limits say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

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

T = TypeVar("T")


class Cut(NamedTuple):
    """A graph cut into kernels: its outputs, for each root which of them, and the nodes that are stored for them."""

    outputs: list[Stored | Alias]
    results: list[int]
    stored: list[Node]
    groups: list[Group]
    decisions: list[Decision]


class Fusion:
    """What became of the `answer` to the question how a graph is cut, which of all equal ones it is included."""

    def __init__(self, answer: str | None) -> None:
        self.refused, self.choices = "", NO_CHOICES
        self.text, _, self.measured = (answer or "").partition(MEASURED_AS)
        try:
            self.choices = parse_choices(self.text)
        except Illegal as refusal:
            self.refuse(str(refusal))

    def done(self, make: Callable[[Choices], T]) -> T:
        """What is made as it is chosen, if that can be, or as the limits say."""
        try:
            return make(self.choices)
        except Illegal as refusal:
            if self.choices == NO_CHOICES:
                raise
            self.refuse(str(refusal))
            return make(self.choices)

    def refuse(self, reason: str) -> None:
        """Something is to be said against what was chosen."""
        self.measured, self.refused, self.choices = "", reason, NO_CHOICES

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
