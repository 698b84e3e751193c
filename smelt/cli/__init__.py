"""The command line: `smelt <command>`, or `python -m smelt <command>`.

Takes the words of a command; gives an exit status: 0 when all is well, 1 when something is wrong, 2 for words it does
not know, 130 when interrupted. Without a command it lists them. Always holds: results go to stdout, everything else to
stderr, and a command's code is loaded only when it runs.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any


def _doctor(arguments: argparse.Namespace) -> int:
    from smelt.cli import doctor

    return doctor.main(as_json=arguments.json, measure=arguments.measure)


def _devices(arguments: argparse.Namespace) -> int:
    from smelt.cli import devices

    return devices.main(as_json=arguments.json)


def _demo(arguments: argparse.Namespace) -> int:
    from smelt.cli import demo

    return demo.main()


def _bench(words: Sequence[str]) -> int:
    from smelt.bench.command import main as bench

    return bench(words)


# Commands with many words of their own, which are slow to load: each is a module with `parsed`.
_MODULES = {
    "tune": "choices that were measured to be faster than the default",
    "emit-stablehlo": "a function, or a model, as StableHLO for other compilers",
    "emit-mlir": "a function as StableHLO, linalg, or smelt's own kernels",
    "emit-source": "the source of a function's kernels",
    "check": "every type and shape of a file of StableHLO",
    "chat": "talk with a language model",
    "generate": "let a language model continue a text",
    "serve": "answer the requests of others, by OpenAI's protocol",
    "models": "language models known by name: list, get, verify, remove",
    "convert": "another kind of file of a model, or fewer bits",
    "perplexity": "how surprised a language model is by a text",
    "compare": "a language model here and a hosted one, side by side",
    "llm-bench": "how quick a language model is here, beside others",
}

_EXAMPLES = """examples:
  smelt doctor             is everything here that smelt needs?
  smelt demo               a network learns to read digits, in a few seconds
  smelt devices --json     for other programs
  smelt bench matmul -m 512 --dtype bfloat16
  smelt tune train.py      find faster schedules for the kernels of a script
  smelt chat               talk with a small language model; the first time it is fetched

smelt COMMAND --help says more about one of them
"""


class _Wide(argparse.RawDescriptionHelpFormatter):
    """Longer names of commands stay on the line of what they do."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=30)

    def add_arguments(self, actions: Any) -> None:
        """Make room for names of commands, whose indentation argparse does not count."""
        self._action_max_length = max(self._action_max_length, 18)
        super().add_arguments(actions)


def _parser() -> argparse.ArgumentParser:
    from smelt.cli.options import Parser
    from smelt.config import VERSION

    parser = Parser(
        prog="smelt",
        description="A deep-learning compiler with a tensor library on top.",
        epilog=_EXAMPLES,
        formatter_class=_Wide,
    )
    parser.add_argument("--version", action="version", version=f"smelt {VERSION}")
    parser.set_defaults(run=lambda _: parser.print_help())
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    doctor = commands.add_parser("doctor", help="what smelt finds here: compiler, processor, memory, cache")
    doctor.add_argument("--json", action="store_true", help="print JSON instead of a table")
    doctor.add_argument(
        "--measure", action="store_true", help="measure how fast the processor is, for estimates, and keep that"
    )
    doctor.set_defaults(run=_doctor)
    devices = commands.add_parser("devices", help="what smelt can compute on: cores, vectors, caches, memory")
    devices.add_argument("--json", action="store_true", help="print JSON instead of a table")
    devices.set_defaults(run=_devices)
    demo = commands.add_parser("demo", help="train a network to read digits, and show the kernels")
    demo.set_defaults(run=_demo)
    commands.add_parser("bench", help="measure kernels, networks and compiling, against others")
    for name, about in _MODULES.items():
        commands.add_parser(name, help=about)
    return parser


def main(words: Sequence[str] | None = None) -> int:
    """Run one command (by default the process's own arguments) and return its exit status."""
    words = sys.argv[1:] if words is None else words
    if words and words[0] == "bench":  # it has words of its own, which are many and slow to load
        return _bench(words[1:])
    from smelt.errors import SmeltError

    try:
        if words and words[0] in _MODULES:
            import importlib

            module = importlib.import_module(f"smelt.cli.{words[0].replace('-', '_')}")
            arguments = module.parsed(words[1:])
        else:
            arguments = _parser().parse_args(words)
        status: int | None = arguments.run(arguments)
        sys.stdout.flush()
    except SmeltError as error:
        print(f"smelt: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:  # the reader has seen enough; what is left to flush goes nowhere
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.filename is None:
            raise
        print(f"smelt: {error.filename}: {(error.strerror or 'it cannot be used').lower()}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return status or 0
