"""Gradients that users give, and values that count as constants."""

from __future__ import annotations

from typing import Any

import pytest

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, ShapeError, TraceError


def test_a_stopped_value_is_a_constant() -> None:
    x = sm.asarray([2.0, 3.0])
    assert sm.grad(lambda x: (x * sm.stop_gradient(x)).sum())(x).tolist() == [2.0, 3.0]
    _, change = sm.jvp(lambda x: x * sm.stop_gradient({"a": x})["a"], (x,), (sm.ones(2),))
    assert change.tolist() == [2.0, 3.0]
    assert sm.jit(sm.grad(lambda x: (sm.stop_gradient(x) ** 2).sum()))(x).tolist() == [0.0, 0.0]


def _both(x: sm.Tensor, y: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
    return x * y, x + y


def _made(backward: Any) -> Any:
    function = sm.custom_vjp(_both)
    function.defvjp(lambda x, y: (_both(x, y), (x, y)), backward)
    return function


def test_several_results_are_pulled_back_together() -> None:
    calls: list[int] = []

    def backward(kept: Any, cts: Any) -> tuple[sm.Tensor, sm.Tensor]:
        calls.append(1)
        (x, y), (product, total) = kept, cts
        return 10 * (product * y + total), 10 * (product * x + total)

    function = _made(backward)

    def loss(x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
        product, total = function(x, y)
        return product * 2 + (total * product) * 3  # the second result meets the first again

    by_x, by_y = sm.grad(loss, argnums=(0, 1))(sm.asarray(2.0), sm.asarray(5.0))
    # d/dproduct = 2 + 3 * 7 = 23, d/dtotal = 3 * 10 = 30
    assert (float(by_x), float(by_y)) == (10 * (23 * 5 + 30), 10 * (23 * 2 + 30))
    assert len(calls) == 1
    only = sm.grad(lambda x: function(x, sm.asarray(5.0))[1])(sm.asarray(2.0))
    assert float(only) == 10.0
    again = sm.jit(sm.grad(lambda x: function(x, x * 1.0)[0]))(sm.asarray(2.0))
    assert float(again) == 40.0


def test_none_and_integer_arguments() -> None:
    @sm.custom_vjp
    def pick(x: sm.Tensor, k: sm.Tensor) -> sm.Tensor:
        return x[k]

    pick.defvjp(lambda x, k: (x[k], k), lambda k, ct: (None, None))
    assert sm.grad(lambda x: pick(x, sm.asarray(1)))(sm.asarray([1.0, 2.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("error", "text", "backward"),
    [
        (ArgumentError, "one cotangent for each of the 2 arguments", lambda kept, cts: cts[0]),
        (ShapeError, "the cotangent of argument 0 has shape (2,)", lambda kept, cts: (sm.ones(2), None)),
        (DTypeError, "the cotangent of argument 1 is float64", lambda kept, cts: (None, cts[0].astype(sm.float64))),
        (ArgumentError, "the cotangent of argument 0 is float", lambda kept, cts: (1.0, None)),
        (ArgumentError, "has the structure tuple(*)", lambda kept, cts: ((cts[0],), None)),
    ],
)
def test_mistakes(error: type[Exception], text: str, backward: Any) -> None:
    with pytest.raises(error) as raised:
        sm.grad(lambda x, y: _made(backward)(x, y)[0])(sm.asarray(2.0), sm.asarray(5.0))
    assert text in str(raised.value)


def test_a_function_without_its_gradient_is_refused() -> None:
    with pytest.raises(ArgumentError, match="it has no gradient yet"):
        sm.custom_vjp(_both)(sm.ones(()), sm.ones(()))


def test_forward_mode_says_that_it_cannot() -> None:
    with pytest.raises(ArgumentError, match="has no forward derivative"):
        sm.jvp(lambda x: _made(lambda kept, cts: (None, None))(x, x)[0], (sm.ones(()),), (sm.ones(()),))


def _pushed(kept: Any, tangents: Any) -> Any:
    (x, y), (by_x, by_y) = kept, tangents
    parts = [10 * t * other for t, other in ((by_x, y), (by_y, x)) if t is not None]
    return sum(parts[1:], parts[0]), sm.zeros_like(x)


def test_a_function_may_say_how_it_changes() -> None:
    function = _made(lambda kept, cts: (None, None))
    function.defjvp(_pushed)
    x, y, change = sm.asarray([2.0, 3.0]), sm.asarray([5.0, 7.0]), sm.asarray([1.0, -1.0])
    value, found = sm.jvp(lambda x: function(x, y), (x,), (change,))
    assert [part.tolist() for part in value] == [[10.0, 21.0], [7.0, 10.0]]
    assert [part.tolist() for part in found] == [[50.0, -70.0], [0.0, 0.0]]
    _, both = sm.jvp(function, (x, y), (change, change))
    assert both[0].tolist() == [70.0, -100.0]
    # Under vmap, in a loop and under jit; a value that changes nothing is not asked.
    rows = sm.vmap(lambda t: sm.jvp(lambda x: function(x, y)[0], (x,), (t,))[1])(sm.eye(2))
    assert rows.tolist() == [[50.0, 0.0], [0.0, 70.0]]
    one = sm.vmap(lambda x, y: sm.jvp(lambda x: function(x, y)[0], (x,), (1.0,))[1])(x, y)
    assert one.tolist() == [50.0, 70.0]
    looped = sm.jit(
        lambda x: sm.jvp(lambda x: sm.fori_loop(0, 2, lambda i, c: function(c, y)[0], x), (x,), (change,))[1]
    )
    assert looped(x).tolist() == [2500.0, -4900.0]
    _, none = sm.jvp(lambda z: function(x, y)[0] + z, (x,), (change,))
    assert none.tolist() == change.tolist()


def test_trees_with_integers_have_tangents_of_floats_only() -> None:
    def pick(tree: Any) -> sm.Tensor:
        return tree["x"][tree["k"]] * tree["y"]

    def push(kept: Any, tangents: Any) -> sm.Tensor:
        (change,) = tangents
        assert change["k"] is None and change["y"].tolist() == 0.0
        return change["x"][kept["k"]] * 10 * kept["y"]

    function = sm.custom_vjp(pick)
    function.defvjp(lambda tree: (pick(tree), tree), lambda kept, ct: (None,))
    function.defjvp(push)
    k, y = sm.asarray(1), sm.asarray(3.0)
    _, found = sm.jvp(
        lambda x: function({"x": x, "k": k, "y": y}), (sm.asarray([1.0, 2.0]),), (sm.asarray([4.0, 5.0]),)
    )
    assert found.tolist() == 150.0


@pytest.mark.parametrize(
    ("error", "text", "push"),
    [
        (ArgumentError, "the tangent of the value has the structure *", lambda kept, ts: ts[0]),
        (ShapeError, "the tangent of the value has shape (2,)", lambda kept, ts: (sm.ones(2), ts[0])),
        (DTypeError, "the tangent of the value is float64", lambda kept, ts: (ts[0].astype(sm.float64), ts[0])),
        (ArgumentError, "the tangent of the value is float, not a tensor", lambda kept, ts: (1.0, ts[0])),
    ],
)
def test_mistakes_in_tangents(error: type[Exception], text: str, push: Any) -> None:
    function = _made(lambda kept, cts: (None, None))
    function.defjvp(push)
    with pytest.raises(error) as raised:
        sm.jvp(lambda x: function(x, x)[0], (sm.ones(()),), (sm.ones(()),))
    assert text in str(raised.value)


def test_batches_keep_what_was_said_about_gradients() -> None:
    x = sm.asarray([[1.0, 2.0], [3.0, 4.0]])
    stopped = sm.grad(lambda x: sm.vmap(lambda row: (row * sm.stop_gradient(row)).sum())(x).sum())(x)
    assert stopped.tolist() == x.tolist()

    def backward(kept: Any, cts: Any) -> tuple[sm.Tensor, sm.Tensor]:
        (x, y), (product, total) = kept, cts
        return 10 * (product * y + total), 10 * (product * x + total)

    function = _made(backward)
    y = sm.asarray([5.0, 6.0])

    def loss(x: sm.Tensor, y: sm.Tensor) -> sm.Tensor:
        products, sums = sm.vmap(function, in_axes=(0, None))(x, y)
        return (products * sums).sum()

    by_x, by_y = sm.grad(loss, argnums=(0, 1))(x, y)
    expected_x = 10 * ((x + y) * y + x * y)
    expected_y = (10 * ((x + y) * x + x * y)).sum(axis=0)
    assert by_x.tolist() == expected_x.tolist()
    assert by_y.tolist() == expected_y.tolist()
    rows = sm.vmap(sm.grad(lambda x: function(x, y)[0].sum()))(x)
    assert rows.tolist() == [[50.0, 60.0], [50.0, 60.0]]


def test_the_way_back_of_a_batch_knows_nothing_of_the_values_it_is_given() -> None:
    function = sm.custom_vjp(lambda x, k: x[k])

    def backward(kept: Any, ct: sm.Tensor) -> tuple[sm.Tensor, None]:
        x, k = kept
        return ct * x[k] + sm.zeros_like(x), None  # the indices were taken for zeros, which need not be counted back

    function.defvjp(lambda x, k: (x[k], (x, k)), backward)
    x, k = sm.asarray([[1.0, 2.0], [3.0, 4.0]]), sm.asarray([-1, -2])
    found = sm.grad(lambda x: sm.vmap(function)(x, k).sum())(x)
    assert found.tolist() == [[2.0, 2.0], [3.0, 3.0]]

    def choosing(kept: Any, ct: sm.Tensor) -> tuple[sm.Tensor, None]:
        return (ct if ct > 0 else -ct) + sm.zeros_like(kept[0]), None

    function.defvjp(lambda x, k: (x[k], (x, k)), choosing)
    with pytest.raises(TraceError, match="the value is not known"):
        sm.grad(lambda x: sm.vmap(function)(x, k).sum())(x)


def test_an_object_that_is_called_may_have_a_gradient_of_its_own() -> None:
    class Cube:
        def __call__(self, x: sm.Tensor) -> sm.Tensor:
            return x * x * x

    cube = sm.custom_vjp(Cube())
    cube.defvjp(lambda x: (x * x * x, x), lambda x, ct: (7 * ct,))
    assert sm.grad(cube)(2.0).item() == 7
    with pytest.raises(ArgumentError, match="custom_vjp Cube: it has no gradient yet"):
        sm.custom_vjp(Cube())(sm.ones(()))
