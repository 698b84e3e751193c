"""`smelt emit-stablehlo`: a function as StableHLO's text."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Final

from smelt.cli import emitting, functions

_EXAMPLES: Final = """examples:
  smelt emit-stablehlo net.py:forward --shapes "f32[1,784], f32[784,10]"
  smelt emit-stablehlo net.py:model --shapes "f32[8,784]" --weights inline -o model.mlir
  smelt emit-stablehlo net.py:forward --shapes "f32[n<=64,784]" --portable -o model.mlirbc
  smelt emit-stablehlo model.gguf --shapes "i32[32]" > model.mlir
  smelt emit-stablehlo net.py:forward --shapes "f32[8,784]" --json      the text, and what it takes and gives

Only the types of arguments count. What StableHLO has no operation for is a composite, whose decomposition is in the
text as well: any compiler for StableHLO can take it.
"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = emitting.parser(
        "emit-stablehlo", "Write a function as StableHLO, for XLA, IREE and other compilers.", _EXAMPLES
    )
    emitting.add_weights(one)
    emitting.add_output(one, "the types of arguments and results")
    one.add_argument(
        "--portable", metavar="VERSION", nargs="?", const="", default=None,
        help="write a portable artifact, by jaxlib: of some weeks ago, or of a version such as 1.9.0; needs -o",
    )  # fmt: skip
    one.set_defaults(run=main)
    found = one.parse_args(words)
    if found.portable is not None and found.output is None:
        one.error("--portable writes bytes: say where, with -o FILE")
    return found


def main(arguments: argparse.Namespace) -> int:
    """Export, and print or write."""
    from smelt.formats import stablehlo

    called = functions.called(arguments)
    text = stablehlo.export(called.function, *called.args, shapes=called.shapes, weights=arguments.weights)
    if arguments.portable is not None:
        arguments.output.write_bytes(stablehlo.portable_artifact(text, arguments.portable or None))
        return 0
    signature = stablehlo.load(text).signature if arguments.json else None
    facts = signature and {
        "function": called.name,
        "arguments": [str(argument) for argument in signature.arguments],
        "results": [str(result) for result in signature.results],
    }
    return emitting.deliver(arguments, text, facts or {})
