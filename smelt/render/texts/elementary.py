"""Elementary functions (exp, log, tanh, erf, pow), at most two units in the last place off; float32 exp and log one.

float64 uses the methods of float32 with longer polynomials, if nothing else is said.

Exponentials reduce x to n*ln2 + r with |r| <= ln2/2 and scale a polynomial in r by 2**n; logarithms take the mantissa
m in [sqrt(1/2), sqrt(2)] and use a polynomial in f = m - 1, in float64 in s = f / (2 + f), so that
log(1 + f) = 2s + s**3 R(s**2); tanh is a quotient of expm1; erf is a polynomial in x*x up to one, and beyond 1 - exp of
a polynomial, in float64 1 - exp(-a*a) g(t) with t = (a - 3) / (a + 3). pow of float32 works in float64; that of float64
computes the logarithm, its product with y and the rest of the reduction in pairs of floats (a rounded value and what
the rounding lost). Products are split by hand, because contraction to a fused multiply-add is the compiler's choice.
The coefficients are minimax fits (Remez exchange, weighted for relative error of the function) of:

    EXP, EXPM1  (e**r - 1 - r) / r**2     EXP2  (2**r - 1) / r
    LOG         (log(1 + f) - f + f**2/2) / f**3; in float64 R(z) = (log((1 + s) / (1 - s)) - 2s) / s**3
    LOG_TAIL    (R(z) - 2/3) / z          SHORT_EXP, SHORT_LOG  the same with the precision that float32 needs
    ERF_NEAR    erf(x)/x - 1 in z = x*x   ERF_FAR  -log(erfc(a)) for a in [1, 4]; exp(a*a) erfc(a) in t, a in [1, 6]
"""

TEXT = r"""
@@ EXP f32 polynomial 0x1.fffffcp-2 0x1.555492p-3 0x1.5558f2p-5 0x1.1239e2p-7 0x1.6a2436p-10
@@ EXP f64 polynomial 0x1.000000000000ap-1 0x1.55555555554fap-3 0x1.555555555087cp-5 0x1.1111111127be4p-7
  0x1.6c16c1842a147p-10 0x1.a01a012a57cd8p-13 0x1.a0199a0c611a8p-16 0x1.71df2552af8d3p-19 0x1.28ad72d147d88p-22
  0x1.ad7f6d7911672p-26
@@ EXPM1 f32 polynomial 0x1.000000p-1 0x1.555556p-3 0x1.5554acp-5 0x1.1110c6p-7 0x1.6d7544p-10 0x1.a1517ap-13
@@ EXPM1 f64 polynomial 0x1.0000000000000p-1 0x1.5555555555559p-3 0x1.555555555555ap-5 0x1.111111110f6aep-7
  0x1.6c16c16c14475p-10 0x1.a01a01afe547bp-13 0x1.a01a01b0ac7b1p-16 0x1.71ddf8534cc2cp-19 0x1.27e4c5b6580f5p-22
  0x1.af5ebf914829dp-26 0x1.1f95433d50fdcp-29
@@ EXP2 f32 polynomial 0x1.62e430p-1 0x1.ebfbe0p-3 0x1.c6aed0p-5 0x1.3b29aap-7 0x1.5f47dep-10 0x1.448fe4p-13
@@ LOG f32 polynomial 0x1.555548p-2 -0x1.ffffb2p-3 0x1.99a416p-3 -0x1.556e92p-3 0x1.2350a0p-3 -0x1.f9d6a4p-4
  0x1.e353dcp-4 -0x1.ea07cap-4 0x1.2a2c02p-4
@@ LOG f64 polynomial 0x1.5555555555555p-1 0x1.9999999999e0ep-2 0x1.249249242a0bap-2 0x1.c71c725a6bb02p-3
  0x1.745cddc2b1dbap-3 0x1.3b20bf470867ap-3 0x1.0f5b0a7d2c205p-3 0x1.0f72ffddce28dp-3
@@ LOG_TAIL f64 polynomial 0x1.9999999999995p-2 0x1.249249249305ep-2 0x1.c71c71c57b768p-3 0x1.745d1834b1cd2p-3
  0x1.3b1362142db65p-3 0x1.1120cdf862c02p-3 0x1.de2f93ecb5b0fp-4 0x1.eb315181dbb5bp-4
@@ ERF_NEAR f32 polynomial 0x1.06eba8p-3 -0x1.81273ep-2 0x1.ce2cf8p-4 -0x1.b7f90ep-6 0x1.5405b2p-8 -0x1.a3f700p-11
  0x1.496a32p-14
@@ ERF_NEAR f64 polynomial 0x1.06eba8214db69p-3 -0x1.812746b0379e6p-2 0x1.ce2f21a042b20p-4 -0x1.b82ce3128499dp-6
  0x1.565bcd0db02fdp-8 -0x1.c02db3d8ed628p-11 0x1.f9a321a1244edp-14 -0x1.f4d1df39c323dp-17 0x1.b9def1a3e2580p-20
  -0x1.5f1d36f4c6774p-23 0x1.f7a414537f0e7p-27 -0x1.386ac77bea81fp-30 0x1.0579bd15e1ac8p-34
@@ ERF_FAR f32 polynomial -0x1.8b3f06p-13 0x1.212c2cp+0 0x1.4434f0p-1 0x1.bc18d0p-4 -0x1.9d0bd4p-6 0x1.1398f8p-8
  -0x1.ceeae8p-12 0x1.6c0688p-16
@@ ERF_FAR f64 polynomial 0x1.6e9827d229d2cp-3 -0x1.4e102b9cf8e74p-2 0x1.f6ff2040dc559p-3 -0x1.336ffbf09648ep-3
  0x1.258b13c2d61f1p-4 -0x1.8fa5842b25d77p-6 0x1.17c9e61cc7ccbp-8 0x1.735d575e4fb27p-11 -0x1.37ed0fd0840b9p-11
  0x1.a60e045199b0cp-15 0x1.2ce66b804b855p-14 -0x1.aab9aa775b732p-18 -0x1.b7d247ef44d61p-18
@@ SHORT_EXP f64 polynomial 0x1.000000005defdp-1 0x1.5555557dd3211p-3 0x1.5555541e4c30bp-5 0x1.1110a25f751b5p-7
  0x1.6c18d3395c8d6p-10 0x1.a1855fec9b72dp-13 0x1.9e892c6b27575p-16
@@ SHORT_LOG f64 polynomial 0x1.55555556203c9p-1 0x1.999996a35f10ep-2 0x1.249414a1def63p-2 0x1.c62a1f9362028p-3
  0x1.91245836815d1p-3

@@ nearest float: T(T x) = (x + $(0x1.8p23f|0x1.8p52)) - $(0x1.8p23f|0x1.8p52)
@@ power_of_two float: T(T n) = real@((CONVERT(n, I) + $bias) << $mantissa)

@@ scale_in_steps float: T(T x, T n) {
  I i = CONVERT(n, I), halved = i >> 1;
  return x * real@((halved + $bias) << $mantissa) * real@((i - halved + $bias) << $mantissa);
}

/* e**r and 2**r without the scale */
@@ exp_near float: T(T r) = POLY_EXP(r) * (r * r) + r + 1.0f
@@ exp2_near f32: T(T r) = POLY_EXP2(r) * r + 1.0f
@@ exp2_near f64: T(T r) = exp_near@(r * 0x1.62e42fefa39efp-1)

@@ exp float: T(T x) {
  T y = at_most@(x, $(89.0f|710.0)), n = nearest@(y * $log2e);
  /* What becomes 0 is 0 without a multiplication: results below the normal ones are slow, and masks ask for many. */
  return scale_kept@(exp_near@(y - n * $ln2_high - n * $ln2_low), n, x, $(-104.0f|-746.0));
}

@@ exp2 float: T(T x) {
  x = at_least@(at_most@(x, $(129.0f|1025.0)), $(-151.0f|-1076.0));
  T n = nearest@(x);
  return scale@(exp2_near@(x - n), n);
}

/* half of e**x - 1 = 2**n (e**r - 1) + 2**n - 1, x in [$(-20, 89|-40, 710)]; the leading terms are added exactly */
@@ expm1_half float: T(T x) {
  T n = nearest@(x * $log2e), h = x - n * $ln2_high;
  T r = h - n * $ln2_low, s = power_of_two@(n - 1.0f), lost;
  T q = POLY_EXPM1(r);
  T top = sum@(s - 0.5f, s * h, &lost);
  return top + (lost + s * (q * (r * r) - n * $ln2_low));
}

@@ expm1 float: T(T x) {
  T h = expm1_half@(at_least@(at_most@(x, $(89.0f|710.0)), $(-20.0f|-40.0)));
  return select@(absolute@(x) < $(0x1p-60f|0x1p-100), x, h + h);
}

/* h / (h + 1) with h half of e**2a - 1, mended for what h + 1 lost */
@@ tanh float: T(T x) {
  T a = absolute@(x), b = at_most@(a, $(10.0f|20.0));
  T h = expm1_half@(b + b), lost, d = sum@(h, splat@(1), &lost), q = h / d;
  return copy_sign@(select@(a < $(0x1p-60f|0x1p-100), a, q - q * lost * (1.0f - q)), x);
}

/* x = m * 2**e with m in [sqrt(1/2), sqrt(2)]: gives m - 1 */
@@ log_parts float: T(T x, T *e) {
  M tiny = x < $(0x1p-126f|0x1p-1022);
  I b = bits@(select@(tiny, x * $(0x1p24f|0x1p54), x));
  I k = (b - $(0x3f3504f3|0x3fe6a09e667f3bcdll)) >> $mantissa;
  *e = CONVERT(k, T) - select@(tiny, splat@($(24|54)), splat@(0));
  return real@(b - (k << $mantissa)) - 1.0f;
}

/* r where x is positive and finite; else what a logarithm gives at zero, below it, and at infinity and NaN */
@@ log_edges float: T(T x, T r) {
  r = select@(x < $inf, r, x);
  r = select@(x == 0.0f, splat@(-$inf), r);
  return select@(x < 0.0f, splat@($nan), r);
}

/* log(1 + f) - f, and the same with the end of e * ln2 */
@@ log_rest f32: T(T f) { T z = f * f; return POLY_LOG(f) * (f * z) - 0.5f * z; }
@@ log_more f32: T(T f, T e) { T z = f * f; return POLY_LOG(f) * (f * z) + e * $ln2_low - 0.5f * z; }
@@ log_more f64: T(T f, T e) = log_rest@(f) + e * $ln2_low

@@ log_rest f64: T(T f) {
  T s = f / (2.0 + f), z = s * s, halved = 0.5 * f * f;
  return s * (halved + z * POLY_LOG(z)) - halved;
}

@@ log float: T(T x) {
  T e, f = log_parts@(x, &e);
  return log_edges@(x, f + log_more@(f, e) + e * $ln2_high);
}

/* the leading $(12|26) bits */
@@ upper_half float: T(T x) = real@(bits@(x) & $(-0x1000|-0x8000000ll))

@@ log2 float: T(T x) {
  T e, f = log_parts@(x, &e), h = upper_half@(f), high = splat@($(0x1.714p+0f|0x1.715476p+0));
  T r = h * high + (log_rest@(f) * $log2e + (f - h) * high + f * $(0x1.47652cp-12f|0x1.4ae0bf85ddf44p-26));
  return log_edges@(x, r + e);
}

@@ log1p float: T(T x) {
  T u = 1.0f + x, e, f = log_parts@(u, &e);
  T lost = select@(x < 1.0f, x - (u - 1.0f), 1.0f - (u - x));
  lost = select@(x < $(0x1p26f|0x1p55), lost, splat@(0)) * power_of_two@(at_least@(-e, $(-126.0f|-1022.0)));
  T r = f + (log_more@(f, e) + lost * (1.0f - f + f * f));
  r = log_edges@(u, r + e * $ln2_high);
  return select@(absolute@(x) < $(0x1p-30f|0x1p-60), x, r);
}

/* erf(a) for a up to one */
@@ erf_near float: T(T a) { T z = a * a; return POLY_ERF_NEAR(z) * a + a; }

@@ erf f32: T(T x) {
  T a = at_most@(absolute@(x), 4.0f);
  return copy_sign@(select@(a < 1.0f, erf_near@(a), 1.0f - exp@(-POLY_ERF_FAR(a))), x);
}

@@ erf f64 halved: static T(T x) {
  T a = at_most@(absolute@(x), 6.0), t = (a - 3.0) / (a + 3.0);
  return copy_sign@(select@(a < 1.0, erf_near@(a), 1.0 - POLY_ERF_FAR(t) * exp@(-a * a)), x);
}

/* signs and special cases around r = |x|**y */
@@ pow_edges float: T(T x, T y, T r) {
  T halved = (E)0.5 * y;
  M whole = round@(y) == y, odd = whole & (M)(round@(halved) != halved);
  r = select@(odd & (M)(bits@(x) < 0), -r, r);
  M complex = (M)(x < 0) & (M)(absolute@(x) < $inf) & (M)(whole == 0) & (M)(y == y);
  r = select@(complex, splat@($nan), r);
  M one = (M)(x == 1) | (M)(y == 0) | ((M)(x == -1) & (M)(absolute@(y) == $inf));
  return select@(one, splat@(1), r);
}

/* x**y for x >= 0 with the range and precision of float32 */
@@ pow_short f64: static T(T x, T y) {
  T e, f = log_parts@(x, &e), s = f / (2.0 + f), z = s * s;
  T l = log_edges@(x, (s + s + s * z * POLY_SHORT_LOG(z)) + e * 0x1.62e42fefa39efp-1);
  T p = at_least@(at_most@(l * y, 200.0), -200.0);
  T n = nearest@(p * $log2e);
  T r = p - n * 0x1.62e42fefa39efp-1;
  return scale@(POLY_SHORT_EXP(r) * (r * r) + r + 1.0, n);
}

/* a * b exactly: the rounded product and what it lost */
@@ product f64: T(T a, T b, T *lost) {
  T p = a * b, ah = upper_half@(a), bh = upper_half@(b), al = a - ah, bl = b - bh;
  *lost = al * bl - (((p - ah * bh) - al * bh) - ah * bl);
  return p;
}

@@ pow f32 halved: static T(T x, T y) {
  D r = pow_short@D(CONVERT(absolute@(x), D), CONVERT(y, D));
  return pow_edges@(x, y, CONVERT(r, T));
}

@@ pow f64 halved: static T(T x, T y) {
  T a = absolute@(x), e, f = log_parts@(a, &e);
  T c = at_least@(at_most@(y, 0x1p65), -0x1p65);
  /* s + sl = f / (2 + f) */
  T d = 2.0 + f, dl = f - (d - 2.0), s = f / d, w, wl;
  w = product@(s, d, &wl);
  T sl = (((f - w) - wl) - s * dl) / d;
  /* z + zl = s * s;  u + ul = 2/3 z;  t + tl = s * u */
  T zl, z = product@(s, s, &zl);
  zl += 2.0 * s * sl;
  T ul, u = product@(z, splat@(0x1.5555555555555p-1), &ul);
  ul += z * 0x1.5555555555555p-55 + zl * 0x1.5555555555555p-1;
  T tl, t = product@(s, u, &tl);
  T q = POLY_LOG_TAIL(z);
  tl += s * ul + sl * u + s * (z * z * q);
  /* the logarithm l + ll */
  T l1, l2, l3, l = sum@(e * $ln2_high, s + s, &l1);
  l = sum@(l, t, &l2);
  l3 = e * $ln2_low;
  T ll, top = sum@(l, l3, &ll);
  ll += l1 + l2 + tl + (sl + sl);
  l = sum@(top, ll, &ll);
  /* its product with y, and the exponential */
  T pl, p = product@(c, l, &pl);
  pl += c * ll;
  p = at_least@(at_most@(p, 720.0), -760.0);
  T n = nearest@(p * $log2e);
  T r = (p - n * $ln2_high) + (at_least@(at_most@(pl, 1.0), -1.0) - n * $ln2_low);
  T result = scale@(exp_near@(r), n);
  M zero = a == 0.0, endless = a == $inf;
  result = select@((zero & (M)(y < 0.0)) | (endless & (M)(y > 0.0)), splat@($inf), result);
  result = select@((zero & (M)(y > 0.0)) | (endless & (M)(y < 0.0)), splat@(0), result);
  result = select@((M)(x != x) | (M)(y != y), x + y, result);
  return pow_edges@(x, y, result);
}
"""
