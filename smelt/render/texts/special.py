"""Roots, the decimal logarithm, and the special functions: float64, and float32 through it.

erfc beyond 1/2 is e**(-a*a) g(t) / (1 + 2a) with t = (a - 4) / (a + 4); the square is kept as a pair. erfinv improves
an approximation of six digits by one step of Halley's method. lgamma shifts its argument to [3/2, 5/2] by products,
uses Stirling's series from 8.5 on, and reflects negative arguments; digamma shifts up to 9. Near the zeros of lgamma
and digamma other than 1 and 2 only the absolute error is small. Fits by interpolation at Chebyshev's points:

    CBRT     the cube root on [1, 2], which one step refines
    ERFC     exp(a*a) erfc(a) (1 + 2a) in t
    CENTRAL  erfinv(y)/y in w = -log(1 - y*y) up to 5; TAIL  erfinv(y) in sqrt(w) from there on
    LGAMMA   log(gamma(2 + d)) / d for |d| <= 1/2
    STIRLING the rest of Stirling's formula times a, in 1/a**2
"""

TEXT = r"""
@@ CBRT f64 polynomial 0x1.a3299290471f3p-2 0x1.2673c22a9fd1ap+0 -0x1.1f651c134b3f5p+0 0x1.f1242ccef60f8p-1
  -0x1.3662fd99e14f3p-1 0x1.0a02c4f989b60p-2 -0x1.288701cf29125p-4 0x1.8322cf63551dap-7 -0x1.c147fbfc555e5p-11
@@ ERFC f64 polynomial 0x1.3ba5916e9fd7fp+0 -0x1.1df1ad154a28dp-3 0x1.f7f5df66fd70fp-7 0x1.16ecefcfa529dp-4
  -0x1.9ddb23c3e8ac1p-4 0x1.7fee004e14f63p-4 -0x1.0fb06dfe53e55p-4 0x1.3079edf6187c9p-5 -0x1.09623882b6a76p-6
  0x1.49c672ab896cdp-8 -0x1.8d4a9c53e7824p-11 -0x1.a1df45af72d2ap-13 0x1.3be06e6fea0c1p-13 -0x1.9954c8e980297p-16
  -0x1.788e926472d77p-17 0x1.7ef46369c07c4p-18 0x1.3c188c290efb0p-22 -0x1.b7f5f29e0f8acp-21 0x1.3ce342b53c80ep-24
  0x1.bb7c4eb74d9bbp-24 -0x1.27dd9abc65872p-26 -0x1.4bd065d1c926ep-27 0x1.b76c22b7dbc6ep-30
@@ CENTRAL f64 polynomial 0x1.c5bf846c3d9b9p-1 0x1.db2c595b935e9p-3 0x1.79aa5309ba3b9p-7 -0x1.2bbbb31dff376p-9
  -0x1.716ebdc2f1d3ep-13 0x1.306a26902c17cp-14 -0x1.70456180167e2p-18 -0x1.d7fea92bad166p-24 0x1.845e243b9d6c4p-26
@@ TAIL f64 polynomial 0x1.e3fd469193e8bp-4 0x1.57d3097757245p-1 0x1.24839b15288a9p-3 -0x1.b1c9c84262b6fp-6
  0x1.51502376f3157p-15 0x1.f156d31a8f93ep-11 -0x1.84a2a2f797afep-13 0x1.05ea96bd7165dp-16 -0x1.13d3a3cb9e869p-21
@@ LGAMMA f64 polynomial 0x1.b0ee6072093cep-2 0x1.4a34cc4a60fa6p-2 -0x1.13e001a55760ap-4 0x1.51322ac7d848ap-6
  -0x1.e404fc218dbaep-8 0x1.7add6eadb5317p-9 -0x1.38ac5c2d48207p-10 0x1.0b36af8779ca0p-11 -0x1.d3fd4b679c1c4p-13
  0x1.a127afee53e7dp-14 -0x1.78de9ab752b81p-15 0x1.580e0afa55850p-16 -0x1.3cb3be36ad88bp-17 0x1.258f3057730fap-18
  -0x1.1276ebd557fb0p-19 0x1.012012be3900ap-20 -0x1.ce17528bcf460p-22 0x1.b40adb09a1e12p-23 -0x1.2009c1a550d0dp-23
  0x1.11fa5e7c86f7bp-24
@@ STIRLING f64 polynomial 0x1.5555555555555p-4 -0x1.6c16c16c15b0dp-9 0x1.a01a018cca10fp-11 -0x1.3813603f933cap-11
  0x1.b936e99099870p-11 -0x1.f0efc6d62bff9p-10 0x1.54871d26b8480p-8

/* Bernoulli's numbers over their index: digamma(t) = log(t) - 1/(2t) - z * this, with z = 1/t**2 */
@@ BERNOULLI f64 polynomial 0x1.5555555555555p-4 -0x1.1111111111111p-7 0x1.0410410410410p-8 -0x1.1111111111111p-8
  0x1.f07c1f07c1f08p-8 -0x1.5995995995996p-6 0x1.5555555555555p-4 -0x1.c5e5e5e5e5e5ep-2

/* a = m * 2**(3q + r) with r in -1, 0, 1; the last step triples the digits of the polynomial */
@@ cbrt f64 halved widened: static T(T x) {
  T a = absolute@(x);
  M tiny = a < 0x1p-1022;
  I b = bits@(select@(tiny, a * 0x1p54, a));
  T m = real@((b & 0xfffffffffffffll) | 0x3ff0000000000000ll), k = CONVERT((b >> 52) - 1023, T);
  T q = nearest@(k * 0x1.5555555555555p-2), r = k - 3.0 * q;
  T p = POLY_CBRT(m);
  M above = r > 0, below = r < 0;
  p *= select@(above, splat@(0x1.428a2f98d728bp+0), select@(below, splat@(0x1.965fea53d6e3dp-1), splat@(1)));
  m *= select@(above, splat@(2), select@(below, splat@(0.5), splat@(1)));
  T t = upper_half@(p), u = m / (t * t);
  t = t + t * ((u - t) / (t + t + u));
  t *= power_of_two@(q - select@(tiny, splat@(18), splat@(0)));
  return select@((M)(a > 0) & (M)(a < $inf), copy_sign@(t, x), x);
}

@@ log10 f64 halved widened: static T(T x) {
  T e, f = log_parts@(x, &e), h = upper_half@(f);
  T r = log_rest@(f) * 0x1.bcb7b1526e50ep-2 + (f - h) * 0x1.bcb7b1p-2 + f * 0x1.49b9438ca9aaep-28;
  r = h * 0x1.bcb7b1p-2 + (r + e * 0x1.fef311f12b358p-46);
  return log_edges@(x, r + e * 0x1.34413509f78p-2);
}

@@ hypot f64 halved: static T(T x, T y) {
  T p = absolute@(x), q = absolute@(y), a = select@(p > q, p, q), b = select@(p > q, q, p);
  M large = a > 0x1p500, small = a < 0x1p-450;
  T unit = select@(large, splat@(0x1p-600), select@(small, splat@(0x1p600), splat@(1)));
  T c = a * unit, d = b * unit, cl, dl, sl, hl;
  T cc = product@(c, c, &cl), dd = product@(d, d, &dl), s = sum@(cc, dd, &sl), h = sqrt@(s);
  T hh = product@(h, h, &hl);
  h += 0.5 * (((s - hh) - hl) + (sl + cl + dl)) / h;
  h *= select@(large, splat@(0x1p600), select@(small, splat@(0x1p-600), splat@(1)));
  h = select@(a == 0, a, h);
  h = select@((M)(x != x) | (M)(y != y), x + y, h);
  return select@((M)(p == $inf) | (M)(q == $inf), splat@($inf), h);
}

@@ hypot f32 halved: static T(T x, T y) {
  D a = CONVERT(x, D), b = CONVERT(y, D);
  T h = CONVERT(sqrt@D(a * a + b * b), T);
  M endless = (M)(absolute@(x) == $inf) | (M)(absolute@(y) == $inf);
  return select@(endless, splat@($inf), h);
}

/* erfc(a) for a >= 0.45 */
@@ erfc_far f64: T(T a) {
  T lost, t = (a - 4.0) / (a + 4.0), z = product@(a, a, &lost), n = nearest@(z * -$log2e);
  T r = -z - n * $ln2_high - (n * $ln2_low + lost);
  return scale@(exp_near@(r) * (POLY_ERFC(t) / (1.0 + (a + a))), n);
}

@@ erfc f64 halved widened: static T(T x) {
  T a = at_most@(absolute@(x), 28.0), far = erfc_far@(a), near = erf_near@(a);
  near = 1.0 - select@(x < 0, -near, near);
  return select@(a < 0.5, near, select@(x < 0, 2.0 - far, far));
}

@@ erfinv f64 halved widened: static T(T x) {
  T a = absolute@(x), c = 1.0 - a, w = -log@(c * (1.0 + a)), s = sqrt@(w);
  T p = POLY_CENTRAL(w), q = POLY_TAIL(s);
  T r = select@(w < 5.0, p * a, q);
  T off = select@(a <= 0.75, erf_near@(r) - a, c - erfc_far@(r));
  T u = off * 0x1.c5bf891b4ef6bp-1 * exp@(r * r);
  r -= u / (1.0 + r * u);
  return copy_sign@(select@(a == 1.0, splat@($inf), r), x);
}

@@ lgamma f64 halved widened: static T(T x) {
  T a = absolute@(x), t = a, product = splat@(1);
  M far = a >= 8.5, low = a < 0.5, up = a < 1.5;
  for (int k = 0; k < 6; k++) {
    M more = t >= 2.5;
    product = select@(more, product * (t - 1.0), product);
    t = select@(more, t - 1.0, t);
  }
  product = select@(up, select@(low, a * (a + 1.0), a), product);
  T d = select@(up, select@(low, a, a - 1.0), t - 2.0), l = log@(select@(far, a, product));
  T p = POLY_LGAMMA(d);
  T v = 1.0 / a, z = v * v;
  T rest = POLY_STIRLING(z);
  T r = select@(far, (a - 0.5) * (l - 1.0) + (0x1.acfe390c97d69p-2 + rest * v), d * p + select@(up, -l, l));
  T turn = a - round@(a), y = log@(0x1.921fb54442d18p+1 / (a * absolute@(sin@(0x1.921fb54442d18p+1 * turn)))) - r;
  r = select@((M)(x < 0) & (M)(a > 0x1p-60), select@(turn == 0, splat@($inf), y), r);
  return select@(a == $inf, a, r);
}

@@ digamma f64 halved widened: static T(T x) {
  T t = select@(x < 0, 1.0 - x, x), n = splat@(0), d = splat@(1);
  for (int k = 0; k < 9; k++) {
    M more = t < 9.0;
    n = select@(more, n * t + d, n);
    d = select@(more, d * t, d);
    t = select@(more, t + 1.0, t);
  }
  T v = 1.0 / t, z = v * v;
  T p = POLY_BERNOULLI(z);
  T r = (log@(t) - (0.5 * v + z * p)) - n / d;
  T turn = x - round@(x), y = r - 0x1.921fb54442d18p+1 / tan@(0x1.921fb54442d18p+1 * turn);
  r = select@(x < 0, select@(turn == 0, splat@($nan), y), r);
  return select@(x == 0, -1.0 / x, r);
}
"""
