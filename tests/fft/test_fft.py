"""Fourier transforms: NumPy's values, inverses, derivatives, mistakes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import smelt as sm
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError
from smelt.fft.steps import is_smooth

RNG = np.random.default_rng(3)
COMPLEX = ("fft", "ifft", "irfft", "hfft")
REAL = ("rfft", "ihfft")


def numbers(*shape):
    return RNG.normal(size=shape) + 1j * RNG.normal(size=shape)


def assert_close(found, expected, eps=2.2e-16):
    found = found.numpy()
    assert (found.shape, found.dtype.kind) == (expected.shape, expected.dtype.kind)
    assert np.linalg.norm(found - expected) <= 20 * eps * (np.linalg.norm(expected) + 1)


@pytest.mark.by_turns(3)
@pytest.mark.parametrize(
    "size", [1, 2, 3, 4, 5, 8, 9, 13, 16, 17, 30, 37, 64, 67, 97, 127, 128, 134, 262, 289, 360, 1009]
)
def test_sizes(size):
    x = numbers(2, size)
    for name in COMPLEX:
        if name in ("irfft", "hfft") and size < 2:
            continue
        assert_close(getattr(sm.fft, name)(sm.asarray(x)), getattr(np.fft, name)(x))
    for name in REAL:
        assert_close(getattr(sm.fft, name)(sm.asarray(x.real.copy())), getattr(np.fft, name)(x.real))
    half = np.fft.rfft(x.real)
    assert_close(sm.fft.irfft(sm.asarray(half), n=size), x.real)
    assert_close(sm.fft.ifft(sm.fft.fft(sm.asarray(x))), x)


@given(
    name=st.sampled_from(COMPLEX + REAL), n=st.sampled_from([None, 1, 4, 5, 8, 11]), axis=st.integers(-3, 2),
    norm=st.sampled_from(["backward", "ortho", "forward"]),
)  # fmt: skip
@settings(max_examples=25)
def test_axes_sizes_and_norms(name, n, axis, norm):
    x = numbers(3, 4, 6)
    x = x if name in COMPLEX else x.real.copy()
    found = getattr(sm.fft, name)(sm.asarray(x), n=n, axis=axis, norm=norm)
    assert_close(found, getattr(np.fft, name)(x, n=n, axis=axis, norm=norm))


@pytest.mark.parametrize("n", [1, 2, 3, 6, 34, 45, 64, 80, 262])
@pytest.mark.parametrize(("shape", "axis"), [((17, 0), 1), ((0, 3), 1), ((20, 0, 5), 2), ((0, 16), 0), ((2, 0, 3), 1)])
def test_lines_beside_each_other_and_one_after_the_other(n, shape, axis):
    for name in COMPLEX + REAL:
        size = n // 2 + 1 if name in ("irfft", "hfft") else n
        x = numbers(*(size if k == axis else length for k, length in enumerate(shape)))
        x = x if name in COMPLEX else x.real.copy()
        options = {"axis": axis} | ({"n": n} if name in ("irfft", "hfft") else {})
        assert_close(getattr(sm.fft, name)(sm.asarray(x), **options), getattr(np.fft, name)(x, **options))


@pytest.mark.parametrize("name", ["fftn", "ifftn", "rfftn", "irfftn"])
@pytest.mark.parametrize(("s", "axes"), [(None, None), (None, (0, 2)), ((4, 5), (1, 2)), ((2, 7), (-1, 0))])
def test_several_axes(name, s, axes):
    x = numbers(3, 4, 6)
    x = x.real.copy() if name == "rfftn" else x
    assert_close(getattr(sm.fft, name)(sm.asarray(x), s=s, axes=axes), getattr(np.fft, name)(x, s=s, axes=axes))


def test_float32_is_about_as_exact_as_the_numbers():
    for size in (59, 64, 67, 100, 109, 127, 134, 256, 1000, 4096):
        x = numbers(4, size).astype(np.complex64)
        found = sm.fft.fft(sm.asarray(x))
        assert found.dtype is sm.complex64
        assert_close(found, np.fft.fft(x.astype(np.complex128)), 1.2e-7 / 8)


def test_quarters_of_a_turn_are_exact():
    assert sm.fft.fft(sm.ones(4)).tolist() == [4, 0, 0, 0]
    assert sm.fft.ifft(sm.asarray([0, 0, 1, 0])).tolist() == [0.25, -0.25, 0.25, -0.25]


def test_dtypes():
    assert sm.fft.fft(sm.asarray([1, 2, 3])).dtype is sm.complex64
    assert sm.fft.fft(sm.ones(3, dtype=sm.float64)).dtype is sm.complex128
    assert sm.fft.rfft(sm.ones(3, dtype=sm.float16)).dtype is sm.complex64
    assert sm.fft.irfft(sm.ones(3, dtype=sm.complex128)).dtype is sm.float64
    assert sm.fft.fft(sm.zeros((0, 4))).shape == (0, 4)


def test_derivatives_and_transforms():
    x = sm.asarray(RNG.normal(size=12))
    power = lambda x: (abs(sm.fft.fft(x)) ** 2).sum()  # noqa: E731
    np.testing.assert_allclose(sm.grad(power)(x).numpy(), 24 * x.numpy())  # Parseval
    half = lambda x: (abs(sm.fft.rfft(x)) ** 2)[1].real  # noqa: E731
    wave = np.exp(-2j * np.pi * np.arange(12) / 12)
    np.testing.assert_allclose(sm.grad(half)(x).numpy(), 2 * (np.fft.rfft(x.numpy())[1].conj() * wave).real)
    rows = sm.asarray(numbers(3, 8))
    np.testing.assert_allclose(sm.vmap(sm.fft.fft)(rows).numpy(), np.fft.fft(rows.numpy()))
    np.testing.assert_allclose(sm.jit(sm.fft.ifft)(rows).numpy(), np.fft.ifft(rows.numpy()))
    _, change = sm.jvp(sm.fft.rfft, (x,), (x * 2,))
    np.testing.assert_allclose(change.numpy(), 2 * np.fft.rfft(x.numpy()))
    kernel = np.zeros(12)
    kernel[:3] = 1 / 3
    smooth = sm.fft.irfft(sm.fft.rfft(x) * sm.fft.rfft(sm.asarray(kernel)), n=12).numpy()
    np.testing.assert_allclose(smooth, sum(np.roll(x.numpy(), k) for k in range(3)) / 3)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_places(n):
    for name in ("fftfreq", "rfftfreq"):
        found = getattr(sm.fft, name)(n, d=0.5, dtype=sm.float64).numpy()
        np.testing.assert_allclose(found, getattr(np.fft, name)(n, d=0.5))
    x = np.arange(3 * n).reshape(3, n)
    for name in ("fftshift", "ifftshift"):
        for axes in (None, 1, (0, 1)):
            found = getattr(sm.fft, name)(sm.asarray(x), axes=axes).numpy()
            np.testing.assert_array_equal(found, getattr(np.fft, name)(x, axes=axes))


def test_sizes_are_taken_apart_or_made_larger():
    assert [size for size in range(2, 40) if not is_smooth(size)] == []
    assert not is_smooth(2 * 131)
    assert is_smooth(61 * 64) and is_smooth(127 * 67)


@pytest.mark.parametrize(
    ("mistake", "error", "text"),
    [
        (lambda: sm.fft.fft(sm.asarray(1.0)), ShapeError, "rank 0"),
        (lambda: sm.fft.fft(sm.ones(3), n=0), ArgumentError, "one at least"),
        (lambda: sm.fft.fft(sm.ones((2, 0))), ArgumentError, "one at least"),
        (lambda: sm.fft.fft(sm.ones(3), n=2**30), ArgumentError, "are too many for a transform"),
        (lambda: sm.fft.irfft(sm.ones(3), n=8388617), ArgumentError, "half as many with a prime factor above"),
        (lambda: sm.fft.fft(sm.ones(3), axis=2), AxisError, "fft"),
        (lambda: sm.fft.fft(sm.ones(3), norm="none"), ArgumentError, "norm is 'none'"),
        (lambda: sm.fft.rfft(sm.ones(3) * 1j), DTypeError, "Use fft"),
        (lambda: sm.fft.fftn(sm.ones((2, 3)), s=(2,), axes=(0, 1)), ArgumentError, "a size for each axis"),
        (lambda: sm.fft.fftfreq(0), ArgumentError, "n is 0"),
        (lambda: sm.fft.fftfreq(3, dtype=sm.int32), DTypeError, "must be a float"),
    ],
)
def test_mistakes(mistake, error, text):
    with pytest.raises(error, match=text):
        mistake()
