"""The suites of the array API's extensions, `linalg` and `fft`: compiled programs, against NumPy's own calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import smelt as sm
from smelt.bench.op_cases import Array, Case, Way
from smelt.bench.ops import contest_of
from smelt.bench.report import Row, time_text

LEAST_RATIO = 0.95  # of the speed of the same LAPACK without a compiler around it
LEAST_OF_TRANSFORMS = 0.5


def _matrices(batch: int, size: int) -> Callable[[bool], list[Array]]:
    """Symmetric, positive definite, and far from singular."""

    def inputs(quick: bool) -> list[Array]:
        count, n = (max(1, batch // 100), max(2, size // 4)) if quick else (batch, size)
        x = np.random.default_rng(0).standard_normal((count, n, n))
        whole = (x @ x.mT / n + np.eye(n)).astype(np.float32)
        return [whole if batch > 1 else whole[0]]

    return inputs


_FUNCTIONS: dict[str, tuple[Way, Way]] = {
    "cholesky": (sm.linalg.cholesky, np.linalg.cholesky),
    "solve": (lambda x: sm.linalg.solve(x, x[..., :1]), lambda x: np.linalg.solve(x, x[..., :1])),
    "inv": (sm.linalg.inv, np.linalg.inv),
    # Determinants themselves are too large for a float here.
    "slogdet": (lambda x: sm.linalg.slogdet(x).logabsdet, lambda x: np.linalg.slogdet(x).logabsdet),
    "eigvalsh": (sm.linalg.eigvalsh, np.linalg.eigvalsh),
    "svdvals": (sm.linalg.svdvals, np.linalg.svdvals),
    "qr": (lambda x: sm.linalg.qr(x).R, lambda x: np.linalg.qr(x).R),
}
_SIZES = {"4": (100_000, 4), "16": (10_000, 16), "64": (1_000, 64), "512": (1, 512)}


def _cases() -> Iterator[tuple[str, Case]]:
    for name, (ours, numpy) in _FUNCTIONS.items():
        for size, (batch, n) in _SIZES.items():
            many = f"{batch:,} matrices" if batch > 1 else "one matrix"
            yield f"{name}-{size}", Case(f"{name} of {many} {n} x {n}", _matrices(batch, n), ours, {"numpy": numpy})


CASES: dict[str, Case] = dict(_cases())


def _signals(batch: int, size: int, is_complex: bool) -> Callable[[bool], list[Array]]:
    def inputs(quick: bool) -> list[Array]:
        x = np.random.default_rng(0).standard_normal((2, max(1, batch // (64 if quick else 1)), size))
        return [(x[0] + 1j * x[1]).astype(np.complex64) if is_complex else x[0].astype(np.float32)]

    return inputs


_TRANSFORMS: dict[str, tuple[Way, Way]] = {
    "fft": (sm.fft.fft, np.fft.fft),
    "rfft": (sm.fft.rfft, np.fft.rfft),
    "irfft": (sm.fft.irfft, np.fft.irfft),
}
_LENGTHS = (64, 256, 1000, 1009, 1024, 4096, 65536)


def _transforms() -> Iterator[tuple[str, Case]]:
    for name, (ours, numpy) in _TRANSFORMS.items():
        for size in (n for n in _LENGTHS if name != "irfft" or n % 2 == 0):
            batch = (1 << 18) // size
            inputs = _signals(batch, size // 2 + 1 if name == "irfft" else size, name != "rfft")
            yield f"{name}-{size}", Case(f"{name} of {batch:,} rows of {size:,}", inputs, ours, {"numpy": numpy})


FFT_CASES: dict[str, Case] = dict(_transforms())


def measure_linalg(names: Iterable[str], quick: bool, progress: Callable[[str], None]) -> list[Row]:
    """A row for each case of one of the suites, and the geometric mean."""
    rows: list[Row] = []
    for name in names:
        case = (CASES | FFT_CASES)[name]
        progress(f"{name}: {case.summary}")
        found, _ = contest_of(name, quick)
        detail = f"against {time_text(found.second.median)}; {case.summary}"
        bar = None if quick else LEAST_RATIO if name in CASES else LEAST_OF_TRANSFORMS
        measured = found.measured(against="numpy", flops=0.0)
        rows.append(Row(name, found.ratio.median, "×", bar, at_least=True, detail=detail, measured=measured))
    geomean = math.exp(sum(math.log(row.figure or 1.0) for row in rows) / max(1, len(rows)))
    return [*rows, Row("geometric mean", geomean, "×", None, at_least=True)]
