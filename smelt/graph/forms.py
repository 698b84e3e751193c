"""Text forms, written once: templates by which records are both printed and read.

A form is literal text with holes `{field:kind}`, or `{0:kind}` for an element of a tuple; a kind says how what is in a
field is written and read. What stands in square brackets is left out where its first field is empty or has its default
value. Graphs, kernels, regions and actions are texts with a table of kinds each.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from smelt.dtypes import ALL
from smelt.errors import InternalError, ParseError
from smelt.graph.index import Index, size_of
from smelt.graph.index_text import TokenReader

Line = TokenReader  # of a text


def _plain(text: Any, value: Any) -> str:
    return str(value)


class Kind(NamedTuple):
    """How a field is read and written."""

    read: Callable[[Any, Line], Any]
    write: Callable[[Any, Any], str] = _plain


class Text:
    """A text that is being written or read: its kinds of fields, and what has been declared in it."""

    kinds: ClassVar[Mapping[str, Kind]]

    def __init__(self) -> None:
        self.variables: dict[str, Index] = {}

    def write(self, kind: str, value: Any) -> str:
        return self.kinds[kind].write(self, value)

    def read(self, kind: str, line: Line) -> Any:
        return self.kinds[kind].read(self, line)

    def written(self, form: str, record: Any) -> str:
        """A record in its form."""
        text: list[str] = []
        for optional, holes in _runs(form):
            if optional and _is_left_out(record, next(hole.name for hole in holes if hole.name)):
                continue
            for before, name, kind in holes:
                text += [before, self.write(kind, _field(record, name))] if name else [before]
        return "".join(text)

    def read_form(self, form: str, line: Line) -> dict[str, Any]:
        """The fields of a record; those that were left out are not among them."""
        fields: dict[str, Any] = {}
        for optional, holes in _runs(form):
            if optional and not line.starts(*_tokens(holes[0].before)):
                continue
            for before, name, kind in holes:
                line.expect(*_tokens(before))
                if name:
                    fields[name] = self.read(kind, line)
        return fields


def text_lines(text: str) -> Iterator[Line]:
    """The lines of a text that are not empty."""
    return (Line(line, number) for number, line in enumerate(text.splitlines(), 1) if line.strip())


@contextmanager
def making_sense(line: Line) -> Iterator[None]:
    """Checks of the algebra and of graphs, met by something that nobody printed, are errors of a line."""
    try:
        yield
    except (InternalError, OverflowError) as error:
        raise ParseError(f"line {line.line}: {str(error).splitlines()[0]}") from None


class _Hole(NamedTuple):
    """A field of a record and its kind, and the text before it; without a name, only that text."""

    before: str
    name: str
    kind: str


@functools.cache
def _runs(form: str) -> tuple[tuple[bool, tuple[_Hole, ...]], ...]:
    """The holes of a form, in runs that are in brackets (True) or not."""
    found = [[_Hole(*hole) for hole in _HOLE.findall(run) if any(hole)] for run in _BRACKET.split(form)]
    return tuple((at % 2 == 1, tuple(holes)) for at, holes in enumerate(found) if holes)


_BRACKET = re.compile(r"\[(.*?)\]")
_HOLE = re.compile(r"([^{]*)(?:\{(\w+):(\w+)\})?")


@functools.cache
def _tokens(text: str) -> tuple[str, ...]:
    return Line(text).rest()


def _field(record: Any, name: str) -> Any:
    return record[int(name)] if name.isdigit() else getattr(record, name)


def _is_left_out(record: Any, name: str) -> bool:
    value = _field(record, name)
    declared = getattr(record, "__dataclass_fields__", {}).get(name)
    empty = value is None or value is False or (isinstance(value, tuple | str) and not value)
    return empty or (declared is not None and value == declared.default)


# --- kinds that several texts have


def listed(one: Kind, start: str = "", end: str = "", comma: str = ", ") -> Kind:
    """Some, with commas between them; at least one where there are no brackets around them."""

    def read(text: Any, line: Line) -> tuple[Any, ...]:
        found: list[Any] = []
        line.expect(*start)
        while not line.accept(end) if end else not found or line.starts(comma.strip()):
            line.expect(*comma.strip() if found else ())
            found.append(one.read(text, line))
        return tuple(found)

    return Kind(read, lambda text, values: start + comma.join([one.write(text, value) for value in values]) + end)


def formed(kind: Callable[..., Any] | None, form: str) -> Kind:
    """A record inside of another one, or a tuple."""

    def read(text: Any, line: Line) -> Any:
        fields = text.read_form(form, line)
        return tuple(fields.values()) if kind is None else kind(**fields)

    return Kind(read, lambda text, record: str(text.written(form, record)))


def named(what: str, table: Callable[[Any], Mapping[str, Any]], write: Callable[[Any, Any], str] = _plain) -> Kind:
    """Something that a text knows by its name."""

    def read(text: Any, line: Line) -> Any:
        name, known = line.name(what), table(text)
        return known[name] if name in known else line.unknown(what, name, known)

    return Kind(read, write)


WORD = Kind(lambda text, line: line.name())
NUMBER = Kind(lambda text, line: line.integer())
INDEX = Kind(lambda text, line: line.index(text.variables))
SIZE = Kind(lambda text, line: size_of(line.index(text.variables)))
_DTYPES = {dtype.name: dtype for dtype in ALL}
DTYPE = named("a dtype", lambda text: _DTYPES)
COMMON: Mapping[str, Kind] = {"word": WORD, "number": NUMBER, "index": INDEX, "size": SIZE, "dtype": DTYPE}
