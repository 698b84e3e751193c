"""The examples in the docstrings of public functions run and give what they say."""

from __future__ import annotations

import doctest
from collections.abc import Iterator
from typing import Any

import pytest

import smelt as sm


def examples() -> Iterator[Any]:
    finder = doctest.DocTestFinder(recurse=False)
    for name in sm.__all__:
        function = getattr(sm, name)
        if type(function).__name__ == "function" and function.__name__ == name:
            for test in finder.find(function, name, globs={"sm": sm}):
                if test.examples:
                    yield pytest.param(test, id=name)


@pytest.mark.parametrize("test", list(examples()))
def test_example(test: doctest.DocTest) -> None:
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=report.append)
    assert not report, "".join(report)
