"""Elementwise functions of the IR as C expressions over scalars or vectors."""

from __future__ import annotations

import math
import struct

from smelt import dtypes
from smelt.dtypes import DType, Scalar, compute_dtype, float32, float64, int32
from smelt.errors import InternalError
from smelt.render.library import Library, Type

# Types that exist only in memory, with the type that their helpers are made for.
NARROW = {
    **dict.fromkeys((dtypes.float16, dtypes.bfloat16, dtypes.float8_e4m3fn, dtypes.float8_e5m2), "f32"),
    **{dtypes.int4: "i8", dtypes.uint4: "u8"},
}
_OPERATORS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|", "xor": "^"}
_COMPARISONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<="}
_VALUES = {**{op: f"{{0}} {sign} {{1}}" for op, sign in _OPERATORS.items()}, "neg": "-{0}", "not": "~{0}"}
_TESTS = {**{op: f"{{0}} {sign} {{1}}" for op, sign in _COMPARISONS.items()}, "isnan": "{0} != {0}"}
_WRAPPING = frozenset({"add", "sub", "mul", "neg"})
_FUNCTIONS = {"abs": "absolute", "max": "maximum", "min": "minimum", "copysign": "copy_sign"}
_LARGE = frozenset({"exp", "exp2", "expm1", "log", "log2", "log1p", "tanh", "erf"})
_MASKS = {
    **{op: _VALUES[op] for op in ("and", "or", "xor", "not")},
    **{"max": "{0} | {1}", "min": "{0} & {1}"},
    **{"eq": "~({0} ^ {1})", "ne": "{0} ^ {1}", "lt": "~{0} & {1}", "le": "~{0} | {1}"},
}
_TRUTHS = {**_MASKS, **{op: _TESTS[op] for op in ("eq", "lt", "le")}, "not": "!{0}"}


def element(dtype: DType) -> str:
    """The C element type in which values of a dtype are computed; booleans have none of their own."""
    if dtype in NARROW:
        raise InternalError(f"{dtype} values exist only in memory")
    return f"{'f' if dtype.is_float else 'i' if dtype.is_signed else 'u'}{dtype.bits}"


def memory_element(dtype: DType) -> str:
    """The C element type of a dtype in memory."""
    return f"u{8 * dtype.itemsize}" if dtype.is_bool or dtype in NARROW else element(dtype)


def literal(value: Scalar, dtype: DType) -> str:
    """An exact C constant."""
    if dtype.is_bool:
        return "1" if value else "0"
    if dtype.is_float:
        return _float_literal(float(value), dtype)
    number, lowest = int(value), int(dtype.minimum)
    return integer_literal((number - lowest) % (1 << dtype.bits) + lowest, element(dtype))


def integer_literal(number: int, kind: str) -> str:
    """A constant of an integer type that holds it."""
    suffix = ("" if kind[0] == "i" else "u") + ("ll" if kind[1:] == "64" else "")
    if number == -(1 << 63):
        return f"({kind})(-{-number - 1}{suffix} - 1)"
    return f"({kind})({number}{suffix})" if number < 0 else f"({kind}){number}{suffix}"


def _float_literal(value: float, dtype: DType) -> str:
    letter = "f" if dtype is float32 else ""
    if dtype is float32 and math.isfinite(value):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isnan(value):
        return f'({sign}__builtin_nan{letter}(""))'
    if math.isinf(value):
        return f"({sign}__builtin_inf{letter}())"
    if value == int(value) and abs(value) < 1e6:
        return f"({value:.1f}{letter})" if sign else f"{value:.1f}{letter}"
    return f"({value.hex()}{letter})" if sign else f"{value.hex()}{letter}"


def is_operator(op: str) -> bool:
    """Whether C has an operator for a function."""
    return op in _OPERATORS or op in _COMPARISONS


def elementwise(library: Library, op: str, t: Type, arguments: list[str], called: bool = False) -> str:
    """`op` of operands that all have the form `t`, of a dtype that is not bool; `called` asks for a real call."""
    if t.element[0] == "i" and op in _WRAPPING and not library.dialect.extensions:
        unsigned = f"u{max(32, t.bits)}"  # narrower ones would become signed
        operands = [f"({unsigned})({argument})" for argument in arguments]
        return f"({t.element})({_VALUES[op].format(*operands)})"
    if op in _VALUES:
        return _VALUES[op].format(*arguments)
    if op in _TESTS:
        return _as_mask(library, t, _TESTS[op].format(*arguments))
    make = library.called_function if called and op in _LARGE else library.function
    return f"{make(_FUNCTIONS.get(op, op), t)}({', '.join(arguments)})"


def boolean(op: str, vector: bool, arguments: list[str]) -> str:
    """`op` of booleans: scalars that are 0 or 1, vectors of masks."""
    table = _MASKS if vector else _TRUTHS
    if op not in table:
        raise InternalError(f"{op} does not take booleans")
    return table[op].format(*arguments)


def _as_mask(library: Library, t: Type, comparison: str) -> str:
    return comparison if t.lanes == 1 else f"({library.type(t.integer)})({comparison})"


def cast(library: Library, source: DType, target: DType, lanes: int, text: str) -> str:
    """Convert values; a boolean vector is a mask as wide as the other side."""
    if source is target:
        return text
    if source.is_bool:
        if lanes == 1:
            return f"({element(target)}){text}"
        return f"__builtin_convertvector(-{text}, {library.type(Type(element(target), lanes))})"
    from_type = Type(element(source), lanes)
    if target.is_bool:
        return _as_mask(library, from_type, f"{text} != 0")
    to_type = Type(element(target), lanes)
    if source.is_float and target.is_integer:
        return f"{library.function(f'saturate_{to_type.element}', from_type)}({text})"
    if lanes == 1:
        return f"({to_type.name}){text}"
    if source.bits < target.bits and source.is_integer and target.is_integer:
        rule = "sign" if source.is_signed else "zero"
        return f"({library.type(to_type)}){library.function(f'{rule}_extend_{target.bits}', from_type)}({text})"
    if source.bits < 32 and source.is_integer and target.is_float:
        return cast(library, int32, target, lanes, cast(library, source, int32, lanes, text))
    return f"__builtin_convertvector({text}, {library.type(to_type)})"


def bitcast(library: Library, source: DType, target: DType, lanes: int, text: str) -> str:
    """The same bits as another type of the same width. The dtypes are those in memory; 16-bit floats arrive widened."""
    if source.bits != target.bits or source.is_bool or target.is_bool:
        raise InternalError(f"bitcast of {source} to {target}")
    short = Type("f32", lanes)
    if compute_dtype(source) is not source:
        text = f"{library.function(f'narrow_{source}', short)}({text})"
    if compute_dtype(target) is not target:
        return f"{library.function(f'widen_{target}', short)}(({library.type(Type('u16', lanes))}){text})"
    to_type = Type(element(target), lanes)
    if lanes > 1 or compute_dtype(source) is not source:
        return f"({library.type(to_type)}){text}"
    if source.is_float is target.is_float:
        return f"({to_type.name}){text}"
    real = target if target.is_float else source
    name = library.function("real" if target.is_float else "bits", Type("f64" if real is float64 else "f32"))
    return f"({to_type.name}){name}({text})"
