"""The examples in docstrings run, and show what really comes out."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from typing import Any

import numpy as np
import pytest

import smelt as sm

EXAMPLES = {
    name: example
    for name in sm.__all__
    if callable(getattr(sm, name))
    for example in doctest.DocTestFinder(recurse=False).find(getattr(sm, name), name, globs={"sm": sm, "np": np})
    if example.examples
}

# Packages whose modules are searched whole.
for package in ("formats", "train", "data"):
    for module in pkgutil.iter_modules(importlib.import_module(f"smelt.{package}").__path__):
        inside = importlib.import_module(f"smelt.{package}.{module.name}")
        found = doctest.DocTestFinder().find(inside, extraglobs={"sm": sm, "np": np})
        EXAMPLES |= {example.name: example for example in found if example.examples}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
@pytest.mark.by_turns(2)
def test_examples_in_docstrings_run(example: Any) -> None:
    said: list[str] = []
    results = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(example, out=said.append)
    assert not results.failed, "".join(said)
