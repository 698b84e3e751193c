"""Inverse trigonometric and hyperbolic functions: float64 at most three units in the last place off.

float32 goes through float64 and is rounded once. atan takes its argument to |t| <= tan(pi/8) by one quotient, which
atan2 forms from its two arguments; asin and acos beyond 1/2 use half of the complement, (1 - a) / 2. The inverse
hyperbolic functions are log1p of what keeps its accuracy near zero. Fits by interpolation at Chebyshev's points:

    ATAN  (atan(t)/t - 1) / t**2 in z = t*t     ASIN  (asin(s)/s - 1) / s**2 in z = s*s, for z up to 1/4
"""

TEXT = r"""
@@ ATAN f64 polynomial -0x1.5555555555555p-2 0x1.9999999999953p-3 -0x1.249249248d7eep-3 0x1.c71c71c304b68p-4
  -0x1.745d165df3f95p-4 0x1.3b1392d9e785cp-4 -0x1.110e880a7a521p-4 0x1.e19a13b9fc6dfp-5 -0x1.ac7a938b69c93p-5
  0x1.74ddd408bb4c1p-5 -0x1.1b33b923aa954p-5 0x1.0ad36a455cafbp-6
@@ ASIN f64 polynomial 0x1.5555555555555p-3 0x1.3333333333388p-4 0x1.6db6db6dac1e0p-5 0x1.f1c71c7a52ba3p-6
  0x1.6e8ba123e494cp-6 0x1.1c4efce23019fp-6 0x1.c990ad3d8fdcap-7 0x1.7b027ee1dd585p-7 0x1.3b49de7121487p-7
  0x1.31622469ce5adp-7 0x1.8f193743418ffp-9 0x1.406192d124629p-6 -0x1.3b416bb7d9257p-6 0x1.e529c6fce9bb4p-6

/* base + low + atan(t) for |t| <= tan(pi/8) */
@@ angle f64: T(T t, T base, T low) { T z = t * t; return base + (t + (t * z * POLY_ATAN(z) + low)); }

@@ atan f64 halved widened: static T(T x) {
  T a = absolute@(x);
  M far = a > 0x1.3504f333f9de6p+1, middle = a > 0x1.a827999fcef32p-2;
  T n = select@(far, splat@(-1), select@(middle, a - 1.0, a));
  T d = select@(far, a, select@(middle, a + 1.0, splat@(1)));
  T base = select@(far, splat@(0x1.921fb54442d18p+0), select@(middle, splat@(0x1.921fb54442d18p-1), splat@(0)));
  T low = select@(far, splat@(0x1.1a62633145c07p-54), select@(middle, splat@(0x1.1a62633145c07p-55), splat@(0)));
  return copy_sign@(angle@(n / d, base, low), x);
}

@@ atan2 f64 halved widened: static T(T y, T x) {
  T a = absolute@(y), b = absolute@(x);
  M endless = (M)(a == $inf) & (M)(b == $inf), nothing = (M)(a == 0) & (M)(b == 0);
  T unit = select@((M)(a > 0x1p1020) | (M)(b > 0x1p1020), splat@(0x1p-4), splat@(1));
  a = select@(endless, splat@(1), a * unit);
  b = select@(endless | nothing, splat@(1), b * unit);
  M far = a > b * 0x1.3504f333f9de6p+1, middle = a > b * 0x1.a827999fcef32p-2, left = bits@(x) < 0;
  T n = select@(far, -b, select@(middle, a - b, a));
  T d = select@(far, a, select@(middle, a + b, b));
  T base = select@(left, splat@(0x1.921fb54442d18p+1), splat@(0));
  T low = select@(left, splat@(0x1.1a62633145c07p-53), splat@(0));
  base = select@(middle, select@(left, splat@(0x1.2d97c7f3321d2p+1), splat@(0x1.921fb54442d18p-1)), base);
  low = select@(middle, select@(left, splat@(0x1.a79394c9e8a0ap-54), splat@(0x1.1a62633145c07p-55)), low);
  base = select@(far, splat@(0x1.921fb54442d18p+0), base);
  low = select@(far, splat@(0x1.1a62633145c07p-54), low);
  T t = n / d;
  T r = copy_sign@(angle@(select@(left, -t, t), base, low), y);
  return select@((M)(x != x) | (M)(y != y), x + y, r);
}

/* asin of a up to 1/2, and of half of the complement beyond */
@@ arc f64: T(T a, M far) {
  T z = select@(far, (1.0 - a) * 0.5, a * a), s = select@(far, sqrt@(z), a);
  return s * z * POLY_ASIN(z) + s;
}

@@ asin f64 halved widened: static T(T x) {
  T a = absolute@(x);
  M far = a > 0.5;
  T r = arc@(a, far);
  return copy_sign@(select@(far, 0x1.921fb54442d18p+0 - (r + r - 0x1.1a62633145c07p-54), r), x);
}

@@ acos f64 halved widened: static T(T x) {
  T a = absolute@(x);
  M far = a > 0.5;
  T r = arc@(a, far);
  T beyond = select@(x < 0, 0x1.921fb54442d18p+1 - (r + r - 0x1.1a62633145c07p-53), r + r);
  r = select@(x < 0, -r, r);
  return select@(far, beyond, 0x1.921fb54442d18p+0 - (r - 0x1.1a62633145c07p-54));
}

/* half of e**x, for x >= 0 */
@@ exp_half f64: T(T x) {
  T b = at_most@(x, 712.0), n = nearest@(b * $log2e);
  return scale@(exp_near@(b - n * $ln2_high - n * $ln2_low), n - 1.0);
}

@@ sinh f64 halved widened: static T(T x) {
  T a = absolute@(x), h = expm1_half@(at_most@(a, 40.0));
  T r = select@(a > 40.0, exp_half@(a), h + h / (h + h + 1.0));
  return copy_sign@(select@(a < 0x1p-100, a, r), x);
}

@@ cosh f64 halved widened: static T(T x) {
  T h = exp_half@(absolute@(x));
  return h + 0.25 / h;
}

@@ asinh f64 halved widened: static T(T x) {
  T a = absolute@(x), b = at_most@(a, 0x1p60), z = b * b;
  M far = a > 0x1p60;
  T r = log1p@(select@(far, a, b + z / (1.0 + sqrt@(z + 1.0))));
  return copy_sign@(r + select@(far, splat@(0x1.62e42fefa39efp-1), splat@(0)), x);
}

@@ acosh f64 halved widened: static T(T x) {
  T b = at_most@(x, 0x1p60), t = b - 1.0;
  M far = x > 0x1p60;
  T r = log1p@(select@(far, x, t + sqrt@(t * (t + 2.0))));
  r += select@(far, splat@(0x1.62e42fefa39efp-1), splat@(0));
  return select@(x < 1.0, splat@($nan), r);
}

@@ atanh f64 halved widened: static T(T x) {
  T a = absolute@(x), r = 0.5 * log1p@((a + a) / (1.0 - a));
  return copy_sign@(select@(a < 0x1p-60, a, r), x);
}
"""
