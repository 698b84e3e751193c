"""Which values of whole networks share a kernel, line by line, on several kinds of processor.

With SMELT_UPDATE_GOLDEN=1 the files are written anew instead of being compared: look at what a change changes.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Never
from unittest.mock import patch

import pytest

from smelt.compiler import GraphKey, driver
from smelt.compiler.fusion import fused, layout_of
from smelt.compiler.prepare import prepare
from smelt.compiler.simplifying import simplify
from smelt.compiler.trace import rebuild
from smelt.cost.profile import Profile
from smelt.fuse import NO_CHOICES, STEPS, early_sites, late_sites, parse_choices
from smelt.fuse.group import Group
from smelt.graph import private_nodes
from tests.proofs.corpus import PROFILES, drawn_up
from tests.replay.made import described
from tests.replay.programs import NETWORKS

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "groups"
SEEN = ("mlp step", "lenet step", "transformer forward", "gpt-small step")


class _Enough(Exception):
    """The groups are known, and nothing is made of them."""


def groups(key: GraphKey, profile: Profile) -> str:
    def stop(maker: object, found: list[Group]) -> Never:
        raise _Enough("\n".join(map(described, found)))

    with patch.object(driver._Maker, "work", stop), pytest.raises(_Enough) as caught:
        drawn_up(key, profile)
    return str(caught.value)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("name", SEEN)
def test_groups_of_a_network(name: str) -> None:
    key = NETWORKS[f"network: {name}"]()
    parts: dict[str, list[str]] = {}
    for profile in PROFILES:
        parts.setdefault(groups(key, PROFILES[profile]), []).append(profile)
    text = "\n".join(f"--- {', '.join(profiles)}\n{found}\n" for found, profiles in parts.items())
    compare(GOLDEN / f"{name.replace(' ', '-')}.txt", text)


def compare(path: Path, text: str) -> None:
    if os.environ.get("SMELT_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "SMELT_UPDATE_GOLDEN=1 takes it as it is"


@pytest.mark.parametrize("name", ["mlp step", "lenet step", "transformer forward"])
@private_nodes()
def test_sites_of_a_network(name: str) -> None:
    """Where a network could be cut otherwise, those about most bytes first: each can be, and the text comes back."""
    key, profile = NETWORKS[f"network: {name}"](), PROFILES["arm"]
    roots, _ = prepare(simplify(rebuild(key)), key.inputs, profile)
    cut = fused(roots, profile)
    found = [early_sites(roots, layout_of, profile, NO_CHOICES, step) for step in STEPS[:-1]]
    found.append(late_sites(cut.stored, cut.groups, cut.decisions))
    for site in (site for sites in found for site in sites[:3]):
        assert parse_choices(str(site.choices)) == site.choices
        fused(roots, profile, site.choices)
    text = "\n".join(f"{site.nbytes:>9} {site}: {site.choices}" for sites in found for site in sites) + "\n"
    compare(GOLDEN.parent / "sites" / f"{name.replace(' ', '-')}.txt", text)
