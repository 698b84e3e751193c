"""Sorting networks over vectors, written out: a few vectors sorted in registers, for AVX-512.

Bitonic networks (Batcher, 1968). Within a vector, a comparison exchanges lanes by a shuffle and picks minima and maxima
by another; between vectors it is a minimum and a maximum. Items must be distinct or not to be told apart. The texts are
in the notation of `routines`.
"""

from __future__ import annotations

from smelt.render.spell import shuffled

_MIN, _MAX = "minimum@${item_vector}", "maximum@${item_vector}"
# Load and store the first `n` lanes; the others are the greatest item.
_MEMORY = r"""INLINE ${item_vector} ${name}_first(const ${name}_item *p, long n) {
  ${item_vector} last = splat@${item_vector}(-1);
  if (n <= 0) return last;
  if (n >= $item_lanes) return *(const ${item_vector}_u *)p;
  return (${item_vector})__builtin_ia32_loaddqu${store}512_mask((const void *)p, (${item_signed})last, FIRST);
}
INLINE void ${name}_put(${name}_item *p, ${item_vector} v, long n) {
  if (n >= $item_lanes) *(${item_vector}_u *)p = v;
  else if (n > 0) __builtin_ia32_storedqu${store}512_mask((void *)p, (${item_signed})v, FIRST);
}
""".replace("FIRST", "($lane_bits)((1u << n) - 1)")
_GROUPS = (1, 2, 4, 8, 16)  # vectors that are sorted together


def network_text(lanes: int, inlined: bool) -> str:
    """Functions `NAME_sort1`, `NAME_sort2`, … that sort up to so many vectors, and the merge step `NAME_merged`.

    What is inlined is a fifth faster and takes four times as long to compile.
    """
    return "".join([_within(lanes, inlined), _MEMORY, *(_sort(lanes, count) for count in _GROUPS)])


def _exchange(lanes: int, distance: int, block: int) -> list[str]:
    """Compare lanes that are `distance` apart; blocks of lanes ascend and descend in turn."""
    swapped = [i ^ distance for i in range(lanes)]
    chosen = [i if (i & block == 0) == (i & distance == 0) else lanes + i for i in range(lanes)]
    return [
        f"s = {shuffled('v', 'v', swapped)};",
        f"v = {shuffled(f'{_MIN}(v, s)', f'{_MAX}(v, s)', chosen)};",
    ]


def _within(lanes: int, inlined: bool) -> str:
    """Sort the lanes of a vector, merge a bitonic one, and turn one around."""
    distances = [lanes >> k for k in range(1, lanes.bit_length())]
    blocks = [2 << k for k in range(lanes.bit_length() - 1)]
    ordering = [line for b in blocks for d in distances if d < b for line in _exchange(lanes, d, b)]
    merging = [line for d in distances for line in _exchange(lanes, d, 2 * lanes)]
    texts = ""
    for function, lines in (("ordered", ordering), ("merged", merging)):
        head = f"{'INLINE' if inlined else 'NEVER_INLINE'} ${{item_vector}} ${{name}}_{function}(${{item_vector}} v) {{"
        texts += "\n  ".join([head, "${item_vector} s;", *lines, "return v;"]) + "\n}\n"
    turned = shuffled("v", "v", range(lanes - 1, -1, -1))
    return f"{texts}INLINE ${{item_vector}} ${{name}}_turned(${{item_vector}} v) {{ return {turned}; }}\n"


def _sort(lanes: int, count: int) -> str:
    """Sort up to `count` vectors: each by itself, then pairs of runs merged."""
    lines = [f"static void ${{name}}_sort{count}(const ${{name}}_item *from, ${{name}}_item *to, long n) {{"]
    lines.append(f"${{item_vector}} {', '.join(f'v{k}' for k in range(count))}, s;")
    places = [f"{lanes * k}" for k in range(count)]
    lines += [f"v{k} = ${{name}}_ordered(${{name}}_first(from + {at}, n - {at}));" for k, at in enumerate(places)]
    size = 1
    while size < count:
        for first in range(0, count, 2 * size):
            lines += _merge(list(range(first, first + 2 * size)))
        size *= 2
    lines += [f"${{name}}_put(to + {at}, v{k}, n - {at});" for k, at in enumerate(places)]
    return "\n  ".join(lines) + "\n}\n"


def _merge(run: list[int]) -> list[str]:
    """Two sorted halves of a run of vectors into one: the second is turned around, which makes the whole bitonic."""
    half = len(run) // 2
    lines: list[str] = []
    # Element i of the first half meets element i from the end of the second.
    for k in range((half + 1) // 2):
        low, high = run[half + k], run[len(run) - 1 - k]
        if low == high:
            lines.append(f"v{low} = ${{name}}_turned(v{low});")
        else:
            lines += [f"s = ${{name}}_turned(v{low});", f"v{low} = ${{name}}_turned(v{high});", f"v{high} = s;"]
    distance = half
    while distance:
        for first in range(0, len(run), 2 * distance):
            for a, b in [(run[k], run[k + distance]) for k in range(first, first + distance)]:
                lines += [f"s = {_MIN}(v{a}, v{b});", f"v{b} = {_MAX}(v{a}, v{b});", f"v{a} = s;"]
        distance //= 2
    return [*lines, *(f"v{k} = ${{name}}_merged(v{k});" for k in run)]
