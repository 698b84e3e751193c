"""`smelt convert`: a model as another kind of file, or with fewer bits for each weight."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Final

from smelt.cli import language

_EXAMPLES: Final = """  smelt convert folder model.gguf                       a Hugging Face folder as a GGUF file
  smelt convert folder model.gguf --type q4_1           with about 5 bits for each weight
  smelt convert model.gguf small.gguf --type q5_0 --search
  smelt convert model.gguf folder --type bf16           a GGUF file as a folder, for transformers
  smelt convert smollm2 folder                          a model that smelt knows by name

Vectors stay f32, and the head q8_0. Tokenizer and chat template are carried over. What was written is read again and
compared before it gets its name; if anything fails, nothing is left behind.
"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    from smelt.llm import conversion

    one = language.parser("convert", "Write a model as another kind of file.", _EXAMPLES)
    one.add_argument("source", help=language.MODEL)
    one.add_argument("target", help="a file that ends in .gguf, or a folder that is not there yet")
    one.add_argument(
        "--type", metavar="TYPE", help=f"of matrices: {', '.join(conversion.TYPES)}; by default as they are"
    )
    one.add_argument("--search", action="store_true", help="look for better scales: slower, up to a tenth more exact")
    one.add_argument("--force", action="store_true", help="replace a file that is there")
    one.add_argument("--json", action="store_true", help="print JSON instead of a line")
    language.add_quiet(one)
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Convert, with a progress bar on stderr."""
    from smelt.llm import conversion, models

    options = {"search": arguments.search, "replaces": arguments.force}
    conversion.check(arguments.target, arguments.type, replaces=arguments.force)
    with language.fetching(arguments.source, arguments.quiet) as report:
        source = models.find(arguments.source, report)
    began = time.monotonic()
    with language.counted("converting", arguments.quiet, 1_000_000) as told:
        found = conversion.convert(source, arguments.target, arguments.type, report=told, **options)
    facts = {
        "source": str(source),
        "target": str(found.path),
        "tensors": found.formats,
        "bytes": found.nbytes,
        "largest_error": round(found.error, 6),
        "seconds": round(time.monotonic() - began, 2),
        "notes": list(found.notes),
    }
    if arguments.json:
        print(json.dumps(facts))
        return 0
    kinds = ", ".join(f"{count} of {kind}" for kind, count in sorted(found.formats.items()))
    print(f"{found.path}: {found.nbytes / 1e6:.1f} MB, tensors: {kinds}; off by {found.error:.2%} at most")
    for note in found.notes:
        print(f"note: {note}")
    return 0
