"""Helper functions of generated source, instantiated for one element type and lane count at a time.

The texts are templates in sections. `@@ name elements marks: definition` opens one; a comment may stand above it. The
names `a|b` are of functions with one text, in which NAME is the name. Elements are element types or groups of them. A
definition is a function's result, its parameters, and its body (`= expression` for one that only returns); `static` or
`NEVER_INLINE` before it says that it is not inlined. Without a definition, the lines that follow are the text. Marks:

    scalar, vector  for that form only
    lanewise        vectors by a loop over their lanes
    halved, fitted  at most eight lanes, at most 64 bytes at a time; more in halves
    widened         float32 is computed in float64
    polynomial      a list of coefficients from the constant term up

In a body, arithmetic is spelled the same for scalars and vectors, and these words stand for others:

    T   the type the section is instantiated for         E   its element type           L, W  lanes, bits of an element
    I, U  signed, unsigned integers of the same width    M   the result of a comparison (vector: I, scalar: int)
    H   half as many lanes                               D, F  float64, float32 with as many lanes
    U8, I8, U16, I32, I64, U64  those types with as many lanes
    u32x16           that type                            name@, name@X  the function `name` for T, or for the type X
    CONVERT(x, X)    conversion of each element           $name  a spelling that depends on the type (see `spell`)
    POLY_NAME(x)     a polynomial, by Horner's scheme     $(a|b)  a for elements of 32 bits, b for others
    1.0f             a literal of float32; float64 drops the suffix
"""

from __future__ import annotations

import functools
import itertools
import re
from typing import NamedTuple

from smelt.errors import InternalError
from smelt.render import spell
from smelt.render.dialect import C, Dialect
from smelt.render.texts import basic, elementary, integer, inverse, narrow, special, trigonometry

_INTEGERS = ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64")
_GROUPS = {
    "float": ("f32", "f64"),
    "signed": ("i8", "i16", "i32", "i64"),
    "unsigned": ("u8", "u16", "u32", "u64"),
    "int": _INTEGERS,
    "any": ("f32", "f64", *_INTEGERS),
}
_SPELLED = re.compile(r"\$(\w+)")
_CHOICE = re.compile(r"\$\(([^|]*)\|([^)]*)\)")
_POLYNOMIAL = re.compile(r"POLY_(\w+)\((\w+)\)")
_SUFFIXED = re.compile(r"\b(0x[\da-f.]+p[+-]?\d+|\d+\.\d+)f\b")
_LETTERS = r"T|E|L|W|M|I|U|H|D|F|U8|I8|U16|I16|I32|U32|I64|U64"
_WORD = re.compile(rf"(\w+)@(\w*)|(CONVERT\()|\b([fiuc]\d+x\d+|{_LETTERS})(_u)?\b")


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
        return self.dialect.header + "".join(self._lines)

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
            self._lines.append(self.instantiate(_template(name, t, self.dialect), t))
        return full

    def called_function(self, name: str, t: Type) -> str:
        """A helper of one argument as a function that is never inlined."""
        full = f"called_{name}_{t.name}"
        if full not in self._seen:
            self._seen.add(full)
            inner, kind = self.function(name, t), self.type(t)
            self._lines.append(f"NEVER_INLINE {kind} {full}({kind} x) {{ return {inner}(x); }}\n")
        return full

    def instantiate(self, body: str, t: Type) -> str:
        """A text with the names of types and functions, which are declared and defined."""

        def word(match: re.Match[str]) -> str:
            function, of, convert, letter, memory = match.groups()
            if function:
                return self.function(function, _related(t, of) if of else t)
            if convert:
                return "__builtin_convertvector(" if t.lanes > 1 else "scalar_convert("
            if letter in "LW":
                return str(t.lanes if letter == "L" else t.bits)
            if letter == "M" and t.lanes == 1:
                return "int"
            return self.type(_related(t, letter)) + (memory or "")

        return _WORD.sub(word, body)


@functools.cache
def _related(t: Type, letter: str) -> Type:
    if letter in "EH":
        return t.scalar if letter == "E" else Type(t.element, t.lanes // 2)
    if "x" in letter:
        element, lanes = letter.split("x")
        return Type(element, int(lanes))
    signed = t.integer.element
    elements = {"T": t.element, "I": signed, "M": signed, "U": f"u{t.bits}", "D": "f64", "F": "f32"}
    return Type(elements.get(letter, letter.lower()), t.lanes)


_FORMS = ("scalar", "vector")
_HALVED = 8  # the most lanes of a section that is marked so
_FITTED = 512  # the most bits
_SECTION = re.compile(r"^(/\*.*\*/\n)?@@ ([\w|]+) ([^:\n]*)(?:: (.*))?\n", re.MULTILINE)
_DEFINITION = re.compile(r"(?:(static|NEVER_INLINE) )?(\w+)(\(.*?\)) (.*)", re.DOTALL)
_PARAMETER = re.compile(r"(\w+) (\*?)(\w+)(?=[,)])")


class _Section(NamedTuple):
    comment: str
    marks: frozenset[str]
    storage: str
    result: str
    parameters: str
    body: str  # of a polynomial or a text: all of it

    def each(self, spelling: str) -> str:
        """All parameters, each in some spelling."""
        return ", ".join(spelling.format(name) for _, _, name in _PARAMETER.findall(self.parameters))

    def half(self, name: str, side: str) -> str:
        """A call for one half of all parameters: of vectors, the memory at a pointer, or the bits of a mask."""
        texts: list[str] = []
        for kind, pointer, parameter in _PARAMETER.findall(self.parameters):
            further = " + L / 2" if pointer else " >> L / 2" if kind == "u64" else ""
            plain = f"{parameter}{further if side == 'high' else ''}"
            texts.append(plain if further else f"{side}@{kind}({parameter})")
        return f"{name}@H({', '.join(texts)})"


@functools.cache
def _sections() -> dict[tuple[str, str, bool], _Section]:
    """Sections by name, element type and whether they are for vectors."""
    found: dict[tuple[str, str, bool], _Section] = {}
    for module in (basic, integer, narrow, elementary, trigonometry, inverse, special):
        heads = list(_SECTION.finditer(module.TEXT))
        for head, following in itertools.zip_longest(heads, heads[1:]):
            rest = module.TEXT[head.end() : following.start() if following else None].rstrip("\n")
            words, _, coefficients = head[3].partition("polynomial")
            marks = frozenset(words.split())
            definition = _DEFINITION.fullmatch(f"{head[4]}\n{rest}".rstrip("\n")) if head[4] else None
            assert definition or not head[4], head[0]
            parts = definition.groups("INLINE") if definition else ("", "", "", f"{coefficients} {rest}".strip())
            forms = [form for form in _FORMS if form in marks or (form == "vector" and "lanewise" in marks)] or _FORMS
            elements = [element for mark in marks for element in _GROUPS.get(mark, (mark,))]
            elements += ["f32"] if "widened" in marks else []
            for name in head[2].split("|"):
                section = _Section(head[1] or "", marks, *(part.replace("NAME", name) for part in parts))
                found.update(((name, element, form == "vector"), section) for element in elements for form in forms)
    return found


def _horner(coefficients: str, x: str, t: Type) -> str:
    *lower, nested = [f"{c}{'f' if t.element == 'f32' else ''}" for c in coefficients.split()]
    for coefficient in reversed(lower):
        nested = f"({nested}) * {x} + {coefficient}"
    return f"({nested})"


@functools.cache
def _template(name: str, t: Type, dialect: Dialect) -> str:
    """The text of a section for a type, with only the words for types and functions still in it."""
    own, guards = dialect.spellings, dialect.extensions
    body = _SPELLED.sub(lambda match: spell.spelled(match[1], t.bits, t.lanes, own, guards), _find(name, t))
    body = _CHOICE.sub(r"\1" if t.bits == 32 else r"\2", body)
    body = _SUFFIXED.sub(r"\1", body) if t.element == "f64" else body
    return _POLYNOMIAL.sub(lambda match: _horner(_sections()[match[1], t.element, False].body, match[2], t), body)


def _find(name: str, t: Type) -> str:
    section = _sections().get((name, t.element, t.lanes > 1))
    if section is None:
        raise InternalError(f"the C library has no {name} for {t.name}")
    comment, marks, storage, result, parameters, body = section
    if not result:
        return f"{comment}{body}\n"
    if body.startswith("= "):
        body = f"{{ return {body[2:]}; }}"
    if "lanewise" in marks and t.lanes > 1:
        storage = "static"
        body = f"{{ T r; for (int j = 0; j < L; j++) r[j] = {name}@E({section.each('{}[j]')}); return r; }}"
    elif ("halved" in marks and t.lanes > _HALVED) or ("fitted" in marks and t.lanes * t.bits > _FITTED):
        low, high = section.half(name, "low"), section.half(name, "high")
        body = f"{{ {low}; {high}; }}" if result == "void" else f"{{ return join@{result}({low}, {high}); }}"
    elif "widened" in marks and t.element == "f32":
        body = f"{{ return CONVERT({name}@D({section.each('CONVERT({}, D)')}), T); }}"
    return f"{comment}{storage} {result} {name}@{parameters} {body}\n"
