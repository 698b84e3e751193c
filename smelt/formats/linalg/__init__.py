"""A function as linalg on tensors, for other compilers: `emit` takes a function and arguments, gives the text.

It is made of the regions that smelt's own kernels are made of, so it shows what was fused. Always holds: what is
emitted computes what smelt computes, or is refused with the name of what cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.compiler import simplify
from smelt.formats import mlir
from smelt.formats.linalg.graph import write_graph
from smelt.formats.written import Written, written
from smelt.graph import private_nodes

__all__ = ["emit", "emit_written"]


def emit(function: Callable[..., Any], *args: Any) -> str:
    """The text of a function for arguments like these. Tensors that it reads besides are further arguments."""
    return emit_written(written(function, *args))


def emit_written(program: Written) -> str:
    """The text of a function that has been written down."""
    with private_nodes():
        return mlir.write(write_graph(program, simplify(program.roots)))
