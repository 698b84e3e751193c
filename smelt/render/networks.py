"""Sorting networks over vectors, written out: a few vectors sorted in registers, for AVX-512.

Bitonic networks (Batcher, 1968). Within a vector, a comparison exchanges lanes by a shuffle and picks minima and maxima
by another; between vectors it is a minimum and a maximum. Items must be distinct or not to be told apart.
"""

from __future__ import annotations

from collections.abc import Sequence

_BUILTINS = {32: ("ud", "i32x16", "u16"), 64: ("uq", "i64x8", "u8")}
_LOADS = {32: "si", 64: "di"}


def network_text(name: str, bits: int, groups: Sequence[int]) -> str:
    """Functions `NAME_sort1`, `NAME_sort2`, … that sort up to so many vectors, and the merge step `NAME_merged`."""
    lanes = 512 // bits
    vector = f"u{bits}x{lanes}"
    parts = [_extremes(name, bits, vector), _within(name, lanes, vector), _memory(name, bits, vector, lanes)]
    return "".join([*parts, *(_sort(name, bits, vector, lanes, count) for count in groups)])


def _extremes(name: str, bits: int, vector: str) -> str:
    suffix, signed, mask = _BUILTINS[bits]
    texts: list[str] = []
    for function, portable in (("min", "min"), ("max", "max")):
        builtin = f"__builtin_ia32_p{function}{suffix}512_mask(({signed})a, ({signed})b, ({signed}){{}}, ({mask})-1)"
        texts.append(
            f"INLINE {vector} {name}_{function}({vector} a, {vector} b) {{\n"
            f"#if __has_builtin(__builtin_elementwise_{portable})\n"
            f"  return __builtin_elementwise_{portable}(a, b);\n"
            f"#else\n  return ({vector}){builtin};\n#endif\n}}\n"
        )
    return "".join(texts)


def _shuffled(a: str, b: str, lanes: Sequence[int]) -> str:
    return f"__builtin_shufflevector({a}, {b}, {', '.join(map(str, lanes))})"


def _exchange(name: str, lanes: int, distance: int, block: int) -> list[str]:
    """Compare lanes that are `distance` apart; blocks of lanes ascend and descend in turn."""
    swapped = [i ^ distance for i in range(lanes)]
    chosen = [i if (i & block == 0) == (i & distance == 0) else lanes + i for i in range(lanes)]
    return [
        f"s = {_shuffled('v', 'v', swapped)};",
        f"v = {_shuffled(f'{name}_min(v, s)', f'{name}_max(v, s)', chosen)};",
    ]


def _within(name: str, lanes: int, vector: str) -> str:
    """Sort the lanes of a vector, merge a bitonic one, and turn one around."""
    distances = [lanes >> k for k in range(1, lanes.bit_length())]
    ordering: list[str] = []
    for block in [2 << k for k in range(lanes.bit_length() - 1)]:
        for distance in (d for d in distances if d < block):
            ordering += _exchange(name, lanes, distance, block)
    merging = [line for distance in distances for line in _exchange(name, lanes, distance, 2 * lanes)]
    turned = _shuffled("v", "v", range(lanes - 1, -1, -1))
    functions = (("ordered", ordering), ("merged", merging))
    texts = [
        f"INLINE {vector} {name}_{function}({vector} v) {{\n  {vector} s;\n  "
        + "\n  ".join(lines)
        + "\n  return v;\n}\n"
        for function, lines in functions
    ]
    return "".join([*texts, f"INLINE {vector} {name}_turned({vector} v) {{ return {turned}; }}\n"])


def _memory(name: str, bits: int, vector: str, lanes: int) -> str:
    """Load and store the first `n` lanes; the others are the greatest item."""
    _, signed, mask = _BUILTINS[bits]
    kind = _LOADS[bits]
    return (
        f"INLINE {vector} {name}_first(const u{bits} *p, long n) {{\n"
        f"  {vector} last = splat@{vector}(-1);\n"
        f"  if (n <= 0) return last;\n"
        f"  if (n >= {lanes}) return *(const {vector}_u *)p;\n"
        f"  return ({vector})__builtin_ia32_loaddqu{kind}512_mask((const void *)p, ({signed})last, "
        f"({mask})((1u << n) - 1));\n}}\n"
        f"INLINE void {name}_put(u{bits} *p, {vector} v, long n) {{\n"
        f"  if (n >= {lanes}) *({vector}_u *)p = v;\n"
        f"  else if (n > 0) __builtin_ia32_storedqu{kind}512_mask((void *)p, ({signed})v, "
        f"({mask})((1u << n) - 1));\n}}\n"
    )


def _sort(name: str, bits: int, vector: str, lanes: int, count: int) -> str:
    """Sort up to `count` vectors: each by itself, then pairs of runs merged."""
    lines = [f"{vector} {', '.join(f'v{k}' for k in range(count))}, s;"]
    lines += [f"v{k} = {name}_ordered({name}_first(from + {lanes * k}, n - {lanes * k}));" for k in range(count)]
    size = 1
    while size < count:
        for first in range(0, count, 2 * size):
            lines += _merge(name, list(range(first, first + 2 * size)))
        size *= 2
    lines += [f"{name}_put(to + {lanes * k}, v{k}, n - {lanes * k});" for k in range(count)]
    body = "\n  ".join(lines)
    return f"static void {name}_sort{count}(const u{bits} *from, u{bits} *to, long n) {{\n  {body}\n}}\n"


def _merge(name: str, run: list[int]) -> list[str]:
    """Two sorted halves of a run of vectors into one: the second is turned around, which makes the whole bitonic."""
    half = len(run) // 2
    lines: list[str] = []
    # Element i of the first half meets element i from the end of the second.
    for k in range((half + 1) // 2):
        low, high = run[half + k], run[len(run) - 1 - k]
        if low == high:
            lines.append(f"v{low} = {name}_turned(v{low});")
        else:
            lines += [f"s = {name}_turned(v{low});", f"v{low} = {name}_turned(v{high});", f"v{high} = s;"]
    distance = half
    while distance:
        for first in range(0, len(run), 2 * distance):
            for k in range(first, first + distance):
                a, b = run[k], run[k + distance]
                lines += [f"s = {name}_min(v{a}, v{b});", f"v{b} = {name}_max(v{a}, v{b});", f"v{a} = s;"]
        distance //= 2
    return [*lines, *(f"v{k} = {name}_merged(v{k});" for k in run)]
