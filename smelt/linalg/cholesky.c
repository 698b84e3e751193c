// Cholesky factors of many small matrices: each lane of a vector has one. `T` and `ROOT` are defined before.
// `bad` says of which matrices a pivot was not positive.
#include <stdlib.h>

enum { LANES = 64 / sizeof(T) };
typedef T V __attribute__((vector_size(64)));

static void factor(V *a, int64_t n, V *worst) {
  for (int64_t j = 0; j < n; j++) {
    V *row = a + j * n, s = row[j];
    for (int64_t k = 0; k < j; k++) s -= row[k] * row[k];
    for (int l = 0; l < LANES; l++) {
      if (s[l] <= 0) (*worst)[l] = 0;
      s[l] = ROOT(s[l]);
    }
    row[j] = s;
    int64_t i = j + 1;
    for (; i + 4 <= n; i += 4) {
      V *a0 = a + i * n, *a1 = a0 + n, *a2 = a1 + n, *a3 = a2 + n;
      V s0 = a0[j], s1 = a1[j], s2 = a2[j], s3 = a3[j];
      for (int64_t k = 0; k < j; k++) {
        V f = row[k];
        s0 -= a0[k] * f;
        s1 -= a1[k] * f;
        s2 -= a2[k] * f;
        s3 -= a3[k] * f;
      }
      a0[j] = s0 / s;
      a1[j] = s1 / s;
      a2[j] = s2 / s;
      a3[j] = s3 / s;
    }
    for (; i < n; i++) {
      V *other = a + i * n, t = other[j];
      for (int64_t k = 0; k < j; k++) t -= other[k] * row[k];
      other[j] = t / s;
    }
  }
}

void cholesky(const T *x, T *y, int64_t *bad, int64_t count, int64_t n, int64_t x2, int64_t y0, int64_t y1, int64_t y2,
              int64_t bad0) {
  V *a = aligned_alloc(sizeof(V), (n * n + 1) * sizeof(V));
  if (a == NULL) abort();
  for (int64_t b = 0; b < count; b += LANES) {
    int64_t most = count - b < LANES ? count - b : LANES;
    const T *from = x + b * n * n;
    T *to = y + b * n * n;
    for (int64_t i = 0; i < n; i++)
      for (int64_t j = 0; j <= i; j++)
        for (int64_t l = 0; l < LANES; l++) a[i * n + j][l] = from[(l < most ? l : 0) * n * n + i * n + j];
    V worst = (V){0} + 1;
    factor(a, n, &worst);
    for (int64_t l = 0; l < most; l++) {
      bad[b + l] = worst[l] == 0;
      for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < n; j++) to[(l * n + i) * n + j] = j <= i ? a[i * n + j][l] : 0;
    }
  }
  free(a);
}
