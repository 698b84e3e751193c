"""Takes live nodes; gives a key, and for a key a compiled graph.

Always holds: equal keys mean the same computation for all arguments taken out of the graph; a compiled graph depends on
nothing but its key, the device, the settings and the choices.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from smelt.compiler.compile import (
    MEASURED_AS,
    NEIGHBOUR,
    Choices,
    Compiler,
    graph_text,
    kernels_of,
    measured_as,
    question_of,
)
from smelt.compiler.trace import GraphKey, Traced, trace, with_held, with_steady
from smelt.plan import CompiledGraph

if TYPE_CHECKING:
    from smelt import fuse
    from smelt.compiler.ways import Way
    from smelt.cost import Profile
    from smelt.egraph import Weighed
    from smelt.graph import Node


def simplify(roots: Sequence[Node]) -> list[Node]:
    """The graph as kernels are made of it: rewritten, with composites written out."""
    from smelt.compiler.simplifying import simplify as run

    return run(roots)


def chosen(key: GraphKey, profile: Profile) -> list[Weighed]:
    """The islands of a graph, and which of all equal programs is compiled for each."""
    from smelt.compiler.planning import chosen as run

    return run(key, profile)


def other_ways(
    key: GraphKey, profile: Profile, choices: fuse.Choices, step: int, goes_on: Callable[[], bool]
) -> list[Way]:
    """Other ways to cut a graph into kernels, those first of which the cost model expects most."""
    from smelt.compiler.ways import other_ways as run

    return run(key, profile, choices, step, goes_on)
