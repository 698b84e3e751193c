"""Products that something is added to are rounded by themselves, at no cost."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from smelt.cost import profile
from smelt.device.discovery import compiler
from smelt.render.dialect import C


@pytest.mark.parametrize("registers", [0.25, 1, 2], ids=["a part of a register", "a register", "two registers"])
@pytest.mark.parametrize("element", ["float", "double"])
def test_a_product_and_a_sum_are_two_vector_instructions(registers: float, element: str, tmp_path: Path) -> None:
    size = {"float": 4, "double": 8}[element]
    width = max(2 * size, int(profile().vector_bytes * registers))
    vector = f"typedef {element} T __attribute__((vector_size({width})));\n"
    path = tmp_path / "unit.c"
    path.write_text(
        C.header + vector + "void f(T *r, T *a, T *b, T *c) { T p = ROUNDED(*a * *b); T s = p + *c; *r = s; }"
    )
    flags = [flag for flag in compiler().flags if flag != "-shared"]
    words = [*compiler().command, *flags, "-S", str(path), "-o", "-"]
    text = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    instructions = [line.split()[0] for line in text.splitlines() if line.startswith("\t") and line[1] != "."]
    assert not [word for word in instructions if "fma" in word or "fml" in word]
    assert len([word for word in instructions if "mul" in word]) == max(1, int(registers))
    # Loads, the two operations, a store, a way through memory for what needs two registers; but no element by itself.
    assert len(instructions) <= 24, text
