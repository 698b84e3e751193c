"""From a node that is a routine to its launches: which templates, cut into how many tasks, with which temporaries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from smelt.cost import Profile
from smelt.dtypes import int64
from smelt.fuse import Operand, operands
from smelt.fuse.layout import LayoutOf
from smelt.graph import Node, Op, maximum, upper
from smelt.kernel import Routine, Step, Temporary
from smelt.schedule.scattering import scatter_steps
from smelt.schedule.sorting import sort_steps

BLOCK = 1 << 15  # elements of a mask that one task looks at


def routine_steps(node: Node, layout: LayoutOf, profile: Profile) -> list[Step]:
    """The launches of a node, in order."""
    return _STEPS[node.op](node, operands(node, layout), profile)


def _nonzero_steps(node: Node, sources: list[Operand], profile: Profile) -> list[Step]:
    (mask,) = sources
    n, size = node.sources[0].shape[0], node.shape[0]
    blocks = (maximum(n, 1) - 1) // BLOCK + 1  # of an empty mask too: all positions are then the size
    counts = Temporary(int64, (blocks,))
    words: dict[str, str | int] = {"block": BLOCK, "instructions": int(profile.vector_bytes >= 64)}
    work = upper(n)
    return [
        Step(Routine("count_true", mask.node.dtype, words, {"n": n}, blocks, operations=work), (counts, mask.node)),
        Step(
            Routine("positions", mask.node.dtype, words, {"n": n, "size": size}, blocks, operations=work),
            (node, counts, mask.node),
        ),
    ]


_STEPS: Final[dict[Op, Callable[[Node, list[Operand], Profile], list[Step]]]] = {
    Op.SORT: sort_steps,
    Op.SCATTER: scatter_steps,
    Op.NONZERO: _nonzero_steps,
}
