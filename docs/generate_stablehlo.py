"""Writes `reference/stablehlo.md` from the tables: `python docs/generate_stablehlo.py`. A test compares both."""

from __future__ import annotations

from pathlib import Path

import smelt as sm

PAGE = Path(__file__).resolve().parent / "reference" / "stablehlo.md"
HEAD = """# StableHLO

`sm.stablehlo.load(text, *, name="", rules=sm.stablehlo.SPECIFICATION)` reads the text of a module, in pretty or
generic form, and gives a program: a function of tensors and arrays that `jit`, `grad` and `vmap` take.

- `program.signature` says what it takes and gives.
- `program.check(*shapes)` reads everything for arguments of these shapes and computes nothing: whatever does not
  fit is an error with line and column. A size may be a `Dim`; an argument that is a size may be a number.
- Sizes that the text leaves open (`?`) are those of the arguments: of each call, or of a `Dim` under
  `sm.jit(program, shapes=[…])`, which compiles once for all sizes. What the text asserts about them
  raises `ShapeError` with the text's message.
- `rules` is `sm.stablehlo.SPECIFICATION` or `sm.stablehlo.XLA`: what happens to a scatter's window that lies
  partly outside.
- An operation that is not below raises `sm.errors.UnsupportedOp`, with its `name`, `line` and `column`. So do element
  types that smelt does not have, sizes that depend on the values of tensors, and unknown targets of `custom_call`.

## Operations

| operation | attributes that are read | |
|---|---|---|
"""


def page() -> str:
    """The text of the page."""
    lines = []
    for name, row in sorted(sm.stablehlo.ROWS.items()):
        attributes = ", ".join(f"`{attribute}`" for attribute in row.attributes)
        lines.append(f"| `{name}` | {attributes} | {row.note} |".replace("  ", " "))
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
