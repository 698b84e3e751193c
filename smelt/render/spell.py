"""Spellings of C helpers that depend on the width of an element and the number of lanes.

Each takes (bits, lanes, is_float) and gives text for a template of `library`, whose words it may use. Instructions are
reached through compiler builtins behind feature checks, with a portable form beside them; vectors wider than the
machine's are cut in halves.
"""

from __future__ import annotations

import re
from collections.abc import Callable

_LETTERS = {8: "qi", 16: "hi", 32: "si", 64: "di"}
_PORTABLE_LOAD = "T r = {}; for (int j = 0; j < L; j++) if (m >> j & 1) r[j] = p[j]; return r;"
_PORTABLE_STORE = "for (int j = 0; j < L; j++) if (m >> j & 1) p[j] = v[j];"


_GUARDED = re.compile(r"\n#if .*?\n#else\n(.*?)\n#endif\n", re.DOTALL)


def _guarded(feature: str, special: str, portable: str) -> str:
    return f"\n#if {feature}\n  {special}\n#else\n  {portable}\n#endif\n"


def portable(text: str) -> str:
    """A spelling without what depends on features of the C compiler."""
    return _GUARDED.sub(r"\1", text)


def _avx512(bits: int, lanes: int, narrow: str = "BW") -> str:
    """The feature check for a masked instruction on whole vectors of this kind."""
    features = ["__AVX512F__"]
    if bits < 32:
        features.append(f"__AVX512{narrow}__")
    if bits * lanes < 512:
        features.append("__AVX512VL__")
    return " && ".join(f"defined({feature})" for feature in features)


def _bits_type(lanes: int) -> str:
    return f"u{max(8, lanes)}"


def _integers(bits: int, lanes: int) -> str:
    """The vector type that masked builtins take; bytes are plain chars there."""
    return f"{'c' if bits == 8 else 'i'}{bits}x{lanes}"


def _masked_load(bits: int, lanes: int, is_float: bool) -> str:
    size = bits * lanes
    if size > 512:
        return "return join@(masked_load@H(p, m), masked_load@H(p + L / 2, m >> L / 2));"
    if size < 128:
        return _PORTABLE_LOAD
    kind = _integers(bits, lanes)
    call = f"__builtin_ia32_loaddqu{_LETTERS[bits]}{size}_mask((const void *)p, ({kind}){{}}, ({_bits_type(lanes)})m)"
    return _guarded(_avx512(bits, lanes), f"return (T){call};", _PORTABLE_LOAD)


def _masked_store(bits: int, lanes: int, is_float: bool) -> str:
    size = bits * lanes
    if size > 512:
        return "masked_store@H(p, low@(v), m); masked_store@H(p + L / 2, high@(v), m >> L / 2);"
    if size < 128:
        return _PORTABLE_STORE
    kind = _integers(bits, lanes)
    call = f"__builtin_ia32_storedqu{_LETTERS[bits]}{size}_mask((void *)p, ({kind})v, ({_bits_type(lanes)})m)"
    return _guarded(_avx512(bits, lanes), f"{call};", _PORTABLE_STORE)


def _stream(bits: int, lanes: int, is_float: bool) -> str:
    size = bits * lanes
    if size > 512:
        return "stream@H(p, low@(v)); stream@H(p + L / 2, high@(v));"
    plain = "*(T_u *)p = v;"
    if size < 128:
        return plain
    feature = {512: "defined(__AVX512F__)", 256: "defined(__AVX__)", 128: "defined(__SSE2__)"}[size]
    name = {512: "movntdq512", 256: "movntdq256", 128: "movntdq"}[size]
    kind = f"i64x{size // 64}"
    aligned = f"if ((u64)p % {size // 8} == 0) {{ __builtin_ia32_{name}(({kind} *)p, ({kind})v); return; }} {plain}"
    clang = f"if ((u64)p % {size // 8} == 0) {{ __builtin_nontemporal_store(v, (T *)p); return; }} {plain}"
    portable = f"#elif {feature}\n  {aligned}\n#else\n  {plain}\n#endif\n"
    return f"\n#if __has_builtin(__builtin_nontemporal_store)\n  {clang}\n{portable}"


def _maximum(imm: int, name: str, both: str) -> Callable[[int, int, bool], str]:
    """NaN wins; of two zeros, the one that `both` makes of their bits."""

    def body(bits: int, lanes: int, is_float: bool) -> str:
        size = bits * lanes
        test = {"maximum": "a > b", "minimum": "a < b"}[name]
        portable = (
            f"T r = select@({test}, a, b); r = select@(a == b, real@(bits@(a) {both} bits@(b)), r); "
            "return select@(a != a, a, r);"
        )
        if lanes == 1:  # comparisons would become branches
            kind, whole = ("ss", "f32x4") if bits == 32 else ("sd", "f64x2")
            builtin = f"__builtin_ia32_range{kind}128_mask_round"
            operands = f"({whole}){{a}}, ({whole}){{b}}, {imm}, ({whole}){{a + b}}"
            call = f"return {builtin}({operands}, (u8)!__builtin_isunordered(a, b), 4)[0];"
            return _guarded(f"defined(__AVX512DQ__) && __has_builtin({builtin})", call, portable)
        if size > 512:
            return f"return join@({name}@H(low@(a), low@(b)), {name}@H(high@(a), high@(b)));"
        if size < 128:
            return portable
        kind, mask = ("ps" if bits == 32 else "pd"), _bits_type(lanes)
        tail = ", 4" if size == 512 else ""
        ordered = f"__builtin_ia32_cmp{kind}{size}_mask(a, b, 7, ({mask})-1{tail})"
        call = f"return __builtin_ia32_range{kind}{size}_mask(a, b, {imm}, a + b, {ordered}{tail});"
        feature = _avx512(32, lanes if size == 512 else 1) + " && defined(__AVX512DQ__)"
        return (
            f"\n#if __has_builtin(__builtin_elementwise_{name})\n  return __builtin_elementwise_{name}(a, b);\n"
            f"#elif {feature} && !defined(__clang__)\n  {call}\n#else\n  {portable}\n#endif\n"
        )

    return body


# How 64-bit ARM names a register that holds this many elements of so many bits.
_ARM_REGISTERS = {(32, 1): "%s{}", (64, 1): "%d{}", (32, 2): "%{}.2s", (32, 4): "%{}.4s", (64, 2): "%{}.2d"}


def _arm(
    instruction: str, operands: tuple[str, ...], body: Callable[[int, int, bool], str]
) -> Callable[[int, int, bool], str]:
    """One instruction where the processor is a 64-bit ARM, and `body` elsewhere."""

    def with_arm(bits: int, lanes: int, is_float: bool) -> str:
        others = body(bits, lanes, is_float)
        register = _ARM_REGISTERS.get((bits, lanes))
        if register is None:
            return others
        registers = ", ".join(register.format(k) for k in range(len(operands) + 1))
        inputs = ", ".join(f'"w"({operand})' for operand in operands)
        call = f'T r; __asm__("{instruction} {registers}" : "=w"(r) : {inputs}); return r;'
        first = "#if "
        if others.startswith("\n" + first):
            return f"\n#if defined(__aarch64__)\n  {call}\n#elif {others[1 + len(first) :]}"
        return _guarded("defined(__aarch64__)", call, others)

    return with_arm


def _sqrt(bits: int, lanes: int, is_float: bool) -> str:
    size = bits * lanes
    scalar = "__builtin_sqrtf" if bits == 32 else "__builtin_sqrt"
    if lanes == 1:
        return f"return {scalar}(x);"
    if size > 512:
        return "return join@(sqrt@H(low@(x)), sqrt@H(high@(x)));"
    portable = f"T r; for (int j = 0; j < L; j++) r[j] = {scalar}(x[j]); return r;"
    if size < 128:
        return portable
    kind = "ps" if bits == 32 else "pd"
    if size == 512:
        feature = "defined(__AVX512F__)"
        call = f"__builtin_ia32_sqrt{kind}512_mask(x, x, ({_bits_type(lanes)})-1, 4)"
    else:
        feature, call = (
            ("defined(__AVX__)", f"__builtin_ia32_sqrt{kind}256(x)")
            if size == 256
            else ("defined(__SSE2__)", f"__builtin_ia32_sqrt{kind}(x)")
        )
    return (
        f"\n#if __has_builtin(__builtin_elementwise_sqrt)\n  return __builtin_elementwise_sqrt(x);\n"
        f"#elif {feature} && !defined(__clang__)\n  return {call};\n#else\n  {portable}\n#endif\n"
    )


def _limit(instruction: str, test: str) -> Callable[[int, int, bool], str]:
    """The instruction gives its second operand where the first or the second is NaN: x stays NaN."""

    def body(bits: int, lanes: int, is_float: bool) -> str:
        size = bits * lanes
        portable = f"return select@(x {test} limit, splat@(limit), x);"
        if lanes == 1:  # a comparison would become a branch
            kind, whole = ("ss", "f32x4") if bits == 32 else ("sd", "f64x2")
            name = f"__builtin_ia32_{instruction}{kind}"
            call = f"return {name}(({whole}){{limit}}, ({whole}){{x}})[0];"
            return _guarded(f"defined(__SSE2__) && __has_builtin({name})", call, portable)
        if size not in (128, 256, 512):
            return portable
        kind = "ps" if bits == 32 else "pd"
        if size < 512:
            feature = "defined(__AVX__)" if size == 256 else "defined(__SSE2__)"
            call = f"__builtin_ia32_{instruction}{kind}{size if size == 256 else ''}"
            return _guarded(f"{feature} && __has_builtin({call})", f"return (T){call}(splat@(limit), x);", portable)
        name = f"__builtin_ia32_{instruction}{kind}512"
        return (
            f"\n#if defined(__AVX512F__) && __has_builtin({name})\n  return {name}(splat@(limit), x, 4);\n"
            f"#elif defined(__AVX512F__)\n"
            f"  return {name}_mask(splat@(limit), x, x, ({_bits_type(lanes)})-1, 4);\n"
            f"#else\n  {portable}\n#endif\n"
        )

    return body


def _rounded(mode: int, clang: str, portable: str) -> Callable[[int, int, bool], str]:
    """Rounding to whole numbers; mode is the instruction's immediate."""

    def body(bits: int, lanes: int, is_float: bool) -> str:
        size = bits * lanes
        if lanes == 1 or size not in (128, 256, 512):
            return portable
        kind = "ps" if bits == 32 else "pd"
        if size == 512:
            feature = "defined(__AVX512F__)"
            call = f"__builtin_ia32_rndscale{kind}_mask(x, {mode}, x, ({_bits_type(lanes)})-1, 4)"
        else:
            feature = "defined(__AVX__)" if size == 256 else "defined(__SSE4_1__)"
            call = f"__builtin_ia32_round{kind}{size if size == 256 else ''}(x, {mode})"
        return (
            f"\n#if __has_builtin(__builtin_elementwise_{clang})\n  return __builtin_elementwise_{clang}(x);\n"
            f"#elif {feature} && !defined(__clang__)\n  return {call};\n#else\n  {portable}\n#endif\n"
        )

    return body


_STEPPED = "T r = round@(x); return copy_sign@(r {} select@(r {} x, splat@(1), splat@(0)), x);"


def _scale(bits: int, lanes: int, is_float: bool) -> str:
    """x * 2**n for an integral n of any size, rounded once."""
    size = bits * lanes
    portable = "return scale_in_steps@(x, n);"
    if lanes == 1:
        kind, whole = ("ss", "f32x4") if bits == 32 else ("sd", "f64x2")
        name = f"__builtin_ia32_scalef{kind}_mask_round"
        call = f"return {name}(({whole}){{x}}, ({whole}){{n}}, ({whole}){{}}, (u8)-1, 4)[0];"
        return _guarded(f"defined(__AVX512F__) && __has_builtin({name})", call, portable)
    if size < 128:
        return portable
    if size > 512:
        return "return join@(scale@H(low@(x), low@(n)), scale@H(high@(x), high@(n)));"
    kind, mask = ("ps" if bits == 32 else "pd"), _bits_type(lanes)
    tail = ", 4" if size == 512 else ""
    call = f"return __builtin_ia32_scalef{kind}{size}_mask(x, n, x, ({mask})-1{tail});"
    return _guarded(_avx512(32, lanes if size == 512 else 1), call, portable)


def _scale_kept(bits: int, lanes: int, is_float: bool) -> str:
    """The same where a number is not below a limit, and 0 elsewhere, where nothing is multiplied."""
    size = bits * lanes
    portable = "M gone = x < limit; return select@(gone, splat@(0), scale@(q, select@(gone, splat@(0), n)));"
    if lanes == 1 or size != 512:
        return portable
    kind, mask = ("ps" if bits == 32 else "pd"), _bits_type(lanes)
    kept = f"__builtin_ia32_cmp{kind}512_mask(x, splat@(limit), 5, ({mask})-1, 4)"  # 5: not less than
    call = f"return __builtin_ia32_scalef{kind}512_mask(q, n, (T){{}}, {kept}, 4);"
    return _guarded("defined(__AVX512F__)", call, portable)


def _float16(
    builtin: dict[int, str], arm: dict[int, str], converted: str, portable: str
) -> Callable[[int, int, bool], str]:
    """A conversion to or from float16: by builtin (by number of lanes), by an instruction of 64-bit ARM, by the
    compiler's own type, or by bits.
    """

    def body(bits: int, lanes: int, is_float: bool) -> str:
        if lanes == 4:
            return _guarded("defined(__aarch64__)", arm[lanes], f"return {portable};")
        feature = f"defined({'__AVX512F__' if lanes == 16 else '__F16C__'})"
        if lanes not in builtin:
            return f"return {portable};"
        found = re.search(r"__builtin_\w+", builtin[lanes])
        name = found[0] if found else ""
        vector = "" if lanes == 1 else f" __attribute__((vector_size({2 * lanes})))"
        return (
            f"\n#if {feature} && __has_builtin({name})\n  return {builtin[lanes]};\n"
            f"#elif {feature} && defined(__clang__)\n  typedef _Float16 half{vector};\n  {converted}\n"
            + (f"#elif defined(__aarch64__)\n  {arm[lanes]}\n" if lanes in arm else "")
            + f"#else\n  return {portable};\n#endif\n"
        )

    return body


_widen_float16 = _float16(
    {
        1: "__builtin_ia32_vcvtph2ps((i16x8){(short)h})[0]",
        8: "__builtin_ia32_vcvtph2ps256((i16x8)h)",
        16: "__builtin_ia32_vcvtph2ps512_mask((i16x16)h, (T){}, (u16)-1, 4)",
    },
    {
        1: "union { u16 i; __fp16 f; } u = {h}; return u.f;",
        4: 'T r; __asm__("fcvtl %0.4s, %1.4h" : "=w"(r) : "w"(h)); return r;',
    },
    "union { U16 i; half f; } u = {h}; return CONVERT(u.f, T);",
    "widen_float16_by_bits@(h)",
)
_narrow_float16 = _float16(
    {
        1: "(u16)__builtin_ia32_vcvtps2ph((f32x4){x}, 0)[0]",
        8: "(U16)__builtin_ia32_vcvtps2ph256(x, 0)",
        16: "(U16)__builtin_ia32_vcvtps2ph512_mask(x, 0, (i16x16){}, (u16)-1)",
    },
    {
        1: "union { __fp16 f; u16 i; } u = {x}; return u.i;",
        4: 'U16 r; __asm__("fcvtn %0.4h, %1.4s" : "=w"(r) : "w"(x)); return r;',
    },
    "union { half f; U16 i; } u = {CONVERT(x, half)}; return u.i;",
    "narrow_float16_by_bits@(x)",
)


def _halved(
    name: str, body: Callable[[int, int, bool], str], result: str, argument: str
) -> Callable[[int, int, bool], str]:
    """More than 16 lanes in halves."""
    variable = {"T": "x", "U16": "h"}[argument]
    low, high = (f"{name}@H({half}@{argument}({variable}))" for half in ("low", "high"))
    return lambda bits, lanes, is_float: (
        f"return join@{result}({low}, {high});" if lanes > 16 else body(bits, lanes, is_float)
    )


def _numbers(first: int, count: int) -> str:
    return ", ".join(str(first + j) for j in range(count))


def _half(offset: bool) -> Callable[[int, int, bool], str]:
    def body(bits: int, lanes: int, is_float: bool) -> str:
        first = lanes // 2 if offset else 0
        return f"v[{first}]" if lanes == 2 else f"__builtin_shufflevector(v, v, {_numbers(first, lanes // 2)})"

    return body


def _join(bits: int, lanes: int, is_float: bool) -> str:
    return "(T){a, b}" if lanes == 2 else f"__builtin_shufflevector(a, b, {_numbers(0, lanes)})"


def _gather(bits: int, lanes: int, is_float: bool) -> str:
    return ", ".join(f"p[{j} * step]" for j in range(lanes))


def _transposed(bits: int, lanes: int, is_float: bool) -> str:
    """Rows of memory as columns: in each round, rows some distance apart exchange the lanes that far apart."""
    names = [f"r{j}" for j in range(lanes)]
    lines = [f"T {', '.join(f'{name} = *(const T_u *)(p + {j} * step)' for j, name in enumerate(names))}, t;"]
    distance = 1
    while distance < lanes:
        low = [j if not j & distance else lanes + j - distance for j in range(lanes)]
        high = [j + distance if not j & distance else lanes + j for j in range(lanes)]
        for a, b in [(j, j + distance) for j in range(lanes) if not j & distance]:
            picks = [f"__builtin_shufflevector(r{a}, r{b}, {', '.join(map(str, picked))})" for picked in (low, high)]
            lines.append(f"t = {picks[0]}; r{b} = {picks[1]}; r{a} = t;")
        distance *= 2
    lines += [f"out[{j}] = {name};" for j, name in enumerate(names)]
    return "\n  ".join(lines)


def _every_second(bits: int, lanes: int, is_float: bool) -> str:
    """Elements 0, 2, 4, … of memory; the second vector begins one element early, so as not to read past the last."""
    picked = [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)]
    return f"__builtin_shufflevector(a, b, {', '.join(map(str, picked))})"


def _extend(letter: str, target: int) -> Callable[[int, int, bool], str]:
    """Integers in wider ones. gcc takes vectors apart for this, most of all those that come from memory."""
    sizes = {8: "b", 16: "w", 32: "d", 64: "q"}

    def body(bits: int, lanes: int, is_float: bool) -> str:
        kind = f"{'i' if letter == 's' else 'u'}{target}x{lanes}"
        plain = f"return __builtin_convertvector(x, {kind});"
        name = f"__builtin_ia32_pmov{letter}x{sizes[bits]}{sizes[target]}512_mask"
        if bits * lanes < 128:
            return plain
        if target * lanes != 512:
            hidden = f'__asm__("" : "+x"(x)); {plain}'
            return _guarded("defined(__SSE2__) && !defined(__clang__)", hidden, plain) if target > 2 * bits else plain
        whole, wide, mask = _integers(bits, lanes), f"i{target}x{lanes}", f"u{max(8, lanes)}"
        call = f"return ({kind}){name}(({whole})x, ({wide}){{}}, ({mask})-1);"
        return _guarded(f"{_avx512(bits if target < 32 else 32, lanes)} && __has_builtin({name})", call, plain)

    return body


def _byte_products(kinds: str, names: str) -> str:
    """Sums of four products of bytes, each signed (`s`) or unsigned (`u`)."""

    def byte(kind: str, name: str, j: int) -> str:
        return f"((T)((U){name} << {24 - 8 * j}) >> 24)" if kind == "s" else f"({name} >> {8 * j} & 255)"

    products = (f" + {byte(kinds[0], names[0], j)} * {byte(kinds[1], names[1], j)}" for j in range(4))
    return f"return sum{''.join(products)};"


def _add_dot2(bits: int, lanes: int, is_float: bool) -> str:
    """Sums of two products of bfloat16, the upper halves of float32. Compilers differ in the types of the builtin."""
    halves = ("(I)((U){} << 16)", "{} & -65536")
    low, high = (" * ".join(f"real@({half.format(name)})" for name in "ab") for half in halves)
    portable = f"return sum + {low} + {high};"
    if lanes not in (4, 8, 16):
        return portable
    feature = "defined(__AVX512BF16__)" + ("" if lanes == 16 else " && defined(__AVX512VL__)")
    return _guarded(feature, '__asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); return sum;', portable)


def _add_dot4(bits: int, lanes: int, is_float: bool) -> str:
    """Sums of four products of an unsigned and a signed byte; the instruction does not saturate either."""
    portable = _byte_products("us", "us")
    if lanes not in (4, 8, 16):
        return portable
    feature = "defined(__AVX512VNNI__)" + ("" if lanes == 16 else " && defined(__AVX512VL__)")
    gcc, clang = f"__builtin_ia32_vpdpbusd_v{lanes}si", f"__builtin_ia32_vpdpbusd{32 * lanes}"
    return (
        f"\n#if {feature} && __has_builtin({gcc})\n  return {gcc}(sum, u, s);\n"
        f"#elif {feature} && __has_builtin({clang})\n  return {clang}(sum, u, s);\n"
        f"#else\n  {portable}\n#endif\n"
    )


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


def _number(name: str) -> Callable[[int, int, bool], str]:
    return lambda bits, lanes, is_float: _NUMBERS[name][bits == 64]


SPELLINGS: dict[str, Callable[[int, int, bool], str]] = {
    **{name: _number(name) for name in _NUMBERS},
    "masked_load": _masked_load,
    "masked_store": _masked_store,
    "stream": _stream,
    "maximum": _arm("fmax", ("a", "b"), _maximum(5, "maximum", "&")),
    "minimum": _arm("fmin", ("a", "b"), _maximum(4, "minimum", "|")),
    "sqrt": _arm("fsqrt", ("x",), _sqrt),
    "scale": _scale,
    "scale_kept": _scale_kept,
    "at_most": _arm("fmin", ("x", "splat@(limit)"), _limit("min", ">")),
    "at_least": _arm("fmax", ("x", "splat@(limit)"), _limit("max", "<")),
    "round": _arm("frintn", ("x",), _rounded(8, "roundeven", "return round_by_adding@(x);")),
    "floor": _arm("frintm", ("x",), _rounded(9, "floor", _STEPPED.format("-", ">"))),
    "ceil": _arm("frintp", ("x",), _rounded(10, "ceil", _STEPPED.format("+", "<"))),
    "trunc": _arm("frintz", ("x",), _rounded(11, "trunc", "return copy_sign@(floor@(absolute@(x)), x);")),
    "widen_float16": _halved("widen_float16", _widen_float16, "T", "U16"),
    "narrow_float16": _halved("narrow_float16", _narrow_float16, "U16", "T"),
    "add_dot2": _add_dot2,
    "add_dot4": _add_dot4,
    "add_dot4_ss": lambda bits, lanes, is_float: _byte_products("ss", "ab"),
    "add_dot4_uu": lambda bits, lanes, is_float: _byte_products("uu", "ab"),
    **{f"{name}_extend_{n}": _extend(name[0], n) for name in ("sign", "zero") for n in (16, 32, 64)},
    "multiply_high": lambda bits, lanes, is_float: "(u64)((unsigned __int128)a * b >> 64)",
    "iota": lambda bits, lanes, is_float: _numbers(0, lanes),
    "low": _half(False),
    "high": _half(True),
    "join": _join,
    "gather": _gather,
    "every_second": _every_second,
    "transposed": _transposed,
}
