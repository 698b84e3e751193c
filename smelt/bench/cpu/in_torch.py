"""The operations in PyTorch, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch
from torch.nn import functional as F

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
}


def _hold(array: Any) -> Any:
    if array.dtype == ml_dtypes.bfloat16:
        return torch.from_numpy(array.view(np.int16)).clone().view(torch.bfloat16)
    return torch.from_numpy(array).clone()


def _give(found: Any) -> Any:
    return (found.float() if found.dtype == torch.bfloat16 else found).numpy()


def library(name: str, threads: int) -> Library:
    """With `torch.compile` for a name, what it makes of the same functions."""
    torch.set_num_threads(threads)
    torch._C._set_grad_enabled(False)
    compiled = partial(torch.compile, dynamic=False) if name == "torch.compile" else lambda function: function
    return Library(_hold, compiled, _give, OPERATIONS)
