"""sin, cos and tan: float64 at most two units in the last place off, float32 through float64.

x = n*pi/2 + r with |r| <= pi/4. Up to 2**30, pi/2 is subtracted in pieces short enough that their products with n are
exact; float64 keeps r as a pair. Beyond, x * 2/pi is formed from the bits of 2/pi that matter, one lane at a time.
Minimax fits over z = r*r: SIN (sin(r)/r - 1) / z and COS (cos(r) - 1 + z/2) / z**2; the SHORT ones serve float32.
"""

TEXT = r"""
@@ SIN f64 polynomial -0x1.5555555555555p-3 0x1.111111111110bp-7 -0x1.a01a01a018acep-13 0x1.71de3a5337a4bp-19
  -0x1.ae645295e06f5p-26 0x1.61209125f5462p-33 -0x1.aaa47c9593156p-41
@@ COS f64 polynomial 0x1.5555555555555p-5 -0x1.6c16c16c16c10p-10 0x1.a01a01a018dd6p-16 -0x1.27e4fb75fc2aap-22
  0x1.1eed8ca230564p-29 -0x1.9393369080ea9p-37 0x1.aac4e784fd5b7p-45
@@ SHORT_SIN f64 polynomial -0x1.5555554cb20a0p-3 0x1.111108907c289p-7 -0x1.a00f98e976651p-13 0x1.6cd733e9099cap-19
@@ SHORT_COS f64 polynomial 0x1.5555554f48bc8p-5 -0x1.6c16b892b9465p-10 0x1.a0111c164e8e5p-16 -0x1.2429fc1aea2e6p-22

@@ two_over_pi f64 scalar
/* the bits of 2/pi, after 64 that are zero */
CONSTANT u64 two_over_pi@[] = {
    0, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

/* the upper 64 bits of a product */
@@ multiply_high f64 scalar: u64(u64 a, u64 b) = $multiply_high

/* x = n*pi/2 + r + *low for any finite x, with n modulo 4 */
@@ reduce_huge f64 scalar: NEVER_INLINE f64(f64 x, f64 *low, long *n) {
  u64 b = bits@(x), m = (b & 0xfffffffffffffull) | 0x10000000000000ull;
  /* the 192 bits of 2/pi whose products with m are below 4 and matter */
  long skip = 62 + (long)(b >> 52 & 2047) - 1075;
  long word = skip / 64;
  int left = skip % 64;
  u64 w[3];
  for (int j = 0; j < 3; j++) {
    u64 own = two_over_pi@[word + j];
    w[j] = left ? own << left | two_over_pi@[word + j + 1] >> (64 - left) : own;
  }
  /* the product, and its distance from a quadrant: 128 bits, of which the first is the sign, added from four parts */
  u64 last = m * w[2], carried = multiply_high@(m, w[2]), mid = m * w[1] + carried;
  u64 top = m * w[0] + multiply_high@(m, w[1]) + (mid < carried);
  u64 high = top << 2 | mid >> 62, rest = mid << 2 | last >> 62;
  f64 lost, f = sum@((f64)((i64)high >> 32) * 0x1p-32, (f64)(i64)(high & 0xffffffff) * 0x1p-64, &lost);
  f = sum@(f, lost + (f64)(i64)(rest >> 32) * 0x1p-96, &lost);
  f = sum@(f, lost + (f64)(i64)(rest & 0xffffffff) * 0x1p-128, &lost);
  f64 more, r = product@(f, 0x1.921fb54442d18p+0, &more);
  more += lost * 0x1.921fb54442d18p+0 + f * 0x1.1a62633145c07p-54;
  long quadrant = (long)((top >> 62) + (high >> 63));
  int flip = (i64)b < 0;
  *n = (flip ? -quadrant : quadrant) & 3;
  *low = flip ? -more : more;
  return flip ? -r : r;
}

/* x = n*pi/2 + r + *low */
@@ reduce f64: T(T x, T *low, I *quadrant) {
  T n = nearest@(x * 0x1.45f306dc9c883p-1);
  T r = x - n * 0x1.921fbp+0, a, b, c, d;
  r = sum@(r, -(n * 0x1.5110bp-22), &a);
  r = sum@(r, -(n * 0x1.184698p-44), &b);
  r = sum@(r, -(n * 0x1.3198ap-69), &c);
  r = sum@(r, -(n * 0x1.701b8p-92), &d);
  T l = a + (b + (c + (d - n * 0x1.cd129024e088ap-115)));
  *quadrant = CONVERT(n, I) & 3;
  return sum@(r, l, low);
}

@@ reduce_short f64: T(T x, I *quadrant) {
  T n = nearest@(x * 0x1.45f306dc9c883p-1);
  *quadrant = CONVERT(n, I) & 3;
  return x - n * 0x1.921fbp+0 - n * 0x1.5110bp-22 - n * 0x1.18469898cc517p-44;
}

@@ sine_part f64: T(T r, T low) {
  T z = r * r;
  T p = POLY_SIN(z);
  return r + (r * z * p + low * (1.0 - 0.5 * z));
}

@@ cosine_part f64: T(T r, T low) {
  T z = r * r, halved = 0.5 * z, w = 1.0 - halved;
  T p = POLY_COS(z);
  return w + (((1.0 - w) - halved) + (z * z * p - r * low));
}

/* the quotient of two rounded sums, mended for what their rounding lost */
@@ tangent_part f64: T(T r, T low, M odd) {
  T z = r * r, halved = 0.5 * z, w = 1.0 - halved;
  T p = POLY_SIN(z), o = POLY_COS(z);
  T sl = r * z * p + low * (1.0 - halved), cl = ((1.0 - w) - halved) + (z * z * o - r * low);
  T s = r + sl, c = w + cl;
  sl += r - s;
  cl += w - c;
  T a = select@(odd, -c, s), al = select@(odd, -cl, sl), b = select@(odd, s, c), bl = select@(odd, sl, cl);
  T t = a / b;
  return t + (al - t * bl) / b;
}

/* sin of x = q*pi/2 + r, from sin(r) and cos(r) */
@@ turn f64: T(T s, T c, I q) {
  T y = select@((q & 1) != 0, c, s);
  return select@((q & 2) != 0, -y, y);
}

/* sin(x + shift * pi/2); if the shift is negative, tan(x) */
@@ huge f64 scalar: NEVER_INLINE T(T x, long shift) {
  long n;
  T low, r = reduce_huge@(x, &low, &n);
  return shift < 0 ? tangent_part@(r, low, n & 1) : turn@(sine_part@(r, low), cosine_part@(r, low), n + shift);
}

/* y, and where x is huge what it should be */
@@ is_huge f64: M(T x) = (M)(absolute@(x) >= 0x1p30) & (M)(absolute@(x) < $inf)
@@ mended f64 scalar: T(T x, T y, long shift) = is_huge@(x) ? huge@(x, shift) : y

@@ mended f64 vector: T(T x, T y, long shift) {
  M found = is_huge@(x);
  if (fold_or@I(found)) for (int j = 0; j < L; j++) if (found[j]) y[j] = huge@E(x[j], shift);
  return y;
}

/* sin(x + shift * pi/2) */
@@ shifted_sin f64: T(T x, long shift) {
  T low;
  I q;
  T r = reduce@(x, &low, &q);
  return mended@(x, turn@(sine_part@(r, low), cosine_part@(r, low), q + splat@I(shift)), shift);
}

@@ sin f64 halved: static T(T x) = select@(x == 0, x, shifted_sin@(x, 0))
@@ cos f64 halved: static T(T x) = shifted_sin@(x, 1)

@@ tan f64 halved: static T(T x) {
  T low;
  I q;
  T r = reduce@(x, &low, &q);
  T y = mended@(x, tangent_part@(r, low, (q & 1) != 0), -1);
  return select@(x == 0, x, y);
}

/* the sine and the cosine of x without its quadrants, with the precision that float32 needs */
@@ short_parts f64: T(T x, T *cosine, I *quadrant) {
  T r = reduce_short@(x, quadrant), z = r * r;
  T p = POLY_SHORT_SIN(z), o = POLY_SHORT_COS(z);
  *cosine = 1 - z / 2 + z * z * o;
  return r + r * z * p;
}

@@ shifted_sin_short f64: T(T x, long shift) {
  I q;
  T c, s = short_parts@(x, &c, &q);
  return mended@(x, turn@(s, c, q + splat@I(shift)), shift);
}

@@ tan_short f64: static T(T x) {
  I q;
  T c, s = short_parts@(x, &c, &q);
  M odd = (q & 1) != 0;
  return mended@(x, select@(odd, -c, s) / select@(odd, s, c), -1);
}

@@ sin f32 halved: static T(T x) = select@(x == 0, x, CONVERT(shifted_sin_short@D(CONVERT(x, D), 0), T))
@@ cos f32 halved: static T(T x) = CONVERT(shifted_sin_short@D(CONVERT(x, D), 1), T)
@@ tan f32 halved: static T(T x) = select@(x == 0, x, CONVERT(tan_short@D(CONVERT(x, D)), T))
"""
