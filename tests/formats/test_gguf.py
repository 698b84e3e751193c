"""Language models in GGUF files: what is written comes back, and nothing else is taken for a file."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, MissingFileError, ParseError, ShapeError
from smelt.formats import Gguf, write_gguf
from smelt.formats.blocks import BLOCKS

RANDOM = np.random.default_rng(0)


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(name: str | bytes, kind: int, data: bytes) -> bytes:
    return text(name) + struct.pack("<I", kind) + data


def array(kind: int, count: int, data: bytes = b"") -> bytes:
    return struct.pack("<IQ", kind, count) + data


def tensor(name: str | bytes = "x", dims: Any = (1,), kind: int = 0, offset: int = 0, rank: int | None = None) -> bytes:
    sizes = b"".join(struct.pack("<Q", size) for size in dims)
    rank = len(dims) if rank is None else rank
    return text(name) + struct.pack("<I", rank) + sizes + struct.pack("<IQ", kind, offset)


def file_of(
    pairs: list[bytes] = [],  # noqa: B006
    tensors: list[bytes] = [],  # noqa: B006
    data: bytes = b"",
    version: int = 3,
    counts: tuple[int, int] | None = None,
) -> bytes:
    numbers = counts or (len(tensors), len(pairs))
    header = b"GGUF" + struct.pack("<IQQ", version, *numbers) + b"".join(pairs) + b"".join(tensors)
    return header + bytes(-len(header) % 32) + data


# --- what is written comes back

METADATA: dict[str, Any] = {
    "general.name": "a small one ü",
    "count": 3,
    "negative": -3,
    "large": 1 << 40,
    "largest": (1 << 64) - 1,
    "very negative": -(1 << 50),
    "yes": True,
    "half": 0.5,
    "double": np.float64(0.1),
    "byte": np.uint8(7),
    "short": np.int16(-7),
    "texts": ["a", "", "ß"],
    "nothing": [],
    "bools": [True, False],
    "integers": [1, -2],
    "wide": [1, 1 << 40],
    "floats": [0.5, 1.5],
    "scores": np.array([0.25, -1], np.float32),
    "bytes": np.arange(4, dtype=np.uint8),
    "nested": [[1, 2], ["a"], [[0.5]]],
}


def test_metadata_come_back(tmp_path: Path) -> None:
    write_gguf(tmp_path / "x.gguf", METADATA, {})
    found = Gguf(tmp_path / "x.gguf").metadata
    assert list(found) == list(METADATA)
    for name, value in METADATA.items():
        if name != "nested":
            assert np.array_equal(found[name], value), name
    assert [list(value) for value in found["nested"][:2]] == [[1, 2], ["a"]]
    assert found["nested"][2][0].tolist() == [0.5]
    types = {name: found[name].dtype for name in ("bools", "integers", "wide", "floats", "scores", "bytes")}
    assert types == dict(zip(types, ["?", "i4", "i8", "f4", "f4", "u1"], strict=True))
    assert [type(found[name]) for name in ("count", "yes", "half", "byte", "texts")] == [int, bool, float, int, list]


PLAIN = [np.float32, np.float16, ml_dtypes.bfloat16, np.float64, np.int8, np.int16, np.int32, np.int64]


@pytest.mark.parametrize("dtype", PLAIN)
@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 3, 1, 4)])
def test_plain_tensors_come_back_bit_for_bit(dtype: Any, shape: tuple[int, ...], tmp_path: Path) -> None:
    wanted = (
        RANDOM.integers(0, 256, int(np.prod(shape)) * np.dtype(dtype).itemsize, np.uint8).view(dtype).reshape(shape)
    )
    write_gguf(tmp_path / "x", {}, {"first": np.ones(3, np.int8), "x": wanted})
    file = Gguf(tmp_path / "x")
    found = file.array("x")
    assert (found.dtype, found.shape, found.tobytes()) == (dtype, shape, wanted.tobytes())
    assert not found.flags.writeable
    assert file["x"].shape == shape
    assert file.entries["x"].start % 32 == 0


@pytest.mark.parametrize("name", [name for name, block in BLOCKS.items() if block.dtype is None])
def test_blocks_come_back(name: str, tmp_path: Path) -> None:
    block = BLOCKS[name]
    raw = RANDOM.integers(0, 60, (3, 2, 2 * block.nbytes), np.uint8)
    write_gguf(tmp_path / "x", {"general.alignment": 64}, {"x": (name, raw), "one": np.ones(1, np.float32)})
    file = Gguf(tmp_path / "x")
    assert file.entries["x"][:2] == (block, (3, 2, 2 * block.size))
    assert file.raw("x").shape == (6, 2 * block.nbytes)
    assert np.array_equal(file.raw("x").reshape(raw.shape), raw)
    assert np.array_equal(file.array("x"), block.dequantize(raw.reshape(3, 2, 2, -1)))
    assert file.entries["one"].start % 64 == 0
    assert np.array_equal(file["x"].numpy(), file.array("x"))


def test_numbers_are_quantized_when_they_are_written(tmp_path: Path) -> None:
    values = RANDOM.normal(size=(4, 64))
    write_gguf(tmp_path / "x", {}, {"x": ("Q8_0", values), "half": ("F16", values)})
    file = Gguf(tmp_path / "x")
    assert np.abs(file.array("x") - values).max() < 0.02
    assert np.array_equal(file.array("half"), values.astype(np.float16))
    assert (list(file), len(file), "x" in file, "y" in file) == (["x", "half"], 2, True, False)
    with pytest.raises(KeyError):
        file.raw("y")


def test_pages_can_be_dropped_and_are_read_again(tmp_path: Path) -> None:
    values = RANDOM.normal(size=(3, 5000)).astype(np.float32)
    write_gguf(tmp_path / "x", {}, {"a": np.ones(7, np.int8), "x": values, "b": np.ones(7, np.int8)})
    file = Gguf(tmp_path / "x")
    for name in file:
        before = file.array(name)
        file.drop(name)
        assert np.array_equal(before, file.array(name))
    assert np.array_equal(file.array("x"), values)


def test_a_big_vocabulary_comes_back(tmp_path: Path) -> None:
    words = [f"word {number} ü" for number in range(50_000)]
    write_gguf(tmp_path / "x", {"tokens": words, "scores": np.zeros(50_000, np.float32)}, {})
    assert Gguf(tmp_path / "x").metadata["tokens"] == words


def test_the_second_version_is_read(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(file_of(tensors=[tensor(dims=(2, 1))], data=struct.pack("<ff", 1, 2), version=2))
    assert Gguf(tmp_path / "x").array("x").tolist() == [[1, 2]]


def test_only_what_is_asked_for_is_read(tmp_path: Path) -> None:
    # A sparse file of 16 GB: reading it would fail or take forever.
    size = 1 << 34
    data = file_of(tensors=[tensor("big", (size,), 24), tensor("last", (4,), 24, size)])
    with (tmp_path / "sparse").open("wb") as file:
        file.write(data)
        file.seek(len(data) + size)
        file.write(b"\1\2\3\4")
    model = Gguf(tmp_path / "sparse")
    assert model.entries["big"].nbytes == size
    assert model.array("last").tolist() == [1, 2, 3, 4]


# --- models in several files


def write_split(folder: Path, count: int = 3, **changes: Any) -> Path:
    for number in range(count):
        metadata = {"split.no": np.uint16(number), "split.count": np.uint16(count), "split.tensors.count": 2}
        metadata |= {"general.name": "split"} if number == 0 else {}
        metadata |= {name.replace("_", "."): value for name, value in changes.items() if number == count - 1}
        tensors = {} if number == 0 else {f"x{number}": np.full(3, number, np.float32)}  # the first may be empty
        write_gguf(folder / f"m-{number + 1:05}-of-{count:05}.gguf", metadata, tensors)
    return folder / f"m-00001-of-{count:05}.gguf"


def test_models_in_several_files_are_one(tmp_path: Path) -> None:
    file = Gguf(write_split(tmp_path))
    assert file.metadata["general.name"] == "split"
    assert {name: file.array(name).tolist() for name in file} == {"x1": [1, 1, 1], "x2": [2, 2, 2]}
    file.drop("x2")
    assert file.entries["x2"].part == 2


def test_files_of_a_model_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    first = write_split(tmp_path)
    with pytest.raises(ParseError, match="-00001-of-00003"):
        Gguf(tmp_path / "m-00002-of-00003.gguf")
    (tmp_path / "other.gguf").write_bytes(first.read_bytes())
    with pytest.raises(ParseError, match="one of 3 files, and not called"):
        Gguf(tmp_path / "other.gguf")
    with pytest.raises(ParseError, match="says that it is 2 of 3"):
        Gguf(write_split(tmp_path, split_no=1))
    with pytest.raises(ParseError, match="natural"):
        Gguf(write_split(tmp_path, split_no="2"))
    second, third = (tmp_path / f"m-0000{number}-of-00003.gguf" for number in (2, 3))
    write_gguf(third, {"split.no": 2, "split.count": 3}, {"x1": np.ones(1, np.float32)})
    with pytest.raises(ParseError, match="in two of its files"):
        Gguf(first)
    write_gguf(third, {"split.no": 2, "split.count": 3}, {})
    with pytest.raises(ParseError, match="1 tensors together, and should have 2"):
        Gguf(first)
    second.unlink()
    with pytest.raises(MissingFileError, match=r"m-00002-of-00003\.gguf is not beside it"):
        Gguf(first)


# --- hostile files


class Bad(NamedTuple):
    data: bytes
    text: str


HUGE = [1 << 31, (1 << 32) - 1, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1]
FLOATS = struct.pack("<8f", *range(8))


def with_pair(kind: int, data: bytes) -> bytes:
    return file_of([pair("a", kind, data)])


def with_tensor(*args: Any, **named: Any) -> bytes:
    return file_of(tensors=[tensor(*args, **named)], data=FLOATS)


FILES = {
    "empty": Bad(b"", "does not begin"),
    "magic": Bad(b"GGUG" + bytes(100), "does not begin"),
    "magic alone": Bad(b"GGUF", "header ends"),
    "short": Bad(b"GGUF\3\0\0\0\1", "header ends"),
    "version 1": Bad(file_of(version=1), "version 1;"),
    "version 4": Bad(file_of(version=4), "version 4;"),
    "big-endian": Bad(file_of(version=3 << 24), "version 3, big-endian"),
    **{f"{count} tensors": Bad(file_of(counts=(count, 0)), "cannot have") for count in HUGE},
    **{f"{count} metadata": Bad(file_of(counts=(0, count)), "cannot have") for count in HUGE},
    **{f"text of {size}": Bad(with_pair(8, struct.pack("<Q", size)), "within a text") for size in HUGE},
    **{f"{count} texts": Bad(with_pair(9, array(8, count)), "texts") for count in HUGE},
    **{f"{count} numbers": Bad(with_pair(9, array(4, count)), "header ends") for count in HUGE},
    **{f"{count} arrays": Bad(with_pair(9, array(9, count)), "arrays") for count in HUGE},
    **{f"size {size}": Bad(with_tensor(dims=(size,)), "ends at byte") for size in HUGE},
    **{f"offset {at}": Bad(with_tensor(offset=at & ~31), "ends at byte") for at in HUGE},
    "sizes that overflow": Bad(with_tensor(dims=(1 << 32, 1 << 32, 1 << 32, 1 << 32)), "ends at byte"),
    "kind": Bad(with_pair(13, bytes(8)), "of kind 13"),
    "kind of elements": Bad(with_pair(9, array(13, 1, bytes(8))), "elements of kind 13"),
    "deep": Bad(with_pair(9, array(9, 1) * 5 + array(4, 0)), "in 4 arrays"),
    "bool": Bad(with_pair(7, b"\2"), "neither 0 nor 1"),
    "bools": Bad(with_pair(9, array(7, 3, b"\1\2\0")), "neither 0 nor 1"),
    "not utf-8": Bad(with_pair(8, text(b"\xff")), "not UTF-8"),
    "name not utf-8": Bad(file_of([pair(b"\xff", 0, b"\0")]), "not UTF-8"),
    "no name": Bad(file_of([pair("", 0, b"\0" * 40)]), "has 0 bytes"),
    "long name": Bad(file_of([pair("x" * 70_000, 0, b"\0")]), "has 70000 bytes"),
    "metadata twice": Bad(file_of([pair("a", 0, b"\0"), pair("a", 0, b"\1")]), "stand there twice"),
    **{
        f"alignment {value}": Bad(file_of([pair("general.alignment", 10, struct.pack("<Q", value))]), "alignment")
        for value in (0, 1, 4, 24, 33, *HUGE)
    },
    "alignment text": Bad(file_of([pair("general.alignment", 8, text("32"))]), "natural"),
    "alignments": Bad(file_of([pair("general.alignment", 9, array(4, 2, bytes(8)))]), "natural"),
    "alignment bool": Bad(file_of([pair("general.alignment", 7, b"\1")]), "natural"),
    "split": Bad(file_of([pair("split.count", 4, struct.pack("<I", 1 << 30))]), "cannot be one of"),
    "splits": Bad(file_of([pair("split.count", 9, array(4, 2, bytes(8)))]), "natural"),
    "no axes": Bad(with_tensor(dims=()), "0 axes"),
    "five axes": Bad(with_tensor(dims=(1,) * 5), "5 axes"),
    "many axes": Bad(with_tensor(rank=(1 << 32) - 1), "axes"),
    "size 0": Bad(with_tensor(dims=(0,)), "shape (0,)"),
    "size 0 beside others": Bad(with_tensor(dims=(1 << 62, 0, 1 << 62)), "shape"),
    "format": Bad(with_tensor(kind=200), "format 200"),
    "format of others": Bad(with_tensor(kind=16), "format IQ2_XXS"),
    "half a block": Bad(with_tensor(dims=(16,), kind=2), "blocks of 32"),
    "rows of half blocks": Bad(with_tensor(dims=(16, 2), kind=2), "blocks of 32"),
    "not aligned": Bad(with_tensor(offset=4), "no multiple of 32"),
    "cut": Bad(with_tensor(dims=(9,)), "ends at byte"),
    "tensor twice": Bad(file_of(tensors=[tensor(), tensor(offset=32)], data=FLOATS * 2), "twice"),
    "overlap": Bad(file_of(tensors=[tensor("x", (9,)), tensor("y", offset=32)], data=FLOATS * 2), "overlaps"),
    "same place": Bad(file_of(tensors=[tensor("x"), tensor("y")], data=FLOATS), "overlaps"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(FILES[name].data)
    with pytest.raises(ParseError) as caught:
        Gguf(tmp_path / "bad")
    assert FILES[name].text in str(caught.value)
    assert "bad" in str(caught.value)


MANY: dict[str, Callable[[], bytes]] = {
    "texts": lambda: with_pair(9, array(8, 1 << 22, bytes(8 << 22))),
    "arrays": lambda: with_pair(9, array(9, 1 << 17, array(4, 0) * (1 << 17))),
    "metadata": lambda: file_of([pair(b"%05x" % number, 0, b"\0") for number in range(1 << 17)]),
    "tensors": lambda: file_of(tensors=[tensor(b"%05x" % number) for number in range(1 << 17)]),
}


@pytest.mark.parametrize("what", MANY)
def test_what_would_take_much_time_and_memory_is_refused(what: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(MANY[what]())
    with pytest.raises(ParseError, match=f"cannot have [0-9]+ {what}"):
        Gguf(tmp_path / "bad")


def test_the_limits_are_those_of_all_arrays_together(tmp_path: Path) -> None:
    half = array(8, 3 << 19, bytes(8 * (3 << 19)))
    (tmp_path / "bad").write_bytes(file_of([pair("a", 9, half), pair("b", 9, half)]))
    with pytest.raises(ParseError, match=r"cannot have [0-9]+ texts"):
        Gguf(tmp_path / "bad")


def test_files_of_other_kinds_are_named_as_such(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones(3))
    with pytest.raises(ParseError, match=r"x\.npy is a NumPy array"):
        Gguf(tmp_path / "x.npy")
    with pytest.raises(FileNotFoundError):
        Gguf(tmp_path / "nothing")


def valid() -> bytes:
    pairs = [
        pair("general.alignment", 4, struct.pack("<I", 32)),
        pair("a", 8, text("text")),
        pair("b", 9, array(8, 2, text("x") + text("yz"))),
        pair("c", 9, array(6, 3, struct.pack("<3f", 1, 2, 3))),
        pair("d", 9, array(9, 1, array(7, 2, b"\0\1"))),
        pair("split.count", 2, struct.pack("<H", 1)),
    ]
    tensors = [tensor("x", (2, 2), 0, 0), tensor("y", (32,), 8, 32), tensor("z", (32, 2), 3, 96)]
    return file_of(pairs, tensors, bytes(range(200)))


def opened(data: bytes, folder: Path) -> bool:
    """Read a file as far as possible; only a `ParseError` may come out, or a split that is not there."""
    (folder / "fuzz.gguf").write_bytes(data)
    try:
        file = Gguf(folder / "fuzz.gguf")
    except ParseError:
        return False
    for name, entry in file.entries.items():
        assert file.raw(name).nbytes == entry.nbytes <= len(data)
        assert file.array(name).shape == entry.shape
        file.drop(name)
    return True


def test_what_is_changed_below_is_valid(tmp_path: Path) -> None:
    assert opened(valid(), tmp_path)


WORDS = st.integers(0, 12) | st.sampled_from([1 << 31, *HUGE, 1 << 61, (1 << 64) - 24])
CHANGES = st.tuples(st.integers(0, len(valid())), st.sampled_from(["<B", "<I", "<Q"]), WORDS)


@given(st.lists(CHANGES, max_size=3), st.integers(0, len(valid())) | st.none())
def test_changed_files_never_crash(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, str, int]], cut: int | None
) -> None:
    data = bytearray(valid())
    for at, form, value in changes:
        word = struct.pack(form, value & ((1 << 8 * struct.calcsize(form)) - 1))
        data[at : at + len(word)] = word
    opened(bytes(data[:cut]), tmp_path_factory.getbasetemp())


@given(st.binary(max_size=100))
def test_random_bytes_never_crash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    opened(b"GGUF\3\0\0\0" + data, tmp_path_factory.getbasetemp())


# --- mistakes of writers

ONES = np.ones((2, 32), np.float32)
MISTAKES: dict[str, tuple[dict[str, Any], dict[str, Any], Any, str]] = {
    "dtype": ({}, {"x": np.ones(2, np.uint16)}, DTypeError, "x is uint16"),
    "format": ({}, {"x": ("Q4_9", ONES)}, ArgumentError, "Q4_9"),
    "row": ({}, {"x": ("Q4_K", ONES)}, ShapeError, "multiples of 256"),
    "bytes": ({}, {"x": ("Q4_0", np.ones(17, np.uint8))}, ShapeError, "multiples of 18"),
    "scalar": ({}, {"x": np.array(1.0)}, ShapeError, "1 to 4 axes"),
    "list": ({}, {"x": [1.0]}, ArgumentError, "x is of type list"),
    "tensor": ({}, {"x": ("Q4_0", sm.ones(32))}, ArgumentError, "Write x.numpy"),
    "triple": ({}, {"x": ("Q4_0", ONES, 1)}, ArgumentError, "x is of type tuple"),
    "nothing": ({}, {"x": ONES[:0]}, ShapeError, "size of 0"),
    "five axes": ({}, {"x": np.ones((1,) * 5)}, ShapeError, "1 to 4 axes"),
    "only read": ({}, {"x": ("Q2_K", np.ones(256))}, DTypeError, "can only be read"),
    "nan": ({}, {"x": ("Q4_0", ONES * np.nan)}, ArgumentError, "not finite"),
    "alignment": ({"general.alignment": 12}, {}, ArgumentError, "power of two"),
    "object": ({"a": object()}, {}, ArgumentError, "'a'"),
    "none": ({"a": None}, {}, ArgumentError, "'a'"),
    "mixed": ({"a": ["x", 1]}, {}, ArgumentError, "'a'"),
    "too large": ({"a": 1 << 64}, {}, ArgumentError, "'a'"),
    "ragged": ({"a": [1, [2]]}, {}, ArgumentError, "'a'"),
    "half precision": ({"a": np.ones(2, np.float16)}, {}, ArgumentError, "'a'"),
    "half a character": ({"\ud800": 1}, {}, ArgumentError, "Unicode"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_leave_the_old_file(name: str, tmp_path: Path) -> None:
    metadata, tensors, error, message = MISTAKES[name]
    write_gguf(tmp_path / "x", {"old": 1}, {})
    with pytest.raises(error, match=message):
        write_gguf(tmp_path / "x", metadata, tensors)
    assert Gguf(tmp_path / "x").metadata == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
