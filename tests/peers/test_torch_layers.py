"""Layers give what PyTorch's give: values and gradients for the same weights, and running statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import smelt as sm

pytestmark = pytest.mark.peers

TOLERANCE = {"float32": (2e-4, 2e-5), "float64": (1e-9, 1e-11)}  # relative, absolute
LOOSER = {"Hardsigmoid": 1e-7}  # PyTorch's slope is 1/6 in float32
CALLS = 3  # in training, for running statistics


@pytest.fixture(autouse=True, scope="module")
def torch() -> Any:
    return pytest.importorskip("torch", reason="peers: torch is not installed (make test-peers installs it)")


class Row(NamedTuple):
    """A layer, what it is made with, and the shapes of its inputs; integers below a number where one is given."""

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    shapes: tuple[tuple[int, ...], ...]
    below: int | None = None
    positive: bool = False

    def __str__(self) -> str:
        options = [f"{key}={value}" for key, value in self.options.items()]
        shapes = " ".join("x".join(map(str, shape)) for shape in self.shapes)
        return f"{self.name}({', '.join([*map(str, self.arguments), *options])}) {shapes}"


def row(name: str, *arguments: Any, on: Any, below: int | None = None, positive: bool = False, **options: Any) -> Row:
    shapes = (on,) if isinstance(on[0], int) else on
    return Row(name, arguments, options, shapes, below, positive)


SPACE = {1: (9,), 2: (9, 7), 3: (5, 6, 4)}  # per number of axes


def products() -> Iterator[Row]:
    yield row("Linear", 5, 3, on=(4, 5))
    yield row("Linear", 5, 3, bias=False, on=(2, 3, 5))
    yield row("Linear", 5, 1, on=(5,))
    yield row("Bilinear", 3, 4, 5, on=((6, 3), (6, 4)))
    yield row("Bilinear", 3, 4, 2, bias=False, on=((2, 5, 3), (2, 5, 4)))
    yield row("Identity", 7, on=(2, 3))
    yield row("Flatten", on=(2, 3, 4))
    yield row("Flatten", 0, 1, on=(2, 3, 4))
    yield row("Unflatten", 1, (2, 3), on=(4, 6))
    yield row("Unflatten", -1, (2, -1), on=(4, 6))
    yield row("Embedding", 7, 3, on=(2, 5), below=7)
    yield row("Embedding", 7, 3, padding_idx=2, on=(11,), below=7)
    yield row("Embedding", 7, 3, padding_idx=-1, on=(4, 5), below=7)
    for mode in ("sum", "mean", "max"):
        yield row("EmbeddingBag", 7, 3, mode=mode, on=(4, 5), below=7)
        yield row("EmbeddingBag", 7, 3, mode=mode, padding_idx=2, on=(4, 5), below=7)


def convolutions() -> Iterator[Row]:
    for k, space in SPACE.items():
        name, few, many = f"Conv{k}d", (2, 4, *space), (2, 4, *[size + 3 for size in space])
        yield row(name, 4, 6, 3, on=few)
        yield row(name, 4, 6, 3, stride=2, padding=1, bias=False, on=few)
        yield row(name, 4, 6, 2, padding="same", dilation=2, on=few)
        yield row(name, 4, 6, 3, padding="valid", groups=2, on=few)
        yield row(name, 4, 8, 3, groups=4, padding=1, on=few[1:])
        for mode in ("reflect", "replicate", "circular"):
            yield row(name, 4, 3, 3, padding=2, padding_mode=mode, on=few)
        yield row(name, 4, 3, 4, padding="same", padding_mode="circular", on=many)
        name = f"ConvTranspose{k}d"
        yield row(name, 4, 6, 3, on=few)
        yield row(name, 4, 6, 3, stride=2, padding=1, output_padding=1, bias=False, on=few)
        yield row(name, 4, 6, 3, stride=2, dilation=2, groups=2, on=few)
        yield row(name, 4, 4, 2, stride=3, groups=4, on=few[1:])
    yield row("Conv2d", 3, 5, (3, 2), stride=(1, 2), padding=(2, 0), dilation=(1, 2), on=(2, 3, 8, 9))
    yield row("Conv2d", 3, 5, (3, 5), padding=(1, 2), padding_mode="reflect", on=(2, 3, 8, 9))
    yield row("ConvTranspose2d", 3, 5, (3, 2), stride=(1, 2), padding=(1, 0), output_padding=(0, 1), on=(2, 3, 4, 5))


def pads() -> Iterator[Row]:
    for k, space in SPACE.items():
        widths = tuple(min(width, 3) for width in range(2 * k))
        for name in ("Zero", "Constant", "Reflection", "Replication", "Circular"):
            more = (1.5,) if name == "Constant" else ()
            yield row(f"{name}Pad{k}d", 2, *more, on=(2, 3, *space))
            yield row(f"{name}Pad{k}d", widths, *more, on=(2, 3, *space))


def resized() -> Iterator[Row]:
    yield row("Upsample", 7, on=(2, 3, 4))
    yield row("Upsample", scale_factor=2, mode="linear", on=(2, 3, 4))
    yield row("Upsample", scale_factor=2, mode="bilinear", on=(2, 3, 4, 5))
    yield row("Upsample", size=(7, 3), mode="bilinear", align_corners=True, on=(2, 3, 4, 5))
    yield row("Upsample", scale_factor=2, mode="bicubic", on=(2, 3, 4, 5))
    yield row("Upsample", scale_factor=(1, 2, 2), mode="trilinear", on=(1, 2, 3, 3, 3))
    yield row("Upsample", scale_factor=3, mode="nearest-exact", on=(1, 2, 3, 3))
    yield row("UpsamplingNearest2d", scale_factor=2, on=(1, 2, 3, 4))
    yield row("UpsamplingBilinear2d", 5, on=(1, 2, 3, 4))
    yield row("PixelShuffle", 3, on=(2, 18, 4, 5))
    yield row("PixelShuffle", 2, on=(2, 2, 8, 2, 2))
    yield row("PixelUnshuffle", 2, on=(3, 4, 6))
    yield row("ChannelShuffle", 3, on=(2, 6, 2, 2))
    yield row("Fold", (4, 5), (2, 3), on=(2, 12, 9))
    yield row("Fold", 6, 3, dilation=2, padding=1, stride=2, on=(2, 18, 4))
    yield row("Unfold", (2, 3), on=(2, 3, 4, 5))
    yield row("Unfold", 3, dilation=2, padding=1, stride=2, on=(2, 3, 6, 7))


def pools() -> Iterator[Row]:
    for k, space in SPACE.items():
        images = (2, 3, *space)
        yield row(f"MaxPool{k}d", 2, on=images)
        yield row(f"MaxPool{k}d", 3, stride=2, padding=1, on=images)
        yield row(f"MaxPool{k}d", 2, stride=1, dilation=2, ceil_mode=True, on=images[1:])
        yield row(f"MaxPool{k}d", 2, stride=3, ceil_mode=True, on=images)
        yield row(f"AvgPool{k}d", 2, on=images)
        yield row(f"AvgPool{k}d", 3, stride=2, padding=1, on=images)
        yield row(f"AvgPool{k}d", 3, stride=2, padding=1, count_include_pad=False, ceil_mode=True, on=images)
        yield row(f"LPPool{k}d", 2, 2, on=images)
        yield row(f"LPPool{k}d", 3, 3, stride=2, positive=True, on=images)
        for kind in ("Avg", "Max"):
            yield row(f"Adaptive{kind}Pool{k}d", 1, on=images)
            yield row(f"Adaptive{kind}Pool{k}d", 3, on=images)
            if k > 1:
                yield row(f"Adaptive{kind}Pool{k}d", (None, *[2] * (k - 1)), on=images)
    yield row("AvgPool2d", 2, divisor_override=3, on=(2, 3, 4, 4))
    yield row("MaxPool2d", (2, 3), stride=(1, 2), padding=(0, 1), on=(2, 3, 6, 7))


def norms() -> Iterator[Row]:
    yield row("LayerNorm", 5, on=(2, 3, 5))
    yield row("LayerNorm", (3, 5), eps=0.1, on=(2, 3, 5))
    yield row("LayerNorm", 5, bias=False, on=(4, 5))
    yield row("LayerNorm", 5, elementwise_affine=False, on=(4, 5))
    yield row("RMSNorm", 5, on=(2, 3, 5))
    yield row("RMSNorm", (3, 5), eps=0.1, elementwise_affine=False, on=(2, 3, 5))
    yield row("GroupNorm", 2, 6, on=(3, 6))
    yield row("GroupNorm", 3, 6, eps=0.1, on=(2, 6, 4, 5))
    yield row("GroupNorm", 1, 6, affine=False, on=(2, 6, 7))
    yield row("LocalResponseNorm", 3, on=(2, 6, 5))
    yield row("LocalResponseNorm", 4, alpha=0.5, beta=0.6, k=2.0, on=(2, 6, 3, 4))
    yield row("LocalResponseNorm", 2, alpha=0.1, on=(2, 3, 3, 4, 2))
    yield row("BatchNorm1d", 3, on=(6, 3))
    for k, space in SPACE.items():
        images = (2, 3, *space)
        for options in ({}, {"momentum": None}, {"affine": False, "momentum": 0.3}, {"track_running_stats": False}):
            yield row(f"BatchNorm{k}d", 3, on=images, **options)
        yield row(f"InstanceNorm{k}d", 3, on=images)
        yield row(f"InstanceNorm{k}d", 3, affine=True, eps=0.1, on=images[1:])
        yield row(f"InstanceNorm{k}d", 3, affine=True, track_running_stats=True, on=images)


def activations() -> Iterator[Row]:
    plain = "ReLU ReLU6 SELU SiLU Mish Sigmoid LogSigmoid Tanh Hardsigmoid Hardswish Softsign Tanhshrink"
    adjustable = "LeakyReLU ELU CELU GELU Hardtanh Softplus Softshrink Hardshrink PReLU"
    for name in f"{plain} {adjustable}".split():
        yield row(name, on=(3, 4, 50))
    yield row("LeakyReLU", 0.3, on=(3, 50))
    yield row("ELU", 0.5, on=(3, 50))
    yield row("CELU", 0.5, on=(3, 50))
    yield row("GELU", approximate="tanh", on=(3, 50))
    yield row("Hardtanh", -0.5, 2.0, on=(3, 50))
    yield row("Threshold", 0.3, -1.0, on=(3, 50))
    yield row("Softplus", 2.0, 3.0, on=(3, 50))
    yield row("Softshrink", 0.2, on=(3, 50))
    yield row("Hardshrink", 1.5, on=(3, 50))
    yield row("PReLU", 4, 0.1, on=(3, 4, 5))
    yield row("RReLU", 0.1, 0.3, on=(3, 50))  # in evaluation
    for name in ("Softmax", "LogSoftmax", "Softmin"):
        yield row(name, dim=1, on=(3, 4, 5))
        yield row(name, dim=-1, on=(3, 5))
    yield row("Softmax2d", on=(2, 3, 4, 5))
    yield row("GLU", on=(3, 6))
    yield row("GLU", dim=1, on=(3, 4, 5))


def dropouts() -> Iterator[Row]:
    for name in ("Dropout", "AlphaDropout", "FeatureAlphaDropout"):
        yield row(name, 0.3, on=(3, 4, 5))
    for k, space in SPACE.items():
        yield row(f"Dropout{k}d", on=(2, 3, *space))


ROWS = [*products(), *convolutions(), *pads(), *resized(), *pools(), *norms(), *activations(), *dropouts()]
TRAINED = [one for one in ROWS if one.name.startswith(("BatchNorm", "InstanceNorm"))]
DTYPES = ("float32", "float64")


def inputs_of(one: Row, dtype: str, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    if one.below is not None:
        return [rng.integers(0, one.below, shape) for shape in one.shapes]
    made = [(rng.standard_normal(shape) * 2).astype(dtype) for shape in one.shapes]
    return [np.abs(x) + x.dtype.type(0.1) for x in made] if one.positive else made


def pair(one: Row, dtype: str, torch: Any) -> tuple[Any, Any]:
    """The same layer on both sides, with the same random weights, in evaluation."""
    theirs = getattr(torch.nn, one.name)(*one.arguments, **one.options).to(getattr(torch, dtype)).eval()
    rng = np.random.default_rng(1)
    with torch.no_grad():
        for name, tensor in theirs.state_dict().items():
            if tensor.is_floating_point():
                values = rng.standard_normal(tuple(tensor.shape)) + (2 if name == "running_var" else 0)
                tensor.copy_(torch.from_numpy(np.asarray(np.abs(values) if name == "running_var" else values)))
    ours = getattr(sm.nn, one.name)(*one.arguments, **one.options).astype(getattr(sm, dtype)).eval()
    ours.load_state_dict({name: tensor.double().numpy() for name, tensor in theirs.state_dict().items()})
    return ours, theirs


def close(what: str, got: Any, expected: Any, dtype: str, rough: float = 0.0) -> None:
    got, expected = np.asarray(got), expected.detach().numpy()
    assert got.shape == expected.shape, what
    assert got.dtype == expected.dtype, what
    rtol, atol = TOLERANCE[dtype]
    # What cancels has the errors of what it was added up from: a few units in the last place of large elements.
    cancelled = 8 * np.finfo(dtype).eps * np.abs(expected).max(initial=0, where=np.isfinite(expected))
    np.testing.assert_allclose(got, expected, max(rtol, rough), max(atol, cancelled), err_msg=what)


def compare(ours: Any, theirs: Any, inputs: list[Any], dtype: str, torch: Any) -> None:
    """Values, and gradients by inputs and parameters, of one call."""
    given = [torch.from_numpy(x.copy()) for x in inputs]
    floats = [k for k, x in enumerate(given) if x.is_floating_point()]
    for k in floats:
        given[k].requires_grad_(True)
    expected = theirs(*given)
    weights = np.random.default_rng(2).standard_normal(tuple(expected.shape)).astype(dtype)
    if expected.requires_grad:
        (expected * torch.from_numpy(weights)).sum().backward()

    @sm.jit
    def run(module: Any, weights: Any, *xs: Any) -> Any:
        def loss(module: Any, *xs: Any) -> Any:
            y = module(*xs)
            return (y * weights).sum(), y

        return sm.value_and_grad(loss, (0, *(k + 1 for k in floats)), has_aux=True)(module, *xs)

    (_, y), (slope, *slopes) = run(ours, sm.asarray(weights), *[sm.asarray(x) for x in inputs])
    close("the value", y, expected, dtype)
    for k, found in zip(floats, slopes, strict=True):
        close(f"by input {k}", found, given[k].grad, dtype, LOOSER.get(type(ours).__name__, 0.0))
    found = dict(slope.named_parameters())
    assert found.keys() == dict(theirs.named_parameters()).keys()
    for name, parameter in theirs.named_parameters():
        close(f"by {name}", found[name], parameter.grad, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("one", ROWS, ids=str)
def test_values_and_gradients(torch: Any, one: Row, dtype: str) -> None:
    ours, theirs = pair(one, dtype, torch)
    compare(ours, theirs, inputs_of(one, dtype), dtype, torch)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("one", TRAINED, ids=str)
def test_training(torch: Any, one: Row, dtype: str) -> None:
    ours, theirs = pair(one, dtype, torch)
    ours.train()
    theirs.train()
    for seed in range(CALLS):
        theirs.zero_grad()
        compare(ours, theirs, inputs_of(one, dtype, seed), dtype, torch)
        for name, buffer in theirs.named_buffers():
            close(f"{name} after {seed + 1} calls", getattr(ours, name), buffer, dtype)


@pytest.mark.parametrize("one", {one.name: one for one in ROWS}.values(), ids=lambda one: one.name)
def test_state_goes_both_ways(torch: Any, one: Row) -> None:
    ours = getattr(sm.nn, one.name)(*one.arguments, **one.options)
    theirs = getattr(torch.nn, one.name)(*one.arguments, **one.options)
    state = ours.state_dict()
    assert list(state) == list(theirs.state_dict())
    theirs.load_state_dict({name: torch.from_numpy(np.array(tensor.numpy())) for name, tensor in state.items()})
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(state[name].numpy(), tensor.numpy())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"include_last_offset": True}], ids=str)
def test_bags_in_a_row(torch: Any, mode: str, options: dict[str, Any]) -> None:
    one = row("EmbeddingBag", 7, 3, mode=mode, on=(10,), below=7, **options)
    ours, theirs = pair(one, "float64", torch)
    offsets = np.asarray([0, 4, 4, 7, *([10] if "include_last_offset" in options else [])])
    compare(ours, theirs, [*inputs_of(one, "float64"), offsets], "float64", torch)


def test_weighted_bags(torch: Any) -> None:
    one = row("EmbeddingBag", 7, 3, mode="sum", on=(10,), below=7)
    ours, theirs = pair(one, "float64", torch)
    (numbers,), factors = inputs_of(one, "float64"), np.random.default_rng(3).standard_normal(10)
    compare(ours, theirs, [numbers, np.asarray([0, 4, 4, 7]), factors], "float64", torch)


@pytest.mark.parametrize("k", SPACE)
def test_transposed_to_a_size(torch: Any, k: int) -> None:
    one = row(f"ConvTranspose{k}d", 2, 3, 3, stride=2, padding=1, on=(2, 2, *SPACE[k]))
    ours, theirs = pair(one, "float32", torch)
    (x,), size = inputs_of(one, "float32"), [2 * n for n in SPACE[k]]
    close("the value", ours(sm.asarray(x), output_size=size), theirs(torch.from_numpy(x), output_size=size), "float32")


@pytest.mark.parametrize("name", ["Linear", "Conv2d", "ConvTranspose1d", "Bilinear", "Embedding", "EmbeddingBag"])
def test_weights_begin_with_the_same_distribution(torch: Any, name: str) -> None:
    arguments = {"Linear": (300, 200), "Bilinear": (30, 40, 50)}.get(name, (300, 200) if "Emb" in name else (60, 40, 5))
    # Forty biases may have any spread: one in a thousand draws is too far from another.
    sm.manual_seed(0)
    torch.manual_seed(0)
    ours, theirs = getattr(sm.nn, name)(*arguments), getattr(torch.nn, name)(*arguments)
    for key, tensor in theirs.state_dict().items():
        values, expected = ours.state_dict()[key].numpy(), tensor.numpy()
        assert values.std() == pytest.approx(expected.std(), rel=0.03 if values.ndim > 1 else 0.4)
        assert np.abs(values).max() == pytest.approx(np.abs(expected).max(), rel=0.2)


@pytest.mark.parametrize("one", [one for one in norms() if one.name != "LocalResponseNorm"], ids=str)
def test_norms_of_narrow_numbers(torch: Any, one: Row) -> None:
    ours, theirs = pair(one, "bfloat16", torch)
    (x,) = inputs_of(one, "float32")
    expected = theirs(torch.from_numpy(x).to(torch.bfloat16)).float().detach().numpy()
    got = ours(sm.asarray(x).astype(sm.bfloat16)).astype(sm.float32).numpy()
    np.testing.assert_allclose(got, expected, rtol=2**-6, atol=2**-6)
