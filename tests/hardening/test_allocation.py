"""Memory that is not there: whichever allocation fails, the error says so, nothing leaks, and the next call works."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.device import cpu, memory
from smelt.errors import MemoryLimitError
from tests.hardening.processes import GRAPHS, says

ARRAY = np.linspace(-2, 2, 96 * 64, dtype=np.float32).reshape(96, 64)


def _softmax(x: np.ndarray) -> np.ndarray:
    raised = np.exp(x - x.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def _layers(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
    hidden = (x @ x.T).relu().softmax(-1) @ x
    return hidden.softmax(-1), hidden.sum(0)


def _check_layers(found: Any) -> None:
    hidden = _softmax(np.maximum(ARRAY @ ARRAY.T, 0)) @ ARRAY
    np.testing.assert_allclose(found[0].numpy(), _softmax(hidden), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[1].numpy(), hidden.sum(0), rtol=1e-3, atol=1e-3)


_function = sm.jit(_layers)
_scaled = sm.jit(lambda x, factor: sm.sort(x * factor, axis=0))
n = sm.Dim("n", 1, 200)
_symbolic = sm.jit(lambda x: x.softmax(-1).sum(0), shapes=[(n, 64)])


def _fresh() -> sm.Tensor:
    return sm.asarray(ARRAY, copy=True)


def _random() -> sm.Tensor:
    sm.random.seed(3)
    return sm.random.normal((17,)).realize()


def _places() -> sm.Tensor:
    return sm.nonzero(_fresh() > 1)[0].realize()


def _list() -> sm.Tensor:
    return (sm.asarray([1.5, 2.5, 3.5]) * 2).realize()


# Each makes its own input, so that this may fail as well.
PROGRAMS: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
    "eager": (
        lambda: [r.realize() for r in _layers(_fresh())],
        _check_layers,
    ),
    "jit": (lambda: _function(_fresh()), _check_layers),
    "jit with a number and a sort": (
        lambda: _scaled(_fresh(), 2.5),
        lambda found: np.testing.assert_array_equal(found.numpy(), np.sort(ARRAY * np.float32(2.5), axis=0)),
    ),
    "symbolic": (
        lambda: _symbolic(_fresh()),
        lambda found: np.testing.assert_allclose(found.numpy(), _softmax(ARRAY).sum(0), rtol=1e-4),
    ),
    "sizes that values decide": (
        _places,
        lambda found: np.testing.assert_array_equal(found.numpy(), np.nonzero(ARRAY > 1)[0]),
    ),
    "random numbers": (_random, lambda found: found.numpy().sum()),
    "a list": (
        _list,
        lambda found: np.testing.assert_array_equal(found.numpy(), [3, 5, 7]),
    ),
}


class Exhausted:
    """Takes the place of the system: from allocation `first` on, `times` of them fail."""

    def __init__(self) -> None:
        self.count, self.first, self.times = 0, 1 << 30, 0
        self.true_reserve = memory._reserve

    def fail(self, first: int, times: int) -> None:
        self.count, self.first, self.times = 0, first, times

    def reserve(self, nbytes: int) -> Any:
        self.count += 1
        if self.first <= self.count < self.first + self.times:
            raise MemoryError
        return self.true_reserve(nbytes)


@pytest.fixture
def exhausted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exhausted]:
    """Nothing is recycled meanwhile, so that every allocation asks the system."""
    system = Exhausted()
    pool = memory.pool()
    memory.allocate(1)  # the pool has looked for its limit
    pool.trim()
    monkeypatch.setattr(memory, "_reserve", system.reserve)
    monkeypatch.setattr(pool, "_limit", 0)
    monkeypatch.setattr(pool, "_count_after", 0)
    yield system
    system.fail(1 << 30, 0)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.by_turns(10)
def test_every_allocation_of_a_call_may_fail(name: str, exhausted: Exhausted) -> None:
    program, check = PROGRAMS[name]
    check(program())
    gc.collect()
    pool = memory.pool()
    used = pool.used_bytes
    failures = 0
    for number in range(1, 100):
        exhausted.fail(number, 2)  # after the first the pool lets go of what it keeps and tries again
        try:
            result = program()
        except MemoryLimitError as error:
            failures += 1
            assert "cannot allocate" in str(error)
            assert any(word.isdigit() and int(word) > 0 for word in str(error).split())
            del error
        else:
            check(result)
            assert exhausted.count < number
            break
        gc.collect()
        # Nothing of the failed call is left; caches may let go of what earlier tests left there.
        assert pool.used_bytes <= used
        used = pool.used_bytes
        exhausted.fail(1 << 30, 0)
        check(program())
        gc.collect()
        assert pool.used_bytes == used
    assert failures >= 1
    assert failures == number - 1


@pytest.mark.parametrize("name", ["eager", "jit"])
def test_one_failed_allocation_is_made_up_for(name: str, exhausted: Exhausted) -> None:
    program, check = PROGRAMS[name]
    check(program())
    for number in range(1, 100):
        exhausted.fail(number, 1)
        check(program())
        if exhausted.count < number:
            break


def test_the_first_call_of_a_function_may_fail(exhausted: Exhausted) -> None:
    for number in range(1, 100):
        function = sm.jit(_layers)
        exhausted.fail(number, 2)
        try:
            result = function(_fresh())
        except MemoryLimitError:
            exhausted.fail(1 << 30, 0)
            result = function(_fresh())
        _check_layers(result)
        if exhausted.count < number:
            break


def test_memory_for_launch_lists_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    true_array = cpu.array
    for number in range(1, 100):
        count = 0

        def array(kind: str, data: Any, number: int = number) -> Any:
            nonlocal count
            count += 1
            if count == number:
                raise MemoryError
            return true_array(kind, data)

        runtime.current().clear_caches()
        monkeypatch.setattr(cpu, "array", array)
        try:
            _check_layers(PROGRAMS["eager"][0]())
            assert count < number
            break
        except MemoryError:
            monkeypatch.setattr(cpu, "array", true_array)
            _check_layers(PROGRAMS["eager"][0]())
    assert number > 1


def test_more_than_the_machine_has_names_what_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    from smelt.device import memory
    from smelt.plan import compiled

    monkeypatch.setattr(compiled, "CHECKED_BYTES", 0)
    monkeypatch.setattr(memory, "available_bytes", lambda: 1000)
    x = sm.from_numpy(np.zeros((331, 7), np.float32))
    with pytest.raises(MemoryLimitError, match=r"result float32\[331, 7\]"):
        (x + 1).realize()
    monkeypatch.undo()
    assert float((x + 1).sum()) == 331 * 7


LIMITED = (
    GRAPHS
    + """
import gc, resource
from smelt.errors import MemoryLimitError
from smelt.device import memory

grow = sm.jit(lambda x: (x[:, None] * x[None, :], x + 1))
x = sm.arange(4000.0).realize()
small = sm.arange(40.0).realize()
grow(x), grow(small), is_right(0)
with open("/proc/self/statm") as file:
    size = int(file.read().split()[0]) * resource.getpagesize()
memory.pool().trim()
resource.setrlimit(resource.RLIMIT_AS, (size + (200 << 20), resource.RLIM_INFINITY))
held, failures = [], 0
for _ in range(20):
    try:
        held.append(grow(x))
    except MemoryLimitError as error:
        failures += "cannot allocate 64000000 bytes" in str(error)
assert 0 < len(held) < 20 and failures == 20 - len(held), (len(held), failures)
assert float(grow(small)[0].sum()) == 780.0 ** 2  # what is small still works
held.clear()
gc.collect()
assert float(grow(x)[1].sum()) == 4000 * 4001 / 2
print(is_right(0))
"""
)


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
@pytest.mark.slow
def test_a_process_at_its_limit_goes_on_with_what_fits(tmp_path: Path) -> None:
    """The system itself refuses, here by a limit on the address space."""
    assert says(LIMITED, tmp_path / "cache", OPENBLAS_NUM_THREADS="1") == "True"


THREADLESS = """
int pthread_create(void *thread, const void *attributes, void *(*body)(void *), void *argument) {
    static int made;
    extern char *getenv(const char *);
    extern void *dlsym(void *, const char *);
    if (made >= getenv("TEST_MOST_THREADS")[0] - '0') return 11;
    made++;
    return ((int (*)(void *, const void *, void *(*)(void *), void *))dlsym((void *)-1L, "pthread_create"))(
        thread, attributes, body, argument);
}
"""

PARALLEL = """
import numpy as np
import smelt as sm
x = np.random.default_rng(0).random((700, 900), np.float32)
for _ in range(3):
    found = (sm.from_numpy(x) * 2 + 1).sum(axis=0).numpy()
    assert np.allclose(found, (x * 2 + 1).sum(axis=0), rtol=1e-4)
with open("/proc/self/status") as file:
    print([line.split()[1] for line in file if line.startswith("Threads:")][0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="LD_PRELOAD")
@pytest.mark.slow
def test_threads_that_cannot_be_started_are_done_without(tmp_path: Path) -> None:
    from tests.test_diskcache import library

    preloaded = library(tmp_path, THREADLESS)
    for most in (0, 1, 2):
        said = says(
            PARALLEL,
            tmp_path / "cache",
            LD_PRELOAD=str(preloaded),
            TEST_MOST_THREADS=str(most),
            SMELT_THREADS="4",
            OPENBLAS_NUM_THREADS="1",
        )
        assert said == str(1 + most)
