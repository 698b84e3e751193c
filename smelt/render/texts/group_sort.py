"""Sorting a row by a group of threads: a stable merge sort of places between two arrays.

In each round neighboring runs are merged: every place finds by bisection how many of the other run precede it. It works
for rows of any length, and needs no memory of the group's own. `smelt.render.routines` explains the notation, and
`texts.sort` the words and sizes.
"""

from smelt.render.texts.sort import KEYS

_MERGE = r"""
KERNEL {
  const GLOBAL $bits *x = buffers[1];
  GLOBAL $out *o = buffers[0];
  SIZES
  for (long row = begin; row < end; row++) {
    const GLOBAL $bits *from = x + row / inner * n * inner + row % inner;
    GLOBAL $out *to = o + row / inner * count * inner + row % inner;
    GLOBAL i64 *a = (GLOBAL i64 *)buffers[2] + row * n, *b = (GLOBAL i64 *)buffers[3] + row * n;
    for (long i = thread; i < n; i += $threads) a[i] = i;
    GROUP_BARRIER;
    for (long width = 1; width < n; width *= 2) {
      for (long i = thread; i < n; i += $threads) {
        long run = i / width, other = (run ^ 1) * width, place = a[i];
        $bits key = ${name}_key(from[place * inner]);
        long low = other, high = other + width < n ? other + width : n;
        while (low < high) {
          long middle = (low + high) / 2;
          $bits found = ${name}_key(from[a[middle] * inner]);
          if (run % 2 ? found <= key : found < key) low = middle + 1; else high = middle;
        }
        b[run / 2 * 2 * width + i - run * width + low - other] = place;
      }
      GROUP_BARRIER;
      GLOBAL i64 *merged = b;
      b = a;
      a = merged;
    }
    for (long i = thread; i < count; i += $threads) to[i * inner] = $indices ? a[i] : from[a[i] * inner];
  }
}
"""

TEMPLATES = {"group_sort": (KEYS, _MERGE)}
