"""What is chosen for the computations of `golden_cases` and `golden_edges` on several kinds of processor, line by line.

With SMELT_UPDATE_GOLDEN=1 the files are written anew instead of being compared: look at what a change changes.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from smelt.compiler import GraphKey, driver, trace
from smelt.compiler.work import Built
from smelt.cost.profile import Profile
from smelt.kernel import Routine, Temporary
from smelt.kernel.routine import Step
from tests.proofs.corpus import PROFILES, drawn_up
from tests.schedule.golden_cases import CASES
from tests.schedule.golden_edges import EDGES, ROUTINES, SYMBOLIC, symbolic_key

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "schedules"
UPDATE = os.environ.get("SMELT_UPDATE_GOLDEN") == "1"

_SERVER, _ARM = PROFILES["server"], PROFILES["arm"]
_TILES = {"amx_tile", "amx_int8", "amx_bf16"}
MACHINES = {
    **PROFILES,
    "vectors": _SERVER._replace(features=_SERVER.features - _TILES),
    "small": _ARM._replace(cores=1, l1_bytes=4 << 10, l2_bytes=32 << 10),
}
# Some of them see only computations for which they differ from others.
_ROUTINES = "|".join(map(re.escape, ROUTINES))
_SEEN = {
    "arm": f"(?!({_ROUTINES})$)",
    "groups": f"(?!({_ROUTINES})$)",
    "vectors": ".*(bytes|halves|brains|unsigned|words)",
    "small": ".*(product|turned|panels|convolution)",
}


def keys(seen: str) -> Iterator[tuple[str, GraphKey]]:
    for name, make in {**CASES, **EDGES, **ROUTINES}.items():
        if re.match(seen, name):
            made = make()
            yield name, trace([value._node for value in (made if isinstance(made, tuple) else (made,))]).key
    yield from ((name, symbolic_key(name)) for name in SYMBOLIC if re.match(seen, name))


def chosen(built: Built) -> str:
    if not isinstance(built.kernel, Routine):
        return built.choice.text()
    return ", ".join([*built.text.splitlines(), f"operations {built.kernel.operations}"])


def lines(profile: Profile, seen: str) -> Iterator[str]:
    steps: list[Step] = []

    def routine_steps(*arguments: Any) -> list[Step]:
        made = plain(*arguments)
        steps.extend(made)
        return made

    plain = driver.routine_steps
    for name, key in keys(seen):
        steps.clear()
        with patch.object(driver, "routine_steps", routine_steps):
            built = drawn_up(key, profile)
        yield from (f"{name}: {chosen(each)}; {each.choice.grain} at a time" for each in built)
        kept = dict.fromkeys(value for step in steps for value in step.buffers if isinstance(value, Temporary))
        if kept:
            yield f"{name}: {', '.join(map(str, kept))}"


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.by_turns(4)
def test_schedules_are_as_written_down(machine: str) -> None:
    path, found = GOLDEN / f"{machine}.txt", lines(MACHINES[machine], _SEEN.get(machine, ""))
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in found), encoding="utf-8")
        return
    for line, written in itertools.zip_longest(found, path.read_text(encoding="utf-8").splitlines()):
        assert line == written
