"""`smelt llm-bench`: how quick a language model is here."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from smelt.cli import compare, language
from smelt.cli.options import integer
from smelt.cli.working import Working

if TYPE_CHECKING:
    from smelt.llm import hosted

_EXAMPLES: Final = """  smelt llm-bench                          smollm2: 512 tokens read, 128 written
  smelt llm-bench model.gguf -p 512 -n 128 -t 1,2 -b 1,4,8
  smelt llm-bench --peers llama.cpp        beside llama.cpp (pip install xllamacpp), taking turns
  smelt llm-bench --peers transformers     beside transformers and torch, with the same weights in f32
  smelt llm-bench --hosted https://api.cerebras.ai/v1      beside a hosted API (CEREBRAS_API_KEY)
  smelt llm-bench --server http://127.0.0.1:8080/v1 --clients 8 --requests 200     any server of OpenAI's protocol
  smelt llm-bench --random 8b --json       random weights of a size; others: tiny, 135m, 0.5b, 1b, 1.5b, 3b

Written tokens are counted over the whole batch. "of memory" is the share of the bandwidth, measured in the same
run, with which weights, keys and values were read. A peer that is not installed is told first, and everybody else is
measured.

Of a server: tokens of all clients in a second, seconds to the first token (half of all requests, and 19 of 20, have it
by then), and the slowest request beside the one in the middle. --fields sends more along, as '{"ignore_eos": true}'.
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
    one.add_argument(
        "-p", "--prompt", type=integer(0), default=None, help="tokens to read (512; 64 of a server); 0: none"
    )
    one.add_argument(
        "-n", "--tokens", type=integer(0), default=None, help="tokens to write (128; 64 of a server); 0: none"
    )
    one.add_argument("-t", "--threads", type=_numbers, default=[1], help="numbers of threads, as in 1,2")
    one.add_argument("-b", "--batch", type=_numbers, default=[1], help="how many texts at once, as in 1,4,8")
    one.add_argument("--context", type=integer(0), default=0, metavar="N", help="write behind N tokens (0)")
    language.add_cache(one)
    one.add_argument("-r", "--rounds", type=integer(1), default=3, help="how often; the median counts (3)")
    one.add_argument("--peers", default="", metavar="NAMES", help="who else: llama.cpp, transformers")
    one.add_argument("--hosted", metavar="URL", help="ask an API of OpenAI's shape, too; its key is in the environment")
    one.add_argument("--hosted-model", metavar="NAME", help="the model to ask there; by default the first one listed")
    group = one.add_argument_group("a server, instead of what is here")
    group.add_argument("--server", metavar="URL", help="its base URL, as in http://127.0.0.1:8080/v1")
    group.add_argument("--clients", type=integer(1, 1024), default=8, metavar="N", help="how many ask at once (8)")
    group.add_argument("--requests", type=integer(1), default=200, metavar="N", help="how many in all (200)")
    group.add_argument("--chat", action="store_true", help="send messages, not texts to continue")
    group.add_argument("--fields", type=_object, default={}, metavar="JSON", help="more fields of each request")
    group.add_argument("--seed", type=integer(0), default=0, help="of what is asked (0)")
    one.add_argument("--json", action="store_true", help="print JSON instead of a table")
    language.add_quiet(one)
    one.set_defaults(run=main)
    return one.parse_args(words)


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError(f"{text!r:.80} is no JSON object")
    return found


def main(arguments: argparse.Namespace) -> int:
    """Measure, and print a table."""
    from smelt.llm import bench, models

    if arguments.server is not None:
        return _server(arguments)
    name, quiet = language.name_of(arguments), arguments.quiet
    peers = bench.present([peer for peer in arguments.peers.split(",") if peer], _warn)
    if not arguments.random:
        with language.fetching(name, quiet) as report:
            models.find(name, report)
    with Working("measuring", quiet=quiet) as at:
        rows = bench.measure(
            name,
            read=512 if arguments.prompt is None else arguments.prompt,
            write=128 if arguments.tokens is None else arguments.tokens,
            threads=arguments.threads,
            batches=arguments.batch,
            context=arguments.context,
            cache_type=arguments.cache_type,
            peers=peers,
            rounds=arguments.rounds,
            report=at.say,
            warn=_warn,
        )
    told = [] if arguments.hosted is None else _hosted(arguments)
    if arguments.json:
        answers = [said.row() for said in told]
        print(_json(model=name, rows=rows, hosted=answers))
    else:
        print("\n".join([*_table(rows), *map(compare.figures, told)]))
    return 0 if rows or told else 1


def _json(**facts: Any) -> str:
    from smelt.bench.report import machine

    return json.dumps({"machine": machine(), **facts}, default=str)


def _warn(text: str) -> None:
    print(f"smelt: {text}", file=sys.stderr)


def _server(arguments: argparse.Namespace) -> int:
    """What a server does for many clients; 1 if a request failed."""
    from smelt.errors import ArgumentError
    from smelt.llm import clients
    from smelt.llm import hosted as there

    api = there.found_in(url=arguments.server)
    if api is None:
        raise ArgumentError(f"there is no key for {arguments.server}", hint=there.without_key(arguments.server))
    model = there.chosen(api, arguments.hosted_model)
    with language.counted("requests", arguments.quiet) as report:
        row = clients.load(
            api,
            model,
            clients=arguments.clients,
            requests=arguments.requests,
            read=64 if arguments.prompt is None else arguments.prompt,
            write=64 if arguments.tokens is None else max(arguments.tokens, 1),
            chat=arguments.chat,
            fields=arguments.fields,
            seed=arguments.seed,
            report=report,
        )
    print(_json(rows=[row]) if arguments.json else _served(row))
    return 1 if row["errors"] else 0


def _served(row: dict[str, Any]) -> str:
    lines = [f"{row['contender']}: {row['requests']} requests by {row['clients']} clients, {row['errors']} failed"]
    lines += [f"  the first that failed: {row['first_error']}"] if row["first_error"] else []
    counts = f"{row['prompt_tokens']} read and {row['tokens']} written in {row['seconds']:.1f} s"
    lines.append(
        f"  tokens   {row['tokens_per_second']:.1f}/s written, {row['total_tokens_per_second']:.1f}/s in all ({counts})"
    )
    if "request_p50" in row:
        lines.append(f"  first token   p50 {row['first_token_p50']:.3f} s, p95 {row['first_token_p95']:.3f} s")
        slowest = f"slowest {row['request_slowest']:.3f} s, {row['slowest_over_median']:.2f} times as long"
        lines.append(f"  request   p50 {row['request_p50']:.3f} s, {slowest}")
    return "\n".join(lines)


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
