"""`smelt generate`: how a text goes on."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from smelt.cli import language
from smelt.cli.options import integer
from smelt.cli.working import Working

_EXAMPLES: Final = """  smelt generate "The capital of France is"
  smelt generate "Once upon a time" --model story.gguf -n 200 --temperature 0.9
  smelt generate "The capital of France is" --greedy --exact -n 32 --json
  cat notes.txt | smelt generate - -n 100

The text is continued as it stands. For questions and answers: smelt chat
"""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = language.parser("generate", "Let a language model continue a text.", _EXAMPLES)
    one.add_argument("prompt", help="the text; - reads it from stdin")
    language.add_model(one, positional=False)
    one.add_argument("-n", "--tokens", type=integer(1), default=128, help="the most tokens to write (128)")
    one.add_argument("--stop", action="append", default=[], metavar="TEXT", help="end before this; more than once")
    one.add_argument("--ignore-end", action="store_true", help="never let the model end the text by itself")
    one.add_argument("--chat", action="store_true", help="take the prompt as a message, by the model's chat template")
    one.add_argument(
        "--logprobs", type=integer(0, 20), metavar="K", help="JSON: log-probabilities of the K most likely tokens"
    )
    one.add_argument("--json", action="store_true", help="print JSON: prompt_tokens, tokens, text, finish_reason")
    language.add_sampling(one)
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Write the text to stdout as it comes, or all as JSON."""
    sampling = language.sampling_of(arguments, logprobs=arguments.logprobs)
    text = sys.stdin.read() if arguments.prompt == "-" else arguments.prompt
    with language.opened(arguments) as model:
        if arguments.ignore_end:
            sampling = replace(sampling, bias=dict.fromkeys(model.tokenizer.stops, -float("inf")))
        prompt = model.tokens([{"role": "user", "content": text}] if arguments.chat else text)
        options = {"max_tokens": arguments.tokens, "stop": arguments.stop}
        if not arguments.json:
            for piece in language.soon(model.chat(prompt, sampling, **options), quiet=arguments.quiet):
                print(piece, end="", flush=True)
            print()
            return 0
        with Working("writing", quiet=arguments.quiet):
            answer = model.generate(prompt, sampling, **options)
        found = {
            "model": model.name,
            "prompt_tokens": prompt,
            "tokens": answer.tokens,
            "text": answer.text,
            "finish_reason": answer.reason,
            "seconds_to_first_token": round(answer.figures.first - answer.figures.submitted, 4),
            "guessed_tokens": answer.figures.guessed_tokens,
            "right_tokens": answer.figures.right_tokens,
            "seconds": round(answer.figures.finished - answer.figures.submitted, 4),
        }
        if arguments.logprobs is not None:
            found["logprobs"] = [{"logprob": one.logprob, "top": one.top} for one in answer.choices]
        print(json.dumps(found))
    return 0
