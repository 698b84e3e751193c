"""Words of a command: what was probably meant where there is no such word, and numbers that are checked first."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

from smelt.names import nearest

_CHOICE: Final = re.compile(r"invalid choice: '(?P<given>[^']*)'")
_UNKNOWN: Final = re.compile(r"unrecognized arguments: (?P<given>.*)", re.DOTALL)


class Parser(argparse.ArgumentParser):
    """A parser whose errors say which command, choice or option was probably meant."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end the program."""
        if found := _CHOICE.search(message):
            meant = [nearest(found["given"], _choices(self))]
        elif found := _UNKNOWN.search(message):
            options = [option for parser in _all(self) for option in parser._option_string_actions]
            words = [word.partition("=")[0] for word in found["given"].split() if word.startswith("--")]
            meant = [nearest(word.replace("_", "-"), options) for word in words]
        else:
            meant = []
        names = " and ".join(dict.fromkeys(name for name in meant if name))
        super().error(f"{message}; did you mean {names}?" if names else message)


def _choices(parser: argparse.ArgumentParser) -> list[str]:
    return [str(choice) for one in _all(parser) for action in one._actions for choice in action.choices or ()]


def _all(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """A parser, and those of its commands."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _all(inner)


def integer(least: int, most: int | None = None) -> Callable[[str], int]:
    """What reads a whole number of a range."""
    return lambda text: int(_number(text, int, least, most))


def number(least: float, most: float | None = None) -> Callable[[str], float]:
    """What reads a number of a range."""
    return lambda text: _number(text, float, least, most)


def _number(text: str, kind: Callable[[str], float], least: float, most: float | None) -> float:
    where = f"at least {least}" if most is None else f"{least} to {most}"
    try:
        found = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r:.40} is no number; it is {where}") from None
    if not least <= found or (most is not None and found > most):
        raise argparse.ArgumentTypeError(f"{text} is not possible; it is {where}")
    return found
