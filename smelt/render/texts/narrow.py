"""16-bit and 8-bit floats and 4-bit integers, which exist only in memory: widened when loaded, rounded when stored.

Stores round to nearest even. 4-bit integers lie one in a byte. float8_e4m3fn has no infinity: what is beyond its range
becomes NaN.
"""

TEXT = r"""
@@ widen_bfloat16 f32 scalar: T(U16 h) = real@((I)((U)h << 16))
@@ widen_bfloat16 f32 vector: T(U16 h) = real@((I)(zero_extend_32@U16(h) << 16))

@@ narrow_bfloat16 f32: U16(T x) {
  U b = (U)bits@(x);
  U r = (b + 0x7fffu + ((b >> 16) & 1u)) >> 16;
  return CONVERT(select@U(x != x, (b >> 16) | 0x40u, r), U16);
}

@@ widen_float16 f32 fitted: T(U16 h) { $widen_float16 }
@@ narrow_float16 f32 fitted: U16(T x) { $narrow_float16 }

@@ widen_float16_by_bits f32: T(U16 h) {
  U w = CONVERT(h, U), a = w & 0x7fffu;
  U r = (U)bits@(real@((I)(a << 13)) * 0x1p112f);
  r = select@U(a >= 0x7c00u, r | 0x7f800000u, r);
  r = select@U(a > 0x7c00u, r | 0x400000u, r); /* as processors do: what comes of NaN is quiet */
  return real@((I)(r | ((w & 0x8000u) << 16)));
}

@@ narrow_float16_by_bits f32: U16(T x) {
  U b = (U)bits@(x), a = b & 0x7fffffffu;
  U normal = (a - 0x38000000u + 0xfffu + ((a >> 13) & 1u)) >> 13;
  U tiny = (U)bits@(real@((I)a) + 0.5f) - 0x3f000000u;
  U r = select@U(a < 0x38800000u, tiny, normal);
  r = select@U(a >= 0x47800000u, splat@U(0x7c00u), r);
  r = select@U(a > 0x7f800000u, 0x7e00u | ((a >> 13) & 0x3ffu), r);
  return CONVERT(r | ((b >> 16) & 0x8000u), U16);
}

/* float32 rounded to odd: cut off, and the last bit set where something was lost */
@@ odd f64: F(T x) {
  F near = CONVERT(x, F);
  T back = CONVERT(near, T);
  I over = select@I(absolute@(back) > absolute@(x), splat@I(1), splat@I(0));
  I lost = select@I(back != x, splat@I(1), splat@I(0));
  return real@F((bits@F(near) - CONVERT(over, I32)) | CONVERT(lost, I32));
}

@@ odd i32 u32: F(T x) = odd@D(CONVERT(x, D))

@@ odd i64: F(T x) {
  T cut = (x & ~0xfffll) | select@((x & 0xfffll) != 0, splat@(0x800), splat@(0));
  return odd@D(CONVERT(select@((M)(x >= 1ll << 53) | (M)(x <= -(1ll << 53)), cut, x), D));
}

@@ odd u64: F(T x) {
  T cut = (x & ~0xfffull) | select@((x & 0xfffull) != 0, splat@(0x800), splat@(0));
  return odd@D(CONVERT(select@(x >= 1ull << 53, cut, x), D));
}

@@ round_float16 f32: T(T x) = widen_float16@(narrow_float16@(x))
@@ round_bfloat16 f32: T(T x) = widen_bfloat16@(narrow_bfloat16@(x))

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
