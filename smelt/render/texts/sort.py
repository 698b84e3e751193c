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
INLINE ${vector} ${name}_keys(${vector} v) {
  ${vector} top = splat@${vector}($sign);
  if ($is_bool) v = (${vector})(v != 0) & splat@${vector}(1);
  if ($is_float) {
    v = select@${vector}((${mask})((v & ~top) > splat@${vector}($infinity)), splat@${vector}($nan), v);
    if ($zeros_equal) v = select@${vector}((${mask})(v == top), splat@${vector}(0), v);
    v ^= (${vector})((${mask})v >> ($width - 1)) | top;
  }
  if ($is_signed) v ^= top;
  return $descending ? ~v : v;
}
INLINE ${vector} ${name}_values(${vector} v) {
  ${vector} top = splat@${vector}($sign);
  if ($descending) v = ~v;
  if ($is_float) v ^= ~(${vector})((${mask})v >> ($width - 1)) | top;
  return $is_signed ? v ^ top : v;
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

# How many items are sorted at all: digit by digit, or where there are instructions for it by comparing.
SORTS = {
    "radix": r"""
INLINE ${name}_item *${name}_sorted(${name}_item *a, ${name}_item *b, long n, u32 *counts) {
  return ${name}_radix(a, b, n, counts);
}
""",
    "quick": r"""
#if defined(__AVX512F__) && __has_builtin(__builtin_shufflevector)
NETWORKS
/* Items below the pivot to the front of `to`, the others to its end; how many are below. */
static long ${name}_divided(const ${name}_item *from, ${name}_item *to, long n, ${name}_item pivot) {
  long i = 0, low = 0, high = n;
  ${item_vector} limit = splat@${item_vector}(pivot);
  for (; i + $item_lanes <= n; i += $item_lanes) {
    ${item_signed} v = *(const ${item_signed}_u *)(from + i);
    $lane_bits below = __builtin_ia32_ucmp${compare}512_mask(v, (${item_signed})limit, 1, ($lane_bits)-1);
    long count = __builtin_popcount(below);
    __builtin_ia32_compressstore${store}512_mask((${item_signed} *)(to + low), v, below);
    low += count;
    high -= $item_lanes - count;
    __builtin_ia32_compressstore${store}512_mask((${item_signed} *)(to + high), v, ($lane_bits)~below);
  }
  if (i < n) {
    $lane_bits lanes = (1u << (n - i)) - 1;
    ${item_signed} v = (${item_signed})${name}_first(from + i, n - i);
    $lane_bits below = __builtin_ia32_ucmp${compare}512_mask(v, (${item_signed})limit, 1, lanes);
    __builtin_ia32_compressstore${store}512_mask((${item_signed} *)(to + low), v, below);
    low += __builtin_popcount(below);
    __builtin_ia32_compressstore${store}512_mask((${item_signed} *)(to + low), v, ($lane_bits)(lanes & ~below));
  }
  return low;
}

/* Quicksort between two arrays: the items lie in `from`, and in the end in `from` if they are to stay there, else in
   `to`. Few items are sorted in registers. Where pivots keep being bad, digits are sorted by instead. */
static void ${name}_quick(${name}_item *from, ${name}_item *to, long n, int stay, int depth, u32 *counts) {
  for (;; depth--) {
    ${name}_item *home = stay ? from : to;
    if (n <= $item_lanes) return ${name}_sort1(from, home, n);
    if (n <= 2 * $item_lanes) return ${name}_sort2(from, home, n);
    if (n <= 4 * $item_lanes) return ${name}_sort4(from, home, n);
    if (n <= 8 * $item_lanes) return ${name}_sort8(from, home, n);
    if (n <= 16 * $item_lanes) return ${name}_sort16(from, home, n);
    if (depth <= 0) return ${name}_copy(home, ${name}_radix(from, to, n, counts), n);
    ${name}_item some[$item_lanes];
    for (int k = 0; k < $item_lanes; k++) some[k] = from[n / $item_lanes * k + n / (2 * $item_lanes)];
    ${name}_sort1(some, some, $item_lanes);
    ${name}_item pivot = some[$item_lanes / 2];
    long low = ${name}_divided(from, to, n, pivot);
    if (low) {
      ${name}_quick(to, from, low, !stay, depth - 1, counts);
    } else { /* the pivot is the least: what equals it is in its place */
      low = ${name}_item_key(pivot) == ($bits)-1 ? n : ${name}_divided(from, to, n, pivot + 1);
      if (low == n) return ${name}_copy(home, to, n);
      if (stay) ${name}_copy(from, to, low);
    }
    ${name}_item *other = from + low;
    from = to + low;
    to = other;
    n -= low;
    stay = !stay;
  }
}

static ${name}_item *${name}_sorted(${name}_item *a, ${name}_item *b, long n, u32 *counts) {
  int depth = 8;
  for (long m = n; m; m /= 2) depth += 2;
  ${name}_quick(a, b, n, 1, depth, counts);
  return a;
}
#else
INLINE ${name}_item *${name}_sorted(${name}_item *a, ${name}_item *b, long n, u32 *counts) {
  return ${name}_radix(a, b, n, counts);
}
#endif
""",
}

# Elements as items, and items as results, a vector at a time where they lie side by side.
_FILL = r"""
static void ${name}_fill(${name}_item *to, const $bits *x, long first, long n, long step) {
  long i = 0;
  if ($fills == 1 && step == 1) {
    for (; i + $lanes <= n; i += $lanes) {
      *(${vector}_u *)((void *)(to + i)) = ${name}_keys(*(const ${vector}_u *)(x + first + i));
    }
  }
  for (; i < n; i++) to[i] = ${name}_make(x[(first + i) * step], first + i);
}
static void ${name}_store($out *to, const ${name}_item *from, long n, const $bits *x, long step) {
  long i = 0;
  if ($fills == 1 && step == 1) {
    for (; i + $lanes <= n; i += $lanes) {
      *(${vector}_u *)((void *)(to + i)) = ${name}_values(*(const ${vector}_u *)(const void *)(from + i));
    }
  }
  for (; i < n; i++) to[i * step] = ${name}_result(from[i], x, step);
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
    if (inner == 1) ${name}_fill(items, from, 0, n, 1);
    else for (long i = 0; i < n; i++) {
      for (long c = 0; c < width; c++) items[c * $room + i] = ${name}_make(from[i * inner + c], i);
    }
    for (long c = 0; c < width; c++) {
      ${name}_item *own = items + c * $room;
      ${name}_copy(own, ${name}_sorted(own, spare, n, counts), count);
    }
    if (inner == 1) ${name}_store(to, items, count, from, 1);
    else for (long i = 0; i < count; i++) {
      for (long c = 0; c < width; c++) {
        to[i * inner + c] = ${name}_result(items[c * $room + i], from + c, inner);
      }
    }
    for (long c = 0; c < width; c++) ${name}_signs(to + c, from + c, n, count, inner);
  }
}
"""

_EXTREMES = r"""
INLINE ${item_vector} ${name}_min(${item_vector} a, ${item_vector} b) { return minimum@${item_vector}(a, b); }
INLINE ${item_vector} ${name}_max(${item_vector} a, ${item_vector} b) { return maximum@${item_vector}(a, b); }
"""
EXTREMES = {
    "radix": _EXTREMES,
    "quick": f"""
#if defined(__AVX512F__) && __has_builtin(__builtin_shufflevector)
NETWORKS
#else{_EXTREMES}#endif
""",
}

_NETWORK = r"""
/* Batcher's odd-even merge sort, for as many rows at a time as a vector has lanes: items are distinct or cannot be told
   apart, so its order is the stable one. */
static void ${name}_network(${item_vector} *v, long n) {
  for (long p = 1; p < n; p += p) {
    for (long k = p; k >= 1; k /= 2) {
      for (long j = k & (p - 1); j + k < n; j += k + k) {
        long most = n - j - k < k ? n - j - k : k;
        for (long i = j; i < j + most; i++) {
          if ((i ^ (i + k)) & -(p + p)) continue; /* they belong to different merges */
          ${item_vector} a = v[i], b = v[i + k];
          v[i] = ${name}_min(a, b);
          v[i + k] = ${name}_max(a, b);
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
  ${item_vector} *vectors = (${item_vector} *)workspace;
  ${name}_item *items = (${name}_item *)workspace;
  for (long task = begin; task < end; task++) {
    long first = task * $item_lanes, width = rows - first < $item_lanes ? rows - first : $item_lanes;
    for (long c = 0; c < width; c++) {
      const $bits *from = x + (first + c) / inner * n * inner + (first + c) % inner;
      for (long i = 0; i < n; i++) items[i * $item_lanes + c] = ${name}_make(from[i * inner], i);
    }
    ${name}_network(vectors, n);
    for (long c = 0; c < width; c++) {
      const $bits *from = x + (first + c) / inner * n * inner + (first + c) % inner;
      $out *to = o + (first + c) / inner * count * inner + (first + c) % inner;
      for (long i = 0; i < count; i++) to[i * inner] = ${name}_result(items[i * $item_lanes + c], from, inner);
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
    ${name}_fill(a, from, first, size, inner);
    ${name}_copy(a, ${name}_sorted(a, b, size, counts), size);
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

_MERGE_SCALAR = r"""
/* Merge the first runs of two arrays. */
static void ${name}_join(${name}_item *to, const ${name}_item *a, const ${name}_item *a_end, const ${name}_item *b,
                         const ${name}_item *b_end) {
  while (a < a_end && b < b_end) {
    ${name}_item p = *a, q = *b;
    long second = ${name}_before(q, p);
    *to++ = second ? q : p;
    a += 1 - second;
    b += second;
  }
  while (a < a_end) *to++ = *a++;
  while (b < b_end) *to++ = *b++;
}
"""

MERGES = {
    "radix": r"""
INLINE void ${name}_merge(${name}_item *to, const ${name}_item *a, const ${name}_item *a_end, const ${name}_item *b,
                          const ${name}_item *b_end) {
  ${name}_join(to, a, a_end, b, b_end);
}
""",
    "quick": r"""
#if defined(__AVX512F__) && __has_builtin(__builtin_shufflevector)
NETWORKS
/* Vectors from whichever run is behind are merged with the upper half of what came before. */
static void ${name}_merge(${name}_item *to, const ${name}_item *a, const ${name}_item *a_end, const ${name}_item *b,
                          const ${name}_item *b_end) {
  enum { L = $item_lanes };
  ${name}_item kept[L], rest[3 * L];
  if (a_end - a < L || b_end - b < L) return ${name}_join(to, a, a_end, b, b_end);
  ${item_vector} upper = *(const ${item_vector}_u *)a;
  a += L;
  for (;;) {
    int second = a == a_end || (b < b_end && *b < *a);
    if (a == a_end && b == b_end) break;
    if (second ? b_end - b < L : a_end - a < L) break;
    ${item_vector} next = ${name}_turned(*(const ${item_vector}_u *)(second ? b : a));
    if (second) b += L; else a += L;
    ${item_vector} lower = ${name}_merged(${name}_min(upper, next));
    upper = ${name}_merged(${name}_max(upper, next));
    *(${item_vector}_u *)to = lower;
    to += L;
  }
  *(${item_vector}_u *)kept = upper;
  /* The shorter rest is merged with what is in hand, and that with the other rest. */
  long na = a_end - a, nb = b_end - b;
  const ${name}_item *few = na < nb ? a : b, *many = na < nb ? b : a;
  long n_few = na < nb ? na : nb, n_many = na < nb ? nb : na;
  ${name}_join(rest, kept, kept + L, few, few + n_few);
  ${name}_join(to, rest, rest + L + n_few, many, many + n_many);
}
#else
INLINE void ${name}_merge(${name}_item *to, const ${name}_item *a, const ${name}_item *a_end, const ${name}_item *b,
                          const ${name}_item *b_end) {
  ${name}_join(to, a, a_end, b, b_end);
}
#endif
""",
}

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
    ${name}_merge(o + row * n + first, a + i, a + i_end, b + (first - left - i), b + (last - left - i_end));
  }
}
"""

_FINISH = r"""
/* The last merge, which stores results instead of items; its items go where the sorted pieces were made. */
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
    long i = ${name}_rank(a, middle, b, n - middle, first), i_end = ${name}_rank(a, middle, b, n - middle, last);
    ${name}_item *made = (${name}_item *)buffers[3] + row * n + first;
    ${name}_merge(made, a + i, a + i_end, b + (first - i), b + (last - i_end));
    ${name}_store(o + (row / inner * count + first) * inner + row % inner, made, last - first, from, inner);
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
  ${name}_copy(a, ${name}_sorted(a, b, n, counts), n < count ? n : count);
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
        ${vector} v = ${name}_keys(*(const ${vector}_u *)(p + part));
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
    ${name}_item *sorted = ${name}_sorted(a, b, pieces * count, (u32 *)(b + $room));
    for (long i = 0; i < count; i++) to[i * inner] = ${name}_result(sorted[i], from, inner);
  }
}
"""

# Each template is the parts of the library that it needs, the item, the result, and the kernel itself.
TEMPLATES = {
    "sort_rows": (_KEYS, "item", "result", _RADIX, "sort", _FILL, _SIGNS, _ROWS),
    "sort_network": (_KEYS, "item", "result", _SIGNS, "extremes", _NETWORK),
    "sort_pieces": (_KEYS, "item", "result", _RADIX, "sort", _FILL, _CHUNKS),
    "sort_merge": (_KEYS, "item", _MERGING, _MERGE_SCALAR, "merge", _MERGE),
    "sort_finish": (_KEYS, "item", "result", _FILL, _MERGING, _MERGE_SCALAR, "merge", _FINISH),
    "sort_signs": (_KEYS, _SIGNS, _RESTORE),
    "best_rows": (_KEYS, "item", "result", _RADIX, "sort", _SELECT, _BEST_ROWS),
    "best_pieces": (_KEYS, "item", _RADIX, "sort", _SELECT, _BEST_CHUNKS),
    "best_finish": (_KEYS, "item", "result", _RADIX, "sort", _BEST_FINISH),
}
