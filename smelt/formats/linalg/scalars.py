"""Elementwise functions as operations of the dialects `arith` and `math`.

Most are one operation, in a table by the kind of number. The others are written out, so that they give what smelt gives
where MLIR leaves open what happens: division by zero, shifts beyond the width, casts of what does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from smelt.dtypes import DType, bfloat16, bool_, float16, float32, float64, int32
from smelt.errors import UnsupportedOp
from smelt.formats.linalg.code import BOOL, Code, Value, scalar_type
from smelt.formats.mlir import Opaque, Typed

_MATH: Final = """exp exp2 expm1 log log2 log10 log1p sqrt rsqrt cbrt sin cos tan asin acos atan sinh cosh tanh asinh
    acosh atanh erf erfc floor ceil trunc atan2 copysign"""

# By kind: floats, integers with a sign, those without, bools.
_PLAIN: Final[dict[str, dict[str, str]]] = {
    **{name: {"f": f"math.{name}"} for name in _MATH.split()},
    "neg": {"f": "arith.negf"},
    "abs": {"f": "math.absf", "s": "math.absi"},
    "round": {"f": "math.roundeven"},
    "pow": {"f": "math.powf"},
    "add": {"f": "arith.addf", "s": "arith.addi", "u": "arith.addi"},
    "sub": {"f": "arith.subf", "s": "arith.subi", "u": "arith.subi"},
    "mul": {"f": "arith.mulf", "s": "arith.muli", "u": "arith.muli"},
    "div": {"f": "arith.divf"},
    "max": {"f": "arith.maximumf", "s": "arith.maxsi", "u": "arith.maxui", "b": "arith.ori"},
    "min": {"f": "arith.minimumf", "s": "arith.minsi", "u": "arith.minui", "b": "arith.andi"},
    **{name: dict.fromkeys("sub", f"arith.{name}i") for name in ("and", "or", "xor")},
}
# The numbers of predicates: of `arith.cmpf`, and of `arith.cmpi` with and without a sign.
_PREDICATES: Final = {
    "eq": {"f": 1, "s": 0, "u": 0},
    "ne": {"f": 13, "s": 1, "u": 1},
    "lt": {"f": 4, "s": 2, "u": 6},
    "le": {"f": 5, "s": 3, "u": 7},
}
_UNORDERED: Final = 14
_I64: Final = Opaque("i64")


def kind_of(dtype: DType) -> str:
    """The letter of a kind of number."""
    return "f" if dtype.is_float else "b" if dtype.is_bool else "s" if dtype.is_signed else "u"


def refused(name: str, reason: str, hint: str = "") -> UnsupportedOp:
    """The error about something that has no form in linalg."""
    return UnsupportedOp(f"linalg: {name} cannot be written", name, 0, 0, rule=reason, hint=hint)


def compare(code: Code, name: str, dtype: DType, a: Value, b: Value) -> Value:
    """`eq`, `ne`, `lt` or `le` of two numbers of a dtype."""
    kind = kind_of(dtype)
    number = _PREDICATES[name]["u" if kind == "b" else kind]
    operation = "arith.cmpf" if kind == "f" else "arith.cmpi"
    return code.one(operation, (a, b), BOOL, predicate=Typed(number, _I64))


def select(code: Code, condition: Value, a: Value, b: Value) -> Value:
    """One of two values."""
    return code.one("arith.select", (condition, a, b), a.type)


def elementwise(code: Code, op: str, dtype: DType, given: DType, arguments: Sequence[Value], attribute: Any) -> Value:
    """An operation of a region that is computed for each element by itself. `dtype` is that of the result, `given` that
    of its first argument.
    """
    if op == "where":
        return select(code, *arguments)
    if op in ("cast", "cast_odd"):
        return cast(code, given, dtype, arguments[0])
    if op == "round16":
        return _rounded(code, attribute, arguments[0])
    if op == "bitcast":
        return _bitcast(code, attribute or (given, dtype), dtype, arguments[0])
    if op in _PREDICATES:
        return compare(code, op, given, *arguments)
    kind = kind_of(given)
    plain = _PLAIN.get(op, {}).get(kind)
    if plain is not None:
        return code.one(plain, arguments, scalar_type(dtype))
    longer = _LONGER.get((op, kind))
    if longer is None:
        raise refused(op, f"neither arith nor math has {op} of {given}.", "Compute it outside of what is emitted.")
    return longer(code, given, *arguments)


def cast(code: Code, source: DType, target: DType, x: Value) -> Value:
    """A number in another dtype: integers wrap, floats saturate, NaN becomes 0."""
    if source is target:
        return x
    kind = scalar_type(target)
    if target is bool_:
        return compare(code, "ne", source, x, code.constant(0.0 if source.is_float else 0, x.type))
    if source.is_float and target.is_float:
        name = "arith.extf" if target.bits > source.bits else "arith.truncf"
        if target.bits == source.bits:
            x, name = code.one("arith.extf", (x,), scalar_type(float32)), "arith.truncf"
        return code.one(name, (x,), kind)
    if source.is_float:
        return _saturated(code, source, target, x)
    if target.is_float:
        return code.one("arith.sitofp" if source.is_signed else "arith.uitofp", (x,), kind)
    width, wanted = 1 if source is bool_ else source.bits, target.bits
    if width == wanted:
        return x
    name = "arith.trunci" if width > wanted else "arith.extsi" if source.is_signed else "arith.extui"
    return code.one(name, (x,), kind)


def _saturated(code: Code, source: DType, target: DType, x: Value) -> Value:
    kind = scalar_type(target)
    smallest, largest = int(target.minimum), int(target.maximum)
    if source is float16:  # whose largest number is below that of many integers
        x, source = code.one("arith.extf", (x,), scalar_type(float32)), float32
    beyond = compare(code, "le", source, code.constant(float(largest + 1), x.type), x)
    below = compare(code, "lt", source, x, code.constant(float(smallest), x.type))
    nan = _isnan(code, source, x)
    unfit = code.one("arith.ori", (code.one("arith.ori", (beyond, below), BOOL), nan), BOOL)
    inside = select(code, unfit, code.constant(0.0, x.type), x)
    whole = code.one("arith.fptosi" if target.is_signed else "arith.fptoui", (inside,), kind)
    whole = select(code, beyond, code.constant(largest, kind), whole)
    return select(code, below, code.constant(smallest, kind), whole)


def _rounded(code: Code, target: DType, x: Value) -> Value:
    """A float32 rounded to what 16 bits can hold. For bfloat16 by integers: compilers that compute it in float32 take
    casts there and back for nothing.
    """
    if target is not bfloat16:
        return code.one("arith.extf", (code.one("arith.truncf", (x,), scalar_type(target)),), x.type)
    bits = code.one("arith.bitcast", (x,), scalar_type(int32))

    def step(name: str, a: Value, number: int) -> Value:
        return code.one(f"arith.{name}", (a, code.constant(number, a.type)), a.type)

    odd = step("andi", step("shrui", bits, 16), 1)
    moved = code.one("arith.addi", (bits, step("addi", odd, 0x7FFF)), bits.type)
    even = code.one("arith.bitcast", (step("andi", moved, -0x10000),), x.type)
    return select(code, _isnan(code, float32, x), x, even)


def _bitcast(code: Code, types: tuple[DType, DType], dtype: DType, x: Value) -> Value:
    source, target = types
    if source.is_float and scalar_type(source) != x.type:
        x = code.one("arith.truncf", (x,), scalar_type(source))
    if scalar_type(source) != scalar_type(target):
        x = code.one("arith.bitcast", (x,), scalar_type(target))
    return x if target is dtype or not target.is_float else cast(code, target, dtype, x)


# --- what is more than one operation


def _not(code: Code, dtype: DType, x: Value) -> Value:
    ones = code.constant(True if dtype is bool_ else -1, x.type)
    return code.one("arith.xori", (x, ones), x.type)


def _negative(code: Code, dtype: DType, x: Value) -> Value:
    return code.one("arith.subi", (code.constant(0, x.type), x), x.type)


def _sign(code: Code, dtype: DType, x: Value) -> Value:
    if dtype.is_float:
        one = code.one("math.copysign", (code.constant(1.0, x.type), x), x.type)
        larger = compare(code, "lt", dtype, code.constant(0.0, x.type), code.one("math.absf", (x,), x.type))
        return select(code, larger, one, x)  # zeros and NaN are as they were
    zero = code.constant(0, x.type)
    negative = select(code, compare(code, "lt", dtype, x, zero), code.constant(-1, x.type), code.constant(1, x.type))
    return select(code, compare(code, "eq", dtype, x, zero), zero, negative)


def _reciprocal(code: Code, dtype: DType, x: Value) -> Value:
    return code.one("arith.divf", (code.constant(1.0, x.type), x), x.type)


def _isnan(code: Code, dtype: DType, x: Value) -> Value:
    return code.one("arith.cmpf", (x, x), BOOL, predicate=Typed(_UNORDERED, _I64))


def _same(code: Code, dtype: DType, x: Value) -> Value:
    return x


def _hypot(code: Code, dtype: DType, x: Value, y: Value) -> Value:
    """In float64, where squares of float32 neither overflow nor vanish."""
    if dtype is float64:
        raise refused("hypot", "of float64 it is no operation of math.")
    wide = [cast(code, dtype, float64, z) for z in (x, y)]
    squares = [code.one("arith.mulf", (z, z), z.type) for z in wide]
    total = code.one("arith.addf", squares, wide[0].type)
    return cast(code, float64, dtype, code.one("math.sqrt", (total,), total.type))


def _opposite(code: Code, dtype: DType, rest: Value, divisor: Value) -> Value:
    """Whether a remainder is not 0 and has the other sign than the divisor."""
    zero = code.constant(0.0 if dtype.is_float else 0, rest.type)
    signs = [compare(code, "lt", dtype, z, zero) for z in (rest, divisor)]
    differ = code.one("arith.xori", signs, BOOL)
    return code.one("arith.andi", (compare(code, "ne", dtype, rest, zero), differ), BOOL)


def _float_mod(code: Code, dtype: DType, a: Value, b: Value) -> Value:
    rest = code.one("arith.remf", (a, b), a.type)
    moved = code.one("arith.addf", (rest, b), a.type)
    found = select(code, _opposite(code, dtype, rest, b), moved, rest)
    zero = code.constant(0.0, a.type)
    signed = code.one("math.copysign", (zero, b), a.type)
    return select(code, compare(code, "eq", dtype, found, zero), signed, found)


def _float_floordiv(code: Code, dtype: DType, a: Value, b: Value) -> Value:
    """From the remainder, which is exact; of infinities and for zeros the quotient rounded down."""
    rest = code.one("arith.remf", (a, b), a.type)
    whole = code.one("arith.divf", (code.one("arith.subf", (a, rest), a.type), b), a.type)
    less = code.one("arith.subf", (whole, code.constant(1.0, a.type)), a.type)
    found = code.one("math.roundeven", (select(code, _opposite(code, dtype, rest, b), less, whole),), a.type)
    quotient = code.one("math.floor", (code.one("arith.divf", (a, b), a.type),), a.type)
    infinite = code.constant(float("inf"), a.type)
    special = compare(code, "eq", dtype, b, code.constant(0.0, a.type))
    for z in (a, b):
        is_infinite = compare(code, "eq", dtype, code.one("math.absf", (z,), z.type), infinite)
        special = code.one("arith.ori", (special, is_infinite), BOOL)
    return select(code, special, quotient, found)


def _divided(code: Code, dtype: DType, a: Value, b: Value, name: str) -> tuple[Value, Value, Value]:
    """A quotient or remainder as C has it, the divisor, and whether that was 0; it is 1 then, and where dividing would
    overflow.
    """
    zero, one = code.constant(0, a.type), code.constant(1, a.type)
    nothing = unfit = compare(code, "eq", dtype, b, zero)
    if dtype.is_signed:
        smallest = compare(code, "eq", dtype, a, code.constant(int(dtype.minimum), a.type))
        minus = compare(code, "eq", dtype, b, code.constant(-1, a.type))
        unfit = code.one("arith.ori", (unfit, code.one("arith.andi", (smallest, minus), BOOL)), BOOL)
    safe = select(code, unfit, one, b)
    found = code.one(f"arith.{name}{'si' if dtype.is_signed else 'ui'}", (a, safe), a.type)
    return found, safe, nothing


def _integer_mod(code: Code, dtype: DType, a: Value, b: Value) -> Value:
    rest, safe, nothing = _divided(code, dtype, a, b, "rem")
    if dtype.is_signed:
        moved = code.one("arith.addi", (rest, safe), a.type)
        rest = select(code, _opposite(code, dtype, rest, safe), moved, rest)
    return select(code, nothing, code.constant(0, a.type), rest)


def _integer_floordiv(code: Code, dtype: DType, a: Value, b: Value) -> Value:
    found, safe, nothing = _divided(code, dtype, a, b, "div")
    if dtype.is_signed:
        rest = code.one("arith.remsi", (a, safe), a.type)
        less = code.one("arith.subi", (found, code.constant(1, a.type)), a.type)
        found = select(code, _opposite(code, dtype, rest, safe), less, found)
    return select(code, nothing, code.constant(0, a.type), found)


def _shifted(code: Code, dtype: DType, a: Value, b: Value, operation: str) -> Value:
    inside = code.one("arith.cmpi", (b, code.constant(dtype.bits, b.type)), BOOL, predicate=Typed(6, _I64))
    count = select(code, inside, b, code.constant(0, b.type))
    return select(code, inside, code.one(operation, (a, count), a.type), code.constant(0, a.type))


_LONGER: Final[dict[tuple[str, str], Callable[..., Value]]] = {
    **{("not", kind): _not for kind in "bsu"},
    **{("neg", kind): _negative for kind in "su"},
    **{("sign", kind): _sign for kind in "fsu"},
    ("abs", "u"): _same,
    ("reciprocal", "f"): _reciprocal,
    ("isnan", "f"): _isnan,
    ("hypot", "f"): _hypot,
    ("mod", "f"): _float_mod,
    ("floordiv", "f"): _float_floordiv,
    **{("mod", kind): _integer_mod for kind in "su"},
    **{("floordiv", kind): _integer_floordiv for kind in "su"},
    **{("shl", kind): partial(_shifted, operation="arith.shli") for kind in "su"},
    ("shr", "s"): partial(_shifted, operation="arith.shrsi"),
    ("shr", "u"): partial(_shifted, operation="arith.shrui"),
}
