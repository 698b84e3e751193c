"""Losses have the values and gradients of PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm

pytestmark = pytest.mark.peers

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True, scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="peers: torch is not installed (make test-peers installs it)")


class Case(NamedTuple):
    """A loss, what it is called with, and options. Floats are differentiated by, unless they are `fixed`."""

    name: str
    inputs: tuple[Any, ...]
    options: Mapping[str, Any] = MappingProxyType({})
    fixed: tuple[int, ...] = ()


def normal(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def shares(*shape: int, axis: int = -1) -> Any:
    x = np.exp(normal(*shape))
    return x / x.sum(axis, keepdims=True)


def uniform(*shape: int) -> Any:
    return RNG.uniform(0.02, 0.98, shape)


def integers(high: int, *shape: int) -> Any:
    return RNG.integers(0, high, shape)


def signs(*shape: int) -> Any:
    return 2 * RNG.integers(0, 2, shape) - 1


def _with(labels: Any, value: int) -> Any:
    labels = labels.copy()
    labels.reshape(-1)[:: max(2, labels.size // 3)] = value
    return labels


PAIRS = [(normal(*s), normal(*s)) for s in ((7,), (3, 5), (2, 3, 4, 5), ())]
LABELED = [(normal(6, 5), integers(5, 6)), (normal(5), integers(5)), (normal(3, 4, 2, 5), integers(4, 3, 2, 5))]

CASES = [
    *(Case(name, pair) for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss") for pair in PAIRS),
    *(Case("smooth_l1_loss", PAIRS[1], {"beta": beta}) for beta in (0.0, 0.3, 2.0)),
    *(Case("huber_loss", PAIRS[1], {"delta": delta}) for delta in (0.3, 2.0)),
    *(Case("cross_entropy", pair) for pair in LABELED),
    *(Case("cross_entropy", (x, y), {"weight": uniform(x.shape[min(1, x.ndim - 1)])}) for x, y in LABELED),
    *(Case("cross_entropy", (x, _with(y, -100))) for x, y in LABELED[::2]),
    *(Case("cross_entropy", (x, y), {"ignore_index": 2}) for x, y in LABELED[::2]),
    *(Case("cross_entropy", pair, {"label_smoothing": 0.2}) for pair in LABELED),
    *(
        Case(
            "cross_entropy",
            (x, _with(y, 1)),
            {"label_smoothing": 0.3, "ignore_index": 1, "weight": uniform(x.shape[1])},
        )
        for x, y in LABELED[::2]
    ),
    Case("cross_entropy", (50 * normal(4, 1000), integers(1000, 4))),
    Case("cross_entropy", (normal(6, 5), shares(6, 5)), fixed=(1,)),
    Case("cross_entropy", (normal(6, 5, 3), shares(6, 5, 3, axis=1)), {"weight": uniform(5), "label_smoothing": 0.1}),
    Case("cross_entropy", (normal(5), shares(5))),
    *(Case("nll_loss", (np.log(shares(*x.shape)), y)) for x, y in LABELED),
    *(Case("nll_loss", (x, _with(y, 1)), {"ignore_index": 1, "weight": uniform(x.shape[1])}) for x, y in LABELED[::2]),
    *(Case("multi_margin_loss", pair) for pair in LABELED[:2]),
    Case("multi_margin_loss", LABELED[0], {"p": 2, "margin": 0.5, "weight": uniform(5)}),
    Case("binary_cross_entropy", (uniform(4, 3), uniform(4, 3))),
    Case("binary_cross_entropy", (uniform(4, 3), integers(2, 4, 3).astype(float)), {"weight": uniform(3)}, (1,)),
    Case("binary_cross_entropy", (np.array([0.0, 1.0, 1e-13, 0.25]), np.array([1.0, 0.0, 1.0, 0.5])), {}, (1,)),
    Case("binary_cross_entropy_with_logits", (10 * normal(4, 3), uniform(4, 3))),
    Case("binary_cross_entropy_with_logits", (normal(4, 3), uniform(4, 3)), {"weight": uniform(4, 1)}),
    Case("binary_cross_entropy_with_logits", (normal(4, 3), uniform(4, 3)), {"pos_weight": 3 * uniform(3)}),
    Case("soft_margin_loss", (normal(4, 3), signs(4, 3).astype(float)), fixed=(1,)),
    *(Case("kl_div", (np.log(shares(4, 3)), shares(4, 3)), {"reduction": r}) for r in ("mean", "batchmean")),
    Case("kl_div", (np.log(shares(2, 3)), np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]])), fixed=(1,)),
    Case("kl_div", (np.log(shares(4, 3)), np.log(shares(4, 3))), {"log_target": True}),
    Case("poisson_nll_loss", (normal(4, 3), integers(9, 4, 3).astype(float)), fixed=(1,)),
    Case("poisson_nll_loss", (normal(4, 3), integers(9, 4, 3).astype(float)), {"full": True}, (1,)),
    Case("poisson_nll_loss", (uniform(4, 3), integers(9, 4, 3).astype(float)), {"log_input": False}, (1,)),
    Case("gaussian_nll_loss", (normal(4, 3), normal(4, 3), uniform(4, 3))),
    Case("gaussian_nll_loss", (normal(4, 3), normal(4, 3), uniform(4, 1)), {"full": True}),
    Case("gaussian_nll_loss", (normal(4, 3), normal(4, 3), uniform(4))),
    Case("gaussian_nll_loss", (normal(4, 3), normal(4, 3), uniform(4, 3)), {"eps": 0.4}),
    Case("triplet_margin_loss", (normal(4, 3), normal(4, 3), normal(4, 3))),
    Case("triplet_margin_loss", (normal(3), normal(3), normal(3)), {"swap": True, "margin": 2.0}),
    Case("triplet_margin_loss", (normal(4, 3), normal(4, 3), normal(4, 3)), {"p": 1.0, "eps": 1e-3, "swap": True}),
    Case("margin_ranking_loss", (normal(7), normal(7), signs(7).astype(float)), {"margin": 0.5}, (2,)),
    Case("hinge_embedding_loss", (normal(7), signs(7).astype(float)), {"margin": 0.5}, (1,)),
    Case("cosine_embedding_loss", (normal(7, 4), normal(7, 4), signs(7)), {"margin": 0.1}),
    Case("cosine_embedding_loss", (normal(4), normal(4), signs()), {}),
]


def _options(case: Case, convert: Any) -> dict[str, Any]:
    return {k: convert(v) if isinstance(v, np.ndarray) else v for k, v in case.options.items()}


KINDS = pytest.mark.parametrize(
    ("dtype", "reduction"), [("float32", "mean"), ("float64", "mean"), ("float32", "sum"), ("float64", "none")]
)


@KINDS
@pytest.mark.filterwarnings("ignore:reduction. 'mean' divides")
@pytest.mark.parametrize("case", CASES, ids=[f"{k}-{case.name}" for k, case in enumerate(CASES)])
def test_values_and_gradients(torch: Any, case: Case, reduction: str, dtype: str) -> None:
    if "reduction" in case.options and reduction != "mean":
        pytest.skip("the reduction is an option of the case")
    options = {"reduction": reduction}
    arrays = [np.asarray(x).astype(dtype) if np.asarray(x).dtype.kind == "f" else np.asarray(x) for x in case.inputs]
    by = [k for k, x in enumerate(arrays) if x.dtype.kind == "f" and k not in case.fixed]
    theirs = [torch.tensor(x, requires_grad=k in by) for k, x in enumerate(arrays)]
    function = getattr(torch.nn.functional, case.name)
    expected = function(*theirs, **options | _options(case, lambda w: torch.tensor(w.astype(dtype))))
    factors = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape)).astype(dtype)
    (expected * torch.tensor(factors)).sum().backward()

    def ours(*tensors: sm.Tensor) -> Any:
        function = getattr(sm.nn.losses, case.name)
        found = function(*tensors, **options | _options(case, lambda w: sm.asarray(w.astype(dtype))))
        return (found * sm.asarray(factors)).sum(), found

    tensors = [sm.asarray(x) for x in arrays]
    (_, got), gradients = sm.jit(sm.value_and_grad(ours, argnums=tuple(by), has_aux=True))(*tensors)
    tolerance = {"rtol": 2e-5, "atol": 2e-6} if dtype == "float32" else {"rtol": 1e-8, "atol": 1e-10}
    assert got.dtype.name == dtype
    np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), **tolerance)
    for k, gradient in zip(by, gradients, strict=True):
        np.testing.assert_allclose(gradient.numpy(), theirs[k].grad.numpy(), err_msg=f"input {k}", **tolerance)


# --- connectionist temporal classification: gradients through log_softmax, since PyTorch's assumes that it comes before


def _texts(letters: int, batch: int, longest: int) -> Any:
    return RNG.integers(1, letters, (batch, longest))


CTC = {
    "plain": (normal(9, 3, 5), _texts(5, 3, 3), (9, 9, 9), (3, 3, 3), {}),
    "lengths": (normal(9, 3, 5), _texts(5, 3, 4), (9, 7, 5), (4, 2, 1), {}),
    "repeated": (normal(9, 2, 3), np.array([[1, 1, 2], [2, 2, 2]]), (9, 8), (3, 3), {}),
    "joined": (normal(9, 3, 5), _texts(5, 1, 7)[0], (9, 7, 8), (3, 1, 3), {}),
    "empty": (normal(6, 2, 4), _texts(4, 2, 2), (6, 5), (0, 2), {}),
    "blank": (normal(6, 2, 4), RNG.integers(0, 3, (2, 2)), (6, 5), (1, 2), {"blank": 3}),
    "impossible": (normal(3, 2, 4), np.array([[1, 1, 1], [1, 2, 3]]), (3, 3), (3, 3), {"zero_infinity": True}),
    "one": (normal(6, 4), np.array([1, 3]), (6,), (2,), {}),
    "long": (3 * normal(120, 2, 7), _texts(7, 2, 40), (120, 100), (40, 33), {}),
}


@KINDS
@pytest.mark.parametrize("case", CTC)
def test_ctc(torch: Any, case: str, reduction: str, dtype: str) -> None:
    scores, targets, times, sizes, options = CTC[case]
    options = options | {"reduction": reduction}
    scores = scores.astype(dtype)
    theirs = torch.tensor(scores, requires_grad=True)
    lengths = (torch.tensor(times), torch.tensor(sizes)) if scores.ndim == 3 else (times[0], sizes[0])
    lengths = tuple(torch.as_tensor(x) for x in lengths)
    expected = torch.nn.functional.ctc_loss(theirs.log_softmax(-1), torch.tensor(targets), *lengths, **options)
    factors = np.cos(np.arange(expected.numel())).reshape(tuple(expected.shape)).astype(dtype)
    (expected * torch.tensor(factors)).sum().backward()

    def ours(scores: sm.Tensor, targets: sm.Tensor, *lengths: Any) -> Any:
        found = sm.nn.losses.ctc_loss(sm.log_softmax(scores, -1), targets, *lengths, **options)
        return (found * sm.asarray(factors)).sum(), found

    tolerance = {"rtol": 1e-4, "atol": 2e-5} if dtype == "float32" else {"rtol": 1e-8, "atol": 1e-10}
    for given in ((times, sizes), (sm.asarray(times), sm.asarray(sizes))):
        step = sm.value_and_grad(lambda x, y, given=given: ours(x, y, *given), has_aux=True)
        (_, got), gradient = sm.jit(step)(sm.asarray(scores), sm.asarray(targets))
        np.testing.assert_allclose(got.numpy(), expected.detach().numpy(), **tolerance)
        np.testing.assert_allclose(gradient.numpy(), theirs.grad.numpy(), **tolerance)


# --- modules


def test_every_loss_of_pytorch_has_the_same_options(torch: Any) -> None:
    import inspect

    gone = {"size_average", "reduce"}
    for name in sm.nn.__all__:
        if not name.endswith("Loss"):
            continue
        ours = [p for p in inspect.signature(getattr(sm.nn, name)).parameters if p != "axis"]  # an option of ours
        theirs = [p for p in inspect.signature(getattr(torch.nn, name)).parameters if p not in gone]
        assert set(ours) <= set(theirs), name
        assert ours == [p for p in theirs if p in ours], name
        assert set(theirs) - set(ours) <= {"weight"}, name


def test_weights_are_in_the_state(torch: Any) -> None:
    weight = np.array([0.5, 1.0, 2.0], np.float32)
    theirs = torch.nn.CrossEntropyLoss(weight=torch.tensor(weight))
    ours = sm.nn.CrossEntropyLoss(weight=sm.asarray(weight))
    assert list(ours.state_dict()) == list(theirs.state_dict())
    x, y = normal(4, 3).astype(np.float32), integers(3, 4)
    np.testing.assert_allclose(
        ours(sm.asarray(x), sm.asarray(y)).numpy(), theirs(torch.tensor(x), torch.tensor(y)).numpy(), rtol=1e-5
    )
