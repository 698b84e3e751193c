"""The examples in docstrings of everything public run, and show what really comes out."""

from __future__ import annotations

import doctest
from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.docs.scripts import script

EXAMPLES = {
    example.name: example
    for value, (name, *_) in script("generate_reference").public().items()
    for example in doctest.DocTestFinder().find(value, name, extraglobs={"sm": sm, "np": np})
    if example.examples
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.by_turns(6)
def test_examples_in_docstrings_run(example: Any) -> None:
    said: list[str] = []
    options = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    results = doctest.DocTestRunner(optionflags=options).run(example, out=said.append)
    assert not results.failed, "".join(said)
