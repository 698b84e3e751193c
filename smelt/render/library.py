"""Helper functions of generated source, instantiated for one element type and lane count at a time.

The texts are templates in sections. A section opens with `@@ name elements [scalar|vector] [halved]`; elements are
element types or groups of them, and what is halved works on at most eight lanes at a time. In the body, arithmetic is
spelled the same for scalars and vectors, and these words stand for others:

    T   the type the section is instantiated for         E   its element type           L, W  lanes, bits of an element
    I, U  signed, unsigned integers of the same width    M   the result of a comparison (vector: I, scalar: int)
    H   half as many lanes                               D, F  float64, float32 with as many lanes
    U8, I8, U16, I32, I64, U64  those types with as many lanes
    name@ or name@X  the function `name` for T, or for the type that X stands for
    CONVERT(x, X)    conversion of each element           $name  a spelling that depends on the type (see `spell`)
"""

from __future__ import annotations

import functools
import re
from typing import NamedTuple

from smelt.errors import InternalError
from smelt.render import spell
from smelt.render.dialect import C, Dialect
from smelt.render.texts import basic, float32, float64, half, integer, inverse, narrow, special, trigonometry

_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
_GROUPS = {
    "float": ("f32", "f64"),
    "signed": ("i8", "i16", "i32", "i64"),
    "unsigned": ("u8", "u16", "u32", "u64"),
    "int": _INTEGERS,
    "any": ("f32", "f64", *_INTEGERS),
}
_SPELLED = re.compile(r"\$(\w+)")
_LETTERS = r"T|E|L|W|M|I|U|H|D|F|U8|I8|U16|I16|I32|U32|I64|U64"
_WORD = re.compile(rf"(\w+)@(\w*)|(CONVERT\()|\b([fiuc]\d+)x(\d+)\b|\b({_LETTERS})(_u)?\b")


class Type(NamedTuple):
    """An element type with a number of lanes; one lane is a scalar."""

    element: str
    lanes: int = 1

    @property
    def name(self) -> str:
        return self.element if self.lanes == 1 else f"{self.element}x{self.lanes}"

    @property
    def bits(self) -> int:
        return int(self.element[1:])

    @property
    def integer(self) -> Type:
        """Signed integers of the same width."""
        return Type(f"i{self.bits}", self.lanes)

    @property
    def scalar(self) -> Type:
        return Type(self.element)


class Library:
    """Collects the types and functions that one translation unit uses; `text` is all of them in order."""

    def __init__(self, dialect: Dialect = C) -> None:
        self.dialect = dialect
        self._lines: list[str] = []
        self._seen: set[str] = set()

    @property
    def text(self) -> str:
        return self.dialect.preamble + "".join(self._lines)

    def type(self, t: Type) -> str:
        """The name of a type, declared. Vectors also have an unaligned form for memory, `name_u`."""
        if t.lanes > 1 and t.name not in self._seen:
            self._seen.add(t.name)
            size = t.bits // 8 * t.lanes
            self._lines.append(f"typedef {t.element} {t.name} __attribute__((vector_size({size})));\n")
            memory = f"vector_size({size}), aligned({t.bits // 8}), may_alias"
            self._lines.append(f"typedef {t.element} {t.name}_u __attribute__(({memory}));\n")
        return t.name

    def view(self, element: str) -> str:
        """The name of an element type for memory that holds elements of another, with their alignment."""
        name = f"{element}_v"
        if name not in self._seen:
            self._seen.add(name)
            self._lines.append(f"typedef {element} {name} __attribute__((aligned(1), may_alias));\n")
        return name

    def function(self, name: str, t: Type) -> str:
        """The name of a helper function for a type, defined together with all that it uses."""
        full = f"{name}_{t.name}"
        if full not in self._seen:
            self._seen.add(full)
            text = self._instantiate(_find(name, t), t)
            self._lines.append(text)
        return full

    def called_function(self, name: str, t: Type) -> str:
        """A helper of one argument as a function that is never inlined."""
        full = f"called_{name}_{t.name}"
        if full not in self._seen:
            self._seen.add(full)
            inner, kind = self.function(name, t), self.type(t)
            self._lines.append(f"NEVER_INLINE {kind} {full}({kind} x) {{ return {inner}(x); }}\n")
        return full

    def _instantiate(self, body: str, t: Type) -> str:
        def spelled(match: re.Match[str]) -> str:
            spelling = self.dialect.spellings.get(match[1]) or spell.SPELLINGS[match[1]]
            text = spelling(t.bits, t.lanes, t.element[0] == "f")
            return text if self.dialect.vectors else spell.portable(text)

        def word(match: re.Match[str]) -> str:
            function, of, convert, element, lanes, letter, memory = match.groups()
            if function:
                return self.function(function, _related(t, of) if of else t)
            if convert:
                return "__builtin_convertvector(" if t.lanes > 1 else "scalar_convert("
            if element:
                return self.type(Type(element, int(lanes)))
            if letter in "LW":
                return str(t.lanes if letter == "L" else t.bits)
            if letter == "M" and t.lanes == 1:
                return "int"
            return self.type(_related(t, letter)) + (memory or "")

        return _WORD.sub(word, _SPELLED.sub(spelled, body))


def _related(t: Type, letter: str) -> Type:
    match letter:
        case "T":
            return t
        case "E":
            return t.scalar
        case "I" | "M":
            return t.integer
        case "U":
            return Type(f"u{t.bits}", t.lanes)
        case "H":
            return Type(t.element, t.lanes // 2)
        case "D":
            return Type("f64", t.lanes)
        case "F":
            return Type("f32", t.lanes)
        case _:
            return Type(letter.lower(), t.lanes)


_FORMS = ("scalar", "vector")
_HALVED = 8  # the most lanes of a section that is marked so
_PARAMETER = re.compile(r"T (\w+)(?=[,)])")


class _Section(NamedTuple):
    body: str
    halved: bool


@functools.cache
def _sections() -> dict[tuple[str, str, bool], _Section]:
    """Sections by name, element type and whether they are for vectors."""
    found: dict[tuple[str, str, bool], _Section] = {}
    for module in (basic, integer, half, narrow, float32, float64, trigonometry, inverse, special):
        for section in module.TEXT.split("\n@@ ")[1:]:
            head, _, body = section.partition("\n")
            name, *words = head.split()
            made = _Section(body.rstrip() + "\n", "halved" in words)
            forms = [form for form in _FORMS if form in words] or _FORMS
            for group in (word for word in words if word not in (*_FORMS, "halved")):
                for element in _GROUPS.get(group, (group,)):
                    for form in forms:
                        found[name, element, form == "vector"] = made
    return found


def _find(name: str, t: Type) -> str:
    section = _sections().get((name, t.element, t.lanes > 1))
    if section is None:
        raise InternalError(f"the C library has no {name} for {t.name}")
    if not section.halved or t.lanes <= _HALVED:
        return section.body
    signature = section.body.partition("{")[0]
    low, high = (
        ", ".join(f"{side}@({parameter})" for parameter in _PARAMETER.findall(signature)) for side in ("low", "high")
    )
    return f"{signature}{{ return join@({name}@H({low}), {name}@H({high})); }}\n"
