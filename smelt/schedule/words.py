"""Contractions of integers and of bfloat16 by words of four and two numbers, as instructions for inner products want
them.

The vector instruction for bytes multiplies unsigned by signed ones. Where both operands have the same rule of signs,
one is moved by 128, which flips its highest bits, and what that changes is taken off again: a sum over the other
operand alone, once a row. Matrix instructions take all signs. Instructions for 16 bits take bytes that are widened.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import NamedTuple

from smelt.dtypes import bfloat16, float32, int16, int32, uint16
from smelt.fuse import moved
from smelt.graph import Variable, as_index, exact_quotient, less, of
from smelt.kernel import (
    Access,
    Expression,
    Fold,
    Instruction,
    Less,
    Output,
    Region,
    extent,
    mask_expression,
    walk,
)
from smelt.schedule.access import lies_along
from smelt.schedule.facts import Contraction

_FLIP = -(2**31) + 0x808080  # the highest bit of every byte
_ONES = 0x01010101
_DOTS = {(False, True): "dot4", (True, False): "dot4", (True, True): "dot4_ss", (False, False): "dot4_uu"}


class Words(NamedTuple):
    """A region that sums words, with the names that its schedule needs."""

    contraction: Contraction
    row: Instruction
    k: Variable  # the axis that only the correction walks: of words where A has them, else the old one
    correction: str | None
    a_along: bool  # whether the numbers of a word lie side by side in A

    def in_rows(self, word: Expression) -> bool:
        """True if words of an operand that are next to each other in the sum are so in memory, if need be as bytes."""
        return lies_along(held(word), self.contraction.k)


def held(word: Expression) -> Expression:
    """What memory holds of a word, if that is one load: else the word. Bits may be flipped, and bytes widened."""
    loads = [e for e in walk([word]) if e.op == "load"]
    return loads[0] if len(loads) == 1 else word


def in_place(word: Expression) -> bool:
    """True if all words of an operand are what its memory holds."""
    return word.op == "load" and not word.attribute.mask


def in_words(contraction: Contraction, row: Instruction) -> Words | None:
    """A contraction in words, if it is one of bfloat16 or integers that the instruction takes, over one axis.

    The sum is padded with zeros to a multiple of the words that the instruction takes at a time.
    """
    region, a, b = contraction.region, contraction.a, contraction.b
    roles = dict(region.roles)
    y = roles["y"]
    if y.dtype is not (float32 if row.is_float else int32) or y.op != "reduce" or len(y.attribute.axes) != 1:
        return None
    summed = k = y.attribute.axes[0]
    size = extent(k)
    left, right = (_bfloats(roles[x]) if row.is_float else _integers(roles[x], row) for x in (a, b))
    if left is None or right is None or not isinstance(size, int) or k in _taken(region, y):
        return None
    count, step = row.numbers, row.depth
    stored = (bfloat16, bfloat16) if row.is_float else (left.dtype, right.dtype)
    if size < count or (row.takes_tiles and stored != (row.left, row.right)):
        return None
    w = Variable(f"{k.name}w", 0, -(-size // (count * step)) * step - 1)
    words = {role: _word(e, k, w, size, count) for role, e in ((a, left), (b, right))}
    pair, op, correction = (words[a], words[b]), row.op, None
    if row.left.bits == 8:
        signs = left.dtype.is_signed, right.dtype.is_signed
        if signs[0] is signs[1] and not row.takes_tiles:
            # B is moved by 128, so that it is of the other kind than A; that adds 128 times the sum of A's row.
            words[b] = Expression("xor", int32, (words[b], _constant(_FLIP)))
            sums, k = _sums(roles[a], left, k, words[a], w)
            correction = Expression("mul", int32, (sums, _constant(-128 if signs[0] else 128)))
            signs = signs[0], not signs[0]
        pair = (words[b], words[a]) if signs == (True, False) else (words[a], words[b])
        op = _DOTS[signs]
    total = Expression("reduce", y.dtype, (Expression(op, y.dtype, pair),), Fold("add", (w,)))
    result = total if correction is None else Expression("add", int32, (total, correction))
    new = replaced(region, y, result)
    at = region.axes.index(summed)
    axes = (*region.axes[:at], w, *([] if correction is None else [k]), *region.axes[at + 1 :])
    made = Region(new, axes, region.parameters, ((a, words[a]), (b, words[b]), ("y", total)))
    named = {e: name for name, e in made.named().items()}
    name = None if correction is None else named[correction]
    return Words(replace(contraction, region=made, summed=(w,)), row, k, name, lies_along(left, summed))


def _sums(
    operand: Expression, numbers: Expression, k: Variable, word: Expression, w: Variable
) -> tuple[Expression, Variable]:
    """The sums of an operand, and the axis that they walk: products of its words with ones where memory holds them."""
    if not in_place(word):
        return Expression("reduce", int32, (operand,), Fold("add", (k,))), k
    own = Variable(f"{k.name}c", 0, w.last)
    words, ones = moved([word], {w: of(own)})[word], _constant(_ONES)
    pair = (ones, words) if numbers.dtype.is_signed else (words, ones)
    return Expression("reduce", int32, (Expression("dot4", int32, pair),), Fold("add", (own,))), own


def _constant(value: int) -> Expression:
    return Expression("const", int32, (), value)


# --- operands


def _integers(operand: Expression, row: Instruction) -> Expression | None:
    """What an operand widens, if that is read by plain loads and the instruction can multiply it."""
    if operand.op != "cast" or not operand.arguments[0].dtype.is_integer or not _is_plain(operand):
        return None
    stored = operand.arguments[0].dtype
    return operand.arguments[0] if stored.bits == 8 or stored in (row.left, row.right) else None


def _bfloats(operand: Expression) -> Expression | None:
    """An operand, if its values are bfloat16 in float32 and come from plain loads."""
    e = operand
    while e.op == "where" and e.arguments[2].op == "const" and e.arguments[2].attribute == 0:
        e = e.arguments[1]
    stored = e.attribute.buffer.dtype if e.op == "load" else e.attribute if e.op == "round16" else None
    return operand if stored is bfloat16 and _is_plain(operand) else None


def _is_plain(operand: Expression) -> bool:
    return all(e.op not in ("reduce", "scan") and not (e.op == "load" and e.arguments) for e in walk([operand]))


def _taken(region: Region, y: Expression) -> set[Variable]:
    """The axes that something else than the contraction walks."""
    used = {axis for output in region.outputs for axis in region.parallel_axes(output)}
    for e in region.order():
        if e.op == "reduce" and e is not y:
            used |= set(e.attribute.axes)
    return used


# --- words


def _word(e: Expression, k: Variable, w: Variable, size: int, count: int) -> Expression:
    """Neighbors along an axis in one int32; beyond the end they are zero."""
    lying = _lying(e, k, w, size, count)
    if lying is not None:
        return lying
    bits = 32 // count
    parts: list[Expression] = []
    for j in range(count):
        at = of(w) * count + j
        mask = () if less(at, size) else (Less(at, as_index(size)),)
        part = _bits(moved([e], {k: at}, mask=mask)[e], bits)
        if mask and e.op != "load":  # what is computed from zeros need not be zero
            part = Expression("where", int32, (mask_expression(mask), part, _constant(0)))
        if j:
            part = Expression("shl", int32, (part, _constant(bits * j)))
        parts.append(part)
    return functools.reduce(lambda a, b: Expression("or", int32, (a, b)), parts)


def _lying(e: Expression, k: Variable, w: Variable, size: int, count: int) -> Expression | None:
    """The word by one load, where its numbers lie side by side and words do not straddle rows."""
    if size % count or e.op != "load" or e.arguments:
        return None
    access: Access = e.attribute
    bits = 8 * access.buffer.dtype.itemsize  # of a number
    buffer = access.buffer.viewed(int32 if bits * count == 32 else int16)
    masked = any(k in side.variables() for condition in access.mask for side in condition)
    if buffer is None or masked:
        return None
    first, *others = [[i.substitute({k: of(w) * count + j}) for i in access.index] for j in range(count)]
    unit = access.buffer.strides.index(1)
    for j, other in enumerate(others, 1):
        if any(b - a != (j if at == unit else 0) for at, (a, b) in enumerate(zip(first, other, strict=True))):
            return None
    word = exact_quotient(first[unit], as_index(count))
    if word is None:
        return None
    first[unit] = word
    words = size // count
    mask = () if less(of(w), words) else (Less(of(w), as_index(words)),)
    word_access = Access(buffer, tuple(first), (*access.mask, *mask))
    if bits * count == 32:
        return Expression("load", int32, (), word_access)
    return _widened(Expression("cast", int32, (Expression("load", int16, (), word_access),)), e.dtype.is_signed)


def _widened(both: Expression, signed: bool) -> Expression:
    """The two bytes of a number of 16 bits as two numbers of 16 bits."""

    def by(op: str, e: Expression, value: int) -> Expression:
        return Expression(op, int32, (e, _constant(value)))

    low = by("and", by("shr", by("shl", both, 24), 24), 0xFFFF) if signed else by("and", both, 0xFF)
    high = by("and", by("shl", both, 8), -(1 << 16) if signed else 0xFF0000)
    return Expression("or", int32, (low, high))


def _bits(e: Expression, bits: int) -> Expression:
    """A number as the lowest bits of an int32, the others zero."""
    view = e.attribute.buffer.viewed(uint16) if e.dtype is float32 and e.op == "load" else None
    if view is not None:
        access: Access = e.attribute
        e = Expression("load", uint16, (), access._replace(buffer=view))
    if e.dtype is float32:  # a bfloat16 is the upper half
        e = Expression("shr", int32, (Expression("bitcast", int32, (e,)), _constant(16)))
    else:
        unsigned = not e.dtype.is_signed
        e = Expression("cast", int32, (e,))
        if unsigned:
            return e
    return Expression("and", int32, (e, _constant((1 << bits) - 1)))


def replaced(region: Region, old: Expression, new: Expression) -> tuple[Output, ...]:
    """The outputs with one expression in the place of another."""
    changed = {old: new}
    for e in region.order():
        if e is old:
            continue
        arguments = tuple(changed.get(a, a) for a in e.arguments)
        changed[e] = e if arguments == e.arguments else Expression(e.op, e.dtype, arguments, e.attribute)
    return tuple(Output(o.buffer, o.index, changed[o.value]) for o in region.outputs)
