"""8-bit floats and 4-bit integers, which exist only in memory: one value a byte, widened when loaded.

Stores round to nearest even. float8_e4m3fn has no infinity: what is beyond its range becomes NaN.
"""

TEXT = r"""
@@ widen_float8_e5m2 f32: T(U8 h) = widen_float16@(CONVERT(h, U16) << 8)

@@ narrow_float8_e5m2 f32: U8(T x) {
  U b = (U)bits@(x), a = b & 0x7fffffffu;
  U normal = (a - 0x38000000u + 0xfffffu + ((a >> 21) & 1u)) >> 21;
  U tiny = (U)bits@(real@((I)a) + 128.0f) - 0x43000000u;
  U r = select@U(a < 0x38800000u, tiny, normal);
  r = select@U(a >= 0x47800000u, splat@U(0x7cu), r);
  r = select@U(a > 0x7f800000u, splat@U(0x7eu), r);
  return CONVERT(r | ((b >> 24) & 0x80u), U8);
}

@@ widen_float8_e4m3fn f32: T(U8 h) {
  U w = CONVERT(h, U), a = w & 0x7fu;
  U r = (U)bits@(real@((I)(a << 20)) * 0x1p120f);
  r = select@U(a == 0x7fu, splat@U(0x7fc00000u), r);
  return real@((I)(r | ((w & 0x80u) << 24)));
}

@@ narrow_float8_e4m3fn f32: U8(T x) {
  U b = (U)bits@(x), a = b & 0x7fffffffu;
  U normal = (a - 0x3c000000u + 0x7ffffu + ((a >> 20) & 1u)) >> 20;
  U tiny = (U)bits@(real@((I)a) + 16384.0f) - 0x46800000u;
  U r = select@U(a < 0x3c800000u, tiny, normal);
  r = select@U(a > 0x43e80000u, splat@U(0x7fu), r);
  return CONVERT(r | ((b >> 24) & 0x80u), U8);
}

@@ round_float8_e5m2 f32: T(T x) = widen_float8_e5m2@(narrow_float8_e5m2@(x))
@@ round_float8_e4m3fn f32: T(T x) = widen_float8_e4m3fn@(narrow_float8_e4m3fn@(x))
@@ widen_int4 i8: T(U8 h) = (T)(h << 4) >> 4
@@ narrow_int4 i8: U8(T x) = (U8)x & 15
@@ widen_uint4 u8: T(T h) = h & 15
@@ narrow_uint4 u8: T(T x) = x & 15
"""
