"""What a Tensor is: its properties, its text, its values, and that it never changes."""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.errors import (
    ArgumentError,
    DeviceError,
    DTypeError,
    MemoryLimitError,
    ShapeError,
    SmeltError,
    TraceError,
    TraceWarning,
)
from smelt.graph.ops import Op
from smelt.runtime import Placeholder


def traced(*shape: Any) -> sm.Tensor:
    """A tensor that stands for an argument of a function being traced."""
    from smelt.tensor import wrap

    return wrap(Placeholder(sm.float32, shape, (1,) * len(shape)).node())


def test_properties() -> None:
    x = sm.zeros((2, 3, 5), dtype=sm.int16)
    assert (x.shape, x.dtype, x.ndim, x.dim(), x.size, x.numel(), x.nbytes) == ((2, 3, 5), sm.int16, 3, 3, 30, 30, 60)
    assert x.device == "cpu"
    assert x.mT.shape == (2, 5, 3)
    assert sm.zeros(2, 3).T.shape == (3, 2)
    with pytest.raises(ShapeError, match="Use mT for the last two axes"):
        _ = x.T  # type: ignore[misc]


def test_repr_shows_values_that_are_there_and_never_computes() -> None:
    y = sm.asarray([1.0, 2.0]) + 1
    assert repr(y) == "Tensor(shape=(2,), dtype=float32, device=cpu, lazy)"
    assert y._node.op is Op.BINARY and y._node.leaf is None
    y.realize()
    assert repr(y) == "Tensor([2., 3.], dtype=float32)" and f"{[y]}" == "[Tensor([2., 3.], dtype=float32)]"
    sm.jit(lambda x: x + 1, donate=0)(y)
    assert repr(y) == "Tensor(shape=(2,), dtype=float32, device=cpu, donated)"
    assert "donated" in y._repr_html_() and "<pre>" not in y._repr_html_()


def test_print_shows_values() -> None:
    assert str(sm.asarray([[1, 2], [3, 4]], dtype=sm.float32)) == "Tensor([[1., 2.],\n        [3., 4.]], dtype=float32)"
    assert str(sm.asarray(3)) == "Tensor(3, dtype=int64)"
    assert str(sm.asarray([1.5], dtype=sm.bfloat16)) == "Tensor([1.5], dtype=bfloat16)"
    assert str(sm.zeros(0, 3)) == "Tensor([], shape=(0, 3), dtype=float32)"
    assert f"{sm.asarray(2.0):.2f}" == "2.00"
    assert "..." in str(sm.arange(100_000))


def test_notebooks_get_values_that_exist_already() -> None:
    x = sm.asarray([1.0, 2.0]) * 2
    assert "lazy" in x._repr_html_()
    assert "[2., 4.]" in x.realize()._repr_html_()
    assert "<pre>" not in (x + 1)._repr_html_()


def test_values() -> None:
    x = sm.asarray([[1, 2], [3, 4]])
    assert x.tolist() == [[1, 2], [3, 4]]
    assert (x[1, 1].item(), float(x[0, 1]), int(x[1, 0])) == (4, 2.0, 3)
    assert [10, 20, 30][sm.asarray(1)] == 20
    assert [row.tolist() for row in x] == [[1, 2], [3, 4]]
    assert len(x) == 2
    assert 3 in x and 7 not in x
    assert bool(sm.asarray([[5]])) and not bool(sm.asarray(0.0))
    assert math.isnan(sm.asarray(float("nan")).item())


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda x: x.item(), ArgumentError, "exactly one element"),
        (float, ArgumentError, "exactly one element"),
        (bool, ArgumentError, "Use any() or all()"),
        (lambda x: [1, 2][x[0]], DTypeError, "float32 tensor cannot be used as an index"),
        (lambda x: len(x[0]), ArgumentError, "a tensor of rank 0 has no length"),
        (lambda x: list(x[0]), ArgumentError, "rank 0 has no elements to go through"),
        (lambda x: x.to("gpu"), DeviceError, "there is no device 'gpu'"),
    ],
)
def test_questions_without_an_answer(ask: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        ask(sm.asarray([1.0, 2.0]))
    assert text in str(caught.value)


def test_a_tensor_never_changes() -> None:
    x = sm.asarray([1.0, 2.0])
    with pytest.raises(ArgumentError, match="tensors never change"):
        x[0] = 5  # type: ignore[index]
    before = x
    x += 1
    assert before.tolist() == [1.0, 2.0] and x.tolist() == [2.0, 3.0]
    with pytest.raises(ValueError, match="read-only"):
        x.numpy()[0] = 7


def test_realizing_happens_once_and_releases_history() -> None:
    x = sm.asarray([1.0, 2.0]) * 3
    y, z = x + 1, x + 2
    assert sm.realize(y, z) == (y, z)
    assert y._node.op is Op.LEAF and z._node.op is Op.LEAF
    assert (y.tolist(), z.tolist()) == ([4.0, 7.0], [5.0, 8.0])
    node = y._node
    assert y.realize() is y and y._node is node


def test_constants_that_were_computed_can_be_used_again() -> None:
    total = sm.asarray(1) + sm.asarray(2)
    again = total * 2
    assert total.item() == 3
    assert (sm.full(5, 1) + sm.full(5, 2)).tolist() == [3] * 5
    assert again.item() == 6


def test_views_of_nothing() -> None:
    x = sm.from_numpy(np.zeros((3, 0, 4))[::-1, :, ::-1])
    assert x[1:2, :, 3].numpy().shape == (1, 0)
    assert x.flip().reshape(0, 7).numpy().shape == (0, 7)
    assert sm.realize(x, x.sum(axis=1))[1].tolist() == [[0.0] * 4] * 3


def test_diagonals_far_outside() -> None:
    x = sm.arange(1, 10).reshape(3, 3)
    far = 2**70
    assert [sm.eye(2, k=k).tolist() for k in (far, -far)] == [[[0.0, 0.0], [0.0, 0.0]]] * 2
    assert sm.tri(2, k=far).tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert sm.array_equal(sm.tril(x, far), x)
    assert sm.array_equal(sm.triu(x, -far), x)
    assert not sm.tril(x, -far).any()
    assert not sm.triu(x, far).any()


@pytest.mark.parametrize("shape", [(2**70,), (2**40, 2**40)])
def test_more_elements_than_can_be_counted(shape: tuple[int, ...]) -> None:
    with pytest.raises(MemoryLimitError) as caught:
        sm.ones(shape).realize()
    assert "sm.ones(shape).realize()" in str(caught.value)


def test_identity() -> None:
    x, y = sm.zeros(2), sm.zeros(2)
    assert len({x, y, x}) == 2
    assert {x: 1}[x] == 1
    assert copy.copy(x) is not x and copy.deepcopy([x, x])[0].tolist() == [0, 0]
    rebuild, arguments = sm.arange(3).__reduce__()  # what pickle and multiprocessing use
    assert rebuild(*arguments).tolist() == [0, 1, 2]
    assert sm.Tensor([1, 2], dtype=sm.int8).dtype is sm.int8


def test_casts() -> None:
    x = sm.asarray([-1.5, 300.0, float("nan"), 1e30])
    assert x.astype(sm.uint8).tolist() == [0, 255, 0, 255]
    assert x.int().dtype is sm.int32 and x.int().tolist() == [-1, 300, 0, 2**31 - 1]
    assert sm.asarray(300).astype(sm.int8).item() == 44
    methods = {"half": sm.float16, "bfloat16": sm.bfloat16, "float": sm.float32, "double": sm.float64, "long": sm.int64}
    assert {name: getattr(x, name)().dtype for name in methods} == methods
    assert x.bool().tolist() == [True] * 4
    assert x.to(sm.float64).dtype is sm.float64 and x.to("cpu") is x


@pytest.mark.parametrize(
    ("program", "way"),
    [
        (lambda: sm.jit(lambda n: sm.zeros((n, 2)))(3), 'static="n"'),
        (lambda: sm.jit(lambda n: [sm.ones(2) for _ in range(n)])(3), "sm.fori_loop"),
        (lambda: sm.jit(lambda x: x.numpy())(sm.ones(2)), "return the tensor and read it outside"),
        (lambda: 0 < sm.ones(2) < 1, "write &"),
        (lambda: max(sm.ones(2), 0), "sm.maximum"),
        (lambda: sm.concat(sm.ones(2), sm.ones(2)), "Write concat([x, y])"),  # type: ignore[call-overload]
        (lambda: sm.ones(2).to("cuda:0"), "`smelt devices` lists"),
        (lambda: sm.grad(lambda x: x * x)(3), "Write 3.0"),
        (lambda: sm.optim.SGD(lr=1.0).update(sm.ones(2), {"x": sm.ones(2)}, None), "opt.update(model, grads, state)"),  # type: ignore[arg-type]
    ],
    ids=["a size", "a range", "a value", "a chain", "a maximum", "no list", "a device", "an integer", "an update"],
)
def test_slips_of_the_pen_are_told_what_to_write(program: Callable[[], Any], way: str) -> None:
    with pytest.raises(SmeltError, match=re.escape(way)):
        program()


def test_a_traced_tensor_has_no_value() -> None:
    with runtime.tracing():
        x = traced(2)
        for ask in (bool, float, repr, str):
            if ask in (repr, str):
                assert ask(x * 2) == "Tensor(shape=(2,), dtype=float32, device=cpu, lazy)"
                continue
            with pytest.raises(TraceError) as caught:
                ask((x * 2).sum())
            assert ("sm.where" if ask is bool else "return the tensor and read it outside") in str(caught.value)
        with pytest.raises(TraceError):
            x.numpy()
        with pytest.raises(TraceError):
            [1, 2, 3][x[0].int()]
        with pytest.raises(TraceError):
            sm.realize(x + 1)
        # What does not depend on the arguments is known all the same.
        assert (sm.arange(3) + 1).tolist() == [1, 2, 3]


def test_symbolic_shapes() -> None:
    n = sm.Dim("n", 2, 100)
    x = traced(n, 4)
    assert x.sum(axis=1).shape == (n,)
    assert (x.T @ x).shape == (4, 4)
    assert x.reshape(-1).shape == (4 * n,)
    assert x[1:].shape == (n - 1, 4)
    assert x[::-1].shape == (n, 4)
    assert x[-2].shape == (4,)
    assert x[:, ::2].shape == (n, 2)
    assert x.roll(1, 0).shape == (n, 4)
    assert sm.concat([x, x]).shape == (2 * n, 4)
    assert sm.arange(n).shape == (n,)
    assert sm.zeros((n, 3)).shape == (n, 3)
    assert repr(x) == "Tensor(shape=(n, 4), dtype=float32, device=cpu, lazy)"
    assert str(x) == repr(x)
    with pytest.raises(TraceError, match=r"Use x\.shape\[0\]"):
        len(x)
    with pytest.raises(IndexError, match="index 2 is out of range"):
        x[2]
    with pytest.raises(ShapeError, match="A symbolic size only fits"):
        x + sm.zeros(3, 4)
    with pytest.raises(TraceError):
        x.numpy()


def test_a_long_history_realizes_itself_and_is_warned_about(monkeypatch: pytest.MonkeyPatch) -> None:
    from smelt.config import configure
    from smelt.graph.node import topological
    from smelt.tensor import handle

    monkeypatch.setattr(handle, "_told", False)
    one = sm.ones(1).realize()
    with configure(node_limit=400), pytest.warns(TraceWarning, match=r"put the step into sm\.jit, or .*sm\.realize"):
        x = one
        for _ in range(3000):
            x = x + one
        assert len(topological([x._node])) < 1200
    assert x.item() == 3001.0


def test_a_transpose_that_would_do_nothing_is_refused() -> None:
    """PyTorch's `transpose(0, 1)` exchanges two axes; NumPy's takes all of them in their new order."""
    x, y = sm.ones((2, 3)), sm.ones((2, 3, 4))
    for call in (lambda: x.transpose(0, 1), lambda: x.transpose(-2, -1), lambda: sm.transpose(x, 0, 1)):
        with pytest.raises(ArgumentError, match=r"all axes in their new order(.|\n)*swapaxes"):
            call()
    with pytest.raises(ArgumentError, match=r"swapaxes\(1, 2\)"):
        y.transpose(1, 2)
    assert x.transpose(1, 0).shape == x.transpose().shape == x.transpose((1, 0)).shape == (3, 2)
    assert x.transpose((0, 1)).shape == (2, 3)  # an order on its own, perhaps computed
    assert y.swapaxes(1, 2).shape == y.transpose(0, 2, 1).shape == (2, 4, 3)


@pytest.mark.parametrize("x", [sm.ones(2), sm.asarray([1j])])
def test_attributes_never_change(x: sm.Tensor) -> None:
    for name, hint in (("shape", "reshape"), ("real", r"sm\.complex"), ("mT", "Compute another")):
        with pytest.raises(AttributeError, match=rf"{name}: tensors never change[\s\S]*{hint}") as caught:
            setattr(x, name, 3)
        assert isinstance(caught.value, sm.errors.SmeltError)
