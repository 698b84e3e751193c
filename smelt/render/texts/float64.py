"""float64 functions, at most two units in the last place off, by the methods of float32 with longer polynomials.

The logarithm uses s = f / (2 + f), so that log(1 + f) = 2s + s**3 R(s**2); erf beyond one is 1 - exp(-a*a) g(t) with
t = (a - 3) / (a + 3). pow computes the logarithm, its product with y and the rest of the reduction in pairs of floats
(a rounded value and what the rounding lost). Products are split by hand, because contraction to a fused multiply-add
is the compiler's choice. Minimax fits:

    EXP, EXPM1  (e**r - 1 - r) / r**2     LOG  R(z) = (log((1 + s) / (1 - s)) - 2s) / s**3
    LOG_TAIL    (R(z) - 2/3) / z          SHORT_EXP, SHORT_LOG  the same with the precision that float32 needs
    ERF_NEAR    erf(x)/x - 1 in z = x*x   ERF_FAR  exp(a*a) erfc(a) in t, for a in [1, 6]
"""

from smelt.render.texts.polynomial import with_polynomials

_TABLES = {
    "EXP": (
        "0x1.000000000000ap-1, 0x1.55555555554fap-3, 0x1.555555555087cp-5, 0x1.1111111127be4p-7, "
        "0x1.6c16c1842a147p-10, 0x1.a01a012a57cd8p-13, 0x1.a0199a0c611a8p-16, 0x1.71df2552af8d3p-19, "
        "0x1.28ad72d147d88p-22, 0x1.ad7f6d7911672p-26"
    ),
    "EXPM1": (
        "0x1.0000000000000p-1, 0x1.5555555555559p-3, 0x1.555555555555ap-5, 0x1.111111110f6aep-7, "
        "0x1.6c16c16c14475p-10, 0x1.a01a01afe547bp-13, 0x1.a01a01b0ac7b1p-16, 0x1.71ddf8534cc2cp-19, "
        "0x1.27e4c5b6580f5p-22, 0x1.af5ebf914829dp-26, 0x1.1f95433d50fdcp-29"
    ),
    "LOG": (
        "0x1.5555555555555p-1, 0x1.9999999999e0ep-2, 0x1.249249242a0bap-2, 0x1.c71c725a6bb02p-3, "
        "0x1.745cddc2b1dbap-3, 0x1.3b20bf470867ap-3, 0x1.0f5b0a7d2c205p-3, 0x1.0f72ffddce28dp-3"
    ),
    "LOG_TAIL": (
        "0x1.9999999999995p-2, 0x1.249249249305ep-2, 0x1.c71c71c57b768p-3, 0x1.745d1834b1cd2p-3, "
        "0x1.3b1362142db65p-3, 0x1.1120cdf862c02p-3, 0x1.de2f93ecb5b0fp-4, 0x1.eb315181dbb5bp-4"
    ),
    "ERF_NEAR": (
        "0x1.06eba8214db69p-3, -0x1.812746b0379e6p-2, 0x1.ce2f21a042b20p-4, -0x1.b82ce3128499dp-6, "
        "0x1.565bcd0db02fdp-8, -0x1.c02db3d8ed628p-11, 0x1.f9a321a1244edp-14, -0x1.f4d1df39c323dp-17, "
        "0x1.b9def1a3e2580p-20, -0x1.5f1d36f4c6774p-23, 0x1.f7a414537f0e7p-27, -0x1.386ac77bea81fp-30, "
        "0x1.0579bd15e1ac8p-34"
    ),
    "ERF_FAR": (
        "0x1.6e9827d229d2cp-3, -0x1.4e102b9cf8e74p-2, 0x1.f6ff2040dc559p-3, -0x1.336ffbf09648ep-3, "
        "0x1.258b13c2d61f1p-4, -0x1.8fa5842b25d77p-6, 0x1.17c9e61cc7ccbp-8, 0x1.735d575e4fb27p-11, "
        "-0x1.37ed0fd0840b9p-11, 0x1.a60e045199b0cp-15, 0x1.2ce66b804b855p-14, -0x1.aab9aa775b732p-18, "
        "-0x1.b7d247ef44d61p-18"
    ),
    "SHORT_EXP": (
        "0x1.000000005defdp-1, 0x1.5555557dd3211p-3, 0x1.5555541e4c30bp-5, 0x1.1110a25f751b5p-7, "
        "0x1.6c18d3395c8d6p-10, 0x1.a1855fec9b72dp-13, 0x1.9e892c6b27575p-16"
    ),
    "SHORT_LOG": (
        "0x1.55555556203c9p-1, 0x1.999996a35f10ep-2, 0x1.249414a1def63p-2, 0x1.c62a1f9362028p-3, 0x1.91245836815d1p-3"
    ),
}

_TEXT = r"""
@@ nearest f64
INLINE T nearest@(T x) { return (x + 0x1.8p52) - 0x1.8p52; }

@@ power_of_two f64
INLINE T power_of_two@(T n) { return real@((CONVERT(n, I) + 1023) << 52); }

@@ scale_in_steps f64
INLINE T scale_in_steps@(T x, T n) {
  I i = CONVERT(n, I), halved = i >> 1;
  return x * real@((halved + 1023) << 52) * real@((i - halved + 1023) << 52);
}

@@ exp_rest f64
INLINE T exp_rest@(T r) { return POLY_EXP(r); }

@@ exp f64
INLINE T exp@(T x) {
  x = at_least@(at_most@(x, 710.0), -746.0);
  T n = nearest@(x * 0x1.71547652b82fep+0);
  T r = x - n * 0x1.62e42fefp-1 - n * 0x1.473de6af278edp-34;
  T q = POLY_EXP(r);
  return scale@(q * (r * r) + r + 1.0, n);
}

@@ exp2 f64
INLINE T exp2@(T x) {
  x = at_least@(at_most@(x, 1025.0), -1076.0);
  T n = nearest@(x), r = (x - n) * 0x1.62e42fefa39efp-1;
  T q = POLY_EXP(r);
  return scale@(q * (r * r) + r + 1.0, n);
}

@@ expm1_half f64
INLINE T expm1_half@(T x) {
  T n = nearest@(x * 0x1.71547652b82fep+0), h = x - n * 0x1.62e42fefp-1;
  T r = h - n * 0x1.473de6af278edp-34, s = power_of_two@(n - 1.0), lost;
  T q = POLY_EXPM1(r);
  T top = sum@(s - 0.5, s * h, &lost);
  return top + (lost + s * (q * (r * r) - n * 0x1.473de6af278edp-34));
}

@@ expm1 f64
INLINE T expm1@(T x) {
  T h = expm1_half@(at_least@(at_most@(x, 710.0), -40.0));
  return select@(absolute@(x) < 0x1p-100, x, h + h);
}

@@ tanh f64
/* h / (h + 1) with h half of e**2a - 1, mended for what h + 1 lost */
INLINE T tanh@(T x) {
  T a = absolute@(x), b = at_most@(a, 20.0);
  T h = expm1_half@(b + b), lost, d = sum@(h, splat@(1), &lost), q = h / d;
  return copy_sign@(select@(a < 0x1p-100, a, q - q * lost * (1.0 - q)), x);
}

@@ log_parts f64
INLINE T log_parts@(T x, T *e) {
  M tiny = x < 0x1p-1022;
  I b = bits@(select@(tiny, x * 0x1p54, x));
  I k = (b - 0x3fe6a09e667f3bcdll) >> 52;
  *e = CONVERT(k, T) - select@(tiny, splat@(54), splat@(0));
  return real@(b - (k << 52)) - 1.0;
}

@@ log_edges f64
INLINE T log_edges@(T x, T r) {
  r = select@(x < __builtin_inf(), r, x);
  r = select@(x == 0.0, splat@(-__builtin_inf()), r);
  return select@(x < 0.0, splat@(__builtin_nan("")), r);
}

@@ log_rest f64
/* log(1 + f) - f */
INLINE T log_rest@(T f) {
  T s = f / (2.0 + f), z = s * s, halved = 0.5 * f * f;
  T q = POLY_LOG(z);
  return s * (halved + z * q) - halved;
}

@@ log f64
INLINE T log@(T x) {
  T e, f = log_parts@(x, &e);
  T r = f + (log_rest@(f) + e * 0x1.473de6af278edp-34);
  return log_edges@(x, r + e * 0x1.62e42fefp-1);
}

@@ log2 f64
INLINE T log2@(T x) {
  T e, f = log_parts@(x, &e), h = upper_half@(f);
  T r = h * 0x1.715476p+0 + (log_rest@(f) * 0x1.71547652b82fep+0 + (f - h) * 0x1.715476p+0 + f * 0x1.4ae0bf85ddf44p-26);
  return log_edges@(x, r + e);
}

@@ log1p f64
INLINE T log1p@(T x) {
  T u = 1.0 + x;
  T lost = select@(x < 1.0, x - (u - 1.0), 1.0 - (u - x));
  T e, f = log_parts@(u, &e);
  lost = select@(x < 0x1p55, lost, splat@(0)) * power_of_two@(at_least@(-e, -1022.0));
  T r = f + (log_rest@(f) + e * 0x1.473de6af278edp-34 + lost * (1.0 - f + f * f));
  r = log_edges@(u, r + e * 0x1.62e42fefp-1);
  return select@(absolute@(x) < 0x1p-60, x, r);
}

@@ erf_near f64
/* erf(a) for a up to one */
INLINE T erf_near@(T a) {
  T z = a * a;
  T p = POLY_ERF_NEAR(z);
  return p * a + a;
}

@@ erf f64 halved
static T erf@(T x) {
  T a = at_most@(absolute@(x), 6.0), t = (a - 3.0) / (a + 3.0);
  T q = POLY_ERF_FAR(t);
  T far = 1.0 - q * exp@(-a * a);
  return copy_sign@(select@(a < 1.0, erf_near@(a), far), x);
}

@@ pow_short f64
/* x**y for x >= 0 with the range and precision of float32 */
static T pow_short@(T x, T y) {
  T e, f = log_parts@(x, &e), s = f / (2.0 + f), z = s * s;
  T q = POLY_SHORT_LOG(z);
  T l = log_edges@(x, (s + s + s * z * q) + e * 0x1.62e42fefa39efp-1);
  T p = at_least@(at_most@(l * y, 200.0), -200.0);
  T n = nearest@(p * 0x1.71547652b82fep+0);
  T r = p - n * 0x1.62e42fefa39efp-1;
  T w = POLY_SHORT_EXP(r);
  return scale@(w * (r * r) + r + 1.0, n);
}

@@ upper_half f64
/* the leading 26 bits */
INLINE T upper_half@(T x) { return real@(bits@(x) & -0x8000000ll); }

@@ product f64
/* a * b exactly: the rounded product and what it lost */
INLINE T product@(T a, T b, T *lost) {
  T p = a * b, ah = upper_half@(a), bh = upper_half@(b), al = a - ah, bl = b - bh;
  *lost = al * bl - (((p - ah * bh) - al * bh) - ah * bl);
  return p;
}

@@ pow f64 halved
static T pow@(T x, T y) {
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
  T l1, l2, l3, l = sum@(e * 0x1.62e42fefp-1, s + s, &l1);
  l = sum@(l, t, &l2);
  l3 = e * 0x1.473de6af278edp-34;
  T ll, top = sum@(l, l3, &ll);
  ll += l1 + l2 + tl + (sl + sl);
  l = sum@(top, ll, &ll);
  /* its product with y, and the exponential */
  T pl, p = product@(c, l, &pl);
  pl += c * ll;
  p = at_least@(at_most@(p, 720.0), -760.0);
  T n = nearest@(p * 0x1.71547652b82fep+0);
  T r = (p - n * 0x1.62e42fefp-1) + (at_least@(at_most@(pl, 1.0), -1.0) - n * 0x1.473de6af278edp-34);
  T v = POLY_EXP(r);
  T result = scale@(v * (r * r) + r + 1.0, n);
  M zero = a == 0.0, endless = a == __builtin_inf();
  result = select@((zero & (M)(y < 0.0)) | (endless & (M)(y > 0.0)), splat@(__builtin_inf()), result);
  result = select@((zero & (M)(y > 0.0)) | (endless & (M)(y < 0.0)), splat@(0), result);
  result = select@((M)(x != x) | (M)(y != y), x + y, result);
  return pow_edges@(x, y, result);
}

@@ pow_edges float
/* signs and special cases around r = |x|**y */
INLINE T pow_edges@(T x, T y, T r) {
  T halved = (E)0.5 * y;
  M whole = round@(y) == y, odd = whole & (M)(round@(halved) != halved);
  r = select@(odd & (M)(bits@(x) < 0), -r, r);
  M complex = (M)(x < 0) & (M)(absolute@(x) < $inf) & (M)(whole == 0) & (M)(y == y);
  r = select@(complex, splat@($nan), r);
  M one = (M)(x == 1) | (M)(y == 0) | ((M)(x == -1) & (M)(absolute@(y) == $inf));
  return select@(one, splat@(1), r);
}
"""

TEXT = with_polynomials(_TEXT, _TABLES, "")
