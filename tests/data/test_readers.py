"""Readers of files: digits, IDX, CIFAR and text. Whatever is in a file, the answer is an array or a typed error."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import ArgumentError, MissingFileError, ParseError

TYPES = {8: "u1", 9: "i1", 11: "i2", 12: "i4", 13: "f4", 14: "f8"}


def idx_file(array: np.ndarray[Any, Any], kind: int = 8) -> bytes:
    head = bytes([0, 0, kind, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(f">{TYPES[kind]}").tobytes()


# --- digits


def test_digits_come_with_smelt() -> None:
    whole, train, test = (sm.data.digits(split) for split in ("all", "train", "test"))
    assert (len(whole), len(train), len(test)) == (1797, 1438, 359)
    assert whole.images.shape == (1797, 64) and whole.images.dtype == np.float32
    assert (whole.images.min(), whole.images.max()) == (0.0, 1.0)
    assert np.bincount(whole.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    assert whole.labels[:10].tolist() == list(range(10))
    assert (whole.images[0] * 16)[:8].tolist() == [0, 0, 5, 13, 9, 1, 0, 0]
    assert int(whole.arrays[0].astype(np.int64).sum()) == 561718
    assert test.images[0].tolist() == whole.images[4].tolist()
    image, label = train[3]
    assert image.tolist() == whole.images[3].tolist() and label == 3


def test_digits_come_with_their_source() -> None:
    text = (Path(sm.data.__file__).parent / "files" / "ATTRIBUTION.txt").read_text()
    assert "Alpaydin" in text and "CC BY 4.0" in text


def test_digits_are_batches_of_floats() -> None:
    x, y = next(iter(sm.data.DataLoader(sm.data.digits(), 32, shuffle=True)))
    assert (x.shape, x.dtype, y.shape, y.dtype) == ((32, 64), sm.float32, (32,), sm.int64)


# --- IDX


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3, 4)])
def test_arrays_come_back(kind: int, compressed: bool, shape: tuple[int, ...], tmp_path: Path) -> None:
    array = np.random.default_rng(0).integers(0, 100, shape).astype(TYPES[kind])
    data = idx_file(np.asarray(array), kind)
    (tmp_path / "a").write_bytes(gzip.compress(data) if compressed else data)
    found = sm.data.read_idx(tmp_path / "a")
    assert found.dtype == array.dtype and found.dtype.isnative
    assert found.tolist() == array.tolist()


GOOD = idx_file(np.arange(6).reshape(2, 3))
BAD_IDX = {
    "empty": b"",
    "magic": b"\1" + GOOD[1:],
    "type": GOOD[:2] + b"\7" + GOOD[3:],
    "rank": GOOD[:3] + b"\xff" + GOOD[4:],
    "header": GOOD[:9],
    "cut": GOOD[:-1],
    "more": GOOD + b"\0",
    "huge": GOOD[:4] + b"\xff" * 8 + GOOD[12:],
    "huge next to nothing": bytes([0, 0, 14, 5]) + b"\0" * 4 + b"\xff" * 16,
    "cut gzip": gzip.compress(GOOD)[:-9],
    "damaged gzip": gzip.compress(GOOD)[:12] + b"\xff\xff" + gzip.compress(GOOD)[14:],
    "gzip of a huge one": gzip.compress(GOOD[:4] + b"\x00\xff\xff\xff" * 2 + GOOD[12:]),
    "gzip of nothing": gzip.compress(b""),
}


@pytest.mark.parametrize("name", BAD_IDX)
def test_a_bad_idx_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(BAD_IDX[name])
    with pytest.raises(ParseError, match="bad"):
        sm.data.read_idx(tmp_path / "bad")


@given(st.data(), st.booleans())
def test_damaged_idx_files_never_crash(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, compressed: bool
) -> None:
    whole = bytearray(gzip.compress(GOOD, mtime=0) if compressed else GOOD)
    for _ in range(data.draw(st.integers(0, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    whole = whole[: data.draw(st.integers(0, len(whole)))] + data.draw(st.binary(max_size=3))
    path = tmp_path_factory.getbasetemp() / "fuzz.idx"
    path.write_bytes(whole)
    try:
        assert sm.data.read_idx(path).nbytes <= 1100 * len(whole)
    except ParseError:
        pass


@given(st.binary(max_size=60))
def test_random_bytes_never_crash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.idx"
    for start in (b"", b"\0\0", b"\x1f\x8b"):
        path.write_bytes(start + data)
        try:
            sm.data.read_idx(path)
        except ParseError:
            pass
    try:
        sm.data.read_cifar(path)
    except ParseError:
        pass


def write_mnist(folder: Path, images: Any, labels: Any) -> None:
    (folder / "t10k-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx_file(images)))
    (folder / "t10k-labels-idx1-ubyte").write_bytes(idx_file(labels))


@pytest.mark.parametrize("reader", [sm.data.mnist, sm.data.fashion_mnist], ids=["mnist", "fashion_mnist"])
def test_mnist_files_in_a_directory(reader: Any, tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 28, 28))
    write_mnist(tmp_path, images, np.asarray([1, 2, 3]))
    test = reader("test", tmp_path)
    assert test.images.shape == (3, 1, 28, 28)
    np.testing.assert_allclose(test.images[:, 0], images / 255, rtol=1e-6)
    assert test.labels.tolist() == [1, 2, 3]
    with pytest.raises(MissingFileError, match="train-images"):
        reader("train", tmp_path)
    write_mnist(tmp_path, images, np.asarray([1, 2]))
    with pytest.raises(ParseError, match="as many"):
        reader("test", tmp_path)


def test_a_missing_set_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError, match="apt install dataset-fashion-mnist"):
        sm.data.fashion_mnist("train", tmp_path)
    with pytest.raises(FileNotFoundError, match="binary version"):
        sm.data.cifar10("train", tmp_path)


# --- CIFAR


def test_cifar_files_in_a_directory(tmp_path: Path) -> None:
    dots = np.random.default_rng(0).integers(0, 256, (2, 3072)).astype(np.uint8)
    (tmp_path / "test_batch.bin").write_bytes(b"".join(bytes([k + 3]) + dots[k].tobytes() for k in range(2)))
    (tmp_path / "test.bin").write_bytes(b"".join(bytes([1, k + 90]) + dots[k].tobytes() for k in range(2)))
    ten, hundred = sm.data.cifar10("test", tmp_path), sm.data.cifar100("test", tmp_path)
    assert ten.labels.tolist() == [3, 4] and hundred.labels.tolist() == [90, 91]
    for found in (ten, hundred):
        assert found.images.shape == (2, 3, 32, 32)
        np.testing.assert_allclose(found.images.reshape(2, -1), dots / 255, rtol=1e-6)
    images, labels = sm.data.read_cifar(tmp_path / "test.bin", (20, 100))
    assert images.dtype == np.uint8 and labels.tolist() == [[1, 90], [1, 91]]


@pytest.mark.parametrize("data", [b"", b"12345", bytes([10]) + bytes(3072)], ids=["empty", "size", "label"])
def test_a_bad_cifar_file_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(data)
    with pytest.raises(ParseError, match="bad"):
        sm.data.read_cifar(tmp_path / "bad")


# --- text


def test_text_becomes_numbers_and_back(tmp_path: Path) -> None:
    (tmp_path / "t").write_bytes("Grüße\r\n".encode())
    text = sm.data.read_text(tmp_path / "t")
    assert text == "Grüße\n"
    vocabulary = sm.data.Vocabulary.of(text)
    assert vocabulary.characters == ("\n", "G", "e", "r", "ß", "ü")
    assert vocabulary.decode(sm.asarray(vocabulary.encode(text))) == text
    assert sm.data.read_bytes(tmp_path / "t").tolist() == list("Grüße\r\n".encode())


@given(st.text(max_size=50))
def test_any_text_survives_its_vocabulary(text: str) -> None:
    vocabulary = sm.data.Vocabulary.of(text)
    assert vocabulary.decode(vocabulary.encode(text)) == text


@given(st.integers(2, 40), st.integers(1, 10), st.integers(1, 5))
def test_windows_are_pieces_and_what_comes_next(count: int, length: int, stride: int) -> None:
    numbers = np.arange(count, dtype=np.uint16)
    if count <= length:
        with pytest.raises(ArgumentError, match="WindowDataset"):
            sm.data.WindowDataset(numbers, length, stride)
        return
    windows = sm.data.WindowDataset(numbers, length, stride)
    items = [windows[k] for k in range(len(windows))]
    starts = [start for start in range(0, count, stride) if start + length < count]
    assert [x.tolist() for x, _ in items] == [list(range(start, start + length)) for start in starts]
    assert [y.tolist() for _, y in items] == [list(range(start + 1, start + length + 1)) for start in starts]
    x, y = windows.take(np.arange(len(windows)))
    assert x.tolist() == [item.tolist() for item, _ in items] and y.tolist() == [item.tolist() for _, item in items]


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "split": (lambda p: sm.data.digits("validation"), ArgumentError, "one of train, test, all"),
    "mnist split": (lambda p: sm.data.mnist("all", p), ArgumentError, "one of train, test"),
    "encoding": (lambda p: sm.data.read_text(p / "latin"), ParseError, "byte 1 is not utf-8"),
    "no encoding": (lambda p: sm.data.read_text(p / "latin", "utf-99"), ArgumentError, "utf-99"),
    "unknown": (lambda p: sm.data.Vocabulary.of("ab").encode("abc"), ArgumentError, "'c'"),
    "number": (lambda p: sm.data.Vocabulary.of("ab").decode([2]), ArgumentError, "from 0 to 1"),
    "twice": (lambda p: sm.data.Vocabulary("aa"), ArgumentError, "different single"),
    "length": (lambda p: sm.data.WindowDataset([1, 2], 0), ArgumentError, "at least 1"),
    "rank": (lambda p: sm.data.WindowDataset([[1, 2]], 1), ArgumentError, "a list of at least 2"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path) -> None:
    call, error, text = MISTAKES[name]
    (tmp_path / "latin").write_bytes(b"a\xe4")
    with pytest.raises(error) as caught:
        call(tmp_path)
    assert text in str(caught.value)
