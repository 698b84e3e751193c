"""What losses refuse, and in which words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import smelt as sm
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError

L = sm.nn.losses
X, Y, V, N = sm.ones(4, 3), sm.ones(4), sm.ones(3), sm.asarray([0, 1, 2, 0])

ALIKE = (
    *("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy", "kl_div", "poisson_nll_loss"),
    *("binary_cross_entropy_with_logits", "soft_margin_loss", "hinge_embedding_loss"),
)
MORE = {"gaussian_nll_loss": (X,), "triplet_margin_loss": (X,), "margin_ranking_loss": (X,), "ctc_loss": ((1,), (1,))}
MORE["cosine_embedding_loss"] = (Y,)


@pytest.mark.parametrize("name", ALIKE)
def test_shapes_that_would_broadcast(name: str) -> None:
    function = getattr(L, name)
    with pytest.raises(ShapeError, match="the same shape"):
        function(sm.ones(4, 1), Y)
    with pytest.raises(DTypeError, match="input is int64"):
        function(N, N)
    with pytest.raises(ArgumentError, match="target is of type float"):
        function(X, 1.0)


@pytest.mark.parametrize("name", L.__all__)
def test_reductions(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"{name}: reduction is 'average'[^·]*mean, sum, none"):
        getattr(L, name)(X, X, *MORE.get(name, ()), reduction="average")


Call = Callable[[], Any]
WRONG: list[tuple[Call, type[Exception], str]] = [
    (lambda: L.cross_entropy(X, sm.asarray([0, 1])), ShapeError, "without its axis 1"),
    (lambda: L.cross_entropy(sm.ones(2, 5, 3), sm.ones(2, 5, dtype=sm.int64)), ShapeError, "axis=-1"),
    (lambda: L.nll_loss(sm.ones(2, 5, 3), sm.ones(2, 5, dtype=sm.int64)), ShapeError, "moveaxis"),
    (lambda: L.cross_entropy(X, sm.one_hot(N, X.shape[1])), ShapeError, r"target.argmax\(1\)"),
    (lambda: L.cross_entropy(X, N, axis=3), AxisError, "axis 3"),
    (lambda: L.cross_entropy(X, Y), ShapeError, "astype"),
    (lambda: L.cross_entropy(X, Y > 0), DTypeError, "class numbers"),
    (lambda: L.cross_entropy(sm.ones(()), N), ShapeError, "a scalar"),
    (lambda: L.cross_entropy(N, N), DTypeError, "input is int64"),
    (lambda: L.cross_entropy(X, [0, 1, 2, 0]), ArgumentError, "type list"),
    (lambda: L.cross_entropy(X, N, weight=Y), ShapeError, "one number for each class"),
    (lambda: L.cross_entropy(X, N, weight=sm.asarray([1, 2, 3])), DTypeError, "weight is int64"),
    (lambda: L.cross_entropy(X, N, ignore_index=0.5), ArgumentError, "ignore_index must be an integer"),
    (lambda: L.cross_entropy(X, N, label_smoothing=1.5), ArgumentError, "at most 1"),
    (lambda: L.cross_entropy(X, N, label_smoothing=-0.5), ArgumentError, "at least 0"),
    (lambda: L.nll_loss(X, Y), DTypeError, "class numbers"),
    (lambda: L.nll_loss(X, sm.asarray([0])), ShapeError, "without its axis 1"),
    (lambda: L.multi_margin_loss(X, N, p=3), ArgumentError, "1 or 2"),
    (lambda: L.multi_margin_loss(sm.ones(4, 3, 2), N), ShapeError, r"\(batch, classes\)"),
    (lambda: L.smooth_l1_loss(X, X, beta=-1), ArgumentError, "beta"),
    (lambda: L.huber_loss(X, X, delta=0), ArgumentError, "above 0"),
    (lambda: L.binary_cross_entropy(X, X, weight=Y), ShapeError, "broadcast to them"),
    (lambda: L.binary_cross_entropy_with_logits(X, X, pos_weight=N), DTypeError, "pos_weight is int64"),
    (lambda: L.binary_cross_entropy_with_logits(X, X, pos_weight=sm.ones(2, 4, 3)), ShapeError, "pos_weight"),
    (lambda: L.kl_div(sm.ones(()), sm.ones(()), reduction="batchmean"), ShapeError, "a scalar"),
    (lambda: L.kl_div(X, X, log_target=1), ArgumentError, "log_target"),
    (lambda: L.poisson_nll_loss(X, X, eps=0), ArgumentError, "eps"),
    (lambda: L.poisson_nll_loss(X, X, full="yes"), ArgumentError, "full"),
    (lambda: L.gaussian_nll_loss(X, X, V), ShapeError, "var has shape"),
    (lambda: L.gaussian_nll_loss(X, X, -1.0), ArgumentError, "var is -1"),
    (lambda: L.triplet_margin_loss(X, X, V), ShapeError, "negative"),
    (lambda: L.triplet_margin_loss(X, X, X, margin=0), ArgumentError, "margin"),
    (lambda: L.triplet_margin_loss(*[sm.ones(())] * 3), ShapeError, "last axis"),
    (lambda: L.margin_ranking_loss(Y, Y, V), ShapeError, "target"),
    (lambda: L.margin_ranking_loss(Y, Y, Y, margin="1"), ArgumentError, "margin"),
    (lambda: L.cosine_embedding_loss(X, X, V), ShapeError, "without the features"),
    (lambda: L.cosine_embedding_loss(X, sm.ones(4, 2), Y), ShapeError, "same shape"),
    (lambda: L.ctc_loss(Y, N, (4,), (4,)), ShapeError, "time, batch, letters"),
    (lambda: L.ctc_loss(sm.ones(5, 2, 3), sm.ones(2, 2), (5, 5), (2, 2)), DTypeError, "targets is float32"),
    (lambda: L.ctc_loss(sm.ones(5, 2, 3), N.reshape(2, 2), (5,), (2, 2)), ShapeError, "input_lengths"),
    (lambda: L.ctc_loss(sm.ones(5, 2, 3), N.reshape(2, 2), (5, 5), (2.0, 2.0)), DTypeError, "target_lengths"),
    (lambda: L.ctc_loss(sm.ones(5, 2, 3), N.reshape(4, 1), (5, 5), (1, 1)), ShapeError, "2 texts"),
    (lambda: L.ctc_loss(sm.ones(5, 2, 3), N.reshape(2, 2), (5, 5), (2, 2), blank=3), ArgumentError, "3 letters"),
    (lambda: sm.nn.MSELoss("average"), ArgumentError, "reduction"),
    (lambda: sm.nn.MSELoss(size=3), ArgumentError, r"MSELoss\(reduction"),
    (lambda: sm.nn.MSELoss("sum", "mean"), ArgumentError, "too many"),
    (lambda: sm.nn.MSELoss()(X), ArgumentError, "input, target"),
    (lambda: sm.nn.CrossEntropyLoss(weight=Y)(X, N), ShapeError, "one number for each class"),
    (lambda: sm.nn.KLDivLoss("batch"), ArgumentError, "batchmean"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_mistakes(number: int) -> None:
    call, kind, words = WRONG[number]
    with pytest.raises(kind, match=words):
        call()


@pytest.mark.parametrize("name", ["CrossEntropyLoss", "NLLLoss", "MSELoss", "L1Loss", "BCEWithLogitsLoss", "KLDivLoss"])
def test_a_loss_is_made_before_it_is_called(name: str) -> None:
    scores, labels = sm.zeros(4, 3), sm.zeros(4, dtype=sm.int64)
    with pytest.raises(ArgumentError, match=rf"{name}: it is made with a tensor[\s\S]*Write {name}\(\.\.\.\)\(x\)"):
        getattr(sm.nn, name)(scores, labels)
    assert sm.nn.CrossEntropyLoss(sm.ones(3))(scores, labels).shape == ()  # weights are made with it
