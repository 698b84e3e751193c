"""Pictures: the files are what other programs expect."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ShapeError
from smelt.formats import save_png


def decoded(path: Path) -> np.ndarray[Any, Any]:
    """The pixels of a PNG file with 8 bits and no filter; its checksums are checked."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, chunks = 8, []
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length]) == (zlib.crc32(kind + body),)
        chunks.append((kind, body))
        at += 12 + length
    assert [kind for kind, _ in chunks] == [b"IHDR", b"IDAT", b"IEND"]
    width, height, bits, color, *rest = struct.unpack(">IIBBBBB", chunks[0][1])
    assert (bits, rest) == (8, [0, 0, 0])
    channels = {0: 1, 2: 3, 6: 4}[color]
    rows = np.frombuffer(zlib.decompress(chunks[1][1]), np.uint8).reshape(height, 1 + width * channels)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, channels)


@pytest.mark.parametrize("shape", [(3, 5), (3, 5, 1), (2, 7, 3), (4, 1, 4)])
def test_pixels_come_back(shape: tuple[int, ...], tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)
    save_png(tmp_path / "a.png", pixels)
    assert np.array_equal(decoded(tmp_path / "a.png").reshape(shape), pixels)


def test_floats_go_from_0_to_1(tmp_path: Path) -> None:
    save_png(tmp_path / "a.png", sm.asarray([[0.0, 0.5, 1.0, 7.0, -1.0, float("nan")]]))
    assert decoded(tmp_path / "a.png").reshape(-1).tolist() == [0, 128, 255, 255, 0, 0]


@pytest.mark.parametrize("shape", [(3,), (2, 2, 2), (0, 4), (1, 1, 1, 1)])
def test_other_shapes_are_refused(shape: tuple[int, ...], tmp_path: Path) -> None:
    with pytest.raises(ShapeError, match="save_png"):
        save_png(tmp_path / "a.png", np.zeros(shape))
