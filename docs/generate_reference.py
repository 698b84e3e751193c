"""Writes `reference/functions.md` from the docstrings: `python docs/generate_reference.py`. A test compares them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import smelt as sm
from smelt.tensor import random

PAGE = Path(__file__).parent / "reference" / "functions.md"

HEAD = """# Functions

`import smelt as sm`. Every function is lazy: it gives a tensor at once, and values are computed when they are asked
for. Most functions of a tensor are also methods of the same name; they are one definition.

- **Names** are those of the array API standard. Names that only PyTorch has are aliases; `dim=` may be written for
  `axis=`, and `keepdim=` for `keepdims=`. Where the two differ in meaning, the array API wins.
- **Dtypes** promote as in the array API; an integer that meets a float takes the float's dtype. Python numbers are
  weak: they take the dtype of the tensor that they meet, within its kind, and an integer that does not fit is refused.
  So is `np.float64`; other NumPy scalars, and arrays, have their own dtype. Functions of real numbers give float32 for
  integers and bools.
- **Numbers.** Integers wrap; an integer divided by 0 gives 0, and so does a shift beyond the width. Casts from float to
  integer saturate, and NaN becomes 0. 16-bit floats are computed in float32 and rounded once.
- **Mistakes** raise the typed errors of `sm.errors` at the call, with the line of the user's program in the message.

This page is written by `python docs/generate_reference.py`.
"""

FAMILIES: dict[str, str] = {
    "Creation": "tensor.creation",
    "Other libraries, and values": "tensor.interop",
    "Elementwise": "tensor.elementwise",
    "Angles, and hyperbolic functions": "tensor.trigonometry",
    "Logarithms, roots and special functions": "tensor.special",
    "Signs, neighbors and bits": "tensor.floats",
    "Activations": "tensor.activations",
    "Reductions": "tensor.reductions",
    "Reductions without NaN": "tensor.nans",
    "Norms": "tensor.norms",
    "Quantiles": "tensor.quantiles",
    "Scans": "tensor.scans",
    "Movement": "tensor.movement",
    "Padding": "tensor.padding",
    "Joining and splitting": "tensor.joining",
    "Finding by index": "tensor.lookup",
    "Order": "tensor.ordering",
    "Finding by value": "tensor.finding",
    "Bins": "tensor.histograms",
    "Distinct elements": "tensor.sets",
    "Products": "tensor.linear",
    "Products by labels": "tensor.einsums",
    "Convolution": "tensor.convolution",
    "Pooling": "tensor.pooling",
    "Pooling to a size": "tensor.adaptive_pooling",
    "Windows": "tensor.folding",
    "Resizing": "tensor.resizing",
    "Layers": "tensor.layers",
    "Losses, of which `sm.nn.losses` has more": "nn.losses.classes",
    "Files": "formats.models",
    "Loops and branches inside compiled graphs": "transform.control",
    "Scans of any function": "transform.associative",
    "Python inside compiled graphs": "transform.callback",
    "Questions about dtypes": "tensor.scalars",
    "The array API namespace": "tensor.namespace",
    "Devices": "tensor.devices",
    "Compiling": "transform.jit",
    "Batching": "transform.vmap",
    "Derivatives": "transform.gradients",
    "Derivatives of all elements": "transform.jacobians",
    "Constants for derivatives": "transform.custom",
    "Less memory for derivatives": "transform.checkpoint",
    "Looking inside": "transform.explain",
    "Measuring": "debug.profiling",
}
DRAWN = ("random", "random_tails", "random_rejection", "random_choices", "initializers")


def signature(name: str, function: Callable[..., Any]) -> str:
    """The call as a reader would write it: names and defaults, without types."""
    parts: list[str] = []
    kinds = inspect.Parameter
    starred = False
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is kinds.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        default = "" if parameter.default is kinds.empty else f"={parameter.default!r}".replace("smelt.", "")
        prefix = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        starred = starred or prefix == "*"
        parts.append(f"{prefix}{parameter.name}{default}")
    return f"{name}({', '.join(parts)})"


def rows(module: Any, prefix: str, names: list[str]) -> list[str]:
    """A line for each public function of a module, in the order of its definitions."""
    lines = []
    for name, function in vars(module).items():
        if not inspect.isfunction(function) or function.__module__ != module.__name__ or name not in names:
            continue
        others = [n for n in sm.__all__ if inspect.unwrap(getattr(sm, n)) is inspect.unwrap(function)]
        summary = (inspect.getdoc(function) or "").split("\n\n")[0].replace("\n", " ").replace("|", "\\|")
        also = ", ".join(f"`{n}`" for n in others if n != prefix + name)
        lines.append(f"| `{signature(prefix + name, function)}` | {summary}{f' Also: {also}.' if also else ''} |")
    return lines


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    table = ["| call | meaning |", "|---|---|"]
    for title, name in FAMILIES.items():
        module = importlib.import_module(f"smelt.{name}")
        parts.append("\n".join([f"\n## {title}\n", *table, *rows(module, "", sm.__all__)]) + "\n")
    modules = [importlib.import_module(f"smelt.tensor.{name}") for name in DRAWN]
    drawn = [row for module in modules for row in rows(module, "random.", random.__all__)]
    parts.append("\n".join(["\n## Random numbers\n", *table, *drawn]) + "\n")
    return "".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
