"""Tensors in files: what is written comes back, and nothing else is taken for a file."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.dtypes import ALL, STORAGE
from smelt.errors import ArgumentError, DTypeError, ParseError, ShapeError
from smelt.formats import SafeTensors, write_safetensors

HELD = [dtype for dtype in ALL + STORAGE if dtype.bits >= 8]


def file_of(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return (len(text) if length is None else length).to_bytes(8, "little") + text + data


def entry(kind: str = "F32", shape: Any = (1,), offsets: Any = (0, 4), **more: Any) -> dict[str, Any]:
    return {"dtype": kind, "shape": list(shape), "data_offsets": list(offsets), **more}


@pytest.mark.parametrize("dtype", HELD, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (3,), (2, 1, 5)])
def test_every_dtype_comes_back_bit_for_bit(dtype: sm.DType, shape: tuple[int, ...], tmp_path: Path) -> None:
    limit = 2 if dtype.is_bool else 256
    raw = np.random.default_rng(0).integers(0, limit, (int(np.prod(shape)) * dtype.itemsize,), np.uint8)
    array = raw.view(dtype.numpy).reshape(shape)
    sm.save({"x": array, "one": np.ones(1, np.uint8)}, tmp_path / "x.safetensors")
    found = sm.load(tmp_path / "x.safetensors")["x"]
    assert (found.dtype, found.shape) == (dtype, shape)
    assert found.numpy().tobytes() == array.tobytes()


@pytest.mark.parametrize("dtype", [sm.int4, sm.uint4], ids=str)
def test_what_the_format_does_not_have_is_refused(dtype: sm.DType, tmp_path: Path) -> None:
    with pytest.raises(DTypeError, match="int8"):
        sm.save({"x": sm.zeros(2, dtype=dtype)}, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


class Tied(sm.nn.Module):
    def __init__(self) -> None:
        self.first, self.second = sm.nn.Linear(3, 3), sm.nn.Linear(3, 3, bias=False)
        self.second.weight = self.first.weight


def test_tied_weights_are_written_once_and_found_by_either_name(tmp_path: Path) -> None:
    model = Tied()
    sm.save(model, tmp_path / "tied")
    file = SafeTensors(tmp_path / "tied")
    assert sorted(file) == ["first.bias", "first.weight"]
    assert file.metadata == {"second.weight": "first.weight"}
    loaded = sm.load(Tied(), tmp_path / "tied")
    assert loaded.first.weight is loaded.second.weight
    assert loaded.first.weight.tolist() == model.first.weight.tolist()
    sm.save({"second.weight": model.first.weight, "first.bias": model.first.bias}, tmp_path / "other")
    assert sm.load(Tied(), tmp_path / "other").first.weight.tolist() == model.first.weight.tolist()


def test_loading_gives_another_module_and_leaves_the_given_one(tmp_path: Path) -> None:
    one, other = sm.nn.Linear(2, 3), sm.nn.Linear(2, 3)
    before = other.weight.tolist()
    sm.save(one, tmp_path / "net")
    loaded = sm.load(other, tmp_path / "net")
    assert loaded.weight.tolist() == one.weight.tolist()
    assert other.weight.tolist() == before
    half = sm.load(other.astype(sm.bfloat16), tmp_path / "net")
    assert half.weight.dtype is sm.bfloat16


def test_any_tree_can_be_saved_and_loaded(tmp_path: Path) -> None:
    model = sm.nn.Linear(2, 2)
    state = sm.optim.Adam().init(model)
    sm.save((model, {"state": state, "more": [np.arange(3), None]}), tmp_path / "tree")
    assert "1.state.steps.0.mean.1" in sm.load(tmp_path / "tree")
    empty = (sm.nn.Linear(2, 2), {"state": sm.optim.Adam().init(model), "more": [np.zeros(3, np.int64), None]})
    loaded, rest = sm.load(empty, tmp_path / "tree")
    assert loaded.weight.tolist() == model.weight.tolist()
    assert type(rest["state"]) is type(state)
    assert rest["more"][0].tolist() == [0, 1, 2]


def test_loaded_tensors_can_be_donated(tmp_path: Path) -> None:
    sm.save({"x": sm.arange(4)}, tmp_path / "x")
    before = (tmp_path / "x").read_bytes()
    step = sm.jit(lambda x: x + 1, donate=(0,))
    assert step(sm.load(tmp_path / "x")["x"]).tolist() == [1, 2, 3, 4]
    assert (tmp_path / "x").read_bytes() == before


def test_only_what_is_asked_for_is_made(tmp_path: Path) -> None:
    # A sparse file of 16 GB: reading it would fail or take forever.
    size = 1 << 34
    header = {"big": entry("U8", (size,), (0, size)), "last": entry("U8", (4,), (size, size + 4))}
    data = file_of(header)
    with (tmp_path / "sparse").open("wb") as file:
        file.write(data)
        file.seek(len(data) + size)
        file.write(b"\1\2\3\4")
    tensors = sm.load(tmp_path / "sparse")
    assert tensors["big"].shape == (size,)
    assert tensors["last"].tolist() == [1, 2, 3, 4]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sm.save({"x": sm.ones(2)}, tmp_path / "x")

    def full(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="no space"):
        sm.save({"x": sm.zeros(2)}, tmp_path / "x")
    assert sm.load(tmp_path / "x")["x"].tolist() == [1.0, 1.0]
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


class Bad(NamedTuple):
    data: bytes
    text: str


FILES = {
    "empty": Bad(b"", "cannot have a header"),
    "short": Bad(b"\0\0\0", "cannot have a header"),
    "long header": Bad(file_of({}, length=1 << 60), "cannot have a header"),
    "cut header": Bad(file_of({"x": entry()}, length=500), "cannot have a header"),
    "no object": Bad(file_of(b"[]"), "begin with {"),
    "white in front": Bad(file_of(b" {}"), "begin with {"),
    "no json": Bad(file_of(b"{"), "cannot be read"),
    "not utf-8": Bad(file_of(b'{"\xff": 1}'), "cannot be read"),
    "half character": Bad(file_of(b'{"\\ud800": {"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'), "cannot be read"),
    "nan": Bad(file_of(b'{"x": NaN}'), "cannot be read"),
    "deep": Bad(file_of(b'{"x":' + b"[" * 100_000), "cannot be read"),
    "digits": Bad(file_of(b'{"x":' + b"9" * 10_000 + b"}"), "cannot be read"),
    "twice": Bad(file_of(b'{"x": 1, "x": 2}'), "twice"),
    "metadata": Bad(file_of({"__metadata__": {"a": 1}}), "metadata"),
    "no fields": Bad(file_of({"x": 1}), "must have dtype"),
    "more fields": Bad(file_of({"x": entry(extra=1)}, b"1234"), "must have dtype"),
    "dtype": Bad(file_of({"x": entry("F31")}, b"1234"), "F31"),
    "dtype list": Bad(file_of({"x": {**entry(), "dtype": ["F32"]}}, b"1234"), "dtype"),
    "negative": Bad(file_of({"x": entry(shape=(-1,))}, b"1234"), "shape"),
    "float": Bad(file_of({"x": entry(shape=(1.0,))}, b"1234"), "shape"),
    "bool": Bad(file_of({"x": entry(shape=(True,))}, b"1234"), "shape"),
    "rank": Bad(file_of({"x": entry(shape=(1,) * 65)}, b"1234"), "shape"),
    "backwards": Bad(file_of({"x": entry(offsets=(4, 0))}, b"1234"), "data_offsets"),
    "three": Bad(file_of({"x": entry(offsets=(0, 4, 4))}, b"1234"), "data_offsets"),
    "size": Bad(file_of({"x": entry(shape=(2,))}, b"1234"), "does not need"),
    "huge": Bad(file_of({"x": entry(shape=(1 << 62, 1 << 62))}, b"1234"), "does not need"),
    "huge next to nothing": Bad(file_of({"x": entry(shape=(0, 1 << 62, 1 << 62), offsets=(0, 0))}), "does not need"),
    "overlap": Bad(file_of({"x": entry(), "y": entry()}, b"1234"), "overlaps"),
    "gap": Bad(file_of({"x": entry(), "y": entry(offsets=(8, 12))}, b"123456789012"), "unused"),
    "cut data": Bad(file_of({"x": entry()}, b"123"), "the file at"),
    "more data": Bad(file_of({"x": entry()}, b"12345"), "the file at"),
}


@pytest.mark.parametrize("name", FILES)
def test_a_bad_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(FILES[name].data)
    with pytest.raises(ParseError) as caught:
        sm.load(tmp_path / "bad")
    assert FILES[name].text in str(caught.value)
    assert "bad" in str(caught.value)


def zipped(name: str, path: Path) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, b"nothing")


OTHERS: dict[str, tuple[Any, str]] = {
    "net.pt": (lambda path: zipped("net/data.pkl", path), "a PyTorch file"),
    "old.pth": (
        lambda path: path.write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."),
        "a PyTorch file of the old form",
    ),
    "net.pkl": (lambda path: path.write_bytes(b"\x80\x04\x95" + b"0" * 20), "a pickle"),
    "a.npy": (lambda path: np.save(path, np.ones(3)), "a NumPy array"),
    "a.npz": (lambda path: np.savez(path, w=np.ones(3)), "a NumPy archive"),
    "a.zip": (lambda path: zipped("readme.txt", path), "a ZIP archive"),
    "a.h5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + b"0" * 20), "an HDF5 file"),
    "a.gguf": (lambda path: path.write_bytes(b"GGUF" + b"0" * 20), "a GGUF file"),
    "lfs.safetensors": (
        lambda path: path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0"),
        "a pointer of Git LFS",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_files_of_other_kinds_are_named_as_such(name: str, tmp_path: Path) -> None:
    write, kind = OTHERS[name]
    write(tmp_path / name)
    with pytest.raises(ParseError, match=f"{name} is {kind}"):
        sm.load(tmp_path / name)
    with pytest.raises(ParseError, match=f"{name} is {kind}"):
        sm.load(sm.nn.Linear(2, 3), tmp_path / name)


def test_other_bytes_than_those_of_bools_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad").write_bytes(file_of({"x": entry("BOOL", (2,), (0, 2))}, b"\1\2"))
    with pytest.raises(ParseError, match="BOOL"):
        sm.load(tmp_path / "bad")


def test_tensors_that_are_not_aligned_are_read(tmp_path: Path) -> None:
    data = b"\7" + np.arange(3, dtype=np.float64).tobytes()
    header = {"a": entry("U8", (1,), (0, 1)), "b": entry("F64", (3,), (1, 25))}
    (tmp_path / "odd").write_bytes(file_of(header, data))
    assert sm.load(tmp_path / "odd")["b"].tolist() == [0.0, 1.0, 2.0]


MISTAKES = {
    "no path": (lambda p: sm.load(sm.zeros(2)), ArgumentError, "file is missing"),  # type: ignore[call-overload]
    "names": (lambda p: sm.load({"y": sm.zeros(2)}, p), ArgumentError, "missing in the file: y; only in the file: x"),
    "shape": (lambda p: sm.load({"x": sm.zeros(3)}, p), ShapeError, "x has shape (2,)"),
    "no tree": (lambda p: sm.save("text", p), ArgumentError, "str"),
    "leaf": (lambda p: sm.save({"a": [1]}, p), ArgumentError, "a.0 is of type int"),
    "same name": (lambda p: sm.save({"a.b": sm.zeros(1), "a": {"b": sm.ones(1)}}, p), ArgumentError, "two tensors"),
    "reserved": (lambda p: sm.save({"__metadata__": sm.zeros(1)}, p), ArgumentError, "__metadata__"),
    "unicode": (lambda p: sm.save({"\ud800": sm.zeros(1)}, p), ArgumentError, "Unicode"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str, tmp_path: Path) -> None:
    call, error, text = MISTAKES[name]
    sm.save({"x": sm.zeros(2)}, tmp_path / "x")
    with pytest.raises(error) as caught:
        call(tmp_path / "x")
    assert text in str(caught.value)


def test_the_model_comes_before_the_path(tmp_path: Path) -> None:
    model, path = sm.nn.Linear(2, 3), tmp_path / "net.safetensors"
    with pytest.raises(ArgumentError, match=r"(?s)the model comes first.*sm\.save\(model, "):
        sm.save(path, model)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"(?s)the model comes first.*sm\.load\(Net\(\), "):
        sm.load(path, model)  # type: ignore[call-overload]
    with pytest.raises(ArgumentError, match="both arguments are paths"):
        sm.save(path, path)


@pytest.mark.parametrize("name", ["model.pt", "model.pth", "model.NPZ", "model.pkl", "model.bin", "model.h5"])
def test_names_of_other_formats_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"the name ends in \.\w+, which[\s\S]*Call it model\.safetensors\."):
        sm.save({"x": sm.zeros(2)}, tmp_path / name)
    assert not list(tmp_path.iterdir())
    sm.save({"x": sm.zeros(2)}, tmp_path / "model.v2")  # any other name is fine
    assert sm.load(tmp_path / "model.v2")["x"].tolist() == [0, 0]


def test_a_missing_file_is_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        sm.load(tmp_path / "nothing")


def opened(data: bytes, folder: Path) -> None:
    """Read a file as far as possible; only a `ParseError` may come out."""
    (folder / "fuzz").write_bytes(data)
    try:
        file = SafeTensors(folder / "fuzz")
        for name in file:
            array = file.array(name)
            assert array.nbytes <= len(data)
            assert file[name].shape == array.shape
    except ParseError:
        pass


@given(st.binary(max_size=200))
def test_random_bytes_never_crash(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    opened(data, tmp_path_factory.getbasetemp())


NUMBERS = st.integers(-2, 9) | st.sampled_from([1 << 31, 1 << 32, 1 << 63, 1 << 64])
FIELDS = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "U8", "BOOL", "BF16", "F8_E4M3", "X"]),
        "shape": st.lists(NUMBERS, max_size=3),
        "data_offsets": st.lists(NUMBERS, min_size=1, max_size=3),
    }
)


@given(st.dictionaries(st.text(max_size=3), FIELDS, max_size=3), st.binary(max_size=40), st.integers(-3, 3))
def test_random_headers_never_crash(
    tmp_path_factory: pytest.TempPathFactory, header: dict[str, Any], data: bytes, wrong: int
) -> None:
    text = json.dumps(header).encode()
    opened(file_of(text, data, max(0, len(text) + wrong)), tmp_path_factory.getbasetemp())


@given(st.data())
def test_damaged_files_never_crash(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp()
    arrays = {"a": np.arange(3, dtype=np.float32), "b": np.ones((2, 2), np.int8)}
    write_safetensors(folder / "whole", arrays, {"note": "x"})
    whole = bytearray((folder / "whole").read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    opened(bytes(whole[: data.draw(st.integers(0, len(whole)))]), folder)
    opened(bytes(whole), folder)


def test_metadata_that_could_not_be_read_back_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "net.safetensors"
    with pytest.raises(sm.errors.ArgumentError, match=r"(?s)'epoch' is of type int.*str\(value\)"):
        sm.save({"w": sm.ones(2)}, path, metadata={"epoch": 3})  # type: ignore[dict-item]
    assert not path.exists()
    sm.save({"w": sm.ones(2)}, path, metadata={"epoch": "3"})
    assert sm.load(path)["w"].tolist() == [1.0, 1.0]
