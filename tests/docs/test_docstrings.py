"""The examples in the docstrings of public functions run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import smelt.tensor

MODULES = [f"smelt.tensor.{module.name}" for module in pkgutil.iter_modules(smelt.tensor.__path__)]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_docstrings_run(name: str) -> None:
    assert doctest.testmod(importlib.import_module(name)).failed == 0
