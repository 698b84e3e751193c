"""`smelt emit-stablehlo`: a function as StableHLO's text."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from smelt.cli import functions, options

_EXAMPLES: Final = """examples:
  smelt emit-stablehlo net.py:forward --shapes "f32[1,784], f32[784,10]"
  smelt emit-stablehlo net.py:model --shapes "f32[8,784]" --weights inline -o model.mlir
  smelt emit-stablehlo model.gguf --shapes "i32[32]" > model.mlir
  smelt emit-stablehlo net.py:forward --shapes "f32[8,784]" --json      the text, and what it takes and gives

Only the types of arguments count. What StableHLO has no operation for is a composite, whose decomposition is in the
text as well: any compiler for StableHLO can take it.
"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = options.Parser(
        "smelt emit-stablehlo",
        description="Write a function as StableHLO, for XLA, IREE and other compilers.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    functions.add_function(one)
    one.add_argument(
        "--weights", choices=("arguments", "inline"), default="arguments",
        help="whether tensors that the function reaches by itself are arguments or constants",
    )  # fmt: skip
    one.add_argument("-o", "--output", metavar="FILE", type=Path, help="write a file instead of printing")
    one.add_argument("--json", action="store_true", help="print JSON: the text, and the types of arguments and results")
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Export, and print or write."""
    from smelt.formats import stablehlo

    called = functions.called(arguments)
    text = stablehlo.export(called.function, *called.args, shapes=called.shapes, weights=arguments.weights)
    if arguments.output is not None:
        arguments.output.write_text(text, encoding="utf-8")
    if arguments.json:
        signature = stablehlo.load(text).signature
        facts = {
            "function": called.name,
            "arguments": [str(argument) for argument in signature.arguments],
            "results": [str(result) for result in signature.results],
            **({} if arguments.output else {"text": text}),
        }
        print(json.dumps(facts))
    elif arguments.output is None:
        print(text, end="")
    return 0
