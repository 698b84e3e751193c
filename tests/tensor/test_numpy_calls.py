"""NumPy's functions, ufuncs and operators on tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, TraceError

X = np.arange(1.0, 13.0).reshape(3, 4)
V = np.array([3.0, -1.0, 2.0, 0.5])
MASK = X > 5
INTEGERS = np.array([[5, -3], [2, 7]])

# Calls that smelt has a function for.
CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "sum": lambda x, v: np.sum(x),
    "sum axis": lambda x, v: np.sum(x, axis=0, keepdims=True),
    "sum by place": lambda x, v: np.sum(x, 1, np.float64),
    "mean": lambda x, v: np.mean(x, axis=-1),
    "std ddof": lambda x, v: np.std(x, ddof=1),
    "var": lambda x, v: np.var(x, axis=0, ddof=1),
    "max": lambda x, v: np.max(x, axis=1),
    "amin": lambda x, v: np.amin(x),
    "argmax": lambda x, v: np.argmax(v),
    "any": lambda x, v: np.any(x > 5, axis=0),
    "median": lambda x, v: np.median(x, axis=0),
    "quantile": lambda x, v: np.quantile(x, [0.25, 0.5]),
    "percentile": lambda x, v: np.percentile(x, 30, axis=1),
    "nanmean": lambda x, v: np.nanmean(x),
    "concatenate": lambda x, v: np.concatenate([x, x], axis=1),
    "stack": lambda x, v: np.stack([v, v]),
    "vstack": lambda x, v: np.vstack((x, v)),
    "where": lambda x, v: np.where(x > 5, x, 0),
    "clip": lambda x, v: np.clip(x, 2, 5),
    "clip words": lambda x, v: np.clip(x, a_min=None, a_max=5),
    "reshape": lambda x, v: np.reshape(x, (4, 3)),
    "transpose": lambda x, v: np.transpose(x),
    "transpose axes": lambda x, v: np.transpose(x, (1, 0)),
    "squeeze": lambda x, v: np.squeeze(np.expand_dims(x, 0), axis=0),
    "dot": np.dot,
    "tensordot": lambda x, v: np.tensordot(x, v, axes=1),
    "einsum": lambda x, v: np.einsum("ij,j->i", x, v, optimize=True),
    "norm": lambda x, v: np.linalg.norm(x),
    "norm axis": lambda x, v: np.linalg.norm(x, ord=1, axis=1),
    "sort": lambda x, v: np.sort(v),
    "argsort": lambda x, v: np.argsort(v, kind="stable"),
    "cumsum": lambda x, v: np.cumsum(x),
    "cumsum axis": lambda x, v: np.cumsum(x, axis=0),
    "diff": lambda x, v: np.diff(x),
    "flip": lambda x, v: np.flip(x, 0),
    "roll": lambda x, v: np.roll(x, 1, axis=1),
    "tile": lambda x, v: np.tile(v, (2, 2)),
    "repeat": lambda x, v: np.repeat(v, [1, 2, 0, 1]),
    "pad": lambda x, v: np.pad(x, ((1, 0), (0, 2)), constant_values=7),
    "diagonal": lambda x, v: np.diagonal(np.stack([x, x]), 1),
    "take": lambda x, v: np.take(x, [0, 2], axis=1),
    "searchsorted": lambda x, v: np.searchsorted(np.sort(v), v, side="right"),
    "zeros_like": lambda x, v: np.zeros_like(x),
    "full_like": lambda x, v: np.full_like(x, 3.0),
    "allclose": lambda x, v: np.allclose(x, x),
    "isclose": lambda x, v: np.isclose(x, x + 1e-9),
    "round": lambda x, v: np.round(x / 3, 2),
    "around": lambda x, v: np.around(x / 3, decimals=1),
    "copy": lambda x, v: np.copy(x),
    "split": lambda x, v: np.split(x, 2, axis=1)[1],
    "meshgrid": lambda x, v: np.meshgrid(v, v)[0],
    "sin": lambda x, v: np.sin(x),
    "exp": lambda x, v: np.exp(x),
    "power": lambda x, v: np.power(x, 2),
    "maximum": np.maximum,
    "arctan2": lambda x, v: np.arctan2(v, x),
    "rint": lambda x, v: np.rint(x / 3),
    "logical_and": lambda x, v: np.logical_and(x > 2, x < 9),
    "divmod": lambda x, v: np.divmod(x, 4)[0],
    "matmul": np.matmul,
    "add.reduce": lambda x, v: np.add.reduce(x),
    "add.reduce all": lambda x, v: np.add.reduce(x, axis=None),
    "maximum.reduce": lambda x, v: np.maximum.reduce(x, axis=1),
    "add.accumulate": lambda x, v: np.add.accumulate(x, axis=1),
    "array + tensor": lambda x, v: X + x,
    "array @ tensor": lambda x, v: X @ v,
    "array ** tensor": lambda x, v: X**x,
    "array < tensor": lambda x, v: X < v,  # noqa: SIM300
    "scalar * tensor": lambda x, v: np.float64(2) * x,
    "integer scalar - tensor": lambda x, v: np.int64(2) - x,
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.by_turns(2)
def test_functions_that_smelt_has_give_tensors(call: Callable[[Any, Any], Any]) -> None:
    got, expected = call(sm.asarray(X), sm.asarray(V)), call(X, V)
    assert isinstance(got, sm.Tensor)
    assert got.shape == np.shape(expected)
    assert np.allclose(got.numpy(), expected)


def test_they_are_lazy_and_run_under_transforms() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.sin(x) ** 2) + np.mean(np.where(x > 2, x, 0))

    x = sm.asarray(X)
    assert "lazy" in repr(np.exp(x))
    assert np.allclose(sm.jit(loss)(x).item(), loss(X))
    inside = np.where(X > 2, 1, 0) / X.size
    assert np.allclose(sm.grad(loss)(x).numpy(), np.sin(2 * X) + inside)
    assert np.allclose(sm.vmap(lambda row: np.sort(row)[::-1])(x).numpy(), X[:, ::-1])


# Calls that only NumPy has a function for.
ARRAYS: dict[str, Callable[[Any], Any]] = {
    "interp": lambda x: np.interp([1.5], x[0], x[1]),
    "trapezoid": lambda x: np.trapezoid(x, axis=0),
    "polyfit": lambda x: np.polyfit(x[0], x[1], 1),
    "cov": np.cov,
    "inv": lambda x: np.linalg.inv(x[:2, :2]),
    "matrix norm": lambda x: np.linalg.norm(x, 2),
    "gcd": lambda x: np.gcd(x.astype(sm.int64) if isinstance(x, sm.Tensor) else x.astype(np.int64), 4),
    "subtract.outer": lambda x: np.subtract.outer(x[0], x[1]),
    "sum out": lambda x: np.sum(x, axis=0, out=np.zeros(4)),
}


@pytest.mark.parametrize("call", ARRAYS.values(), ids=ARRAYS)
def test_other_functions_give_arrays(call: Callable[[Any], Any]) -> None:
    got = call(sm.asarray(X))
    assert isinstance(got, np.ndarray | np.generic)
    assert np.allclose(got, call(X))


def test_while_a_function_is_traced_they_say_why_not() -> None:
    with pytest.raises(TraceError, match=r"np\.interp: the value is not known while the function is traced"):
        sm.jit(lambda x: np.interp(x, x, x))(sm.asarray(V))
    with pytest.raises(TraceError, match=r"np\.gcd: the value is not known"):
        sm.jit(lambda x: np.gcd(x, 2))(sm.asarray(INTEGERS))


def test_what_is_written_to_an_array_goes_there() -> None:
    total = np.zeros(4)
    kept = total
    total += sm.asarray(V)
    assert total is kept and total.tolist() == V.tolist()
    np.multiply(sm.asarray(V), 2, out=total)
    assert kept.tolist() == (2 * V).tolist()
    np.copyto(total, sm.asarray(V))
    assert kept.tolist() == V.tolist()


def test_questions_compute_nothing() -> None:
    x = sm.asarray(X) + 1
    assert (np.shape(x), np.ndim(x), np.size(x), np.iscomplexobj(x)) == ((3, 4), 2, 12, False)
    assert "lazy" in repr(x)


def test_arrays_like_a_tensor_are_tensors() -> None:
    assert isinstance(np.asarray([1.0], like=sm.zeros(1)), sm.Tensor)  # type: ignore[call-overload]
    assert isinstance(np.zeros((2, 3), like=sm.zeros(1)), sm.Tensor)  # type: ignore[arg-type]


def test_files_and_checks_of_numpy_take_tensors(tmp_path: Any) -> None:
    x = sm.asarray(X)
    np.save(tmp_path / "x.npy", x)
    assert np.load(tmp_path / "x.npy").tolist() == X.tolist()
    np.savez(tmp_path / "x.npz", x=x)
    np.testing.assert_allclose(x, X)
    np.testing.assert_array_equal(X, x)
    assert np.array2string(x) == np.array2string(X)


WRONG: list[tuple[Callable[[], Any], str]] = [
    (lambda: np.add(X, X, out=sm.asarray(X)), "np.add: tensors never change"),  # type: ignore[call-overload]
    (lambda: np.add.at(sm.asarray(V), [0], 1), "np.add.at: tensors never change"),  # type: ignore[arg-type]
    (lambda: np.sum(sm.asarray(X), where=MASK), "sum: there is no argument 'where'"),  # type: ignore[call-overload]
    (lambda: np.reshape(sm.asarray(X), (4, 3), order="F"), "reshape: there is no argument 'order'"),
    (lambda: np.diff(sm.asarray(X), axis=None), r"diff: an axis must be an integer, got None.*x.flatten\(\)"),  # type: ignore[call-overload]
    (lambda: np.quantile(sm.asarray(X), 0.5, method="lower"), "quantile: there is no argument 'method'"),
]


@pytest.mark.parametrize(("call", "said"), WRONG, ids=range(len(WRONG)))
def test_what_smelt_does_not_do_is_refused(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s){said}") as caught:
        call()
    assert "at test_numpy_calls.py:" in str(caught.value)


def test_python_functions_of_numbers() -> None:
    x = sm.asarray([1.234, -5.678])
    assert np.allclose(round(x, 2).numpy(), [1.23, -5.68])
    assert round(x).tolist() == [1, -6]
    whole, rest = divmod(sm.asarray([7, -7]), 3)
    assert (whole.tolist(), rest.tolist()) == ([2, -3], [1, 2])
    assert [part.tolist() for part in divmod(7, sm.asarray([2, 4]))] == [[3, 1], [1, 3]]


def test_where_with_one_argument_finds_places() -> None:
    mask = sm.asarray(MASK)
    for got, expected in zip(sm.where(mask), np.where(MASK), strict=True):
        assert got.tolist() == expected.tolist()
    assert [axis.tolist() for axis in np.where(mask)] == [axis.tolist() for axis in np.where(MASK)]  # type: ignore[arg-type]


def test_histograms_count() -> None:
    counts, edges = sm.histogram(sm.asarray(X), bins=5)
    expected, at = np.histogram(X, bins=5)
    assert counts.dtype is sm.int64 and counts.tolist() == expected.tolist()
    assert np.allclose(edges.numpy(), at)
    whole, _ = sm.histogram(sm.asarray(INTEGERS), bins=3, range=(0, 6))
    assert whole.tolist() == np.histogram(INTEGERS, bins=3, range=(0, 6))[0].tolist()
    assert sm.histogram(sm.asarray([1.0, sm.nan]), bins=[0.0, 2.0])[0].tolist() == [1]
    assert sm.jit(lambda x: sm.histogram(x, bins=5))(sm.asarray(X))[0].tolist() == expected.tolist()


def test_repeat_and_tile_by_a_dim() -> None:
    n = sm.Dim("n", 0, 16)
    compiled = sm.jit(
        lambda x, y: (sm.repeat(x, y.shape[0], axis=0), sm.tile(x, (y.shape[0] + 1, 1)), sm.repeat(y, y.shape[0])),
        shapes=[(3, 4), (n,)],
    )
    for size in (2, 0, 5):
        y = np.arange(size)
        found = compiled(sm.asarray(X), sm.asarray(y))
        wanted = np.repeat(X, size, axis=0), np.tile(X, (size + 1, 1)), np.repeat(y, size)
        assert all(np.array_equal(a.numpy(), b) for a, b in zip(found, wanted, strict=True))
    slope = sm.jit(sm.grad(lambda x, y: sm.repeat(x, y.shape[0]).sum()), shapes=[(3, 4), (n,)])
    assert (slope(sm.ones((3, 4)), sm.ones(5)).numpy() == 5).all()
    with pytest.raises(ArgumentError, match=r"the counts \(n, 1\) are not known"):
        sm.repeat(sm.ones(2), [n, 1])
    with pytest.raises(ArgumentError, match=r"must not be negative, got \(n - 1,\)"):
        sm.repeat(sm.ones(2), n - 1)


def test_repeat_takes_counts_of_every_kind() -> None:
    for counts in ([2, 0, 1], (2, 0, 1), np.array([2, 0, 1]), sm.asarray([2, 0, 1])):
        assert sm.repeat(sm.asarray(X), counts, axis=0).tolist() == np.repeat(X, [2, 0, 1], axis=0).tolist()
    with pytest.raises(TraceError, match="repeat: the value is not known"):
        sm.jit(sm.repeat)(sm.asarray([1, 2]), sm.asarray([1, 2]))


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda x: np.fill_diagonal(x, 1.0), r"x\.at\[i, i\]\.set"),
        (lambda x: np.put_along_axis(x, np.zeros((2, 1), np.int64), 1.0, 1), r"sm\.scatter"),
        (lambda x: np.copyto(x, 1.0), r"x\.at\[indices\]\.set"),
        (lambda x: np.putmask(x, np.ones((2, 2), bool), 1.0), r"x\.at\[indices\]\.set"),
    ],
)
def test_functions_that_write_say_what_to_write_instead(write: Any, said: str) -> None:
    with pytest.raises(sm.errors.ArgumentError, match=rf"(?s)tensors never change.*{said}"):
        write(sm.zeros((2, 2)))
