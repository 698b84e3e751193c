"""`vmap`: what a loop over the elements gives, with axes, trees, other transforms, and the mistakes it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, AxisError, IndexRangeError, ShapeError, SmeltError, TraceError
from smelt.graph.node import topological
from smelt.graph.ops import Op

rng = np.random.default_rng(5)


def floats(*shape: int) -> sm.Tensor:
    return sm.asarray(rng.standard_normal(shape).astype(np.float32))


def looped(function: Callable[..., sm.Tensor], *batches: sm.Tensor) -> Any:
    """The reference: one element after the other."""
    return np.stack([function(*row).numpy() for row in zip(*(sm.unstack(x) for x in batches), strict=True)])


def same(got: sm.Tensor, expected: Any) -> None:
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-6)


# --- axes


def test_the_first_axis_by_default() -> None:
    x, y = floats(3, 4), floats(3, 4)
    same(sm.vmap(sm.vecdot)(x, y), looped(sm.vecdot, x, y))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_any_axis_in(axis: int) -> None:
    x = floats(2, 3, 4)
    expected = np.stack([x.numpy().take(k, axis).cumsum(0) for k in range(x.shape[axis])])
    same(sm.vmap(lambda x: x.cumsum(axis=0), in_axes=axis)(x), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
def test_any_axis_out(axis: int) -> None:
    x = floats(3, 4)
    result = sm.vmap(lambda row: sm.outer(row, row), out_axes=axis)(x)
    same(result, np.moveaxis(x.numpy()[:, :, None] * x.numpy()[:, None, :], 0, axis))


def test_one_axis_for_each_argument() -> None:
    x, w, b = floats(3, 4), floats(4, 5, 3), floats(5)
    result = sm.vmap(lambda x, w, b: x @ w + b, in_axes=(0, -1, None))(x, w, b)
    same(result, np.einsum("bi,ijb->bj", x.numpy(), w.numpy()) + b.numpy())


def test_a_list_of_axes_is_as_good_as_a_tuple() -> None:
    x, y = floats(3, 4), floats(4)
    same(sm.vmap(sm.add, in_axes=[0, None])(x, y), x.numpy() + y.numpy())


def test_keyword_arguments_are_mapped_over_their_first_axis() -> None:
    x, y = floats(3, 4), floats(3, 4)
    same(sm.vmap(lambda x, *, y: x - y, in_axes=0)(x, y=y), x.numpy() - y.numpy())
    same(sm.vmap(lambda x, *, y: x - y, in_axes=None)(floats(4) * 0, y=y), -y.numpy())


def test_numbers_and_strings_are_shared() -> None:
    def f(x: sm.Tensor, scale: float, flag: bool, how: str, nothing: None) -> sm.Tensor:
        assert (scale, flag, how, nothing) == (2.5, True, "sum", None)
        return getattr(x, how)() * scale

    x = floats(3, 4)
    same(sm.vmap(f)(x, 2.5, True, "sum", None), x.numpy().sum(1) * 2.5)  # type: ignore[arg-type]


def test_arrays_are_mapped_over_like_tensors() -> None:
    x = rng.standard_normal((3, 4)).astype(np.float32)
    same(sm.vmap(sm.flip)(x), x[:, ::-1])


def test_nothing_mapped_with_a_size() -> None:
    x = floats(4)
    same(sm.vmap(lambda x: x * 2, in_axes=None, axis_size=3)(x), np.stack([x.numpy() * 2] * 3))
    same(sm.vmap(lambda: sm.ones((2,)), axis_size=3)(), np.ones((3, 2)))


def test_an_empty_batch() -> None:
    assert sm.vmap(lambda x: x.sum() + 1)(floats(0, 4)).numpy().shape == (0,)


# --- trees


class Pair(NamedTuple):
    first: sm.Tensor
    second: sm.Tensor


def test_trees_in_and_out() -> None:
    def f(model: dict[str, Any], pair: Pair) -> dict[str, Any]:
        return {"sum": model["w"][0] + pair.first, "parts": [pair.second, model["w"][1]], "name": model["name"]}

    model = {"w": [floats(3, 4), floats(2)], "name": "m"}
    pair = Pair(floats(4), floats(5, 3))
    axes = ({"w": [0, None], "name": None}, Pair(None, 1))  # type: ignore[arg-type]
    out = {"sum": 1, "parts": [0, None], "name": None}
    result = sm.vmap(f, axes, out)(model, pair)
    same(result["sum"], (model["w"][0].numpy() + pair.first.numpy()).T)
    same(result["parts"][0], pair.second.numpy().T)
    same(result["parts"][1], model["w"][1].numpy())
    assert result["name"] == "m"


def test_a_prefix_counts_for_everything_below() -> None:
    x = {"a": floats(4, 3), "b": [floats(2, 3), (floats(3),)]}
    result = sm.vmap(lambda x: x["a"].sum() + x["b"][0].sum() + x["b"][1][0], in_axes=({"a": 1, "b": -1},))(x)
    same(result, x["a"].numpy().sum(0) + x["b"][0].numpy().sum(0) + x["b"][1][0].numpy())


def test_results_that_are_no_tensors_come_back_as_they_are() -> None:
    x = floats(3, 4)
    assert sm.vmap(lambda x: (x.shape[0], "text", None, 1.5))(x) == (4, "text", None, 1.5)


def test_results_that_do_not_depend_on_the_arguments_are_repeated() -> None:
    assert sm.vmap(lambda x: sm.arange(2))(floats(3, 4)).tolist() == [[0, 1]] * 3
    shared = floats(5)
    assert sm.vmap(lambda x: shared, out_axes=None)(floats(3, 4)) is shared


# --- with itself and with jit


def test_nested() -> None:
    x, y = floats(3, 5), floats(4, 5)
    table = sm.vmap(sm.vmap(sm.vecdot, in_axes=(None, 0)), in_axes=(0, None))
    same(table(x, y), x.numpy() @ y.numpy().T)


def test_nested_over_three_levels_of_closures() -> None:
    x, y, z = floats(2), floats(3), floats(4)
    f = sm.vmap(lambda a: sm.vmap(lambda b: sm.vmap(lambda c: a * b - c)(z))(y))
    same(f(x), x.numpy()[:, None, None] * y.numpy()[:, None] - z.numpy())


def test_closures_over_tensors() -> None:
    w, x = floats(4, 5), floats(3, 4)
    same(sm.vmap(lambda row: row @ w)(x), x.numpy() @ w.numpy())


def test_of_jit_and_in_jit() -> None:
    w, x = floats(4, 5), floats(3, 4)
    expected = looped(lambda row: (row @ w).softmax(-1), x)
    f = sm.jit(lambda row, w: (row @ w).softmax(-1))
    same(sm.vmap(f, in_axes=(0, None))(x, w), expected)
    batched = sm.jit(sm.vmap(lambda row, w: (row @ w).softmax(-1), in_axes=(0, None)))
    for _ in range(3):
        same(batched(x, w), expected)
    same(sm.jit(lambda x, w: sm.vmap(lambda row: (row @ w).softmax(-1))(x))(x, w), expected)


def test_jit_sees_what_a_batched_function_closes_over() -> None:
    w = floats(4)
    f = sm.jit(sm.vmap(lambda row: row * w))
    x = floats(3, 4)
    same(f(x), x.numpy() * w.numpy())
    w = floats(4)
    same(f(x), x.numpy() * w.numpy())


def test_numbers_of_a_jit_stay_numbers() -> None:
    f = sm.jit(lambda x, n: sm.vmap(lambda x, n: x * n)(x, n) + n)
    x = floats(3, 4).astype(sm.float16)
    result = f(x, 2.5)
    assert result.dtype is sm.float16
    same(result, x.numpy() * np.float16(2.5) + np.float16(2.5))


def test_static_arguments_of_a_batched_function() -> None:
    f = sm.jit(sm.vmap(lambda x, how: getattr(x, how)()), static="how")
    x = floats(3, 4)
    same(f(x, "sum"), x.numpy().sum(1))
    same(f(x, how="max"), x.numpy().max(1))


def test_a_batch_of_symbolic_size() -> None:
    n = sm.Dim("n", 1, 64)
    table = floats(7, 4)
    f = sm.vmap(lambda row, k: (row.softmax(-1) + table[k]).sort().cumsum(0), in_axes=(0, 0))
    compiled = sm.jit(f, shapes=[(n, 4), (n,)])
    for size in (1, 5, 64):
        x, k = floats(size, 4), sm.asarray(rng.integers(0, 7, size))
        same(compiled(x, k), f(x, k).numpy())


def test_a_method() -> None:
    class Layer:
        def __init__(self) -> None:
            self.w = floats(4, 5)

        @sm.vmap
        def apply(self, x: sm.Tensor) -> sm.Tensor:
            return x @ self.w

        forward = sm.vmap(lambda self, x: x @ self.w, in_axes=(None, 0))

    layer, x = Layer(), floats(3, 4)
    same(layer.forward(x), x.numpy() @ layer.w.numpy())
    with pytest.raises(ArgumentError, match="argument 0 is a Layer"):
        layer.apply(x)


def test_the_name_and_the_text_stay() -> None:
    def documented(x: sm.Tensor) -> sm.Tensor:
        """What it does."""
        return x

    batched = sm.vmap(documented)
    assert (batched.__name__, batched.__doc__) == ("documented", "What it does.")
    assert batched.__wrapped__ is documented


# --- lookups, random numbers


def test_each_element_looks_up_its_own_row() -> None:
    x, k = floats(3, 5, 2), sm.asarray([4, 0, -1])
    same(sm.vmap(lambda x, k: x[k])(x, k), x.numpy()[[0, 1, 2], [4, 0, -1]])


def test_a_table_that_all_share_is_not_copied() -> None:
    table, k = floats(100, 8), sm.asarray(rng.integers(0, 100, (3, 6)))
    result = sm.vmap(lambda k: table[k])(k)
    gathers = [node for node in topological([result._node]) if node.op is Op.GATHER]
    assert [node.sources[0] for node in gathers] == [table._node]
    same(result, table.numpy()[k.numpy()])


def test_masks_that_all_share() -> None:
    x, mask = floats(3, 5), sm.asarray([True, False, True, True, False])
    same(sm.vmap(lambda row: row[mask])(x), x.numpy()[:, mask.numpy()])
    same(sm.vmap(lambda row: sm.masked_select(row, mask))(x), x.numpy()[:, mask.numpy()])
    weights = floats(3, 4)
    counts = sm.vmap(lambda w: sm.bincount(sm.asarray([2, 0, 2, 1]), w))(weights)
    same(counts, looped(lambda w: sm.bincount(sm.asarray([2, 0, 2, 1]), w), weights))


def test_positions_with_a_size() -> None:
    x = sm.asarray([[0, 5, 0, 7], [0, 0, 0, 0], [1, 2, 3, 4]])
    (places,) = sm.vmap(lambda row: sm.nonzero(row, size=3, fill_value=-1))(x)
    assert places.tolist() == [[1, 3, -1], [-1, -1, -1], [0, 1, 2]]


def test_updates() -> None:
    x, k, v = floats(3, 5), sm.asarray([1, 0, 4]), floats(3)
    expected = x.numpy().copy()
    expected[[0, 1, 2], k.numpy()] += v.numpy()
    same(sm.vmap(lambda x, k, v: x.at[k].add(v))(x, k, v), expected)


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x, k: x[:, k], "indexing"),
        (lambda x, k: x.at[:, k].add(1), "at[...].add"),
        (lambda x, k: sm.vmap(lambda k: x[:, k])(k + sm.zeros((2,), dtype=sm.int64)), "indexing"),
    ],
)
def test_an_index_outside_is_reported_with_the_axis_and_line_of_the_function(function: Any, name: str) -> None:
    result = sm.vmap(function)(floats(3, 2, 5), sm.asarray([4, 0, -9]))
    with pytest.raises(IndexRangeError) as caught:
        result.numpy()
    assert str(caught.value).startswith(f"{name}: index -9 is out of range for axis 1 of size 5\n  at test_vmap.py:")


def test_each_element_has_random_draws_of_its_own_and_so_has_each_key() -> None:
    def noise(x: sm.Tensor) -> sm.Tensor:
        return sm.random.normal((4,)) + 0 * x

    for draw in (sm.vmap(noise), sm.jit(sm.vmap(noise)), sm.vmap(sm.vmap(lambda x: sm.random.uniform() + 0 * x))):
        assert len(np.unique(draw(floats(3, 4)).numpy())) == 12
    dropped = sm.vmap(sm.nn.Dropout(0.5))(sm.ones(8, 32)).numpy()
    assert len({row.tobytes() for row in dropped}) == 8
    shared = sm.vmap(lambda x: x + sm.random.normal(key=sm.random.key(1)))(sm.zeros(3)).numpy()
    assert (shared == shared[0]).all()
    keys = sm.random.split(sm.random.key(3), 3)
    own = sm.vmap(lambda key: sm.random.normal((4,), key=key))(keys)
    same(own, looped(lambda key: sm.random.normal((4,), key=key), keys))
    assert len({tuple(row) for row in own.tolist()}) == 3


def test_printing_inside_shows_no_values(capsys: pytest.CaptureFixture[str]) -> None:
    sm.vmap(lambda x: print(x * 2))(floats(3, 4))
    assert capsys.readouterr().out == "Tensor(shape=(4,), dtype=float32, device=cpu, lazy)\n"


def test_values_of_other_tensors_may_be_read_inside() -> None:
    limit = sm.asarray(2.0)
    x = floats(3, 4)
    same(sm.vmap(lambda row: row * 2 if limit * 2 > 3 else row)(x), 2 * x.numpy())


# --- mistakes


LEAKED: list[sm.Tensor] = []


def leak(x: sm.Tensor) -> sm.Tensor:
    LEAKED.append(x)
    return x


MISTAKES: list[tuple[Callable[[], Any], type[SmeltError], str]] = [
    (lambda: sm.vmap(3), ArgumentError, "vmap: 3 is not a function"),  # type: ignore[arg-type]
    (lambda: sm.vmap(sm.exp, axis_size=-1), ArgumentError, "axis_size must be an integer that is not negative"),
    (lambda: sm.vmap(sm.exp, axis_size=2.0), ArgumentError, "axis_size must be an integer"),  # type: ignore[arg-type]
    (
        lambda: sm.vmap(sm.add)(floats(3, 2), floats(4, 2)),
        ShapeError,
        "the sizes of mapped axes differ: axis 0 of argument 0 is 3, axis 0 of argument 1 is 4",
    ),
    (
        lambda: sm.vmap(lambda p, *, y: y, in_axes=({"w": [1]},))({"w": [floats(3, 2)]}, y=floats(5)),
        ShapeError,
        "axis 1 of argument 0['w'][0] is 2, axis 0 of argument y is 5",
    ),
    (
        lambda: sm.vmap(lambda p: p.first, in_axes=1)(Pair(floats(3, 2), floats(3))),
        AxisError,
        "axis 1 is out of range for argument 0.second, of shape (3,)",
    ),
    (lambda: sm.vmap(sm.exp, axis_size=4)(floats(3)), ShapeError, "axis_size is 4, axis 0 of argument 0 is 3"),
    (lambda: sm.vmap(sm.exp, in_axes=2)(floats(3, 2)), AxisError, "axis 2 is out of range for argument 0"),
    (lambda: sm.vmap(sm.exp)(sm.asarray(1.0)), AxisError, "it has no axes: it is a scalar."),
    (lambda: sm.vmap(sm.exp, in_axes=None)(floats(3)), ArgumentError, "vmap: no argument is mapped over"),
    (lambda: sm.vmap(lambda x: x)(2.0), ArgumentError, "vmap: no argument is mapped over"),
    (lambda: sm.vmap(lambda x, f: x)(floats(3), len), ArgumentError, "argument 1 is a builtin_function_or_method"),
    (lambda: sm.vmap(sm.exp, in_axes="x")(floats(3)), ArgumentError, "in_axes has 'x'"),
    (lambda: sm.vmap(sm.exp, in_axes=True)(floats(3)), ArgumentError, "in_axes has True"),
    (lambda: sm.vmap(sm.exp, in_axes=(0, 0))(floats(3)), ArgumentError, "in_axes has a tuple of 2 where there is a tu"),
    (
        lambda: sm.vmap(lambda x: x, in_axes=({"a": 0},))({"b": floats(3)}),
        ArgumentError,
        "has a dict of 'a' where there",
    ),
    (
        lambda: sm.vmap(sm.exp, out_axes=(0, 0))(floats(3)),
        ArgumentError,
        "out_axes has a tuple of 2 where there is a l",
    ),
    (lambda: sm.vmap(sm.exp, out_axes="x")(floats(3)), ArgumentError, "out_axes has 'x'"),
    (lambda: sm.vmap(sm.exp, out_axes=2)(floats(3, 2)), AxisError, "axis 2 is out of range for the result"),
    (lambda: sm.vmap(sm.exp, out_axes=None)(floats(3)), ArgumentError, "which differs from element to element"),
    (
        lambda: sm.vmap(lambda x: {"n": 2}, out_axes=1)(floats(3)),
        ArgumentError,
        "out_axes is 1 for the result['n'], a ",
    ),
    (lambda: sm.vmap(lambda x: x if x > 0 else -x)(floats(3)), TraceError, "bool: the value is not known"),
    (lambda: sm.vmap(float)(floats(3)), TraceError, "jit and vmap run it with stand-ins"),
    (lambda: sm.vmap(lambda x: x.numpy())(floats(3, 2)), TraceError, "numpy: the value is not known"),
    (lambda: sm.vmap(lambda x: x.realize())(floats(3, 2)), TraceError, "the value is not known"),
    (lambda: sm.vmap(lambda x: x[x > 0])(floats(3, 2)), TraceError, "how many elements a mask selects is not known"),
    (lambda: sm.vmap(sm.nonzero)(floats(3, 2)), TraceError, "Give size=, a size that is large enough."),
    (lambda: sm.vmap(sm.unique)(floats(3, 2)), TraceError, "Call it outside of jit and vmap."),
    (lambda: (sm.vmap(leak)(floats(3, 2)), LEAKED[-1].numpy()), TraceError, "numpy: the value is not known"),
    (lambda: (sm.vmap(leak)(floats(3, 2)), (LEAKED[-1] + 1).numpy()), TraceError, "In jit and vmap use sm.where"),
]


@pytest.mark.parametrize(("mistake", "error", "text"), MISTAKES, ids=[text for _, _, text in MISTAKES])
def test_mistakes(mistake: Callable[[], Any], error: type[SmeltError], text: str) -> None:
    with pytest.raises(error) as caught:
        mistake()
    assert text in str(caught.value)
    assert "  at test_vmap.py:" in str(caught.value)


def test_arguments_and_their_history_are_untouched() -> None:
    x = floats(3, 4)
    y = x * 2
    node = y._node
    result = sm.vmap(lambda row: row + 1)(y)
    assert y._node is node
    assert "lazy" in repr(result)
    same(result, x.numpy() * 2 + 1)
