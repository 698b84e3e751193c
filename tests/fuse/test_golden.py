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
from smelt.cost.profile import Profile
from smelt.fuse.group import Group
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


@pytest.mark.parametrize("name", SEEN)
def test_groups_of_a_network(name: str) -> None:
    key = NETWORKS[f"network: {name}"]()
    parts: dict[str, list[str]] = {}
    for profile in PROFILES:
        parts.setdefault(groups(key, PROFILES[profile]), []).append(profile)
    text = "\n".join(f"--- {', '.join(profiles)}\n{found}\n" for found, profiles in parts.items())
    path = GOLDEN / f"{name.replace(' ', '-')}.txt"
    if os.environ.get("SMELT_UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8"), "SMELT_UPDATE_GOLDEN=1 takes it as it is"
