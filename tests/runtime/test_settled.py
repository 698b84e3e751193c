"""What is made of weights alone is computed once; results are the same whatever happens to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.runtime import prepared
from smelt.runtime.prepared import CALLS
from smelt.tensor.tensor import Tensor
from smelt.transform.jit import Jit

RNG = np.random.default_rng(5)
SIZE = 96


def numbers(*shape: int) -> Tensor:
    return sm.asarray(RNG.standard_normal(shape, dtype=np.float32), copy=True)


class Adapted(sm.nn.Module):
    """A matrix that is put together in every call, with a literal."""

    def __init__(self) -> None:
        self.w, self.a, self.b = numbers(SIZE, SIZE), numbers(SIZE, 8), numbers(8, SIZE)

    def __call__(self, x: Tensor) -> Tensor:
        w = self.w + 0.3 * (self.a @ self.b)
        return x @ (w / (w * w).sum(axis=0, keepdims=True).sqrt())

    def expected(self, x: Tensor) -> Any:
        w = self.w.numpy() + np.float32(0.3) * (self.a.numpy() @ self.b.numpy())
        return x.numpy() @ (w / np.sqrt((w * w).sum(axis=0, keepdims=True)))


def check(found: Tensor, expected: Any) -> None:
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4, atol=1e-4)


def made_of(function: Jit[Any, Any]) -> list[int]:
    """Of how many inputs each value is made that is prepared by now."""
    watches = [entry.watch for entry in function._entries.values()]
    return [len(one.inputs) for watch in watches if watch is not None for one in watch.compiled.prepared]


def asked(function: Jit[Any, Any]) -> bool:
    return any(len(one.inputs) > 1 for entry in function._entries.values() for one in entry.compiled.asks)


def test_what_a_module_makes_of_its_weights_is_made_once() -> None:
    f = sm.jit(lambda model, x: model(x))
    model, x = Adapted(), numbers(40, SIZE)
    first = f(model, x).numpy()
    for call in range(1, CALLS + 3):
        assert made_of(f) == ([3] if call > CALLS else [])
        np.testing.assert_array_equal(f(model, x).numpy(), first)
    check(f(model, x), model.expected(x))


def test_what_a_function_holds_by_itself_as_well() -> None:
    model = Adapted()
    f = sm.jit(lambda x: model(x) * 1.0)
    x = numbers(40, SIZE)
    for _ in range(CALLS + 2):
        check(f(x), model.expected(x))
    assert made_of(f) == [3]


@pytest.mark.parametrize("name", ["w", "a", "b"])
def test_other_weights_give_other_results(name: str) -> None:
    f = sm.jit(lambda model, x: model(x))
    model, x = Adapted(), numbers(40, SIZE)
    for _ in range(3):
        for _ in range(CALLS + 2):
            check(f(model, x), model.expected(x))
        setattr(model, name, numbers(*getattr(model, name).shape))
        check(f(model, x), model.expected(x))


def test_two_modules_that_share_a_weight_do_not_share_what_is_made_of_it() -> None:
    f = sm.jit(lambda model, x: model(x))
    g = sm.jit(lambda model, x: model(x))
    one, two, x = Adapted(), Adapted(), numbers(40, SIZE)
    two.w = one.w
    for _ in range(CALLS + 3):
        check(f(one, x), one.expected(x))
        check(g(two, x), two.expected(x))
    assert made_of(f) == made_of(g) == [3]


def test_arguments_are_not_what_a_function_holds() -> None:
    """The same tensors in every call are what a benchmark has, and are computed with."""
    f = sm.jit(lambda a, b, x: x @ (a @ b))
    g = sm.jit(lambda weights, x: x @ (weights["a"] @ weights["b"]))
    a, b, x = numbers(SIZE, 8), numbers(8, SIZE), numbers(40, SIZE)
    for _ in range(CALLS + 2):
        check(f(a, b, x), x.numpy() @ (a.numpy() @ b.numpy()))
        check(g({"a": a, "b": b}, x), x.numpy() @ (a.numpy() @ b.numpy()))
    assert not asked(f) and not asked(g)


def test_who_trains_is_not_watched() -> None:
    def step(model: Adapted, x: Tensor) -> Tensor:
        y = model(x)
        model.w = model.w * 0.5
        return y

    f = sm.jit(step)
    model, x = Adapted(), numbers(40, SIZE)
    for _ in range(CALLS + 2):
        expected = model.expected(x)
        check(f(model, x), expected)
    assert not asked(f)


def test_what_somebody_has_made_small_stays_small() -> None:
    w = sm.asarray(RNG.integers(-100, 100, (SIZE, SIZE)).astype(np.int8), copy=True)
    scale = numbers(SIZE)
    f = sm.jit(lambda x: x @ (w.astype(sm.float32) * scale))
    f(numbers(40, SIZE))
    assert not asked(f)


def test_results_that_are_made_of_weights_alone_are_computed() -> None:
    model = Adapted()
    f = sm.jit(lambda x: (model.a @ model.b, x @ (model.a @ model.b)))
    x = numbers(40, SIZE)
    for _ in range(CALLS + 2):
        product = model.a.numpy() @ model.b.numpy()
        y, z = f(x)
        check(y, product)
        check(z, x.numpy() @ product)


def test_draws_are_new_in_every_call() -> None:
    w = numbers(SIZE, SIZE)
    f = sm.jit(lambda x: x + (w * sm.random.uniform((SIZE, SIZE))))
    x = numbers(SIZE, SIZE)
    results = [f(x).numpy() for _ in range(CALLS + 3)]
    assert all((results[0] != other).any() for other in results[1:])


def test_functions_of_modules_that_share_a_matrix_each_keep_what_they_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """One matrix with several adapters: their calls may take turns, and nothing is made anew."""
    w = numbers(SIZE, SIZE)
    models = [Adapted(), Adapted()]
    functions: list[Jit[Any, Any]] = []
    x = numbers(40, SIZE)
    for model in models:
        model.w = w
        functions.append(sm.jit(model.__call__))
        for _ in range(CALLS + 2):
            functions[-1](x)
    monkeypatch.setattr(prepared, "realize_sized", lambda *_: pytest.fail("made anew"))
    for _ in range(3):
        for function, model in zip(functions, models, strict=True):
            check(function(x), model.expected(x))
    assert made_of(functions[0]) == made_of(functions[1]) == [3]


def test_what_other_threads_are_given_while_one_settles_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shared array may be written to, also if the function was compiled anew for weights of another thread."""
    f = sm.jit(lambda model, x: model(x))
    own, other, x = Adapted(), Adapted(), numbers(40, SIZE)
    array = other.w.numpy().copy()
    other.w = sm.from_numpy(array)
    found = runtime.find

    def find_slowly(*asked: Any) -> Any:
        f(other, x)  # what another thread does meanwhile
        return found(*asked)

    for _ in range(CALLS):
        f(own, x)
    monkeypatch.setattr(prepared, "find", find_slowly)
    check(f(own, x), own.expected(x))
    for _ in range(3):
        array += 1
        check(f(other, x), other.expected(x))
    assert other.w._node.attribute.kept is other.a._node.attribute.kept is other.b._node.attribute.kept is None


def test_arguments_are_computed_with_beside_what_is_read_in_panels() -> None:
    size = 768  # of a matrix that products would like to read in panels
    f = sm.jit(lambda a, b, x: (x @ a) @ b + x @ (a @ b))
    a, b, x = numbers(size, size), numbers(size, size), numbers(4, size)
    for _ in range(CALLS + 2):
        f(a, b, x)
    assert max(made_of(f), default=1) == 1


def test_copies_are_made_under_the_contracts_of_their_function() -> None:
    a, b, c, x = numbers(SIZE, 4), numbers(4, SIZE), numbers(SIZE, SIZE), numbers(40, SIZE)
    f = sm.jit(lambda x: x @ ((a @ b) @ c), contracts="exact")
    first = f(x).numpy()
    with sm.configure(contracts="fast"):
        for _ in range(CALLS + 2):
            np.testing.assert_array_equal(f(x).numpy(), first)
    assert made_of(f) == [3]


def test_many_small_ones_are_worth_it_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of them saves less than a hundredth of a deep network."""
    layers = [(numbers(SIZE, SIZE), numbers(SIZE, 8), numbers(8, SIZE)) for _ in range(120)]

    def apply(x: Tensor) -> Tensor:
        for w, a, b in layers:
            x = sm.tanh(x @ (w + a @ b))
        return x

    f = sm.jit(apply)
    x = numbers(1, SIZE)
    first = f(x).numpy()
    for _ in range(CALLS + 1):
        np.testing.assert_array_equal(f(x).numpy(), first)
    assert made_of(f) == [3] * len(layers)
    # What was chosen last is known by the inputs: nothing is looked up for each of them.
    monkeypatch.setattr(prepared.Watch, "_copy", None)
    np.testing.assert_array_equal(f(x).numpy(), first)


def test_what_has_no_room_is_not_prepared_beside_what_has(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 768  # of a matrix that products would like to read in panels, of which a small one is made as well
    w, v, x = numbers(size, size), numbers(size, 4), numbers(4, size)
    f = sm.jit(lambda x: (x @ w, x @ (w @ v)))
    f(x)
    [entry] = f._entries.values()
    if len({one.nbytes for one in entry.compiled.asks}) < 2:
        pytest.skip("this processor reads the matrix as it is")
    monkeypatch.setattr(type(entry.device), "available_bytes", lambda _: prepared.SHARE * 100_000)
    for _ in range(CALLS + 2):
        np.testing.assert_allclose(f(x)[1].numpy(), x.numpy() @ (w.numpy() @ v.numpy()), rtol=1e-3, atol=0.1)
    assert sum(one.nbytes for one in (entry.watch or entry).compiled.prepared) <= 100_000
