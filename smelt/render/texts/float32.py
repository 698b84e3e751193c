"""float32 functions, at most one unit in the last place off (two for tanh, erf and pow).

Exponentials reduce x to n*ln2 + r with |r| <= ln2/2 and scale a polynomial in r by 2**n; logarithms take the mantissa
m in [sqrt(1/2), sqrt(2)] and use a polynomial in m - 1; tanh is a quotient of expm1; erf is a polynomial in x*x up to
one and 1 - exp of a polynomial beyond; pow works in float64. The coefficients are minimax fits (Remez exchange,
weighted for relative error of the function) of:

    EXP, EXPM1  (e**r - 1 - r) / r**2     EXP2  (2**r - 1) / r     LOG  (log(1 + f) - f + f**2/2) / f**3
    ERF_NEAR    erf(x)/x - 1 in z = x*x   ERF_FAR  -log(erfc(a)) for a in [1, 4]
"""

from smelt.render.texts.polynomial import with_polynomials

_TABLES = {
    "EXP": "0x1.fffffcp-2, 0x1.555492p-3, 0x1.5558f2p-5, 0x1.1239e2p-7, 0x1.6a2436p-10",
    "EXPM1": "0x1.000000p-1, 0x1.555556p-3, 0x1.5554acp-5, 0x1.1110c6p-7, 0x1.6d7544p-10, 0x1.a1517ap-13",
    "EXP2": "0x1.62e430p-1, 0x1.ebfbe0p-3, 0x1.c6aed0p-5, 0x1.3b29aap-7, 0x1.5f47dep-10, 0x1.448fe4p-13",
    "LOG": (
        "0x1.555548p-2, -0x1.ffffb2p-3, 0x1.99a416p-3, -0x1.556e92p-3, 0x1.2350a0p-3, -0x1.f9d6a4p-4, "
        "0x1.e353dcp-4, -0x1.ea07cap-4, 0x1.2a2c02p-4"
    ),
    "ERF_NEAR": (
        "0x1.06eba8p-3, -0x1.81273ep-2, 0x1.ce2cf8p-4, -0x1.b7f90ep-6, 0x1.5405b2p-8, -0x1.a3f700p-11, 0x1.496a32p-14"
    ),
    "ERF_FAR": (
        "-0x1.8b3f06p-13, 0x1.212c2cp+0, 0x1.4434f0p-1, 0x1.bc18d0p-4, -0x1.9d0bd4p-6, 0x1.1398f8p-8, "
        "-0x1.ceeae8p-12, 0x1.6c0688p-16"
    ),
}

_TEXT = r"""
@@ nearest f32
INLINE T nearest@(T x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

@@ power_of_two f32
INLINE T power_of_two@(T n) { return real@((CONVERT(n, I) + 127) << 23); }

@@ scale_in_steps f32
INLINE T scale_in_steps@(T x, T n) {
  I i = CONVERT(n, I), halved = i >> 1;
  return x * real@((halved + 127) << 23) * real@((i - halved + 127) << 23);
}

@@ exp f32
INLINE T exp@(T x) {
  T y = at_most@(x, 89.0f), n = nearest@(y * 0x1.715476p+0f);
  T r = y - n * 0x1.62e4p-1f - n * 0x1.7f7d1cp-20f;
  T q = POLY_EXP(r);
  /* What becomes 0 is 0 without a multiplication: results below the normal ones are slow, and masks ask for many. */
  return scale_kept@(q * (r * r) + r + 1.0f, n, x, -104.0f);
}

@@ exp2 f32
INLINE T exp2@(T x) {
  x = at_least@(at_most@(x, 129.0f), -151.0f);
  T n = nearest@(x), r = x - n;
  T q = POLY_EXP2(r);
  return scale@(q * r + 1.0f, n);
}

@@ expm1_half f32
/* half of e**x - 1 = 2**n (e**r - 1) + 2**n - 1, for x in [-20, 89]; the two leading terms are added without loss */
INLINE T expm1_half@(T x) {
  T n = nearest@(x * 0x1.715476p+0f), h = x - n * 0x1.62e4p-1f;
  T r = h - n * 0x1.7f7d1cp-20f, s = power_of_two@(n - 1.0f), lost;
  T q = POLY_EXPM1(r);
  T top = sum@(s - 0.5f, s * h, &lost);
  return top + (lost + s * (q * (r * r) - n * 0x1.7f7d1cp-20f));
}

@@ expm1 f32
INLINE T expm1@(T x) {
  T h = expm1_half@(at_least@(at_most@(x, 89.0f), -20.0f));
  return select@(absolute@(x) < 0x1p-60f, x, h + h);
}

@@ tanh f32
/* h / (h + 1) with h half of e**2a - 1, mended for what h + 1 lost */
INLINE T tanh@(T x) {
  T a = absolute@(x), b = at_most@(a, 10.0f);
  T h = expm1_half@(b + b), lost, d = sum@(h, splat@(1), &lost), q = h / d;
  return copy_sign@(select@(a < 0x1p-60f, a, q - q * lost * (1.0f - q)), x);
}

@@ log_parts f32
/* x = m * 2**e with m in [sqrt(1/2), sqrt(2)]: gives m - 1 */
INLINE T log_parts@(T x, T *e) {
  M tiny = x < 0x1p-126f;
  I b = bits@(select@(tiny, x * 0x1p24f, x));
  I k = (b - 0x3f3504f3) >> 23;
  *e = CONVERT(k, T) - select@(tiny, splat@(24), splat@(0));
  return real@(b - (k << 23)) - 1.0f;
}

@@ log_edges f32
/* r where x is positive and finite; else what a logarithm gives at zero, below it, and at infinity and NaN */
INLINE T log_edges@(T x, T r) {
  r = select@(x < __builtin_inff(), r, x);
  r = select@(x == 0.0f, splat@(-__builtin_inff()), r);
  return select@(x < 0.0f, splat@(__builtin_nanf("")), r);
}

@@ log f32
INLINE T log@(T x) {
  T e, f = log_parts@(x, &e), z = f * f;
  T q = POLY_LOG(f);
  T r = f + (q * (f * z) + e * 0x1.7f7d1cp-20f - 0.5f * z);
  return log_edges@(x, r + e * 0x1.62e4p-1f);
}

@@ log2 f32
INLINE T log2@(T x) {
  T e, f = log_parts@(x, &e), z = f * f, h = upper_half@(f);
  T q = POLY_LOG(f);
  T y = q * (f * z) - 0.5f * z;
  T r = h * 0x1.714p+0f + (y * 0x1.715476p+0f + (f - h) * 0x1.714p+0f + f * 0x1.47652cp-12f);
  return log_edges@(x, r + e);
}

@@ upper_half f32
/* the leading 12 bits */
INLINE T upper_half@(T x) { return real@(bits@(x) & -0x1000); }

@@ log1p f32
INLINE T log1p@(T x) {
  T u = 1.0f + x;
  T lost = select@(x < 1.0f, x - (u - 1.0f), 1.0f - (u - x));
  T e, f = log_parts@(u, &e);
  lost = select@(x < 0x1p26f, lost, splat@(0)) * power_of_two@(at_least@(-e, -126.0f));
  T z = f * f;
  T q = POLY_LOG(f);
  T r = f + (q * (f * z) + e * 0x1.7f7d1cp-20f - 0.5f * z + lost * (1.0f - f + z));
  r = log_edges@(u, r + e * 0x1.62e4p-1f);
  return select@(absolute@(x) < 0x1p-30f, x, r);
}

@@ erf f32
INLINE T erf@(T x) {
  T a = at_most@(absolute@(x), 4.0f), z = a * a;
  T p = POLY_ERF_NEAR(z), q = POLY_ERF_FAR(a);
  T far = 1.0f - exp@(-q);
  return copy_sign@(select@(a < 1.0f, p * a + a, far), x);
}

@@ pow f32 halved
static T pow@(T x, T y) {
  D r = pow_short@D(CONVERT(absolute@(x), D), CONVERT(y, D));
  return pow_edges@(x, y, CONVERT(r, T));
}
"""

TEXT = with_polynomials(_TEXT, _TABLES, "f")
