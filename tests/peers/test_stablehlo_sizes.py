"""Programs that JAX exports with symbolic shapes: each with the sizes of a call, and compiled once for all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export, lax

import smelt as sm
from tests.interpreted import interpreted

RNG = np.random.default_rng(0)


class Program(NamedTuple):
    """A function, the shapes of its arguments as JAX writes them, least sizes, and sizes to try."""

    function: Callable[..., Any]
    shapes: tuple[str, ...]
    sizes: tuple[dict[str, int], ...]
    least: dict[str, int] = {}  # noqa: RUF012
    constraints: tuple[str, ...] = ()


def step(c: Any, y: Any) -> Any:
    return jnp.tanh(c) + y, c * y


def strided(size: int, stride: int) -> dict[str, Callable[[Any], Any]]:
    """Convolutions and pooling with as much padding as it takes for size / stride windows, rounded up."""
    steps, window = (1, 1, stride, stride), (1, 1, size, size)

    def convolution(x: Any) -> Any:
        return lax.conv_general_dilated(x, jnp.ones((2, 2, size, size)), steps[2:], "SAME")

    def pooling(x: Any) -> Any:
        return lax.reduce_window(x, -jnp.inf, lax.max, window, steps, "SAME")

    return {
        "convolution": convolution,
        "convolutions": lambda x: convolution(convolution(x)),
        "pooling": pooling,
        "pooling's gradient": jax.grad(lambda x: (pooling(x) ** 2).sum()),
    }


B = ({"b": 4}, {"b": 7})
H = ({"b": 2, "h": 11}, {"b": 1, "h": 8}, {"b": 1, "h": 13})
PROGRAMS: dict[str, Program] = {
    "two sizes": Program(
        lambda x, y: (jnp.concatenate([x, y], 0).reshape(-1), jax.nn.softmax(x @ x.T), jnp.arange(2 * x.shape[0])),
        ("a, b", "2*a, b"),
        ({"a": 4, "b": 5}, {"a": 2, "b": 8}),
        {"a": 2},
        ("a >= 2", "b <= 4*a"),
    ),
    "moments": Program(lambda x: (x.mean(0), x.var(), x / x.shape[0] + x.size), ("b, 3",), B),
    "flattened": Program(lambda x: x.reshape(x.shape[0], -1) @ jnp.ones((12, 2)), ("b, 3, 4",), B),
    "every second element": Program(lambda x: x.reshape(-1)[::2], ("b, c",), ({"b": 4, "c": 3}, {"b": 7, "c": 5})),
    "every second row": Program(lambda x: x[::2], ("b, 3",), B),
    "half": Program(lambda x: x[: x.shape[0] // 2], ("b, 3",), B, {"b": 2}, ("b >= 2",)),
    "half, rounded up": Program(lambda x: jnp.concatenate([x, x])[: -(-x.shape[0] // 2)], ("b, 3",), B),
    "half of what may be nothing": Program(
        lambda x: (x[: (x.shape[0] - 1) // 2], jnp.zeros((x.shape[0] - 1) % 3)), ("b, 3",), B
    ),
    "fours": Program(lambda x: x[: x.shape[0] // 4 * 4].reshape(-1, 4, 3).sum(1), ("b, 3",), B, {"b": 4}),
    "running": Program(lambda x: (x.cumsum(0), x.cumprod(1), lax.cummax(x, 0, reverse=True)), ("b, 3",), B),
    "searching": Program(lambda x: (x.argmax(0), jnp.sort(x, 0), jnp.argsort(x, 0)), ("b, 3",), B),
    "indexing": Program(
        lambda x: (x[jnp.arange(x.shape[0])[::-1]], x[-1], x.at[:, 1].add(2.0), x.at[0].set(1.0)), ("b, 3",), B
    ),
    "dynamic slices": Program(
        lambda x: (
            lax.dynamic_slice(x, (jnp.int32(x[0, 0]), 0), (x.shape[0] - 1, 4)),
            lax.dynamic_update_slice(x, x[:2], (1, 0)),
        ),
        ("b, 4",),
        B,
        {"b": 3},
        ("b >= 3",),
    ),
    "convolution": Program(
        lambda x: lax.conv_general_dilated(x, jnp.ones((3, 2, 3, 3)), (1, 1), "SAME"),
        ("b, 2, h, 8",),
        ({"b": 2, "h": 6}, {"b": 1, "h": 9}),
        {"h": 3},
        ("h >= 3",),
    ),
    "pooling": Program(
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID"),
        ("b, h, h",),
        ({"b": 2, "h": 7}, {"b": 1, "h": 4}),
        {"h": 3},
        ("h >= 3",),
    ),
    **{
        f"strided {kind} of {size} by {stride}": Program(function, ("b, 2, h, 9",), H, {"h": 8}, ("h >= 8",))
        for size, stride in ((1, 2), (2, 2), (3, 2), (3, 3), (7, 4))
        for kind, function in strided(size, stride).items()
    },
    "scan": Program(lambda x: lax.scan(step, jnp.zeros(3), x), ("b, 3",), B),
    "gradient of a scan": Program(jax.grad(lambda x: lax.scan(step, x[0], x)[1].sum()), ("b, 6",), B),
    "fori": Program(lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c * 0.5 + x[i], jnp.zeros(3)), ("b, 3",), B),
    "while": Program(lambda x: lax.while_loop(lambda x: x.sum() < 9, lambda x: x * 1.5 + 1, x), ("b, 3",), B),
    "cond": Program(lambda x: lax.cond(x.sum() > 0, lambda x: x * 2, lambda x: -x, x), ("b, 3",), B),
    "attention": Program(
        lambda x: (
            jax.nn.softmax(jnp.where(jnp.tri(x.shape[1], dtype=bool), jnp.einsum("btd,bsd->bts", x, x), -1e9)) @ x
        ),
        ("b, t, 8",),
        ({"b": 2, "t": 5}, {"b": 1, "t": 9}),
    ),
    "repeated": Program(
        lambda x: (jnp.tile(x, (2, 1)), jnp.repeat(x, 2, 0), jnp.stack([x, x]), jnp.roll(x, 2, 0)),
        ("b, 3",),
        B,
        {"b": 2},
    ),
    "padded to the other": Program(
        lambda x, y: jnp.pad(x, (0, jax.core.max_dim(y.shape[0] - x.shape[0], 0))),
        ("a", "b"),
        ({"a": 3, "b": 6}, {"a": 5, "b": 2}),
    ),
    "random": Program(lambda x: x + jax.random.uniform(jax.random.key(0), x.shape), ("b",), B),
    "top k": Program(lambda x: lax.top_k(x, 3), ("b, 6",), B),
    "cholesky": Program(lambda x: jnp.linalg.cholesky(jnp.einsum("bij,bkj->bik", x, x) + jnp.eye(3)), ("b, 3, 3",), B),
    "gradient": Program(jax.grad(lambda x: (jax.nn.softmax(x) ** 2).sum()), ("b, 6",), B),
}


def exported(program: Program) -> sm.stablehlo.Imported:
    scope = export.SymbolicScope(program.constraints)
    shapes = [export.symbolic_shape(shape, scope=scope) for shape in program.shapes]
    specs = [jax.ShapeDtypeStruct(shape, np.float32) for shape in shapes]
    return sm.stablehlo.load(export.export(jax.jit(program.function))(*specs).mlir_module())


def sized(program: Program, sizes: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The shapes of the arguments for some sizes."""

    def size(text: str) -> Any:
        factor, _, name = text.strip().rpartition("*")
        return int(name) if name.isdigit() else int(factor or 1) * sizes[name]

    return [tuple(size(part) for part in shape.split(",")) for shape in program.shapes]


def compare(found: Any, wanted: Any) -> None:
    for a, b in zip(found, jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, np.asarray(b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_the_sizes_of_a_call(name: str) -> None:
    program = PROGRAMS[name]
    imported = exported(program)
    for sizes in program.sizes:
        arrays = [RNG.normal(size=shape).astype(np.float32) for shape in sized(program, sizes)]
        found = imported(*arrays)
        compare(interpreted(found), jax.jit(program.function)(*arrays))


@pytest.mark.parametrize("name", PROGRAMS)
def test_with_one_compilation(name: str) -> None:
    program = PROGRAMS[name]
    imported = exported(program)
    dims = {size: sm.Dim(size, program.least.get(size, 1), 4096) for size in program.sizes[0]}
    function = sm.jit(imported, shapes=sized(program, dims))
    for sizes in program.sizes:
        arrays = [RNG.normal(size=shape).astype(np.float32) for shape in sized(program, sizes)]
        found = function(*map(sm.asarray, arrays))
        found = found if isinstance(found, tuple) else (found,)
        compare([x.numpy() for x in found], jax.jit(program.function)(*arrays))
    assert len(imported._graphs) == 1


def test_what_is_asserted_is_said_in_the_words_of_jax() -> None:
    imported = exported(PROGRAMS["two sizes"])
    with pytest.raises(sm.errors.ShapeError, match=r"Found inconsistency between dimension size args\[1\].shape\[0\] "):
        imported(np.ones((3, 4), np.float32), np.ones((5, 4), np.float32))
    with pytest.raises(sm.errors.ShapeError, match="do not match the symbolic shape constraint a >= 2"):
        imported(np.ones((1, 4), np.float32), np.ones((2, 4), np.float32))


LOOPS: dict[str, Callable[[Any], Any]] = {
    "scan": lambda x: lax.scan(step, jnp.ones(3), x)[1],
    "scan from behind": lambda x: lax.scan(step, jnp.ones(3), x, reverse=True)[1],
    "map": lambda x: lax.map(lambda y: jnp.tanh(y) * 2, x),
    "fori": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: jnp.tanh(c * 0.5) + x[i], jnp.zeros(3)),
    "gradient": jax.grad(lambda x: (lax.scan(step, jnp.ones(3), x)[1] ** 2).sum()),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_of_open_lengths_have_gradients(name: str) -> None:
    function = LOOPS[name]
    imported = exported(Program(function, ("b, 3",), ()))
    slope = sm.jit(sm.grad(lambda x: (imported(x) ** 2).sum()), shapes=[(sm.Dim("b", 1, 64), 3)])
    for count in (4, 1, 7):
        x = RNG.normal(size=(count, 3)).astype(np.float32)
        compare([slope(sm.asarray(x)).numpy()], jax.grad(lambda x: (function(x) ** 2).sum())(x))
