"""TensorBoard's events: protocol buffers with a few fields, each in a record with checksums.

A record is the length of the data (8 bytes, little-endian), a checksum of these, the data, and a checksum of the data.
"""

from __future__ import annotations

import struct
from typing import Final

_POLYNOMIAL: Final = 0x82F63B78  # of CRC-32C, bits reversed
_WORD: Final = 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE: Final = _table()


def crc32c(data: bytes) -> int:
    """The checksum CRC-32C (Castagnoli)."""
    value = _WORD
    for byte in data:
        value = _TABLE[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ _WORD


def _masked(data: bytes) -> bytes:
    """A checksum of data that may hold checksums: rotated, and moved."""
    value = crc32c(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & _WORD)


def record(data: bytes) -> bytes:
    """Data with its length and checksums."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def version(wall_time: float) -> bytes:
    """The event that a file begins with."""
    return _double(1, wall_time) + _bytes(3, b"brain.Event:2")


def scalars(wall_time: float, step: int, values: dict[str, float]) -> bytes:
    """An event with numbers by name."""
    summary = b"".join([_bytes(1, _bytes(1, name.encode()) + _float(2, value)) for name, value in values.items()])
    return _double(1, wall_time) + _key(2, 0) + _varint(step & 0xFFFFFFFFFFFFFFFF) + _bytes(5, summary)


# --- protocol buffers: each field is its number and kind, then its value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _key(field: int, kind: int) -> bytes:
    return _varint(field << 3 | kind)


def _bytes(field: int, data: bytes) -> bytes:
    return _key(field, 2) + _varint(len(data)) + data


def _double(field: int, value: float) -> bytes:
    return _key(field, 1) + struct.pack("<d", value)


def _float(field: int, value: float) -> bytes:
    try:
        return _key(field, 5) + struct.pack("<f", value)
    except OverflowError:
        return _key(field, 5) + struct.pack("<f", float("inf") if value > 0 else float("-inf"))
