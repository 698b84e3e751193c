"""`smelt compare`: a model here and a hosted one, side by side."""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from smelt.cli import language
from smelt.cli.options import integer

if TYPE_CHECKING:
    from smelt.llm import hosted

_EXAMPLES: Final = """  smelt compare "Why is the sky blue?"      beside a model of Cerebras, if CEREBRAS_API_KEY is set
  smelt compare --list                      which models there are today
  smelt compare "Why is the sky blue?" --hosted-model llama3.1-8b --json
  SMELT_HOSTED_URL=https://host/v1 SMELT_HOSTED_KEY=… smelt compare "Hello" --model own.gguf
  smelt compare "Hello" --hosted http://127.0.0.1:8080/v1

Any API of OpenAI's shape will do; keys come from the environment only: CEREBRAS_API_KEY, OPENAI_API_KEY (with
OPENAI_BASE_URL), or SMELT_HOSTED_KEY with SMELT_HOSTED_URL. Without a key nothing is asked.
"""
PROMPT: Final = "Explain in a few sentences what a compiler does."


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("compare", "Ask a model here and a hosted one the same, and time both.", _EXAMPLES)
    one.add_argument("prompt", nargs="?", default=PROMPT, help="what is asked; - reads it from stdin")
    language.add_model(one, positional=False)
    one.add_argument("--hosted", metavar="URL", help="the base URL; by default that of the environment")
    one.add_argument("--hosted-model", metavar="NAME", help="the model to ask there; by default the first one listed")
    one.add_argument("--list", action="store_true", help="list the models there, and ask nothing")
    one.add_argument("-n", "--tokens", type=integer(1), default=128, help="the most tokens of an answer (128)")
    one.add_argument("--json", action="store_true", help="print JSON instead of columns")
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Print both answers and their figures."""
    from smelt.llm import hosted as there

    api = there.found_in(url=arguments.hosted)
    if api is None:
        print(f"smelt: {there.without_key(arguments.hosted)}", file=sys.stderr)
        return 0
    if arguments.list:
        names = api.models()
        print(json.dumps({"url": api.name, "models": names}) if arguments.json else "\n".join(names))
        return 0
    name = there.chosen(api, arguments.hosted_model)
    prompt = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    with language.opened(arguments) as model:
        model.generate("x", max_tokens=2)  # what is compiled on the way is no part of the comparison
        both = there.compared(model, api, name, prompt, arguments.tokens)
    if arguments.json:
        print(json.dumps({"prompt": prompt, "rows": [said.row() | {"text": said.text} for said in both]}))
    else:
        print("\n".join(_columns(both)))
    return 0


def _columns(both: Sequence[hosted.Said]) -> list[str]:
    """Two answers beside each other, as wide as the terminal, and figures below."""
    width = max((shutil.get_terminal_size().columns - 3) // 2, 30)
    sides = [
        [said.who[:width], "", *(row for line in said.text.splitlines() for row in textwrap.wrap(line, width) or [""])]
        for said in both
    ]
    lines = [f"{a:<{width}} │ {b}".rstrip() for a, b in itertools.zip_longest(*sides, fillvalue="")]
    return [*lines, "", *(figures(said) for said in both)]


def figures(said: hosted.Said) -> str:
    """A line about how quick an answer was."""
    row = said.row()
    rate = "-" if row["tokens_per_second"] is None else f"{row['tokens_per_second']:.1f}"
    line = f"{said.who:<40} first token {said.first:.3f} s, {said.tokens} tokens, {rate} tokens/s"
    times = [f"{key} {value:.4g}" for key, value in (said.time_info or {}).items() if isinstance(value, int | float)]
    return line + (f"; it says: {', '.join(times)}" if times else "")
