"""A module as something to call."""

from __future__ import annotations

from typing import Any, NamedTuple

from smelt.dtypes import DType
from smelt.errors import ArgumentError, ParseError, ShapeError, UnsupportedOp
from smelt.formats import mlir
from smelt.formats.mlir import LIMITS, Limits, Module, Ranked
from smelt.formats.stablehlo import types
from smelt.formats.stablehlo.reader import SPECIFICATION, Reading, Rules
from smelt.formats.stablehlo.rows import stand_in
from smelt.formats.stablehlo.table import ROWS
from smelt.graph import Node, Shape, checked_shape, pairs, substituted
from smelt.tensor import Tensor, node_of, wrap


class Typed(NamedTuple):
    """The type of an argument or a result."""

    name: str
    dtype: DType | None
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype}[{sizes}]".removeprefix(": ")


class Signature(NamedTuple):
    """What a program takes and gives."""

    arguments: tuple[Typed, ...]
    results: tuple[Typed, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.arguments))}) -> ({', '.join(map(str, self.results))})"


class Imported:
    """A program that was read. Called with tensors or arrays it gives a tensor, or a tuple of several; it is an
    ordinary function for `jit`, `grad` and `vmap`.
    """

    def __init__(self, module: Module, name: str, rules: Rules, limits: Limits) -> None:
        self.module, self.name, self.rules, self.limits = module, name, rules, limits
        self._graphs: dict[tuple[Shape, ...], tuple[list[Node], list[Node]]] = {}

    @property
    def signature(self) -> Signature:
        """The types of the arguments and of the results."""
        function = self.module.functions[self.name]
        return Signature(
            tuple(_typed(argument.name.removeprefix("%"), argument.type) for argument in function.arguments),
            tuple(_typed("", kind) for kind, _ in function.results),
        )

    def __repr__(self) -> str:
        return f"<program {self.name}{self.signature}>"

    def __call__(self, *args: Any) -> Any:
        arguments = self.signature.arguments
        if len(args) != len(arguments):
            raise ArgumentError(f"{self.name}: {len(args)} arguments are given", rule=f"it takes {len(arguments)}.")
        nodes = []
        for k, (argument, value) in enumerate(zip(arguments, args, strict=True)):
            if argument.dtype is None:
                self._dtype(self.module.functions[self.name].arguments[k].type)
            node = node_of(value, self.name)
            if node.dtype is not argument.dtype and not isinstance(value, bool | int | float | complex):
                raise ArgumentError(f"{self.name}: {argument.name} is {node.dtype}", rule=f"it takes {argument}.")
            nodes.append(node if node.dtype is argument.dtype else node_of(_scalar(value, argument), self.name))
        stand_ins, roots = self._graph(tuple(node.shape for node in nodes))
        given = zip(pairs.all_parts(stand_ins), pairs.all_parts(nodes), strict=True)
        results = [wrap(node) for node in substituted(roots, dict(given))]
        return results[0] if len(results) == 1 else tuple(results)

    def check(self, *shapes: Any) -> list[Tensor]:
        """Read the whole program for arguments of these shapes, or of those that it declares, and compute nothing:
        whatever does not fit is an error that says where. The results, which only have types.
        """
        declared = self.signature.arguments
        given = [argument.shape for argument in declared] if not shapes else [tuple(shape) for shape in shapes]
        if len(given) != len(declared):
            raise ArgumentError(f"{self.name}: {len(given)} shapes are given", rule=f"it takes {len(declared)}.")
        for argument, shape in zip(declared, given, strict=True):
            if None in shape:
                raise ShapeError(f"{self.name}: the sizes of {argument} are not known", hint="Give all shapes.")
        _, roots = self._graph(tuple(checked_shape(shape, self.name) for shape in given))
        return [wrap(node) for node in roots]

    def graph(self) -> list[Node]:
        """The roots of the graph for the declared shapes."""
        return [tensor._node for tensor in self.check()]

    def _graph(self, shapes: tuple[Shape, ...]) -> tuple[list[Node], list[Node]]:
        """Stand-ins for arguments of these shapes, and what the program makes of them."""
        known = self._graphs.get(shapes)
        if known is not None:
            return known
        stand_ins = []
        for argument, shape in zip(self.module.functions[self.name].arguments, shapes, strict=True):
            dtype = self._dtype(argument.type)
            stand_ins.append(stand_in(dtype, shape))
        reading = Reading(self.module, ROWS, self.rules, self.limits)
        roots = reading.function(self.name, stand_ins)
        for k, root in enumerate(roots):
            if not isinstance(root, Node):
                at = mlir.place(self.module.text, self.module.functions[self.name].at)
                raise ParseError(f"{at}: {self.name}: result {k} is no tensor")
        self._graphs[shapes] = stand_ins, roots
        return stand_ins, roots

    def _dtype(self, kind: mlir.Type) -> DType:
        """The dtype of an argument, which must be one that smelt has."""
        dtype = types.dtype_of(kind.element) if isinstance(kind, Ranked) else None
        if dtype is None:
            at = mlir.place(self.module.text, self.module.functions[self.name].at)
            message = f"{at}: {self.name}: an argument is {kind}, which is not supported"
            raise UnsupportedOp(message, "func.func", at.line, at.column)
        return dtype


def _scalar(value: Any, argument: Typed) -> Any:
    import numpy as np

    assert argument.dtype is not None
    return np.asarray(value, argument.dtype.numpy)


def _typed(name: str, kind: mlir.Type) -> Typed:
    if isinstance(kind, Ranked):
        return Typed(name, types.dtype_of(kind.element), kind.sizes)
    return Typed(name, None, ())


def load(text: str, *, name: str = "", rules: Rules = SPECIFICATION, limits: Limits = LIMITS) -> Imported:
    """The program that a text describes: its function `main`, its only function, or that of a name.

    >>> program = sm.stablehlo.load('''func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
    ...   %0 = stablehlo.add %x, %x : tensor<2xf32>
    ...   return %0 : tensor<2xf32>
    ... }''')
    >>> program(sm.asarray([1.0, 2.0])).tolist()
    [2.0, 4.0]
    """
    module = mlir.parse(text, limits)
    chosen = name or ("main" if "main" in module.functions else "")
    if not chosen and module.functions:
        public = [f.name for f in module.functions.values() if f.visibility != "private"]
        chosen = (public or list(module.functions))[0]
    if chosen not in module.functions:
        raise ParseError(f"the text has no function {chosen!r}" if chosen else "the text has no function")
    return Imported(module, chosen, rules, limits)
