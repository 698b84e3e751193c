"""The pretty forms of the dialects `arith`, `math`, `tensor` and `linalg`, in both directions.

`READ` has a function for each operation whose form is not operands and one type; `SHOWN` gives what stands behind the
results, or None where the form does not say everything. A named operation of linalg has no region here: it is what its
name says.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from smelt.formats.mlir.tree import Array, Attribute, Coded, Dense, Opaque, Operation, Ranked, Type, Typed

if TYPE_CHECKING:
    from smelt.formats.mlir.parse import Parser

Write = Callable[[Attribute], str]  # an attribute as text

_I64: Final = Opaque("i64")
_ORDERED: Final = [
    *("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord"),
    *("ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true"),
]
_WHOLE: Final = ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"]
_PREDICATES: Final = {"arith.cmpf": _ORDERED, "arith.cmpi": _WHOLE}
_CASTS: Final = (
    *("extf", "truncf", "extsi", "extui", "trunci", "sitofp", "uitofp", "fptosi", "fptoui"),
    *("bitcast", "index_cast", "index_castui"),
)
_NAMED: Final = ("linalg.fill", "linalg.matmul", "linalg.batch_matmul")
_PARTS: Final = ("static_offsets", "static_sizes", "static_strides")


# --- text to operations


def _values(p: Parser, close: str = "") -> list[str]:
    """Values with commas between them, up to a bracket."""
    found: list[str] = []
    while p.next.startswith("%"):
        found.append(p.take())
        if not p.has(","):
            break
    if close:
        p.need(close)
    return found


def _typed(p: Parser) -> Type:
    p.need(":")
    return p.type()


def _truth(kind: Type) -> Type:
    """The type of comparisons of a type."""
    return kind._replace(element="i1") if isinstance(kind, Ranked) else Opaque("i1")


def _constant(p: Parser, found: Operation) -> None:
    value = p.attribute()
    found.attributes["value"] = value
    if isinstance(value, bool):
        found.types = (Opaque("i1"),)
    elif isinstance(value, Typed | Dense):
        found.types = (value.type,)
    else:
        p.fail("this is no constant", at=p.at - 1)


def _compare(p: Parser, found: Operation) -> None:
    words, word = _PREDICATES[found.name], p.word("a predicate")
    if word not in words:
        p.fail(f"{found.name} has no predicate {word}", at=p.at - 1)
    p.need(",")
    found.attributes["predicate"] = Typed(words.index(word), _I64)
    found.operands = _values(p)
    kind = _typed(p)
    found.operand_types, found.types = (kind,) * len(found.operands), (_truth(kind),)


def _select(p: Parser, found: Operation) -> None:
    found.operands = _values(p)
    kind = _typed(p)
    condition: Type = Opaque("i1")
    if p.has(","):
        condition, kind = kind, p.type()
    found.operand_types, found.types = (condition, kind, kind), (kind,)


def _cast(p: Parser, found: Operation) -> None:
    found.operands = [p.value()]
    found.operand_types = (_typed(p),)
    p.need("to")
    found.types = (p.type(),)


def _index(p: Parser, found: Operation) -> None:
    found.attributes["dim"] = Typed(p.integer(), _I64)
    found.types = (_typed(p),)


def _yield(p: Parser, found: Operation) -> None:
    found.operands = _values(p)
    if found.operands:
        kinds = [_typed(p)]
        while p.has(","):
            kinds.append(p.type())
        found.operand_types = tuple(kinds)


def _empty(p: Parser, found: Operation) -> None:
    p.need("(")
    found.operands = _values(p, ")")
    found.operand_types, found.types = (Opaque("index"),) * len(found.operands), (_typed(p),)


def _extract(p: Parser, found: Operation) -> None:
    found.operands = [p.value()]
    p.need("[")
    places = _values(p, "]")
    kind = _typed(p)
    if not isinstance(kind, Ranked):
        p.fail(f"{kind} is no tensor", at=p.at - 1)
    found.operands += places
    found.operand_types, found.types = (kind, *[Opaque("index")] * len(places)), (Opaque(kind.element),)


def _part(p: Parser, found: Operation) -> None:
    """`%0[0, 1] [2, 3] [1, 1]`, a slice; what it is put into comes before its place."""
    into = found.name == "tensor.insert_slice"
    found.operands = [p.value()]
    if into:
        p.need("into")
        found.operands.append(p.value())
    found.attributes.update((name, Array("i64", p.integers())) for name in _PARTS)
    found.attributes["operandSegmentSizes"] = Array("i32", (*[1] * len(found.operands), 0, 0, 0))
    first = _typed(p)
    p.need("into" if into else "to")
    last = p.type()
    found.operand_types, found.types = ((first, last) if into else (first,)), (last,)


def _reshape(p: Parser, found: Operation) -> None:
    found.operands = [p.value()]
    p.need("[")
    groups: list[tuple[Typed, ...]] = []
    while p.next != "]":
        groups.append(tuple(Typed(k, _I64) for k in p.integers()))
        if p.next != "]":
            p.need(",")
    p.at += 1
    found.attributes["reassociation"] = tuple(groups)
    if p.has("output_shape"):
        found.attributes["static_output_shape"] = Array("i64", p.integers())
    found.operand_types = (_typed(p),)
    p.need("into")
    found.types = (p.type(),)


def _operands(p: Parser, word: str) -> tuple[list[str], list[Type]]:
    """`ins(%0, %1 : type, type)`."""
    p.need(word)
    p.need("(")
    values, kinds = _values(p), list[Type]()
    if p.has(":"):
        kinds.append(p.type())
        while p.has(","):
            kinds.append(p.type())
    p.need(")")
    return values, kinds


def _structured(p: Parser, found: Operation) -> None:
    """An operation of linalg: what it reads, and what it writes to."""
    if p.has("{"):
        found.attributes.update(p.attributes())
        words = found.attributes.get("iterator_types")
        if isinstance(words, tuple):
            kinds = tuple(
                Coded("#linalg.iterator_type", (), (word,)) if isinstance(word, str) else word for word in words
            )
            found.attributes["iterator_types"] = kinds
    inputs, kinds_in = _operands(p, "ins") if p.next == "ins" else ([], [])
    outs, kinds_out = _operands(p, "outs")
    found.operands, found.operand_types = [*inputs, *outs], (*kinds_in, *kinds_out)
    found.attributes["operandSegmentSizes"] = Array("i32", (len(inputs), len(outs)))
    if p.next == "{":
        found.regions = [p.region([])]
    found.types = p.result_types() if p.has("->") else ()


READ: Final[dict[str, Callable[[Parser, Operation], None]]] = {
    "arith.constant": _constant,
    "arith.select": _select,
    "linalg.index": _index,
    "linalg.yield": _yield,
    "tensor.empty": _empty,
    "tensor.extract": _extract,
    **dict.fromkeys(("tensor.extract_slice", "tensor.insert_slice"), _part),
    **dict.fromkeys(("tensor.collapse_shape", "tensor.expand_shape"), _reshape),
    **dict.fromkeys(_PREDICATES, _compare),
    **{f"arith.{name}": _cast for name in _CASTS},
    **dict.fromkeys(("linalg.generic", *_NAMED), _structured),
}


# --- operations to text


def _show_plain(o: Operation, write: Write) -> str | None:
    """Operands and one type: most of `arith` and `math`."""
    same = len({*o.operand_types, *o.types}) == 1 and not o.attributes
    return f"{o.name} {', '.join(o.operands)} : {o.types[0]}" if same and len(o.types) == 1 else None


def _show_constant(o: Operation, write: Write) -> str | None:
    value = o.attributes.get("value")
    fits = len(o.attributes) == 1 and isinstance(value, bool | Typed | Dense)
    return f"{o.name} {write(value)}" if fits else None


def _show_compare(o: Operation, write: Write) -> str | None:
    predicate, words = o.attributes.get("predicate"), _PREDICATES[o.name]
    if len(o.attributes) != 1 or not isinstance(predicate, Typed) or not 0 <= predicate.value < len(words):
        return None
    return f"{o.name} {words[int(predicate.value)]}, {', '.join(o.operands)} : {o.operand_types[0]}"


def _show_select(o: Operation, write: Write) -> str | None:
    kinds = o.operand_types
    before = "" if kinds[0] == Opaque("i1") else f"{kinds[0]}, "
    return None if o.attributes else f"{o.name} {', '.join(o.operands)} : {before}{kinds[1]}"


def _show_cast(o: Operation, write: Write) -> str | None:
    return None if o.attributes else f"{o.name} {o.operands[0]} : {o.operand_types[0]} to {o.types[0]}"


def _show_index(o: Operation, write: Write) -> str | None:
    dim = o.attributes.get("dim")
    return f"{o.name} {dim.value} : {o.types[0]}" if isinstance(dim, Typed) and len(o.attributes) == 1 else None


def _show_yield(o: Operation, write: Write) -> str | None:
    shown = f" {', '.join(o.operands)} : {_types(o.operand_types)}" if o.operands else ""
    return None if o.attributes else f"{o.name}{shown}"


def _show_empty(o: Operation, write: Write) -> str | None:
    return None if o.attributes else f"{o.name}({', '.join(o.operands)}) : {o.types[0]}"


def _show_extract(o: Operation, write: Write) -> str | None:
    first, *places = o.operands
    return None if o.attributes else f"{o.name} {first}[{', '.join(places)}] : {o.operand_types[0]}"


def _show_part(o: Operation, write: Write) -> str | None:
    parts = [o.attributes.get(name) for name in _PARTS]
    count = 2 if o.name == "tensor.insert_slice" else 1
    if len(o.operands) != count or len(o.attributes) != len(parts) + 1 or None in parts:
        return None
    shown = " ".join(f"[{', '.join(map(str, part.values))}]" for part in parts if isinstance(part, Array))
    into = " into " if count == 2 else " to "
    return f"{o.name} {' into '.join(o.operands)}{shown} : {o.operand_types[0]}{into}{o.types[0]}"


def _show_reshape(o: Operation, write: Write) -> str | None:
    groups, shape = o.attributes.get("reassociation"), o.attributes.get("static_output_shape")
    if not isinstance(groups, tuple) or len(o.attributes) != 1 + (shape is not None) or len(o.operands) != 1:
        return None
    shown = ", ".join(f"[{', '.join(str(k.value) for k in group)}]" for group in groups)
    sizes = f" output_shape [{', '.join(map(str, shape.values))}]" if isinstance(shape, Array) else ""
    return f"{o.name} {o.operands[0]} [{shown}]{sizes} : {o.operand_types[0]} into {o.types[0]}"


def _show_named(o: Operation, write: Write) -> str | None:
    around = structured(o, write)
    return None if around is None or len(o.attributes) != 1 else "".join(around)


SHOWN: Final[dict[str, Callable[[Operation, Write], str | None]]] = {
    "arith.constant": _show_constant,
    "arith.select": _show_select,
    "linalg.index": _show_index,
    "linalg.yield": _show_yield,
    "tensor.empty": _show_empty,
    "tensor.extract": _show_extract,
    **dict.fromkeys(("tensor.extract_slice", "tensor.insert_slice"), _show_part),
    **dict.fromkeys(("tensor.collapse_shape", "tensor.expand_shape"), _show_reshape),
    **dict.fromkeys(_PREDICATES, _show_compare),
    **{f"arith.{name}": _show_cast for name in _CASTS},
    **dict.fromkeys(_NAMED, _show_named),
}


def shown(o: Operation, write: Write) -> str | None:
    """The pretty form of an operation without a region."""
    form = SHOWN.get(o.name) or (_show_plain if o.name.startswith(("arith.", "math.")) else None)
    return None if form is None else form(o, write)


def structured(o: Operation, write: Write) -> tuple[str, str] | None:
    """What stands before and behind the region of an operation of linalg."""
    sizes, maps = o.attributes.get("operandSegmentSizes"), o.attributes.get("indexing_maps")
    kinds = o.attributes.get("iterator_types")
    if not isinstance(sizes, Array) or len(sizes.values) != 2:
        return None
    count = int(sizes.values[0])
    attributes = ""
    if o.name == "linalg.generic":
        if len(o.attributes) != 3 or not isinstance(kinds, tuple) or not all(isinstance(k, Coded) for k in kinds):
            return None
        words = tuple(" ".join(kind.words) for kind in kinds)
        attributes = f" {{indexing_maps = {write(maps)}, iterator_types = {write(words)}}}"
    ins = f" ins({', '.join(o.operands[:count])} : {_types(o.operand_types[:count])})" if count else ""
    outs = f" outs({', '.join(o.operands[count:])} : {_types(o.operand_types[count:])})"
    results = _types(o.types)
    return f"{o.name}{attributes}{ins}{outs}", f" -> {results if len(o.types) == 1 else f'({results})'}"


def _types(kinds: tuple[Type, ...]) -> str:
    return ", ".join(map(str, kinds))
