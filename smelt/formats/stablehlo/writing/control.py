"""Loops and branches: bodies are functions of the module, which `while` and `if` call."""

from __future__ import annotations

from collections.abc import Sequence

from smelt.dtypes import DType, complex_dtype, int64
from smelt.errors import UnsupportedOp
from smelt.formats.mlir import Attribute
from smelt.formats.stablehlo.writing.body import Body, Value, integers, number
from smelt.graph import Loop, Named, Node, Shape, host_name, parameter_types, value_types

Type = tuple[DType, Shape]


def _types(values: Sequence[Value]) -> list[Type]:
    return [(x.dtype, x.shape) for x in values]


def loop(body: Body, node: Node, *sources: Value) -> list[Value]:
    """A counter, the states, and what is stacked: slices are read and written at the counter."""
    told: Loop = node.attribute
    states, constants = list(sources[: told.states]), list(sources[told.states : told.states + told.constants])
    xs = sources[told.states + told.constants :]
    stacked = value_types(told)[told.states :]
    if told.length == 0:  # a body would read and write rows of what has none
        return [*states, *(body.constant(0, dtype, shape) for dtype, shape in stacked)]
    given = parameter_types(node)
    step = body.program.function("body", told.body, given)
    if told.test is not None:
        return _while(body, node, states, constants, step)
    length = told.length
    assert length is not None
    buffers = [body.constant(0, dtype, shape) for dtype, shape in stacked]
    first, last = body.constant(0, int64), body.size(length)
    carried = [first, *states, *buffers]

    def test(inner: Body, at: Value, *_: Value) -> list[Value]:
        return [inner.compare("LT", at, last)]

    def following(inner: Body, at: Value, *now: Value) -> list[Value]:
        place = inner.binary("subtract", inner.size(length - 1), at) if told.reverse else at
        zero = inner.constant(0, int64)
        rows = [_row(inner, x, place, zero) for x in xs]
        results = inner.call(
            step, [*now[: told.states], *constants, *rows, place], [(x.dtype, x.shape) for x in told.body]
        )
        written = [
            _with_row(inner, buffer, y, place, zero)
            for buffer, y in zip(now[told.states :], results[told.states :], strict=True)
        ]
        return [inner.binary("add", at, inner.constant(1, int64)), *results[: told.states], *written]

    types = _types(carried)
    regions = [body.region(types, test), body.region(types, following)]
    return body.ops("while", carried, types, {}, regions)[1:]


def _row(body: Body, x: Value, at: Value, zero: Value) -> Value:
    shape = tuple(size for size in x.shape[1:] if isinstance(size, int))
    if len(shape) != x.rank - 1:
        raise UnsupportedOp("export: loop: rows whose sizes are not known", "loop", 0, 0)
    starts = [at, *[zero] * len(shape)]
    row = body.op("dynamic_slice", [x, *starts], x.dtype, (1, *shape), slice_sizes=integers([1, *shape]))
    return body.reshape(row, shape)


def _with_row(body: Body, x: Value, row: Value, at: Value, zero: Value) -> Value:
    starts = [at, *[zero] * row.rank]
    return body.op("dynamic_update_slice", [x, body.reshape(row, (1, *row.shape)), *starts], x.dtype, x.shape)


def _while(body: Body, node: Node, states: list[Value], constants: list[Value], step: str) -> list[Value]:
    told: Loop = node.attribute
    assert told.test is not None
    given = parameter_types(node)
    asked = body.program.function("test", told.test, given[: told.states + told.constants])
    carried = [body.constant(0, int64), *states]
    types = _types(carried)

    def test(inner: Body, at: Value, *now: Value) -> list[Value]:
        assert told.test is not None
        return inner.call(asked, [*now, *constants], [(x.dtype, x.shape) for x in told.test])

    def following(inner: Body, at: Value, *now: Value) -> list[Value]:
        results = inner.call(step, [*now, *constants, at], [(x.dtype, x.shape) for x in told.body])
        return [inner.binary("add", at, inner.constant(1, int64)), *results]

    regions = [body.region(types, test), body.region(types, following)]
    return body.ops("while", carried, types, {}, regions)[1:]


def branch(body: Body, node: Node, which: Value, *operands: Value) -> list[Value]:
    """One of two functions of the operands."""
    types = value_types(node.attribute)
    given = parameter_types(node)
    names = [
        body.program.function(name, graph, given) for name, graph in zip(("true", "false"), node.attribute, strict=True)
    ]
    regions = [body.region([], lambda inner, name=name: inner.call(name, operands, types)) for name in names]
    return body.ops("if", [which], types, {}, regions)


def host(body: Body, node: Node, *sources: Value) -> list[Value]:
    """A function of Python's, by its name: whoever runs the text has to have one of that name."""
    function, types = node.attribute.function, value_types(node.attribute)
    known: Named | None = getattr(function, "named", None)
    if known is None:
        target = "".join(letter if letter.isalnum() else "_" for letter in host_name(function))
        return body.ops("custom_call", sources, types, {"call_target_name": f"smelt.{target}"})
    attributes: dict[str, Attribute] = {"call_target_name": f"smelt.{known.name}"}
    if known.options:
        attributes["smelt.options"] = {
            name: value if isinstance(value, bool) else number(value) for name, value in known.options
        }
    rest = iter(sources)
    whole = [_joined(body, next(rest), next(rest)) if both else next(rest) for both in known.sources]
    kinds, left = list[Type](), iter(types)
    for both in known.values:
        dtype, shape = next(left)
        if both:
            next(left)
        kinds.append((complex_dtype(dtype) if both else dtype, shape))
    return [part for x in body.ops("custom_call", whole, kinds, attributes) for part in _parts(body, x)]


def _joined(body: Body, real: Value, imaginary: Value) -> Value:
    return body.op("complex", [real, imaginary], complex_dtype(real.dtype), real.shape)


def _parts(body: Body, x: Value) -> list[Value]:
    return [body.op(name, [x], x.dtype.part, x.shape) for name in ("real", "imag")] if x.dtype.is_complex else [x]
