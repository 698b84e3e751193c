"""A function as linalg on tensors, for other compilers: `emit` takes a function and arguments, gives the text.

It is made of the regions that smelt's own kernels are made of, so it shows what was fused. Always holds: what is
emitted computes what smelt computes, or is refused with the name of what cannot be written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smelt.formats import mlir
from smelt.formats.linalg.graph import write_graph
from smelt.formats.linalg.scalars import refused
from smelt.graph import pairs, private_nodes
from smelt.transform import Jit

__all__ = ["emit"]


def emit(function: Callable[..., Any], *args: Any, weights: str = "arguments") -> str:
    """The program that a call with these arguments runs, as a function `main` of linalg on tensors.

    Its arguments are the tensors and numbers of `args` in their order, then the tensors that the function reaches by
    itself, such as the weights of a module; with `weights="inline"` these are constants in the text instead. Complex
    tensors are two, their parts: linalg's operations have no complex numbers that all compilers take.
    """
    compiled = function.keeping() if isinstance(function, Jit) else Jit(function)
    with private_nodes():
        graph = compiled.graph(*args)
        if graph.effects:
            raise refused("host", "the function has effects, such as printing.")
        arguments = [*pairs.all_parts(graph.arguments), *(graph.hidden if weights == "arguments" else ())]
        random = [] if graph.random is None else [graph.random]
        return mlir.write(write_graph([*arguments, *random], pairs.all_parts(graph.roots)))
