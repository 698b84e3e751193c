"""Sorting: templates of routines. `smelt.render.routines` explains the notation.

Elements are handled by their bits. A key is an unsigned integer in the order that is wanted; an item is a key, or a key
with the place that it came from, and is sorted stably. `sizes` of a call: rows are `outer * inner` lines of `n`
elements, `inner` elements apart, of which the first `count` in order are wanted.
"""

_KEYS = r"""
/* Bits to keys: floats by sign and magnitude with every NaN above infinity, signed integers by flipping the sign. */
INLINE $bits ${name}_key($bits b) {
  if ($is_bool) b = b != 0;
  if ($is_float) {
    b = ($bits)(b & ~$sign) > $infinity ? $nan : b;
    if ($zeros_equal) b = b == $sign ? 0 : b;
    b = b & $sign ? ~b : b | $sign;
  }
  if ($is_signed) b ^= $sign;
  return $descending ? ~b : b;
}
INLINE $bits ${name}_value($bits b) {
  if ($descending) b = ~b;
  if ($is_float) b = b & $sign ? b ^ $sign : ~b;
  if ($is_signed) b ^= $sign;
  return b;
}
"""

# What an item is: the words of `schedule.sorting` say which.
ITEMS = {
    "key": r"""
typedef $bits ${name}_item;
INLINE ${name}_item ${name}_make($bits b, u64 at) { return ${name}_key(b); }
INLINE $bits ${name}_item_key(${name}_item x) { return x; }
INLINE int ${name}_before(${name}_item x, ${name}_item y) { return x < y; }
INLINE ${name}_item ${name}_last(void) { return ($bits)-1; }
""",
    "packed": r"""
typedef u64 ${name}_item;
INLINE ${name}_item ${name}_make($bits b, u64 at) { return (u64)${name}_key(b) << 32 | at; }
INLINE $bits ${name}_item_key(${name}_item x) { return x >> 32; }
INLINE u64 ${name}_place(${name}_item x) { return x & 0xffffffffu; }
INLINE int ${name}_before(${name}_item x, ${name}_item y) { return x < y; }
INLINE ${name}_item ${name}_last(void) { return -1ull; }
""",
    "pair": r"""
typedef struct { u64 key, at; } ${name}_item;
INLINE ${name}_item ${name}_make($bits b, u64 at) { return (${name}_item){${name}_key(b), at}; }
INLINE $bits ${name}_item_key(${name}_item x) { return x.key; }
INLINE u64 ${name}_place(${name}_item x) { return x.at; }
INLINE int ${name}_before(${name}_item x, ${name}_item y) { return x.key < y.key; }
INLINE ${name}_item ${name}_last(void) { return (${name}_item){-1ull, -1ull}; }
""",
}

# What is stored of an item.
RESULTS = {
    "value": "INLINE $bits ${name}_result(${name}_item x, const $bits *from, long step)"
    " { return ${name}_value(${name}_item_key(x)); }\n",
    "value_at": "INLINE $bits ${name}_result(${name}_item x, const $bits *from, long step)"
    " { return from[${name}_place(x) * step]; }\n",
    "place": "INLINE i64 ${name}_result(${name}_item x, const $bits *from, long step) { return ${name}_place(x); }\n",
}

_RADIX = r"""
INLINE u32 ${name}_digit(${name}_item x, int pass) {
  return ${name}_item_key(x) >> pass * $digit & ((1u << $digit) - 1);
}

/* Sort items by their keys, digit by digit from the last; the result lies in one of the two arrays. Digits that are all
   the same cost no pass. */
static ${name}_item *${name}_radix(${name}_item *a, ${name}_item *b, long n, u32 *counts) {
  enum { BUCKETS = 1 << $digit };
  if (n < 2) return a;
  for (long i = 0; i < (long)$passes * BUCKETS; i++) counts[i] = 0;
  for (long i = 0; i < n; i++) {
    ${name}_item x = a[i];
    for (int pass = 0; pass < $passes; pass++) counts[pass * BUCKETS + ${name}_digit(x, pass)]++;
  }
  for (int pass = 0; pass < $passes; pass++) {
    u32 *place = counts + pass * BUCKETS;
    if (place[${name}_digit(a[0], pass)] == n) continue;
    u32 total = 0;
    for (long i = 0; i < BUCKETS; i++) {
      u32 here = place[i];
      place[i] = total;
      total += here;
    }
    for (long i = 0; i < n; i++) {
      ${name}_item x = a[i];
      b[place[${name}_digit(x, pass)]++] = x;
    }
    ${name}_item *other = a;
    a = b;
    b = other;
  }
  return a;
}

INLINE void ${name}_copy(${name}_item *to, const ${name}_item *from, long n) {
  if (to != from) for (long i = 0; i < n; i++) to[i] = from[i];
}
"""

_SIGNS = r"""
/* Keys put -0 below 0. They are equal, so a stable order has them as they stood: put their signs back. */
static void ${name}_signs($out *o, const $bits *x, long n, long count, long step) {
  if (!$is_float || !$keeps_signs) return;
  $bits zero = ${name}_key(0), other = ${name}_key($sign), least = zero < other ? zero : other;
  $bits most = zero < other ? other : zero;
  long first = 0, end = count;
  for (long high = count; first < high;) {
    long middle = (first + high) / 2;
    if (${name}_key(o[middle * step]) < least) first = middle + 1; else high = middle;
  }
  for (long low = first; low < end;) {
    long middle = (low + end) / 2;
    if (${name}_key(o[middle * step]) <= most) low = middle + 1; else end = middle;
  }
  if (first == end || (o[first * step] == o[(end - 1) * step] && (end < count || count == n))) return;
  for (long i = 0; first < end; i++) {
    if (($bits)(x[i * step] & ~$sign) == 0) o[step * first++] = x[i * step];
  }
}
"""

_ROWS = r"""
KERNEL {
  const $bits *x = buffers[1];
  $out *o = buffers[0];
  SIZES
  ${name}_item *items = (${name}_item *)workspace, *spare = items + $columns * $room;
  u32 *counts = (u32 *)(spare + $room);
  const long blocks = (inner + $columns - 1) / $columns;
  for (long task = begin; task < end; task++) {
    long row = task / blocks, column = task % blocks * $columns;
    long width = inner - column < $columns ? inner - column : $columns;
    const $bits *from = x + row * n * inner + column;
    $out *to = o + row * count * inner + column;
    for (long i = 0; i < n; i++) {
      for (long c = 0; c < width; c++) items[c * $room + i] = ${name}_make(from[i * inner + c], i);
    }
    for (long c = 0; c < width; c++) {
      ${name}_item *own = items + c * $room;
      ${name}_copy(own, ${name}_radix(own, spare, n, counts), count);
    }
    for (long i = 0; i < count; i++) {
      for (long c = 0; c < width; c++) {
        to[i * inner + c] = ${name}_result(items[c * $room + i], from + c, inner);
      }
    }
    for (long c = 0; c < width; c++) ${name}_signs(to + c, from + c, n, count, inner);
  }
}
"""

_NETWORK = r"""
/* Batcher's odd-even merge sort, for as many rows at a time as a vector has lanes: items are distinct or cannot be told
   apart, so its order is the stable one. */
static void ${name}_network(${vector} *v, long n) {
  for (long p = 1; p < n; p += p) {
    for (long k = p; k >= 1; k /= 2) {
      for (long j = k & (p - 1); j + k < n; j += k + k) {
        long most = n - j - k < k ? n - j - k : k;
        for (long i = j; i < j + most; i++) {
          if ((i ^ (i + k)) & -(p + p)) continue; /* they belong to different merges */
          ${vector} a = v[i], b = v[i + k];
          v[i] = minimum@${vector}(a, b);
          v[i + k] = maximum@${vector}(a, b);
        }
      }
    }
  }
}

KERNEL {
  const $bits *x = buffers[1];
  $out *o = buffers[0];
  SIZES
  const long rows = outer * inner;
  ${vector} *vectors = (${vector} *)workspace;
  ${name}_item *items = (${name}_item *)workspace;
  for (long task = begin; task < end; task++) {
    long first = task * $lanes, width = rows - first < $lanes ? rows - first : $lanes;
    for (long c = 0; c < width; c++) {
      const $bits *from = x + (first + c) / inner * n * inner + (first + c) % inner;
      for (long i = 0; i < n; i++) items[i * $lanes + c] = ${name}_make(from[i * inner], i);
    }
    ${name}_network(vectors, n);
    for (long c = 0; c < width; c++) {
      const $bits *from = x + (first + c) / inner * n * inner + (first + c) % inner;
      $out *to = o + (first + c) / inner * count * inner + (first + c) % inner;
      for (long i = 0; i < count; i++) to[i * inner] = ${name}_result(items[i * $lanes + c], from, inner);
      ${name}_signs(to, from, n, count, inner);
    }
  }
}
"""

_CHUNKS = r"""
/* Sorts pieces of rows, so that several threads share a row; the pieces are merged by later launches. */
KERNEL {
  const $bits *x = buffers[2];
  SIZES
  u32 *counts = (u32 *)workspace;
  for (long task = begin; task < end; task++) {
    long row = task / pieces, first = task % pieces * piece;
    long size = first >= n ? 0 : n - first < piece ? n - first : piece;
    const $bits *from = x + row / inner * n * inner + row % inner;
    ${name}_item *a = (${name}_item *)buffers[0] + row * n + first, *b = (${name}_item *)buffers[1] + row * n + first;
    for (long i = 0; i < size; i++) a[i] = ${name}_make(from[(first + i) * inner], first + i);
    ${name}_copy(a, ${name}_radix(a, b, size, counts), size);
  }
}
"""

_MERGING = r"""
/* How many of the first `k` items of two merged runs come from the first one; its items go first among equals. */
static long ${name}_rank(const ${name}_item *a, long na, const ${name}_item *b, long nb, long k) {
  long low = k > nb ? k - nb : 0, high = k < na ? k : na;
  while (low < high) {
    long i = (low + high) / 2;
    if (!${name}_before(b[k - i - 1], a[i])) low = i + 1; else high = i;
  }
  return low;
}
"""

_MERGE = r"""
/* Merges pairs of sorted runs; a task makes one piece of the result. */
KERNEL {
  const ${name}_item *x = buffers[1];
  ${name}_item *o = buffers[0];
  SIZES
  for (long task = begin; task < end; task++) {
    long row = task / pieces, first = task % pieces * piece, last = first + piece < n ? first + piece : n;
    long left = first / (2 * run) * (2 * run), middle = left + run < n ? left + run : n;
    long right = middle + run < n ? middle + run : n;
    if (first >= last) continue;
    const ${name}_item *a = x + row * n + left, *b = x + row * n + middle;
    long na = middle - left, nb = right - middle;
    long i = ${name}_rank(a, na, b, nb, first - left), i_end = ${name}_rank(a, na, b, nb, last - left);
    long j = first - left - i, j_end = last - left - i_end;
    ${name}_item *to = o + row * n + first;
    while (i < i_end && j < j_end) {
      ${name}_item p = a[i], q = b[j];
      long second = ${name}_before(q, p);
      *to++ = second ? q : p;
      i += 1 - second;
      j += second;
    }
    while (i < i_end) *to++ = a[i++];
    while (j < j_end) *to++ = b[j++];
  }
}
"""

_FINISH = r"""
/* The last merge, which stores results instead of items. */
KERNEL {
  const ${name}_item *x = buffers[1];
  const $bits *source = buffers[2];
  $out *o = buffers[0];
  SIZES
  for (long task = begin; task < end; task++) {
    long row = task / pieces, first = task % pieces * piece, last = first + piece < count ? first + piece : count;
    long middle = run < n ? run : n;
    if (first >= last) continue;
    const ${name}_item *a = x + row * n, *b = a + middle;
    const $bits *from = source + row / inner * n * inner + row % inner;
    long na = middle, nb = n - middle;
    long i = ${name}_rank(a, na, b, nb, first), i_end = ${name}_rank(a, na, b, nb, last);
    long j = first - i, j_end = last - i_end;
    $out *to = o + row / inner * count * inner + row % inner + first * inner;
    while (i < i_end && j < j_end) {
      ${name}_item p = a[i], q = b[j];
      long second = ${name}_before(q, p);
      *to = ${name}_result(second ? q : p, from, inner);
      to += inner;
      i += 1 - second;
      j += second;
    }
    for (; i < i_end; i++, to += inner) *to = ${name}_result(a[i], from, inner);
    for (; j < j_end; j++, to += inner) *to = ${name}_result(b[j], from, inner);
  }
}
"""

_RESTORE = r"""
KERNEL {
  const $bits *x = buffers[1];
  $out *o = buffers[0];
  SIZES
  for (long row = begin; row < end; row++) {
    long place = row % inner;
    ${name}_signs(o + row / inner * count * inner + place, x + row / inner * n * inner + place, n, count, inner);
  }
}
"""

_SELECT = r"""
/* The best `count` items met so far, in order, at the front. */
static long ${name}_cut(${name}_item *a, ${name}_item *b, long n, long count, u32 *counts) {
  ${name}_copy(a, ${name}_radix(a, b, n, counts), n < count ? n : count);
  return n < count ? n : count;
}

/* Candidates are what lies before the last of the best so far; they gather in a buffer that is cut when it is full. */
static void ${name}_best(${name}_item *a, ${name}_item *b, const $bits *x, long first, long size, long step, long count,
                         u32 *counts) {
  enum { BLOCK = 64 };
  long found = 0, i = 0;
  $bits limit = 0;
  int limited = 0;
  for (; i < size; i += BLOCK) {
    long stop = size - i < BLOCK ? size : i + BLOCK;
    if (limited && step == 1 && stop == i + BLOCK) {
      const $bits *p = x + first + i;
      ${mask} hits = {};
      for (int part = 0; part < BLOCK; part += $lanes) {
        ${vector} v = *(const ${vector}_u *)(p + part);
        ${vector} splat_sign = splat@${vector}($sign);
        if ($is_bool) v = (${vector})(v != 0) & 1;
        if ($is_float) {
          v = select@${vector}((${mask})((v & ~splat_sign) > splat@${vector}($infinity)), splat@${vector}($nan), v);
          v = select@${vector}((${mask})(v == splat_sign), splat@${vector}(0), v);
          v = v ^ (((${vector})((${mask})v >> ($width - 1))) | splat_sign);
        }
        if ($is_signed) v ^= splat_sign;
        if ($descending) v = ~v;
        hits |= (${mask})(v < splat@${vector}(limit));
      }
      if (!some@${mask}(hits)) continue;
    }
    if (found > $room - BLOCK) {
      found = ${name}_cut(a, b, found, count, counts);
      limit = ${name}_item_key(a[count - 1]);
      limited = 1;
    }
    for (long k = i; k < stop; k++) {
      ${name}_item item = ${name}_make(x[(first + k) * step], first + k);
      a[found] = item;
      found += !limited || ${name}_item_key(item) < limit;
    }
  }
  found = ${name}_cut(a, b, found, count, counts);
  for (; found < count; found++) a[found] = ${name}_last();
}
"""

_BEST_ROWS = r"""
KERNEL {
  const $bits *x = buffers[1];
  $out *o = buffers[0];
  SIZES
  ${name}_item *a = (${name}_item *)workspace, *b = a + $room;
  for (long row = begin; row < end; row++) {
    const $bits *from = x + row / inner * n * inner + row % inner;
    $out *to = o + row / inner * count * inner + row % inner;
    ${name}_best(a, b, from, 0, n, inner, count, (u32 *)(b + $room));
    for (long i = 0; i < count; i++) to[i * inner] = ${name}_result(a[i], from, inner);
  }
}
"""

_BEST_CHUNKS = r"""
KERNEL {
  const $bits *x = buffers[1];
  SIZES
  ${name}_item *a = (${name}_item *)workspace, *b = a + $room;
  for (long task = begin; task < end; task++) {
    long row = task / pieces, first = task % pieces * piece;
    long size = first >= n ? 0 : n - first < piece ? n - first : piece;
    const $bits *from = x + row / inner * n * inner + row % inner;
    ${name}_best(a, b, from, first, size, inner, count, (u32 *)(b + $room));
    ${name}_copy((${name}_item *)buffers[0] + task * count, a, count);
  }
}
"""

_BEST_FINISH = r"""
KERNEL {
  const $bits *x = buffers[2];
  $out *o = buffers[0];
  SIZES
  ${name}_item *a = (${name}_item *)workspace, *b = a + $room;
  for (long row = begin; row < end; row++) {
    const $bits *from = x + row / inner * n * inner + row % inner;
    $out *to = o + row / inner * count * inner + row % inner;
    ${name}_copy(a, (${name}_item *)buffers[1] + row * pieces * count, pieces * count);
    ${name}_item *sorted = ${name}_radix(a, b, pieces * count, (u32 *)(b + $room));
    for (long i = 0; i < count; i++) to[i * inner] = ${name}_result(sorted[i], from, inner);
  }
}
"""

# Each template is the parts of the library that it needs, the item, the result, and the kernel itself.
TEMPLATES = {
    "sort_rows": (_KEYS, "item", "result", _RADIX, _SIGNS, _ROWS),
    "sort_network": (_KEYS, "item", "result", _SIGNS, _NETWORK),
    "sort_pieces": (_KEYS, "item", _RADIX, _CHUNKS),
    "sort_merge": (_KEYS, "item", _MERGING, _MERGE),
    "sort_finish": (_KEYS, "item", "result", _MERGING, _FINISH),
    "sort_signs": (_KEYS, _SIGNS, _RESTORE),
    "best_rows": (_KEYS, "item", "result", _RADIX, _SELECT, _BEST_ROWS),
    "best_pieces": (_KEYS, "item", _RADIX, _SELECT, _BEST_CHUNKS),
    "best_finish": (_KEYS, "item", "result", _RADIX, _BEST_FINISH),
}
