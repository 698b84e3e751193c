"""A module to text: pretty where most of JAX's text is, generic elsewhere. Equal modules give equal texts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from smelt.formats.mlir import dense
from smelt.formats.mlir.keys import KEYS, enumerated_word
from smelt.formats.mlir.tensors import shown, structured
from smelt.formats.mlir.tree import (
    Argument,
    Array,
    Attribute,
    Block,
    Coded,
    Dense,
    Function,
    Module,
    Operation,
    Ranked,
    Region,
    Resource,
    Symbol,
    Type,
    Typed,
    results_text,
)

_TIGHT: Final = re.compile(r"(?<=\() | (?=[),])")  # the spaces between words that nobody writes
_BRACKETS: Final = re.compile(r"(?<=\[) | (?=[\],])|(?<=\]) | (?=\[)|(?<=x) |(?<=>) ")


def write(module: Module) -> str:
    """The text of a module."""
    lines = [f"module{f' @{_symbol(module.name)}' if module.name else ''}"]
    if module.attributes:
        lines[0] += f" attributes {_dictionary(module.attributes)}"
    lines[0] += " {"
    for operation in module.others:
        lines += _operation(operation, 1)
    for function in module.functions.values():
        lines += _function(function)
    lines.append("}")
    if module.resources:
        inside = ",\n".join(
            f'      {_key(key)}: "0x01000000{data.hex().upper()}"' for key, data in module.resources.items()
        )
        lines += ["", "{-#", "  dialect_resources: {", "    builtin: {", inside, "    }", "  }", "#-}"]
    return "\n".join(lines) + "\n"


# --- attributes


def quoted(text: str) -> str:
    """A string in quotes."""
    return '"' + "".join(c if " " <= c <= "~" and c not in '"\\' else f"\\{ord(c):02X}" for c in text) + '"'


def _plain(text: str) -> bool:
    return (
        text.replace("_", "a").replace(".", "a").replace("$", "a").isalnum()
        and text.isascii()
        and not text[0].isdigit()
    )


def _key(text: str) -> str:
    return text if _plain(text or "0") else quoted(text)


def _symbol(name: str) -> str:
    return "::@".join(_key(part) for part in name.split("::@")) if "::@" in name else _key(name)


def _dictionary(attributes: dict[str, Attribute]) -> str:
    inside = ", ".join(
        _key(name) if value is None else f"{_key(name)} = {attribute(value)}" for name, value in attributes.items()
    )
    return f"{{{inside}}}"


def attribute(value: Attribute) -> str:
    """One attribute."""
    match value:
        case None:
            return "unit"
        case bool():
            return "true" if value else "false"
        case Typed():
            return f"{_number(value.value, str(value.type))} : {value.type}"
        case int() | float():
            return _number(value)
        case str():
            return quoted(value)
        case Symbol():
            return f"@{_symbol(value.name)}"
        case Array():
            inside = ", ".join(map(attribute, value.values))
            return f"array<{value.element}{': ' if inside else ''}{inside}>"
        case Dense():
            return f"dense<{dense.text(value)}> : {value.type}"
        case Resource():
            return f"dense_resource<{_key(value.key)}> : {value.type}"
        case Coded():
            return _coded(value)
        case dict():
            return _dictionary(value)
        case _ if type(value) is tuple:
            return f"[{', '.join(map(attribute, value))}]"
    return str(value)


def _coded(value: Coded) -> str:
    if value.words:
        shown = " ".join(value.words)
        return f"{value.name}<{_TIGHT.sub('', shown) if value.name == 'affine_map' else shown}>"
    if value.name and not value.fields:
        return value.name
    inside = ", ".join(f"{name} = {attribute(each)}" for name, each in value.fields)
    return f"{value.name}<{inside}>"


def _number(value: int | float, kind: str = "f64") -> str:
    return str(value) if isinstance(value, int) else dense.float_text(value, kind)


# --- operations


def _function(function: Function) -> list[str]:
    visibility = f"{function.visibility} " if function.visibility else ""
    arguments = ", ".join(_argument(argument) for argument in function.arguments)
    head = f"  func.func {visibility}@{_symbol(function.name)}({arguments})"
    results = [f"{kind}{_after(attributes)}" for kind, attributes in function.results]
    alone = len(results) == 1 and not function.results[0][1]
    if results:
        head += f" -> {results_text((function.results[0][0],)) if alone else '(' + ', '.join(results) + ')'}"
    if function.attributes:
        head += f" attributes {_dictionary(function.attributes)}"
    if function.body is None:
        return [head]
    return [f"{head} {{", *_block(function.body.blocks[0], 2), "  }"]


def _argument(argument: Argument) -> str:
    return f"{argument.name}: {argument.type}{_after(argument.attributes)}"


def _after(attributes: dict[str, Attribute]) -> str:
    return f" {_dictionary(attributes)}" if attributes else ""


def _block(block: Block, depth: int) -> list[str]:
    return [line for operation in block.operations for line in _operation(operation, depth)]


def _region(region: Region, depth: int) -> list[str]:
    """A region in braces, whose blocks all name their arguments."""
    lines = ["{"]
    for number, block in enumerate(region.blocks):
        if block.arguments or number:
            lines.append(f"{'  ' * depth}^bb{number}({', '.join(map(_argument, block.arguments))}):")
        lines += _block(block, depth + 1)
    return [*lines, f"{'  ' * depth}}}"]


def _operation(operation: Operation, depth: int) -> list[str]:
    pad = "  " * depth
    head = f"{pad}{_results(operation.results)}"
    short = _pretty(operation)
    if short is not None:
        return [head + short]
    around = structured(operation, attribute) if operation.name == "linalg.generic" else None
    if around is not None:
        first, *rest = _region(operation.regions[0], depth)
        return [f"{head}{around[0]} {first}", *rest[:-1], rest[-1] + around[1]]
    head += f"{quoted(operation.name)}({', '.join(operation.operands)})"
    # An operation's own attributes have no dot in their names; what anybody may add to it has.
    own = {name: value for name, value in operation.attributes.items() if "." not in name}
    others = {name: value for name, value in operation.attributes.items() if "." in name}
    head += f" <{_dictionary(own)}>" if own else ""
    lines = [head]
    for number, region in enumerate(operation.regions):
        inside = _region(region, depth)
        lines[-1] += inside[0] if number else f" ({inside[0]}"
        lines += inside[1:]
        lines[-1] += ", " if number + 1 < len(operation.regions) else ")"
    lines[-1] += f"{_after(others)} : {_functional(operation)}"
    return [line.rstrip(" ") for line in lines]


def _results(names: Sequence[str]) -> str:
    if not names:
        return ""
    base = names[0].split("#")[0]
    if list(names) == [f"{base}#{k}" for k in range(len(names))]:
        return f"{base}:{len(names)} = "
    return f"{', '.join(names)} = "


# Operations whose operands and results mostly have one type, which is written once then; and those with a function's.
_ALIKE: Final = """abs add and atan2 cbrt ceil clamp cosine count_leading_zeros divide exponential
    exponential_minus_one floor log log_plus_one logistic maximum minimum multiply negate not or popcnt power
    reduce_precision remainder reverse round_nearest_afz round_nearest_even rsqrt shift_left shift_right_arithmetic
    shift_right_logical sign sine sqrt subtract tan tanh xor"""
_FUNCTIONAL: Final = """bitcast_convert broadcast_in_dim concatenate convert dynamic_reshape dynamic_slice
    dynamic_update_slice imag is_finite pad real reshape transpose"""
_SHORT: Final = frozenset(f"stablehlo.{name}" for name in f"{_ALIKE} {_FUNCTIONAL}".split())
_SHORTEST: Final = frozenset(f"stablehlo.{name}" for name in _ALIKE.split())
_RETURNS: Final = {"stablehlo.return": "stablehlo.return", "func.return": "return"}


def _pretty(operation: Operation) -> str | None:
    """The short form, where there is one and it says everything."""
    if operation.regions:
        return None
    name, operands = operation.name, ", ".join(operation.operands)
    own = _OWN.get(name)
    if own is not None:
        return own(operation)
    if name in _RETURNS and not operation.attributes:
        types = f" {operands} : {', '.join(map(str, operation.operand_types))}" if operands else ""
        return _RETURNS[name] + types
    if name not in _SHORT:
        return shown(operation, attribute)
    keys = _keys(operation)
    if keys is None:
        return None
    same = len({*operation.operand_types, *operation.types}) == 1
    if name in _SHORTEST and same:
        return f"{name} {operands}{keys} : {operation.types[0]}"
    return f"{name} {operands}{keys} : {_functional(operation)}"


def _functional(operation: Operation) -> str:
    return f"({', '.join(map(str, operation.operand_types))}) -> {results_text(operation.types)}"


def _keys(operation: Operation) -> str | None:
    """What stands behind the operands, if that says everything: names with values."""
    text, covered = "", set()
    for key in KEYS.get(operation.name, ()):
        if not set(key.covers) <= operation.attributes.keys():
            if key.optional:
                continue
            return None
        shown = key.show(operation.attributes)
        if shown is None:
            return None
        text += f", {key.name} = {shown}"
        covered |= set(key.covers)
    return text if covered == operation.attributes.keys() else None


def _constant(operation: Operation) -> str | None:
    value = operation.attributes.get("value")
    alone = len(operation.attributes) == 1 and isinstance(value, Dense) and (value.type,) == operation.types
    return f"{operation.name} {attribute(value)}" if alone else None


def _iota(operation: Operation) -> str | None:
    keys = _keys(operation)
    return None if keys is None else f"{operation.name}{keys.removeprefix(',')} : {operation.types[0]}"


def _compare(operation: Operation) -> str | None:
    direction = enumerated_word(operation.attributes.get("comparison_direction"), "comparison_direction")
    kind = operation.attributes.get("compare_type")
    word = enumerated_word(kind, "comparison_type")
    if direction is None or (kind is not None and word is None) or len(operation.attributes) > 1 + (kind is not None):
        return None
    typed = "" if word is None else f", {word}"
    return f"{operation.name} {direction}, {', '.join(operation.operands)}{typed} : {_functional(operation)}"


def _select(operation: Operation) -> str | None:
    kinds: tuple[Type, ...] = operation.operand_types
    if operation.attributes or len(kinds) != 3 or kinds[1] != kinds[2]:
        return None
    return f"{operation.name} {', '.join(operation.operands)} : {kinds[0]}, {kinds[1]}"


def _complex(operation: Operation) -> str | None:
    """The type of the parts is not written: it is that of the result."""
    [whole] = operation.types
    part = whole._replace(element=whole.element[len("complex<") : -1]) if isinstance(whole, Ranked) else whole
    if operation.attributes or operation.operand_types != (part, part):
        return None
    return f"{operation.name} {', '.join(operation.operands)} : {whole}"


_WINDOW: Final = {
    "stride": "window_strides",
    "pad": "padding",
    "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation",
    "reverse": "window_reversal",
}


def _convolution(operation: Operation) -> str | None:
    rest = dict(operation.attributes)
    numbers, parts = rest.pop("dimension_numbers", None), list[str]()
    for name, own in _WINDOW.items():
        value = rest.pop(own, None)
        if isinstance(value, Array):
            parts.append(f"{name} = [{', '.join(map(attribute, value.values))}]")
        elif isinstance(value, Dense) and value.type.element == "i64" and not value.splat:
            parts.append(f"{name} = {dense.text(value)}")
        elif value is not None:
            return None
    if not isinstance(numbers, Coded) or not numbers.words:
        return None
    shown = _BRACKETS.sub("", " ".join(numbers.words))
    head = f"{operation.name}({', '.join(operation.operands)}) dim_numbers = {shown}, window = {{{', '.join(parts)}}}"
    return f"{head}{_after(rest)} : {_functional(operation)}"


def _slice(operation: Operation) -> str | None:
    parts = [operation.attributes.get(name) for name in ("start_indices", "limit_indices", "strides")]
    if len(operation.attributes) != 3 or not all(isinstance(part, Array) for part in parts):
        return None
    spans = zip(*(part.values for part in parts if isinstance(part, Array)), strict=True)
    text = ", ".join(f"{start}:{limit}" + ("" if step == 1 else f":{step}") for start, limit, step in spans)
    return f"{operation.name} {operation.operands[0]} [{text}] : {_functional(operation)}"


def _call(operation: Operation) -> str | None:
    callee = operation.attributes.get("callee")
    if len(operation.attributes) != 1 or not isinstance(callee, Symbol):
        return None
    return f"func.call {attribute(callee)}({', '.join(operation.operands)}) : {_functional(operation)}"


def _custom_call(operation: Operation) -> str:
    rest = dict(operation.attributes)
    target = _symbol(str(rest.pop("call_target_name", "")))
    return f"{operation.name} @{target}({', '.join(operation.operands)}){_after(rest)} : {_functional(operation)}"


def _mesh(operation: Operation) -> str | None:
    mesh, rest = operation.attributes.get("mesh"), dict(operation.attributes)
    rest.pop("mesh", None)
    name = rest.pop("sym_name", "")
    inside = f"<{' '.join(mesh.words)}>" if isinstance(mesh, Coded) else attribute(mesh)
    return f"sdy.mesh @{_symbol(str(name))} = {inside}{_after(rest)}"


def _constraint(operation: Operation) -> str | None:
    sharding = operation.attributes.get("sharding")
    if not isinstance(sharding, Coded) or len(operation.attributes) != 1:
        return None
    return f"{operation.name} {operation.operands[0]} <{' '.join(sharding.words)}> : {operation.types[0]}"


_OWN: Final = {
    "stablehlo.constant": _constant,
    "stablehlo.convolution": _convolution,
    "stablehlo.iota": _iota,
    "stablehlo.compare": _compare,
    "stablehlo.complex": _complex,
    "stablehlo.select": _select,
    "stablehlo.slice": _slice,
    "func.call": _call,
    "stablehlo.custom_call": _custom_call,
    "sdy.mesh": _mesh,
    "sdy.sharding_constraint": _constraint,
}
