"""Integer arithmetic with its edges defined, and conversions from floats to integers that saturate."""

_TEXT = r"""
@@ sign_extend_16 i8 vector: I16(T x) { $sign_extend_16 }
@@ zero_extend_16 u8 vector: U16(T x) { $zero_extend_16 }
@@ sign_extend_32 i8 i16 vector: I32(T x) { $sign_extend_32 }
@@ zero_extend_32 u8 u16 vector: U32(T x) { $zero_extend_32 }
@@ sign_extend_64 i8 i16 i32 vector: I64(T x) { $sign_extend_64 }
@@ zero_extend_64 u8 u16 u32 vector: U64(T x) { $zero_extend_64 }
@@ dot2_ss|dot4|dot4_low|dot4_ss|dot4_uu i32: T(T a, T b) = add_NAME@(a ^ a, a, b)
@@ add_dot2_ss|add_dot4|add_dot4_low|add_dot4_ss|add_dot4_uu i32: T(T sum, T a, T b) { $NAME }
@@ add_dot4_ss_each i32 vector: T(T sum, T a, E b) { $add_dot4_ss_each }
@@ dot2 i32: F(T a, T b) = add_dot2@F(splat@F(0), a, b)
@@ add_dot2 f32: T(T sum, I a, I b) { $add_dot2 }
@@ shr_bytes i32 scalar: T(T a, T b) = (T)((U)a >> (b & 7) & (0xffu >> (b & 7)) * 0x1010101u)
@@ shr_bytes i32 vector: T(T a, T b) = (T)(($bytes)a >> ($bytes)((U)(b & 7) * 0x1010101u))
@@ absolute signed: T(T x) = select@(x < 0, (T)-(U)x, x)
@@ absolute unsigned: T(T x) = x
@@ sign signed: T(T x) = select@(x > 0, splat@(1), select@(x < 0, splat@(-1), splat@(0)))
@@ sign unsigned: T(T x) = select@(x > 0, splat@(1), splat@(0))

@@ floordiv signed scalar lanewise: T(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return (T)-(U)a;
  return a / b - (a % b != 0 && (a ^ b) < 0);
}

@@ floordiv unsigned scalar lanewise: T(T a, T b) = b == 0 ? 0 : a / b

@@ mod signed scalar lanewise: T(T a, T b) {
  if (b == 0 || b == -1) return 0;
  T r = a % b;
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}

@@ mod unsigned scalar lanewise: T(T a, T b) = b == 0 ? 0 : a % b

@@ pow int scalar lanewise: static T(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  U result = 1, power = a;
  for (; b; b >>= 1, power *= power) if (b & 1) result *= power;
  return result;
}

@@ shl int scalar: T(T a, T b) = (U)b < W ? (U)a << b : 0
@@ shr int scalar: T(T a, T b) = (U)b < W ? a >> b : 0
@@ shl int vector: T(T a, T b) = (T)((U)a << ((U)b & splat@U(W - 1)) & (U)((U)b < splat@U(W)))
@@ shr int vector: T(T a, T b) = (a >> (T)((U)b & splat@U(W - 1))) & (T)((U)b < splat@U(W))
"""

# A clamp in the float's own arithmetic serves where the limits are exact floats.
_CLAMPED = r"""
@@ saturate_{name} {source}: {target}(T x) {{
  T y = select@(x > {most}, splat@({most}), x);
  y = select@(y < {low}, splat@({low}), y);
  y = select@(x != x, splat@(0), y);
  return CONVERT({inner}, {target});
}}
"""
# The largest integer is no float here: what is out of range is replaced after the conversion.
_REPLACED = r"""
@@ saturate_{name} {source}: {target}(T x) {{
  M high = x >= {above}, low = x <= {low};
  {target} r = CONVERT(select@(high | low | (M)(x != x), splat@(0), x), {target});
  r = select@{target}(CONVERT(high, I{bits}), splat@{target}({maximum}), r);
  return select@{target}(CONVERT(low, I{bits}), splat@{target}({minimum}), r);
}}
"""
_EXACT = {"f32": 24, "f64": 53}  # bits of integers that a float holds


def _conversion(source: str, name: str) -> str:
    """From a float to an integer type."""
    bits, signed = int(name[1:]), name[0] == "i"
    above, suffix = 1 << (bits - signed), "ll" if signed else "ull"
    return (_CLAMPED if bits <= _EXACT[source] else _REPLACED).format(
        **{"source": source, "name": name, "target": name.upper(), "bits": bits},
        **{"above": f"{above}.0f", "most": f"{above - 1}.0f", "low": f"{-above if signed else 0}.0f"},
        maximum=f"{above - 1}{suffix}",
        minimum=f"-{above - 1}{suffix} - 1" if signed else "0",
        inner="y" if bits == 32 else "CONVERT(y, I)",
    )


TEXT = _TEXT + "".join(_conversion(f"f{n}", f"{kind}{k}") for kind in "iu" for k in (8, 16, 32, 64) for n in (32, 64))
