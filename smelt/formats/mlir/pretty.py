"""The pretty forms: each gives the operation that its generic form would give.

Most are one shape: operands, then names with values, then attributes in braces, then types. The rest have a function
each, in `FORMS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from smelt.formats.mlir.keys import I32, I64, KEYS, PRECISION, Key, enumerated
from smelt.formats.mlir.tensors import READ
from smelt.formats.mlir.tree import (
    Argument,
    Array,
    Attribute,
    Block,
    Coded,
    Dense,
    Operation,
    Ranked,
    Region,
    Tuple,
    Type,
    Typed,
)

if TYPE_CHECKING:
    from smelt.formats.mlir.parse import Parser

Attributes = dict[str, Attribute]


def operation(p: Parser, name: str, results: list[str], at: int) -> Operation:
    """The operation whose name has been read."""
    form = FORMS.get(name, _plain)
    found = Operation(name, results, [], {}, [], (), (), at)
    form(p, found)
    return found


# --- parts that many forms have


def _operands(p: Parser) -> list[str]:
    """Values, with commas between them; a comma before something else is past, too."""
    found: list[str] = []
    tokens, at = p.tokens, p.at
    while tokens[at][:1] == "%":
        found.append(tokens[at])
        at += 1
        if tokens[at] != ",":
            break
        at += 1
    p.at = at
    return found


def _operands_in_brackets(p: Parser) -> list[str]:
    p.need("(")
    found = _operands(p)
    p.need(")")
    return found


def _dictionary(p: Parser, found: Operation) -> None:
    """Attributes in braces, if they come next."""
    if p.has("{"):
        found.attributes.update(p.attributes())


def _types(p: Parser, found: Operation) -> None:
    """`: type` of everything, `: type, type` of the operands or results one by one, or a function's type."""
    if not p.has(":"):
        if found.results:
            p.expected("':' and a type")
        return
    count = len(found.operands)
    token, behind = p.tokens[p.at], p.tokens[p.at + 1] if p.tokens[p.at] else ""
    known = p.types.get(token)
    if known is not None and behind not in (",", "->"):  # one type of everything, as most have it
        p.at += 1
        found.types, found.operand_types = (known,) * len(found.results), (known,) * count
        return
    if token == "(":
        arguments = p.types_in_brackets()
        if p.has("->"):
            found.operand_types, found.types = arguments, p.result_types()
        else:
            found.operand_types = arguments
        return
    types: list[Type] = [p.type()]
    while p.has(","):
        types.append(p.type())
    if p.has("->"):
        found.operand_types, found.types = tuple(types), p.result_types()
        if len(types) == 1:
            found.operand_types *= count
        return
    found.types = _given(types, len(found.results))
    found.operand_types = tuple(types if len(types) == count else [types[0], *[types[-1]] * (count - 1)][:count])


def _given(types: list[Type], count: int) -> tuple[Type, ...]:
    """The types of so many results: the last ones that are written, or the only one for all."""
    return tuple(types[-count:] if len(types) >= count else [types[-1]] * count) if count else ()


_KEYS: Final = {operation: {key.name: key for key in keys} for operation, keys in KEYS.items()}
_NONE: Final[dict[str, Key]] = {}


def _plain(p: Parser, found: Operation) -> None:
    """Operands, names with values, attributes, types."""
    if found.name.endswith("return") and found.name != "stablehlo.return":
        found.name = "func.return" if found.name.rpartition(".")[2] == "return" else found.name
    found.operands = _operands(p)
    keys = _KEYS.get(found.name, _NONE)
    while p.next[:1].isalpha() and p.tokens[p.at + 1] == "=":
        name = p.take()
        p.at += 1
        found.attributes.update(keys[name].read(p) if name in keys else {name: p.attribute()})
        if not p.has(","):
            break
    if p.next == "<" and not found.name.startswith("stablehlo."):  # as in sdy.sharding_constraint %0 <@mesh, [{}]>
        found.attributes["sharding"] = Coded("", (), p.skip())
    _dictionary(p, found)
    _types(p, found)


# --- forms of their own


def _constant(p: Parser, found: Operation) -> None:
    _dictionary(p, found)
    value = p.attribute()
    found.attributes["value"] = value
    if isinstance(value, Dense):
        found.types = (value.type,)
    elif p.has(":"):
        found.types = (p.type(),)
    else:
        kind = getattr(value, "type", None)
        if not isinstance(kind, Ranked):
            p.fail("this is no constant", at=p.at - 1)
        found.types = (kind,)


def _complex(p: Parser, found: Operation) -> None:
    """The only type that is written is the result's; operands have its parts."""
    _plain(p, found)
    found.operand_types = tuple(
        kind._replace(element=kind.element[len("complex<") : -1])
        if isinstance(kind, Ranked) and kind.element.startswith("complex<")
        else kind
        for kind in found.operand_types
    )


def _checked_constant(p: Parser, found: Operation) -> None:
    """`check.expect_eq_const %0, dense<…> : type`."""
    found.operands = [p.value()]
    p.need(",")
    found.attributes["value"] = p.attribute()
    _dictionary(p, found)
    _types(p, found)


def _checked_close(p: Parser, found: Operation) -> None:
    """`check.expect_close %0, %1, max_ulp_difference = 3 : type, type`."""
    found.operands = _operands(p)
    while p.next[:1].isalpha():
        name = p.take()
        p.need("=")
        found.attributes[name] = Typed(p.integer(), I64)
        if not p.has(","):
            break
    _dictionary(p, found)
    _types(p, found)


def _compare(p: Parser, found: Operation) -> None:
    direction = p.word("a direction such as LT")
    p.need(",")
    found.operands = _operands(p)
    found.attributes["comparison_direction"] = enumerated("comparison_direction", direction)
    if p.next[:1].isalpha():
        found.attributes["compare_type"] = enumerated("comparison_type", p.take())
    _dictionary(p, found)
    _types(p, found)


def _slice(p: Parser, found: Operation) -> None:
    found.operands = [p.value()]
    p.need("[")
    spans: list[tuple[int, int, int]] = []
    while p.next != "]":
        start = p.integer()
        p.need(":")
        limit = p.integer()
        spans.append((start, limit, p.integer() if p.has(":") else 1))
        if p.next != "]":
            p.need(",")
    p.at += 1
    for k, name in enumerate(("start_indices", "limit_indices", "strides")):
        found.attributes[name] = Array("i64", tuple(span[k] for span in spans))
    _dictionary(p, found)
    _types(p, found)


def _pair(p: Parser) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """`[0] x [1]`."""
    left = p.integers()
    p.need("x")
    return left, p.integers()


def _dot_general(p: Parser, found: Operation) -> None:
    found.operands = _operands(p)
    sides: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    while p.next[:1].isalpha():
        name = p.take()
        p.need("=")
        if name in ("batching_dims", "contracting_dims"):
            sides[name] = _pair(p)
        else:
            found.attributes.update(PRECISION.read(p) if name == PRECISION.name else {name: p.attribute()})
        if not p.has(","):
            break
    fields = tuple(
        (f"{side}_{kind}_dimensions", sides.get(f"{kind}_dims", ((), ()))[k])
        for kind in ("batching", "contracting")
        for k, side in enumerate(("lhs", "rhs"))
    )
    found.attributes["dot_dimension_numbers"] = Coded("#stablehlo.dot", tuple(f for f in fields if f[1]))
    _dictionary(p, found)
    _types(p, found)


def _matrix(p: Parser) -> tuple[tuple[int, ...], ...]:
    """`[[1, 1], [0, 2]]`."""
    p.need("[")
    rows: list[tuple[int, ...]] = []
    while p.next != "]":
        rows.append(p.integers())
        if p.next != "]":
            p.need(",")
    p.at += 1
    return tuple(rows)


def _convolution(p: Parser, found: Operation) -> None:
    found.operands = _operands_in_brackets(p)
    p.need("dim_numbers")
    p.need("=")
    start = p.at
    while (p.next and p.next not in (",", "{", ":")) or p.tokens[p.at - 1] != "]":
        p.at += bool(p.next) or p.expected("the numbers of the axes")
    found.attributes["dimension_numbers"] = Coded("#stablehlo.conv", (), tuple(p.tokens[start : p.at]))
    p.need(",")
    p.need("window")
    p.need("=")
    p.need("{")
    names = {"stride": "window_strides", "lhs_dilate": "lhs_dilation", "rhs_dilate": "rhs_dilation"}
    while p.next != "}":
        name = p.word()
        p.need("=")
        if name == "pad":
            rows = _matrix(p)
            data = b"".join(
                n.to_bytes(8, "little", signed=True) for row in rows for n in row if -(1 << 63) <= n < 1 << 63
            )
            if len(data) != 16 * len(rows):
                p.fail("padding is a pair of numbers for each axis", at=p.at - 1)
            found.attributes["padding"] = Dense(Ranked((len(rows), 2), "i64"), False, data)
        elif name == "reverse":
            p.need("[")
            found.attributes["window_reversal"] = Array("i1", p.listed())
        elif name in names:
            found.attributes[names[name]] = Array("i64", p.integers())
        else:
            p.fail(f"a window has no {name}", at=p.at - 2)
        if p.next != "}":
            p.need(",")
    p.at += 1
    _dictionary(p, found)
    _types(p, found)


def _reduce(p: Parser, found: Operation) -> None:
    """Operands and first values come in pairs, and so do the arguments of a reducer; the operation has first all
    operands and then all first values, and the block first all left and then all right arguments.
    """
    operands: list[str] = []
    starts: list[str] = []
    while True:
        p.need("(")
        operands.append(p.value())
        p.need("init")
        p.need(":")
        starts.append(p.value())
        p.need(")")
        if not p.has(","):
            break
    found.operands = [*operands, *starts]
    shorthand = p.word("the name of an operation") if p.has("applies") else ""
    p.need("across")
    p.need("dimensions")
    p.need("=")
    found.attributes["dimensions"] = Array("i64", p.integers())
    _dictionary(p, found)
    _types(p, found)
    if shorthand:
        found.regions = [_short_reducer(p, shorthand, found)]
        return
    p.need("reducer")
    left: list[Argument] = []
    right: list[Argument] = []
    while p.next == "(":
        pair = p.arguments()
        if len(pair) != 2:
            p.fail("the arguments of a reducer come in pairs", at=p.at - 1)
        left.append(pair[0])
        right.append(pair[1])
    found.regions = [p.region([*left, *right])]


def _short_reducer(p: Parser, name: str, found: Operation) -> Region:
    """The body that `applies stablehlo.add` stands for."""
    last = found.operand_types[-1] if found.operand_types else None
    if not isinstance(last, Ranked):
        p.fail("a reducer needs the types of its operands", at=p.at - 1)
    scalar = Ranked((), last.element)
    # Names that nothing else has: that of the result is a part of them.
    own = found.results[0][1:].split("#")[0] if found.results else ""
    left, right, combined = (f"%reducer_{part}_{own}" for part in ("left", "right", "combined"))
    arguments = [Argument(left, scalar, {}), Argument(right, scalar, {})]
    step = Operation(name, [combined], [left, right], {}, [], (scalar, scalar), (scalar,), found.at)
    end = Operation("stablehlo.return", [], [combined], {}, [], (scalar,), (), found.at)
    return Region([Block(arguments, [step, end])])


def _while(p: Parser, found: Operation) -> None:
    names: list[str] = []
    p.need("(")
    while p.next != ")":
        names.append(p.value())
        p.need("=")
        found.operands.append(p.value())
        if p.next != ")":
            p.need(",")
    p.at += 1
    types: list[Type] = []
    if p.has(":"):
        types.append(p.type())
        while p.has(","):
            types.append(p.type())
    if len(types) != len(names):
        p.fail(f"{len(names)} values of a loop have {len(types)} types")
    found.operand_types = found.types = tuple(types)
    if p.has("attributes"):
        p.need("{")
        found.attributes.update(p.attributes())
    arguments = [Argument(name, kind, {}) for name, kind in zip(names, types, strict=True)]
    p.need("cond")
    test = p.region(arguments)
    p.need("do")
    found.regions = [test, p.region(list(arguments))]


def _call(p: Parser, found: Operation) -> None:
    found.name = "func.call"
    found.attributes["callee"] = p.symbol()
    found.operands = _operands_in_brackets(p)
    _dictionary(p, found)
    _types(p, found)


def _custom_call(p: Parser, found: Operation) -> None:
    found.attributes["call_target_name"] = p.symbol().name
    found.operands = _operands_in_brackets(p)
    _dictionary(p, found)
    _types(p, found)


def _composite(p: Parser, found: Operation) -> None:
    found.attributes["name"] = p.string()
    found.operands = _operands(p)
    _dictionary(p, found)
    _types(p, found)


def _top_k(p: Parser, found: Operation) -> None:
    p.need("(")
    found.operands = _operands(p)
    p.need("k")
    p.need("=")
    found.attributes["k"] = Typed(p.integer(), I64)
    p.need(")")
    _dictionary(p, found)
    _types(p, found)


def _get_tuple_element(p: Parser, found: Operation) -> None:
    found.operands = [p.value()]
    numbers = p.integers()
    if len(numbers) != 1:
        p.fail("one element of a tuple is asked for", at=p.at - 1)
    found.attributes["index"] = Typed(numbers[0], I32)
    _dictionary(p, found)
    _types(p, found)


def _tuple(p: Parser, found: Operation) -> None:
    found.operands = _operands(p)
    _dictionary(p, found)
    _types(p, found)
    if found.types and isinstance(found.types[0], Tuple):
        found.operand_types = found.types[0].parts


def _mesh(p: Parser, found: Operation) -> None:
    """`sdy.mesh @mesh = <["x"=2]>`: how many devices there are."""
    found.attributes["sym_name"] = p.symbol().name
    p.need("=")
    found.attributes["mesh"] = Coded("", (), p.skip()) if p.next == "<" else p.attribute()
    _dictionary(p, found)


FORMS: Final[dict[str, Callable[[Parser, Operation], None]]] = {
    "stablehlo.constant": _constant,
    "chlo.constant": _constant,
    **READ,
    "check.expect_close": _checked_close,
    "check.expect_eq_const": _checked_constant,
    "check.expect_almost_eq_const": _checked_constant,
    "stablehlo.complex": _complex,
    "stablehlo.compare": _compare,
    "stablehlo.slice": _slice,
    "stablehlo.dot_general": _dot_general,
    "stablehlo.convolution": _convolution,
    "stablehlo.reduce": _reduce,
    "stablehlo.while": _while,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.composite": _composite,
    "stablehlo.get_tuple_element": _get_tuple_element,
    "stablehlo.tuple": _tuple,
    "chlo.top_k": _top_k,
    "call": _call,
    "func.call": _call,
    "sdy.mesh": _mesh,
}
