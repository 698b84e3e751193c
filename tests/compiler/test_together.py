"""Parts that are computed alike are computed together, and nothing else is."""

from collections.abc import Callable

import numpy as np
import pytest

import smelt as sm
from smelt.compiler import trace
from smelt.compiler.together import LARGEST
from smelt.graph import Op
from smelt.tensor import node_of

HEADS, SIZE = 4, 8
generator = np.random.default_rng(0)


def drawn(*shape: int) -> sm.Tensor:
    return sm.tensor(generator.standard_normal(shape, dtype=np.float32))


def head(x: sm.Tensor, k: int) -> sm.Tensor:
    return x[:, k * SIZE : (k + 1) * SIZE]


def products(result: sm.Tensor, contracts: str = "reassociates") -> int:
    """How many products a program has, once it is traced."""
    return sum(entry[0] is Op.CONTRACT for entry in trace([node_of(result, "test")], contracts).key.entries)


def attention(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> sm.Tensor:
    parts = []
    for number in range(HEADS):
        scores = head(q, number) @ head(k, number).T * 0.25
        parts.append(sm.softmax(scores, axis=-1) @ head(v, number))
    return sm.concat(parts, axis=1)


def by_row(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    return sm.stack([x[k] @ w[k] for k in range(HEADS)])


def turned(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    return sm.stack([sm.tanh(x[k] @ w) for k in range(HEADS)], axis=-1)


def inner(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    """What comes in parts is computed itself."""
    return by_row(sm.exp(x), w * 2.0)


ALIKE: list[tuple[Callable[..., sm.Tensor], tuple[tuple[int, ...], ...], int]] = [
    (attention, ((5, HEADS * SIZE), (7, HEADS * SIZE), (7, HEADS * SIZE)), 2),
    (by_row, ((HEADS, 3, 5), (HEADS, 5, 7)), 1),
    (turned, ((HEADS, 3, 5), (5, 7)), 1),
    (inner, ((HEADS, 3, 5), (HEADS, 5, 7)), 1),
]


@pytest.mark.parametrize(("function", "shapes", "count"), ALIKE, ids=[row[0].__name__ for row in ALIKE])
def test_parts_that_are_alike_are_computed_together(
    function: Callable[..., sm.Tensor], shapes: tuple[tuple[int, ...], ...], count: int
) -> None:
    given = [drawn(*shape) for shape in shapes]
    assert products(function(*given)) == count
    assert products(function(*given), "off") == products(function(*given), "exact") == HEADS * count
    together, apart = (sm.jit(function, contracts=contracts)(*given).numpy() for contracts in ("reassociates", "off"))
    assert np.allclose(together, apart, rtol=1e-5, atol=1e-6)


def test_gradients_are_those_of_the_parts() -> None:
    given = [drawn(HEADS, 3, 5), drawn(HEADS, 5, 7)]
    slope = sm.grad(lambda x, w: sm.sum(sm.tanh(by_row(x, w))))
    together, apart = (sm.jit(slope, contracts=contracts)(*given).numpy() for contracts in ("reassociates", "off"))
    assert np.allclose(together, apart, rtol=1e-5, atol=1e-6)


def test_parts_of_parts_are_computed_together() -> None:
    def twice(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
        return by_row(sm.tanh(by_row(by_row(x, w), w)), w)

    given = [drawn(HEADS, 3, 5), drawn(HEADS, 5, 5)]
    assert products(twice(*given)) == 3
    x, w = (one.numpy() for one in given)
    expected = np.tanh(x @ w @ w) @ w
    assert np.allclose(sm.jit(twice)(*given).numpy(), expected, rtol=1e-4, atol=1e-4)


def _apart() -> dict[str, sm.Tensor]:
    x, w = drawn(HEADS, 3, 5), drawn(HEADS, 5, 7)
    numbers = range(HEADS)
    return {
        "in another order": sm.stack([x[k] @ w[HEADS - 1 - k] for k in numbers]),
        "not alike": sm.stack([x[k] @ w[k] if k else sm.exp(x[k] @ w[k]) for k in numbers]),
        "inputs of their own": sm.stack([drawn(3, 5) @ w[k] for k in numbers]),
        "of other tensors": sm.stack([(x[k] if k else drawn(HEADS, 3, 5)[k]) @ w[k] for k in numbers]),
        "no products": sm.stack([sm.exp(x[k]) for k in numbers]),
        "two of them": sm.stack([x[k] @ w[k] for k in range(2)]),
    }


@pytest.mark.parametrize("name", list(_apart()))
def test_other_parts_stay_apart(name: str) -> None:
    result = _apart()[name]
    assert products(result) == products(result, "off")


def test_what_others_read_is_computed_once() -> None:
    x, w = drawn(HEADS, 3, 5), drawn(HEADS, 5, 7)
    parts = [x[k] @ w[k] for k in range(HEADS)]
    roots = [node_of(sm.stack(parts), "test"), node_of(sm.sum(parts[0]), "test")]
    assert sum(entry[0] is Op.CONTRACT for entry in trace(roots, "reassociates").key.entries) == HEADS


def test_what_all_parts_share_may_be_computed_of_one() -> None:
    def shared(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
        first = sm.exp(w[0])
        return sm.stack([x[k] @ (w[k] * first) for k in range(HEADS)])

    x, w = drawn(HEADS, 3, 5), drawn(HEADS, 5, 7)
    assert products(shared(x, w)) == 1
    expected = x.numpy() @ (w.numpy() * np.exp(w.numpy()[0]))
    assert np.allclose(sm.jit(shared)(x, w).numpy(), expected, rtol=1e-4, atol=1e-4)


def test_what_is_large_stays_apart() -> None:
    rows = LARGEST // HEADS // 16
    for more, count in ((0, 1), (1, HEADS)):
        x, w = sm.zeros((HEADS, rows + more, 2)), sm.zeros((HEADS, 2, 16))
        assert products(by_row(x, w)) == count
