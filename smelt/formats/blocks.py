"""Numbers in blocks, as GGUF files hold them: a few bits for each, and scales that a block shares.

One row of `BLOCKS` says all about a format: where its bits lie, what is taken off them, and which scales and minimums
they have. Every number is `scale * (code - zero) + minimum`, computed in float32 in this order, so that results are the
same bits as those of other programs. Half-precision scales are widened exactly, subnormal ones too.

>>> import numpy as np
>>> packed = BLOCKS["Q8_0"].quantize(np.linspace(-1, 1, 32, dtype=np.float32))
>>> packed.shape, BLOCKS["Q8_0"].dequantize(packed).shape
((1, 34), (32,))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from smelt import dtypes
from smelt.dtypes import DType
from smelt.errors import ArgumentError, DTypeError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Floats = NDArray[np.float32]
    Halves = NDArray[np.float16]
    Scales = tuple[Floats | Halves, Floats | Halves | None]

_SHARES: Final = tuple(map(np.float32, (0.96, 0.92, 0.88, 0.84, 0.8)))  # of scales that are tried instead
_AT_ONCE: Final = 1 << 16  # numbers: what is between bytes and results then stays in the cache


class Codes(NamedTuple):
    """Rows of numbers as `scale * (code - zero) + minimum`: codes (rows, n), scales and minimums (rows, groups)."""

    codes: Bytes
    zero: int
    scale: Floats | Halves
    minimum: Floats | Halves | None


class Field(NamedTuple):
    """Codes of 1, 2, 4 or 8 bits in the bytes from `at` on: `groups` of `width` bytes. The lowest bits of all bytes of
    a group come first, then the next ones. They are put in at bit `shift` of a number's code.
    """

    at: int
    groups: int
    width: int
    bits: int
    shift: int = 0

    def read(self, raw: Bytes) -> Bytes:
        """(blocks, bytes) → (blocks, numbers), shifted."""
        part = np.ascontiguousarray(raw[:, self.at : self.at + self.groups * self.width])
        if self.bits == 8:
            return part
        codes = np.empty((len(raw), self.groups, 8 // self.bits, self.width), np.uint8)
        for place in range(8 // self.bits):  # each over contiguous bytes, which is what NumPy is quick at
            own = part >> np.uint8(place * self.bits) & np.uint8((1 << self.bits) - 1)
            codes[:, :, place] = own.reshape(len(raw), self.groups, self.width)
        codes <<= np.uint8(self.shift)
        return codes.reshape(len(raw), -1)

    def write(self, raw: Bytes, codes: Bytes) -> None:
        """Put the bits of codes that are this field's into blocks."""
        own = codes >> np.uint8(self.shift) & np.uint8((1 << self.bits) - 1)
        shifts = np.arange(0, 8, self.bits, dtype=np.uint8)[:, None]
        own = own.reshape(-1, self.groups, 8 // self.bits, self.width) << shifts
        raw[:, self.at : self.at + self.groups * self.width] = np.bitwise_or.reduce(own, axis=2).reshape(len(raw), -1)


@dataclass(frozen=True)
class Block:
    """A format: its name and number, how many numbers a block has and how many bytes.

    `dtype` is that of numbers that lie there one by one; of the others `fields` says where codes lie, `zero` what is
    taken off, `flip` what is toggled before (a sign), `levels` what codes stand for, if not themselves. `scales` gives
    scales and minimums, (blocks, groups) each, and `fit` the bytes of scales and the codes for given numbers.
    """

    name: str
    number: int
    size: int
    nbytes: int
    dtype: DType | None = None
    fields: tuple[Field, ...] = ()
    zero: int = 0
    flip: int = 0
    levels: tuple[int, ...] = ()
    scales: Callable[[Bytes], Scales] | None = None
    fit: Callable[[Block, Floats, Bytes], Bytes] | None = None

    def __repr__(self) -> str:
        return f"Block({self.name}: {self.size} numbers in {self.nbytes} bytes)"

    def dequantize(self, raw: Bytes) -> Floats:
        """(..., blocks, `nbytes`) bytes → (..., blocks * `size`) float32."""
        if raw.dtype != np.uint8 or raw.ndim < 2 or raw.shape[-1] != self.nbytes:
            raise ShapeError(
                f"{self.name}: {raw.dtype} of shape {raw.shape}", rule=f"it takes uint8 (..., blocks, {self.nbytes})."
            )
        shape = (*raw.shape[:-2], raw.shape[-2] * self.size)
        rows = raw.reshape(-1, self.nbytes)
        if self.dtype is not None:
            with np.errstate(all="ignore"):  # NaNs are numbers, too
                return np.ascontiguousarray(rows).view(self.dtype.numpy).astype(np.float32).reshape(shape)
        found = np.empty((len(rows), self.size), np.float32)
        step = _AT_ONCE // self.size
        for start in range(0, len(rows), step):
            self._unpack(rows[start : start + step], found[start : start + step])
        return found.reshape(shape)

    def quantize(self, values: NDArray[Any], *, search: bool = False) -> Bytes:
        """(..., n) numbers, n a multiple of `size` → (..., n / `size`, `nbytes`) bytes; the nearest codes for simple
        scales. What has no finite scale is refused. `search` tries smaller scales too, by which the numbers farthest
        from 0 are cut off and all others are nearer, and takes for each block the one with the least square error.
        """
        if values.ndim < 1 or values.shape[-1] % self.size:
            raise ShapeError(f"{self.name}: shape {values.shape}", rule=f"rows are multiples of {self.size} numbers.")
        shape = (*values.shape[:-1], values.shape[-1] // self.size, self.nbytes)
        if self.dtype is not None:
            return np.ascontiguousarray(values.astype(self.dtype.numpy)).reshape(-1).view(np.uint8).reshape(shape)
        if self.fit is None:
            known = ", ".join(name for name, block in BLOCKS.items() if block.fit is not None)
            raise DTypeError(f"{self.name} can only be read", rule=f"blocks can be made of {known}.")
        rows = np.ascontiguousarray(values, np.float32).reshape(-1, self.size)
        found = np.zeros((len(rows), self.nbytes), np.uint8)
        step = _AT_ONCE // self.size
        for start in range(0, len(rows), step):
            part = found[start : start + step]
            self._fitted(rows[start : start + step], part)
            if search:
                self._searched(rows[start : start + step], part)
        return found.reshape(shape)

    def _fitted(self, values: Floats, raw: Bytes) -> None:
        assert self.fit is not None
        codes = self.fit(self, values, raw)
        for field in self.fields:
            field.write(raw, codes ^ np.uint8(self.flip))

    def _searched(self, values: Floats, best: Bytes) -> None:
        """Put better blocks in the place of others, where there are any."""
        assert self.scales is not None
        groups = values.reshape(len(values), self.scales(best)[0].shape[1], -1)
        low, high = groups.min(axis=2, keepdims=True), groups.max(axis=2, keepdims=True)
        least, raw = self._distance(values, best), np.zeros_like(best)
        for share in _SHARES:
            self._fitted(groups.clip(low * share, high * share).reshape(values.shape), raw)
            distance = self._distance(values, raw)
            better = distance < least
            best[better], least[better] = raw[better], distance[better]

    def _distance(self, values: Floats, raw: Bytes) -> Floats:
        apart = np.empty_like(values)
        self._unpack(raw, apart)
        apart -= values
        squares: Floats = np.einsum("ij,ij->i", apart, apart)
        return squares

    def codes(self, raw: Bytes) -> Bytes:
        """(blocks, `nbytes`) → (blocks, `size`): the codes of numbers, `zero` not taken off."""
        codes = self.fields[0].read(raw)
        for field in self.fields[1:]:
            codes = codes | field.read(raw)
        return codes ^ np.uint8(self.flip) if self.flip else codes

    def apart(self, raw: Bytes) -> Codes:
        """(rows, bytes of a row) → codes and scales. Levels of a curve become signed codes of 8 bits."""
        packed = Packed(self, raw)
        return Codes(packed[:], packed.zero, *packed.scales())

    def _unpack(self, raw: Bytes, out: Floats) -> None:
        codes = self.codes(raw)
        out[...] = np.array(self.levels, np.float32).take(codes) if self.levels else codes
        if self.zero:
            out -= np.float32(self.zero)
        assert self.scales is not None
        with np.errstate(all="ignore"):  # a file may have any scales, infinite ones too
            scale, minimum = self.scales(raw)
            groups = out.reshape(len(out), scale.shape[1], -1)
            groups *= scale[..., None]
            if minimum is not None:
                groups += minimum[..., None]


@dataclass(frozen=True, slots=True)
class Packed:
    """Rows of a format's blocks, (rows, bytes of a row), which are taken apart as far as they are asked for."""

    block: Block
    raw: Bytes

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and the numbers of each."""
        return len(self.raw), self.raw.shape[1] // self.block.nbytes * self.block.size

    @property
    def zero(self) -> int:
        """What is taken off codes."""
        return 128 if self.block.levels else self.block.zero

    @property
    def bits(self) -> int:
        """Of a code, at most."""
        return 8 if self.block.levels else sum(field.bits for field in self.block.fields)

    def __getitem__(self, rows: Any) -> Bytes:
        """The codes of a slice of the rows. Levels of a curve become signed codes of 8 bits."""
        raw = self.raw[rows]
        codes = self.block.codes(raw.reshape(-1, self.block.nbytes))
        if self.block.levels:
            codes = (np.array(self.block.levels, np.int16) + 128).astype(np.uint8).take(codes)
        return codes.reshape(len(raw), -1)

    def pairs(self, rows: slice) -> Bytes | None:
        """The codes of a slice of the rows, (rows, blocks, 16), where they lie so: byte k of a block of 32 has code k,
        and in its upper half code 16 + k.
        """
        at, *form = self.block.fields[0]
        if form != [1, 16, 4, 0] or self.bits > 4 or self.block.flip:
            return None
        return self.raw[rows].reshape(-1, self.shape[1] // 32, self.block.nbytes)[:, :, at : at + 16]

    def scales(self) -> Scales:
        """The scales and minimums of all rows, (rows, groups), in half precision where they lie so."""
        assert self.block.scales is not None
        with np.errstate(all="ignore"):
            scale, minimum = self.block.scales(self.raw.reshape(-1, self.block.nbytes))
        rows = len(self.raw)
        return scale.reshape(rows, -1), None if minimum is None else minimum.reshape(rows, -1)


# --- scales


def _half(raw: Bytes, at: int) -> Floats:
    """Half-precision numbers of blocks, (blocks, 1), to compute with."""
    return _as_it_is(raw, at).astype(np.float32)


def _as_it_is(raw: Bytes, at: int) -> Halves:
    return np.ascontiguousarray(raw[:, at : at + 2]).view("<f2")


def _one(raw: Bytes) -> tuple[Halves, None]:
    return _as_it_is(raw, 0), None


def _scale_and_minimum(raw: Bytes) -> tuple[Halves, Halves]:
    return _as_it_is(raw, 0), _as_it_is(raw, 2)


def _fours(raw: Bytes) -> tuple[Floats, Floats]:
    """Q2_K: scale and minimum of 4 bits each in a byte, for 16 numbers."""
    return _half(raw, 80) * (raw[:, :16] & 15), -(_half(raw, 82) * (raw[:, :16] >> 4))


def _sixes(raw: Bytes) -> tuple[Floats, None]:
    """Q3_K: scales of 6 bits and a sign, the lower 4 in 8 bytes, the upper 2 in 4."""
    scales = Field(96, 1, 8, 4).read(raw) | Field(104, 1, 4, 2).read(raw) << np.uint8(4)
    return _half(raw, 108) * (scales.astype(np.float32) - 32), None


def _pairs_of_sixes(raw: Bytes) -> tuple[Floats, Floats]:
    """Q4_K and Q5_K: 8 scales and 8 minimums of 6 bits in 12 bytes: the first four of each whole, of the others 4 bits
    in the last bytes and 2 above the first ones.
    """
    first, last = raw[:, 4:12].reshape(-1, 2, 4), raw[:, 12:16]
    others = np.stack([last & 15, last >> 4], axis=1) | first >> 6 << 4
    scales, minimums = np.moveaxis(np.concatenate([first & 63, others], axis=2), 1, 0)
    return _half(raw, 0) * scales, -(_half(raw, 2) * minimums)


def _bytes(raw: Bytes) -> tuple[Floats, None]:
    """Q6_K: a signed byte for 16 numbers."""
    return _half(raw, 208) * raw[:, 192:208].view(np.int8), None


def _sixes_apart(raw: Bytes) -> tuple[Floats, None]:
    """IQ4_XS: scales of 6 bits and a sign, the lower 4 and the upper 2 apart, in the order of numbers."""
    scales = Field(4, 4, 1, 4).read(raw) | Field(2, 2, 1, 2).read(raw) << np.uint8(4)
    return _half(raw, 0) * (scales.astype(np.float32) - 32), None


# --- codes for given numbers


def _inverse(scale: NDArray[Any]) -> NDArray[Any]:
    """1 / scale, and 0 where that would be infinite."""
    usable = np.abs(scale) >= np.finfo(np.float32).tiny
    found: NDArray[Any] = np.divide(1, scale, out=np.zeros_like(scale), where=usable)
    return found


def _put_half(raw: Bytes, at: int, values: Floats) -> Floats:
    """Write (blocks, 1) as halves, and give back what they are then."""
    with np.errstate(over="ignore"):
        halves = values.astype("<f2")
    if not np.isfinite(halves).all():
        raise ArgumentError("quantize: numbers are not finite, or too large for scales of half precision")
    raw[:, at : at + 2] = halves.view(np.uint8)
    return halves.astype(np.float32)


def _extreme(groups: Floats) -> Floats:
    """The number farthest from 0 along the last axis, with its sign, (..., 1)."""
    return np.take_along_axis(groups, np.abs(groups).argmax(axis=-1, keepdims=True), axis=-1)


def _floored(values: NDArray[Any], most: int) -> Bytes:
    codes: Bytes = np.floor(values).clip(0, most).astype(np.uint8)
    return codes


def _fit_extreme(block: Block, values: Floats, raw: Bytes) -> Bytes:
    """Q4_0 and Q5_0: the number farthest from 0 gets the code 0, which has no counterpart on the other side."""
    scale = _extreme(values) / np.float32(-block.zero)
    _put_half(raw, 0, scale)
    # In float64, as if it were one rounding: peers differ by whether they fuse the two operations.
    return _floored(values.astype(np.float64) * _inverse(scale) + (block.zero + 0.5), 2 * block.zero - 1)


def _fit_range(block: Block, values: Floats, raw: Bytes) -> Bytes:
    """Q4_1 and Q5_1: the smallest number gets the code 0, the largest the last one."""
    most = 15 if len(block.fields) == 1 else 31
    low = values.min(axis=1, keepdims=True)
    with np.errstate(over="ignore", invalid="ignore"):
        scale = (values.max(axis=1, keepdims=True) - low) / np.float32(most)
    _put_half(raw, 0, scale)
    _put_half(raw, 2, low)
    return _floored((values - low) * _inverse(scale) + np.float32(0.5), most)


def _fit_bytes(block: Block, values: Floats, raw: Bytes) -> Bytes:
    """Q8_0: codes from -127 to 127, halves away from 0."""
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    _put_half(raw, 0, scale)
    scaled = values * _inverse(scale)
    rounded = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled)
    return _floored(rounded + np.float32(block.zero), 255)


def _fit_pairs_of_sixes(block: Block, values: Floats, raw: Bytes) -> Bytes:
    """Q4_K and Q5_K: each group has its range, which includes 0, with scale and minimum rounded to 6 bits."""
    most = 15 if len(block.fields) == 1 else 31
    groups = values.reshape(-1, 8, 32)
    low = np.minimum(groups.min(axis=2), 0)
    with np.errstate(over="ignore", invalid="ignore"):
        scales = (np.maximum(groups.max(axis=2), 0) - low) / np.float32(most)
    sixes = []
    for at, wanted in enumerate((scales, -low)):
        whole = _put_half(raw, 2 * at, wanted.max(axis=1, keepdims=True) / np.float32(63))
        sixes.append(_floored(wanted * _inverse(whole) + np.float32(0.5), 63))
    both = np.stack(sixes, axis=1)  # (blocks, scale or minimum, 8)
    raw[:, 4:12] = (both[:, :, :4] | both[:, :, 4:] >> 4 << 6).reshape(-1, 8)
    raw[:, 12:16] = both[:, 0, 4:] & 15 | (both[:, 1, 4:] & 15) << 4
    scale, minimum = _pairs_of_sixes(raw)
    scaled = (groups - minimum[..., None]) * _inverse(scale)[..., None]
    return _floored(scaled + np.float32(0.5), most).reshape(values.shape)


def _fit_sixes(block: Block, values: Floats, raw: Bytes) -> Bytes:
    """Q6_K: as Q4_0 in groups of 16, whose scales are rounded to signed bytes."""
    groups = values.reshape(-1, 16, 16)
    wanted = _extreme(groups)[..., 0] / np.float32(-block.zero)
    whole = _put_half(raw, 208, _extreme(wanted) / np.float32(-128))
    raw[:, 192:208] = np.rint(wanted * _inverse(whole)).clip(-128, 127).astype(np.int8).view(np.uint8)
    scale, _ = _bytes(raw)
    scaled = groups * _inverse(scale)[..., None] + np.float32(block.zero + 0.5)
    return _floored(scaled, 2 * block.zero - 1).reshape(values.shape)


# --- the table

_CURVE: Final = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)  # denser around 0


def _plain(name: str, number: int, dtype: DType) -> Block:
    return Block(name, number, 1, dtype.itemsize, dtype)


_ROWS: Final = (
    _plain("F32", 0, dtypes.float32),
    _plain("F16", 1, dtypes.float16),
    _plain("BF16", 30, dtypes.bfloat16),
    _plain("F64", 28, dtypes.float64),
    _plain("I8", 24, dtypes.int8),
    _plain("I16", 25, dtypes.int16),
    _plain("I32", 26, dtypes.int32),
    _plain("I64", 27, dtypes.int64),
    Block("Q4_0", 2, 32, 18, None, (Field(2, 1, 16, 4),), zero=8, scales=_one, fit=_fit_extreme),
    Block("Q4_1", 3, 32, 20, None, (Field(4, 1, 16, 4),), scales=_scale_and_minimum, fit=_fit_range),
    Block(
        *("Q5_0", 6, 32, 22, None),
        *((Field(6, 1, 16, 4), Field(2, 4, 1, 1, 4)),),
        zero=16,
        scales=_one,
        fit=_fit_extreme,
    ),
    Block(
        *("Q5_1", 7, 32, 24, None),
        *((Field(8, 1, 16, 4), Field(4, 4, 1, 1, 4)),),
        scales=_scale_and_minimum,
        fit=_fit_range,
    ),
    Block("Q8_0", 8, 32, 34, None, (Field(2, 1, 32, 8),), zero=128, flip=128, scales=_one, fit=_fit_bytes),
    Block("Q2_K", 10, 256, 84, None, (Field(16, 2, 32, 2),), scales=_fours),
    Block("Q3_K", 11, 256, 110, None, (Field(32, 2, 32, 2), Field(0, 1, 32, 1, 2)), zero=4, scales=_sixes),
    Block("Q4_K", 12, 256, 144, None, (Field(16, 4, 32, 4),), scales=_pairs_of_sixes, fit=_fit_pairs_of_sixes),
    Block(
        *("Q5_K", 13, 256, 176, None),
        *((Field(48, 4, 32, 4), Field(16, 1, 32, 1, 4)),),
        scales=_pairs_of_sixes,
        fit=_fit_pairs_of_sixes,
    ),
    Block(
        *("Q6_K", 14, 256, 210, None),
        *((Field(0, 2, 64, 4), Field(128, 2, 32, 2, 4)),),
        zero=32,
        scales=_bytes,
        fit=_fit_sixes,
    ),
    Block("IQ4_NL", 20, 32, 18, None, (Field(2, 1, 16, 4),), levels=_CURVE, scales=_one),
    Block("IQ4_XS", 23, 256, 136, None, (Field(8, 8, 16, 4),), levels=_CURVE, scales=_sixes_apart),
)

BLOCKS: Final = {block.name: block for block in _ROWS}
BY_NUMBER: Final = {block.number: block for block in _ROWS}

# Formats that files may have and that are not read: for messages.
OTHERS: Final = {
    **{9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S", 22: "IQ2_S"},
    **{29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4"},
}
