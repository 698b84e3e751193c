"""Complex tensors: NumPy's values, C's special values, JAX's derivatives."""

from __future__ import annotations

import cmath
import copy
import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import DTypeError
from smelt.graph import verify_graph

RNG = np.random.default_rng(7)
KINDS = [np.complex64, np.complex128]
CMATH = (
    *("exp", "log", "log10", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh"),
    *("asin", "acos", "atan", "asinh", "acosh", "atanh"),
)
# What NumPy calls differently, or does less exactly.
NAMES = {f"a{name}": f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
FUNCTIONS = (
    *CMATH,
    *("exp2", "expm1", "log2", "square", "sign", "reciprocal", "negative", "positive", "round", "sinc"),
    *("abs", "angle", "real", "imag", "conj", "isnan", "isinf", "isfinite"),
)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 2.0, 1e-20, 1e30, -1e30, math.inf, -math.inf, math.nan)


def draw(*shape, kind=np.complex128):
    sizes = 10.0 ** RNG.uniform(-2, 1, shape)
    return (sizes * (RNG.normal(size=shape) + 1j * RNG.normal(size=shape))).astype(kind)


def assert_close(found, expected, kind=np.complex128, times=16):
    found = found.numpy()
    assert found.shape == expected.shape
    assert found.dtype.kind == expected.dtype.kind
    eps = np.finfo(kind).eps
    np.testing.assert_allclose(found, expected, rtol=times * eps, atol=times * eps)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one_number(name, kind):
    x = draw(5, 7, kind=kind)
    assert_close(getattr(sm, name)(sm.asarray(x)), getattr(np, NAMES.get(name, name))(x), kind)


@pytest.mark.parametrize("decimals", [2, 0, -1])
@pytest.mark.parametrize("kind", KINDS)
def test_decimals_are_those_of_both_parts(kind, decimals):
    x = np.append(30 * draw(20, kind=kind), kind(complex(-0.0, math.inf)))
    found = sm.round(sm.asarray(x), decimals)
    assert found.dtype is sm.asarray(x).dtype
    np.testing.assert_allclose(found.numpy(), np.round(x, decimals), rtol=np.finfo(kind).eps)


def test_sinc_is_exact_near_its_zeros():
    found = sm.sinc(sm.asarray([0j, -2 + 0j, 3 + 1e-9j, 0.5j])).numpy()
    np.testing.assert_allclose(found.real, [1, 0, -1 / 9e18, math.sinh(math.pi / 2) / (math.pi / 2)], rtol=1e-6)
    np.testing.assert_allclose(found.imag, [0, 0, -1e-9 / 3, 0], rtol=1e-9)


def test_log1p_is_exact_near_0():
    x = np.array([1e-12 + 1e-9j, 1e-3j, -1e-8 - 1e-8j])
    found = sm.log1p(sm.asarray(x)).numpy()
    a, b = x.real, x.imag
    np.testing.assert_allclose(found.real, 0.5 * np.log1p(2 * a + a * a + b * b), rtol=1e-14)
    np.testing.assert_allclose(found.imag, np.arctan2(b, 1 + a), rtol=1e-14)


@pytest.mark.parametrize("name", CMATH)
def test_special_values_are_those_of_c(name):
    given = np.empty(len(SPECIAL) ** 2, np.complex128)
    given.real, given.imag = np.array(list(itertools.product(SPECIAL, SPECIAL))).T
    found = getattr(sm, name)(sm.asarray(given)).numpy()
    for x, got in zip(given.tolist(), found.tolist(), strict=True):
        try:
            expected = getattr(cmath, name)(x)
        except (ValueError, OverflowError):  # where Python does not say what C gives
            continue
        for a, b in ((got.real, expected.real), (got.imag, expected.imag)):
            # Where NaN is part of it, the sign of a zero or an infinity need not say anything.
            free = cmath.isnan(expected) or cmath.isinf(expected) or cmath.isnan(x)
            same = a == b and (free or math.copysign(1, a) == math.copysign(1, b))
            near = math.isfinite(b) and abs(a - b) <= 4 * np.finfo(float).eps * abs(expected)
            # C has come to say more about zeros beside NaN than Python does.
            said = cmath.isnan(x) and math.isnan(b) and abs(a) in (0, math.pi / 2)
            unknown = math.isnan(a) and math.isnan(b)
            assert unknown or said or same or (free and abs(a) == abs(b)) or near, (x, got, expected)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "pow"])
def test_functions_of_two_numbers(name, kind):
    x, y = draw(4, 5, kind=kind), draw(5, kind=kind)
    ours, theirs = getattr(sm, name), getattr(np, name)
    for other in (y, y.real.copy(), 2.5, 3, 1 - 2j):
        given = sm.asarray(other) if isinstance(other, np.ndarray) else other
        expected = theirs(x, other if isinstance(other, np.ndarray) else kind(other))
        found = ours(sm.asarray(x), given)
        assert found.dtype is sm.asarray(expected).dtype
        assert_close(found, expected, kind, 200 if name == "pow" else 16)


@given(st.complex_numbers(max_magnitude=1e100), st.complex_numbers(max_magnitude=1e100, min_magnitude=1e-100))
def test_quotients_are_those_of_python(a, b):
    found = sm.divide(sm.asarray(a, dtype=sm.complex128), sm.asarray(b, dtype=sm.complex128)).item()
    assert abs(found - a / b) <= 8 * np.finfo(float).eps * abs(a / b) + 1e-300


@pytest.mark.parametrize("kind", KINDS)
def test_folds_and_products(kind):
    x, y = draw(5, 7, kind=kind), draw(5, 7, kind=kind)
    a, b = sm.asarray(x), sm.asarray(y)
    for name in ("sum", "prod", "mean", "var", "std"):
        for axis in (None, 0, (0, 1)):
            expected = np.asarray(getattr(np, name)(x, axis=axis, keepdims=True))
            scale = np.abs(x).sum() if name != "prod" else 1.0
            assert_close(getattr(sm, name)(a, axis=axis, keepdims=True) / scale, expected / scale, kind, 200)
    assert_close(sm.cumulative_sum(a, axis=1), np.cumsum(x, 1), kind, 200)
    assert_close(sm.cumulative_prod(a, axis=1), np.cumprod(x, 1), kind, 500)
    for order in (0, 1, 2, 3, np.inf, -np.inf):
        expected = np.linalg.vector_norm(x, ord=order, axis=1)
        assert_close(sm.linalg.vector_norm(a, ord=order, axis=1), expected, kind, 200)
    scale = np.abs(x).max() * np.abs(y).max()
    assert_close(a @ b.mT / scale, x @ y.T / scale, kind, 100)
    assert_close(a @ sm.asarray(y.T.real.copy()) / scale, x @ y.T.real / scale, kind, 100)
    assert_close(sm.vecdot(a, b) / scale, np.vecdot(x, y) / scale, kind, 100)
    assert_close(sm.einsum("ij,kj->ik", a, b) / scale, np.einsum("ij,kj->ik", x, y) / scale, kind, 100)
    assert sm.prod(sm.zeros((0, 2), dtype=sm.complex64), axis=0).tolist() == [1, 1]


def test_what_moves_elements():
    x, y = draw(4, 6), draw(4, 6)
    a, b = sm.asarray(x), sm.asarray(y)
    pairs = [
        (a[1:3, ::2], x[1:3, ::2]),
        (a[[0, 2], [1, 3]], x[[0, 2], [1, 3]]),
        (a[a.real > 0], x[x.real > 0]),
        (sm.where(a.real > 0, a, b), np.where(x.real > 0, x, y)),
        (sm.where(a.real > 0, a, 0), np.where(x.real > 0, x, 0)),
        (sm.roll(a, 2, axis=1), np.roll(x, 2, 1)),
        (sm.concat([a, b], axis=1), np.concatenate([x, y], 1)),
        (sm.pad(a, ((1, 1), (0, 2))), np.pad(x, ((1, 1), (0, 2)))),
        (a.reshape(3, 8).T, x.reshape(3, 8).T),
        (sm.broadcast_to(a[0], (3, 6)), np.broadcast_to(x[0], (3, 6))),
        (sm.take(a, sm.asarray([2, 0]), axis=0), x[[2, 0]]),
        (sm.tril(a), np.tril(x)),
        (a == b, x == y),
        (a != b, x != y),
        (sm.any(a, axis=0), x.any(0)),
        (a.astype(sm.bool), x.astype(bool)),
        (sm.isclose(a, a + 1e-12), np.isclose(x, x + 1e-12)),
    ]
    for found, expected in pairs:
        np.testing.assert_array_equal(found.numpy(), expected)
    changed = x.copy()
    changed[1, 2] = 3j
    changed[[0, 3]] += y[:2]
    assert_close(a.at[1, 2].set(3j).at[sm.asarray([0, 3])].add(b[:2]), changed)
    with pytest.raises(sm.errors.IndexRangeError):
        sm.take(a, sm.asarray([9]), axis=0).numpy()


def test_dtypes():
    assert sm.asarray([1j, 2]).dtype is sm.complex64
    assert sm.asarray(np.array([1j])).dtype is sm.complex128
    assert (sm.ones(2) * 1j).dtype is sm.complex64
    assert (sm.ones(2, dtype=sm.float64) * 1j).dtype is sm.complex128
    assert (sm.ones(2, dtype=sm.int8) + 1j).dtype is sm.complex64
    assert sm.result_type(sm.complex64, sm.float64) is sm.complex128
    assert sm.result_type(sm.complex64, sm.float16) is sm.complex64
    assert sm.finfo(sm.complex128).eps == sm.finfo(sm.float64).eps
    assert sm.isdtype(sm.complex64, "complex floating")
    assert sm.isdtype(sm.complex64, "numeric")
    assert not sm.isdtype(sm.complex64, "real floating")
    assert sm.__array_namespace_info__().default_dtypes()["complex floating"] is sm.complex64
    assert sm.zeros(2, dtype=complex).dtype is sm.complex64
    assert sm.full(2, 0.1 + 1j, dtype=sm.complex128).tolist() == [0.1 + 1j] * 2
    assert sm.linspace(0, 1 + 1j, 3).tolist() == [0, 0.5 + 0.5j, 1 + 1j]
    assert sm.eye(2, dtype=sm.complex64).tolist() == [[1, 0], [0, 1]]
    assert abs(sm.asarray([3 + 4j])).dtype is sm.float32


def test_in_and_out():
    x = draw(6)
    for made in (sm.asarray(x), sm.from_numpy(x), sm.from_dlpack(x), sm.Tensor(x)):
        assert isinstance(made, sm.Tensor)
        np.testing.assert_array_equal(made.numpy(), x)
        np.testing.assert_array_equal(np.asarray(made), x)
        np.testing.assert_array_equal(np.from_dlpack(made), x)
    np.testing.assert_array_equal(sm.from_numpy(x[::-2]).numpy(), x[::-2])
    z = sm.asarray(1 + 2j)
    assert complex(z) == z.item() == copy.deepcopy(z).item() == 1 + 2j
    assert complex(sm.asarray(2.0)) == 2
    assert repr(z) == "Tensor(shape=(), dtype=complex64, device=cpu, lazy)"
    assert str(sm.asarray([1j])) == "Tensor([0.+1.j], dtype=complex64)"
    assert (z.real.item(), z.imag.item(), z.nbytes) == (1, 2, 8)
    assert sm.complex(sm.asarray([1.0, 2.0]), 1.0).tolist() == [1 + 1j, 2 + 1j]
    assert sm.real(sm.asarray([1, 2])).dtype is sm.int64
    both = sm.realize(z + 1, sm.ones(2))
    assert both[0].item() == 2 + 2j


def test_files_have_complex64(tmp_path):
    path = tmp_path / "complex.safetensors"
    x = draw(3, 2, kind=np.complex64)
    sm.save({"a": {"x": sm.asarray(x)}, "y": sm.zeros((0, 2), dtype=sm.complex64)}, path)
    found = sm.load(path)
    np.testing.assert_array_equal(found["a.x"].numpy(), x)
    assert (found["y"].shape, found["y"].dtype) == ((0, 2), sm.complex64)
    with pytest.raises(DTypeError, match="is complex, and cannot be put into a tree"):
        sm.load({"a": {"x": sm.asarray(x)}, "y": found["y"]}, path)


class Held(sm.nn.Module):
    def __init__(self, x):
        self.x = x


@pytest.mark.parametrize(
    "mistake",
    [
        sm.sort, sm.max, sm.argmax, sm.floor, sm.erf, sm.softmax, sm.cummax,
        lambda x: x < 2,
        lambda x: x // 2,
        lambda x: x & x,
        lambda x: sm.maximum(x, x),
        lambda x: sm.clip(x, 0, 1),
        lambda x: x.astype(sm.float32),
        lambda x: sm.zeros(2).at[0].set(1j),
        lambda x: x.at[sm.asarray([0, 0])].multiply(2),
        lambda x: sm.asarray([1j], dtype=sm.float32),
        lambda x: sm.asarray(1j, dtype=sm.int64),
        lambda x: sm.complex(sm.ones(2, dtype=sm.float16), 0.0),
        lambda x: sm.save({"x": x.astype(sm.complex128)}, "complex.safetensors"),
        lambda x: sm.tree.flatten(Held(x)),
        sm.jacobian(lambda z: z),
        sm.grad(sm.sum),
    ],
)  # fmt: skip
def test_what_complex_numbers_do_not_have(mistake):
    with pytest.raises(DTypeError):
        mistake(sm.asarray([1j, 2]))


# --- transforms


def slope(function, x):
    """What the gradient is by differences: df/dx - i df/dy."""
    step = 1e-6
    along = [(function(x + step * way) - function(x - step * way)) / (2 * step) for way in (1, 1j)]
    return along[0] - 1j * along[1]


@pytest.mark.by_turns(3)
@pytest.mark.parametrize("part", ["real", "imag"])
@pytest.mark.parametrize("name", [*CMATH, "exp2", "expm1", "log1p", "log2", "square", "sign", "reciprocal", "abs"])
def test_gradients_are_those_of_differences(name, part):
    function = getattr(sm, name)
    points = [0.3 + 0.4j, -0.7 + 0.2j, 1.6 - 2.5j, 0.5 + 0j, 0.4j, 0j, -0.6 + 0j, 60 + 1j]
    if name in ("log", "log2", "log10", "sqrt", "sign", "reciprocal", "abs"):
        points = [x for x in points if x.real > 0 or x.imag]
    if name == "acosh":
        points = [x for x in points if x.imag]

    def chosen(z):
        return getattr(sm, part)(function(z))

    for x in points:
        found = sm.grad(chosen)(sm.asarray(np.complex128(x))).item()
        expected = slope(lambda z: chosen(sm.asarray(np.complex128(z))).item(), x)
        assert abs(found - expected) <= 1e-6 * max(1.0, abs(expected)), (x, found, expected)


def test_transforms_see_pairs_of_floats():
    x, ct = draw(3), draw(3)
    z, c = sm.asarray(x), sm.asarray(ct)
    np.testing.assert_allclose(sm.grad(lambda z: (abs(z) ** 2).sum())(z).numpy(), 2 * x.conj())
    np.testing.assert_allclose((abs(z) ** 2).sum().gradient(z).numpy(), 2 * x.conj())
    _, back = sm.vjp(lambda z: z * z, z)
    np.testing.assert_allclose(back(c)[0].numpy(), 2 * x * ct)
    np.testing.assert_allclose(sm.jvp(lambda z: z * z, (z,), (c,))[1].numpy(), 2 * x * ct)
    np.testing.assert_allclose(sm.vmap(lambda a: a * a + 1j)(z).numpy(), x * x + 1j)
    np.testing.assert_allclose(sm.jit(lambda z, w: {"sum": z + w})(z, c)["sum"].numpy(), x + ct)
    np.testing.assert_allclose(sm.jit(sm.grad(lambda z: (abs(z) ** 2).sum()))(z).numpy(), 2 * x.conj())
    np.testing.assert_allclose(sm.fori_loop(0, 3, lambda i, s: s * z, z).numpy(), x**4)
    np.testing.assert_allclose(sm.scan(lambda s, a: (s + a, s * a), 0 * z[0], z)[0].numpy(), x.sum())
    np.testing.assert_allclose(sm.cond(sm.asarray(True), lambda a: a * 2, lambda a: a, z).numpy(), 2 * x)
    np.testing.assert_allclose(sm.checkpoint(lambda a: a * a)(z).numpy(), x * x)
    assert sm.grad(sm.grad(lambda t: sm.exp(1j * t).real))(sm.asarray(0.3)).item() == pytest.approx(-math.cos(0.3))
    verify_graph([part._node for part in (z.real, (z * c).imag)])


def test_gradients_of_ones_own_take_and_give_complex_numbers():
    @sm.custom_vjp
    def square(z):
        return z * z

    square.defvjp(lambda z: (z * z, z), lambda z, ct: (ct * 2 * z,))
    x = sm.asarray(draw(3))
    np.testing.assert_allclose(sm.grad(lambda z: square(z).real.sum())(x).numpy(), 2 * x.numpy())
    np.testing.assert_allclose(sm.grad(lambda z: square(z).imag.sum())(x).numpy(), -2j * x.numpy())


def test_trees_see_the_parts():
    leaves, structure = sm.tree.flatten({"z": sm.asarray([1j])})
    assert [leaf.tolist() for leaf in leaves] == [[0.0], [1.0]]
    assert sm.tree.paths(structure) == ["['z'].real", "['z'].imag"]
    assert sm.tree.unflatten(structure, leaves)["z"].tolist() == [1j]
    assert sm.tree.unflatten(structure, [1, 2]) == {"z": (1, 2)}


def test_transforms_take_arrays_of_numpy() -> None:
    z = np.asarray([[1 + 2j, 3j], [0.5, -1 + 1j]], np.complex64)
    x = sm.asarray(z)

    def f(z: Any) -> Any:
        return sm.abs(z * z + 1).sum()

    np.testing.assert_array_equal(sm.grad(f)(z).numpy(), sm.grad(f)(x).numpy())
    np.testing.assert_array_equal(sm.vmap(sm.exp)(z).numpy(), sm.exp(x).numpy())
    for one, other in zip(sm.jvp(sm.exp, (z,), (z,)), sm.jvp(sm.exp, (x,), (x,)), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize("name", ["argmax", "argmin", "nanmax", "logsumexp", "unique_values", "unique", "sort", "isin"])
def test_what_needs_an_order_names_the_function_that_was_called(name: str) -> None:
    x = sm.asarray([1j, 2.0])
    with pytest.raises(sm.errors.DTypeError, match=f"^{name}: complex numbers are not supported"):
        getattr(sm, name)(*[x] * (1 + (name == "isin")))


@pytest.mark.skipif(np.dtype(np.clongdouble).itemsize == 16, reason="it is complex128 here")
def test_dtypes_that_are_named_instead_of_others() -> None:
    with pytest.raises(sm.errors.DTypeError, match="complex64, complex128"):
        sm.asarray(np.array([1j], np.clongdouble))
