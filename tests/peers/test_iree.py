"""What is emitted as linalg, compiled by IREE for the processor: accepted, and equal to smelt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt.errors import UnsupportedOp
from smelt.formats.linalg import emit
from smelt.tensor import wrap
from smelt.transform import Jit
from tests.peers.programs import random_program
from tests.turns import one_in

compiler = pytest.importorskip("iree.compiler")
runtime = pytest.importorskip("iree.runtime")

pytestmark = pytest.mark.peers
RNG = np.random.default_rng(0)


def draw(*shape: int) -> sm.Tensor:
    return sm.asarray(RNG.normal(size=shape).astype(np.float32))


def run(text: str, arrays: list[Any]) -> list[Any]:
    """Compile a text for the processor, and call its function."""
    binary = compiler.compile_str(text, target_backends=["llvm-cpu"], extra_args=["--iree-llvmcpu-target-cpu=generic"])
    context = runtime.SystemContext(config=runtime.Config("local-sync"))
    context.add_vm_module(runtime.VmModule.copy_buffer(context.instance, binary))
    found = context.modules.module.main(*arrays)
    return [np.asarray(x.to_host()) for x in (found if isinstance(found, list | tuple) else [found])]


def check(function: Callable[..., Any], *args: Any, tolerance: float = 1e-4) -> str:
    """The text of a function, which IREE computes as smelt does."""
    text = emit(function, *args)
    given = [*sm.tree.flatten(args)[0], *map(wrap, Jit(function).graph(*args).hidden)]
    found = run(text, [x.numpy() for x in given])
    results = [x.numpy() for x in sm.tree.flatten(sm.jit(function)(*args))[0]]
    for a, b in zip(found, results, strict=True):
        a = a.view(b.dtype) if b.dtype.kind == "u" else a  # MLIR's integers have no sign
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance)
    return text


TOKENS = sm.asarray(RNG.integers(0, 50, (2, 7)))

OPERATIONS: dict[str, tuple[Any, ...]] = {
    "matmul": (lambda x, w: x @ w, draw(5, 8), draw(8, 6)),
    "batch matmul": (lambda x, y: x @ y, draw(3, 5, 8), draw(3, 8, 6)),
    "linear": (lambda x, w, b: x @ w.T + b, draw(2, 5, 8), draw(6, 8), draw(6)),
    "embedding": (lambda w, i: w[i], draw(50, 8), TOKENS),
    "rotary embedding": (sm.nn.RotaryEmbedding(8), draw(2, 3, 7, 8)),
    "softmax": (lambda x: x.softmax(-1), draw(2, 3, 9)),
    "layer norm": (sm.layer_norm, draw(2, 5, 8), draw(8), draw(8)),
    "RMS norm": (sm.rms_norm, draw(2, 5, 8), draw(8)),
    "GELU": (sm.gelu, draw(2, 5, 8)),
    "SwiGLU": (lambda x, a, b: sm.silu(x @ a) * (x @ b), draw(5, 8), draw(8, 16), draw(8, 16)),
    "attention": (
        lambda q, k, v: sm.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        *(draw(2, 3, 7, 8), draw(2, 3, 7, 8), draw(2, 3, 7, 8)),
    ),
    "split heads": (lambda x: x.reshape(2, 7, 3, 4).permute(0, 2, 1, 3), draw(2, 7, 12)),
    "cross entropy": (
        lambda x, i: sm.nn.losses.cross_entropy(x.reshape(14, 50), i.reshape(14)),
        *(draw(2, 7, 50), TOKENS),
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_of_transformers(name: str) -> None:
    check(*OPERATIONS[name])


class Block(sm.nn.Module):
    """A block of a GPT."""

    def __init__(self, width: int, heads: int) -> None:
        self.norm1, self.norm2 = sm.nn.LayerNorm(width), sm.nn.LayerNorm(width)
        self.attention = sm.nn.Attention(width, heads, rope=sm.nn.RotaryEmbedding(width // heads))
        self.wide, self.narrow = sm.nn.Linear(width, 4 * width), sm.nn.Linear(4 * width, width)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.narrow(sm.gelu(self.wide(self.norm2(x))))


def test_a_block_of_a_gpt() -> None:
    block = Block(32, 4)
    check(Block.__call__, block, draw(2, 7, 32))
    check(block, draw(2, 7, 32))  # its weights are further arguments


def test_the_gradient_of_a_block() -> None:
    check(sm.grad(lambda block, x: (block(x) ** 2).mean()), Block(16, 2), draw(2, 5, 16))


@pytest.mark.parametrize("seed", one_in(6, range(60)))
def test_random_programs(seed: int) -> None:
    program = random_program(seed)
    inputs = [x.astype(np.float32) if x.dtype.kind == "f" else x for x in program.inputs]
    try:
        check(lambda *given: program.outputs(sm, *given), *map(sm.asarray, inputs), tolerance=2e-3)
    except UnsupportedOp as refusal:
        assert refusal.name in ("sort", "scatter", "scan")


# --- what the text has to get right


NUMBERS = sm.asarray(np.array([0.5, -0.0, np.nan, np.inf, -np.inf, 3e9, -3e9, 1e-30], np.float32))
WHOLE = sm.asarray(np.array([-7, -1, 0, 1, 6, 2**31 - 1, -(2**31)], np.int32))


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: (x[..., :4] + 1, x[..., 4:8] * 2, x[:, ::2, 8:].sum(1)), [draw(2, 7, 12)]),
        (lambda a, b: sm.concat([a, b * 2], axis=1), [draw(2, 3, 4), draw(2, 5, 4)]),
        (lambda a, b: sm.concat([a[:, :0], a, b.reshape(2, 20)], axis=1), [draw(2, 3), draw(2, 5, 4)]),
        (lambda x: sm.pad(x, ((1, 2), (0, 3))), [draw(3, 4)]),
        (lambda x: sm.pad(x, ((1, 2), (0, 3)), value=2.0).sum(0), [draw(3, 4)]),
        (lambda x: (sm.flip(x, axis=0) + x, x.T, x.reshape(1, 36, 1)), [draw(4, 9)]),
        (lambda x: (x.sum(), x.max(0), x.argmax(-1), x.mean(-1, keepdims=True)), [draw(4, 9)]),
        (lambda x: (x[:0].sum(0), x[:0] * 2, sm.concat([x[:0], x])), [draw(3, 4)]),
        (lambda x: (x, x, x * 1, sm.zeros((3,)), sm.arange(4)), [draw(3, 4)]),
        (lambda x, w: sm.nn.functional.conv2d(x, w, padding=1, stride=2), [draw(1, 3, 8, 9), draw(4, 3, 3, 3)]),
        (lambda x: sm.nn.functional.max_pool2d(x, 2), [draw(1, 3, 8, 8)]),
        (lambda x, i: x[i, i], [draw(4, 9), sm.asarray([3, 0, 2])]),
        (lambda x: (x.astype(sm.int32), x.astype(sm.uint8), x.astype(sm.bool), x.sign(), x.floor()), [NUMBERS]),
        (lambda x: (x.max(), sm.maximum(x, 0), x.isnan(), x % 2.5, -x % 2.5), [NUMBERS]),
        (lambda x: (x // 3, x % 3, x // -3, x % -3, x << 3, x >> 40, abs(x), -x, x.sign()), [WHOLE]),
        (lambda x, y: (x // y, x % y, x & y, x ^ y, sm.minimum(x, y)), [WHOLE, sm.flip(WHOLE)]),
        (lambda x: (x // 3, x % 3, x >> 1, x.astype(sm.float32), x.max()), [WHOLE.astype(sm.uint32)]),
        (lambda x: (x.any(0), x.all(), ~x, x.astype(sm.int64).sum()), [draw(3, 4) > 0]),
    ],
)
def test_details(function: Callable[..., Any], args: list[Any]) -> None:
    check(function, *args)


def test_sixteen_bits() -> None:
    check(lambda x: (x.astype(sm.bfloat16) * 3 + 1).astype(sm.float32), draw(5, 8), tolerance=0)
    check(lambda x: (x.astype(sm.float16) * 3 + 1).astype(sm.float32), draw(5, 8), tolerance=0)
    check(lambda x, y: x @ y, draw(5, 8).astype(sm.float16), draw(8, 6).astype(sm.float16), tolerance=2e-3)
