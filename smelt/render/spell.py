"""Spellings of C helpers that depend on the width of an element and the number of lanes.

Each is a text for a template of `library`, whose words it may use, or a function that takes (bits, lanes) and gives
one. Instructions are reached through compiler builtins behind feature checks, with a portable form beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from string import Template
from typing import NamedTuple


class Guarded(NamedTuple):
    """Texts, each with the feature check it needs, of which the compiler takes the first, and the text for others."""

    choices: tuple[tuple[str, str], ...]
    portable: str

    def __str__(self) -> str:
        texts = [f"if {feature}\n  {text}\n" for feature, text in self.choices]
        return "\n#" + "#el".join(texts) + f"#else\n  {self.portable}\n#endif\n"


Spelling = Callable[[int, int], str | Guarded]


def spelled(name: str, bits: int, lanes: int, own: Mapping[str, str], guards: bool) -> str:
    """A spelling, or the one that a language has of its own; without guards, its portable form."""
    spelling = own.get(name) or (_NUMBERS[name][bits == 64] if name in _NUMBERS else SPELLINGS[name])
    text = spelling if isinstance(spelling, str) else spelling(bits, lanes)
    return f"  {text.portable}" if isinstance(text, Guarded) and not guards else str(text)


def guarded(feature: str, special: str, portable: str) -> Guarded:
    """A text where a feature check holds, and another one elsewhere."""
    return Guarded(((feature, special),), portable)


def _avx512(bits: int, lanes: int) -> str:
    """The feature check for a masked instruction on whole vectors of this kind."""
    features = ["__AVX512F__", *(["__AVX512BW__"] if bits < 32 else [])]
    if bits * lanes < 512:
        features.append("__AVX512VL__")
    return " && ".join(f"defined({feature})" for feature in features)


def _words(bits: int, lanes: int) -> dict[str, str | int]:
    """What names of builtins, of registers and of feature checks depend on."""
    size, register = bits * lanes, _ARM_REGISTERS.get((bits, lanes), "")
    return {
        "lanes": lanes,
        "size": size,
        "bytes": size // 8,
        "suffix": "" if size == 128 else size,
        "letters": {8: "qi", 16: "hi", 32: "si", 64: "di"}[bits],
        "letter": _LETTERS[bits],
        "kind": "ps" if bits == 32 else "pd",
        "single": "ss" if bits == 32 else "sd",
        "whole": "f32x4" if bits == 32 else "f64x2",  # the vector that a scalar lies in
        "integers": f"{'c' if bits == 8 else 'i'}{bits}x{lanes}",  # of masked builtins: bytes are plain chars there
        "longs": f"i64x{size // 64}",
        "mask": f"u{max(8, lanes)}",
        "tail": ", 4" if size == 512 else "",  # rounding as it is set
        "vectors": f"defined({'__SSE2__' if size == 128 else '__AVX__' if size == 256 else '__AVX512F__'})",
        "rounding": f"defined({'__SSE4_1__' if size == 128 else '__AVX__' if size == 256 else '__AVX512F__'})",
        "masks": _avx512(bits, lanes),
        "float_masks": _avx512(32, lanes if size == 512 else 1),
        **{f"register{k}": register.format(k) for k in range(3)},
    }


class _Row(NamedTuple):
    """A text for some forms, and its feature check; both can use the words above. Forms are `short` (vectors of 128
    and 256 bits), `long` (of 512), `x1`, `x4` … (so many lanes), and `arm` (what fits a register there).
    """

    forms: str
    feature: str
    text: str


def _instructions(portable: str, *rows: _Row) -> Spelling:
    """The rows that are for a form, in this order."""

    def body(bits: int, lanes: int) -> str | Guarded:
        words = _words(bits, lanes)
        own = {f"x{lanes}", _SIZES.get(bits * lanes, ""), "arm" if (bits, lanes) in _ARM_REGISTERS else ""}
        fill = [(Template(feature), Template(text)) for forms, feature, text in rows if own & set(forms.split())]
        choices = tuple((feature.safe_substitute(words), text.safe_substitute(words)) for feature, text in fill)
        return Guarded(choices, portable) if choices else portable

    return body


def _by_builtin(name: str, arguments: str) -> _Row:
    """The builtin of clang for vectors of any size."""
    builtin = f"__builtin_elementwise_{name}"
    return _Row(_VECTOR, f"__has_builtin({builtin})", f"return {builtin}({arguments});")


def _by_gcc(forms: str, feature: str, call: str) -> _Row:
    return _Row(forms, f"{feature} && !defined(__clang__)", f"return __builtin_ia32_{call};")


def _if_known(forms: str, feature: str, builtin: str, text: str) -> _Row:
    """A text with a builtin, which it calls `NAME`."""
    name = f"__builtin_ia32_{builtin}"
    return _Row(forms, f"{feature} && __has_builtin({name})", text.replace("NAME", name))


_F16C, _ARM64 = "defined(__F16C__)", "defined(__aarch64__)"


def _asm(instruction: str, *operands: str, result: str = "T", register: str = "v") -> str:
    """One instruction, whose result is `r`."""
    inputs = ", ".join(f'"{register}"({operand})' for operand in operands)
    return f'{result} r; __asm__("{instruction}" : "={register}"(r) : {inputs});'


def _arm(instruction: str, *operands: str) -> _Row:
    """One instruction where the processor is a 64-bit ARM."""
    registers = ", ".join(f"$register{k}" for k in range(len(operands) + 1))
    return _Row("arm", _ARM64, f"{_asm(f'{instruction} {registers}', *operands, register='w')} return r;")


_LETTERS = {8: "b", 16: "w", 32: "d", 64: "q"}
_SIZES = {128: "short", 256: "short", 512: "long"}
_VECTOR = "short long"
# How 64-bit ARM names a register that holds this many elements of so many bits.
_ARM_REGISTERS = {(32, 1): "%s{}", (64, 1): "%d{}", (32, 2): "%{}.2s", (32, 4): "%{}.4s", (64, 2): "%{}.2d"}


def _streamed(call: str) -> str:
    return f"if ((u64)p % $bytes == 0) {{ {call}; return; }} *(T_u *)p = v;"


def _extreme(immediate: int, name: str, test: str, both: str) -> Spelling:
    """NaN wins; of two zeros, the one that `both` makes of their bits. Comparisons of scalars would become branches."""
    ordered = "__builtin_ia32_cmp${kind}${size}_mask(a, b, 7, ($mask)-1$tail)"
    vector = f"range${{kind}}${{size}}_mask(a, b, {immediate}, a + b, {ordered}$tail)"
    operands = f"($whole){{a}}, ($whole){{b}}, {immediate}, ($whole){{a + b}}"
    scalar = f"return NAME({operands}, (u8)!__builtin_isunordered(a, b), 4)[0];"
    return _instructions(
        f"T r = select@(a {test} b, a, b); r = select@(a == b, real@(bits@(a) {both} bits@(b)), r); "
        "return select@(a != a, a, r);",
        _arm(f"f{name[:3]}", "a", "b"),
        _if_known("x1", "defined(__AVX512DQ__)", "range${single}128_mask_round", scalar),
        _by_builtin(name, "a, b"),
        _by_gcc(_VECTOR, "$float_masks && defined(__AVX512DQ__)", vector),
    )


def _integer_extreme(name: str, test: str, sign: str) -> Spelling:
    operands = "($integers)a, ($integers)b, ($integers){}, ($mask)-1"
    return _instructions(
        f"return select@(a {test} b, a, b);",
        _by_builtin(name, "a, b"),
        _Row("long", "$masks", f"return (T)__builtin_ia32_p{name}{sign}${{letter}}512_mask({operands});"),
    )


def _limit(name: str, test: str) -> Spelling:
    """The instruction gives its second operand where the first or the second is NaN: x stays NaN."""
    instruction = f"{name}${{kind}}${{suffix}}"
    masked = f"return __builtin_ia32_{instruction}_mask(splat@(limit), x, x, ($mask)-1, 4);"
    return _instructions(
        f"return select@(x {test} limit, splat@(limit), x);",
        _arm(f"f{name}", "x", "splat@(limit)"),
        _if_known("x1", "defined(__SSE2__)", f"{name}$single", "return NAME(($whole){limit}, ($whole){x})[0];"),
        _if_known("short", "$vectors", instruction, "return (T)NAME(splat@(limit), x);"),
        _if_known("long", "$vectors", instruction, "return NAME(splat@(limit), x, 4);"),
        _Row("long", "$vectors", masked),
    )


def _rounded(arm: str, mode: int, clang: str, portable: str) -> Spelling:
    """Rounding to whole numbers; mode is the instruction's immediate."""
    return _instructions(
        portable,
        _arm(arm, "x"),
        _by_builtin(clang, "x"),
        _by_gcc("short", "$rounding", f"round${{kind}}${{suffix}}(x, {mode})"),
        _by_gcc("long", "$rounding", f"rndscale${{kind}}_mask(x, {mode}, x, ($mask)-1, 4)"),
    )


_STEPPED = "T r = round@(x); return copy_sign@(r {} select@(r {} x, splat@(1), splat@(0)), x);"


_WIDEN, _NARROW = "vcvtph2ps %1, %0", "vcvtps2ph $$0, %1, %0"
_widen_float16 = _instructions(
    "return widen_float16_by_bits@(h);",
    _Row("x1", _F16C, f"{_asm(_WIDEN, '(i16x8){(short)h}', result='f32x4')} return r[0];"),
    _Row("x8", _F16C, f"{_asm(_WIDEN, 'h')} return r;"),
    _Row("x16", "defined(__AVX512F__)", f"{_asm(_WIDEN, 'h')} return r;"),
    _Row("x1", _ARM64, "union { u16 i; __fp16 f; } u = {h}; return u.f;"),
    _Row("x4", _ARM64, f"{_asm('fcvtl %0.4s, %1.4h', 'h', register='w')} return r;"),
)
_narrow_float16 = _instructions(
    "return narrow_float16_by_bits@(x);",
    _Row("x1", _F16C, f"{_asm(_NARROW, '(f32x4){x}', result='i16x8')} return (u16)r[0];"),
    _Row("x8", _F16C, f"{_asm(_NARROW, 'x', result='U16')} return r;"),
    _Row("x16", "defined(__AVX512F__)", f"{_asm(_NARROW, 'x', result='U16')} return r;"),
    _Row("x1", _ARM64, "union { __fp16 f; u16 i; } u = {x}; return u.i;"),
    _Row("x4", _ARM64, f"{_asm('fcvtn %0.4h, %1.4s', 'x', result='U16', register='w')} return r;"),
)


def shuffled(a: str, b: str, lanes: Iterable[int]) -> str:
    """Lanes of two vectors, by their numbers."""
    return f"__builtin_shufflevector({a}, {b}, {', '.join(map(str, lanes))})"


def _part(first: int, lanes: int) -> str:
    """Half of a vector."""
    return f"v[{first}]" if lanes == 2 else shuffled("v", "v", range(first, first + lanes // 2))


def _transposed(bits: int, lanes: int) -> str:
    """Rows of memory as columns: in each round, rows some distance apart exchange the lanes that far apart."""
    rows = ", ".join(f"r{j} = *(const T_u *)(p + {j} * step)" for j in range(lanes))
    lines = [f"T {rows}, t;"]
    distance = 1
    while distance < lanes:
        low = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        high = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        for a, b in [(f"r{j}", f"r{j + distance}") for j in range(lanes) if not j & distance]:
            lines.append(f"t = {shuffled(a, b, low)}; {b} = {shuffled(a, b, high)}; {a} = t;")
        distance *= 2
    return "\n  ".join([*lines, *(f"out[{j}] = r{j};" for j in range(lanes))])


def _extend(letter: str, target: int) -> Spelling:
    """Integers in wider ones. gcc takes vectors apart for this, most of all those that come from memory."""
    kind, name = f"{'I' if letter == 's' else 'U'}{target}", f"vpmov{letter}x${{letter}}{_LETTERS[target]}"
    text = f'{kind} r; __asm__("{name} %1, %0" : "=v"(r) : "vm"(x)); return r;'
    sizes = {128: "__AVX__", 256: "__AVX2__", 512: "__AVX512BW__" if target == 16 else "__AVX512F__"}
    checks = {size // target: f"defined({check}) && !defined(__clang__)" for size, check in sizes.items()}
    rows = [_Row(f"x{lanes}", check, text) for lanes, check in checks.items() if lanes > 2]
    return _instructions(f"return __builtin_convertvector(x, {kind});", *rows)


def _byte_products(kinds: str) -> str:
    """Sums of four products of bytes, each signed (`s`) or unsigned (`u`)."""

    def byte(kind: str, name: str, j: int) -> str:
        return f"((T)((U){name} << {24 - 8 * j}) >> 24)" if kind == "s" else f"({name} >> {8 * j} & 255)"

    products = (f" + {byte(kinds[0], 'a', j)} * {byte(kinds[1], 'b', j)}" for j in range(4))
    return f"return sum{''.join(products)};"


# Where x86 has no such instructions, pairs of products are added: of bytes that are below 128 on one side, and of
# numbers of 16 bits, which all bytes fit.
_KINDS = "".join(
    f"typedef {kind} {name} __attribute__((vector_size($bytes))); "
    for name, kind in {"chars": "char", "shorts": "short", "halves": "unsigned short"}.items()
)
_EVEN = {"u": "(shorts)((halves){} & 255)", "s": "(shorts)((halves){} << 8) >> 8"}
_ODD = {"u": "(shorts)((halves){} >> 8)", "s": "(shorts){} >> 8"}
_PAIRS = {  # by lanes: what is needed for bytes, for numbers of 16 bits, the suffix of both, and whether it is masked
    "x4": ("__SSSE3__", "__SSE2__", "128", False),
    "x8": ("__AVX2__", "__AVX2__", "256", False),
    "x16": ("__AVX512BW__", "__AVX512BW__", "512_mask", True),
}


def _pairs(kinds: str) -> list[_Row]:
    """Sums of products by sums of two: of numbers of 16 bits (none), or of four, of unsigned bytes below 128 (`l`) by
    signed ones, or of any kinds.
    """
    rows = []
    for form, (of_bytes, of_words, suffix, masked) in _PAIRS.items():

        def words(a: str, b: str, size: str = suffix, tail: str = ", (T){}, (u16)-1" if masked else "") -> str:
            return f"(T)__builtin_ia32_pmaddwd{size}({a}, {b}{tail})"

        if not kinds:
            feature, total = of_words, words("(shorts)a", "(shorts)b")
        elif kinds[0] == "l":
            pairs = f"__builtin_ia32_pmaddubsw{suffix}((chars)a, (chars)b{', (shorts){}, (u32)-1' if masked else ''})"
            feature, total = of_bytes, words(f"(shorts){pairs}", "(shorts){} + 1")
        else:
            (a0, b0), (a1, b1) = ((p[kinds[0]].format("a"), p[kinds[1]].format("b")) for p in (_EVEN, _ODD))
            feature, total = of_words, f"{words(a0, b0)} + {words(a1, b1)}"
        rows.append(_Row(form, f"defined({feature})", f"{_KINDS}return sum + {total};"))
    return rows


def _dots(feature: str, choices: Iterable[tuple[str, str]], narrow: str = "") -> list[_Row]:
    """Inner products of words, added: instructions for four, eight and sixteen lanes; for fewer also `narrow`."""
    short = f"({feature} && defined(__AVX512VL__){narrow})"
    checks = {"x4": short, "x8": short, "x16": feature}
    return [_Row(x, check + more, text) for x, check in checks.items() for more, text in choices]


# Sums of two products of bfloat16, the upper halves of float32. Compilers differ in the types of the builtin.
_LOWER, _UPPER = (" * ".join(f"real@({half.format(x)})" for x in "ab") for half in ("(I)((U){} << 16)", "{} & -65536"))
_DPBF16 = '__asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); return sum;'
_add_dot2 = _instructions(f"return sum + {_LOWER} + {_UPPER};", *_dots("defined(__AVX512BF16__)", [("", _DPBF16)]))
# Sums of two products of 16 bits, which wrap.
_add_dot2_ss = _instructions(
    "return (T)((U)sum + (U)((T)((U)a << 16) >> 16) * (U)((T)((U)b << 16) >> 16) + (U)(a >> 16) * (U)(b >> 16));",
    *_pairs(""),
)
# Sums of four products of an unsigned and a signed byte; the instruction does not saturate either.
_VNNI = [f"__builtin_ia32_vpdpbusd{name}" for name in ("_v${lanes}si", "$size")]  # of gcc, of clang
# ARM multiplies bytes of one sign.
_SDOT = '__asm__("{}dot %0.4s, %1.16b, %2.{}" : "+w"(sum) : "w"(a), "w"(b)); return sum;'
_DOTPROD = "defined(__ARM_FEATURE_DOTPROD)"
# Elsewhere one of two signed factors is moved by 128, and what that adds is taken off.
_MOVED = "T f = splat@(-0x7f7f7f80); return {0}(sum, a ^ f, b) - {0}(a ^ a, f, b);"


def _four(kinds: str, of_unsigned: str, first: Iterable[_Row] = ()) -> Spelling:
    """Sums of four products of bytes, by the instruction for unsigned ones by signed ones and others."""
    portable = _byte_products(kinds.replace("l", "u"))
    choices = [(f" && __has_builtin({name})", of_unsigned.format(name)) for name in _VNNI]
    rows = _dots("defined(__AVX512VNNI__)", choices, " || defined(__AVXVNNI__)")
    return _instructions(portable, *first, *rows, *_pairs(kinds))


# Numbers of float32 and float64.
_NUMBERS = {
    "inf": ("__builtin_inff()", "__builtin_inf()"),
    "nan": ('__builtin_nanf("")', '__builtin_nan("")'),
    "mantissa": ("23", "52"),  # bits
    "bias": ("127", "1023"),  # of the exponent
    "magnitude": ("0x7fffffff", "0x7fffffffffffffffll"),  # all bits but the sign
    "log2e": ("0x1.715476p+0f", "0x1.71547652b82fep+0"),
    "ln2_high": ("0x1.62e4p-1f", "0x1.62e42fefp-1"),  # short, so that products with small integers are exact
    "ln2_low": ("0x1.7f7d1cp-20f", "0x1.473de6af278edp-34"),
}


_WHOLE = "~m << (64 - L) == 0"  # nothing is left out: so it is but at edges
_LOAD = "return (T)__builtin_ia32_loaddqu${letters}${size}_mask((const void *)p, ($integers){}, ($mask)m);"
_STORE = "__builtin_ia32_storedqu${letters}${size}_mask((void *)p, ($integers)v, ($mask)m);"
_NONTEMPORAL = "__builtin_nontemporal_store"
_SCALAR_SCALE = "return NAME(($whole){x}, ($whole){n}, ($whole){}, (u8)-1, 4)[0];"
_SCALE = "return __builtin_ia32_scalef${kind}${size}_mask(x, n, x, ($mask)-1$tail);"
# Below a limit 0, and nothing is multiplied; 5: not less than.
_KEPT = "__builtin_ia32_cmp${kind}512_mask(x, splat@(limit), 5, ($mask)-1, 4)"

SPELLINGS: dict[str, str | Spelling] = {
    "masked_load": _instructions(
        f"if ({_WHOLE}) return *(const T_u *)p; "
        "T r = {}; EACH_LANE (int j = 0; j < L; j++) if (m >> j & 1) r[j] = p[j]; return r;",
        _Row(_VECTOR, "$masks", _LOAD),
    ),
    "masked_store": _instructions(
        f"if ({_WHOLE}) *(T_u *)p = v; else EACH_LANE (int j = 0; j < L; j++) if (m >> j & 1) p[j] = v[j];",
        _Row(_VECTOR, "$masks", _STORE),
    ),
    "stream": _instructions(
        "*(T_u *)p = v;",
        _Row(_VECTOR, f"__has_builtin({_NONTEMPORAL})", _streamed(f"{_NONTEMPORAL}(v, (T *)p)")),
        _Row(_VECTOR, "$vectors", _streamed("__builtin_ia32_movntdq$suffix(($longs *)p, ($longs)v)")),
    ),
    "maximum": _extreme(5, "maximum", ">", "&"),
    "minimum": _extreme(4, "minimum", "<", "|"),
    **{f"maximum_{sign}": _integer_extreme("max", ">", sign[0]) for sign in ("signed", "unsigned")},
    **{f"minimum_{sign}": _integer_extreme("min", "<", sign[0]) for sign in ("signed", "unsigned")},
    "scalar_sqrt": _instructions("return $(__builtin_sqrtf|__builtin_sqrt)(x);", _arm("fsqrt", "x")),
    "sqrt": _instructions(
        "T r; EACH_LANE (int j = 0; j < L; j++) r[j] = $(__builtin_sqrtf|__builtin_sqrt)(x[j]); return r;",
        _arm("fsqrt", "x"),
        _by_builtin("sqrt", "x"),
        _by_gcc("short", "$vectors", "sqrt${kind}${suffix}(x)"),
        _by_gcc("long", "$vectors", "sqrt${kind}512_mask(x, x, ($mask)-1, 4)"),
    ),
    # x * 2**n for an integral n of any size, rounded once.
    "scale": _instructions(
        "return scale_in_steps@(x, n);",
        _if_known("x1", "defined(__AVX512F__)", "scalef${single}_mask_round", _SCALAR_SCALE),
        _Row(_VECTOR, "$float_masks", _SCALE),
    ),
    "scale_kept": _instructions(
        "M gone = x < limit; return select@(gone, splat@(0), scale@(q, select@(gone, splat@(0), n)));",
        _Row("long", "$vectors", f"return __builtin_ia32_scalef${{kind}}512_mask(q, n, (T){{}}, {_KEPT}, 4);"),
    ),
    "at_most": _limit("min", ">"),
    "at_least": _limit("max", "<"),
    "round": _rounded("frintn", 8, "roundeven", "return round_by_adding@(x);"),
    "floor": _rounded("frintm", 9, "floor", _STEPPED.format("-", ">")),
    "ceil": _rounded("frintp", 10, "ceil", _STEPPED.format("+", "<")),
    "trunc": _rounded("frintz", 11, "trunc", "return copy_sign@(floor@(absolute@(x)), x);"),
    "widen_float16": _widen_float16,
    "narrow_float16": _narrow_float16,
    "add_dot2": _add_dot2,
    "add_dot2_ss": _add_dot2_ss,
    "add_dot4": _four("us", "return {}(sum, a, b);"),
    "add_dot4_low": _four("ls", "return {}(sum, a, b);"),
    "add_dot4_ss": _four("ss", _MOVED, [_Row("x4", _DOTPROD, _SDOT.format("s", "16b"))]),
    "add_dot4_uu": _instructions(_byte_products("uu"), _Row("x4", _DOTPROD, _SDOT.format("u", "16b")), *_pairs("uu")),
    # One word for all lanes is taken from the first lane of a register, which a load fills for nothing.
    "add_dot4_ss_each": _instructions(
        "return add_dot4_ss@(sum, a, splat@(b));", _Row("x4", _DOTPROD, _SDOT.format("s", "4b[0]"))
    ),
    **{f"{name}_extend_{n}": _extend(name[0], n) for name in ("sign", "zero") for n in (16, 32, 64)},
    "multiply_high": "(u64)((unsigned __int128)a * b >> 64)",
    "bytes": lambda bits, lanes: f"u8x{lanes * bits // 8}",
    "iota": lambda bits, lanes: ", ".join(map(str, range(lanes))),
    "low": lambda bits, lanes: _part(0, lanes),
    "high": lambda bits, lanes: _part(lanes // 2, lanes),
    "join": lambda bits, lanes: "(T){a, b}" if lanes == 2 else shuffled("a", "b", range(lanes)),
    "gather": lambda bits, lanes: ", ".join(f"p[{j} * step]" for j in range(lanes)),
    # Elements 0, 2, 4, … of memory; the second vector begins one element early, so as not to read past the last.
    "every_second": lambda bits, lanes: shuffled("a", "b", [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]),
    "transposed": _transposed,
}
