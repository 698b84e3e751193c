"""Integer arithmetic with its edges defined, and conversions from floats to integers that saturate."""

_TEXT = r"""
@@ sign_extend_16 i8 vector
INLINE I16 sign_extend_16@(T x) { $sign_extend_16 }

@@ zero_extend_16 u8 vector
INLINE U16 zero_extend_16@(T x) { $zero_extend_16 }

@@ sign_extend_32 i8 i16 vector
INLINE I32 sign_extend_32@(T x) { $sign_extend_32 }

@@ zero_extend_32 u8 u16 vector
INLINE U32 zero_extend_32@(T x) { $zero_extend_32 }

@@ sign_extend_64 i8 i16 i32 vector
INLINE I64 sign_extend_64@(T x) { $sign_extend_64 }

@@ zero_extend_64 u8 u16 u32 vector
INLINE U64 zero_extend_64@(T x) { $zero_extend_64 }

@@ dot4 i32
INLINE T dot4@(T u, T s) { return add_dot4@(u ^ u, u, s); }

@@ add_dot4 i32
INLINE T add_dot4@(T sum, T u, T s) { $add_dot4 }

@@ dot4_ss i32
INLINE T dot4_ss@(T a, T b) { return add_dot4_ss@(a ^ a, a, b); }

@@ add_dot4_ss i32
INLINE T add_dot4_ss@(T sum, T a, T b) { $add_dot4_ss }

@@ dot4_uu i32
INLINE T dot4_uu@(T a, T b) { return add_dot4_uu@(a ^ a, a, b); }

@@ add_dot4_uu i32
INLINE T add_dot4_uu@(T sum, T a, T b) { $add_dot4_uu }

@@ dot2 i32
INLINE F dot2@(T a, T b) { return add_dot2@F(splat@F(0), a, b); }

@@ add_dot2 f32
INLINE T add_dot2@(T sum, I a, I b) { $add_dot2 }

@@ absolute signed
INLINE T absolute@(T x) { return select@(x < 0, (T)-(U)x, x); }

@@ absolute unsigned
INLINE T absolute@(T x) { return x; }

@@ sign signed
INLINE T sign@(T x) { return select@(x > 0, splat@(1), select@(x < 0, splat@(-1), splat@(0))); }

@@ sign unsigned
INLINE T sign@(T x) { return select@(x > 0, splat@(1), splat@(0)); }

@@ floordiv signed scalar
INLINE T floordiv@(T a, T b) {
  if (b == 0) return 0;
  if (b == -1) return (T)-(U)a;
  return a / b - (a % b != 0 && (a ^ b) < 0);
}

@@ floordiv unsigned scalar
INLINE T floordiv@(T a, T b) { return b == 0 ? 0 : a / b; }

@@ mod signed scalar
INLINE T mod@(T a, T b) {
  if (b == 0 || b == -1) return 0;
  T r = a % b;
  return r != 0 && (r ^ b) < 0 ? r + b : r;
}

@@ mod unsigned scalar
INLINE T mod@(T a, T b) { return b == 0 ? 0 : a % b; }

@@ pow signed scalar
static T pow@(T a, T b) {
  if (b < 0) return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  U result = 1, power = a;
  for (; b; b >>= 1, power *= power) if (b & 1) result *= power;
  return result;
}

@@ pow unsigned scalar
static T pow@(T a, T b) {
  T result = 1, power = a;
  for (; b; b >>= 1, power *= power) if (b & 1) result *= power;
  return result;
}

@@ floordiv int vector
static T floordiv@(T a, T b) { T r; for (int j = 0; j < L; j++) r[j] = floordiv@E(a[j], b[j]); return r; }

@@ mod int vector
static T mod@(T a, T b) { T r; for (int j = 0; j < L; j++) r[j] = mod@E(a[j], b[j]); return r; }

@@ pow int vector
static T pow@(T a, T b) { T r; for (int j = 0; j < L; j++) r[j] = pow@E(a[j], b[j]); return r; }

@@ shl int scalar
INLINE T shl@(T a, T b) { return (U)b < W ? (U)a << b : 0; }

@@ shr int scalar
INLINE T shr@(T a, T b) { return (U)b < W ? a >> b : 0; }

@@ shl int vector
INLINE T shl@(T a, T b) { return (T)((U)a << ((U)b & splat@U(W - 1)) & (U)((U)b < splat@U(W))); }

@@ shr int vector
INLINE T shr@(T a, T b) { return (a >> (T)((U)b & splat@U(W - 1))) & (T)((U)b < splat@U(W)); }
"""

# A clamp in the float's own arithmetic serves where the limits are exact floats.
_CLAMPED = r"""
@@ saturate_{name} {source}
INLINE {target} saturate_{name}@(T x) {{
  T y = select@(x > {high}, splat@({high}), x);
  y = select@(y < {low}, splat@({low}), y);
  y = select@(x != x, splat@(0), y);
  return CONVERT({inner}, {target});
}}
"""
# The largest integer is no float here: what is out of range is replaced after the conversion.
_REPLACED = r"""
@@ saturate_{name} {source}
INLINE {target} saturate_{name}@(T x) {{
  M high = x >= {above}, low = x <= {low};
  {target} r = CONVERT(select@(high | low | (M)(x != x), splat@(0), x), {target});
  r = select@{target}(CONVERT(high, {mask}), splat@{target}({maximum}), r);
  return select@{target}(CONVERT(low, {mask}), splat@{target}({minimum}), r);
}}
"""


def _conversions() -> str:
    texts: list[str] = []
    for name in ("i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"):
        bits, signed = int(name[1:]), name[0] == "i"
        above = 1 << (bits - signed)
        lowest = -above if signed else 0
        suffix = "ll" if signed else "ull"
        maximum = f"{above - 1}{suffix}"
        minimum = f"-{above - 1}{suffix} - 1" if signed else "0"
        for source, exact in (("f32", 24), ("f64", 53)):
            literal = "f" if source == "f32" else ""
            words = {"name": name, "source": source, "target": name.upper()}
            if bits <= exact:
                inner = "y" if bits == 32 else "CONVERT(y, I)"
                limits = {"high": f"{above - 1}.0{literal}", "low": f"{lowest}.0{literal}"}
                texts.append(_CLAMPED.format(**words, **limits, inner=inner))
            else:
                limits = {"above": f"{above}.0{literal}", "low": f"{lowest}.0{literal}"}
                ends = {"maximum": maximum, "minimum": minimum, "mask": f"I{bits}"}
                texts.append(_REPLACED.format(**words, **limits, **ends))
    return "".join(texts)


TEXT = _TEXT + _conversions()
