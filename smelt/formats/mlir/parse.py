"""Tokens to a module: functions, regions, and operations in their generic form."""

from __future__ import annotations

import re
from typing import Final

from smelt.formats.mlir import pretty
from smelt.formats.mlir.cursor import Cursor
from smelt.formats.mlir.garbage import kept
from smelt.formats.mlir.limits import LIMITS, Limits
from smelt.formats.mlir.tree import (
    Argument,
    Attribute,
    Block,
    Function,
    FunctionType,
    Module,
    Operation,
    Region,
    Symbol,
    Type,
)

_NAME: Final = re.compile(r'[A-Za-z_"]')
_VISIBLE: Final = frozenset({"public", "private", "nested"})


def parse(text: str, limits: Limits = LIMITS) -> Module:
    """The module that a text describes, in generic or in pretty form, or in both; ParseError says where it ends to be
    one.
    """
    if not isinstance(text, str):
        raise TypeError(f"the text of a module is a str, not {type(text).__name__}")
    return Parser(text, limits).module()


class Parser(Cursor):
    """A cursor that reads operations. `begun` is the number of the token that names the last one."""

    begun = -1  # none yet: the token at the end, which is empty

    # --- the module

    @kept()
    def module(self) -> Module:
        """The whole text."""
        found = Module("", {}, [], {}, {}, self.text)
        while self.next:
            if self.next[0] in "#!" and self.tokens[self.at + 1] == "=":
                self._alias()
            elif self.next == "module":
                self.at += 1
                self._module(found)
            elif self.next == "{-#":
                self._resources(found)
            else:
                self._item(found)
        return found

    def _alias(self) -> None:
        """`#name = attribute` or `!name = type`. Places in somebody's program are not kept."""
        name = self.take()
        self.at += 1
        if self.next == "loc":
            self.location()
        else:
            self.define(name)

    def _module(self, found: Module) -> None:
        if self.next.startswith("@"):
            found.name = self.symbol().name
        if self.has("attributes"):
            self.need("{")
            found.attributes.update(self.attributes())
        self.need("{")
        while not self.has("}"):
            self._item(found)
        self.location()

    def _item(self, found: Module) -> None:
        """One function, or whatever else stands in a module."""
        at, self.begun = self.at, -1
        if self.next == "func.func":
            self.at += 1
            self._add(found, self._function(at))
            return
        operation = self.operation()
        if operation.name == "builtin.module":
            found.name = str(operation.attributes.pop("sym_name", ""))
            found.attributes.update(operation.attributes)
            for inner in self._only_block(operation).operations:
                self._place(found, inner)
        else:
            self._place(found, operation)

    def _place(self, found: Module, operation: Operation) -> None:
        if operation.name == "func.func":
            self._add(found, self._function_of(operation))
        else:
            found.others.append(operation)

    def _add(self, found: Module, function: Function) -> None:
        if function.name in found.functions:
            self.fail(f"there are two functions called {function.name}", at=function.at)
        found.functions[function.name] = function

    def _only_block(self, operation: Operation) -> Block:
        if len(operation.regions) != 1 or len(operation.regions[0].blocks) != 1:
            self.fail(f"{operation.name} has one region with one block", at=operation.at)
        return operation.regions[0].blocks[0]

    def _resources(self, found: Module) -> None:
        """`{-# dialect_resources: { builtin: { key: "0x…" } } #-}`; four bytes before each are its alignment."""
        self.at += 1
        self._section(found, 0)
        self.need("#-}")

    def _section(self, found: Module, depth: int) -> None:
        while self.next not in ("}", "#-}"):
            key = self.string() if self.next.startswith('"') else self.word()
            self.need(":")
            if self.has("{"):
                self.deeper()
                self._section(found, depth + 1)
                self.need("}")
                self.depth -= 1
            else:
                try:
                    found.resources[key] = bytes.fromhex(self.string()[2:])[4:]
                except ValueError:
                    self.fail(f"the resource {key} is not in hexadecimal", at=self.at - 1)
            self.has(",")

    # --- functions

    def _function(self, at: int) -> Function:
        """The rest of `func.func @name(…) -> … {…}`."""
        visibility = self.take() if self.next in _VISIBLE else ""
        name = self.symbol().name
        arguments = self.arguments()
        results = self._results() if self.has("->") else []
        attributes: dict[str, Attribute] = {}
        if self.has("attributes"):
            self.need("{")
            attributes = self.attributes()
        body = self.region(arguments) if self.next == "{" else None
        self.location()
        return Function(name, arguments, results, body, attributes, visibility, at)

    def _function_of(self, operation: Operation) -> Function:
        """A function that is written in generic form."""
        name, kind = operation.attributes.pop("sym_name", None), operation.attributes.pop("function_type", None)
        if not isinstance(name, str) or not isinstance(kind, FunctionType) or len(operation.regions) != 1:
            self.fail("a function has a name, a type and a body", at=operation.at)
        given = operation.attributes.pop("arg_attrs", ()), operation.attributes.pop("res_attrs", ())
        (inner, outer) = (each if isinstance(each, tuple) else () for each in given)
        body = operation.regions[0] if operation.regions[0].blocks else None
        known = [] if body is None else body.blocks[0].arguments
        arguments = [
            Argument(known[k].name if k < len(known) else f"%arg{k}", type_, _dictionary(inner, k))
            for k, type_ in enumerate(kind.arguments)
        ]
        if body is not None and len(known) != len(arguments):
            self.fail(f"{name} has {len(arguments)} arguments, and its body has {len(known)}", at=operation.at)
        if body is not None:
            body.blocks[0].arguments = arguments
        results = [(type_, _dictionary(outer, k)) for k, type_ in enumerate(kind.results)]
        visibility = str(operation.attributes.pop("sym_visibility", ""))
        return Function(name, arguments, results, body, operation.attributes, visibility, operation.at)

    def arguments(self) -> list[Argument]:
        """`(%a: type {…}, …)`; of a declaration, the types alone."""
        found: list[Argument] = []
        self.need("(")
        while self.next != ")":
            name = f"%arg{len(found)}"
            if self.next.startswith("%"):
                name = self.take()
                self.need(":")
            kind = self.type()
            found.append(Argument(name, kind, self.attributes() if self.has("{") else {}))
            self.location()
            if self.next != ")":
                self.need(",")
        self.at += 1
        return found

    def _results(self) -> list[tuple[Type, dict[str, Attribute]]]:
        if self.next != "(":
            return [(self.type(), {})]
        self.at += 1
        found: list[tuple[Type, dict[str, Attribute]]] = []
        while self.next != ")":
            kind = self.type()
            found.append((kind, self.attributes() if self.has("{") else {}))
            if self.next != ")":
                self.need(",")
        self.at += 1
        return found

    # --- regions and operations

    def region(self, arguments: list[Argument]) -> Region:
        """`{…}`; the first block has these arguments unless it names its own."""
        self.need("{")
        self.deeper()
        blocks: list[Block] = []
        while not self.has("}"):
            if self.next.startswith("^"):
                self.at += 1
                arguments = self.arguments() if self.next == "(" else []
                self.need(":")
            operations: list[Operation] = []
            while self.next != "}" and not self.next.startswith("^"):
                operations.append(self.operation())
            blocks.append(Block(arguments, operations))
            arguments = []
        self.depth -= 1
        return Region(blocks or [Block(arguments, [])])

    def operation(self) -> Operation:
        """One operation."""
        self.count()
        results: list[str] = []
        if self.next.startswith("%"):
            results = self._names()
        if not _NAME.match(self.next):
            self.expected("an operation")
        at = self.begun = self.at
        if self.next.startswith('"'):
            found = self._generic(self.string(), results, at)
        else:
            found = pretty.operation(self, self.take(), results, at)
        if len(found.types) != len(results) and results:
            self.fail(f"{found.name} has {len(found.types)} results, and {len(results)} names", at=at)
        self.location()
        return found

    def _names(self) -> list[str]:
        """`%0 =`, `%0:2 =` or `%a, %b =`."""
        if self.tokens[self.at + 1] == "=":
            self.at += 2
            return [self.tokens[self.at - 2]]
        found: list[str] = []
        while True:
            name = self.value()
            if self.has(":"):
                count = self.integer()
                if not 0 <= count <= self.limits.operations - len(found) or "#" in name:
                    self.fail(f"{name} cannot be {count} values", at=self.at - 1)
                found += [f"{name}#{k}" for k in range(count)]
            else:
                found.append(name)
            if not self.has(","):
                break
        self.need("=")
        return found

    def _generic(self, name: str, results: list[str], at: int) -> Operation:
        """The rest of `"name"(%0) <{…}> ({…}) {…} : (…) -> …`."""
        found = Operation(name, results, [], {}, [], (), (), at)
        self.need("(")
        while self.next != ")":
            found.operands.append(self.value())
            if self.next != ")":
                self.need(",")
        self.at += 1
        if self.next == "<" and self.tokens[self.at + 1] == "{":
            self.at += 2
            found.attributes.update(self.attributes())
            self.need(">")
        if self.has("("):
            while self.next != ")":
                found.regions.append(self.region([]) if self.tokens[self.at + 1] != "}" else self._empty())
                if self.next != ")":
                    self.need(",")
            self.at += 1
        if self.has("{"):
            found.attributes.update(self.attributes())
        self.need(":")
        kind = self.type()
        if not isinstance(kind, FunctionType) or len(kind.arguments) != len(found.operands):
            self.fail(f"{name} has {len(found.operands)} operands, and its type is {kind}", at=at)
        found.operand_types, found.types = kind
        symbol = found.attributes.get("sym_name")
        if isinstance(symbol, Symbol):
            found.attributes["sym_name"] = symbol.name
        return found

    def _empty(self) -> Region:
        self.at += 2
        return Region([])


def _dictionary(given: tuple[Attribute, ...], k: int) -> dict[str, Attribute]:
    return given[k] if k < len(given) and isinstance(given[k], dict) else {}
