"""What happens to a graph before kernels are cut out of it, depending on the device: named passes, one after the other.

Takes a rewritten graph; gives one that computes the same, as far as the contract of each pass goes, with the values
that have to be stored, and the chains in it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from smelt.cost import Profile
from smelt.fuse.chains import Chain, with_chains
from smelt.fuse.choices import NO_CHOICES, Choices
from smelt.fuse.factors import stored_padding, whole_words
from smelt.fuse.launched import prepared
from smelt.fuse.layout import LayoutOf
from smelt.fuse.split import split_reductions
from smelt.graph import Node
from smelt.rewrite import Contract


class Ready(NamedTuple):
    """A graph, what has to be stored besides its roots, and its chains."""

    roots: list[Node]
    pieces: set[Node]
    chains: list[Chain]


class Pass(NamedTuple):
    """A step. Where threads come in groups, only those run that are for any device. `kind` is the word of choices that
    it takes.
    """

    name: str
    contract: Contract
    anywhere: bool
    run: Callable[[Ready, LayoutOf, Profile, Choices], Ready]
    kind: str = ""


PASSES: Final = (
    Pass(
        "sources of routines copied where they cannot be read as they lie",
        Contract.EXACT,
        True,
        lambda graph, layout, *_: graph._replace(roots=prepared(graph.roots, layout)),
    ),
    Pass(
        "long sums in pieces",
        Contract.REASSOCIATES,
        True,
        lambda graph, _, __, choices: Ready(*split_reductions(graph.roots, choices.pieces), graph.chains),
        "pieces",
    ),
    Pass(
        "rows of whole words",
        Contract.EXACT,
        False,
        lambda graph, _, profile, __: Ready(*whole_words(graph.roots, graph.pieces, profile), graph.chains),
    ),
    Pass(
        "padded operands stored",
        Contract.EXACT,
        False,
        lambda graph, _, profile, __: graph._replace(pieces=graph.pieces | stored_padding(graph.roots, profile)),
    ),
    Pass(
        "chains found, attention divides last",
        Contract.REASSOCIATES,
        False,
        lambda graph, _, __, choices: Ready(*with_chains(graph.roots, graph.pieces, choices.apart)),
        "apart",
    ),
)

Seen = Callable[[Pass, Sequence[Node]], None]


def ready(
    roots: Sequence[Node],
    layout: LayoutOf,
    profile: Profile,
    seen: Seen | None = None,
    choices: Choices = NO_CHOICES,
) -> Ready:
    """The graph after all passes; `seen` is told of each that has changed it."""
    graph = Ready(list(roots), set(), [])
    for one in PASSES:
        if one.anywhere or not profile.group_threads:
            before, graph = graph, one.run(graph, layout, profile, choices)
            if seen is not None and graph.roots != before.roots:
                seen(one, graph.roots)
    return graph
