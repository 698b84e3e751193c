"""Sorting: templates of routines. `smelt.render.routines` explains the notation.

Elements are handled by their bits. A key is an unsigned integer in the order that is wanted; an item is a key, or a key
with the place that it came from, and is sorted stably. `sizes` of a call: rows are `outer * inner` lines of `n`
elements, `inner` elements apart, of which the first `count` in order are wanted.

Items are numbers: a key, or a key above the `shift` bits of its place. Guarded texts have a form for AVX-512, which is
written where the word `instructions` says that the processor may have it.
"""

from smelt.render.spell import Guarded, guarded

_INSTRUCTIONS = "defined(__AVX512F__) && __has_builtin(__builtin_shufflevector)"

_EITHER_KEYS = r"""
/* Bits to keys: floats by sign and magnitude with every NaN above infinity, signed integers by flipping the sign. */
INLINE BITS ${name}_keyS(BITS b) {
  BITS top = splat@BITS($sign);
  if ($is_bool) b = (BITS)(b != 0) & splat@BITS(1);
  if ($is_float) {
    b = select@BITS((SIGNED)((BITS)(b & ~top) > splat@BITS($infinity)), splat@BITS($nan), b);
    if ($zeros_equal) b = select@BITS((SIGNED)(b == top), splat@BITS(0), b);
    b ^= (BITS)((SIGNED)b >> ($width - 1)) | top;
  }
  if ($is_signed) b ^= top;
  return $descending ? ~b : b;
}
INLINE BITS ${name}_valueS(BITS b) {
  BITS top = splat@BITS($sign);
  if ($descending) b = ~b;
  if ($is_float) b ^= ~(BITS)((SIGNED)b >> ($width - 1)) | top;
  return $is_signed ? b ^ top : b;
}
"""
_ELEMENT_KEYS = _EITHER_KEYS.replace("BITS", "$bits").replace("SIGNED", "$signed").replace("S(", "(")
_KEYS = _ELEMENT_KEYS + _EITHER_KEYS.replace("BITS", "${vector}").replace("SIGNED", "${mask}").replace("S(", "s(")

_ITEMS = r"""
typedef $item_type ${name}_item;
INLINE ${name}_item ${name}_limit($bits key) { return (${name}_item)key << $shift; }
INLINE ${name}_item ${name}_make($bits b, u64 at) { return ${name}_limit(${name}_key(b)) | ($shift ? at : 0); }
INLINE $bits ${name}_item_key(${name}_item x) { return x >> $shift; }
INLINE u64 ${name}_place(${name}_item x) { return x & (((${name}_item)1 << $shift) - 1); }
/* Whether an item lies before the first one of a key: two words are compared at twice the cost of one. */
INLINE int ${name}_before(${name}_item x, ${name}_item limit) {
  return $shift < 64 ? x < limit : ${name}_item_key(x) < ${name}_item_key(limit);
}
/* What is stored of an item; an element that its key does not tell exactly is looked up. */
INLINE $out ${name}_result(${name}_item x, const $bits *from, long step) {
  if ($indices) return ${name}_place(x);
  return $shift ? from[${name}_place(x) * step] : ${name}_value(${name}_item_key(x));
}
"""

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

static void ${name}_copy(${name}_item *to, const ${name}_item *from, long n) {
  enum { SIDE = sizeof(${vector}) / sizeof(${name}_item) };
  long i = 0;
  if (to == from) return;
  for (; i + SIDE <= n; i += SIDE) *(${vector}_u *)(void *)(to + i) = *(const ${vector}_u *)(const void *)(from + i);
  for (; i < n; i++) to[i] = from[i];
}
"""

_SHELL = r"""
/* By shrinking gaps: no order of the items makes it slow. */
static void ${name}_shell(${name}_item *a, long n) {
  for (long gap = n / 2; gap; gap = gap == 2 ? 1 : gap * 5 / 11) {
    for (long i = gap; i < n; i++) {
      ${name}_item own = a[i];
      long at = i;
      for (; at >= gap && a[at - gap] > own; at -= gap) a[at] = a[at - gap];
      a[at] = own;
    }
  }
}
"""

# How many items are sorted at all: digit by digit, or where there are instructions for it by comparing.
_SORT = guarded(
    _INSTRUCTIONS,
    r"""NETWORKS
/* Items below the pivot from `low` on, the others down from `high`. Elements become keys on the way. */
INLINE void ${name}_deal(const ${name}_item *from, long n, ${name}_item **low, ${name}_item **high, ${name}_item pivot,
                         int elements) {
  ${item_vector} limit = splat@${item_vector}(pivot);
  for (long i = 0; i < n; i += $item_lanes) {
    $lane_bits lanes = n - i < $item_lanes ? (1u << (n - i)) - 1 : ($lane_bits)-1;
    ${item_vector} items = ${name}_first(from + i, n - i);
    if (elements) items = (${item_vector})${name}_keys((${vector})items);
    ${item_signed} v = (${item_signed})items;
    $lane_bits below = __builtin_ia32_ucmp${compare}512_mask(v, (${item_signed})limit, 1, lanes);
    __builtin_ia32_compressstore${store}512_mask((${item_signed} *)*low, v, below);
    *low += __builtin_popcount(below);
    *high -= __builtin_popcount(lanes & ~below);
    __builtin_ia32_compressstore${store}512_mask((${item_signed} *)*high, v, ($lane_bits)(lanes & ~below));
  }
}
static long ${name}_divided(const ${name}_item *from, ${name}_item *to, long n, ${name}_item pivot) {
  ${name}_item *low = to, *high = to + n;
  ${name}_deal(from, n, &low, &high, pivot, 0);
  return low - to;
}

/* Quicksort between two arrays: the items lie in `from`, and in the end in `from` if they are to stay there, else in
   `to`. Few items are sorted in registers. Where pivots keep being bad, shrinking gaps sort what is left: by the digits
   of their keys alone, equal ones would stay in the order that the divisions have made. */
static void ${name}_quick(${name}_item *from, ${name}_item *to, long n, int stay, int depth) {
  for (;; depth--) {
    ${name}_item *home = stay ? from : to;
    if (n <= $item_lanes) return ${name}_sort1(from, home, n);
    if (n <= 2 * $item_lanes) return ${name}_sort2(from, home, n);
    if (n <= 4 * $item_lanes) return ${name}_sort4(from, home, n);
    if (n <= 8 * $item_lanes) return ${name}_sort8(from, home, n);
    if (n <= 16 * $item_lanes) return ${name}_sort16(from, home, n);
    if (depth <= 0) {
      ${name}_shell(from, n);
      return ${name}_copy(home, from, n);
    }
    ${name}_item some[$item_lanes];
    for (int k = 0; k < $item_lanes; k++) some[k] = from[n / $item_lanes * k + n / (2 * $item_lanes)];
    ${name}_sort1(some, some, $item_lanes);
    ${name}_item pivot = some[$item_lanes / 2];
    long low = ${name}_divided(from, to, n, pivot);
    if (low) {
      ${name}_quick(to, from, low, !stay, depth - 1);
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
  ${name}_quick(a, b, n, 1, depth);
  return a;
}
""",
    r"""
/* Items below the pivot to the front of `to`, the others after them; how many are below. */
static long ${name}_divided(const ${name}_item *from, ${name}_item *to, long n, ${name}_item pivot) {
  long low = 0, below = 0;
  for (long i = 0; i < n; i++) below += ${name}_before(from[i], pivot);
  for (long i = 0, high = below; i < n; i++) {
    long first = ${name}_before(from[i], pivot);
    to[first ? low : high] = from[i];
    low += first;
    high += 1 - first;
  }
  return below;
}
INLINE ${name}_item *${name}_sorted(${name}_item *a, ${name}_item *b, long n, u32 *counts) {
  return ${name}_radix(a, b, n, counts);
}
""",
)

# Elements as items, and items as results, a vector at a time where they lie side by side.
_FILL = r"""
static void ${name}_fill(${name}_item *to, const $bits *x, long first, long n, long step) {
  long i = 0;
  if (!$shift && step == 1) {
    for (; i + $lanes <= n; i += $lanes) {
      *(${vector}_u *)((void *)(to + i)) = ${name}_keys(*(const ${vector}_u *)(x + first + i));
    }
  }
  for (; i < n; i++) to[i] = ${name}_make(x[(first + i) * step], first + i);
}
static void ${name}_store($out *to, const ${name}_item *from, long n, const $bits *x, long step) {
  long i = 0;
  if (!$shift && step == 1) {
    for (; i + $lanes <= n; i += $lanes) {
      *(${vector}_u *)((void *)(to + i)) = ${name}_values(*(const ${vector}_u *)(const void *)(from + i));
    }
  }
  for (; i < n; i++) to[i * step] = ${name}_result(from[i], x, step);
}
"""

# The ends of a division among threads: from elements to two halves, and from the runs of a part to a sorted whole.
_DIVISION = guarded(
    _INSTRUCTIONS,
    r"""
/* Elements as items, divided by a pivot; the result lies in `b`. */
static long ${name}_halved(const $bits *x, long first, long n, long step, ${name}_item *a, ${name}_item *b,
                           ${name}_item pivot) {
  ${name}_item *low = b, *high = b + n;
  if (!$shift && step == 1) ${name}_deal((const ${name}_item *)(const void *)(x + first), n, &low, &high, pivot, 1);
  else {
    ${name}_fill(a, x, first, n, step);
    ${name}_deal(a, n, &low, &high, pivot, 0);
  }
  return low - b;
}
/* Runs of items sorted together: the first division puts them side by side. */
static ${name}_item *${name}_joined(const ${name}_item *const *runs, const u32 *sizes, long count, ${name}_item *a,
                                    ${name}_item *b, long n, u32 *counts) {
  ${name}_item some[$item_lanes], *low = a, *high = a + n;
  long found = 0;
  for (long k = 0; k < count && found < $item_lanes; k++) if (sizes[k]) some[found++] = runs[k][sizes[k] / 2];
  ${name}_sort1(some, some, found);
  for (long k = 0; k < count; k++) ${name}_deal(runs[k], sizes[k], &low, &high, some[found / 2], 0);
  ${name}_sorted(a, b, low - a, counts);
  ${name}_sorted(low, b + (low - a), a + n - low, counts);
  return a;
}
""",
    r"""
INLINE long ${name}_halved(const $bits *x, long first, long n, long step, ${name}_item *a, ${name}_item *b,
                           ${name}_item pivot) {
  ${name}_fill(a, x, first, n, step);
  return ${name}_divided(a, b, n, pivot);
}
static ${name}_item *${name}_joined(const ${name}_item *const *runs, const u32 *sizes, long count, ${name}_item *a,
                                    ${name}_item *b, long n, u32 *counts) {
  for (long at = 0, k = 0; k < count; at += sizes[k++]) ${name}_copy(a + at, runs[k], sizes[k]);
  return ${name}_radix(a, b, n, counts);
}
""",
)

# All zeros of `x` are among `n` results, of which the first `count` are wanted.
_SIGNS = r"""
/* Keys put -0 below 0. They are equal, so a stable order has them as they stood: put their signs back. */
static void ${name}_signs($out *o, const $bits *x, long n, long count, long step) {
  if (!$is_float || $shift) return;
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
          v[i] = minimum@${item_vector}(a, b);
          v[i + k] = maximum@${item_vector}(a, b);
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

# A long row is divided among threads by value: its parts are sorted side by side, and there is nothing to merge.
_LIMITS = r"""
/* Limits that divide a row into parts of about the same size: every eighth of a sorted sample. None lies between -0 and
   0, whose keys are neighbors: all zeros are in one part. */
static void ${name}_limits(${name}_item *limits, const $bits *x, long n, long step) {
  enum { SAMPLE = 8 * $parts };
  ${name}_item some[SAMPLE];
  for (long k = 0; k < SAMPLE; k++) { /* one of each stretch of the row, at no regular distance */
    some[k] = ${name}_limit(${name}_key(x[(k * n + k * 2654435761 % n) / SAMPLE * step]));
  }
  ${name}_shell(some, SAMPLE);
  $bits zero = ${name}_key(0), other = ${name}_key($sign);
  ${name}_item most = ${name}_limit(zero < other ? other : zero), one = ${name}_limit(1);
  for (long k = 1; k < $parts; k++) limits[k - 1] = some[8 * k] - ($is_float && some[8 * k] == most ? one : 0);
}
"""

_DIVIDE = r"""
/* Divides pieces of rows into parts, by halves and quarters and so on between two arrays. There is an odd number of
   rounds, so that all is in the first of them in the end. */
KERNEL {
  const $bits *x = buffers[3];
  SIZES
  for (long task = begin; task < end; task++) {
    long row = task / $pieces, first = task % $pieces * piece;
    long size = first >= n ? 0 : n - first < piece ? n - first : piece;
    const $bits *from = x + row / inner * n * inner + row % inner;
    ${name}_item *to = (${name}_item *)buffers[0] + row * n + first;
    ${name}_item *other = (${name}_item *)buffers[2] + row * n + first;
    u32 *counts = (u32 *)buffers[1] + task * $parts;
    ${name}_item limits[$parts - 1];
    long bounds[$parts + 1] = {};
    if (size) {
      ${name}_limits(limits, from, n, inner);
      bounds[$parts] = size;
      bounds[$parts / 2] = ${name}_halved(from, first, size, inner, other, to, limits[$parts / 2 - 1]);
      for (long half = $parts / 4; half; half /= 2) {
        ${name}_item *divided = to;
        to = other;
        other = divided;
        for (long k = half; k < $parts; k += 2 * half) {
          long low = bounds[k - half], high = bounds[k + half];
          bounds[k] = low + ${name}_divided(other + low, to + low, high - low, limits[k - 1]);
        }
      }
    }
    for (long k = 0; k < $parts; k++) counts[k] = bounds[k + 1] - bounds[k];
  }
}
"""

_PARTS = r"""
/* Sorts one part of a row, of which every piece has some, and stores it. */
KERNEL {
  const $bits *source = buffers[5];
  $out *o = buffers[0];
  SIZES
  for (long task = begin; task < end; task++) {
    long row = task / $parts, part = task % $parts, first = 0, size = 0;
    const u32 *counts = (const u32 *)buffers[4] + row * $pieces * $parts;
    const ${name}_item *runs[$pieces];
    u32 sizes[$pieces];
    for (long p = 0; p < $pieces; p++) {
      long before = 0;
      for (long k = 0; k < part; k++) before += counts[p * $parts + k];
      runs[p] = (const ${name}_item *)buffers[3] + row * n + p * piece + before;
      sizes[p] = counts[p * $parts + part];
      first += before;
      size += sizes[p];
    }
    if (!size || first >= count) continue;
    ${name}_item *a = (${name}_item *)buffers[1] + row * n + first, *b = (${name}_item *)buffers[2] + row * n + first;
    a = ${name}_joined(runs, sizes, $pieces, a, b, size, (u32 *)workspace);
    const $bits *from = source + row / inner * n * inner + row % inner;
    $out *to = o + (row / inner * count + first) * inner + row % inner;
    long wanted = count - first < size ? count - first : size;
    ${name}_store(to, a, wanted, from, inner);
    ${name}_signs(to, from, size, wanted, inner);
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
      if (!fold_or@${mask}(hits)) continue;
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
  for (; found < count; found++) a[found] = (${name}_item)-1;
}
"""

# The best items of a row, of a piece of it, or of all that were found in its pieces.
_BEST = r"""
KERNEL {
  const $bits *x = buffers[SOURCE];
  SIZES
  ${name}_item *a = (${name}_item *)workspace, *b = a + $room, *best = a;
  u32 *counts = (u32 *)(b + $room);
  for (long task = begin; task < end; task++) {
    const long row = ROW;
    const $bits *from = x + row / inner * n * inner + row % inner;
    FIND
  }
}
"""
_RESULTS = r"""
    $out *to = ($out *)buffers[0] + row / inner * count * inner + row % inner;
    for (long i = 0; i < count; i++) to[i * inner] = ${name}_result(best[i], from, inner);"""
_OF_ROW = "${name}_best(a, b, from, 0, n, inner, count, counts);" + _RESULTS
_OF_PIECE = r"""long first = task % pieces * piece, size = first >= n ? 0 : n - first < piece ? n - first : piece;
    ${name}_best(a, b, from, first, size, inner, count, counts);
    ${name}_copy((${name}_item *)buffers[0] + task * count, a, count);"""
_OF_FOUND = r"""${name}_copy(a, (${name}_item *)buffers[1] + row * pieces * count, pieces * count);
    best = ${name}_sorted(a, b, pieces * count, counts);"""


def _best(source: int, row: str, find: str) -> str:
    return _BEST.replace("SOURCE", str(source)).replace("ROW", row).replace("FIND", find)


# By a group of threads: a stable merge sort of places between two arrays. In each round neighboring runs are merged:
# every place finds by bisection how many of the other run precede it. It works for rows of any length, and needs no
# memory of the group's own.
_GROUP_MERGE = r"""
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

# Each template is the parts of the library that it needs, and the kernel itself.
_SORTING = (_KEYS, _ITEMS, _RADIX, _SHELL, _SORT)
TEMPLATES: dict[str, tuple[str | Guarded, ...]] = {
    "sort_rows": (*_SORTING, _FILL, _SIGNS, _ROWS),
    "sort_network": (_KEYS, _ITEMS, _SIGNS, _NETWORK),
    "sort_divide": (*_SORTING, _FILL, _DIVISION, _LIMITS, _DIVIDE),
    "sort_parts": (*_SORTING, _FILL, _SIGNS, _DIVISION, _PARTS),
    "best_rows": (*_SORTING, _SELECT, _best(1, "task", _OF_ROW)),
    "best_pieces": (*_SORTING, _SELECT, _best(1, "task / pieces", _OF_PIECE)),
    "best_finish": (*_SORTING, _best(2, "task", _OF_FOUND + _RESULTS)),
    "group_sort": (_ELEMENT_KEYS, _GROUP_MERGE),
}
