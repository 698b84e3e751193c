"""The corpus of `make replay`, a part of it at a time."""

from __future__ import annotations

import itertools
import os

import pytest

from tests.proofs.corpus import PROFILES
from tests.replay.__main__ import first_difference, read
from tests.replay.made import made
from tests.replay.programs import NETWORKS, programs

FEW = 8 if os.environ.get("SMELT_TEST_ALL") == "1" else 97  # of how many programs one is made


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("profile", PROFILES)
def test_kernels_are_what_they_were(profile: str) -> None:
    known = read(profile)
    few = itertools.islice(programs(), list(PROFILES).index(profile), None, FEW)
    chosen = [(name, make) for name, make in few if name not in NETWORKS]
    changed = [
        name for name, make in chosen if first_difference(known.get(name), made(make, PROFILES[profile]).hashes())
    ]
    assert not changed, "make replay says more; python -m tests.replay --update takes it as it is"


def test_every_program_is_known() -> None:
    assert sorted(name for name, _ in programs()) == sorted(read("server"))
