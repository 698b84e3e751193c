"""Selects, bits, halves of vectors, memory access, folds, minimum and maximum."""

TEXT = r"""
@@ floor_divide i64 scalar: long(long a, long b) = a / b - (a % b < 0)
@@ floor_remainder i64 scalar: long(long a, long b) { long r = a % b; return r < 0 ? r + b : r; }
@@ least i64 scalar: long(long a, long b) = a < b ? a : b
@@ greatest i64 scalar: long(long a, long b) = a > b ? a : b
@@ first_bits i64 scalar: u64(long n) = n <= 0 ? 0 : n > 63 ? -1ull : (1ull << n) - 1

@@ fence i64 scalar: void(void) {
#ifdef __SSE__
  __builtin_ia32_sfence();
#endif
}

@@ splat any scalar: T(E x) = x
@@ splat any vector: T(E x) = x - (T){}
@@ iota int vector: T(void) = (T){$iota}
@@ select any scalar: T(int m, T a, T b) = m ? a : b
@@ select any vector: T(M m, T a, T b) = (T)((m & (M)a) | (~m & (M)b))
@@ bits float scalar: I(T x) { union { T f; I i; } u = {x}; return u.i; }
@@ bits float vector: I(T x) = (I)x
@@ real float scalar: T(I x) { union { I i; T f; } u = {x}; return u.f; }
@@ real float vector: T(I x) = (T)x
@@ low any vector: H(T v) = $low
@@ high any vector: H(T v) = $high
@@ join any vector: T(H a, H b) = $join
@@ masked_load any vector fitted: T(const E *p, u64 m) { $masked_load }
@@ masked_store any vector fitted: void(E *p, T v, u64 m) { $masked_store }
@@ stream any vector fitted: void(E *p, T v) { $stream }
@@ gather any vector: T(const E *p, long step) = (T){$gather}

@@ transposed any vector: void(const E *p, long step, T *out) {
  $transposed
}

@@ called_transposed any vector: NEVER_INLINE void(const E *p, long step, T *out) { transposed@(p, step, out); }

@@ masked_transposed any vector: NEVER_INLINE void(const E *p, long step, u64 m, T *out) {
  T rows[L] = {};
  for (long j = 0; j < L; j++) {
    if (m >> j & 1) rows[j] = *(const T_u *)(p + j * step);
  }
  transposed@((const E *)rows, L, out);
}

@@ every_second any vector: T(const E *p) = pick_every_second@(*(const T_u *)p, *(const T_u *)(p + L - 1))
@@ pick_every_second any vector: T(T a, T b) = $every_second

@@ masked_every_second any vector: T(const E *p, u64 m) {
  return pick_every_second@(masked_load@(p, m), masked_load@(p + L - 1, m >> (L - 1)));
}

@@ spread_bits i64 scalar: u64(u64 x) {
  x &= 0xffffffffull;
  x = (x | x << 16) & 0x0000ffff0000ffffull;
  x = (x | x << 8) & 0x00ff00ff00ff00ffull;
  x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
  x = (x | x << 2) & 0x3333333333333333ull;
  return (x | x << 1) & 0x5555555555555555ull;
}

@@ scatter any vector: void(E *p, long step, T v) { EACH_LANE (int j = 0; j < L; j++) p[j * step] = v[j]; }

@@ first_lanes signed vector: T(long n) {
  E count = n < 0 ? 0 : n > L ? L : n;
  return (T)(iota@() < splat@(count));
}

@@ fold_add|fold_mul|fold_max|fold_min any scalar: T(T v) = v
@@ fold_add any vector: E(T v) = fold_add@H(low@(v) + high@(v))
@@ fold_mul any vector: E(T v) = fold_mul@H(low@(v) * high@(v))
@@ fold_max any vector: E(T v) = fold_max@H(maximum@H(low@(v), high@(v)))
@@ fold_min any vector: E(T v) = fold_min@H(minimum@H(low@(v), high@(v)))
@@ fold_or|fold_and signed scalar: int(T m) = m != 0
@@ fold_or signed vector: int(T m) = fold_or@H(low@(m) | high@(m))
@@ fold_and signed vector: int(T m) = fold_and@H(low@(m) & high@(m))
@@ maximum|minimum float fitted: T(T a, T b) { $NAME }
@@ maximum|minimum signed: T(T a, T b) { $NAME_signed }
@@ maximum|minimum unsigned: T(T a, T b) { $NAME_unsigned }

@@ logaddexp float: T(T a, T b) {
  T gap = select@(a == b, splat@(0), absolute@(a - b));
  return maximum@(a, b) + log1p@(exp@(-gap));
}

@@ absolute float: T(T x) = real@(bits@(x) & $magnitude)
@@ copy_sign float: T(T x, T s) = real@((bits@(x) & $magnitude) | (bits@(s) & splat@I(-$magnitude - 1)))

@@ sign float: T(T x) {
  T r = select@(x > 0, splat@(1), splat@(0));
  r = select@(x < 0, splat@(-1), r);
  return select@(x != x, x, r);
}

@@ sqrt float scalar: T(T x) { $scalar_sqrt }
@@ sqrt float vector fitted: T(T x) { $sqrt }
@@ reciprocal float: T(T x) = 1 / x
@@ rsqrt float: T(T x) = 1 / sqrt@(x)
@@ at_most|at_least float: T(T x, E limit) { $NAME }
@@ round|floor|ceil|trunc float: T(T x) { $NAME }

@@ round_by_adding float: T(T x) {
  T a = absolute@(x);
  return copy_sign@(select@(a < $(0x1p23f|0x1p52), (a + $(0x1p23f|0x1p52)) - $(0x1p23f|0x1p52), x), x);
}

/* a + b exactly: the rounded sum and what it lost */
@@ sum float: T(T a, T b, T *lost) {
  T s = a + b, t = s - a;
  *lost = (a - (s - t)) + (b - t);
  return s;
}

@@ scale float fitted: T(T x, T n) { $scale }
@@ scale_kept float: T(T q, T n, T x, E limit) { $scale_kept }

/* the remainder of a / b towards zero, exactly: long division of the mantissas, $(40|11) bits at a time */
@@ remainder float scalar: static T(T a, T b) {
  U x = bits@(absolute@(a)), y = bits@(absolute@(b)), endless = bits@($inf), leading = (U)1 << $mantissa;
  if (y == 0 || y > endless || x >= endless) return $nan;
  if (x < y) return a;
  int ex = x >> $mantissa, ey = y >> $mantissa;
  u64 m = ex ? (x & (leading - 1)) | leading : x, n = ey ? (y & (leading - 1)) | leading : y;
  long k = ey ? ey : 1, shift = (ex ? ex : 1) - k;
  m %= n;
  for (; shift > 0 && m; shift -= $(40|11)) m = (m << (shift < $(40|11) ? shift : $(40|11))) % n;
  return copy_sign@((T)m * real@((I)(k > $mantissa ? (k - $mantissa) << $mantissa : 1l << (k - 1))), a);
}

@@ mod float scalar lanewise: static T(T a, T b) {
  T r = remainder@(a, b);
  if (r != r) return r;
  if (r == 0) return copy_sign@(0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

@@ floordiv float scalar lanewise: static T(T a, T b) {
  if (b == 0 || absolute@(a) == $inf || absolute@(b) == $inf) return floor@(a / b);
  T r = remainder@(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return copy_sign@(0, a / b);
  T f = floor@(q);
  return q - f > (T)0.5 ? f + 1 : f;
}
"""
