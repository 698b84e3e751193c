"""Any key selects what NumPy's indexing selects, and updates what NumPy's assignment changes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import smelt as sm
from smelt import runtime
from smelt.errors import ArgumentError, DTypeError, IndexRangeError, ShapeError, TraceError
from smelt.graph.interpret import interpret
from smelt.graph.node import topological
from smelt.graph.ops import Op

Array = NDArray[Any]
COMBINE = {"add": np.add, "multiply": np.multiply, "min": np.minimum, "max": np.maximum}
ROUNDS = 6  # keys per example, computed together


def random_key(rng: random.Random, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """A key of everything that an index may be made of; arrays in it broadcast with each other."""
    block = rng.choice([(), (1,), (3,), (2, 3)])
    key: list[Any] = []
    axis = 0
    while axis < len(shape) and rng.random() < 0.9:
        size = shape[axis]
        numbers = np.random.default_rng(rng.getrandbits(32))
        match rng.choice(["new", "ellipsis", "integer", "slice", "slice", "array", "array", "mask", "flag"]):
            case "new":
                key.append(None)
            case "flag" if rng.random() < 0.1:
                key.append(rng.random() < 0.8)
            case "ellipsis" if Ellipsis not in [part for part in key if part is Ellipsis]:
                key.append(Ellipsis)
                axis += rng.randint(0, len(shape) - axis)
            case "integer" if size:
                key.append(rng.randrange(-size, size))
                axis += 1
            case "slice":
                ends = [rng.choice([None, rng.randint(-size - 1, size + 1)]) for _ in range(2)]
                key.append(slice(*ends, rng.choice([None, 1, 2, -1, -3])))
                axis += 1
            case "array" if size:
                own = tuple(rng.choice([1, n]) for n in block[rng.randint(0, len(block)) :])
                key.append(numbers.integers(-size, size, own))
                axis += 1
            case "mask" if not block:
                rank = rng.randint(1, len(shape) - axis)
                key.append(numbers.random(shape[axis : axis + rank]) < 0.5)
                axis += rank
    return tuple(key)


def as_tensors(key: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sm.asarray(part) if isinstance(part, np.ndarray) else part for part in key)


def interpreted(x: sm.Tensor) -> Array:
    return interpret([x._node], lambda leaf: leaf.attribute.numpy())[0]


def drawn(rng: random.Random) -> tuple[Array, tuple[Any, ...], Array] | None:
    sizes = (0, 1, 2, 3, 5) if rng.random() < 0.2 else (2, 3, 4)
    shape = tuple(rng.choice(sizes) for _ in range(rng.randint(1, 3)))
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    key = random_key(rng, x.shape)
    try:
        return x, key, np.asarray(x[key])
    except IndexError:
        return None


@given(seed=st.integers(0, 2**40))
def test_any_key_selects_what_numpy_selects(seed: int) -> None:
    rng = random.Random(seed)
    chosen = [case for case in (drawn(rng) for _ in range(ROUNDS)) if case is not None]
    for x, key, expected in chosen:
        for k in (key, as_tensors(key)):
            found = interpreted(sm.asarray(x)[k])
            assert found.shape == expected.shape
            assert np.array_equal(found, expected)


@given(seed=st.integers(0, 2**40))
def test_any_key_updates_what_numpy_assigns(seed: int) -> None:
    rng = random.Random(seed)
    chosen = [case for case in (drawn(rng) for _ in range(ROUNDS)) if case is not None]
    for x, key, expected in chosen:
        values = np.random.default_rng(seed).integers(-3, 9, expected.shape).astype(np.float32)
        assigned = x.copy()
        assigned[key] = values
        at = sm.asarray(x).at[as_tensors(key) if rng.random() < 0.5 else key]
        assert np.array_equal(interpreted(at.set(values)), assigned)
        for op, combine in COMBINE.items():
            changed = x.copy()
            combine.at(changed, key, values)
            assert np.array_equal(interpreted(getattr(at, op)(values)), changed)
        assert np.array_equal(interpreted(at.get()), expected)


def test_keys_compiled() -> None:
    rng = random.Random(7)
    chosen = [case for case in (drawn(rng) for _ in range(60)) if case is not None]
    found = [sm.asarray(x)[as_tensors(key) if at % 2 else key] for at, (x, key, _) in enumerate(chosen)]
    changed = [sm.asarray(x).at[as_tensors(key) if at % 2 else key].add(1) for at, (x, key, _) in enumerate(chosen)]
    sm.realize(*found, *changed)
    for got, new, (x, key, expected) in zip(found, changed, chosen, strict=True):
        assert got.shape == expected.shape
        assert np.array_equal(got.numpy(), expected)
        np.add.at(x, key, 1)
        assert np.array_equal(new.numpy(), x)


def test_an_index_outside_is_reported_with_the_line_that_wrote_it() -> None:
    x, rows = sm.arange(10).reshape(5, 2), sm.asarray([0, 5])
    late = x[rows]
    with pytest.raises(IndexRangeError) as caught:
        late.numpy()
    assert "indexing: index 5 is out of range for axis 0 of size 5" in str(caught.value)
    assert "late = x[rows]" in str(caught.value)
    with pytest.raises(IndexRangeError, match="index -6 is out of range"):
        x[sm.asarray([-6])].numpy()
    with pytest.raises(IndexRangeError, match="index 2 is out of range for axis 1 of size 2"):
        x.at[0, sm.asarray([2])].set(1).numpy()
    with pytest.raises(IndexRangeError, match="take_along_axis: index 7"):
        x.take_along_axis(sm.full((1, 2), 7), axis=0).numpy()
    with pytest.raises(IndexRangeError, match="is out of range for axis 0 of size 5"):
        x[sm.asarray([-(2**63)])].numpy()
    assert x[sm.asarray([4, -5])].tolist() == [[8, 9], [0, 1]]


def test_an_index_outside_is_reported_where_it_selects_nothing() -> None:
    x, rows = sm.arange(10).reshape(5, 2), sm.asarray([5])
    for nothing in (x[rows, :0], x.at[rows, :0].set(1), x[:, :0].at[rows].add(1)):
        with pytest.raises(IndexRangeError, match="index 5 is out of range for axis 0 of size 5"):
            nothing.numpy()
    assert x.at[sm.asarray([4]), :0].set(1).tolist() == x.tolist()


def test_an_index_outside_is_reported_by_jit() -> None:
    @sm.jit
    def rows(x: sm.Tensor, i: sm.Tensor) -> sm.Tensor:
        return x[i] * 2

    x = sm.arange(5)
    for _ in range(3):
        assert rows(x, sm.asarray([4, -1])).tolist() == [8, 8]
    with pytest.raises(IndexRangeError, match="index 9 is out of range for axis 0 of size 5") as caught:
        rows(x, sm.asarray([0, 9]))
    assert "return x[i] * 2" in str(caught.value)
    assert rows(x, sm.asarray([1, 2])).tolist() == [2, 4]


def test_a_traced_integer_selects() -> None:
    pick = sm.jit(lambda x, i: (x[i], x.at[i].set(-1), x[1, i]))
    x = np.arange(12).reshape(3, 4)
    for i in (0, 2, -1):
        row, changed, element = pick(sm.asarray(x), i)
        assert row.tolist() == x[i].tolist()
        assert changed.tolist()[i] == [-1] * 4
        assert element.item() == x[1, i]
    with pytest.raises(IndexRangeError, match="index 3 is out of range for axis 0 of size 3"):
        pick(sm.asarray(x), 3)


def test_indices_along_a_symbolic_axis() -> None:
    n = sm.Dim("n", 2, 50)
    f = sm.jit(lambda x, i: (x[i], x[[0, -1]], x.at[i].add(1.0)), shapes=[(n, 3), None])
    for size in (2, 7):
        x, i = np.arange(3.0 * size, dtype=np.float32).reshape(size, 3), np.array([1, -2, 0])
        rows, ends, changed = f(sm.asarray(x), sm.asarray(i))
        assert rows.tolist() == x[i].tolist()
        assert ends.tolist() == x[[0, -1]].tolist()
        np.add.at(x, i, 1)
        assert changed.tolist() == x.tolist()
    with pytest.raises(IndexRangeError, match="index 7 is out of range for axis 0 of size n"):
        f(sm.zeros((7, 3)), sm.asarray([0, 0, 7]))
    with pytest.raises(IndexRangeError, match="lower bound of at least 1"):
        sm.jit(lambda x, i: x[i], shapes=[(sm.Dim("m", 0, 9),), None])(sm.zeros(3), sm.asarray([0]))


def test_a_mask_inside_jit_is_refused() -> None:
    with pytest.raises(TraceError, match="size="):
        sm.jit(lambda x: x[x > 0])(sm.arange(5))
    assert sm.jit(lambda x: x[np.array([True, False, True])])(sm.arange(3)).tolist() == [0, 2]


def test_how_much_a_mask_selects_needs_no_new_compilation() -> None:
    x = np.arange(42.0, dtype=np.float32).reshape(6, 7)
    counts = []
    for k in (2, 5, 25, 36):
        t, some = sm.from_numpy(x), x > k
        mask = sm.from_numpy(some)
        assert np.array_equal(t[mask].numpy(), x[some])
        assert np.array_equal(t[:, mask[5]].numpy(), x[:, some[5]])
        assert np.array_equal(t[mask[:, 3]].numpy(), x[some[:, 3]])
        assert np.array_equal(t.at[mask].add(7).numpy(), x + 7 * some)
        assert np.array_equal(t.at[mask[:, 3]].set(7).numpy(), np.where(some[:, 3:4], 7, x))
        counts.append(len(runtime.current().graphs))
    assert counts[0] == counts[-1]


def test_a_number_goes_where_a_mask_says_inside_jit() -> None:
    relu = sm.jit(lambda x: x.at[x < 0].set(0).at[x > 2].multiply(2))
    assert relu(sm.arange(-2, 5)).tolist() == [0, 0, 0, 1, 2, 6, 8]


def test_a_list_of_tensors_is_an_index() -> None:
    assert sm.arange(5)[[sm.asarray(1), sm.asarray(-1)]].tolist() == [1, 4]


def test_updates_by_slices_need_no_scatter() -> None:
    y = sm.zeros((8, 9)).at[1:6:2, ::-3].set(1.0)
    assert all(node.op not in (Op.SCATTER, Op.GATHER) for node in topological([y._node]))
    assert y.sum().item() == 9


def test_where_updates_begin_needs_no_new_compilation() -> None:
    x = np.arange(42.0, dtype=np.float32).reshape(6, 7)
    keys: Any = (lambda k: k, lambda k: (slice(k, k + 2), k), lambda k: (slice(None), slice(k, k + 4, 2)))
    for key in (*keys, lambda k: (k, [0, 3]), lambda k: (slice(k, k + 2), [0, 3])):
        counts = []
        for k in (1, 2, 3):
            expected = x.copy()
            expected[key(k)] = 5
            assert np.array_equal(sm.from_numpy(x).at[key(k)].set(5).numpy(), expected)
            counts.append(len(runtime.current().graphs))
        assert counts[0] == counts[2]


def test_mistakes_in_updates() -> None:
    x = sm.arange(6).reshape(2, 3)
    with pytest.raises(ShapeError, match=r"at\[\.\.\.\]\.set"):
        x.at[0].set([1, 2])
    with pytest.raises(DTypeError, match="values of float do not go into int64"):
        x.at[0].add(0.5)
    with pytest.raises(DTypeError, match="values of float32 do not go into int64"):
        x.at[0].max(sm.zeros(3))
    with pytest.raises(IndexRangeError, match="index 2 is out of range for axis 0"):
        x.at[2].min(0)


def test_of_several_values_for_one_place_the_last_stays() -> None:
    assert sm.zeros(3).at[sm.asarray([1, 1, 0])].set(sm.asarray([5.0, 6.0, 7.0])).tolist() == [7, 6, 0]


def test_updates_go_by_other_names_as_well() -> None:
    x = sm.asarray([1.0, 2.0])
    assert x.at[1].mul(3).tolist() == x.at[1].multiply(3).tolist() == [1, 6]
    assert repr(x.at[1]) == f"x.at[1] of {x!r}"


def test_a_tensor_cannot_be_changed_in_place() -> None:
    x = sm.arange(3)
    with pytest.raises(ArgumentError, match=r"(?s)never change.*x\.at\[\.\.\.\]\.set"):
        x[0] = 1
    with pytest.raises(ArgumentError, match=r"x = x\.at\[\.\.\.\]\.set"):
        x.at[0] = 1
    with pytest.raises(ArgumentError, match=r"(?s)never change.*sm\.concatenate"):
        del x[0]
