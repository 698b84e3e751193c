"""An update takes the place of its target where nobody reads that afterwards, and touches only what it writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.compiler import work
from smelt.config import configure
from smelt.errors import InternalError
from smelt.transform import examine
from tests.devices import DEVICES

SLOTS, HEADS, WIDTH = 2, 3, 8


@pytest.fixture(autouse=True)
def verified() -> Any:
    with configure(verify=True):
        yield


def cache(length: int, start: float = 0) -> np.ndarray[Any, Any]:
    size = SLOTS * HEADS * length * WIDTH
    return np.arange(start, start + size, dtype=np.float32).reshape(SLOTS, HEADS, length, WIDTH)


def rows(count: int, seed: int = 1) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((count, HEADS, WIDTH)).astype(np.float32)


def numbers(*values: int) -> sm.Tensor:
    return sm.asarray(np.array(values, np.int32))


def append(cache: sm.Tensor, slots: sm.Tensor, positions: sm.Tensor, new: sm.Tensor) -> sm.Tensor:
    return cache.at[slots, :, positions].set(new)


def written(cache: np.ndarray[Any, Any], slots: Sequence[int], positions: Sequence[int], new: Any) -> Any:
    result = cache.copy()
    for slot, position, row in zip(slots, positions, new, strict=True):
        result[slot, :, position] = row
    return result


def test_what_an_update_moves_does_not_depend_on_the_size_of_its_target() -> None:
    moved = []
    for length in (64, 4096):
        arguments = sm.asarray(cache(length)), numbers(1), numbers(5), sm.asarray(rows(1))
        compiled = examine(append, *arguments).compiled
        assert compiled.in_place == ((0, 0),)
        moved.append((sum(kernel.bytes_moved for kernel in compiled.kernels), compiled.intermediate_bytes))
    assert moved[0] == moved[1] and moved[0][0] < 1000


@pytest.mark.parametrize("device", DEVICES)
def test_a_donated_target_stays_where_it_is(device: str) -> None:
    step, expected = sm.jit(append, donate=0), cache(16)
    with configure(device=device):
        state = sm.asarray(expected)
        memory = state._node.attribute.memory
        place = id(memory)
        del memory
        for position in range(3):
            new = rows(2, position)
            state = step(state, numbers(0, 1), numbers(position, 9), sm.asarray(new))
            expected = written(expected, (0, 1), (position, 9), new)
            assert id(state._node.attribute.memory) == place
        np.testing.assert_array_equal(state.numpy(), expected)


def test_what_somebody_holds_is_copied() -> None:
    step, start, new = sm.jit(append, donate=0), cache(16), rows(1)
    expected = written(start, (1,), (3,), new)
    arguments = numbers(1), numbers(3), sm.asarray(new)
    held = sm.asarray(start)
    seen = held.numpy()
    np.testing.assert_array_equal(step(held, *arguments).numpy(), expected)
    np.testing.assert_array_equal(seen, start)  # an array of NumPy's on the same memory
    held = sm.asarray(start)
    part = held[1, :, 3].realize()
    np.testing.assert_array_equal(step(held, *arguments).numpy(), expected)
    np.testing.assert_array_equal(part.numpy(), start[1, :, 3])
    held = sm.asarray(start)
    other = held * 1 + held  # an expression that needs it
    np.testing.assert_array_equal(step(held, *arguments).numpy(), expected)
    np.testing.assert_array_equal(other.numpy(), 2 * start)
    kept = sm.asarray(start)
    np.testing.assert_array_equal(sm.jit(append)(kept, *arguments).numpy(), expected)
    np.testing.assert_array_equal(kept.numpy(), start)


def test_an_index_outside_is_an_error_and_nothing_outside_is_written() -> None:
    step = sm.jit(append, donate=0)
    with pytest.raises(sm.errors.IndexRangeError):
        step(sm.asarray(cache(16)), numbers(1), numbers(16), sm.asarray(rows(1)))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("donate", [(), (0, 1)])
def test_layers_append_and_read_what_they_appended(device: str, donate: tuple[int, ...]) -> None:
    """Two caches, each updated twice with a read in between: none is copied, and none is an intermediate."""

    def step(keys: sm.Tensor, values: sm.Tensor, at: sm.Tensor, new: sm.Tensor) -> Any:
        total = new
        for layer in range(2):
            keys = append(keys, numbers(layer), at, total)
            values = append(values, numbers(1 - layer), at, total + 1)
            total = total + keys.sum(2)[layer] * 0.25 - values.max(2)[layer]
        return keys, values, total

    start, new = (cache(5), cache(5, 7)), rows(1)
    keys, values, total = start[0], start[1], new
    for layer in range(2):
        keys, values = written(keys, (layer,), (2,), total), written(values, (1 - layer,), (2,), total + 1)
        total = total + keys.sum(2)[layer] * np.float32(0.25) - values.max(2)[layer]
    with configure(device=device):
        arguments = [*map(sm.asarray, start), numbers(2), sm.asarray(new)]
        compiled = examine(step, *arguments).compiled
        assert len(compiled.in_place) >= 2
        assert all(value.nbytes < start[0].nbytes for value in compiled.layout)
        for one, other in zip(sm.jit(step, donate=donate)(*arguments), (keys, values, total), strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-5)


def test_a_target_that_is_read_later_is_copied() -> None:
    """Sorting needs the old rows and the result of the update."""

    def step(state: sm.Tensor, at: sm.Tensor) -> Any:
        new = state.at[at].set(0.0)
        return new, sm.sort(state, axis=0)[0] + sm.sort(new, axis=0)[-1], state.at[at].add(sm.sort(new, axis=0)[:1])

    start = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    new = start.copy()
    new[2] = 0
    first = start.copy()
    first[2] += np.sort(new, 0)[0]
    expected = new, np.sort(start, 0)[0] + np.sort(new, 0)[-1], first
    for one, other in zip(sm.jit(step, donate=0)(sm.asarray(start), numbers(2)), expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=1e-6)


def test_a_loop_updates_a_state_several_times_in_its_place() -> None:
    def run(state: sm.Tensor, new: sm.Tensor) -> sm.Tensor:
        def body(i: sm.Tensor, state: sm.Tensor) -> sm.Tensor:
            state = state.at[i].set(new)
            return state.at[i + 1].add(state[i] * 2)

        return sm.fori_loop(0, 4, body, state)

    start, new = np.ones((9, 300), np.float32), np.arange(300, dtype=np.float32)
    expected = start.copy()
    for i in range(4):
        expected[i] = new
        expected[i + 1] += expected[i] * 2
    compiled = examine(run, sm.asarray(start), sm.asarray(new)).compiled
    assert compiled.in_place == ((0, 0),)
    assert compiled.intermediate_bytes < start.nbytes
    np.testing.assert_allclose(sm.jit(run, donate=0)(sm.asarray(start), sm.asarray(new)).numpy(), expected)
    np.testing.assert_allclose(sm.jit(run)(sm.asarray(start), sm.asarray(new)).numpy(), expected)


OPERATIONS = st.tuples(
    st.sampled_from(["set", "add", "read", "sorted", "scaled", "forked"]),
    st.integers(0, 1),  # which of the tensors
    st.integers(-4, 3),  # a row of it
)


@given(st.lists(OPERATIONS, min_size=1, max_size=6), st.booleans(), st.sampled_from(["float32", "float16", "int32"]))
def test_any_updates_and_reads_are_those_of_numpy(
    operations: list[tuple[str, int, int]], donate: bool, dtype: str
) -> None:
    """Every value that was ever there and is still wanted is right, whichever lies where."""

    def run(xp: Any, states: list[Any], update: Any, at: Any) -> Any:
        states, seen = list(states), []
        for k, (kind, number, row) in enumerate(operations):
            state = states[number]
            match kind:
                case "set" | "add":
                    states[number] = update(kind, state, at[k], states[1 - number][(row + 1) % 4] + 1)
                case "read":
                    seen.append(state[row % 4] * 2)
                case "sorted":
                    states[number] = xp.sort(state, axis=0)
                case "scaled":
                    states[number] = state + 1
                case _:
                    states[1 - number] = state
        return (*states, *seen)

    def ours(first: sm.Tensor, second: sm.Tensor, at: sm.Tensor) -> Any:
        return run(sm, [first, second], lambda kind, x, i, v: getattr(x.at[i], kind)(v), at)

    def theirs(kind: str, x: Any, i: Any, v: Any) -> Any:
        x = x.copy()
        x[i] = v if kind == "set" else x[i] + v
        return x

    start = [np.arange(12).reshape(4, 3).astype(dtype), (np.arange(12)[::-1] % 5).reshape(4, 3).astype(dtype)]
    at = np.array([row for _, _, row in operations], np.int32)
    found = sm.jit(ours, donate=(0, 1) if donate else ())(*map(sm.asarray, start), sm.asarray(at))
    for one, other in zip(found, run(np, start, theirs, at), strict=True):
        np.testing.assert_array_equal(one.numpy(), other)


def test_the_verifier_finds_a_value_that_is_read_after_its_update(monkeypatch: pytest.MonkeyPatch) -> None:
    """With homes that heed no lifetimes, as a mistake in them would be."""

    def wrong(items: Any, lives: Any, free: Any) -> Any:
        home = {value: value for value in lives}
        for item in items:
            for one, candidates in zip(item.nodes, item.overwritable, strict=False):
                home |= {x: one for x in candidates if free(x, one)}
        return home, {value: life.first for value, life in lives.items()}

    def step(state: sm.Tensor, at: sm.Tensor) -> Any:
        new = state.at[at].set(0.5)
        return new, sm.sort(sm.sort(new, axis=0) + state, axis=0)

    monkeypatch.setattr(work, "_homes", wrong)
    with pytest.raises(InternalError, match="is read after"):
        examine(step, sm.asarray(np.ones((61, 7), np.float32)), numbers(2))
