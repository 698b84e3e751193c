"""Selects, bits, halves of vectors, memory access, folds, minimum and maximum."""

TEXT = r"""
@@ floor_divide i64 scalar
INLINE long floor_divide@(long a, long b) { return a / b - (a % b < 0); }

@@ floor_remainder i64 scalar
INLINE long floor_remainder@(long a, long b) { long r = a % b; return r < 0 ? r + b : r; }

@@ least i64 scalar
INLINE long least@(long a, long b) { return a < b ? a : b; }

@@ greatest i64 scalar
INLINE long greatest@(long a, long b) { return a > b ? a : b; }

@@ first_bits i64 scalar
INLINE u64 first_bits@(long n) { return n <= 0 ? 0 : n > 63 ? -1ull : (1ull << n) - 1; }

@@ fence i64 scalar
INLINE void fence@(void) {
#ifdef __SSE__
  __builtin_ia32_sfence();
#endif
}

@@ splat any scalar
INLINE T splat@(E x) { return x; }

@@ splat any vector
INLINE T splat@(E x) { return x - (T){}; }

@@ iota int vector
INLINE T iota@(void) { return (T){$iota}; }

@@ select any scalar
INLINE T select@(int m, T a, T b) { return m ? a : b; }

@@ select any vector
INLINE T select@(M m, T a, T b) { return (T)((m & (M)a) | (~m & (M)b)); }

@@ bits float scalar
INLINE I bits@(T x) { union { T f; I i; } u = {x}; return u.i; }

@@ bits float vector
INLINE I bits@(T x) { return (I)x; }

@@ real float scalar
INLINE T real@(I x) { union { I i; T f; } u = {x}; return u.f; }

@@ real float vector
INLINE T real@(I x) { return (T)x; }

@@ low any vector
INLINE H low@(T v) { return $low; }

@@ high any vector
INLINE H high@(T v) { return $high; }

@@ join any vector
INLINE T join@(H a, H b) { return $join; }

@@ masked_load any vector
INLINE T masked_load@(const E *p, u64 m) { $masked_load }

@@ masked_store any vector
INLINE void masked_store@(E *p, T v, u64 m) { $masked_store }

@@ stream any vector
INLINE void stream@(E *p, T v) { $stream }

@@ gather any vector
INLINE T gather@(const E *p, long step) { return (T){$gather}; }

@@ transposed any vector
INLINE void transposed@(const E *p, long step, T *out) {
  $transposed
}

@@ called_transposed any vector
NEVER_INLINE void called_transposed@(const E *p, long step, T *out) { transposed@(p, step, out); }

@@ masked_transposed any vector
NEVER_INLINE void masked_transposed@(const E *p, long step, u64 m, T *out) {
  T rows[L] = {};
  for (long j = 0; j < L; j++) {
    if (m >> j & 1) rows[j] = *(const T_u *)(p + j * step);
  }
  transposed@((const E *)rows, L, out);
}

@@ every_second any vector
INLINE T every_second@(const E *p) { return pick_every_second@(*(const T_u *)p, *(const T_u *)(p + L - 1)); }

@@ pick_every_second any vector
INLINE T pick_every_second@(T a, T b) { return $every_second; }

@@ masked_every_second any vector
INLINE T masked_every_second@(const E *p, u64 m) {
  return pick_every_second@(masked_load@(p, m), masked_load@(p + L - 1, m >> (L - 1)));
}

@@ spread_bits i64 scalar
INLINE u64 spread_bits@(u64 x) {
  x &= 0xffffffffull;
  x = (x | x << 16) & 0x0000ffff0000ffffull;
  x = (x | x << 8) & 0x00ff00ff00ff00ffull;
  x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
  x = (x | x << 2) & 0x3333333333333333ull;
  return (x | x << 1) & 0x5555555555555555ull;
}

@@ scatter any vector
INLINE void scatter@(E *p, long step, T v) { for (int j = 0; j < L; j++) p[j * step] = v[j]; }

@@ first_lanes signed vector
INLINE T first_lanes@(long n) {
  E count = n < 0 ? 0 : n > L ? L : n;
  return (T)(iota@() < splat@(count));
}

@@ some signed scalar
INLINE int some@(T m) { return m != 0; }

@@ some signed vector
INLINE int some@(T m) { return some@H(low@(m) | high@(m)); }

@@ fold_add any scalar
INLINE T fold_add@(T v) { return v; }

@@ fold_add any vector
INLINE E fold_add@(T v) { return fold_add@H(low@(v) + high@(v)); }

@@ fold_mul any scalar
INLINE T fold_mul@(T v) { return v; }

@@ fold_mul any vector
INLINE E fold_mul@(T v) { return fold_mul@H(low@(v) * high@(v)); }

@@ fold_max any scalar
INLINE T fold_max@(T v) { return v; }

@@ fold_max any vector
INLINE E fold_max@(T v) { return fold_max@H(maximum@H(low@(v), high@(v))); }

@@ fold_min any scalar
INLINE T fold_min@(T v) { return v; }

@@ fold_min any vector
INLINE E fold_min@(T v) { return fold_min@H(minimum@H(low@(v), high@(v))); }

@@ fold_or signed scalar
INLINE int fold_or@(T m) { return m != 0; }

@@ fold_or signed vector
INLINE int fold_or@(T m) { return fold_or@H(low@(m) | high@(m)); }

@@ fold_and signed scalar
INLINE int fold_and@(T m) { return m != 0; }

@@ fold_and signed vector
INLINE int fold_and@(T m) { return fold_and@H(low@(m) & high@(m)); }

@@ maximum float
INLINE T maximum@(T a, T b) { $maximum }

@@ minimum float
INLINE T minimum@(T a, T b) { $minimum }

@@ maximum int
INLINE T maximum@(T a, T b) { return select@(a > b, a, b); }

@@ minimum int
INLINE T minimum@(T a, T b) { return select@(a < b, a, b); }

@@ logaddexp float
INLINE T logaddexp@(T a, T b) {
  T gap = select@(a == b, splat@(0), absolute@(a - b));
  return maximum@(a, b) + log1p@(exp@(-gap));
}

@@ absolute f32
INLINE T absolute@(T x) { return real@(bits@(x) & 0x7fffffff); }

@@ absolute f64
INLINE T absolute@(T x) { return real@(bits@(x) & 0x7fffffffffffffffll); }

@@ copy_sign f32
INLINE T copy_sign@(T x, T s) { return real@((bits@(x) & 0x7fffffff) | (bits@(s) & splat@I(-0x7fffffff - 1))); }

@@ copy_sign f64
INLINE T copy_sign@(T x, T s) {
  return real@((bits@(x) & 0x7fffffffffffffffll) | (bits@(s) & splat@I(-0x7fffffffffffffffll - 1)));
}

@@ sign float
INLINE T sign@(T x) {
  T r = select@(x > 0, splat@(1), splat@(0));
  r = select@(x < 0, splat@(-1), r);
  return select@(x != x, x, r);
}

@@ sqrt float
INLINE T sqrt@(T x) { $sqrt }

@@ reciprocal float
INLINE T reciprocal@(T x) { return 1 / x; }

@@ rsqrt float
INLINE T rsqrt@(T x) { return 1 / sqrt@(x); }

@@ at_most float
INLINE T at_most@(T x, E limit) { $at_most }

@@ at_least float
INLINE T at_least@(T x, E limit) { $at_least }

@@ round float
INLINE T round@(T x) { $round }

@@ round_by_adding f32
INLINE T round_by_adding@(T x) {
  T a = absolute@(x);
  return copy_sign@(select@(a < 0x1p23f, (a + 0x1p23f) - 0x1p23f, x), x);
}

@@ round_by_adding f64
INLINE T round_by_adding@(T x) {
  T a = absolute@(x);
  return copy_sign@(select@(a < 0x1p52, (a + 0x1p52) - 0x1p52, x), x);
}

@@ floor float
INLINE T floor@(T x) { $floor }

@@ ceil float
INLINE T ceil@(T x) { $ceil }

@@ trunc float
INLINE T trunc@(T x) { $trunc }

@@ sum float
/* a + b exactly: the rounded sum and what it lost */
INLINE T sum@(T a, T b, T *lost) {
  T s = a + b, t = s - a;
  *lost = (a - (s - t)) + (b - t);
  return s;
}

@@ scale float
INLINE T scale@(T x, T n) { $scale }

@@ scale_kept float
INLINE T scale_kept@(T q, T n, T x, E limit) { $scale_kept }

@@ remainder f32 scalar
/* the remainder of a / b towards zero, exactly: long division of the mantissas, 40 bits at a time */
static T remainder@(T a, T b) {
  U x = bits@(a) & 0x7fffffffu, y = bits@(b) & 0x7fffffffu;
  if (y == 0 || y > 0x7f800000u || x >= 0x7f800000u) return __builtin_nanf("");
  if (x < y) return a;
  int ex = x >> 23, ey = y >> 23;
  u64 m = ex ? (x & 0x7fffffu) | 0x800000u : x, n = ey ? (y & 0x7fffffu) | 0x800000u : y;
  int shift = (ex ? ex : 1) - (ey ? ey : 1);
  m %= n;
  for (; shift > 0 && m; shift -= 40) m = (m << (shift < 40 ? shift : 40)) % n;
  return copy_sign@((T)m * real@((I)((ey ? ey : 1) > 23 ? ((ey ? ey : 1) - 23) << 23 : 1 << ((ey ? ey : 1) - 1))), a);
}

@@ remainder f64 scalar
static T remainder@(T a, T b) {
  U x = bits@(a) & 0x7fffffffffffffffull, y = bits@(b) & 0x7fffffffffffffffull;
  if (y == 0 || y > 0x7ff0000000000000ull || x >= 0x7ff0000000000000ull) return __builtin_nan("");
  if (x < y) return a;
  int ex = x >> 52, ey = y >> 52;
  u64 m = ex ? (x & 0xfffffffffffffull) | 0x10000000000000ull : x;
  u64 n = ey ? (y & 0xfffffffffffffull) | 0x10000000000000ull : y;
  int shift = (ex ? ex : 1) - (ey ? ey : 1);
  m %= n;
  for (; shift > 0 && m; shift -= 11) m = (m << (shift < 11 ? shift : 11)) % n;
  long k = ey ? ey : 1;
  return copy_sign@((T)m * real@(k > 52 ? (k - 52) << 52 : 1ll << (k - 1)), a);
}

@@ mod float scalar
static T mod@(T a, T b) {
  T r = remainder@(a, b);
  if (r != r) return r;
  if (r == 0) return copy_sign@(0, b);
  return (r < 0) != (b < 0) ? r + b : r;
}

@@ floordiv float scalar
static T floordiv@(T a, T b) {
  if (b == 0 || absolute@(a) == $inf || absolute@(b) == $inf) return floor@(a / b);
  T r = remainder@(a, b), q = (a - r) / b;
  if (r != 0 && (r < 0) != (b < 0)) q -= 1;
  if (q == 0) return copy_sign@(0, a / b);
  T f = floor@(q);
  return q - f > (T)0.5 ? f + 1 : f;
}

@@ mod float vector
static T mod@(T a, T b) { T r; for (int j = 0; j < L; j++) r[j] = mod@E(a[j], b[j]); return r; }

@@ floordiv float vector
static T floordiv@(T a, T b) { T r; for (int j = 0; j < L; j++) r[j] = floordiv@E(a[j], b[j]); return r; }
"""
