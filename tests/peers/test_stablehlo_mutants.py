"""Two hundred texts of JAX's with one type or attribute changed: what MLIR's verifier refuses, `check` finds."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
import pytest
from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir

import smelt as sm
from smelt.errors import SmeltError
from tests.peers.test_stablehlo import FUNCTIONS, text_of

COUNT = 200
NUMBER = re.compile(r"(?<![%\w@#.\"-])\d+(?![\w.%\"])")
TYPE = re.compile(r"tensor<((?:\d+x)*)(f32|i32|i1|ui32|f64|i64)>")
OTHERS = {"f32": "f64", "f64": "f32", "i32": "ui32", "ui32": "i32", "i1": "i32", "i64": "i32"}


def other_type(found: re.Match[str], source: random.Random) -> str:
    """The same type with another size, an axis more, an axis less, or another element."""
    sizes, element = found[1].split("x")[:-1], found[2]
    kind = source.randrange(4)
    if kind == 0 or not sizes:
        return f"tensor<{found[1]}{OTHERS[element]}>"
    if kind == 1:
        sizes.append("2")
    elif kind == 2:
        sizes.pop(source.randrange(len(sizes)))
    else:
        at = source.randrange(len(sizes))
        sizes[at] = str(int(sizes[at]) + source.choice([1, 2]))
    return f"tensor<{''.join(f'{size}x' for size in sizes)}{element}>"


def mutant(text: str, source: random.Random) -> str:
    """A text with one type, or one number of an attribute, changed in a line with an operation."""
    lines = text.split("\n")
    while True:
        at = source.randrange(len(lines))
        line = lines[at]
        if "stablehlo." not in line or "constant" in line:
            continue
        head, colon, tail = line.rpartition(" : ")
        if source.random() < 0.5 and colon and (numbers := list(NUMBER.finditer(head))):
            found = source.choice(numbers)
            new = str(max(int(found[0]) + source.choice([-1, 1, 2]), 0))
        elif types := list(TYPE.finditer(line)):
            found = source.choice(types)
            new = other_type(found, source)
        else:
            continue
        del tail
        if new != found[0]:
            lines[at] = line[: found.start()] + new + line[found.end() :]
            return "\n".join(lines)


def is_legal(text: str) -> bool:
    """What MLIR thinks of a text."""
    try:
        return bool(ir.Module.parse(text).operation.verify())
    except ir.MLIRError:
        return False


def mutants() -> Iterator[tuple[str, str]]:
    """Texts with one thing wrong each, and the names of the programs that they were."""
    source = random.Random(0)
    texts = {name: text_of(*pair(name)) for name in sorted(FUNCTIONS)}
    with jax_mlir.make_ir_context():
        for number in range(100 * COUNT):
            name = sorted(texts)[number % len(texts)]
            text = mutant(texts[name], source)
            if not is_legal(text):
                yield name, text


def pair(name: str) -> tuple[Callable[..., Any], Any]:
    function, args = FUNCTIONS[name]
    return function, *args  # type: ignore[return-value]


def test_every_one_is_found() -> None:
    missed = []
    for number, (name, text) in zip(range(COUNT), mutants(), strict=False):
        try:
            sm.stablehlo.load(text).check()
        except SmeltError as error:
            assert str(error).startswith("line "), error
        else:
            missed.append((number, name))
    assert missed == []


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_legal_is_read(name: str) -> None:
    function, args = FUNCTIONS[name]
    results = sm.stablehlo.load(text_of(function, *args)).check()
    wanted = jax.tree.leaves(jax.eval_shape(function, *args))
    assert [tuple(x.shape) for x in results] == [x.shape for x in wanted]
    assert all(np.dtype(x.dtype.numpy) == w.dtype for x, w in zip(results, wanted, strict=True))
