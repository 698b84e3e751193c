"""`smelt check`: whether files of StableHLO are legal programs, found before anything runs."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from smelt.cli import functions, options

if TYPE_CHECKING:
    from smelt.errors import SmeltError
    from smelt.formats.stablehlo import Imported

_EXAMPLES: Final = """examples:
  smelt check model.mlir
  smelt check model.mlir --shapes "f32[n,784]"     open sizes (?) as dims: for every size at once
  smelt check model.mlir --shapes "f32[8,784]"
  smelt check *.mlir --json

What is wrong is printed as FILE:LINE:COLUMN with the line and a caret, and ends with status 1. After an operation that
is wrong, its results are taken to be what it declares; after wrong syntax, nothing more is looked for. Operations that
smelt does not have are told as such.
"""
_PLACE: Final = re.compile(r"line (\d+), column (\d+): ", re.ASCII)
_WIDEST = 160  # columns of a line that are shown


class Finding(NamedTuple):
    """What is wrong with a file; where, if a place of it can be blamed. The message has the rule and the hint, too."""

    file: str
    kind: str
    message: str
    line: int | None = None
    column: int | None = None
    rule: str = ""
    hint: str = ""


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What the words of the command say."""
    one = options.Parser(
        "smelt check",
        description="Check types and shapes of StableHLO programs; nothing is compiled or run.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    one.add_argument("files", nargs="+", type=Path, metavar="FILE", help="a text of StableHLO")
    one.add_argument("--shapes", metavar="TYPES", help=f"instead of what is declared, {functions.SHAPES}")
    one.add_argument("--name", default="", metavar="FUNCTION", help="the function to check; by default main")
    one.add_argument(
        "--json", action="store_true", help="print JSON: what is wrong, and what each program takes and gives"
    )
    one.set_defaults(run=main)
    return one.parse_args(words)


def main(arguments: argparse.Namespace) -> int:
    """Check all files: 0 if nothing is wrong."""
    types = functions.argument_types(arguments.shapes) if arguments.shapes else []
    found, signatures = list[Finding](), dict[str, str]()
    for path in arguments.files:
        data = path.read_bytes()
        text = data.decode("utf-8", errors="replace")
        bytecode = [Finding(str(path), "ParseError", "this is MLIR's bytecode: print it as text first")]
        result = bytecode if data.startswith(b"ML\xefR") else _checked(str(path), text, types, arguments.name)
        if isinstance(result, str):
            signatures[str(path)] = result
            if not arguments.json:
                print(f"{path}: {result}")
            continue
        found += result
        for finding in [] if arguments.json else result:
            print(shown(finding, text), file=sys.stderr)
    if arguments.json:
        print(json.dumps({"wrong": [finding._asdict() for finding in found], "programs": signatures}))
    return int(bool(found))


def _checked(file: str, text: str, types: Sequence[tuple[Any, tuple[Any, ...]]], name: str) -> list[Finding] | str:
    """What is wrong, in the order of the text, or what the program takes and gives."""
    from smelt.errors import SmeltError
    from smelt.formats import stablehlo

    try:
        program = stablehlo.load(text, name=name)
        for argument, (dtype, _) in zip(program.signature.arguments, types, strict=False):
            if argument.dtype is not dtype:
                return [Finding(file, "ArgumentError", f"{program.name}: {argument} is given as {dtype}")]
        shapes = [shape for _, shape in types]
        mistakes = program.mistakes(*shapes) if shapes else _of_declared(program)
        if not mistakes:
            return _told(program, shapes)
    except SmeltError as error:
        mistakes = [error]
    found = [_finding(file, error) for error in mistakes]
    return sorted(found, key=lambda one: (one.line or 0, one.column or 0))


def _of_declared(program: Imported) -> list[SmeltError]:
    """What is wrong with a program for the shapes that it declares, which may be open."""
    from smelt.errors import ShapeError

    try:
        return program.mistakes()
    except ShapeError as error:
        arguments = program.signature.arguments
        if None in [one.dtype for one in arguments] or not any(None in one.shape for one in arguments):
            raise
        types = ", ".join(functions.type_text(one.dtype, one.shape) for one in arguments)
        return [ShapeError(error.message, hint=f'Give all shapes, as in --shapes "{types}".')]


def _told(program: Imported, shapes: list[tuple[Any, ...]]) -> str:
    """What a program takes and gives, for arguments of these shapes if there are any."""
    if not shapes:
        return str(program.signature)
    arguments, results = program.signature
    found = [tensor.shape for tensor in program.check(*shapes)]
    return str(program.signature._replace(arguments=_shaped(arguments, shapes), results=_shaped(results, found)))


def _shaped(declared: Sequence[Any], shapes: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
    return tuple(one._replace(shape=shape) for one, shape in zip(declared, shapes, strict=True))


def _finding(file: str, error: SmeltError) -> Finding:
    """An error, which may say where it is."""
    kind, told = type(error).__name__, str(error.told)
    place = _PLACE.match(told)
    if place is None:
        return Finding(file, kind, told, None, None, error.rule, error.hint)
    return Finding(file, kind, told[place.end() :], int(place[1]), int(place[2]), error.rule, error.hint)


def shown(finding: Finding, text: str) -> str:
    """A finding as compilers print them: the place, the line, and a caret below."""
    if finding.line is None or finding.column is None:
        return f"{finding.file}: {finding.kind}: {finding.message}"
    head = f"{finding.file}:{finding.line}:{finding.column}: {finding.kind}: {finding.message}"
    lines = text.split("\n")
    if finding.line > len(lines):
        return head
    line, column = lines[finding.line - 1].rstrip("\r"), finding.column - 1
    start = max(column - _WIDEST // 2, 0) if len(line) > _WIDEST else 0
    part = line[start : start + _WIDEST]
    blank = "".join("\t" if c == "\t" else " " for c in part[: column - start])
    return f"{head}\n  {part}\n  {blank}^"
