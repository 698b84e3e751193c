"""Datasets: items, batches, parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import smelt as sm
from smelt.data.order import permutation
from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ParseError, ShapeError


def test_items_are_rows_and_batches_are_what_items_stack_to() -> None:
    x, y = np.arange(12.0).reshape(4, 3), np.arange(4)
    dataset = sm.data.ArrayDataset(x, sm.from_numpy(y))
    assert len(dataset) == 4
    row, label = dataset[-1]
    assert row.tolist() == [9.0, 10.0, 11.0] and label == 3
    rows, labels = dataset.take(np.asarray([2, 0]))
    assert rows.tolist() == x[[2, 0]].tolist() and labels.tolist() == [2, 0]


def test_tensor_datasets_have_tensors() -> None:
    item = sm.data.TensorDataset(sm.arange(3), sm.ones(3, 2))[1]
    assert [type(part) for part in item] == [sm.Tensor] * 2
    assert (item[0].tolist(), item[1].tolist()) == (1, [1.0, 1.0])


@given(st.integers(0, 50), st.integers(0, 2**64 - 1), st.integers(0, 2**40))
def test_a_permutation_has_each_number_once_and_depends_on_seed_and_epoch_alone(n: int, seed: int, epoch: int) -> None:
    order = permutation(n, seed, epoch)
    assert sorted(order.tolist()) == list(range(n))
    assert order.tolist() == permutation(n, seed, epoch).tolist()


def test_permutations_are_the_same_on_every_machine() -> None:
    assert permutation(8, 0).tolist() == [0, 2, 1, 5, 4, 3, 6, 7]
    assert permutation(8, 0, 1).tolist() != permutation(8, 0).tolist() != permutation(8, 1).tolist()


def test_permutations_are_even() -> None:
    firsts = [int(permutation(5, 3, epoch)[0]) for epoch in range(2000)]
    assert np.bincount(firsts).min() > 330  # 400 expected, and 4 standard deviations are 72


@pytest.mark.parametrize("lengths", [[7, 3], [0.7, 0.3], [0.5, 0.25, 0.25], [10, 0]])
def test_parts_have_no_item_in_common(lengths: list[Any]) -> None:
    parts = sm.data.random_split(range(10), lengths, seed=5)
    again = sm.data.random_split(range(10), lengths, seed=5)
    items = [[part[k] for k in range(len(part))] for part in parts]
    assert sorted(item for part in items for item in part) == list(range(10))
    assert items == [[part[k] for k in range(len(part))] for part in again]


def test_a_subset_of_what_takes_takes_too() -> None:
    dataset = sm.data.ArrayDataset(np.arange(10) * 10)
    subset = sm.data.Subset(sm.data.Subset(dataset, [5, 6, 7]), [2, 0])
    assert subset.take(np.asarray([0, 1]))[0].tolist() == [70, 50]
    assert not hasattr(sm.data.Subset(range(3), [0]), "take")


def test_arrays_in_files(tmp_path: Path) -> None:
    x, y = np.arange(12, dtype=np.float32).reshape(4, 3), np.arange(4, dtype=np.int16)
    np.save(tmp_path / "x.npy", x)
    (tmp_path / "y.bin").write_bytes(b"head" + y.tobytes())
    dataset = sm.data.MappedDataset(tmp_path / "x.npy", sm.data.RawArray(tmp_path / "y.bin", sm.int16, offset=4))
    assert [part.tolist() for part in dataset.take(np.asarray([3, 1]))] == [x[[3, 1]].tolist(), [3, 1]]
    assert not dataset.arrays[0].flags.writeable
    sm.save({"x": x, "y": y}, tmp_path / "xy")
    other = sm.data.MappedDataset.from_safetensors(tmp_path / "xy", "y", "x")
    assert other[2][1].tolist() == x[2].tolist()
    function, parts = other.__reduce__()[:2]
    assert all(isinstance(part, sm.data.RawArray) for part in parts)  # files by name are sent, not what is in them
    assert function(*parts)[2][0] == 2


RAW = sm.data.RawArray
BAD_FILES: dict[str, tuple[bytes, Any, type[Exception]]] = {
    "rows": (b"12345", lambda p: RAW(p, sm.int16), ParseError),
    "short": (b"1234", lambda p: RAW(p, sm.int16, (3,)), ParseError),
    "offset": (b"1234", lambda p: RAW(p, sm.int16, offset=9), ParseError),
    "huge": (b"1234", lambda p: RAW(p, sm.int16, (2**40, 2**40)), ParseError),
    "zero rows": (b"1234", lambda p: RAW(p, sm.int16, (-1, 0)), ParseError),
    "negative": (b"1234", lambda p: RAW(p, sm.int16, (2, -1)), ArgumentError),
    "dtype": (b"1234", lambda p: RAW(p, "text"), DTypeError),
    "no npy": (b"1234", lambda p: p, ParseError),
    "empty": (b"", lambda p: p, ParseError),
    "version": (b"\x93NUMPY\x09\x00", lambda p: p, ParseError),
    "bool": (b"1234", lambda p: RAW(p, sm.int16, (True,)), ArgumentError),
    "kind": (b"", lambda p: 7, ArgumentError),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_files_that_hold_no_array_are_refused(name: str, tmp_path: Path) -> None:
    data, part, error = BAD_FILES[name]
    (tmp_path / "a").write_bytes(data)
    with pytest.raises(error):
        sm.data.MappedDataset(part(tmp_path / "a"))


@pytest.mark.parametrize(
    "array",
    [np.asfortranarray(np.zeros((2, 3))), np.zeros(2, ">f4"), np.zeros(2, "U3"), np.zeros(2, [("a", "f4")])],
    ids=["fortran", "big-endian", "text", "records"],
)
def test_npy_files_of_other_arrays_are_refused(array: Any, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", array)
    with pytest.raises((ParseError, DTypeError)):
        sm.data.MappedDataset(tmp_path / "a.npy")


HEADERS = st.sampled_from(
    [
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,), }",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }",
        b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '<f4', 'fortran_order': 1, 'shape': 3}",
        b"(" * 500,
        b"__import__('os')",
        b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}",
    ]
)


@example(b"{'descr': '<f4', 'fortran_order': False, 'shape': (True,), }", 0, bytes(4))
@given(HEADERS | st.binary(max_size=80), st.integers(-3, 3), st.binary(max_size=20))
def test_random_npy_headers_never_crash(
    tmp_path_factory: pytest.TempPathFactory, header: bytes, wrong: int, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.npy"
    length = max(0, len(header) + wrong).to_bytes(2, "little")
    path.write_bytes(b"\x93NUMPY\x01\x00" + length + header + data)
    try:
        dataset = sm.data.MappedDataset(path)
        assert dataset.arrays[0].nbytes <= len(header) + len(data)
    except (ParseError, DTypeError, ShapeError):
        pass


MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "none": (sm.data.ArrayDataset, ArgumentError, "no array"),
    "lengths": (lambda: sm.data.ArrayDataset([1, 2], [1]), ShapeError, "(2,), (1,)"),
    "scalar": (lambda: sm.data.ArrayDataset(3), ShapeError, "first axis"),
    "index": (lambda: sm.data.ArrayDataset([1, 2])[2], IndexRangeError, "2 is not an item"),
    "key": (lambda: sm.data.ArrayDataset([1, 2])["a"], ArgumentError, "by number"),  # type: ignore[index]
    "subset": (lambda: sm.data.Subset(range(3), [3]), IndexRangeError, "3 is not an item"),
    "subset negative": (lambda: sm.data.Subset(range(3), [-1]), IndexRangeError, "-1 is not an item"),
    "subset floats": (lambda: sm.data.Subset(range(3), [0.5]), ArgumentError, "integers"),  # type: ignore[list-item]
    "split": (lambda: sm.data.random_split(range(3), [1, 1]), ArgumentError, "add up to 3"),
    "shares": (lambda: sm.data.random_split(range(3), [0.1, 0.5]), ArgumentError, "add up to 1"),
    "seed": (lambda: sm.data.random_split(range(3), [3], seed=2**70), ArgumentError, "64 bits"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, error, text = MISTAKES[name]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_tensors_missing_in_a_file(tmp_path: Path) -> None:
    sm.save({"x": sm.zeros(2)}, tmp_path / "x")
    with pytest.raises(ArgumentError, match="no tensor y"):
        sm.data.MappedDataset.from_safetensors(tmp_path / "x", "y")
