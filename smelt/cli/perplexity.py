"""`smelt perplexity`: how surprised a language model is by a text."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from smelt.cli import language
from smelt.cli.options import integer
from smelt.cli.working import Working

_EXAMPLES: Final = """  smelt perplexity smollm2 book.txt
  smelt perplexity model.gguf book.txt --context 1024 --chunks 20 --json
  smelt perplexity smollm2 book.txt --against exact        what rounding inputs of layers to 8 bits changes
  smelt perplexity small.gguf book.txt --against folder    what fewer bits for each weight change

The text is cut into chunks of --context tokens; the second half of each counts, as in llama.cpp.
"""
_MOST_BYTES: Final = 1 << 28
_SAMPLE: Final = 4096  # characters by which tokenizers are compared


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("perplexity", "How surprised a language model is by a text: less is better.", _EXAMPLES)
    one.add_argument("model", help=language.MODEL)
    one.add_argument("file", type=Path, help="the text, in UTF-8")
    one.add_argument("--context", type=integer(2), default=512, help="tokens of a chunk (512)")
    one.add_argument("--chunks", type=integer(1), metavar="N", help="only the first N")
    one.add_argument("--exact", action="store_true", help="round no inputs of layers to 8 bits")
    language.add_cache(one)
    one.add_argument(
        "--against", metavar="MODEL",
        help="how often another model, read exactly, finds the same token most likely, and how far its probabilities "
        "are from these; exact: this model itself",
    )  # fmt: skip
    one.add_argument("--json", action="store_true", help="print JSON instead of a line")
    language.add_quiet(one)
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Print the perplexity; a progress bar goes to stderr."""
    from smelt.errors import ArgumentError, MissingFileError
    from smelt.llm import loading, perplexity
    from smelt.train import Progress

    if not arguments.file.is_file():
        raise MissingFileError(f"there is no file {arguments.file}")
    if arguments.file.stat().st_size > _MOST_BYTES:
        raise ArgumentError(f"{arguments.file} is too long", rule=f"it has at most {_MOST_BYTES} bytes.")
    try:
        text = arguments.file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ArgumentError(f"{arguments.file} is no text in UTF-8") from None
    model, tokenizer = _opened(arguments.model, arguments.exact, arguments.quiet)
    tokens = tokenizer.encode(text)
    if arguments.chunks is not None:
        tokens = tokens[: arguments.chunks * arguments.context]
    # A reference keeps keys and values whole, and so does what is compared with it, unless it is asked otherwise.
    kind = loading.cache_dtype(arguments.cache_type, arguments.exact or arguments.against is not None)
    common = (tokens, arguments.context, tokenizer.bos if tokenizer.add_bos else None, kind)
    results: Iterator[Any] = perplexity.perplexities(model, *common)
    if arguments.against is not None:
        against = arguments.model if arguments.against == "exact" else arguments.against
        other, others = _opened(against, True, arguments.quiet)
        if others.encode(text[:_SAMPLE]) != tokenizer.encode(text[:_SAMPLE]):
            raise ArgumentError(f"{arguments.against} makes other tokens of the text", rule="both read the same ones.")
        results = perplexity.agreements(model, other, *common)
    count = len(tokens) // arguments.context
    enabled = sys.stderr.isatty() and not arguments.quiet
    with (
        Progress[None](total=count, label="chunks", stream=sys.stderr, enabled=enabled) as bar,
        Working("chunks", quiet=arguments.quiet or enabled) as at,
    ):
        for found in results:
            bar.advance(perplexity=found.value)
            at.report(bar.done, count)
    facts = {"model": arguments.model, "context": arguments.context, **found._asdict()}
    line = f"perplexity {found.value:.4f} ({found.chunks} chunks of {arguments.context}, {found.tokens} tokens scored)"
    if arguments.against is not None:
        facts["against"] = arguments.against
        line += f"\nagainst {arguments.against}: perplexity {found.reference:.4f}, the same token most likely "
        line += f"{found.same_token:.2%}, mean divergence {found.divergence:.2e}"
    print(json.dumps(facts) if arguments.json else line)
    return 0


def _opened(name: str, exact: bool, quiet: bool) -> Any:
    """A model's decoder and its tokenizer."""
    from smelt.llm import loading

    with language.fetching(name, quiet) as report:
        return loading.opened(name, report, exact=exact)[:2]
