"""The operations in PyTorch, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.nn import functional as F

from smelt.bench.cpu import gradients
from smelt.bench.cpu.library import Library, Spelling
from smelt.bench.cpu.networks import network_operations

SPELLING = Spelling(
    affine=lambda x, weight, bias: torch.addmm(bias, x, weight),
    linear=F.linear,
    layer_norm=lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
    rms_norm=lambda x, weight: F.rms_norm(x, x.shape[-1:], weight, 1e-5),
    gelu=lambda x: F.gelu(x, approximate="tanh"),
    silu=F.silu,
    attention=lambda query, key, value, causal: F.scaled_dot_product_attention(query, key, value, is_causal=causal),
    concat=torch.cat,
)

WORDS = gradients.Words(
    attention=lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=True),
    layer_norm=SPELLING.layer_norm,
    nll=F.cross_entropy,
    conv2d=lambda x, weight: F.conv2d(x, weight, padding=1),
    take=lambda table, numbers: F.embedding(numbers, table),
)


class _Gradient:
    """Value and gradients of a loss, which may be a compiled one."""

    def __init__(self, loss: Callable[..., Any], count: int) -> None:
        self.loss, self.count = loss, count

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        leaves = [x.detach().requires_grad_() for x in inputs[: self.count]]
        with torch.enable_grad():
            value = self.loss(*leaves, *inputs[self.count :])
        return (value.detach(), *torch.autograd.grad(value, leaves))


OPERATIONS: dict[str, Callable[..., Any]] = {
    "matmul": torch.matmul,
    "int matmul": torch._int_mm,
    "gelu": lambda x, w, b: F.gelu(x * w + b, approximate="tanh"),
    "layer norm": SPELLING.layer_norm,
    "softmax": lambda x: torch.softmax(x, -1),
    "rms norm": SPELLING.rms_norm,
    "nll": F.cross_entropy,
    "sum": torch.sum,
    "sum columns": lambda x: torch.sum(x, 0),
    "argmax": lambda x: torch.argmax(x, 1),
    "transpose": lambda x: x.T.reshape(-1),
    "cumsum": lambda x: torch.cumsum(x, 1),
    "attention": F.scaled_dot_product_attention,
    "causal attention": lambda query, key, value: F.scaled_dot_product_attention(query, key, value, is_causal=True),
    **network_operations(SPELLING),
    **dict(gradients.operations(_Gradient, WORDS)),
}


def _hold(array: Any) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).clone().view(torch.bfloat16)
    return torch.from_numpy(array).clone()


def _give(found: Any) -> Any:
    return (found.float() if found.dtype == torch.bfloat16 else found).numpy()


def library(name: str, threads: int) -> Library:
    """With `torch.compile` for a name, what it makes of the same functions; with `torch.max-autotune`, after its search
    among its own kernels and those of libraries. Its templates of products in C++ take part; they are for weights that
    are constants of the compiled function, so a product of two arguments may be left to the library all the same.
    """
    torch.set_num_threads(threads)
    torch._C._set_grad_enabled(False)
    makes: dict[str, Callable[..., Any]] = {"torch.compile": _compiled, "torch.max-autotune": _autotuned}
    return Library(_hold, makes.get(name, lambda function: function), _give, OPERATIONS)


def _compiled(function: Callable[..., Any], mode: str | None = None) -> Callable[..., Any]:
    if isinstance(function, _Gradient):
        return _Gradient(torch.compile(function.loss, dynamic=False, mode=mode), function.count)
    compiled: Callable[..., Any] = torch.compile(function, dynamic=False, mode=mode)
    return compiled


def _autotuned(function: Callable[..., Any]) -> Callable[..., Any]:
    from torch._inductor import config

    config.max_autotune_gemm_backends = "ATEN,CPP"
    config.autotune_num_choices_displayed = 0  # it would print a table for each product
    return _compiled(function, "max-autotune-no-cudagraphs")
