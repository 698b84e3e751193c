"""The loader: the same batches whoever makes them, from wherever it goes on, and nobody left when it is done."""

from __future__ import annotations

import json
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.data import ArrayDataset, DataLoader, MappedDataset, random_split
from smelt.errors import ArgumentError, ShapeError
from tests.data.items import Squares, doubled, noisy

X, Y = np.arange(33.0).reshape(11, 3), np.arange(11)


@pytest.fixture(autouse=True)
def nobody_stays() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    assert set(threading.enumerate()) <= before


def values(batch: Any) -> Any:
    if isinstance(batch, sm.Tensor):
        return batch.tolist()
    if isinstance(batch, dict):
        return {key: values(part) for key, part in batch.items()}
    return tuple(values(part) for part in batch) if isinstance(batch, tuple) else batch


def all_of(loader: DataLoader) -> list[Any]:
    return [values(batch) for batch in loader]


def test_batches_in_order() -> None:
    loader = DataLoader(ArrayDataset(X, Y), batch=4)
    found = all_of(loader)
    assert [labels for _, labels in found] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]
    assert found[2][0] == X[8:].tolist()
    assert len(loader) == 3
    assert loader.epoch == 1


def test_each_epoch_has_its_own_order_and_all_items() -> None:
    loader = DataLoader(ArrayDataset(Y), batch=4, shuffle=True, seed=3)
    epochs = [[item for (x,) in all_of(loader) for item in x] for _ in range(3)]
    assert all(sorted(epoch) == Y.tolist() for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    again = DataLoader(ArrayDataset(Y), batch=4, shuffle=True, seed=3)
    assert [[item for (x,) in all_of(again) for item in x] for _ in range(3)] == epochs


@pytest.mark.parametrize("dataset", [ArrayDataset(X, Y), Squares(11)], ids=["arrays", "items"])
def test_workers_change_nothing(dataset: Any) -> None:
    more: Any = {"augment": noisy, "transform": doubled} if isinstance(dataset, Squares) else {}
    loaders = [DataLoader(dataset, 3, shuffle=True, seed=7, workers=n, prefetch=n + 1, **more) for n in (0, 1, 3)]
    first, *others = [[all_of(loader) for _ in range(2)] for loader in loaders]
    assert others == [first, first]


def test_processes_change_nothing() -> None:
    plain = DataLoader(Squares(11), 3, shuffle=True, workers=0, augment=noisy, transform=doubled)
    spawned = DataLoader(Squares(11), 3, shuffle=True, workers=2, processes=True, augment=noisy, transform=doubled)
    assert all_of(spawned) == all_of(plain)


def test_taking_many_at_once_is_the_same_as_one_by_one() -> None:
    class OneByOne:
        def __len__(self) -> int:
            return 11

        def __getitem__(self, index: int) -> Any:
            return X[index], int(Y[index])

    assert all_of(DataLoader(OneByOne(), 4, shuffle=True)) == all_of(DataLoader(ArrayDataset(X, Y), 4, shuffle=True))


@pytest.mark.parametrize("rows", [X, sm.asarray(X)], ids=["array", "tensor"])
def test_an_array_is_a_dataset_of_its_rows(rows: Any) -> None:
    assert all_of(DataLoader(rows, 4)) == [X[:4].tolist(), X[4:8].tolist(), X[8:].tolist()]
    assert all_of(DataLoader(sm.data.Subset(rows, [3, 1]), 4)) == [X[[3, 1]].tolist()]


class Pair(NamedTuple):
    a: Any
    b: Any


ITEMS: dict[str, tuple[Any, Any, Any]] = {
    "integers": ([1, 2], sm.int64, [1, 2]),
    "floats": ([0.5, 1.5], sm.float32, [0.5, 1.5]),
    "bools": ([True, False], sm.bool, [True, False]),
    "arrays": ([np.ones(2, np.float16), np.zeros(2, np.float16)], sm.float16, [[1.0, 1.0], [0.0, 0.0]]),
    "tensors": ([sm.ones(2), sm.zeros(2)], sm.float32, [[1.0, 1.0], [0.0, 0.0]]),
    "numpy numbers": ([np.uint8(3), np.uint8(4)], sm.uint8, [3, 4]),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_items_of_all_kinds_are_stacked(kind: str) -> None:
    items, dtype, expected = ITEMS[kind]
    (batch,) = DataLoader(items, 2)
    assert (batch.dtype, batch.tolist()) == (dtype, expected)
    (pair,) = DataLoader([Pair(item, {"inner": item}) for item in items], 2)
    assert type(pair) is Pair
    assert pair.b["inner"].tolist() == expected


def test_what_is_no_number_stays_a_list() -> None:
    (batch,) = DataLoader([("a", 1), ("b", 2)], 2)
    assert batch[0] == ["a", "b"]
    assert batch[1].tolist() == [1, 2]


def test_the_last_batch_is_left_out_or_padded() -> None:
    assert [x.shape for x, _ in DataLoader(ArrayDataset(X, Y), 4, drop_last=True)] == [(4, 3)] * 2
    padded = DataLoader(ArrayDataset(X, Y), 4, pad_last=True)
    found = all_of(padded)
    assert len(padded) == len(found) == 3
    assert [mask for _, _, mask in found] == [[True] * 4, [True] * 4, [True, True, True, False]]
    assert found[2][1] == [8, 9, 10, 0]
    assert found[2][0] == [*X[8:].tolist(), [0.0] * 3]
    assert {tuple(x.shape) for x, _, _ in padded} == {(4, 3)}
    (named,) = DataLoader(Squares(3), 5, pad_last=True)
    assert named["mask"].tolist() == [True] * 3 + [False] * 2
    assert named["x"].shape == (5, 3)


def test_a_mean_over_padded_batches_is_that_of_the_items() -> None:
    mean = sm.train.Mean()
    for x, mask in DataLoader(ArrayDataset(X), 4, pad_last=True, transform=lambda batch: batch[0]):
        mean.update(x, mask)
    assert mean.value() == X.mean()
    step = sm.jit(lambda x: x.sum())
    assert len({float(step(x)) for x, _, _ in DataLoader(ArrayDataset(X, Y), 4, pad_last=True)}) == 3


def test_nothing_at_all_is_no_batch() -> None:
    assert all_of(DataLoader(ArrayDataset(np.zeros((0, 3))), 4)) == []
    assert len(DataLoader(ArrayDataset(X), 20, drop_last=True)) == 0


# --- going on


@given(st.integers(1, 13), st.integers(1, 5), st.booleans(), st.integers(0, 3), st.data())
def test_going_on_in_the_middle_gives_the_batches_that_are_left(
    items: int, batch: int, shuffle: bool, workers: int, data: st.DataObject
) -> None:
    def new() -> DataLoader:
        return DataLoader(ArrayDataset(np.arange(items)), batch, shuffle=shuffle, seed=1, workers=workers)

    whole = new()
    every = [all_of(whole) for _ in range(3)]
    epoch = data.draw(st.integers(0, 2))
    stop = data.draw(st.integers(1, len(whole)))
    first = new()
    for _ in range(epoch):
        all_of(first)
    for done, _ in enumerate(first, 1):
        if done == stop:
            break
    state = json.loads(json.dumps(first.state_dict()))
    second = new()
    second.load_state_dict(state)
    assert second.epoch == epoch
    assert all_of(second) == every[epoch][stop:]
    assert second.epoch == epoch + 1
    if epoch < 2:
        assert all_of(second) == every[epoch + 1]


def test_a_loop_that_is_left_is_followed_by_the_next_epoch() -> None:
    loader = DataLoader(ArrayDataset(Y), 4, shuffle=True)
    whole = DataLoader(ArrayDataset(Y), 4, shuffle=True)
    every = [all_of(whole) for _ in range(2)]
    for done, _ in enumerate(loader, 1):
        if done == 2:
            break
    assert loader.epoch == 0
    assert all_of(loader) == every[1]


@pytest.mark.parametrize("workers", [0, 1])
def test_a_look_at_the_first_batch_is_no_epoch(workers: int) -> None:
    untouched = DataLoader(ArrayDataset(Y), 4, shuffle=True, workers=workers)
    every = [all_of(untouched) for _ in range(3)]
    loader = DataLoader(ArrayDataset(Y), 4, shuffle=True, workers=workers)
    (example,) = next(iter(loader))
    assert loader.epoch == 0 and [example.tolist()] == list(every[0][0])
    for epoch in range(2):
        assert loader.epoch == epoch
        assert all_of(loader) == every[epoch]
        next(iter(loader))
    assert all_of(loader) == every[2] and loader.epoch == 3


def test_a_look_at_the_only_batch_is_no_epoch() -> None:
    loader = DataLoader(ArrayDataset(Y), 100)
    next(iter(loader))
    all_of(loader)
    assert loader.epoch == 1


def test_an_older_loop_that_goes_on_does_not_disturb_a_newer_one() -> None:
    loader = DataLoader(ArrayDataset(Y), 4, shuffle=True)
    old = iter(loader)
    next(old)
    new = iter(loader)
    next(new)
    assert len(list(old)) == len(loader) - 1
    assert loader.epoch == 0 and loader.state_dict()["done"] == 1
    assert len(list(new)) == len(loader) - 1
    assert loader.epoch == 1 and loader.state_dict()["done"] == 0


def test_only_ever_taking_the_first_batch_is_warned_about() -> None:
    loader = DataLoader(ArrayDataset(Y), 4, shuffle=True)
    with pytest.warns(UserWarning, match="keep an iterator"):
        for _ in range(12):
            next(iter(loader))


class Foreign:
    """An array of another library."""

    def __init__(self, array: Any) -> None:
        self.array, self.shape = np.asarray(array), np.asarray(array).shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.array


@pytest.mark.parametrize("make", [np.asarray, sm.asarray, Foreign])
def test_a_tuple_of_arrays_means_their_rows_side_by_side(make: Any) -> None:
    pairs = DataLoader((make(X), make(Y)), batch=4, shuffle=True)
    assert len(pairs) == len(DataLoader(ArrayDataset(X, Y), 4))
    assert all_of(pairs) == all_of(DataLoader(ArrayDataset(X, Y), 4, shuffle=True))
    train, test = random_split((make(X), make(Y)), [len(X) - 2, 2])
    assert len(train) == len(X) - 2 and len(test[0]) == 2
    assert [x.shape for x in next(iter(DataLoader((make(X),), batch=4)))] == [(4, *X.shape[1:])]
    with pytest.raises(ShapeError, match="first axis counts the items"):
        DataLoader((make(X), make(Y[1:])))


def test_of_a_dictionary_of_arrays_batches_are_dictionaries() -> None:
    data = {"x": np.arange(10.0).reshape(5, 2), "y": sm.arange(5), "z": [5, 6, 7, 8, 9]}
    loader = sm.data.DataLoader(data, batch=2, pad_last=True)
    batches = [{name: part.tolist() for name, part in batch.items()} for batch in loader]
    assert batches[1] == {"x": [[4, 5], [6, 7]], "y": [2, 3], "z": [7, 8], "mask": [True, True]}
    assert batches[2]["y"] == [4, 0] and batches[2]["mask"] == [True, False]
    train, test = sm.data.random_split(data, [3, 2])
    assert len(train) == 3 and set(test[0]) == {"x", "y", "z"}
    with pytest.raises(ShapeError, match=r"\(5,\), \(4,\)"):
        sm.data.DataLoader({"x": np.ones(5), "y": np.ones(4)})
    with pytest.raises(ArgumentError, match="no dataset if 'y' is of type dict"):
        sm.data.DataLoader({"x": np.ones(5), "y": {"z": np.ones(4)}})
    assert [batch.tolist() for batch in sm.data.DataLoader({0: 3.0, 1: 4.0}, batch=2)] == [[3, 4]]  # items by number


def test_a_tuple_of_items_is_a_dataset_of_them() -> None:
    assert all_of(DataLoader((1, 2, 3), 3)) == all_of(DataLoader([1, 2, 3], 3))
    assert all_of(DataLoader(((1, 2.0), (3, 4.0)), 2)) == all_of(DataLoader([(1, 2.0), (3, 4.0)], 2))
    assert len(DataLoader([X, X], 1)) == 2  # a list of arrays is a list of items


# --- workers


def test_prefetching_goes_only_so_far_ahead() -> None:
    made: list[int] = []
    seen = threading.Event()

    class Watched:
        def __len__(self) -> int:
            return 100

        def __getitem__(self, index: int) -> int:
            made.append(index)
            if index == 3:
                seen.set()
            return index

    batches = iter(DataLoader(Watched(), 1, workers=1, prefetch=3))
    next(batches)
    assert seen.wait(60)  # made while nobody asked
    assert max(made) == 3
    del batches


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_what_goes_wrong_in_a_worker_is_raised_in_the_loop(workers: int) -> None:
    found = []
    with pytest.raises(KeyError, match="item 5 is broken") as caught:
        for batch in DataLoader(Squares(9, bad=5), 2, workers=workers):
            found.append(batch["y"].tolist())
    assert found == [[0, 1], [4, 9]]
    assert "items.py" in "".join(traceback.format_exception(caught.value))


def test_what_goes_wrong_in_a_process_is_raised_in_the_loop() -> None:
    with pytest.raises(KeyError, match="item 5 is broken") as caught:
        all_of(DataLoader(Squares(9, bad=5), 2, workers=1, processes=True))
    assert "items.py" in "".join(traceback.format_exception(caught.value))


def test_what_cannot_be_sent_to_a_process_is_an_error() -> None:
    with pytest.raises(ArgumentError, match="cannot be sent to a process"):
        all_of(DataLoader(Squares(4), 2, workers=1, processes=True, transform=lambda batch: batch))


@pytest.mark.parametrize("way", ["break", "raise", "close", "drop"])
def test_leaving_early_leaves_no_thread(way: str) -> None:
    loader = DataLoader(Squares(1000), 1, workers=3)
    before = threading.active_count()
    if way == "break":
        for _ in loader:
            assert threading.active_count() > before
            break
    elif way == "raise":
        with pytest.raises(ZeroDivisionError):
            for _ in loader:
                _ = 1 / 0
    else:
        batches: Any = iter(loader)
        next(batches)
        if way == "close":
            batches.close()
        del batches
    assert threading.active_count() == before


def test_a_bar_is_quiet_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    loader = DataLoader(ArrayDataset(Y), 4, progress=True)
    for (x,) in loader:
        loader.show(total=x.sum())
    assert capsys.readouterr() == ("", "")


# --- mistakes

STATE = DataLoader(ArrayDataset(Y), 4).state_dict()
MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "no dataset": (lambda: DataLoader(3), ArgumentError, "int is no dataset"),  # type: ignore[arg-type]
    "batch": (lambda: DataLoader(Y, 0), ArgumentError, "batch is 0"),
    "batch float": (lambda: DataLoader(Y, 1.5), ArgumentError, "batch must be an integer"),  # type: ignore[arg-type]
    "workers": (lambda: DataLoader(Y, workers=-1), ArgumentError, "workers is -1"),
    "prefetch": (lambda: DataLoader(Y, prefetch=-1), ArgumentError, "prefetch is -1"),
    "shuffle": (lambda: DataLoader(Y, shuffle="yes"), ArgumentError, "shuffle"),  # type: ignore[arg-type]
    "seed": (lambda: DataLoader(Y, seed="a"), ArgumentError, "seed"),  # type: ignore[arg-type]
    "both": (lambda: DataLoader(Y, drop_last=True, pad_last=True), ArgumentError, "not both"),
    "ragged": (lambda: all_of(DataLoader([np.zeros(2), np.zeros(3)], 2)), ShapeError, "collate="),
    "no line of Python's": (lambda: all_of(DataLoader([(1, 2), (1,)], 2)), ShapeError, "lengths\n  Give"),
    "ragged tuples": (lambda: all_of(DataLoader([(1, 2), (1,)], 2)), ShapeError, "different lengths"),
    "keys": (lambda: all_of(DataLoader([{"a": 1}, {"b": 1}], 2)), ArgumentError, "different keys"),
    "masked": (lambda: all_of(DataLoader([{"mask": 1}], 2, pad_last=True)), ArgumentError, "'mask'"),
    "unpadded": (
        lambda: all_of(DataLoader(Y, 20, pad_last=True, collate=lambda items: np.zeros(3))),
        ShapeError,
        "must count the items",
    ),
    "state": (lambda: DataLoader(Y, 4).load_state_dict({}), ArgumentError, "epoch None"),
    "state size": (lambda: DataLoader(Y, 5).load_state_dict(STATE), ArgumentError, "batch 4, this loader 5"),
    "state seed": (lambda: DataLoader(Y, 4, seed=2).load_state_dict(STATE), ArgumentError, "seed 0"),
    "state done": (lambda: DataLoader(Y, 4).load_state_dict({**STATE, "done": 9}), ArgumentError, "9 batches"),
    "state type": (lambda: DataLoader(Y, 4).load_state_dict({**STATE, "done": "1"}), ArgumentError, "integer"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, error, text = MISTAKES[name]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_processes_open_files_themselves(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", X)
    loader = DataLoader(MappedDataset(tmp_path / "x.npy"), 4, workers=1, processes=True)
    assert [x for (x,) in all_of(loader)] == [X[:4].tolist(), X[4:8].tolist(), X[8:].tolist()]


def test_a_loader_says_what_it_is_and_where() -> None:
    loader = sm.data.DataLoader(sm.data.ArrayDataset(np.arange(10)), batch=4, shuffle=True)
    assert repr(loader) == "DataLoader(ArrayDataset of 10 items, batch=4, shuffle=True): epoch 0, 0 of 3 batches"
    list(loader)
    assert "epoch 1, 0 of 3 batches" in repr(loader)
