"""A module as something to call."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from smelt import runtime
from smelt.dtypes import DType
from smelt.errors import ArgumentError, ParseError, ShapeError, SmeltError, UnsupportedOp
from smelt.formats import mlir
from smelt.formats.mlir import LIMITS, Limits, Module, Ranked
from smelt.formats.stablehlo import types
from smelt.formats.stablehlo.reader import SPECIFICATION, Assertion, Reading, Rules, UnknownSize
from smelt.formats.stablehlo.rows import stand_in
from smelt.formats.stablehlo.table import ROWS
from smelt.formats.stablehlo.unknown import parsed
from smelt.graph import Dim, Index, IndexLike, Node, Op, Shape, checked_shape, pairs, product_of, remade, topological
from smelt.runtime import Storage, set_constant
from smelt.tensor import Tensor, node_of, random, wrap


class Typed(NamedTuple):
    """The type of an argument or a result."""

    name: str
    dtype: DType | None
    shape: tuple[IndexLike | None, ...]

    def __str__(self) -> str:
        sizes = ", ".join("?" if size is None else str(size) for size in self.shape)
        return f"{self.name}: {self.dtype}[{sizes}]".removeprefix(": ")


class Signature(NamedTuple):
    """What a program takes and gives."""

    arguments: tuple[Typed, ...]
    results: tuple[Typed, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.arguments))}) -> ({', '.join(map(str, self.results))})"


# The elements of arguments by whose values sizes are known, in row-major order.
Numbers = tuple[tuple[int, tuple[IndexLike, ...]], ...]


class _Graph(NamedTuple):
    """A program for some shapes."""

    stand_ins: list[Node]
    roots: list[Node]
    assertions: list[Assertion]  # about dims


class Imported:
    """A program that was read. Called with tensors or arrays it gives a tensor, or a tuple of several; it is an
    ordinary function for `jit`, `grad` and `vmap`.
    """

    what_may_change = None

    def __init__(self, module: Module, name: str, rules: Rules, limits: Limits) -> None:
        self.module, self.name, self.rules, self.limits = module, name, rules, limits
        self._graphs: dict[tuple[tuple[Shape, ...], Numbers], _Graph] = {}
        self._numbers: set[int] = set()  # arguments whose values are sizes

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

    def __call__(self, *args: Any, **named: Any) -> Any:
        arguments = self.signature.arguments
        if named:
            raise ArgumentError(
                f"{self.name}: {', '.join(named)} given by name",
                rule="a program takes its arguments by place.",
                hint=f"They are: {', '.join(map(str, arguments)) or 'none'}.",
            )
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
        graph = self._of(nodes)
        for assertion in graph.assertions:
            runtime.assert_sizes(assertion.check)
        nodes += [random.bits((2,))._node for _ in graph.stand_ins[len(nodes) :]]
        given = zip(pairs.all_parts(graph.stand_ins), pairs.all_parts(nodes), strict=True)
        results = [wrap(node) for node in remade(graph.roots, dict(given))]
        return results[0] if len(results) == 1 else tuple(results)

    def check(self, *shapes: Any) -> list[Tensor]:
        """Read the whole program for arguments of these shapes, or of those that it declares, and compute nothing:
        whatever does not fit is an error that says where. Sizes may be a `Dim`, as open sizes with declared bounds are
        unless others are given; in the place of a scalar's shape may stand its value. The results, which only have
        types.
        """
        graph = self._graph(*self._asked(shapes))
        return [wrap(node) for node in graph.roots]

    def mistakes(self, *shapes: Any) -> list[SmeltError]:
        """All that is wrong with the program, for arguments as `check` takes them; nothing if it is right. After an
        operation that is wrong, its results are taken to be what it declares.
        """
        asked = self._asked(shapes)
        try:
            self._graph(*asked)
        except SmeltError as first:
            found: list[SmeltError] = []
            with contextlib.suppress(SmeltError):  # what is wrong with the arguments, or one mistake too many
                self.read(*asked, found)
            return found if str(first.told) in [str(error.told) for error in found] else [first, *found]
        return []

    def _asked(self, shapes: Sequence[Any]) -> tuple[tuple[Shape, ...], Numbers]:
        """Shapes of arguments, and the values of those that stand in the place of shapes."""
        declared = self.signature.arguments
        values = {k: (shape,) for k, shape in enumerate(shapes) if isinstance(shape, int | Index)}
        given: list[Any] = [() if k in values else tuple(shape) for k, shape in enumerate(shapes)]
        given = given or [_declared(argument) for argument in self.module.functions[self.name].arguments]
        if len(given) != len(declared):
            raise ArgumentError(f"{self.name}: {len(given)} shapes are given", rule=f"it takes {len(declared)}.")
        for argument, shape in zip(declared, given, strict=True):
            if None in shape:
                raise ShapeError(f"{self.name}: the sizes of {argument} are not known", hint="Give all shapes.")
        return tuple(checked_shape(shape, self.name) for shape in given), tuple(values.items())

    def graph(self) -> list[Node]:
        """The roots of the graph for the declared shapes."""
        return [tensor._node for tensor in self.check()]

    def _of(self, nodes: list[Node]) -> _Graph:
        """The program for arguments. Values are only looked at where sizes depend on them."""
        shapes = tuple(node.shape for node in nodes)
        while True:
            try:
                return self._graph(shapes, tuple((k, _elements(nodes[k])) for k in sorted(self._numbers)))
            except UnknownSize as error:
                more = {k for k in error.arguments if _are_there(nodes[k])} - self._numbers
                if not more:
                    raise
                self._numbers |= more

    def _graph(self, shapes: tuple[Shape, ...], numbers: Numbers = ()) -> _Graph:
        known = self._graphs.get((shapes, numbers))
        if known is None:
            known = self._graphs[shapes, numbers] = self.read(shapes, numbers)
        return known

    @mlir.kept()
    def read(self, shapes: Sequence[Shape], numbers: Numbers = (), mistakes: list[SmeltError] | None = None) -> _Graph:
        """Stand-ins for arguments of these shapes and for random keys, and what the program makes of them. Where there
        is a list for mistakes, all are put there, and what the program makes does not count.
        """
        stand_ins = []
        for argument, shape in zip(self.module.functions[self.name].arguments, shapes, strict=True):
            dtype = self._dtype(argument.type)
            stand_ins.append(stand_in(dtype, shape))
        reading = Reading(self.module, ROWS, self.rules, self.limits)
        reading.mistakes = mistakes
        reading.given.update({node: k for k, node in enumerate(stand_ins)})
        for k, values in numbers:
            reading.entries.note(stand_ins[k], np.array([*values, None], object)[:-1].reshape(shapes[k]))
        roots = reading.function(self.name, stand_ins)
        if mistakes is not None:
            return _Graph([], [], [])
        for k, root in enumerate(roots):
            if not isinstance(root, Node):
                at = mlir.place(self.module.text, self.module.functions[self.name].at)
                raise ParseError(f"{at}: {self.name}: result {k} is no tensor")
        for node in topological(roots, through_leaves=True):
            if node.op is Op.LEAF and isinstance(node.attribute, Storage):
                set_constant(node.attribute)
        return _Graph([*stand_ins, *reading.keys], roots, reading.assertions)

    def _dtype(self, kind: mlir.Type) -> DType:
        """The dtype of an argument, which must be one that smelt has."""
        dtype = types.dtype_of(kind.element) if isinstance(kind, Ranked) else None
        if dtype is None:
            at = mlir.place(self.module.text, self.module.functions[self.name].at)
            message = f"{at}: {self.name}: an argument is {kind}, which is not supported"
            raise UnsupportedOp(message, "func.func", at.line, at.column)
        return dtype


def _declared(argument: mlir.Argument) -> tuple[Any, ...]:
    """The shape of an argument; a size that is open and bounded is a dim."""
    kind = argument.type
    if not isinstance(kind, Ranked):
        return ()
    name = argument.name.removeprefix("%")
    return tuple(
        Dim(f"{name}_{axis}", 0, bound) if size is None and bound is not None else size
        for axis, (size, bound) in enumerate(zip(kind.sizes, types.bounds(kind), strict=True))
    )


_MOST = 64  # elements of an argument that may be sizes


def _are_there(node: Node) -> bool:
    """Whether the elements of an argument can be looked at now: there are few, and nothing has to be compiled."""
    small = node.dtype.is_integer and product_of(node.shape) in range(_MOST + 1)
    return small and (runtime.counted(node) is not None or not runtime.is_tracing())


def _elements(node: Node) -> tuple[IndexLike, ...]:
    size = runtime.counted(node)
    return (size,) if size is not None else tuple(int(n) for n in wrap(node).numpy().reshape(-1))


def _scalar(value: Any, argument: Typed) -> Any:
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
    is_path = isinstance(text, str) and "\n" not in text and text.endswith((".mlir", ".mlirbc", ".txt"))
    if is_path or isinstance(text, PathLike):
        raise ArgumentError(f"load: {text!r:.80} is a path", hint="Read its text: Path(path).read_text().")
    if not isinstance(text, str):
        raise ArgumentError(
            f"load: the text is of type {type(text).__name__}",
            hint="What jax.jit(f).lower(x) gives has a text: .as_text()."
            if hasattr(text, "as_text")
            else "Decode bytes of a text; what MLIR has written as bytecode it has to print as text.",
        )
    if not isinstance(rules, Rules):
        raise ArgumentError(f"load: {rules!r:.40} are no rules", rule="there are SPECIFICATION and XLA.")
    module = parsed(text, limits)
    chosen = name or ("main" if "main" in module.functions else "")
    if not chosen and module.functions:
        public = [f.name for f in module.functions.values() if f.visibility != "private"]
        chosen = (public or list(module.functions))[0]
    if chosen not in module.functions:
        at = mlir.place(text, len(text))
        raise ParseError(f"{at}: the text has no function {chosen!r}" if chosen else f"{at}: the text has no function")
    return Imported(module, chosen, rules, limits)
