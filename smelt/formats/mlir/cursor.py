"""Where reading stands among the tokens, and the types and attributes that stand there."""

from __future__ import annotations

import re
import time
from typing import Any, Final, NoReturn

from smelt.errors import ParseError
from smelt.formats.mlir import dense
from smelt.formats.mlir.lex import tokens, wrong
from smelt.formats.mlir.limits import Limits
from smelt.formats.mlir.tree import (
    Array,
    Attribute,
    Coded,
    Dense,
    FunctionType,
    Opaque,
    Ranked,
    Resource,
    Symbol,
    Tuple,
    Type,
    Typed,
)

_TENSOR: Final = re.compile(r"tensor<((?:(?:[0-9]{1,19}|\?)x)*+)([^,]+?)\s*(?:,\s*(.*))?>", re.DOTALL)
_NUMBER: Final = re.compile(r"-?[0-9]")
_ESCAPE: Final = re.compile(r"\\(?:([0-9A-Fa-f]{2})|(.))")
_WORD: Final = re.compile(r"[A-Za-z_]")
_KNOWN_ESCAPES: Final = {"n": "\n", "t": "\t"}
_LONGEST_NUMBER = 400  # digits
_LOOKS = 1 << 12  # at the clock: one in so many operations
_SHORT = 24  # characters of a number that is remembered
_OPENING: Final = {"<": ">", "(": ")", "[": "]", "{": "}"}


class Cursor:
    """The tokens of a text, and the number of the next one."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text, self.limits = text, limits
        if len(text) > limits.characters:
            raise ParseError(f"the text has {len(text)} characters", rule=f"at most {limits.characters} are read.")
        self.tokens = tokens(text)
        self.at = 0
        self.types: dict[str, Type] = {}  # by their text
        self.numbers: dict[tuple[str, Type], Dense] = {}  # constants of one short number, which come again and again
        self.aliases: dict[str, Attribute] = {}  # what #name and !name stand for
        self.lengths: dict[str, int] = {}  # in tokens, if aliases in them were written out
        self.written_out = 0  # tokens that aliases stood for
        self.depth = 0
        self.operations = 0
        self.end = time.monotonic() + limits.seconds

    # --- tokens

    @property
    def next(self) -> str:
        return self.tokens[self.at]

    def take(self) -> str:
        """The next token, which is past then. The end of the text is never past."""
        token = self.tokens[self.at]
        if token:
            self.at += 1
        return token

    def has(self, token: str) -> bool:
        """Whether this token comes next; then it is past."""
        if self.tokens[self.at] == token:
            self.at += 1
            return True
        return False

    def need(self, token: str) -> None:
        """Pass a token that must come next."""
        if self.tokens[self.at] != token:
            self.expected(repr(token))
        self.at += 1

    def word(self, what: str = "a name") -> str:
        """A name that must come next."""
        if not _WORD.match(self.next):
            self.expected(what)
        return self.take()

    def value(self) -> str:
        """The name of a value that must come next."""
        if not self.next.startswith("%"):
            self.expected("a value such as %0")
        return self.take()

    def expected(self, what: str) -> NoReturn:
        """Say what should have come next."""
        found = f"{self.next:.60}" if self.next else "the end of the text"
        raise wrong(self.text, self.at, f"{what} is expected here, not {found}")

    def fail(self, message: str, rule: str = "", at: int | None = None) -> NoReturn:
        """Say what is wrong with a token: the next one, unless another is named."""
        raise wrong(self.text, self.at if at is None else at, message, rule)

    def deeper(self) -> None:
        """Note that something begins inside of something."""
        self.depth += 1
        if self.depth > self.limits.depth:
            self.fail("this is nested too deeply", f"at most {self.limits.depth} levels are read.")

    def define(self, name: str) -> None:
        """Let a name stand for the type or attribute that comes next."""
        start = self.at + self.written_out
        self.aliases[name] = self.type() if name.startswith("!") else self.attribute()
        self.lengths[name] = self.at + self.written_out - start

    def defined(self, name: str) -> Attribute:
        """What the name that was just passed stands for. Names in what others stand for multiply."""
        self.written_out += self.lengths[name]
        if self.written_out > self.limits.aliased:
            rule = f"at most {self.limits.aliased} words and brackets are read in their places."
            self.fail("aliases stand for too much", rule, self.at - 1)
        return self.aliases[name]

    def count(self) -> None:
        """Note one more operation."""
        self.operations += 1
        if self.operations > self.limits.operations:
            self.fail("there are too many operations", f"at most {self.limits.operations} are read.")
        if not self.operations % _LOOKS and time.monotonic() > self.end:
            self.fail("reading takes too long", f"at most {self.limits.seconds:g} seconds are spent on a text.")

    def skip(self) -> tuple[str, ...]:
        """What stands in the brackets that come next, as it is."""
        start, waiting = self.at + 1, [_OPENING[self.take()]]
        while waiting:
            token = self.take()
            if not token:
                self.expected(repr(waiting[-1]))
            elif token == waiting[-1]:
                waiting.pop()
            elif token in _OPENING:
                waiting.append(_OPENING[token])
        return tuple(self.tokens[start : self.at - 1])

    def location(self) -> None:
        """Pass `loc(…)`, if it comes next: where somebody's program came from is not kept."""
        if self.next == "loc" and self.tokens[self.at + 1] == "(":
            self.at += 1
            self.skip()

    # --- types

    def type(self) -> Type:
        """A type."""
        token = self.take()
        known = self.types.get(token)
        if known is None:
            known = self._type(token)
            if token.startswith("tensor<"):
                self.types[token] = known
        return known

    def _type(self, token: str) -> Type:
        if token.startswith("tensor<"):
            return self._tensor(token)
        if token == "(":
            self.at -= 1
            return self._function_type()
        if token == "tuple" and self.next == "<":
            self.deeper()
            self.at += 1
            parts = [] if self.next == ">" else [self.type()]
            while self.has(","):
                parts.append(self.type())
            self.need(">")
            self.depth -= 1
            return Tuple(tuple(parts))
        if token == "tensor":  # its brackets would be a part of the token
            self.fail("the brackets of a type do not fit together", at=self.at - 1)
        if token.startswith("!") or _WORD.match(token):
            if token in self.aliases and isinstance(self.aliases[token], Ranked | Tuple | FunctionType | Opaque):
                found: Type = self.defined(token)
                return found
            return Opaque(f"{token}<{' '.join(self.skip())}>" if self.next == "<" else token)
        self.at -= bool(token)
        self.expected("a type")

    def _tensor(self, token: str) -> Ranked:
        match = _TENSOR.fullmatch(token)
        if match is None:
            self.fail(f"{token:.80} is no type of a tensor", "write it as in tensor<2x3xf32>.", self.at - 1)
        sizes = tuple(None if size == "?" else int(size) for size in match[1].split("x")[:-1])
        elements = 1
        for size in sizes:
            elements *= max(size or 1, 1)
        if len(sizes) > self.limits.axes or elements > self.limits.elements:
            rule = f"types have at most {self.limits.axes} axes and {self.limits.elements} elements."
            self.fail(f"{token:.80} is too large", rule, self.at - 1)
        return Ranked(sizes, match[2], match[3] or "")

    def _function_type(self) -> FunctionType:
        arguments = self.types_in_brackets()
        self.need("->")
        return FunctionType(arguments, self.result_types())

    def types_in_brackets(self) -> tuple[Type, ...]:
        """`(type, …)`."""
        self.deeper()
        self.need("(")
        found: list[Type] = []
        while self.next != ")":
            found.append(self.type())
            if self.next != ")":
                self.need(",")
        self.at += 1
        self.depth -= 1
        return tuple(found)

    def result_types(self) -> tuple[Type, ...]:
        """What stands behind an arrow."""
        return self.types_in_brackets() if self.next == "(" else (self.type(),)

    # --- attributes

    def attributes(self, close: str = "}") -> dict[str, Attribute]:
        """`{name = attribute, name, …}`, or with other brackets; the opening one is past."""
        found: dict[str, Attribute] = {}
        self.deeper()
        while self.next != close:
            name = self.string() if self.next.startswith('"') else self.word("the name of an attribute")
            found[name] = self.attribute() if self.has("=") else None
            if self.next != close:
                self.need(",")
        self.at += 1
        self.depth -= 1
        return found

    def attribute(self) -> Attribute:
        """The value of an attribute."""
        token = self.next
        self.deeper()
        rule = _ATTRIBUTES.get(token)
        if rule is not None:
            self.at += 1
            found = rule(self)
        elif _NUMBER.match(token):
            found = self._number()
        elif token.startswith('"'):
            found = self.string()
            if self.has(":"):
                self.type()
        elif token.startswith("@"):
            found = self.symbol()
        elif token.startswith("#"):
            found = self._coded()
        else:
            found = self.type()
        self.depth -= 1
        return found

    def string(self) -> str:
        """A string in quotes."""
        if len(self.next) < 2 or self.next[0] != '"' or self.next[-1] != '"':
            self.expected("a string in quotes")
        return text_of(self.take())

    def symbol(self) -> Symbol:
        """`@name`."""
        if not self.next.startswith("@"):
            self.expected("a symbol such as @main")
        name = symbol_name(self.take())
        while self.next == "::" and self.tokens[self.at + 1].startswith("@"):
            self.at += 1
            name += "::" + symbol_name(self.take())
        return Symbol(name)

    def integer(self) -> int:
        """A whole number."""
        token = self.next
        if not _NUMBER.match(token) or len(token) > _LONGEST_NUMBER:
            self.expected("a whole number")
        try:
            number = int(token, 16 if "0x" in token else 10)
        except ValueError:
            self.expected("a whole number")
        self.at += 1
        return number

    def integers(self) -> tuple[int, ...]:
        """`[1, 2]`."""
        self.need("[")
        found: list[int] = []
        while self.next != "]":
            found.append(self.integer())
            if self.next != "]":
                self.need(",")
        self.at += 1
        return tuple(found)

    def _number(self) -> Attribute:
        token = self.take()
        if len(token) > _LONGEST_NUMBER:
            self.fail("a number has too many digits", at=self.at - 1)
        typed = self.type() if self.has(":") else None
        if "0x" in token:
            value: int | float = int(token, 16)
            if isinstance(typed, Opaque):
                try:
                    value = dense.float_of_bits(int(value), typed.text)
                except ValueError as error:
                    self.fail(str(error), at=self.at - 1)
        else:
            value = float(token) if set(token) & set(".eE") else int(token)
        return value if typed is None else Typed(value, typed)

    def listed(self) -> tuple[Attribute, ...]:
        """The rest of `[attribute, …]`."""
        found: list[Attribute] = []
        while self.next != "]":
            found.append(self.attribute())
            if self.next != "]":
                self.need(",")
        self.at += 1
        return tuple(found)

    def _coded(self) -> Attribute:
        name = self.take()
        if self.next != "<":
            return self.defined(name) if name in self.aliases else Coded(name)
        self.at += 1
        return self.coded(name)

    def coded(self, name: str) -> Coded:
        """The rest of `#name<…>`, behind the opening bracket."""
        if self.next == ">" or (_WORD.match(self.next) and self.tokens[self.at + 1] == "="):
            return Coded(name, tuple(self.attributes(">").items()))
        self.at -= 1
        return Coded(name, (), self.skip())

    def coded_words(self, name: str) -> Coded:
        """The rest of `name<…>` whose words are kept as they are."""
        if self.next != "<":
            self.expected("'<'")
        return Coded(name, (), self.skip())

    def array(self) -> Attribute:
        """The rest of `array<i64: 1, 2>`."""
        self.need("<")
        element = self.word("an element type")
        values: list[Any] = []
        if self.has(":"):
            while self.next != ">":
                value = self.attribute()
                if not isinstance(value, bool | int | float):
                    self.fail("an array has numbers only", at=self.at - 1)
                values.append(value)
                if self.next != ">":
                    self.need(",")
        self.need(">")
        return Array(element, tuple(values))

    def dense(self) -> Attribute:
        """The rest of `dense<…> : type`."""
        self.need("<")
        start = self.at
        try:
            self.at = self.tokens.index(">", start)
        except ValueError:
            self.fail("dense<…> does not end", at=start)
        inside = self.tokens[start : self.at]
        self.at += 1
        self.need(":")
        kind = self.type()
        if not isinstance(kind, Ranked) or None in kind.sizes:
            self.fail(f"{kind} is not the type of a constant", "constants are tensors with known sizes.", self.at - 1)
        number = inside[0] if len(inside) == 1 and len(inside[0]) <= _SHORT else ""
        known = self.numbers.get((number, kind)) if number else None
        if known is not None:
            return known
        try:
            found = dense.read(inside, kind)
        except ValueError as error:
            self.fail(str(error), at=start)
        if number:
            self.numbers[number, kind] = found
        return found

    def resource(self) -> Attribute:
        """The rest of `dense_resource<key> : type`."""
        self.need("<")
        key = self.string() if self.next.startswith('"') else self.word()
        self.need(">")
        self.need(":")
        return Resource(key, self.type())


def text_of(token: str) -> str:
    """What a string in quotes says."""
    inside = token[1:-1]
    if "\\" not in inside:
        return inside
    return _ESCAPE.sub(lambda m: chr(int(m[1], 16)) if m[1] else _KNOWN_ESCAPES.get(m[2], m[2]), inside)


def symbol_name(token: str) -> str:
    """The name behind an @."""
    return text_of(token[1:]) if token[1:2] == '"' else token[1:]


_ATTRIBUTES: Final[dict[str, Any]] = {
    "true": lambda c: True,
    "false": lambda c: False,
    "unit": lambda c: None,
    "[": Cursor.listed,
    "{": Cursor.attributes,
    "<": lambda c: c.coded(""),
    "affine_map": lambda c: c.coded_words("affine_map"),
    "dense": Cursor.dense,
    "dense_resource": Cursor.resource,
    "array": Cursor.array,
}
