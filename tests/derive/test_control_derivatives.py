"""Derivatives and batches of loops and branches, against the same written out in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import tree
from smelt.errors import GradientError
from smelt.graph.node import topological
from smelt.graph.ops import Loop, Op
from smelt.transform import examine
from tests.interpreted import interpreted

RNG = np.random.default_rng(0)
W = RNG.standard_normal((3, 3)) * 0.5
XS = RNG.standard_normal((5, 3))
H = RNG.standard_normal(3)


def _cell(w: sm.Tensor, h: sm.Tensor, x: sm.Tensor) -> sm.Tensor:
    return sm.tanh(w @ h + x)


def _scanned(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor, reverse: bool = False) -> sm.Tensor:
    def step(state: tuple[sm.Tensor, sm.Tensor], x: sm.Tensor) -> tuple[Any, sm.Tensor]:
        h, k = state
        h = _cell(w, h, x)
        return (h, k + 1), h * (k + 1)

    (h, k), ys = sm.scan(step, (h, sm.asarray(0)), xs, reverse=reverse)
    return (ys**2).sum() + (h * k).sum()


def _unrolled(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor, reverse: bool = False) -> sm.Tensor:
    total = sm.asarray(0.0, dtype=sm.float64)
    count = xs.shape[0]
    for k in range(count):
        h = _cell(w, h, xs[count - 1 - k if reverse else k])
        total = total + ((h * (k + 1)) ** 2).sum()
    return total + (h * count).sum()


def _fori(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    def body(i: sm.Tensor, state: sm.Tensor) -> sm.Tensor:
        return _cell(w, state, xs[i]) * (1.0 + i.astype(sm.float64))

    return (sm.fori_loop(0, 5, body, h) ** 2).sum()


def _fori_unrolled(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    for i in range(5):
        h = _cell(w, h, xs[i]) * (1.0 + i)
    return (h**2).sum()


def _cond(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    first = sm.cond(xs[0, 0] > 0, lambda h: _cell(w, h, xs[0]), lambda h: h * 2, h)
    second = sm.cond(xs[0, 0] <= 0, lambda h: _cell(w, h, xs[1]), lambda h: h * h, h)
    return (first * second).sum()


def _cond_unrolled(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    positive = XS[0, 0] > 0
    first = _cell(w, h, xs[0]) if positive else h * 2
    second = _cell(w, h, xs[1]) if not positive else h * h
    return (first * second).sum()


def _while(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    state = (h, sm.asarray(0))
    h, _ = sm.while_loop(lambda s: s[1] < 4, lambda s: (_cell(w, s[0], xs[0]), s[1] + 1), state, max_steps=6)
    return (h**2).sum()


def _while_unrolled(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    for _ in range(4):
        h = _cell(w, h, xs[0])
    return (h**2).sum()


def _nested(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    def outer(h: sm.Tensor, x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        h = sm.fori_loop(0, 2, lambda i, s: _cell(w, s, x), h)
        return h, sm.cond(h[0] > 0, lambda h: h.sum(), lambda h: (h * h).sum(), h)

    h, ys = sm.scan(outer, h, xs)
    return h.sum() + ys.sum()


def _nested_unrolled(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
    total = sm.asarray(0.0, dtype=sm.float64)
    for k in range(5):
        for _ in range(2):
            h = _cell(w, h, xs[k])
        total = total + sm.where(h[0] > 0, h.sum(), (h * h).sum())
    return h.sum() + total


PAIRS: dict[str, tuple[Callable[..., sm.Tensor], Callable[..., sm.Tensor]]] = {
    "scan": (_scanned, _unrolled),
    "reversed": (lambda *args: _scanned(*args, reverse=True), lambda *args: _unrolled(*args, reverse=True)),
    "fori": (_fori, _fori_unrolled),
    "cond": (_cond, _cond_unrolled),
    "while": (_while, _while_unrolled),
    "nested": (_nested, _nested_unrolled),
}


def _arguments() -> tuple[sm.Tensor, ...]:
    return sm.asarray(W), sm.asarray(H), sm.asarray(XS)


def _same(got: Any, expected: Any) -> None:
    for a, b in zip(tree.flatten(got)[0], interpreted(expected), strict=True):
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.by_turns(2)
def test_gradients(name: str) -> None:
    looped, unrolled = PAIRS[name]
    args = _arguments()
    _same(sm.value_and_grad(looped, (0, 1, 2))(*args), sm.value_and_grad(unrolled, (0, 1, 2))(*args))
    _same(sm.jit(sm.grad(looped, (0, 1, 2)))(*args), sm.grad(unrolled, (0, 1, 2))(*args))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.by_turns(2)
def test_forward_mode(name: str) -> None:
    looped, unrolled = PAIRS[name]
    args = _arguments()
    tangents = tuple(sm.asarray(RNG.standard_normal(x.shape)) for x in args)
    _same(sm.jvp(looped, args, tangents), sm.jvp(unrolled, args, tangents))
    only = (lambda h: looped(args[0], h, args[2])), (lambda h: unrolled(args[0], h, args[2]))
    _same(sm.jvp(only[0], args[1:2], tangents[1:2]), sm.jvp(only[1], args[1:2], tangents[1:2]))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.by_turns(3)
def test_second_derivatives(name: str) -> None:
    looped, unrolled = PAIRS[name]
    w, h, xs = _arguments()
    _same(sm.hessian(lambda h: looped(w, h, xs))(h), sm.hessian(lambda h: unrolled(w, h, xs))(h))
    directions = sm.asarray(RNG.standard_normal((3, 3)))

    def along(f: Callable[..., sm.Tensor]) -> Callable[[sm.Tensor], sm.Tensor]:
        return lambda w: (sm.grad(f)(w, h, xs) * directions).sum()

    _same(sm.grad(along(looped))(w), sm.grad(along(unrolled))(w))


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("in_axes", [(None, 0, None), (None, None, 0), (0, 0, 0), (0, None, None)])
@pytest.mark.by_turns(3)
def test_batches(name: str, in_axes: tuple[int | None, ...]) -> None:
    looped, _ = PAIRS[name]
    args = _arguments()
    stacks = [
        sm.asarray(np.stack([x.numpy(), -x.numpy(), 0.5 * x.numpy()])) if axis == 0 else x
        for x, axis in zip(args, in_axes, strict=True)
    ]
    got = sm.vmap(looped, in_axes=in_axes)(*stacks).numpy()
    for k in range(3):
        single = looped(*(x[k] if axis == 0 else x for x, axis in zip(stacks, in_axes, strict=True)))
        np.testing.assert_allclose(got[k], single.numpy(), rtol=1e-9)


def test_a_while_loop_runs_until_the_last_element_of_a_batch_is_done() -> None:
    def halved(x: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return sm.while_loop(lambda s: s[0] > 1, lambda s: (s[0] / 2, s[1] + 1), (x, sm.asarray(0)))

    values, counts = sm.vmap(halved)(sm.asarray([1.0, 8.0, 5.0, 0.5]))
    assert values.tolist() == [1.0, 1.0, 0.625, 0.5]
    assert counts.tolist() == [0, 3, 3, 0]


def test_slices_that_all_elements_share() -> None:
    def function(scale: sm.Tensor, xs: sm.Tensor) -> tuple[sm.Tensor, sm.Tensor]:
        return sm.scan(lambda s, x: (s + x.sum() * scale, x * 2), sm.asarray(0.0, dtype=sm.float64), xs)

    totals, doubled = sm.vmap(function, in_axes=(0, None))(sm.asarray([1.0, 2.0], dtype=sm.float64), sm.asarray(XS))
    np.testing.assert_allclose(totals.numpy(), [XS.sum(), 2 * XS.sum()])
    np.testing.assert_allclose(doubled.numpy(), [2 * XS, 2 * XS])


def test_gradients_of_each_element() -> None:
    w, _, xs = _arguments()
    hs = sm.asarray(np.stack([H, -H]))
    slope = sm.grad(lambda h: _scanned(w, h, xs))
    got = sm.vmap(slope)(hs).numpy()
    for k in range(2):
        np.testing.assert_allclose(got[k], slope(hs[k]).numpy(), rtol=1e-9)


def test_gradients_inside_a_body() -> None:
    """Descent along a gradient that is taken inside the loop, and the derivative of where it ends."""
    target = sm.asarray(H)

    def descended(x: sm.Tensor) -> sm.Tensor:
        def step(i: sm.Tensor, x: sm.Tensor) -> sm.Tensor:
            return x - 0.1 * sm.grad(lambda x: ((x - target) ** 4).sum())(x)

        return sm.fori_loop(0, 10, step, x)

    def unrolled(x: sm.Tensor) -> sm.Tensor:
        for _ in range(10):
            x = x - 0.1 * 4 * (x - target) ** 3
        return x

    start = sm.asarray(np.zeros(3))
    _same(descended(start), unrolled(start))
    _same(sm.jacobian(descended)(start), sm.jacobian(unrolled)(start))


def test_a_while_loop_without_a_bound_has_no_way_back() -> None:
    def function(x: sm.Tensor) -> sm.Tensor:
        return sm.while_loop(lambda x: x < 100, lambda x: x * x, x)

    with pytest.raises(GradientError, match="needs to know how many steps"):
        sm.grad(function)(sm.asarray(3.0))
    _, change = sm.jvp(function, (sm.asarray(3.0),), (sm.asarray(1.0),))
    assert float(change) == 8 * 3.0**7


def test_no_iterations() -> None:
    w, h, _ = _arguments()
    empty = sm.asarray(np.zeros((0, 3)))
    by_w, by_h = sm.grad(lambda w, h: _scanned(w, h, empty) + h.sum(), (0, 1))(w, h)
    assert by_w.tolist() == np.zeros((3, 3)).tolist()
    assert by_h.tolist() == [1.0, 1.0, 1.0]


def test_a_value_and_its_gradient_run_the_loop_once() -> None:
    w, h, xs = _arguments()
    both = sm.jit(sm.value_and_grad(_scanned))
    both(w, h, xs)
    bodies = [record for record in examine(both, w, h, xs).kernels if "tanh" in record.nodes]
    assert len(bodies) == 2  # on the way there, and computed again on the way back


@pytest.mark.parametrize("change", [lambda x: x * 0.5, lambda x: sm.concat([x[:1], x[1:] * x[:1]])])
def test_numbers_and_slices_inside_do_not_make_it_run_twice(change: Callable[[sm.Tensor], sm.Tensor]) -> None:
    w, h, xs = _arguments()

    @sm.jit
    @sm.value_and_grad
    def both(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor) -> sm.Tensor:
        h, ys = sm.scan(lambda h, x: (change(w @ h + x).tanh(), h.sum()), h, xs)
        return ys.sum() + h.sum()

    both(w, h, xs)
    bodies = [record for record in examine(both, w, h, xs).kernels if "tanh" in record.nodes]
    assert len(bodies) == 2


def _loops(*tensors: sm.Tensor) -> list[Loop]:
    order = topological([tensor._node for tensor in tensors])
    return [node.attribute for node in order if node.op is Op.LOOP]


def _gated(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor, reverse: bool = False) -> sm.Tensor:
    """Two states that are both given out, of a product that is cut into gates."""

    def step(states: Any, x: sm.Tensor) -> Any:
        h, c = states
        gates = h @ w + x
        c = c * 0.5 + gates[:, :3].sigmoid() * gates[:, 3:].tanh()
        return (c.tanh(), c), (c.tanh(), c)

    _, (hs, _) = sm.scan(step, (h, h), xs, reverse=reverse)
    return (hs * hs).sum()


def _gated_unrolled(w: sm.Tensor, h: sm.Tensor, xs: sm.Tensor, reverse: bool = False) -> sm.Tensor:
    total, c = sm.asarray(0.0, dtype=w.dtype), h
    for k in range(xs.shape[0])[:: -1 if reverse else 1]:
        gates = h @ w + xs[k]
        c = c * 0.5 + gates[:, :3].sigmoid() * gates[:, 3:].tanh()
        h = c.tanh()
        total = total + (h * h).sum()
    return total


GATED = [RNG.standard_normal(shape) * 0.5 for shape in ((3, 6), (2, 3), (5, 2, 6))]


@pytest.mark.parametrize("reverse", [False, True])
def test_states_that_are_given_out_need_no_second_loop(reverse: bool) -> None:
    arguments = [sm.asarray(x) for x in GATED]
    value, gradients = sm.value_and_grad(lambda *args: _gated(*args, reverse), (0, 1, 2))(*arguments)
    there, back = _loops(value, *gradients)
    assert there.reverse is reverse and back.reverse is not reverse
    _same(gradients, sm.grad(lambda *args: _gated_unrolled(*args, reverse), (0, 1, 2))(*arguments))


def test_products_are_summed_up_after_the_loop() -> None:
    w, h, xs = (sm.asarray(x) for x in GATED)
    back = _loops(sm.grad(_gated)(w, h, xs))[-1]
    assert [root.shape for root in back.body[: back.states]] == [(2, 3), (2, 3)]
    many = sm.ones((40, 3), dtype=sm.float64)  # now what would have to be stored is larger than the sum

    def squared(w: sm.Tensor) -> sm.Tensor:
        return sm.scan(lambda h, _: ((h @ w).tanh(), None), many, length=4)[0].sum()

    back = _loops(sm.grad(squared)(w[:, :3]))[-1]
    assert [root.shape for root in back.body[: back.states]] == [(40, 3), (3, 3)]


def test_sums_over_many_iterations_are_rounded_once() -> None:
    arrays = [RNG.standard_normal((8, 8)) * 0.1, RNG.standard_normal(8), RNG.standard_normal((2000, 4, 8)) + 1.0]

    def gated(w: sm.Tensor, b: sm.Tensor, x: sm.Tensor) -> sm.Tensor:
        def step(h: sm.Tensor, x: sm.Tensor) -> Any:
            h = (x.sigmoid() * (h @ w + b) + x).tanh()
            return h, h

        return sm.scan(step, sm.zeros((4, 8), dtype=x.dtype), x)[1].astype(sm.float64).sum()

    exact = sm.grad(gated, (0, 1))(*map(sm.asarray, arrays))
    narrow = sm.grad(gated, (0, 1))(*[sm.asarray(x).astype(sm.bfloat16) for x in arrays])
    for got, expected in zip(narrow, exact, strict=True):
        largest = float(expected.abs().max())
        np.testing.assert_allclose(got.astype(sm.float64).numpy(), expected.numpy(), rtol=0.05, atol=0.02 * largest)


def test_a_gradient_over_a_symbolic_number_of_steps() -> None:
    w, h, xs = (sm.asarray(x) for x in GATED)
    n = sm.Dim("n", 1, 9)
    run = sm.jit(sm.grad(_gated, (0, 1, 2)), shapes=[(3, 6), (2, 3), (n, 2, 6)])
    for steps in (1, 4):
        _same(run(w, h, xs[:steps]), sm.grad(_gated_unrolled, (0, 1, 2))(w, h, xs[:steps]))
