"""Every distribution against its own law: Kolmogorov-Smirnov for floats, chi-square for counts, at fixed seeds."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm

r = sm.random
COUNT = 100_000
Array = np.ndarray[Any, Any]


def distance(sample: Array, law: Callable[[float], float]) -> float:
    """Kolmogorov and Smirnov's statistic, times the root of the count: above 2.2 once in ten thousand times."""
    ordered = np.sort(sample.astype(np.float64))
    n = len(ordered)
    places = np.arange(0, n, 97)
    expected = np.array([law(float(x)) for x in ordered[places]])
    above = np.searchsorted(ordered, ordered[places], "right") / n
    below = np.searchsorted(ordered, ordered[places], "left") / n
    return float(np.maximum(above - expected, expected - below).max() * math.sqrt(n))


def surprise(observed: Array, expected: Array) -> float:
    """Pearson's chi-square, as standard deviations from its mean; categories of less than 10 are put together."""
    small = expected < 10
    seen = np.append(observed[~small], observed[small].sum())
    wanted = np.append(expected[~small], expected[small].sum())
    seen, wanted = seen[wanted > 0], wanted[wanted > 0]
    degrees = max(1, len(wanted) - 1)
    return float((((seen - wanted) ** 2 / wanted).sum() - degrees) / math.sqrt(2 * degrees))


def phi(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def truncated(low: float, high: float) -> Callable[[float], float]:
    """In the tail on the right, by the other side, whose digits are not lost."""
    if low > 0:
        return lambda x: (phi(-low) - phi(-x)) / (phi(-low) - phi(-high))
    return lambda x: (phi(x) - phi(low)) / (phi(high) - phi(low))


def gamma_law(a: float) -> Callable[[float], float]:
    """The regularized incomplete gamma function: its series, or beyond the mean its continued fraction."""

    def law(x: float) -> float:
        if x <= 0:
            return 0.0
        front = math.exp(a * math.log(x) - x - math.lgamma(a + 1))
        if x < a + 1:
            term = total = 1.0
            n = 0
            while term > 1e-12 * total:
                n += 1
                term *= x / (a + n)
                total += term
            return front * total
        fraction = 0.0
        for n in range(300 + int(4 * math.sqrt(a)), 0, -1):
            fraction = n * (n - a) / (x + 2 * n + 1 - a - fraction)
        return 1 - front * a / (x + 1 - a - fraction)

    return law


def beta_law(a: float, b: float) -> Callable[[float], float]:
    """The regularized incomplete beta function, by its continued fraction (Lentz's method)."""

    def law(x: float) -> float:
        if x <= 0 or x >= 1:
            return float(x >= 1)
        if x > (a + 1) / (a + b + 2):
            return 1 - beta_law(b, a)(1 - x)
        front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
        c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1))
        total = d
        for m in range(1, 400):
            for step in (
                m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
                -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
            ):
                d, c = 1 / (1 + step * d), 1 + step / c
                total *= c * d
        return front * total / a

    return law


def laplace(x: float) -> float:
    return 0.5 * math.exp(x) if x < 0 else 1 - 0.5 * math.exp(-x)


N = (COUNT,)
CONTINUOUS: dict[str, tuple[Callable[..., sm.Tensor], Callable[[float], float]]] = {
    "uniform": (lambda **k: r.uniform(N, -2.0, 3.0, **k), lambda x: (x + 2) / 5),
    "normal": (lambda **k: r.normal(N, 3.0, 0.5, **k), lambda x: phi((x - 3) / 0.5)),
    "exponential": (lambda **k: r.exponential(N, 4.0, **k), lambda x: -math.expm1(-x / 4)),
    "laplace": (lambda **k: r.laplace(N, **k), laplace),
    "gumbel": (lambda **k: r.gumbel(N, **k), lambda x: math.exp(-math.exp(-x))),
    "truncated": (lambda **k: r.truncated_normal(N, **k), truncated(-2, 2)),
    "truncated to one side": (lambda **k: r.truncated_normal(N, -math.inf, -1.0, **k), lambda x: phi(x) / phi(-1)),
    "truncated tail": (lambda **k: r.truncated_normal(N, 6.0, 9.0, **k), truncated(6, 9)),
    "truncated off center": (lambda **k: r.truncated_normal(N, -1.0, 5.0, **k), truncated(-1, 5)),
    "gamma 0.05": (lambda **k: r.gamma(0.05, N, **k), gamma_law(0.05)),
    "gamma 0.9": (lambda **k: r.gamma(0.9, N, **k), gamma_law(0.9)),
    "gamma 1": (lambda **k: r.gamma(1.0, N, **k), lambda x: -math.expm1(-x)),
    "gamma 7.5": (lambda **k: r.gamma(7.5, N, **k), gamma_law(7.5)),
    "gamma 1e4": (lambda **k: r.gamma(1e4, N, **k), gamma_law(1e4)),
    "beta 0.5 0.5": (lambda **k: r.beta(0.5, 0.5, N, **k), lambda x: 2 / math.pi * math.asin(math.sqrt(x))),
    "beta 2 5": (lambda **k: r.beta(2.0, 5.0, N, **k), beta_law(2, 5)),
    "beta 300 20": (lambda **k: r.beta(300.0, 20.0, N, **k), beta_law(300, 20)),
}


@pytest.mark.parametrize("name", CONTINUOUS)
@pytest.mark.by_turns(3)
def test_floats_follow_their_law(name: str) -> None:
    draw, law = CONTINUOUS[name]
    assert distance(draw(key=r.key(17)).numpy(), law) < 2.2


@pytest.mark.slow
def test_wide_floats_follow_their_law_too() -> None:
    keys = r.split(r.key(5), 3)
    drawn = {
        "exponential": r.exponential(N, dtype=sm.float64, key=keys[0]),
        "gamma": r.gamma(0.9, N, dtype=sm.float64, key=keys[1]),
        "truncated": r.truncated_normal(N, 30.0, 31.0, dtype=sm.float64, key=keys[2]),
    }
    sm.realize(*drawn.values())
    assert distance(drawn["exponential"].numpy(), lambda x: -math.expm1(-x)) < 2.2
    assert distance(drawn["gamma"].numpy(), gamma_law(0.9)) < 2.2
    assert distance(drawn["truncated"].numpy(), truncated(30, 31)) < 2.2


def poisson_law(rate: float, count: int) -> Array:
    return np.array([math.exp(k * math.log(rate) - rate - math.lgamma(k + 1)) for k in range(count)])


@pytest.mark.parametrize(
    "rate", [1.0, 33.0, *(pytest.param(r, marks=pytest.mark.slow) for r in [0.01, 9.9, 10.0, 1000.0])]
)
def test_poisson_counts(rate: float) -> None:
    size = int(rate + 20 * math.sqrt(rate) + 20)
    counts = np.bincount(r.poisson(rate, N, key=r.key(3)).numpy(), minlength=size)
    assert abs(surprise(counts[:size], COUNT * poisson_law(rate, size))) < 4.5


@pytest.mark.slow
def test_extreme_parameters() -> None:
    key = r.key(0)
    tiny = r.beta(1e-3, 1e-3, N, key=key).numpy()
    assert np.isfinite(tiny).all() and abs(tiny.mean() - 0.5) < 0.01
    large = r.poisson(1e12, N, key=key).numpy().astype(np.float64)
    assert abs(large.mean() - 1e12) < 2e4 and abs(large.std() / 1e6 - 1) < 0.02
    far = r.truncated_normal((1000,), 1e4, math.inf, dtype=sm.float64, key=key).numpy() - 1e4
    assert (far >= 0).all() and abs(far.mean() * 1e4 - 1) < 0.15
    rates = sm.asarray([math.nan, -1.0, 0.0, math.inf])
    assert r.poisson(rates, key=key).tolist()[:3] == [-1, -1, 0]
    assert np.isnan(r.gamma(sm.asarray([0.0, -1.0, math.nan]), key=key).numpy()).all()
    assert np.isnan(r.normal(None, 0.0, sm.asarray([-1.0]), key=key).numpy()).all()


def test_choices_have_their_weights() -> None:
    p = np.array([0.1, 0.0, 0.2, 0.7])
    keys = r.split(r.key(8), 4)
    drawn = [
        r.categorical(sm.log(sm.asarray(p)), shape=N, key=keys[0]),
        r.choice(4, N, p=p, key=keys[1]),
        r.bernoulli(0.7, N, key=keys[2], dtype=sm.int64) * 3,
        r.multinomial(COUNT, p, key=keys[3]),
    ]
    sm.realize(*drawn)
    for sample in drawn[:2]:
        assert abs(surprise(np.bincount(sample.numpy(), minlength=4), COUNT * p)) < 4.5
    assert abs(surprise(np.bincount(drawn[2].numpy(), minlength=4), COUNT * np.array([0.3, 0, 0, 0.7]))) < 4.5
    assert abs(surprise(drawn[3].numpy(), COUNT * p)) < 4.5


def test_orders_are_equally_likely() -> None:
    draw = sm.jit(lambda: r.permutation(3))
    r.seed(2)
    codes = np.array([draw().numpy() @ [9, 3, 1] for _ in range(1200)])
    _, counts = np.unique(codes, return_counts=True)
    assert len(counts) == 6 and abs(surprise(counts, np.full(6, 200.0))) < 4.5
    large = r.permutation(10_007, key=r.key(1)).numpy()
    assert np.array_equal(np.sort(large), np.arange(10_007))


def test_streams_are_independent() -> None:
    key = r.key(4)
    streams = [key, *r.split(key, 3), r.fold_in(key, 0), r.fold_in(key, 1)]
    drawn = [r.normal(N, key=k) for k in streams]
    sm.realize(*drawn)
    correlation = np.corrcoef([x.numpy() for x in drawn]) - np.eye(len(streams))
    assert abs(correlation).max() * math.sqrt(COUNT) < 4.5
    digits = [(r.bits(N, key=k).numpy() >> 28).astype(np.int64) for k in streams[:3]]
    for a, b in itertools.pairwise(digits):
        assert abs(surprise(np.bincount(a * 16 + b, minlength=256), np.full(256, COUNT / 256))) < 4.5


@pytest.mark.slow
def test_the_same_with_and_without_jit() -> None:
    def draw() -> list[sm.Tensor]:
        return [r.gamma(0.5, (5,)), r.poisson(20, (5,)), r.permutation(7), r.normal((3,))]

    replayed = sm.jit(draw)
    r.seed(9)
    plain = [x.tolist() for _ in range(2) for x in draw()]
    r.seed(9)
    assert [x.tolist() for _ in range(2) for x in replayed()] == plain


def test_a_key_may_depend_on_a_traced_number() -> None:
    key = r.key(1)
    folded = sm.jit(r.fold_in)
    for step in (0, 3, 2**40):
        assert folded(key, sm.asarray(step)).tolist() == r.fold_in(key, step).tolist()


def test_integers_between_tensors() -> None:
    low, high = sm.asarray([0, -5, 3, -(2**62)]), sm.asarray([10, -4, 3, 2**62])
    drawn = r.randint(low, high, (5000, 4), key=r.key(0)).numpy()
    assert drawn[:, 0].min() == 0 and drawn[:, 0].max() == 9
    assert (drawn[:, 1] == -5).all() and (drawn[:, 2] == 3).all()
    assert np.abs(drawn[:, 3]).max() > 2**61


SHAPES = [(7, 4), *(pytest.param(s, marks=pytest.mark.slow) for s in [(3, 3), (40, 7), (65, 65), (1, 1), (4, 3, 2)])]


@pytest.mark.parametrize("shape", SHAPES)
def test_orthogonal_matrices(shape: tuple[int, ...]) -> None:
    q = r.orthogonal(shape, key=r.key(1)).numpy().reshape(shape[0], -1)
    small = q.T @ q if len(q) >= q.shape[1] else q @ q.T
    assert np.abs(small - np.eye(len(small))).max() < 1e-5


@pytest.mark.slow
def test_a_badly_conditioned_matrix_is_made_orthogonal_too() -> None:
    from smelt.tensor.handle import node_of, wrap
    from smelt.tensor.random.initializers import _polar

    u, _, v = np.linalg.svd(np.random.default_rng(0).normal(size=(12, 12)))
    x = u @ np.diag(np.logspace(0, -9, 12)) @ v
    q = wrap(_polar(node_of(sm.asarray(x), "polar"), 12)).numpy()
    assert np.abs(q.T @ q - np.eye(12)).max() < 1e-9 and np.abs(q - u @ v).max() < 1e-5
