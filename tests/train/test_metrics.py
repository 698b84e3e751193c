"""Metrics: the numbers that NumPy gives, in one go or in batches, inside of jit and outside."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import ArgumentError, DTypeError, ShapeError

CLASSES = 4
RANDOM = np.random.default_rng(0)
SCORES = RANDOM.normal(size=(23, CLASSES)).astype(np.float32)
TARGETS = RANDOM.integers(0, CLASSES, 23)
MASK = RANDOM.random(23) < 0.7


def confusion(found: Any, wanted: Any) -> Any:
    counts = np.zeros((CLASSES, CLASSES), np.int64)
    np.add.at(counts, (wanted, found), 1)
    return counts


def expected(name: str, scores: Any, targets: Any) -> Any:
    found = scores.argmax(-1)
    counts = confusion(found, targets)
    hits, rows, columns = counts.diagonal(), counts.sum(1), counts.sum(0)
    precision, recall = hits / np.maximum(columns, 1), hits / np.maximum(rows, 1)
    return {
        "Accuracy": (found == targets).mean(),
        "TopK": np.mean([t in np.argsort(-s, kind="stable")[:2] for s, t in zip(scores, targets, strict=True)]),
        "ConfusionMatrix": counts,
        "Precision": precision.mean(),
        "Precision-each": precision,
        "Recall": recall.mean(),
        "Recall-weighted": (found == targets).mean(),
        "F1": (2 * hits / (rows + columns)).mean(),
        "F1-micro": (found == targets).mean(),
    }[name]


METRICS: dict[str, Any] = {
    "Accuracy": sm.train.Accuracy,
    "TopK": lambda: sm.train.TopK(2),
    "ConfusionMatrix": lambda: sm.train.ConfusionMatrix(CLASSES),
    "Precision": lambda: sm.train.Precision(CLASSES),
    "Precision-each": lambda: sm.train.Precision(CLASSES, average=None),
    "Recall": lambda: sm.train.Recall(CLASSES),
    "Recall-weighted": lambda: sm.train.Recall(CLASSES, average="weighted"),
    "F1": lambda: sm.train.F1(CLASSES),
    "F1-micro": lambda: sm.train.F1(CLASSES, average="micro"),
}


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.by_turns(2)
def test_metrics_are_those_of_numpy(name: str, masked: bool) -> None:
    metric = METRICS[name]()
    kept = MASK if masked else np.ones(23, np.bool_)
    for part in (slice(0, 8), slice(8, 16), slice(16, 23)):
        metric.update(SCORES[part], TARGETS[part], mask=MASK[part] if masked else None)
    np.testing.assert_allclose(metric.value(), expected(name, SCORES[kept], TARGETS[kept]), rtol=1e-12)
    metric.reset()
    metric.update(sm.asarray(SCORES), sm.asarray(TARGETS))
    np.testing.assert_allclose(metric.value(), expected(name, SCORES, TARGETS), rtol=1e-12)


def test_metrics_grow_inside_of_jit() -> None:
    accuracy, matrix = sm.train.Accuracy(), sm.train.ConfusionMatrix(CLASSES)

    @sm.jit
    def count(matrix: sm.train.ConfusionMatrix, scores: sm.Tensor, targets: sm.Tensor) -> sm.Tensor:
        accuracy.update(scores, targets)  # from outside
        matrix.update(scores, targets)  # as an argument
        return scores.sum()

    for part in (slice(0, 8), slice(8, 16)):
        count(matrix, sm.asarray(SCORES[part]), sm.asarray(TARGETS[part]))
    assert accuracy.value() == expected("Accuracy", SCORES[:16], TARGETS[:16])
    assert matrix.value().tolist() == expected("ConfusionMatrix", SCORES[:16], TARGETS[:16]).tolist()


def test_means() -> None:
    mean = sm.train.Mean()
    assert np.isnan(mean.value())
    mean.update(3.0, weight=2)
    mean.update(sm.asarray([[1.0, 2.0], [9.0, 9.0]]), mask=sm.asarray([True, False]))
    assert mean.value() == (3 + 3 + 1 + 2) / 4
    mean.reset()
    for _ in range(1000):
        mean.update(sm.asarray(0.1))
    assert abs(mean.value() - np.float32(0.1)) < 1e-12  # summed in float64


def test_a_history_does_not_grow() -> None:
    accuracy = sm.train.Accuracy()
    for _ in range(3):
        accuracy.update(sm.asarray([0, 1]), sm.asarray([0, 1]))
        assert "lazy" not in repr(accuracy.total)


def test_classes_out_of_range_are_not_counted() -> None:
    matrix, top = sm.train.ConfusionMatrix(2), sm.train.TopK(1)
    matrix.update(sm.asarray([0, 1, 5, -1]), sm.asarray([0, 7, 0, 0]))
    assert matrix.value().tolist() == [[1, 0], [0, 0]]
    top.update(sm.asarray([[1.0, 0.0]] * 3), sm.asarray([0, -1, 9]))
    assert top.value() == 1 / 3


SCORE, CLASS = sm.zeros(3, 2), sm.asarray([0, 1, 0])
MISTAKES: dict[str, tuple[Any, type[Exception], str]] = {
    "shape": (lambda: sm.train.Accuracy().update(SCORE, CLASS[:2]), ShapeError, "(3, 2) for targets (2,)"),
    "floats": (lambda: sm.train.Accuracy().update(sm.zeros(3), CLASS), DTypeError, "classes are integers"),
    "targets": (lambda: sm.train.Accuracy().update(SCORE, sm.zeros(3)), DTypeError, "targets are float32"),
    "mask": (lambda: sm.train.Accuracy().update(SCORE, CLASS, mask=CLASS), DTypeError, "must be bool"),
    "mask size": (lambda: sm.train.Accuracy().update(SCORE, CLASS, mask=CLASS[:2] > 0), ShapeError, "mask (2,)"),
    "top shape": (lambda: sm.train.TopK(1).update(CLASS, CLASS), ShapeError, "one axis more"),
    "top": (lambda: sm.train.TopK(0), ArgumentError, "k is 0"),
    "classes": (lambda: sm.train.ConfusionMatrix(0), ArgumentError, "number of classes is 0"),
    "average": (lambda: sm.train.F1(2, average="mean"), ArgumentError, "'macro'"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name: str) -> None:
    call, error, text = MISTAKES[name]
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)
