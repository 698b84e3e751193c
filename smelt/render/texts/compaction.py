"""Positions of true elements: templates of routines. A first launch counts in blocks, a second one writes."""

from smelt.render.spell import guarded

_HEAD = r"""
/* One bit for each of 64 bytes that is not 0. */
INLINE u64 ${name}_mask(const GLOBAL u8 *p) {"""

# 64 bytes are tested in words, or where there is an instruction for it together.
_MASKING = guarded(
    "defined(__AVX512BW__) && __has_builtin(__builtin_ia32_ptestmb512)",
    """c8x64 v = *(const c8x64_u *)p;
  return __builtin_ia32_ptestmb512(v, v, -1ull);""",
    r"""
  u64 mask = 0;
  for (int k = 0; k < 8; k++) {
    u64 word = 0;
    for (int byte = 0; byte < 8; byte++) word |= (u64)p[8 * k + byte] << 8 * byte;
    u64 set = (((word & 0x7f7f7f7f7f7f7f7full) + 0x7f7f7f7f7f7f7f7full) | word) & 0x8080808080808080ull;
    mask |= ((set >> 7) * 0x0102040810204080ull >> 56) << 8 * k;
  }
  return mask;
""",
)

_COUNT = r"""}

KERNEL {
  const GLOBAL u8 *x = buffers[1];
  GLOBAL i64 *counts = buffers[0];
  SIZES
  for (long task = begin; task < end; task++) {
    long i = task * $block, last = n - i < $block ? n : i + $block, found = 0;
    for (; i + 64 <= last; i += 64) found += __builtin_popcountll(${name}_mask(x + i));
    for (; i < last; i++) found += x[i] != 0;
    counts[task] = found;
  }
}
"""

# Eight positions are packed one by one, or where there is an instruction for it together.
_PACKING = guarded(
    "defined(__AVX512F__)",
    """i64x8 v = iota@i64x8() + splat@i64x8(first);
  *(i64x8_u *)to = (i64x8)__builtin_ia32_compressdi512_mask(v, (i64x8){}, (u8)mask);""",
    r"""
  for (int k = 0, j = 0; k < 8; k++) {
    to[j] = first + k;
    j += mask >> k & 1;
  }
""",
)

_PACKED = r"""}

/* Eight positions from `first` on that a mask names, packed; all eight places are written. */
INLINE void ${name}_packed(GLOBAL i64 *to, long first, u64 mask) {"""

_POSITIONS = r"""}

KERNEL {
  const GLOBAL u8 *x = buffers[2];
  const GLOBAL i64 *counts = buffers[1];
  GLOBAL i64 *o = buffers[0];
  SIZES
  const long blocks = n ? (n - 1) / $block + 1 : 1;
  for (long task = begin; task < end; task++) {
    long before = 0, total = 0;
    for (long k = 0; k < blocks; k++) {
      before += k < task ? counts[k] : 0;
      total += counts[k];
    }
    /* Other tasks write next to this one: nothing is written past what belongs here. */
    long mine = size - before < counts[task] ? size - before : counts[task], j = 0;
    GLOBAL i64 *to = o + before;
    for (long i = task * $block; j < mine;) {
      if (i + 64 <= n) {
        u64 mask = ${name}_mask(x + i);
        if (__builtin_popcountll(mask) <= 10 || j + 64 > mine) {
          for (; mask && j < mine; mask &= mask - 1) to[j++] = i + __builtin_ctzll(mask);
        } else {
          for (int k = 0; k < 64; k += 8) {
            u64 part = mask >> k & 255;
            ${name}_packed(to + j, i + k, part);
            j += __builtin_popcountll(part);
          }
        }
        i += 64;
      } else {
        to[j] = i;
        j += x[i++] != 0;
      }
    }
    long share = (size + blocks - 1) / blocks, first = task * share, last = first + share < size ? first + share : size;
    for (long k = first < total ? total : first; k < last; k++) o[k] = n;
  }
}
"""

TEMPLATES = {
    "count_true": (_HEAD, _MASKING, _COUNT),
    "positions": (_HEAD, _MASKING, _PACKED, _PACKING, _POSITIONS),
}
