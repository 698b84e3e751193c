"""What layers refuse, and what they say: the call, the class of the error, a word of its message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import smelt as sm
from smelt.errors import ArgumentError, AxisError, DTypeError, ShapeError, SmeltError

nn = sm.nn
Case = tuple[Callable[[], Any], type[SmeltError], str]


def x(*shape: int) -> sm.Tensor:
    return sm.ones(shape)


def numbers(*shape: int) -> sm.Tensor:
    return sm.zeros(shape, dtype=sm.int64)


PRODUCTS: list[Case] = [
    (lambda: nn.Linear(-1, 3), ArgumentError, "in_features is -1"),
    (lambda: nn.Linear(2, 3.0), ArgumentError, "out_features is 3.0"),  # type: ignore[arg-type]
    (lambda: nn.Linear(4, 3)(x(2, 5)), ShapeError, "the last axis must have the size in_features=4"),
    (lambda: nn.Linear(4, 3)(x()), ShapeError, "Linear"),
    (lambda: nn.Bilinear(0, 2, 3), ArgumentError, "in1_features is 0"),
    (lambda: nn.Bilinear(2, 3, 4)(x(5, 2), x(5, 2)), ShapeError, "in2_features=3"),
    (lambda: nn.Flatten("1"), ArgumentError, "start_dim"),  # type: ignore[arg-type]
    (lambda: nn.Flatten(1, 5)(x(2, 3)), AxisError, "axis 5"),
    (lambda: nn.Unflatten(1, (-1, -1)), ShapeError, "only one of them may be -1"),
    (lambda: nn.Unflatten(1, ()), ShapeError, "one or more"),
    (lambda: nn.Unflatten(1, (2, 2))(x(3, 5)), ShapeError, "unflatten"),
    (lambda: nn.Embedding(0, 3), ArgumentError, "num_embeddings is 0"),
    (lambda: nn.Embedding(5, 3, padding_idx=5), ArgumentError, "the table has 5 rows"),
    (lambda: nn.Embedding(5, 3, max_norm=1.0), ArgumentError, "max_norm is not supported"),
    (lambda: nn.Embedding(5, 3)(x(2)), DTypeError, "it must be integers"),
    (lambda: nn.Embedding(5, 3)(sm.asarray([7])).numpy(), SmeltError, "7"),
    (lambda: nn.Embedding.from_pretrained(x(3)), ShapeError, "it must be a matrix"),
    (lambda: nn.EmbeddingBag(5, 3, mode="min"), ArgumentError, "sum, mean, max"),
    (lambda: nn.EmbeddingBag(5, 3, max_norm=1.0), ArgumentError, "max_norm is not supported"),
    (lambda: nn.EmbeddingBag(5, 3)(numbers(4)), ArgumentError, "a vector needs offsets"),
    (lambda: nn.EmbeddingBag(5, 3)(numbers(4, 2), numbers(1)), ArgumentError, "a matrix has a bag in each row"),
    (lambda: nn.EmbeddingBag(5, 3)(numbers(4), numbers(1, 1)), ShapeError, "they are a vector"),
    (lambda: nn.EmbeddingBag(5, 3)(numbers(4, 2, 2)), ShapeError, "its rank must be 1 or 2"),
    (lambda: nn.EmbeddingBag(5, 3)(numbers(4, 2), None, x(4, 2)), ArgumentError, 'they need "sum"'),
    (lambda: nn.EmbeddingBag(5, 3, mode="sum")(numbers(4, 2), None, x(4)), ShapeError, "per_sample_weights"),
]

CONVOLUTIONS: list[Case] = [
    (lambda: nn.Conv2d(0, 3, 3), ArgumentError, "in_channels is 0"),
    (lambda: nn.Conv2d(3, -1, 3), ArgumentError, "out_channels is -1"),
    (lambda: nn.Conv2d(3, 4, 0), ArgumentError, "kernel_size"),
    (lambda: nn.Conv2d(3, 4, (3, 3, 3)), ArgumentError, "kernel_size has 3 numbers for 2 axes"),
    (lambda: nn.Conv2d(3, 4, 3, stride=0), ArgumentError, "stride"),
    (lambda: nn.Conv2d(3, 4, 3, dilation=0), ArgumentError, "dilation"),
    (lambda: nn.Conv2d(3, 4, 3, padding=-1), ArgumentError, "padding"),
    (lambda: nn.Conv2d(3, 4, 3, padding="full"), ArgumentError, "valid, same"),
    (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), ArgumentError, "it needs a stride of 1"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ArgumentError, "in_channels=3 cannot be divided into 2 groups"),
    (lambda: nn.Conv2d(4, 3, 3, groups=2), ArgumentError, "out_channels=3 cannot be divided into 2 groups"),
    (lambda: nn.Conv2d(3, 4, 3, groups=0), ArgumentError, "groups is 0"),
    (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), ArgumentError, "zeros, reflect, replicate, circular"),
    (lambda: nn.Conv2d(3, 4, 3)(x(2, 4, 8, 8)), ShapeError, "axis 1 must have the size in_channels=3"),
    (lambda: nn.Conv2d(3, 4, 3)(x(2, 8, 8, 3)), ShapeError, "x.moveaxis(-1, 1)"),
    (lambda: nn.Sequential(nn.Linear(2, 2), nn.ReLU), ArgumentError, "part 1 is the class ReLU"),
    (lambda: nn.Sequential(nn.ReLU()).__setitem__(0, nn.GELU), ArgumentError, "Write GELU()"),
    (lambda: nn.Conv2d(3, 4, 3)(x(4, 8, 8)), ShapeError, "axis 0 must have the size in_channels=3"),
    (lambda: nn.Conv1d(3, 4, 3)(x(2, 3, 8, 8)), ShapeError, "its rank must be 2 or 3"),
    (lambda: nn.Conv3d(3, 4, 3)(x(2, 3, 2, 8, 8)), ShapeError, "a window reaches over 3 elements"),
    (lambda: nn.ConvTranspose1d(3, 4, 3, output_padding=1), ArgumentError, "output_padding 1 is too large"),
    (lambda: nn.ConvTranspose2d(3, 4, 3, padding_mode="reflect"), ArgumentError, "padding_mode is 'reflect'"),
    (lambda: nn.ConvTranspose2d(3, 4, 3)(x(2, 4, 8, 8)), ShapeError, "in_channels=3"),
    (lambda: nn.ConvTranspose1d(3, 4, 3, stride=2)(x(2, 3, 4), output_size=12), ShapeError, "from 9 to 10"),
    (lambda: nn.ConvTranspose3d(3, 4, 3)(x(3, 4)), ShapeError, "its rank must be 4 or 5"),
]

IMAGES: list[Case] = [
    (lambda: nn.ZeroPad2d((1, 2, 3)), ArgumentError, "one width, or 4"),
    (lambda: nn.ConstantPad1d(-1, 0.0), ArgumentError, "a width is -1"),
    (lambda: nn.ConstantPad1d(1, "0"), ArgumentError, "value must be a number"),  # type: ignore[arg-type]
    (lambda: nn.ReflectionPad2d(1)(x(3)), ShapeError, "its rank must be at least 2"),
    (lambda: nn.ReplicationPad1d(1)(x(2, 0)), ShapeError, "nothing to repeat"),
    (nn.Upsample, ArgumentError, "either size or scale_factor"),
    (lambda: nn.Upsample(2, 2.0), ArgumentError, "either size or scale_factor"),
    (lambda: nn.Upsample(2, mode="cubic"), ArgumentError, "mode is 'cubic'"),
    (lambda: nn.Upsample(2, mode="bilinear")(x(2, 3, 4)), ShapeError, "2 spatial axes"),
    (lambda: nn.PixelShuffle(0), ArgumentError, "upscale_factor is 0"),
    (lambda: nn.PixelShuffle(2)(x(1, 6, 2, 2)), ShapeError, "axis 1 must be a multiple of 4"),
    (lambda: nn.PixelShuffle(2)(x(4, 2)), ShapeError, "channels, height and width"),
    (lambda: nn.PixelUnshuffle(2)(x(1, 1, 3, 4)), ShapeError, "axis 2 must be a multiple of 2"),
    (lambda: nn.ChannelShuffle(2)(x(1, 3, 4)), ShapeError, "multiple of 2"),
    (lambda: nn.ChannelShuffle(2)(x(2, 4)), ShapeError, "a batch, channels and space"),
    (lambda: nn.Unfold((2, 2, 2)), ArgumentError, "kernel_size has 3 numbers"),
    (lambda: nn.Unfold(5)(x(1, 1, 4, 4)), ShapeError, "a window reaches over 5"),
    (lambda: nn.Fold(4, 2, stride=0), ArgumentError, "stride"),
    (lambda: nn.Fold(4, 2)(x(1, 5, 9)), ShapeError, "a multiple of 4 rows"),
]

POOLS: list[Case] = [
    (lambda: nn.MaxPool2d(0), ArgumentError, "kernel_size"),
    (lambda: nn.MaxPool2d(2, padding=2), ArgumentError, "a window must reach into the input"),
    (lambda: nn.MaxPool1d(2, return_indices=True), ArgumentError, "return_indices is not supported"),
    (lambda: nn.MaxPool1d(2, ceil_mode="yes"), ArgumentError, "ceil_mode"),  # type: ignore[arg-type]
    (lambda: nn.MaxPool2d(2)(x(4, 4)), ShapeError, "channels and 2 axes to pool"),
    (lambda: nn.MaxPool3d(5)(x(1, 4, 4, 4)), ShapeError, "a window reaches over 5"),
    (lambda: nn.AvgPool1d(2, stride=-1), ArgumentError, "stride"),
    (lambda: nn.AvgPool2d(2, divisor_override=0), ArgumentError, "divisor_override must not be 0"),
    (lambda: nn.AvgPool3d(2)(x(3, 3)), ShapeError, "channels and 3 axes to pool"),
    (lambda: nn.LPPool1d(0, 2), ArgumentError, "it must be positive"),
    (lambda: nn.LPPool2d(2, 2)(x(3, 3)), ShapeError, "channels and 2 axes to pool"),
    (lambda: nn.AdaptiveAvgPool2d((1, 2, 3)), ArgumentError, "output_size"),
    (lambda: nn.AdaptiveAvgPool2d(0), ArgumentError, "output_size is 0"),
    (lambda: nn.AdaptiveAvgPool1d(2)(x(3)), ShapeError, "channels and 1 axes to pool"),
    (lambda: nn.AdaptiveMaxPool1d(2, return_indices=True), ArgumentError, "return_indices is not supported"),
    (lambda: nn.FractionalMaxPool2d(2), ArgumentError, "either output_size or output_ratio"),
    (lambda: nn.FractionalMaxPool2d(2, 5)(x(1, 1, 4, 4)), ShapeError, "do not fit"),
]

NORMS: list[Case] = [
    (lambda: nn.LayerNorm(()), ArgumentError, "normalized_shape is empty"),
    (lambda: nn.LayerNorm(0), ArgumentError, "normalized_shape is 0"),
    (lambda: nn.LayerNorm(4, eps=-1.0), ArgumentError, "eps is -1.0"),
    (lambda: nn.LayerNorm((2, 4))(x(3, 4)), ShapeError, "normalized_shape=(2, 4)"),
    (lambda: nn.LayerNorm((2, 4))(x(4)), ShapeError, "normalized_shape=(2, 4)"),
    (lambda: nn.RMSNorm(4)(x(3, 5)), ShapeError, "normalized_shape=(4,)"),
    (lambda: nn.GroupNorm(0, 4), ArgumentError, "num_groups is 0"),
    (lambda: nn.GroupNorm(3, 4), ArgumentError, "4 channels cannot be divided into 3 groups"),
    (lambda: nn.GroupNorm(2, 4)(x(2, 6)), ShapeError, "num_channels=4"),
    (lambda: nn.GroupNorm(2, 4)(x(4)), ShapeError, "num_channels=4"),
    (lambda: nn.LocalResponseNorm(0), ArgumentError, "size is 0"),
    (lambda: nn.LocalResponseNorm(2)(x(2, 3)), ShapeError, "a batch, channels and space"),
    (lambda: nn.BatchNorm1d(0), ArgumentError, "num_features is 0"),
    (lambda: nn.BatchNorm1d(3, momentum="0.1"), ArgumentError, "momentum must be a number"),  # type: ignore[arg-type]
    (lambda: nn.BatchNorm1d(3)(x(2, 4)), ShapeError, "axis 1 must have the size num_features=3"),
    (lambda: nn.BatchNorm1d(3)(x(2, 3, 4, 4)), ShapeError, "its rank must be 2 or 3"),
    (lambda: nn.BatchNorm1d(3)(x(1, 3)), ShapeError, "one value per channel"),
    (lambda: nn.BatchNorm2d(3)(x(2, 3)), ShapeError, "batch, channels, height and width"),
    (lambda: nn.BatchNorm3d(3)(x(2, 3, 4, 4)), ShapeError, "its rank must be 5"),
    (lambda: nn.InstanceNorm1d(3)(x(2, 4, 5)), ShapeError, "num_features=3"),
    (lambda: nn.InstanceNorm2d(3)(x(2, 3, 1, 1)), ShapeError, "one value per channel"),
    (lambda: nn.InstanceNorm3d(3)(x(2, 3)), ShapeError, "its rank must be 4 or 5"),
]

ELEMENTS: list[Case] = [
    (lambda: nn.Dropout(1.5), ArgumentError, "p is 1.5"),
    (lambda: nn.Dropout("half"), ArgumentError, "p must be a number"),  # type: ignore[arg-type]
    (lambda: nn.AlphaDropout(-0.1), ArgumentError, "AlphaDropout: p is -0.1"),
    (lambda: nn.Dropout()(x(3), key=sm.ones(2)), ArgumentError, "a key is float32"),
    (lambda: nn.Dropout1d()(x(3)), ShapeError, "its rank must be 2 or 3"),
    (lambda: nn.Dropout2d()(x(2, 3)), ShapeError, "its rank must be 3 or 4"),
    (lambda: nn.Dropout3d()(x(2, 3)), ShapeError, "its rank must be 4 or 5"),
    (lambda: nn.FeatureAlphaDropout()(x(3)), ShapeError, "FeatureAlphaDropout"),
    (lambda: nn.LeakyReLU("steep"), ArgumentError, "negative_slope"),  # type: ignore[arg-type]
    (lambda: nn.ELU(None), ArgumentError, "alpha"),  # type: ignore[arg-type]
    (lambda: nn.CELU(0.0), ArgumentError, "alpha is 0"),
    (lambda: nn.GELU("exact"), ArgumentError, "approximate"),
    (lambda: nn.Hardtanh(2.0, 1.0), ArgumentError, "min_val must not be larger"),
    (lambda: nn.Threshold(0.0, "1"), ArgumentError, "value"),  # type: ignore[arg-type]
    (lambda: nn.Softplus(0.0), ArgumentError, "beta is 0"),
    (lambda: nn.Softshrink(-1.0), ArgumentError, "lambd is -1.0"),
    (lambda: nn.Hardshrink("1"), ArgumentError, "lambd"),  # type: ignore[arg-type]
    (lambda: nn.PReLU(0), ArgumentError, "num_parameters is 0"),
    (lambda: nn.PReLU(3)(x(2, 4)), ShapeError, "one for each channel"),
    (lambda: nn.RReLU(0.5, 0.1), ArgumentError, "lower must not be larger"),
    (lambda: nn.Softmax("channels"), ArgumentError, "dim"),  # type: ignore[arg-type]
    (lambda: nn.Softmax(2)(x(2, 3)), AxisError, "axis 2"),
    (lambda: nn.LogSoftmax(-3)(x(2, 3)), AxisError, "axis -3"),
    (lambda: nn.Softmin(1)(x(3)), AxisError, "axis 1"),
    (lambda: nn.Softmax2d()(x(2, 3)), ShapeError, "its rank must be 3 or 4"),
    (lambda: nn.GLU()(x(2, 3)), ShapeError, "two halves"),
    (lambda: nn.ReLU()("text"), SmeltError, ""),
]

CASES = [*PRODUCTS, *CONVOLUTIONS, *IMAGES, *POOLS, *NORMS, *ELEMENTS]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_mistakes(number: int) -> None:
    call, kind, word = CASES[number]
    with pytest.raises(kind) as caught:
        call()
    assert word in str(caught.value)
    assert f"at {__file__.rsplit('/', 1)[-1]}:" in str(caught.value)


@pytest.mark.parametrize("name", ["ReLU", "Sigmoid", "Tanh", "SiLU", "Identity", "Upsample"])
def test_a_layer_is_made_before_it_is_called(name: str) -> None:
    with pytest.raises(ArgumentError, match=rf"{name}: it is made with a tensor[\s\S]*Write {name}\(\.\.\.\)\(x\)"):
        getattr(sm.nn, name)(sm.ones(2, 3))
