// Gaussian elimination with pivots for many small matrices: each lane of a vector has one. `T` and `I`, an integer as
// wide, are defined before. All matrices may share their right sides. `pivots` has the diagonal of U, `parity` the sign
// of the rows' order, and `bad` says where a pivot is 0.
#include <stdlib.h>

enum { LANES = 64 / sizeof(T) };
typedef T V __attribute__((vector_size(64)));
typedef I M __attribute__((vector_size(64)));

static inline V chosen(M mask, V a, V b) { return (V)((mask & (M)a) | (~mask & (M)b)); }

static inline V size_of(V x) { return (V)((M)x & (I)(((uint64_t)1 << (8 * sizeof(I) - 1)) - 1)); }

static void exchange(V *a, V *b, M mask, int64_t count) {
  for (int64_t j = 0; j < count; j++) {
    V p = a[j], q = b[j];
    a[j] = chosen(mask, q, p);
    b[j] = chosen(mask, p, q);
  }
}

static void subtract(V *a, const V *b, V factor, int64_t count) {
  for (int64_t j = 0; j < count; j++) a[j] -= factor * b[j];
}

static void eliminate(V *a, V *y, int64_t n, int64_t columns, V *parity) {
  for (int64_t c = 0; c < n; c++) {
    V best = size_of(a[c * n + c]);
    M place = (M){0} + (I)c;
    for (int64_t i = c + 1; i < n; i++) {
      V s = size_of(a[i * n + c]);
      M larger = (M)(s > best);
      best = chosen(larger, s, best);
      place = (larger & (I)i) | (~larger & place);
    }
    *parity = chosen((M)(place != (I)c), -*parity, *parity);
    for (int64_t i = c + 1; i < n; i++) {
      M here = (M)(place == (I)i);
      exchange(a + c * n + c, a + i * n + c, here, n - c);
      exchange(y + c * columns, y + i * columns, here, columns);
    }
    for (int64_t i = c + 1; i < n; i++) {
      V factor = a[i * n + c] / a[c * n + c];
      subtract(a + i * n + c + 1, a + c * n + c + 1, factor, n - c - 1);
      subtract(y + i * columns, y + c * columns, factor, columns);
    }
  }
  for (int64_t c = n - 1; c >= 0 && columns; c--) {
    for (int64_t i = c + 1; i < n; i++) subtract(y + c * columns, y + i * columns, a[c * n + i], columns);
    for (int64_t j = 0; j < columns; j++) y[c * columns + j] /= a[c * n + c];
  }
}

void equations(const T *x, const T *right, T *to, T *pivots, T *parity, int64_t *bad, int64_t count, int64_t n,
               int64_t x2, int64_t rights, int64_t right1, int64_t columns, int64_t to0, int64_t to1, int64_t to2,
               int64_t pivots0, int64_t pivots1, int64_t parity0, int64_t bad0) {
  V *a = aligned_alloc(sizeof(V), (n * n + n * columns + 1) * sizeof(V)), *y = a + n * n;
  if (a == NULL) abort();
  int64_t step = rights == count ? n * columns : 0;
  for (int64_t b = 0; b < count; b += LANES) {
    int64_t most = count - b < LANES ? count - b : LANES;
    for (int64_t i = 0; i < n * n; i++)
      for (int64_t l = 0; l < LANES; l++) a[i][l] = x[(b + (l < most ? l : 0)) * n * n + i];
    for (int64_t i = 0; i < n * columns; i++)
      for (int64_t l = 0; l < LANES; l++) y[i][l] = right[(b + (l < most ? l : 0)) * step + i];
    V sign = (V){0} + 1;
    eliminate(a, y, n, columns, &sign);
    for (int64_t l = 0; l < most; l++) {
      parity[b + l] = sign[l];
      bad[b + l] = 0;
      for (int64_t i = 0; i < n; i++) {
        pivots[(b + l) * n + i] = a[i * n + i][l];
        bad[b + l] |= a[i * n + i][l] == 0;
      }
      for (int64_t i = 0; i < n * columns; i++) to[(b + l) * n * columns + i] = y[i][l];
    }
  }
  free(a);
}
