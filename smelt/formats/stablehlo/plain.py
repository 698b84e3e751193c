"""StableHLO without composites: what they are made of is called instead."""

from __future__ import annotations

from smelt.formats import mlir
from smelt.formats.mlir import Operation


def without_composites(text: str) -> str:
    """The text with a call of its decomposition in the place of each composite."""
    module = mlir.parse(text)
    stack = [function.body for function in module.functions.values() if function.body is not None]
    while stack:
        for block in stack.pop().blocks:
            for operation in block.operations:
                _called(operation)
                stack += operation.regions
    return mlir.write(module)


def _called(operation: Operation) -> None:
    decomposition = operation.attributes.get("decomposition")
    if operation.name == "stablehlo.composite" and decomposition is not None:
        operation.name, operation.attributes = "func.call", {"callee": decomposition}
