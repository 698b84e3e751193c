"""The programs of the algebra suite, as somebody writes them who does not think of what they cost.

Each takes the words of a library first, a module such as `in_smelt`: exp, log, tanh, sqrt and rsqrt of a tensor; sum,
mean, max and argmax along an axis, which is gone then; softmax over the last axis; `attention(q, k, v)` of (heads,
length, features); `concat(parts, axis)`; `one_hot(numbers, how_many)`; `take(table, numbers)` for rows, and
`pick(x, numbers)` for one element of each row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from smelt.bench.algebra import in_numpy
from smelt.rewrite import Contract

Words: TypeAlias = Any
_LEAST_CUT, _CUT = 64, 8  # sizes from here on are smaller for a quick look, so many times


class Given(NamedTuple):
    """An input: floats, which may be positive, or numbers below `below`."""

    shape: tuple[int, ...]
    below: int = 0
    positive: bool = False

    def smaller(self) -> Given:
        """For a quick look."""
        return Given(tuple(map(_cut, self.shape)), _cut(self.below), self.positive)


def _cut(size: int) -> int:
    return size // _CUT if size >= _LEAST_CUT else size


@dataclass(frozen=True)
class Program:
    """`run` takes words and inputs. `needs` is the contract of the rule that makes it cheaper.

    `reference` is there where NumPy would need too much memory for the same.
    """

    summary: str
    needs: Contract
    given: Sequence[Given]
    run: Callable[..., Any]
    reference: Callable[..., Any] | None = None

    def inputs(self, quick: bool) -> list[Any]:
        """Arrays from a seed."""
        generator = np.random.default_rng(0)
        found: list[Any] = []
        for one in (given.smaller() if quick else given for given in self.given):
            if one.below:
                found.append(generator.integers(0, one.below, one.shape))
                continue
            floats = generator.standard_normal(one.shape, dtype=np.float32)
            found.append(np.abs(floats) if one.positive else floats)
        return found

    def expected(self, inputs: Sequence[Any]) -> Any:
        """The result of NumPy, in float64."""
        wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in inputs]
        return self.run(in_numpy, *wide) if self.reference is None else self.reference(*wide)


def _floats(*shapes: tuple[int, ...]) -> list[Given]:
    return [Given(shape) for shape in shapes]


def _mahalanobis(w: Words, x: Any, mean: Any, factor: Any) -> Any:
    away = x - mean
    return w.sum((away @ (factor @ factor.T)) * away, -1)


def _pairwise_by_row(x: Any, y: Any) -> Any:
    return np.stack([np.square(row - y).sum(-1) for row in x])


def _rms_linear(w: Words, x: Any, weight: Any) -> Any:
    return (x * w.rsqrt(w.mean(x * x, -1)[:, None] + 1e-5)) @ weight


def _cosines(w: Words, x: Any, y: Any) -> Any:
    lengths = w.sqrt(w.sum(x * x, -1)), w.sqrt(w.sum(y * y, -1))
    return (x @ y.T) / lengths[0][:, None] / lengths[1][None, :]


def _nll_by_hand(w: Words, x: Any, numbers: Any) -> Any:
    shifted = x - w.max(x, -1)[:, None]
    chances = shifted - w.log(w.sum(w.exp(shifted), -1))[:, None]
    return -w.mean(w.pick(chances, numbers), 0)


def _argmax_by_hand(w: Words, x: Any) -> Any:
    powers = w.exp(x - w.max(x, -1)[:, None])
    return w.argmax(powers / w.sum(powers, -1)[:, None], -1)


def _pooled(w: Words, cache: Any, new: Any) -> Any:
    return w.mean(w.concat([cache, new], 0), 0)


def _heads_in_a_loop(w: Words, q: Any, k: Any, v: Any) -> Any:
    features = 64
    parts = []
    for start in range(0, q.shape[1], features):
        own = slice(start, start + features)
        parts.append(w.softmax((q[:, own] @ k[:, own].T) * 0.125) @ v[:, own])
    return w.concat(parts, 1)


def _groups_in_a_loop(w: Words, x: Any, weight: Any) -> Any:
    size = weight.shape[1]
    return w.concat([x[:, k * size : (k + 1) * size] @ weight[k] for k in range(weight.shape[0])], 1)


def _decode_with_cache(w: Words, q: Any, keys: Any, values: Any, key: Any, value: Any) -> Any:
    keys, values = w.concat([keys, key], 1), w.concat([values, value], 1)
    return w.softmax((q @ keys.swapaxes(-1, -2)) * 0.125) @ values


def _attention_with_cache(w: Words, q: Any, keys: Any, values: Any, key: Any, value: Any) -> Any:
    return w.attention(q, w.concat([keys, key], 1), w.concat([values, value], 1))


def _normalised_rows(w: Words, table: Any, numbers: Any) -> Any:
    return w.take(table * w.rsqrt(w.mean(table * table, -1)[:, None] + 1e-5), numbers)


_REGROUPED: Mapping[str, Program] = {
    "lora": Program(
        "x (a b): 64 rows, 4096², a and b of rank 8",
        Contract.REGROUPS,
        _floats((64, 4096), (4096, 8), (8, 4096)),
        lambda w, x, a, b: x @ (a @ b),
    ),
    "lora_layer": Program(
        "x (w + a b): 16 rows, a layer of 2048² and what was learnt beside it, of rank 8",
        Contract.REGROUPS,
        _floats((16, 2048), (2048, 2048), (2048, 8), (8, 2048)),
        lambda w, x, weight, a, b: x @ (weight + a @ b),
    ),
    "linear_attention": Program(
        "(q kᵀ) v: length 4096, 64 features, no softmax",
        Contract.REGROUPS,
        _floats((4096, 64), (4096, 64), (4096, 64)),
        lambda w, q, k, v: (q @ k.T) @ v,
    ),
    "rank_one": Program(
        "(u vᵀ) b: an outer product of 1024² times a matrix",
        Contract.REGROUPS,
        _floats((1024,), (1024,), (1024, 1024)),
        lambda w, u, v, b: (u[:, None] * v[None, :]) @ b,
    ),
    "adapter": Program(
        "x w + b + x d: a layer of 768² and what was learnt beside it, 512 rows",
        Contract.REGROUPS,
        _floats((512, 768), (768, 768), (768, 768), (768,)),
        lambda w, x, weight, added, bias: x @ weight + bias + x @ added,
    ),
    "two_stream_head": Program(
        "x w + y w: one layer of 768² for two streams of 512 rows",
        Contract.REGROUPS,
        _floats((512, 768), (512, 768), (768, 768)),
        lambda w, x, y, weight: x @ weight + y @ weight,
    ),
    "pooled_head": Program(
        "mean(x w + b) over 256 places: 8 sequences, a layer of 768²",
        Contract.REGROUPS,
        _floats((8, 256, 768), (768, 768), (768,)),
        lambda w, x, weight, bias: w.mean(x @ weight + bias, 1),
    ),
    "score_sum": Program(
        "sum(x wᵀ) over 704 scores: 512 rows, 768 features",
        Contract.REGROUPS,
        _floats((512, 768), (704, 768)),
        lambda w, x, weight: w.sum(x @ weight.T, -1),
    ),
    "mahalanobis": Program(
        "sum(d (l lᵀ) d), d = x - m: 64 rows, 768 features, the precision by its factor",
        Contract.REGROUPS,
        _floats((64, 768), (768,), (768, 768)),
        _mahalanobis,
    ),
    "low_rank_trace": Program(
        "sum((b c) a): 2048², b and c of rank 8",
        Contract.REGROUPS,
        _floats((2048, 8), (8, 2048), (2048, 2048)),
        lambda w, b, c, a: w.sum((b @ c) * a, (0, 1)),
    ),
    "scaled_scores": Program(
        "(q kᵀ) / 8: length 1024, 64 features",
        Contract.REGROUPS,
        _floats((1024, 64), (1024, 64)),
        lambda w, q, k: (q @ k.T) * 0.125,
    ),
    "rms_linear": Program(
        "(x / rms(x)) w: 256 rows, 768²",
        Contract.REGROUPS,
        _floats((256, 768), (768, 768)),
        _rms_linear,
    ),
    "onehot_matmul": Program(
        "one_hot(i) w: 64 rows out of 1024, of 512 features",
        Contract.REGROUPS,
        [Given((64,), 1024), Given((1024, 512))],
        lambda w, numbers, table: w.one_hot(numbers, table.shape[0]) @ table,
    ),
    "chain_of_matrices": Program(
        "((a b) c) d: 512×2048×64×2048×16",
        Contract.REGROUPS,
        _floats((512, 2048), (2048, 64), (64, 2048), (2048, 16)),
        lambda w, a, b, c, d: ((a @ b) @ c) @ d,
    ),
}

_JOINED: Mapping[str, Program] = {
    "concat_linear": Program(
        "[x | h] w: 256 rows, 128 + 128 features in, 128 out",
        Contract.REASSOCIATES,
        _floats((256, 128), (256, 128), (256, 128)),
        lambda w, x, h, weight: w.concat([x, h], 1) @ weight,
    ),
    "joined_score": Program(
        "[x | h] w: a score of each of 4096 rows, 512 + 512 features",
        Contract.REASSOCIATES,
        _floats((4096, 512), (4096, 512), (1024,)),
        lambda w, x, h, weight: w.concat([x, h], 1) @ weight,
    ),
    "reduction_of_concat": Program(
        "mean([cache; new]): a row after 4096 others of 1024 features",
        Contract.REASSOCIATES,
        _floats((4096, 1024), (1, 1024)),
        _pooled,
    ),
}

_PICKED: Mapping[str, Program] = {
    "nll_by_hand": Program(
        "the mean of -log(softmax(x))[i], written out: 1024 rows out of 8000",
        Contract.EXACT,
        [Given((1024, 8000)), Given((1024,), 8000)],
        _nll_by_hand,
    ),
    "picked_probability": Program(
        "softmax(x)[i]: what each of 1024 rows out of 8000 gives its label",
        Contract.EXACT,
        [Given((1024, 8000)), Given((1024,), 8000)],
        lambda w, x, numbers: w.pick(w.softmax(x), numbers),
    ),
    "picked_logits": Program(
        "(30 tanh(x / 30))[i]: one of 8000 in each of 1024 rows",
        Contract.EXACT,
        [Given((1024, 8000)), Given((1024,), 8000)],
        lambda w, x, numbers: w.pick(w.tanh(x / 30) * 30, numbers),
    ),
    "scaled_embedding": Program(
        "(22.6 table)[i]: 256 rows out of 32000, of 512 features",
        Contract.EXACT,
        [Given((32000, 512)), Given((256,), 32000)],
        lambda w, table, numbers: w.take(table * 22.6, numbers),
    ),
}

_FAST: Mapping[str, Program] = {
    "pairwise": Program(
        "sum((x - y)²) of all pairs: 1024 rows each, 64 features",
        Contract.FAST,
        _floats((1024, 64), (1024, 64)),
        lambda w, x, y: w.sum((x[:, None, :] - y[None, :, :]) ** 2, -1),
        _pairwise_by_row,
    ),
    "cosines": Program(
        "x yᵀ / |x| / |y| of all pairs: 1024 rows each, 64 features",
        Contract.FAST,
        _floats((1024, 64), (1024, 64)),
        _cosines,
    ),
    "argmax_softmax": Program(
        "argmax(softmax(x)): 64 rows of 32000",
        Contract.FAST,
        _floats((64, 32000)),
        lambda w, x: w.argmax(w.softmax(x), -1),
    ),
    "argmax_softmax_by_hand": Program(
        "the same, with the softmax written out", Contract.FAST, _floats((64, 32000)), _argmax_by_hand
    ),
    "max_of_tanh": Program(
        "max(tanh(x)): 1024²", Contract.FAST, _floats((1024, 1024)), lambda w, x: w.max(w.tanh(x), -1)
    ),
    "row_normalise": Program(
        "x / sum(x): 1024², by rows",
        Contract.FAST,
        [Given((1024, 1024), positive=True)],
        lambda w, x: x / w.sum(x, -1)[:, None],
    ),
    "mixture_density": Program(
        "sum(exp(a) exp(b)): weights and densities of 1024 parts, at 1024 places",
        Contract.FAST,
        _floats((1024, 1024), (1024, 1024)),
        lambda w, a, b: w.sum(w.exp(a) * w.exp(b), -1),
    ),
    "log_likelihood": Program(
        "sum(log(p) + log(q)): two chances of 1024 events, 1024 times",
        Contract.FAST,
        [Given((1024, 1024), positive=True), Given((1024, 1024), positive=True)],
        lambda w, p, q: w.sum(w.log(p) + w.log(q), -1),
    ),
    "soft_cap": Program(
        "softmax(30 tanh(x / 30)): 1024²",
        Contract.FAST,
        _floats((1024, 1024)),
        lambda w, x: w.softmax(w.tanh(x / 30) * 30),
    ),
}

_TOGETHER: Mapping[str, Program] = {
    "heads_in_a_loop": Program(
        "attention of 12 heads, one by one: 32 queries and keys, 64 features",
        Contract.REASSOCIATES,
        _floats((32, 768), (32, 768), (32, 768)),
        _heads_in_a_loop,
    ),
    "groups_in_a_loop": Program(
        "64 layers of 16², each of its own part of 256 rows",
        Contract.REASSOCIATES,
        _floats((256, 1024), (64, 16, 16)),
        _groups_in_a_loop,
    ),
}

_APART: Mapping[str, Program] = {
    "decode_with_cache": Program(
        "attention of a token to 1024 others and itself: 12 heads of 64 features, keys joined to those before",
        Contract.REASSOCIATES,
        _floats((12, 1, 64), (12, 1024, 64), (12, 1024, 64), (12, 1, 64), (12, 1, 64)),
        _decode_with_cache,
    ),
    "attention_with_cache": Program(
        "the same, by the library's attention",
        Contract.REASSOCIATES,
        _floats((12, 1, 64), (12, 1024, 64), (12, 1024, 64), (12, 1, 64), (12, 1, 64)),
        _attention_with_cache,
    ),
    "attended_rows": Program(
        "softmax(q kᵀ)[i]: what 64 of 4096 queries look at, 1024 keys of 64 features",
        Contract.REASSOCIATES,
        [Given((4096, 64)), Given((1024, 64)), Given((64,), 4096)],
        lambda w, q, k, numbers: w.take(w.softmax(q @ k.T), numbers),
    ),
    "picked_rows": Program(
        "(x w)[i]: 32 of 1024 rows, 768²",
        Contract.REASSOCIATES,
        [Given((1024, 768)), Given((768, 768)), Given((32,), 1024)],
        lambda w, x, weight, numbers: w.take(x @ weight, numbers),
    ),
    "picked_scores": Program(
        "(x wᵀ)[k, i]: one of 8000 scores in each of 1024 rows, 64 features",
        Contract.REASSOCIATES,
        [Given((1024, 64)), Given((8000, 64)), Given((1024,), 8000)],
        lambda w, x, weight, numbers: w.pick(x @ weight.T, numbers),
    ),
    "projected_embedding": Program(
        "table[i] w: 4096 rows out of 64, 512²",
        Contract.REASSOCIATES,
        [Given((64, 512)), Given((4096,), 64), Given((512, 512))],
        lambda w, table, numbers, weight: w.take(table, numbers) @ weight,
    ),
    "several_heads": Program(
        "[x a | x b | x c | x d]: 4096 rows of 512 features, a number for each of four",
        Contract.REASSOCIATES,
        _floats((4096, 512), (512, 1), (512, 1), (512, 1), (512, 1)),
        lambda w, x, *heads: w.concat([x @ head for head in heads], 1),
    ),
    "several_classifiers": Program(
        "[x a | x b | x c | x d]: the same rows, four classes for each of four",
        Contract.REASSOCIATES,
        _floats((4096, 512), (512, 4), (512, 4), (512, 4), (512, 4)),
        lambda w, x, *heads: w.concat([x @ head for head in heads], 1),
    ),
    "weighted_means": Program(
        "(x / sum(x)) y: weights of 512 for each of 4096 rows, 8 features",
        Contract.REGROUPS,
        [Given((4096, 512), positive=True), Given((512, 8))],
        lambda w, x, y: (x / w.sum(x, -1)[:, None]) @ y,
    ),
    "normalised_rows": Program(
        "(table / rms(table))[i]: 64 rows out of 8192, of 512 features",
        Contract.REASSOCIATES,
        [Given((8192, 512)), Given((64,), 8192)],
        _normalised_rows,
    ),
}

PROGRAMS: Mapping[str, Program] = {**_REGROUPED, **_JOINED, **_PICKED, **_FAST, **_TOGETHER, **_APART}
