"""`smelt serve`: a language model for other programs, by OpenAI's protocol."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from smelt.cli import language
from smelt.cli.options import integer, number

_EXAMPLES: Final = """  smelt serve                            SmolLM2 at http://127.0.0.1:8080/v1
  smelt serve model.gguf --slots 8 --context 4096
  SMELT_API_KEY=secret smelt serve --host 0.0.0.0
  smelt serve --host 0.0.0.0 --api-keys keys.txt   lines such as "alice 4f0c…": who asks finds nothing of others

  curl http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' \\
    -d '{"messages": [{"role": "user", "content": "Hello"}], "stream": true}'

Any client of OpenAI's API works: its base URL is http://127.0.0.1:8080/v1. Also: /health, /metrics
Ctrl-C lets answers finish for 5 seconds, and a second one ends at once.
"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("serve", "Answer the requests of other programs, by OpenAI's protocol.", _EXAMPLES)
    language.add_model(one, positional=True)
    one.add_argument("--host", default="127.0.0.1", help="where to listen (127.0.0.1); others need a key")
    one.add_argument("--port", type=integer(0, 65535), default=8080, help="(8080); 0: one that is free")
    one.add_argument("--slots", type=integer(1, 64), default=4, help="how many requests are answered at once (4)")
    one.add_argument(
        "--queue", type=integer(1), default=64, help="how many more may wait; others are told to come back (64)"
    )
    one.add_argument("--timeout", type=number(0.001), default=300.0, help="seconds that a request may take (300)")
    one.add_argument("--max-tokens", type=integer(1), metavar="N", help="the most tokens of any answer")
    one.add_argument(
        "--api-key", action="append", default=[], metavar="KEY",
        help="a key that lets in, besides that in SMELT_API_KEY; one for each who asks. Lists of processes show it",
    )  # fmt: skip
    one.add_argument("--api-keys", metavar="FILE", help="more keys: a name and a key in each line")
    one.add_argument("--no-key", action="store_true", help="let everybody in who can reach the address")
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Compile everything, then serve until interrupted."""
    from smelt.llm import serve

    keys = serve.gathered(arguments.api_key, arguments.api_keys)
    allowed = keys or ({} if arguments.no_key else None)
    at = serve.bound(arguments.host, arguments.port, allowed)
    with language.opened(arguments, arguments.slots, arguments.queue) as model:
        with language.counted("compiling", arguments.quiet) as report:
            model.compile(report)
        where = f"http://{arguments.host}:{at.getsockname()[1]}/v1"
        without = "for this machine" if arguments.host in serve.LOOPBACK else "for everybody"
        guard = f"keys: {len(keys)}" if keys else without
        at.listen()  # who reads the line below may connect at once
        print(f"smelt: {model.name} at {where}, {guard}; Ctrl-C ends", file=sys.stderr)
        limits = serve.Limits(arguments.timeout, arguments.max_tokens)
        return 0 if serve.run(model, at, allowed, limits) else 130
