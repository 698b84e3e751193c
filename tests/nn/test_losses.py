"""Losses by their meaning, in all dtypes and under all transforms; tests/peers compares them with PyTorch."""

from __future__ import annotations

import math
from itertools import groupby, product
from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.interpreted import interpreted

L = sm.nn.losses
RNG = np.random.default_rng(3)


def normal(*shape: int) -> sm.Tensor:
    return sm.asarray(RNG.standard_normal(shape).astype(np.float32))


SHARES = sm.asarray(RNG.uniform(0.1, 0.9, (4, 3)).astype(np.float32))
SIGNS = sm.asarray([1.0, -1.0, 1.0, -1.0])

# Each loss, with tensors that have a batch along their first axis.
LOSSES: dict[str, tuple[Any, ...]] = {
    "cross_entropy": (normal(4, 3), sm.asarray([0, 2, -100, 1])),
    "nll_loss": (normal(4, 3), sm.asarray([0, 2, -100, 1])),
    "multi_margin_loss": (normal(4, 3), sm.asarray([0, 2, 1, 1])),
    "mse_loss": (normal(4, 3), normal(4, 3)),
    "l1_loss": (normal(4, 3), normal(4, 3)),
    "smooth_l1_loss": (normal(4, 3), normal(4, 3)),
    "huber_loss": (normal(4, 3), normal(4, 3)),
    "binary_cross_entropy": (SHARES, SHARES),
    "binary_cross_entropy_with_logits": (normal(4, 3), SHARES),
    "soft_margin_loss": (normal(4), SIGNS),
    "kl_div": (SHARES.log(), SHARES),
    "poisson_nll_loss": (normal(4, 3), SHARES),
    "gaussian_nll_loss": (normal(4, 3), normal(4, 3), SHARES),
    "triplet_margin_loss": (normal(4, 3), normal(4, 3), normal(4, 3)),
    "margin_ranking_loss": (normal(4), normal(4), SIGNS),
    "hinge_embedding_loss": (normal(4), SIGNS),
    "cosine_embedding_loss": (normal(4, 3), normal(4, 3), SIGNS),
}


def test_the_table_is_complete() -> None:
    assert {*LOSSES, "ctc_loss"} == set(L.__all__)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.by_turns(4)
def test_all_kinds_of_calls(name: str) -> None:
    """The same losses in batches, compiled or not, of one element at a time, and in 16 bits."""
    function, tensors = getattr(L, name), LOSSES[name]
    each = function(*tensors, reduction="none")
    assert each.shape[0] == 4
    total = function(*tensors, reduction="sum")
    np.testing.assert_allclose(total.item(), each.sum().item(), rtol=1e-5)
    (alone,) = interpreted(each)
    compiled = sm.jit(lambda *tensors: (function(*tensors), function(*tensors, reduction="none")))
    np.testing.assert_allclose(compiled(*tensors)[1].numpy(), alone, rtol=1e-5, atol=1e-6)
    one = sm.vmap(lambda *tensors: function(*tensors, reduction="none"))(*tensors)
    np.testing.assert_allclose(one.numpy(), alone, rtol=1e-5, atol=1e-6)
    narrow = [x.astype(sm.bfloat16) if x.dtype.is_float else x for x in tensors]
    loss, slope = sm.value_and_grad(lambda x: function(x, *narrow[1:], reduction="sum"))(narrow[0])
    assert loss.dtype is sm.bfloat16 and slope.dtype is sm.bfloat16
    np.testing.assert_allclose(loss.item(), total.item(), rtol=0.05, atol=0.1)
    assert np.isfinite(slope.astype(sm.float32).numpy()).all()


def test_cross_entropy_is_one_function_under_all_its_names() -> None:
    assert sm.cross_entropy is sm.nn.losses.cross_entropy is sm.nn.CrossEntropyLoss.function


def test_classes_lie_where_pytorch_has_them_or_where_axis_says() -> None:
    pixels, labels = normal(2, 5, 5), sm.asarray(np.arange(10).reshape(2, 5) % 5)  # a wrong axis would fit as well
    losses = sm.cross_entropy(pixels, labels, reduction="none")
    logs = -pixels.log_softmax(axis=1)
    np.testing.assert_allclose(losses.numpy(), np.take_along_axis(logs.numpy(), labels.numpy()[:, None], 1)[:, 0])
    for options in ({}, {"label_smoothing": 0.1}, {"ignore_index": 2}, {"weight": sm.arange(5) + 1.0}):
        last = sm.cross_entropy(pixels.swapaxes(1, 2), labels, axis=-1, **options)  # type: ignore[arg-type]
        np.testing.assert_allclose(last.numpy(), sm.cross_entropy(pixels, labels, **options).numpy(), rtol=1e-6)  # type: ignore[arg-type]
    shares = pixels.softmax(axis=1)
    np.testing.assert_allclose(
        sm.nn.CrossEntropyLoss(axis=2)(pixels.swapaxes(1, 2), shares.swapaxes(1, 2)).numpy(),
        sm.cross_entropy(pixels, shares).numpy(),
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("options", "classes"), [({}, "labels"), ({"label_smoothing": 0.1}, "labels"), ({"weight": SHARES[0]}, "shares")]
)
def test_cross_entropy_in_numpy(options: dict[str, Any], classes: str) -> None:
    logits, labels = normal(5, 3), sm.asarray([0, 2, 1, 1, 0])
    target = labels if classes == "labels" else sm.one_hot(labels, 3, dtype=sm.float32)
    x = logits.numpy().astype(np.float64)
    logs = x - np.log(np.exp(x).sum(1, keepdims=True))
    share = options.get("label_smoothing", 0.0)
    wanted = np.eye(3)[labels.numpy()] * (1 - share) + share / 3
    weight = options["weight"].numpy() if "weight" in options else np.ones(3)
    expected = -(logs * wanted * weight).sum(1).mean()
    np.testing.assert_allclose(L.cross_entropy(logits, target, **options).item(), expected, rtol=1e-5)


def test_labels_that_do_not_count() -> None:
    logits = normal(4, 3)
    some = L.cross_entropy(logits, sm.asarray([0, 7, 2, 7]), ignore_index=7)
    np.testing.assert_allclose(some.item(), L.cross_entropy(logits[::2], sm.asarray([0, 2])).item(), rtol=1e-6)
    slope = sm.grad(lambda x: L.cross_entropy(x, sm.asarray([0, -100, 2, -100])))(logits)
    assert not slope[1::2].numpy().any()
    assert math.isnan(L.cross_entropy(logits, sm.asarray([0, 7, 2, 1])).item())
    assert math.isnan(L.cross_entropy(logits, sm.full((4,), -100)).item())  # a mean of nothing, as in PyTorch
    unsigned = L.cross_entropy(logits, sm.asarray([0, 1, 2, 1], dtype=sm.uint8))
    np.testing.assert_allclose(unsigned.item(), L.cross_entropy(logits, sm.asarray([0, 1, 2, 1])).item(), rtol=1e-6)
    with pytest.raises(sm.errors.IndexRangeError):
        L.nll_loss(logits, sm.asarray([0, 7, 2, 1])).item()


def test_a_symbolic_batch_needs_one_trace() -> None:
    traces: list[int] = []
    n = sm.Dim("n", 1, 64)

    @sm.jit(shapes=[(n, 3), (n,)])
    def loss(logits: sm.Tensor, labels: sm.Tensor) -> sm.Tensor:
        traces.append(1)
        return L.cross_entropy(logits, labels, label_smoothing=0.1)

    for size in (4, 7):
        logits, labels = normal(size, 3), sm.asarray(RNG.integers(0, 3, size))
        expected = L.cross_entropy(logits, labels, label_smoothing=0.1).item()
        np.testing.assert_allclose(loss(logits, labels).item(), expected, rtol=1e-5)
    assert len(traces) == 1


# --- connectionist temporal classification


def _collapsed(path: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(letter for letter, _ in groupby(path) if letter != 0)


@pytest.mark.parametrize("text", [(1,), (1, 2), (1, 1), (), (2, 1, 2)])
@pytest.mark.by_turns(3)
def test_ctc_adds_up_all_paths(text: tuple[int, ...]) -> None:
    logs = sm.log_softmax(normal(4, 3), -1)
    shares = np.exp(logs.numpy().astype(np.float64))
    paths = [p for p in product(range(3), repeat=4) if _collapsed(p) == text]
    total = sum(np.prod([shares[t, letter] for t, letter in enumerate(path)]) for path in paths)
    padded = sm.asarray([[*text, 0]], dtype=sm.int64)
    got = L.ctc_loss(logs.expand_dims(1), padded, (4,), (len(text),), reduction="sum")
    np.testing.assert_allclose(got.item(), -np.log(total), rtol=1e-5)
    slope = sm.grad(lambda x: L.ctc_loss(x, padded, (4,), (len(text),), reduction="sum"))(logs.expand_dims(1))
    np.testing.assert_allclose(slope.sum(-1).numpy(), -np.ones((4, 1)), rtol=1e-5)  # at each time some letter stands


def test_ctc_without_a_path() -> None:
    logs, text = sm.log_softmax(normal(2, 2, 3), -1), sm.asarray([[1, 1], [1, 2]])
    losses = L.ctc_loss(logs, text, (2, 2), (2, 2), reduction="none").tolist()
    assert losses[0] == math.inf and math.isfinite(losses[1])

    def loss(logs: sm.Tensor) -> sm.Tensor:
        return L.ctc_loss(logs, text, (2, 2), (2, 2), reduction="sum", zero_infinity=True)

    assert loss(logs).item() == pytest.approx(losses[1])
    slope = sm.grad(loss)(logs).numpy()
    assert not slope[:, 0].any() and np.isfinite(slope).all()
    never = sm.asarray([[[0.0, -math.inf]], [[-math.inf, 0.0]]])  # shares of 0
    assert L.ctc_loss(never, sm.asarray([[1]]), (2,), (1,)).item() == 0.0
    assert np.isfinite(sm.grad(lambda x: L.ctc_loss(x, sm.asarray([[1]]), (2,), (1,)))(never).numpy()).all()


# --- modules


def test_modules_keep_options() -> None:
    weight = sm.asarray([1.0, 2.0, 3.0])
    loss = sm.nn.CrossEntropyLoss(weight, label_smoothing=0.1)
    assert repr(loss) == "CrossEntropyLoss(ignore_index=-100, reduction='mean', label_smoothing=0.1)"
    logits, labels = normal(4, 3), sm.asarray([0, 2, 1, 1])
    expected = L.cross_entropy(logits, labels, weight=weight, label_smoothing=0.1)
    assert loss(logits, labels).item() == expected.item()
    assert sm.jit(loss)(logits, labels).item() == pytest.approx(expected.item())
    assert loss.parameters() == [] and list(loss.state_dict()) == ["weight"]
    assert sm.nn.HuberLoss("sum", 2.0)(sm.ones(2), sm.zeros(2)).item() == 1.0
    assert sm.nn.GaussianNLLLoss()(sm.ones(2), sm.ones(2), sm.ones(2)).item() == 0.0
    logs = sm.full((4, 1, 3), 1 / 3).log()
    assert sm.nn.CTCLoss(reduction="sum")(logs, sm.asarray([[1, 2]]), (4,), (2,)).item() == pytest.approx(1.6864, 1e-4)
