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


def ratio(name: str, size: int) -> float:
    rng = np.random.default_rng(size)
    batch = max(1, min(64, (1 << 15) // size))
    x = rng.normal(size=(batch, size)).astype(np.float32)
    if name == "fft":
        x = (x + 1j * rng.normal(size=x.shape)).astype(np.complex64)
    exact = getattr(np.fft, name)(x.astype(np.complex128 if name == "fft" else np.float64))
    theirs = error(getattr(scipy_fft, name)(x), exact)
    ours = error(getattr(sm.fft, name)(sm.asarray(x)).numpy(), exact)
    return ours / theirs if theirs else float(ours > 0)


@pytest.mark.peers
@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_errors_of_some_sizes(name: str) -> None:
    found = {size: ratio(name, size) for size in (1, 2, 16, 61, 67, 97, 109, 127, 218, 243, 256, 1000, 1009)}
    assert {size: share for size, share in found.items() if share > LIMIT} == {}


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.parametrize("name", ["fft", "rfft"])
@pytest.mark.parametrize("start", range(0, 1024, 64))
def test_errors_of_all_small_sizes_and_primes(name: str, start: int) -> None:
    sizes = [n for n in range(max(1, start), start + 64) if n <= 512 or is_prime(n)]
    found = {size: ratio(name, size) for size in sizes}
    assert {size: share for size, share in found.items() if share > LIMIT} == {}


@pytest.mark.peers
@pytest.mark.slow
@pytest.mark.parametrize("name", ["fft", "rfft"])
def test_errors_of_a_large_size(name: str) -> None:
    assert ratio(name, 1 << 20) <= LIMIT
