"""`export`: a function of tensors as StableHLO's text."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from itertools import chain, repeat
from typing import Any, Final, Literal, overload

from smelt.errors import ArgumentError, UnsupportedOp
from smelt.formats import mlir
from smelt.formats.stablehlo.program import Imported
from smelt.formats.stablehlo.writing import Program
from smelt.graph import Node, private_nodes
from smelt.tensor import node_of
from smelt.transform import Jit

_WEIGHTS: Final = ("arguments", "inline")


@overload
def export(
    function: Callable[..., Any],
    *args: Any,
    shapes: Sequence[Any] | None = ...,
    weights: str = ...,
    portable: Literal[False] = ...,
) -> str: ...
@overload
def export(
    function: Callable[..., Any],
    *args: Any,
    shapes: Sequence[Any] | None = ...,
    weights: str = ...,
    portable: Literal[True] | str,
) -> bytes: ...
def export(
    function: Callable[..., Any],
    *args: Any,
    shapes: Sequence[Any] | None = None,
    weights: str = "arguments",
    portable: bool | str = False,
) -> str | bytes:
    """The program that a call of a function with these arguments runs, as StableHLO's text: a function `main`.

    Its arguments are the tensors and numbers of `args` in their order, then the tensors that the function reaches by
    itself, such as the weights of a module; with `weights="inline"` these are constants in the text instead. Its
    results are the tensors that the function returns. Only the types of arguments count, not their values. What
    StableHLO has no operation for is a composite `smelt.NAME`, with its decomposition beside it; `load` takes these
    back as what they were. Where `shapes` declares dims, as for `jit`, their sizes are open (`?`), and what must hold
    of them is asserted.

    `portable=True` gives bytes instead, in the versioned form that other programs keep reading: of the version of about
    twelve weeks ago, or of one that is named, such as `portable="1.9.0"`. That form is jaxlib's to write.

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
    text = mlir.write(_module(function, args, shapes, weights))
    return portable_artifact(text, None if portable is True else portable) if portable else text


def portable_artifact(text: str, version: str | None = None) -> bytes:
    """A text as a portable artifact, by jaxlib."""
    try:
        library = importlib.import_module("jaxlib._jax").mlir
        dialect = importlib.import_module("jaxlib.mlir.dialects.stablehlo")
    except ImportError:
        raise ArgumentError(
            "export: portable artifacts are written by jaxlib, which is not here", hint="pip install jaxlib"
        ) from None
    if version is None:  # not the newest: who reads it may be some weeks behind
        requirement = dialect.StablehloCompatibilityRequirement.WEEK_12
        version = dialect.get_version_from_compatibility_requirement(requirement)
    try:
        found: bytes = library.serialize_portable_artifact(text.encode(), version, False)
    except (ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "jaxlib cannot write it"
        raise ArgumentError(f"export: as version {version}: {reason:.200}") from None
    return found


def _module(function: Any, args: Sequence[Any], shapes: Sequence[Any] | None, weights: str) -> mlir.Module:
    if isinstance(function, Imported):
        return _imported(function, args, shapes)
    if not callable(function):
        raise ArgumentError(f"export: {function!r:.80} is not a function")
    compiled = function.keeping() if isinstance(function, Jit) else Jit(function)
    if shapes is not None:
        compiled = Jit(compiled.__wrapped__, shapes=shapes)
    graph = compiled.graph(*args)
    if graph.others:
        raise ArgumentError(
            f"export: the function gives a {type(graph.others[0]).__name__}",
            rule="results of a program are tensors.",
            hint="Leave it out, or give a tensor: sm.asarray(value).",
        )
    if graph.effects:
        raise UnsupportedOp("export: the function has effects, such as printing", "host", 0, 0)
    arguments: dict[Node, Any] = {node: {} for node in graph.arguments}
    if weights == "arguments":
        arguments |= {node: {"smelt.hidden": number} for number, node in enumerate(graph.hidden)}
    if graph.random is not None:
        arguments[graph.random] = {"smelt.random": None}
    program = Program()
    program.main("main", graph.roots, arguments)
    return program.module()


def _imported(imported: Imported, args: Sequence[Any], shapes: Sequence[Any] | None) -> mlir.Module:
    """A program that was read, written again: arguments keep what is said about them."""
    declared = imported.module.functions[imported.name].arguments
    given = [node_of(x, "export").shape for x in args] if shapes is None else [tuple(shape) for shape in shapes]
    if len(given) != len(declared):
        raise ArgumentError(f"export: {len(given)} arguments are given", rule=f"{imported.name} takes {len(declared)}.")
    with private_nodes():  # an equal node outside may have a value
        stand_ins, roots, _ = imported.read(given)
    arguments: dict[Node, Any] = dict(
        zip(stand_ins, chain((each.attributes for each in declared), repeat({})), strict=False)
    )
    program = Program()
    program.main("main", roots, arguments)
    return program.module()
