"""Linear layers whose weights are codes of a few bits in blocks with scales, as files of language models hold them.

A weight is `scale * (code - zero) + minimum`; scale and minimum are shared by a group of 16 or 32 neighbors along the
inputs. Codes lie as words of four bytes with the outputs in panels of 16, so that vectors run along the outputs:

    nibbles[n/16, block, w, 16]     the lower 4 bits of codes w, 4 + w, 8 + w and 12 + w of both halves of a block
    high[n/16, block, (h,) 16]      the fifth bits, or the fifth and sixth
    words[n/16, block, 2, 4, 16]    codes of 8 bits

Byte j of word w has code 4j + w of a half block, so that inputs are put together with vectors along words: neighbors
are read side by side.

`exact` multiplies with the weights themselves. Otherwise each block of 32 inputs is rounded to 8 bits with a scale of
its own, which makes products of bytes: four times as fast, and about as exact as weights of 8 bits. Every sum is added
up in an order that does not depend on the number of rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol

import numpy as np

from smelt.cost import profile
from smelt.device import lasting
from smelt.dtypes import float32, int32
from smelt.errors import ArgumentError, ShapeError
from smelt.graph import build
from smelt.nn.module import Module
from smelt.tensor import Tensor, arange, from_numpy, maximum, node_of, where, wrap

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["QuantizedEmbedding", "QuantizedLinear", "QuantizedWeight"]

BLOCK = 32  # inputs that are rounded with one scale
PANEL = 16  # outputs that lie side by side
_AT_ONCE: Final = 1 << 18  # codes that are laid out anew: what is between stays in the cache
_SMALLEST: Final = 2.0**-126  # step that is divided by: of smaller ones 1 / step may be infinite


class Rows(Protocol):
    """Codes (outputs, inputs) of a few bits, of which some rows at a time are made when they are asked for."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def bits(self) -> int:
        """Of a code, at most."""
        ...

    def __getitem__(self, rows: slice, /) -> NDArray[np.uint8]: ...

    def pairs(self, rows: slice) -> NDArray[np.uint8] | None:
        """Codes of 4 bits as (rows, blocks, 16), if that is how they lie: above code k of a block, code 16 + k."""
        ...


class QuantizedWeight(Module):
    """A matrix (outputs, inputs) of codes with scales; not trained. Codes are an array, or `Rows` of a file."""

    BLOCK: ClassVar = BLOCK

    def __init__(
        self,
        codes: NDArray[np.uint8] | Rows,
        zero: int,
        scale: NDArray[Any],
        minimum: NDArray[Any] | None = None,
    ) -> None:
        rows, columns = codes.shape
        groups = scale.shape[-1]
        if columns % BLOCK or groups not in (columns // BLOCK, 2 * columns // BLOCK):
            raise ShapeError(
                f"QuantizedWeight: {columns} inputs in {groups} groups", rule="groups are 16 or 32, blocks 32 inputs."
            )
        given: Rows = _Array(codes) if isinstance(codes, np.ndarray) else codes
        bits = 8 if zero == 128 else next(bits for bits in (4, 5, 6, 8) if given.bits <= bits)
        if bits == 8 and zero != 128:
            raise ArgumentError("QuantizedWeight: codes of 8 bits are signed", rule="their zero is 128.")
        # Processors multiply signed bytes by signed ones, or by unsigned ones: codes of 8 bits are as they like it.
        self.is_signed = bits == 8 and "asimddp" in profile().features
        self.rows, self.columns, self.bits, self.zero = rows, columns, bits, 0 if self.is_signed else zero
        self.halves = groups * BLOCK // columns  # groups of a block
        words, high = _planes(given, bits, 128 * self.is_signed)
        self.words, self.high = from_numpy(words), None if high is None else from_numpy(high)
        self.scale = _plane(scale.reshape(rows, -1, self.halves))
        self.minimum = None if minimum is None else _plane(minimum.reshape(rows, -1, self.halves))

    def codes(self, words: Tensor, high: Tensor | None) -> Tensor:
        """Words of codes (..., blocks, 2, 4), each byte one code, from those of some rows (..., blocks, …)."""
        if self.bits == 8:
            return words
        first = (arange(2, dtype=int32) == 0).expand_dims(-1)
        pairs = words.expand_dims(-2)
        low = where(first, pairs & 0x0F0F0F0F, _binary("shr_bytes", pairs, 4))
        if high is None:
            return low
        w = arange(4, dtype=int32)
        if self.bits == 5:
            bit = high.expand_dims(-1).expand_dims(-1)
            return low | (where(first, bit >> w, bit << (w + 1)) & 0x10101010)
        two = high.expand_dims(-1)
        return low | ((_binary("shr_bytes", two, w * 2) & 0x03030303) << 4)

    def numbers(self, at: Tensor | None = None) -> Tensor:
        """The weights of some rows, or of all, (..., inputs)."""
        chosen = slice(self.rows) if at is None else at
        words, high, scale, minimum = (
            None if part is None else _rows(part)[chosen] for part in (self.words, self.high, self.scale, self.minimum)
        )
        assert words is not None and scale is not None
        codes = self.codes(words, high).expand_dims(-2)
        shifts = arange(4, dtype=int32).expand_dims(-1) * 8
        octets = (codes << (24 - shifts)) >> 24 if self.is_signed else (codes >> shifts) & 255
        lead = octets.shape[:-4]
        grouped = (octets.astype(float32) - self.zero).reshape(*lead, -1, self.halves, BLOCK // self.halves)
        found = grouped * scale.astype(float32).expand_dims(-1)
        if minimum is not None:
            found = found + minimum.astype(float32).expand_dims(-1)
        return found.reshape(*lead, self.columns)

    def product(self, x: Tensor) -> Tensor:
        """x (rows, inputs), rounded to 8 bits, times the weights: (rows, outputs)."""
        words, step, sums = rounded(x)
        codes = self.codes(_rows(self.words), None if self.high is None else _rows(self.high))
        # Codes of 8 bits may be above 127, all others are positive either way.
        dot = "dot4" if self.bits == 8 and not self.is_signed else "dot4_ss"
        dots = _binary(dot, codes, words.expand_dims(-4))  # (rows, outputs, blocks, 2, 4)
        scale = _rows(self.scale).astype(float32)
        if self.halves == 1:
            dots = dots.sum((-2, -1), dtype=int32).expand_dims(-1)
            sums = sums.sum(-1, dtype=int32, keepdims=True)
        else:
            dots = dots.sum(-1, dtype=int32)
        sums = (sums.astype(float32) * step.expand_dims(-1)).expand_dims(1)
        each = dots.astype(float32) * (scale * step.expand_dims(-1).expand_dims(-3))
        if self.zero:
            each = each + scale * (sums * -float(self.zero))
        if self.minimum is not None:
            each = each + _rows(self.minimum).astype(float32) * sums
        # Whole panels are computed: what is missing in the last one is left out of the result.
        return each.sum((-2, -1))[:, : self.rows]


class QuantizedLinear(Module):
    """x @ weight.T + bias with a weight of codes; not trained. `exact` leaves x as it is.

    >>> import numpy as np
    >>> import smelt as sm
    >>> codes, scale = np.full((4, 32), 9, np.uint8), np.full((4, 1), 0.5, np.float32)
    >>> layer = sm.nn.QuantizedLinear(sm.nn.QuantizedWeight(codes, 8, scale))
    >>> layer(sm.ones(1, 32)).tolist()
    [[16.0, 16.0, 16.0, 16.0]]
    """

    def __init__(self, weight: QuantizedWeight, bias: Tensor | None = None, *, exact: bool = False) -> None:
        self.weight, self.bias, self.exact = weight, bias, exact

    def __call__(self, x: Tensor) -> Tensor:
        rows = x.reshape(-1, self.weight.columns)
        found = rows @ self.weight.numbers().mT if self.exact else self.weight.product(rows)
        found = found if self.bias is None else found + self.bias
        return found.reshape(*x.shape[:-1], self.weight.rows)


class QuantizedEmbedding(Module):
    """Rows of a matrix of codes by their numbers; not trained."""

    def __init__(self, weight: QuantizedWeight) -> None:
        self.weight = weight

    def __call__(self, tokens: Tensor) -> Tensor:
        return self.weight.numbers(tokens)


def rounded(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Rows of numbers as bytes: words (rows, blocks, 2, 4), what one step of a block is (rows, blocks), and the sums of
    the bytes of half blocks (rows, blocks, 2). Where a block is not finite, its step is not either.
    """
    blocks = x.astype(float32).reshape(x.shape[0], -1, BLOCK)
    # Without signs, numbers have the order of their bits, and those that are none come last.
    largest = (_bits(blocks) & 0x7FFFFFFF).max(-1)
    step = wrap(build.bitcast(node_of(largest, "bitcast"), float32)) * (1 / 127)
    inverse = (1 / maximum(step, _SMALLEST)).expand_dims(-1)
    # Among numbers of this size neighbors are 1 apart, so that the last bits of a sum hold the other number, rounded.
    octets = _bits(blocks * inverse + 1.5 * 2**23).reshape(x.shape[0], -1, 2, 4, 4)
    words = ((octets & 255) << (arange(4, dtype=int32).expand_dims(-1) * 8)).sum(-2, dtype=int32)
    # Sums of the numbers, not of the words: in small kernels of rows, which threads can share.
    sums = ((octets << 24) >> 24).sum((-2, -1), dtype=int32)
    return words, step, sums


def _bits(x: Tensor) -> Tensor:
    return wrap(build.bitcast(node_of(x, "bitcast"), int32))


def _binary(name: str, a: Tensor, b: Tensor | int) -> Tensor:
    other = build.const(b, int32) if isinstance(b, int) else node_of(b, name)
    return wrap(build.binary(name, node_of(a, name), other))


def _rows(plane: Tensor) -> Tensor:
    """A plane (n/16, …, 16) as its rows (n, …)."""
    moved = plane.moveaxis(-1, 1)
    return moved.reshape(-1, *moved.shape[2:])


# --- planes, by NumPy


class _Array:
    """Codes that are there."""

    def __init__(self, codes: NDArray[np.uint8]) -> None:
        self.codes, self.shape, self.bits = codes, codes.shape, int(codes.max(initial=0)).bit_length()

    def __getitem__(self, rows: slice) -> NDArray[np.uint8]:
        return self.codes[rows]

    def pairs(self, rows: slice) -> None:
        return None


def _planes(codes: Rows, bits: int, flip: int) -> tuple[NDArray[np.int32], NDArray[np.int32] | None]:
    """Words, and the bits above the lower 4 if there are any but no whole bytes; `flip` is toggled in bytes."""
    rows, columns = codes.shape
    panels, blocks = -(-rows // PANEL), columns // BLOCK
    words = lasting((panels, blocks, *((2,) if bits == 8 else ()), 4, PANEL), "<i4")
    upper = {5: _fifth, 6: _upper}.get(bits)
    high = None if upper is None else lasting((panels, blocks, *((2,) if bits == 6 else ()), PANEL), "<i4")
    step = max(_AT_ONCE // (PANEL * columns), 1)
    for first in range(0, panels, step):
        part, to = slice(first * PANEL, min((first + step) * PANEL, rows)), slice(first, first + step)
        pairs = codes.pairs(part) if bits == 4 else None
        if pairs is None:
            each = codes[part].reshape(-1, blocks, BLOCK)
            pairs = each ^ np.uint8(flip) if bits == 8 else _nibbles(each)
            if high is not None and upper is not None:
                high[to] = _panels(upper(each))
        _put(words[to], pairs)
    return words, high


def _put(words: NDArray[np.int32], octets: NDArray[np.uint8]) -> None:
    """Write bytes (n, blocks, …) as words (n/16, blocks, …, 4, 16): byte j of word w is byte 4j + w of 16."""
    panels = _filled(octets).reshape(-1, PANEL, *words.shape[1:-2], 4, 4)
    placed = words.view(np.uint8).reshape(*words.shape, 4)
    for j in range(4):  # one by one: NumPy is slow where the last axis of a copy is short
        placed[..., j] = np.moveaxis(panels[..., j, :], 1, -1)


def _filled(rows: NDArray[Any]) -> NDArray[Any]:
    """With rows of 0 for those that are missing in the last panel."""
    missing = -len(rows) % PANEL
    return np.pad(rows, ((0, missing), *(((0, 0),) * (rows.ndim - 1)))) if missing else rows


def _panels(rows: NDArray[Any]) -> NDArray[Any]:
    """(n, …) → (n/16, …, 16)."""
    return np.moveaxis(_filled(rows).reshape(-1, PANEL, *rows.shape[1:]), 1, -1)


def _plane(rows: NDArray[Any]) -> Tensor:
    """The panels of scales or minimums."""
    panels = _panels(_narrow(rows))
    found = lasting(panels.shape, panels.dtype)
    found[...] = panels
    return from_numpy(found)


def _nibbles(blocks: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The lower 4 bits of both halves in one byte."""
    low = blocks & np.uint8(15)
    return low[..., :16] | low[..., 16:] << np.uint8(4)


def _fifth(blocks: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The fifth bit of code 16h + 4j + w is bit 4 + w of byte j in the first half, 3 - w in the second."""
    bits = (blocks >> np.uint8(4) & np.uint8(1)).reshape(*blocks.shape[:2], 2, 4, 4)
    places = np.array([[4, 5, 6, 7], [3, 2, 1, 0]], np.uint8)[:, None]
    return np.ascontiguousarray(np.bitwise_or.reduce(bits << places, axis=(2, 4))).view("<i4")[..., 0]


def _upper(blocks: NDArray[np.uint8]) -> NDArray[np.int32]:
    """The fifth and sixth bits of code 16h + 4j + w are bits 2w and 2w + 1 of byte j of word h."""
    bits = (blocks >> np.uint8(4) & np.uint8(3)).reshape(*blocks.shape[:2], 2, 4, 4)
    places = np.arange(0, 8, 2, dtype=np.uint8)
    return np.ascontiguousarray(np.bitwise_or.reduce(bits << places, axis=4)).view("<i4")[..., 0]


def _narrow(values: NDArray[Any]) -> NDArray[Any]:
    """In half precision where that loses nothing: formats of 32 weights have such scales."""
    if values.dtype == np.float16:
        return values
    with np.errstate(over="ignore"):
        halves = values.astype(np.float16)
    same = np.array_equal(halves.astype(np.float32), values, equal_nan=True)
    return halves if same else values.astype(np.float32, copy=False)
