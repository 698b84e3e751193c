"""What commands share that write a function as a text: where it goes, and what is said about it."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from smelt.cli import functions, options
from smelt.cli.functions import Called


def parser(name: str, about: str, examples: str) -> argparse.ArgumentParser:
    """A parser of such a command, which takes a function."""
    one = options.Parser(
        f"smelt {name}",
        description=about,
        epilog=examples,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    functions.add_function(one)
    return one


def add_weights(one: argparse.ArgumentParser) -> None:
    """How tensors are written that are no arguments."""
    one.add_argument(
        "--weights", choices=("arguments", "inline"), default="arguments",
        help="whether tensors that the function reaches by itself are arguments or constants",
    )  # fmt: skip


def add_output(one: argparse.ArgumentParser, facts: str) -> None:
    """Where the text goes; `facts` are what JSON has besides."""
    one.add_argument("-o", "--output", metavar="FILE", type=Path, help="write a file instead of printing")
    one.add_argument("--json", action="store_true", help=f"print JSON: the text, and {facts}")


def deliver(arguments: argparse.Namespace, text: str, facts: dict[str, Any]) -> int:
    """Write or print the text; in JSON with facts about it."""
    if arguments.output is not None:
        arguments.output.write_text(text, encoding="utf-8")
    if arguments.json:
        print(json.dumps({**facts, **({} if arguments.output else {"text": text})}))
    elif arguments.output is None:
        print(text, end="")
    return 0


def jitted(called: Called) -> Any:
    """The function, compiled for the shapes that were declared."""
    from smelt.transform import Jit

    function = called.function if isinstance(called.function, Jit) else Jit(called.function)
    return function if called.shapes is None else Jit(function.__wrapped__, shapes=called.shapes)


def compiled(called: Called, device: str = "") -> Any:
    """The compiled graph of a call, with the texts of all stages; nothing is run."""
    from smelt import runtime

    key, usual = jitted(called).graph_key(*called.args)
    chosen = runtime.device(device) if device else usual
    return runtime.current().compiler.compile(key, chosen, explain=True)
