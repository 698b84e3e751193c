"""`smelt emit-mlir`: a function as text at one of the levels between its graph and its kernels."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from smelt.cli import emitting, functions
from smelt.cli.emitting import compiled, jitted
from smelt.cli.functions import Called

if TYPE_CHECKING:
    from smelt.device import HostStep

_EXAMPLES: Final = """examples:
  smelt emit-mlir net.py:forward --shapes "f32[8,784], f32[784,10]"
  smelt emit-mlir net.py:forward --shapes "f32[8,784], f32[784,10]" --level linalg -o forward.mlir
  smelt emit-mlir net.py:model --shapes "f32[8,784]" --level linalg --weights inline | iree-opt -
  smelt emit-mlir net.py:forward --shapes "f32[8,784], f32[784,10]" --level kernel

levels, from what is written to what is run:
  graph       smelt's own graph, as traced
  composite   StableHLO, with attention, norms and the like by name (the default)
  stablehlo   StableHLO, where these are functions that are called
  linalg      linalg on tensors: an operation for each kernel, with one before it for each reduction inside
  kernel      smelt's own regions and loops, as they become source here, and what Python is called for
"""


def _graph(called: Called, weights: str) -> str:
    from smelt.graph import pairs, text

    return text.print_graph(pairs.all_parts(jitted(called).graph(*called.args).roots))


def _composite(called: Called, weights: str) -> str:
    from smelt.formats import stablehlo

    return stablehlo.export(called.function, *called.args, shapes=called.shapes, weights=weights)


def _stablehlo(called: Called, weights: str) -> str:
    from smelt.formats.stablehlo import without_composites

    return without_composites(_composite(called, weights))


def _linalg(called: Called, weights: str) -> str:
    from smelt.formats import linalg

    return linalg.emit(jitted(called), *called.args, weights=weights)


def _kernel(called: Called, weights: str) -> str:
    from smelt.device import HostStep, Launch

    graph = compiled(called)
    records, texts = iter(graph.kernels), list[str]()
    for step in graph.launches:
        if isinstance(step, Launch):
            one = next(records)
            texts += [one.region, one.ir]
        elif isinstance(step, HostStep):
            texts.append(_host(step))
    return "\n".join(f"{text.rstrip()}\n" for text in dict.fromkeys(texts)) or "nothing runs: results are arguments\n"


def _host(step: HostStep) -> str:
    """A call of Python's, which has no kernel."""
    from smelt.dtypes import as_dtype
    from smelt.graph import host_name, shape_text

    roles = ["argument"] * step.read + ["output"] * (len(step.arrays) - step.read)
    given = zip(roles, step.arrays, strict=True)
    lines = [f"{role} b{k} {as_dtype(dtype)} {shape_text(shape)}" for k, (role, (dtype, shape)) in enumerate(given)]
    return "\n".join([f"call {host_name(step.function)} by Python", *lines])


_LEVELS: Final[dict[str, Callable[[Called, str], str]]] = {
    "graph": _graph,
    "composite": _composite,
    "stablehlo": _stablehlo,
    "linalg": _linalg,
    "kernel": _kernel,
}


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = emitting.parser("emit-mlir", "Write a function for other compilers, or to look at.", _EXAMPLES)
    one.add_argument("--level", choices=tuple(_LEVELS), default="composite", help="how far it is on its way to kernels")
    emitting.add_weights(one)
    emitting.add_output(one, "its level")
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Write the function down, and print or write that."""
    called = functions.called(arguments)
    text = _LEVELS[arguments.level](called, arguments.weights)
    return emitting.deliver(arguments, text, {"function": called.name, "level": arguments.level})
