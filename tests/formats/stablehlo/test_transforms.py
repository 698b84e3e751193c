"""Fourier transforms in texts, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ParseError

SHAPES = [((8,), 1), ((2, 7), 1), ((3, 6, 4), 2), ((2, 5, 4, 3), 3), ((2, 37), 1), ((1,), 1), ((2, 1), 2)]


def text(kind: str, given: str, lengths: list[int], gives: str) -> str:
    return f"""func.func @main(%x: {given}) -> {gives} {{
      %0 = stablehlo.fft %x, type = {kind}, length = {lengths} : ({given}) -> {gives}
      return %0 : {gives} }}"""


def tensor(shape: tuple[int, ...], element: str) -> str:
    return f"tensor<{'x'.join(map(str, (*shape, element)))}>"


@pytest.mark.parametrize(("shape", "count", "double"), [*((*case, False) for case in SHAPES), ((2, 6), 2, True)])
@pytest.mark.parametrize("kind", ["FFT", "IFFT", "RFFT", "IRFFT"])
def test_transforms(kind: str, shape: tuple[int, ...], count: int, double: bool) -> None:
    rng = np.random.default_rng(0)
    part, tolerance = ("f64", 1e-12) if double else ("f32", 1e-5)
    axes, lengths = range(-count, 0), list(shape[-count:])
    halved = (*shape[:-1], shape[-1] // 2 + 1)
    x = rng.normal(size=shape) + 1j * rng.normal(size=shape)
    if kind == "RFFT":
        x, wanted = x.real, np.fft.rfftn(x.real, axes=axes)
        types = tensor(shape, part), tensor(halved, f"complex<{part}>")
    elif kind == "IRFFT":
        x = np.fft.rfftn(x.real, axes=axes) + (1j if shape[-1] % 2 else 0)  # what breaks the symmetry is left out
        wanted = np.fft.irfftn(x, lengths, axes)
        types = tensor(halved, f"complex<{part}>"), tensor(shape, part)
    else:
        wanted = (np.fft.fftn if kind == "FFT" else np.fft.ifftn)(x, axes=axes)
        types = tensor(shape, f"complex<{part}>"), tensor(shape, f"complex<{part}>")
    program = sm.stablehlo.load(text(kind, types[0], lengths, types[1]))
    argument = program.signature.arguments[0].dtype
    result = program.signature.results[0].dtype
    assert argument is not None and result is not None
    found = program(x.astype(argument.numpy))
    assert found.dtype is result
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance, atol=tolerance * x.size)


def test_nothing_is_transformed_into_nothing() -> None:
    kind = tensor((0, 4), "complex<f32>")
    assert sm.stablehlo.load(text("FFT", kind, [4], kind))(np.zeros((0, 4), np.complex64)).shape == (0, 4)


@pytest.mark.parametrize(
    ("kind", "given", "lengths", "message"),
    [
        ("FFT", tensor((4,), "complex<f32>"), [5], r"the last axes are \[4\], and should be \[5\]"),
        ("FFT", tensor((4,), "f32"), [4], "does not take float32"),
        ("RFFT", tensor((4,), "complex<f32>"), [4], "does not take complex64"),
        ("FFT", tensor((2, 2, 2, 2), "complex<f32>"), [2, 2, 2, 2], "up to 3 axes"),
    ],
)
def test_mistakes_are_said(kind: str, given: str, lengths: list[int], message: str) -> None:
    with pytest.raises(ParseError, match=f"line 2, column .*{message}"):
        sm.stablehlo.load(text(kind, given, lengths, given)).check()
