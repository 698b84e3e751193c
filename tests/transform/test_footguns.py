"""Habits of plain Python that trip people up in functions that are traced once, and what `jit` does about each.

What the function reads from outside is looked up at every call (`test_watching.py`).
"""

from __future__ import annotations

import gc
import math
import random
import threading
from collections.abc import Callable
from random import uniform
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import DonatedError, TraceError

_offset = sm.zeros((3,))


def tensor(*values: float) -> sm.Tensor:
    return sm.asarray(np.array(values, np.float32))


def recycle() -> None:
    """Use whatever memory is free for something else."""
    gc.collect()
    for k in range(20):
        sm.realize(tensor(*[-1.0 - k] * 3) * 2, tensor(*[-1.0 - k] * 3) + 1)


X = tensor(1, 2, 3)


# --- state outside the function


def test_a_global_that_is_rebound_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    function = sm.jit(lambda x: x + _offset)
    assert function(X).tolist() == [1, 2, 3]
    monkeypatch.setitem(globals(), "_offset", tensor(10, 10, 10))
    assert function(X).tolist() == [11, 12, 13]


def test_a_closure_may_become_something_else() -> None:
    traces: list[None] = []
    bias: Any = None

    def function(x: sm.Tensor) -> sm.Tensor:
        traces.append(None)
        return x if bias is None else x + bias

    jitted = sm.jit(function)
    cases = [(tensor(1, 1, 1), [2, 3, 4]), (tensor(5), [6, 7, 8]), (10, [11, 12, 13]), (None, [1, 2, 3])]
    for value, expected in cases + cases:
        bias = value
        assert jitted(X).tolist() == expected
    assert len(traces) == len(cases)


class Holder:
    def __init__(self, weight: sm.Tensor) -> None:
        self.weight = weight

    def add(self, x: sm.Tensor) -> sm.Tensor:
        return x + self.weight


def _default(holder: Holder) -> Callable[[sm.Tensor], sm.Tensor]:
    def function(x: sm.Tensor, state: Holder = holder) -> sm.Tensor:
        return x + state.weight

    return function


def _helper(holder: Holder) -> Callable[[sm.Tensor], sm.Tensor]:
    def helper(x: sm.Tensor) -> sm.Tensor:
        return x + holder.weight

    return lambda x: helper(x * 1)


WAYS: dict[str, Callable[[Holder], Callable[[sm.Tensor], sm.Tensor]]] = {
    "an attribute of an object": lambda holder: lambda x: x + holder.weight,
    "an attribute of self": lambda holder: holder.add,
    "a default argument": _default,
    "what another function reads": _helper,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_is_read_through_an_object_is_seen(way: str) -> None:
    holder = Holder(tensor(1, 1, 1))
    function = sm.jit(WAYS[way](holder))
    assert function(X).tolist() == [2, 3, 4]
    holder.weight = tensor(7, 7, 7)
    assert function(X).tolist() == [8, 9, 10]


def test_another_object_is_another_trace() -> None:
    function = sm.jit(lambda holder, x: x + holder.weight)
    first, second = Holder(tensor(1, 1, 1)), Holder(tensor(7, 7, 7))
    assert [function(holder, X).tolist()[0] for holder in (first, second, first)] == [2, 8, 2]


def test_state_as_an_argument_is_never_stale() -> None:
    function = sm.jit(lambda state, x: (state["weight"] * x, {"weight": state["weight"] + 1}))
    state = {"weight": tensor(1, 1, 1)}
    for step in range(1, 5):
        result, state = function(state, X)
        assert result.tolist() == [step, 2 * step, 3 * step]


def test_arrays_of_the_closure_count_by_their_content() -> None:
    array = np.ones(3, np.float32)
    function = sm.jit(lambda x: x * array)
    assert function(X).tolist() == [1, 2, 3]
    array[:] = 5
    assert function(X).tolist() == [5, 10, 15]
    array = array + 1
    assert function(X).tolist() == [6, 12, 18]


def test_a_tensor_that_shares_an_array_shows_what_is_written_to_it() -> None:
    array = np.ones(3, np.float32)
    shared = sm.from_numpy(array)
    function = sm.jit(lambda x: x * 2)
    assert function(shared).tolist() == [2, 2, 2]
    array[:] = 5
    assert function(shared).tolist() == [10, 10, 10]


def test_default_arguments_that_change_make_every_call_a_trace() -> None:
    def function(x: sm.Tensor, calls: list[int] = []) -> sm.Tensor:  # noqa: B006
        calls.append(1)
        return x + len(calls)

    jitted = sm.jit(function)
    assert [jitted(X).tolist()[0] for _ in range(3)] == [2, 3, 4]


def test_a_count_that_a_function_keeps_for_itself_makes_every_call_a_trace() -> None:
    """Numbers of the closure are part of the structure, so results are right, at a price."""
    calls = 0

    def function(x: sm.Tensor) -> sm.Tensor:
        nonlocal calls
        calls += 1
        return x + calls

    jitted = sm.jit(function)
    assert [jitted(X).tolist()[0] for _ in range(3)] == [2, 3, 4]


def test_tensors_that_escape_a_trace_have_no_value() -> None:
    escaped: list[sm.Tensor] = []

    def function(x: sm.Tensor) -> sm.Tensor:
        escaped.extend([x, x * 2])
        return x + 1

    sm.jit(function)(X)
    for one in escaped:
        for use in (one.numpy, (one + 1).numpy, lambda one=one: sm.jit(lambda x: x + one)(X)):
            with pytest.raises(TraceError):
                use()


def test_arguments_that_a_function_changes_stay_as_they_are() -> None:
    state = {"weight": X, "bias": X}
    result = sm.jit(lambda state: state.pop("weight") + len(state))(state)
    assert result.tolist() == [2, 3, 4]
    assert sorted(state) == ["bias", "weight"]


# --- numbers


def test_numbers_that_change_are_no_new_traces() -> None:
    traces: list[None] = []

    def function(x: sm.Tensor, options: dict[str, float]) -> sm.Tensor:
        traces.append(None)
        return x * options["rate"] + options["shift"]

    jitted = sm.jit(function)
    for number in (1.0, -0.0, math.inf, math.nan, 1e-300, 0.5):
        found = jitted(X, {"rate": number, "shift": 1.0}).numpy()
        np.testing.assert_array_equal(found, X.numpy() * np.float32(number) + 1)
    assert len(traces) == 1


def test_nan_is_one_static_value() -> None:
    traces: list[None] = []

    def function(x: sm.Tensor, fill: float) -> sm.Tensor:
        traces.append(None)
        return sm.where(x > 2, fill, x)

    jitted = sm.jit(function, static="fill")
    for _ in range(3):
        np.testing.assert_array_equal(jitted(X, float("nan")).numpy(), [1, 2, np.nan])
    assert len(traces) == 1


def test_nan_in_closures_and_constants() -> None:
    nothing = math.nan
    for function in (lambda x: x * nothing, lambda x: x + sm.full((3,), math.nan), lambda x: x * (sm.nan - sm.nan)):
        assert np.isnan(sm.jit(function)(X).numpy()).all()
    assert sm.jit(lambda x: x == nothing)(X).tolist() == [False, False, False]
    assert sm.jit(lambda x: x * nothing != x * nothing)(X).tolist() == [True, True, True]


# --- donation


def test_a_tensor_that_is_passed_twice_and_donated_once() -> None:
    for donate in (0, 1, (0, 1)):
        x = tensor(1, 2, 3)
        total, difference = sm.jit(lambda x, y: (x + y, x * 3 - y), donate=donate)(x, x)
        assert total.tolist() == [2, 4, 6]
        assert difference.tolist() == [2, 4, 6]
        with pytest.raises(DonatedError):
            x.numpy()


def test_views_of_a_donated_tensor_keep_their_values() -> None:
    x = tensor(1, 2, 3, 4)
    back, part = x[::-1].realize(), x[1:3].realize()
    double = sm.jit(lambda x: x * 2 + 1, donate=0)
    assert double(x).tolist() == [3, 5, 7, 9]
    recycle()
    assert back.tolist() == [4, 3, 2, 1]
    assert double(part).tolist() == [5, 7]
    recycle()
    assert back.tolist() == [4, 3, 2, 1]


def test_what_is_to_be_computed_from_a_donated_tensor_keeps_it() -> None:
    x = tensor(1, 2, 3)
    later = x + 1
    assert sm.jit(lambda x: x * 2, donate=0)(x).tolist() == [2, 4, 6]
    recycle()
    assert later.tolist() == [2, 3, 4]


def test_every_name_of_a_donated_tensor_is_given_up() -> None:
    x = tensor(1, 2, 3)
    other = x
    closed = sm.jit(lambda y: y + x, donate=0)
    assert closed(x).tolist() == [2, 4, 6]
    for use in (other.numpy, lambda: closed(tensor(1, 1, 1))):
        with pytest.raises(DonatedError):
            use()


def test_an_array_that_a_donated_tensor_shares_is_left_alone() -> None:
    array = np.array([1, 2, 3], np.float32)
    assert sm.jit(lambda x: x * 2, donate=0)(sm.from_numpy(array)).tolist() == [2, 4, 6]
    recycle()
    assert array.tolist() == [1, 2, 3]


def test_a_chain_of_donations_and_the_views_on_the_way() -> None:
    step = sm.jit(lambda x: x + 1, donate=0)
    x = tensor(0, 0, 0)
    seen = []
    for _ in range(10):
        x = step(x)
        seen.append(x.numpy())
    assert [int(view[0]) for view in seen] == list(range(1, 11))


# --- memory


def test_results_that_show_an_argument_outlive_it() -> None:
    for donate in ((), (0,)):
        x = tensor(1, 2, 3)
        back, more = sm.jit(lambda x: (x[::-1], x + 1), donate=donate)(x)
        del x
        recycle()
        assert back.tolist() == [3, 2, 1]
        assert more.tolist() == [2, 3, 4]


def test_arrays_of_results_stay_while_calls_go_on() -> None:
    function = sm.jit(lambda x, k: x * k)
    views = [function(X, k).numpy() for k in range(10)]
    recycle()
    assert [view.tolist() for view in views] == [[k, 2 * k, 3 * k] for k in range(10)]


# --- random numbers


def test_a_key_is_its_numbers_inside_and_outside() -> None:
    key = sm.random.key(3)
    drawn = sm.random.normal((3,), key=key).tolist()
    by_argument = sm.jit(lambda key: sm.random.normal((3,), key=key))
    by_closure = sm.jit(lambda: sm.random.normal((3,), key=key))
    assert by_argument(key).tolist() == by_argument(key).tolist() == by_closure().tolist() == drawn
    key = sm.random.key(4)
    assert by_closure().tolist() == sm.random.normal((3,), key=key).tolist() != drawn


def test_one_key_twice_gives_the_same_numbers_twice() -> None:
    first, second = sm.jit(lambda key: (sm.random.uniform((4,), key=key), sm.random.uniform((4,), key=key)))(
        sm.random.key(0)
    )
    assert first.tolist() == second.tolist()


def test_the_global_generator_goes_on_from_where_a_compiled_call_left_it() -> None:
    function = sm.jit(lambda x: x + sm.random.uniform((3,)))
    sequences = []
    for call in (function, function.__wrapped__):
        sm.random.seed(11)
        sequences.append([sm.random.bits((2,)).tolist(), call(X).tolist(), call(X).tolist()])
        sequences[-1].append(sm.random.bits((2,)).tolist())
    assert sequences[0] == sequences[1]


# --- threads


def test_two_threads_call_one_function_each_with_its_own_structure() -> None:
    function = sm.jit(lambda x, k, mode: x * k if mode == "times" else x + k, static="mode")
    start = threading.Barrier(2)
    wrong: list[object] = []

    def work(size: int, mode: str) -> None:
        x = np.arange(size, dtype=np.float32)
        start.wait()
        try:
            for k in range(50):
                found = function(sm.asarray(x), k, mode).numpy()
                if not np.array_equal(found, x * k if mode == "times" else x + k):
                    wrong.append((size, mode, k))
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=arguments) for arguments in ((3, "times"), (5, "plus"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


_generator = np.random.default_rng(0)


def noise() -> float:
    return float(np.random.normal())


class Noisy:
    def __init__(self) -> None:
        self.generator = random.Random(0)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        return x + self.generator.random()


DRAWS: dict[str, Callable[[Any], Any]] = {
    "numpy.random": lambda x: x + np.random.rand(),
    "a generator of NumPy's": lambda x: x + _generator.normal(),
    "random": lambda x: x if random.random() < 0.5 else -x,
    "a function of random": lambda x: x + uniform(0, 1),
    "a helper": lambda x: x + noise(),
    "an attribute": Noisy(),
}


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers_of_other_libraries_are_refused_before_they_freeze(name: str) -> None:
    with pytest.raises(TraceError, match=r"draws random numbers from (numpy|random)\.[\s\S]*sm\.random"):
        sm.jit(DRAWS[name])(tensor(1, 2))


def test_generators_that_a_function_does_not_draw_from_are_no_matter() -> None:
    state = _generator.bit_generator.state
    f = sm.jit(lambda x, draw=False: x + (_generator.random() if draw else np.random.default_rng(0).random()))
    assert f(tensor(1)).tolist() == f(tensor(1)).tolist() == (tensor(1) + np.random.default_rng(0).random()).tolist()
    assert _generator.bit_generator.state == state
    draws = sm.jit(lambda x: x + sm.random.uniform())
    assert draws(tensor(1)).tolist() != draws(tensor(1)).tolist()
