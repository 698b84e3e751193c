"""`smelt llm-bench`: how quick a language model is here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.cli import compare, language

if TYPE_CHECKING:
    from smelt.llm import hosted

_EXAMPLES: Final = """  smelt llm-bench                          smollm2: 512 tokens read, 128 written
  smelt llm-bench model.gguf -p 512 -n 128 -t 1,2 -b 1,4,8
  smelt llm-bench --peers llama.cpp        beside llama.cpp (pip install xllamacpp), taking turns
  smelt llm-bench --peers transformers     beside transformers and torch, with the same weights in f32
  smelt llm-bench --hosted https://api.cerebras.ai/v1      beside a hosted API (CEREBRAS_API_KEY)
  smelt llm-bench --random 8b --json       random weights of a size; others: tiny, 135m, 0.5b, 1b, 1.5b, 3b

Written tokens are counted over the whole batch. "of memory" is the share of the bandwidth, measured in the same
run, with which weights, keys and values were read.
"""


def _numbers(text: str) -> list[int]:
    numbers = [int(word) for word in text.split(",") if word]
    if not numbers or min(numbers) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no list of numbers, such as 1,2")
    return numbers


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("llm-bench", "How quick a language model reads prompts and writes answers here.", _EXAMPLES)
    one.add_argument("model", nargs="?", default=language.DEFAULT, help=language.MODEL)
    one.add_argument("--random", metavar="SIZE", help=language.RANDOM)
    one.add_argument("-p", "--prompt", type=int, default=512, help="tokens to read (512); 0: none")
    one.add_argument("-n", "--tokens", type=int, default=128, help="tokens to write (128); 0: none")
    one.add_argument("-t", "--threads", type=_numbers, default=[1], help="numbers of threads, as in 1,2")
    one.add_argument("-b", "--batch", type=_numbers, default=[1], help="how many texts at once, as in 1,4,8")
    one.add_argument("--context", type=int, default=0, metavar="N", help="write behind N tokens (0)")
    language.add_cache(one)
    one.add_argument("-r", "--rounds", type=int, default=3, help="how often; the median counts (3)")
    one.add_argument("--peers", default="", metavar="NAMES", help="who else: llama.cpp, transformers")
    one.add_argument("--hosted", metavar="URL", help="ask an API of OpenAI's shape, too; its key is in the environment")
    one.add_argument("--hosted-model", metavar="NAME", help="the model to ask there; by default the first one listed")
    one.add_argument("--json", action="store_true", help="print JSON instead of a table")
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Measure, and print a table."""
    from smelt.bench.report import machine
    from smelt.llm import bench, models

    name = language.name_of(arguments)
    if not arguments.random:
        with language.fetching(name) as report:
            models.find(name, report)
    rows = bench.measure(
        name,
        read=arguments.prompt,
        write=arguments.tokens,
        threads=arguments.threads,
        batches=arguments.batch,
        context=max(arguments.context, 0),
        cache_type=arguments.cache_type,
        peers=[peer for peer in arguments.peers.split(",") if peer],
        rounds=max(arguments.rounds, 1),
        report=lambda text: print(f"\r\033[K{text}", end="", file=sys.stderr) if sys.stderr.isatty() else None,
    )
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    told = [] if arguments.hosted is None else _hosted(arguments)
    if arguments.json:
        answers = [said.row() for said in told]
        print(json.dumps({"model": name, "machine": machine(), "rows": rows, "hosted": answers}, default=str))
    else:
        print("\n".join([*_table(rows), *map(compare.figures, told)]))
    return 0


def _hosted(arguments: argparse.Namespace) -> Sequence[hosted.Said]:
    """A message to the model here and to a hosted one; nobody without a key."""
    from smelt.llm import hosted as there
    from smelt.llm import load

    api = there.found_in(url=arguments.hosted)
    if api is None:
        print(f"smelt: {there.without_key(arguments.hosted)}", file=sys.stderr)
        return ()
    their_model = there.chosen(api, arguments.hosted_model)
    with load(language.name_of(arguments)) as model:
        model.generate("x", max_tokens=2)
        return there.compared(model, api, their_model, compare.PROMPT, arguments.tokens or 1)


def _table(rows: Sequence[dict[str, Any]]) -> list[str]:
    lines = [f"{'':<12}{'threads':>8}{'work':>22}{'tokens/s':>12}{'of memory':>12}"]
    for row in rows:
        place = f" at {row['at']}" if row.get("at") else ""
        work = f"read {row['read']}" if "read" in row else f"write {row['write']} × {row['batch']}{place}"
        share = f"{row['share_of_bandwidth']:.0%}" if "share_of_bandwidth" in row else ""
        line = f"{row['contender']:<12}{row['threads']:>8}{work:>22}{row['tokens_per_second']:>12.1f}{share:>12}"
        lines.append(line.rstrip())
    return lines
