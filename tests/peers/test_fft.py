"""How exact transforms of float32 are, against pocketfft's of float32: SciPy's, since NumPy computes in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm

scipy_fft = pytest.importorskip("scipy.fft")
LIMIT = 1.5  # times the error of pocketfft, as root mean square


def is_prime(n: int) -> bool:
    return n > 1 and all(n % k for k in range(2, int(n**0.5) + 1))


def error(found: Any, exact: Any) -> float:
    return float(np.sqrt((abs(found - exact) ** 2).mean() / (abs(exact) ** 2).mean()))


REAL, FROM_HALF = ("rfft", "ihfft"), ("irfft", "hfft")
ONE_AXIS = ("fft", "ifft", *REAL, *FROM_HALF)
SEVERAL = ("fftn", "ifftn", "rfftn", "irfftn")  # the other four functions of `fft` move and number places


def ratio(name: str, size: int) -> float:
    """Our error by SciPy's, of a batch of signals; functions of several axes transform both."""
    rng = np.random.default_rng(size)
    batch = max(1, min(64, (1 << 15) // size)) if name in ONE_AXIS else 5
    shape = (batch, size // 2 + 1 if name in (*FROM_HALF, "irfftn") else size)
    x = rng.normal(size=shape).astype(np.float32)
    if name not in (*REAL, "rfftn"):
        x = (x + 1j * rng.normal(size=shape)).astype(np.complex64)
    options: dict[str, Any] = {"n": size} if name in FROM_HALF else {}
    if name == "irfftn":
        options = {"s": (batch, size), "axes": (0, 1)}
    exact = getattr(np.fft, name)(x.astype(np.complex128 if np.iscomplexobj(x) else np.float64), **options)
    theirs = error(getattr(scipy_fft, name)(x, **options), exact)
    ours = error(getattr(sm.fft, name)(sm.asarray(x), **options).numpy(), exact)
    return ours / theirs if theirs else float(ours > 0)


@pytest.mark.peers
@pytest.mark.parametrize("name", [*ONE_AXIS, *SEVERAL])
def test_errors_of_some_sizes(name: str) -> None:
    sizes = (1, 2, 16, 61, 109, 139, 256, 278, 1009) if name in ONE_AXIS else (16, 61, 256)
    found = {size: ratio(name, size) for size in sizes}
    assert {size: share for size, share in found.items() if share > LIMIT} == {}


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_AXIS)
@pytest.mark.parametrize("start", range(0, 1024, 64))
def test_errors_of_all_small_sizes_and_primes(name: str, start: int) -> None:
    sizes = [n for n in range(max(1, start), start + 64) if n <= 512 or is_prime(n)]
    found = {size: ratio(name, size) for size in sizes}
    assert {size: share for size, share in found.items() if share > LIMIT} == {}


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.parametrize("name", ONE_AXIS)
def test_errors_of_a_large_size(name: str) -> None:
    assert ratio(name, 1 << 20) <= LIMIT
