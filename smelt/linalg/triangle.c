// Solutions for many small triangular matrices: each lane of a vector has one. `T` is defined before.
// `options`: upper, transposed, unit diagonal. `bad` says of which matrices an element of the diagonal is 0.
#include <stdlib.h>

enum { LANES = 64 / sizeof(T) };
typedef T V __attribute__((vector_size(64)));

// By substitution, in place; a is lower triangular.
static void substitute(const V *a, V *y, int64_t n, int64_t columns) {
  int64_t c = 0;
  for (; c + 4 <= columns; c += 4)
    for (int64_t i = 0; i < n; i++) {
      V *own = y + i * columns + c, s0 = own[0], s1 = own[1], s2 = own[2], s3 = own[3], d = a[i * n + i];
      for (int64_t k = 0; k < i; k++) {
        V f = a[i * n + k], *other = y + k * columns + c;
        s0 -= f * other[0];
        s1 -= f * other[1];
        s2 -= f * other[2];
        s3 -= f * other[3];
      }
      own[0] = s0 / d;
      own[1] = s1 / d;
      own[2] = s2 / d;
      own[3] = s3 / d;
    }
  for (; c < columns; c++)
    for (int64_t i = 0; i < n; i++) {
      V s = y[i * columns + c];
      for (int64_t k = 0; k < i; k++) s -= a[i * n + k] * y[k * columns + c];
      y[i * columns + c] = s / a[i * n + i];
    }
}

void triangle(const T *x, const T *right, const int64_t *options, T *to, int64_t *bad, int64_t count, int64_t n,
              int64_t x2, int64_t right0, int64_t right1, int64_t columns, int64_t options0, int64_t to0, int64_t to1,
              int64_t to2, int64_t bad0) {
  // An upper triangle backwards is a lower one, and so is one that is transposed.
  int backwards = options[0] != options[1];
  int64_t down = options[1] ? 1 : n, across = options[1] ? n : 1, unit = options[2];
  V *a = aligned_alloc(sizeof(V), (n * n + n * columns + 1) * sizeof(V)), *y = a + n * n;
  if (a == NULL) abort();
  for (int64_t b = 0; b < count; b += LANES) {
    int64_t most = count - b < LANES ? count - b : LANES;
    const T *matrix = x + b * n * n, *given = right + b * n * columns;
    V worst = (V){0} + 1;
    for (int64_t i = 0; i < n; i++) {
      int64_t row = backwards ? n - 1 - i : i;
      for (int64_t k = 0; k <= i; k++) {
        const T *from = matrix + row * down + (backwards ? n - 1 - k : k) * across;
        for (int64_t l = 0; l < LANES; l++) a[i * n + k][l] = from[(l < most ? l : 0) * n * n];
      }
      if (unit) a[i * n + i] = (V){0} + 1;
      for (int l = 0; l < LANES; l++)
        if (a[i * n + i][l] == 0) worst[l] = 0;
      for (int64_t c = 0; c < columns; c++)
        for (int64_t l = 0; l < LANES; l++)
          y[i * columns + c][l] = given[((l < most ? l : 0) * n + row) * columns + c];
    }
    substitute(a, y, n, columns);
    for (int64_t l = 0; l < most; l++) {
      bad[b + l] = worst[l] == 0;
      for (int64_t i = 0; i < n; i++)
        for (int64_t c = 0; c < columns; c++)
          to[((b + l) * n + (backwards ? n - 1 - i : i)) * columns + c] = y[i * columns + c][l];
    }
  }
  free(a);
}
