"""The mutants themselves: each is a program, and another one than what it was made of."""

from __future__ import annotations

import ast
import re

import pytest

from tests.mutants import AREAS, ROOT, changed, mutants
from tests.turns import TEST_ALL


@pytest.mark.parametrize("name", AREAS)
def test_every_mutant_is_another_program(name: str) -> None:
    found = mutants(AREAS[name])
    assert len(set(found)) == len(found) > 300
    for mutant in found[:: len(found) // (12 if TEST_ALL else 4)]:
        tree = changed(mutant)
        compile(tree, mutant.path, "exec")
        assert ast.unparse(tree) != ast.unparse(changed(mutant._replace(change=-1)))


def test_mutants_have_places_and_words() -> None:
    found = mutants(AREAS["legality"])
    lines = {mutant.path: (ROOT / mutant.path).read_text().splitlines() for mutant in found}
    without = [mutant for mutant in found if re.match(r"without (raise Illegal|(\w+\.)?refuse)\(", mutant.text)]
    assert len(without) > 60
    turned = [mutant for mutant in found if mutant.text == "a condition is turned around"]
    places = [lines[mutant.path][mutant.line - 1] for mutant in turned]
    assert all("if" in place or "while" in place for place in places)
