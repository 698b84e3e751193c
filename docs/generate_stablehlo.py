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
- `smelt check program.mlir` does that from the shell, with a caret; `--shapes "f32[n,784]"` is for open sizes.
  `--json` gives each mistake with `file`, `line`, `column`, `kind`, `message`, `rule` and `hint`.
- Sizes that the text leaves open (`?`) are those of the arguments: of each call, or of a `Dim` under
  `sm.jit(program, shapes=[…])`, which compiles once for all sizes. What the text asserts about them
  raises `ShapeError` with the text's message.
- `rules` is `sm.stablehlo.SPECIFICATION` or `sm.stablehlo.XLA`: what happens to a scatter's window that lies
  partly outside.
- An operation that is not below raises `sm.errors.UnsupportedOp`, with its `name`, `line` and `column`, and what may
  have been meant, also where its name is misspelt and its syntax is not understood for that. So do element types that
  smelt does not have, sizes that depend on the values of tensors, and unknown targets of `custom_call`.

`sm.stablehlo.export(function, *args, shapes=None, weights="arguments", portable=False)` writes the program that a call
would run, as the text of a module with a function `main`. Nothing is computed: only the types of `args` count.

- Arguments are the tensors and numbers of `args` in their order, then the tensors that the function reaches by itself
  (marked `smelt.hidden`), which `weights="inline"` writes as constants, and for a function that draws random numbers
  the three numbers that say which (marked `smelt.random`). Results are the tensors that it returns.
  Complex tensors are `complex<f32>` or `complex<f64>`, computed with by parts; calls of Python are a `custom_call`:
  of linear algebra `@smelt.linalg.NAME` or `@smelt.lapack.NAME`, which `load` finds again, of others `@smelt.NAME`.
- What StableHLO has no operation for is a `stablehlo.composite "smelt.NAME"`, whose decomposition is a private function
  of the module: any compiler can take it. `load` takes it for smelt's own only if its decomposition, read, is the one
  that `export` would write; otherwise it is what the decomposition says.
- `export` of what `load` has read gives the same text again, and equal programs have equal texts.
- Where `shapes` declares dims, as for `jit`, sizes are open (`?`), computed from those of arguments, and what must hold
  of them is asserted.
- `portable=True` gives the bytes of a portable artifact (VHLO), which jaxlib writes: of the version of about twelve
  weeks ago, or of one that is named (`portable="1.9.0"`).
- The same from the shell: `smelt emit-stablehlo net.py:forward --shapes "f32[8,784]"`.

## Operations that are read

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
