"""`export`: a function of tensors as StableHLO's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from smelt.errors import ArgumentError, UnsupportedOp
from smelt.formats import mlir
from smelt.formats.stablehlo.program import Imported
from smelt.formats.stablehlo.writing import Program
from smelt.graph import Node, private_nodes
from smelt.tensor import node_of
from smelt.transform import Jit

_WEIGHTS: Final = ("arguments", "inline")


def export(
    function: Callable[..., Any], *args: Any, shapes: Sequence[Any] | None = None, weights: str = "arguments"
) -> str:
    """The program that a call of a function with these arguments runs, as StableHLO's text: a function `main`.

    Its arguments are the tensors and numbers of `args` in their order, then the tensors that the function reaches by
    itself, such as the weights of a module; with `weights="inline"` these are constants in the text instead. Its
    results are the tensors that the function returns. Only the types of arguments count, not their values. What
    StableHLO has no operation for is a composite `smelt.NAME`, with its decomposition beside it; `load` takes these
    back as what they were.

    >>> text = sm.stablehlo.export(lambda x: x * x + 1, sm.zeros(3))
    >>> print(text)
    module {
      func.func public @main(%arg0: tensor<3xf32>) -> tensor<3xf32> {
        %0 = stablehlo.multiply %arg0, %arg0 : tensor<3xf32>
        %1 = stablehlo.constant dense<1.000000e+00> : tensor<3xf32>
        %2 = stablehlo.add %0, %1 : tensor<3xf32>
        return %2 : tensor<3xf32>
      }
    }
    <BLANKLINE>
    >>> sm.stablehlo.load(text)(sm.asarray([1.0, 2.0, 3.0])).tolist()
    [2.0, 5.0, 10.0]
    """
    if weights not in _WEIGHTS:
        raise ArgumentError(f"export: weights={weights!r:.80}", rule='it is "arguments" or "inline".')
    return mlir.write(_module(function, args, shapes, weights))


def _module(function: Any, args: Sequence[Any], shapes: Sequence[Any] | None, weights: str) -> mlir.Module:
    program = Program()
    if isinstance(function, Imported):
        with private_nodes():  # an equal node outside may have a value
            stand_ins, roots, _ = function.read([node_of(x, "export").shape for x in args])
        program.main("main", roots, {node: {} for node in stand_ins})
        return program.module()
    compiled = function.keeping() if isinstance(function, Jit) else Jit(function)
    if shapes is not None:
        compiled = Jit(compiled.__wrapped__, shapes=shapes)
    graph = compiled.graph(*args)
    if graph.effects:
        raise UnsupportedOp("export: the function has effects, such as printing", "host", 0, 0)
    arguments: dict[Node, Any] = {node: {} for node in graph.arguments}
    if weights == "arguments":
        arguments |= {node: {"smelt.hidden": number} for number, node in enumerate(graph.hidden)}
    if graph.random is not None:
        arguments[graph.random] = {"smelt.random": None}
    program.main("main", graph.roots, arguments)
    return program.module()
