"""What a program becomes on a kind of processor. Nothing is compiled or run."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple
from unittest.mock import patch

from smelt.compiler import GraphKey, driver, fusion
from smelt.cost.profile import Profile
from smelt.fuse import Partition
from smelt.fuse.group import Group
from smelt.graph.node import Node
from smelt.graph.shapes import shape_text
from smelt.render import OPENCL, render
from tests.proofs.corpus import drawn_up

PARTS: Final = ("groups", "regions", "schedules", "sources")


class Made(NamedTuple):
    """The texts of all kernels, in the order in which they were made."""

    groups: str
    regions: str
    schedules: str
    sources: str

    def hashes(self) -> list[str]:
        return [hashlib.sha256(text.encode()).hexdigest()[:12] for text in self]


def made(make: Callable[[], GraphKey | None], profile: Profile) -> Made:
    """What a program becomes; empty texts where it computes nothing."""
    key = make()
    if key is None:
        return Made("", "", "", "")
    groups: list[str] = []
    plain = fusion.partition

    def partition(*arguments: Any) -> Partition:
        found = plain(*arguments)
        groups.extend(map(described, found.groups))
        return found

    with patch.object(fusion, "partition", partition), patch.object(driver, "partition", partition):  # of bodies
        built = drawn_up(key, profile)
    assert groups or not built, "nobody saw how the graph was cut"
    dialect = {"dialect": OPENCL} if profile.group_threads else {"features": profile.features}
    sources = [render([replace(each.kernel, name="k")], **dialect) for each in built]  # type: ignore[arg-type]
    schedules = [f"{each.choice.text()}; {each.choice.grain} at a time" for each in built]
    return Made(*map("\n".join, (groups, [each.text for each in built], schedules, sources)))


def described(group: Group) -> str:
    """What a kernel stores, and how much of what it computes on its way."""
    stored = ", ".join(_named(node) for node in [group.sink, *(result.sink for result in group.also)])
    return f"{stored} from {_counted(group.inside)}"


def _named(node: Node) -> str:
    return f"{node.op.value} {node.dtype}{shape_text(node.shape)}"


def _counted(nodes: Sequence[Node]) -> str:
    kinds = Counter(str(node.attribute) if isinstance(node.attribute, str) else node.op.value for node in nodes)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
