"""Random programs have the values and the derivatives that JAX gives them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest

import smelt as sm
from tests.peers.comparing import Pair, agree, batches, in_smelt, tangents
from tests.peers.ops import OPS
from tests.peers.programs import Program, random_program
from tests.turns import TEST_ALL, one_in

pytestmark = pytest.mark.peers

SEEDS = one_in(5, range(200))
FEWER = SEEDS[:: 4 if TEST_ALL else 5]  # for what takes long to compile


@pytest.fixture(autouse=True, scope="module")
def jax() -> Any:
    """The peer, set to 64 bits."""
    found = pytest.importorskip("jax", reason="peers: jax is not installed (make test-peers installs it)")
    from tests.peers import in_jax  # noqa: F401

    return found


def total_in_smelt(program: Program) -> Callable[..., Any]:
    return lambda *inputs: program.total(sm, *inputs)


def total_in_jax(program: Program) -> Callable[..., Any]:
    from tests.peers.in_jax import XP

    return lambda *inputs: program.total(XP, *inputs)


def outputs_in_jax(program: Program) -> Callable[..., Any]:
    from tests.peers.in_jax import XP

    return lambda *inputs: program.outputs(XP, *inputs)


def places(program: Program) -> tuple[int, ...]:
    return tuple(range(len(program.inputs)))


def paired(what: str, got: Iterable[Any], expected: Iterable[Any]) -> Iterator[Pair]:
    for number, (ours, theirs) in enumerate(zip(got, expected, strict=True)):
        yield Pair(f"{what} {number}", ours, theirs)


# --- the programs themselves


def test_every_operation_occurs() -> None:
    programs = [random_program(seed) for seed in range(200)]
    assert {step.op for program in programs for step in program.steps} == set(OPS)
    assert {len(shape) for program in programs for shape in program.shapes} == {0, 1, 2, 3, 4}


def test_a_seed_is_a_program() -> None:
    assert str(random_program(3)) == str(random_program(3)) != str(random_program(4))


@pytest.mark.parametrize("seed", FEWER)
def test_peer_gradients_are_slopes(jax: Any, seed: int) -> None:
    """What the others are compared with: reverse and forward mode agree, and with finite differences."""
    program = random_program(seed)
    f, ts = jax.jit(total_in_jax(program)), tangents(program)
    gradients = jax.grad(f, argnums=places(program))(*program.inputs)
    _, slope = jax.jvp(f, program.inputs, tuple(ts))
    np.testing.assert_allclose(sum(np.sum(g * t) for g, t in zip(gradients, ts, strict=True)), slope, rtol=1e-8)
    step = 1e-6
    ahead, behind = ([x + side * step * t for x, t in zip(program.inputs, ts, strict=True)] for side in (1, -1))
    np.testing.assert_allclose((f(*ahead) - f(*behind)) / (2 * step), slope, rtol=1e-4, atol=1e-4)


# --- values


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize(("stride", "padding", "dilation"), [(1, 0, 1), (2, 1, 1), (3, 2, 2)])
def test_convolutions_are_those_of_lax(jax: Any, stride: int, padding: int, dilation: int, groups: int) -> None:
    """Programs write them out."""
    from tests.peers.in_jax import XP

    x, weight = np.sin(np.arange(420.0)).reshape(2, 6, 5, 7), np.cos(np.arange(24.0 * 6)).reshape(4, -1, 3, 2)
    weight = weight[:, : 6 // groups]
    sides, steps, gaps = [(padding, padding)] * 2, (stride, stride), (dilation, dilation)
    expected = jax.lax.conv_general_dilated(x, weight, steps, sides, rhs_dilation=gaps, feature_group_count=groups)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    np.testing.assert_allclose(XP.conv2d(x, weight, **options), expected, atol=1e-12)
    np.testing.assert_allclose(sm.conv2d(*in_smelt((x, weight)), **options), expected, atol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_values(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        got = program.outputs(sm, *in_smelt(program.inputs))
        sm.realize(*got)
        expected = jax.jit(outputs_in_jax(program))(*program.inputs)
        for number, ours, theirs in zip(program.unused(), got, expected, strict=True):
            yield Pair(f"v{number}", ours, theirs)

    agree(check, random_program(seed))


# --- derivatives


@pytest.mark.parametrize("seed", SEEDS)
def test_gradients(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        ours = sm.value_and_grad(total_in_smelt(program), argnums=places(program))
        theirs = jax.jit(jax.value_and_grad(total_in_jax(program), argnums=places(program)))
        value, got = ours(*in_smelt(program.inputs))
        sm.realize(value, *got)
        total, expected = theirs(*program.inputs)
        yield Pair("the value", value, total)
        yield from paired("the gradient of input", got, expected)
        compiled = sm.jit(ours)
        for inputs in (program.inputs, [x * 0.9 for x in program.inputs]):  # traced, then replayed
            yield from paired("the compiled gradient of input", compiled(*in_smelt(inputs))[1], theirs(*inputs)[1])

    agree(check, random_program(seed))


@pytest.mark.parametrize("seed", SEEDS)
def test_forward_mode(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        ts = tuple(tangents(program))
        ours = (in_smelt(program.inputs), in_smelt(ts))
        values, got = sm.jvp(lambda *inputs: program.outputs(sm, *inputs), *ours)
        sm.realize(*values, *got)
        wanted, expected = jax.jit(lambda x, t: jax.jvp(outputs_in_jax(program), x, t))(program.inputs, ts)
        yield from paired("the value of output", values, wanted)
        yield from paired("the tangent of output", got, expected)

    agree(check, random_program(seed))


@pytest.mark.parametrize("seed", FEWER)
def test_pullbacks_of_all_outputs(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        values, pullback = sm.vjp(lambda *inputs: program.outputs(sm, *inputs), *in_smelt(program.inputs))
        wanted, their_pullback = jax.vjp(outputs_in_jax(program), *program.inputs)
        cotangents = [np.cos(np.asarray(value)) for value in wanted]
        yield from paired("the value of output", values, wanted)
        expected = their_pullback(tuple(map(jax.numpy.asarray, cotangents)))
        yield from paired("the cotangent of input", pullback(in_smelt(cotangents)), expected)

    agree(check, random_program(seed))


# --- many at once


@pytest.mark.parametrize("seed", SEEDS)
def test_batches(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        inputs = batches(program)
        got = sm.vmap(lambda *inputs: program.outputs(sm, *inputs))(*in_smelt(inputs))
        sm.realize(*got)
        expected = jax.jit(jax.vmap(outputs_in_jax(program)))(*inputs)
        for number, ours, theirs in zip(program.unused(), got, expected, strict=True):
            yield Pair(f"batched v{number}", ours, theirs)

    agree(check, random_program(seed))


@pytest.mark.parametrize("seed", FEWER)
def test_batches_of_the_first_input_only(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        inputs = [np.moveaxis(batches(program)[0], 0, -1), *program.inputs[1:]]
        axes = (-1, *(None for _ in program.inputs[1:]))
        got = sm.vmap(total_in_smelt(program), in_axes=axes)(*in_smelt(inputs))
        yield Pair("the value", got, jax.jit(jax.vmap(total_in_jax(program), in_axes=axes))(*inputs))

    agree(check, random_program(seed))


@pytest.mark.parametrize("seed", FEWER)
def test_batches_of_gradients(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        inputs = batches(program)
        got = sm.vmap(sm.grad(total_in_smelt(program), argnums=places(program)))(*in_smelt(inputs))
        sm.realize(*got)
        expected = jax.jit(jax.vmap(jax.grad(total_in_jax(program), argnums=places(program))))(*inputs)
        yield from paired("the batched gradient of input", got, expected)

    agree(check, random_program(seed))


# --- derivatives of derivatives


@pytest.mark.parametrize("seed", FEWER)
def test_gradients_of_gradients(jax: Any, seed: int) -> None:
    """Of the sum of all gradients, each by its own factor."""

    def summed(xp: Any, gradient: Callable[..., Any], program: Program) -> Callable[..., Any]:
        factors = [xp.asarray(t) for t in tangents(program)]
        return lambda *inputs: sum(xp.sum(g * t) for g, t in zip(gradient(*inputs), factors, strict=True))

    def check(program: Program) -> Iterator[Pair]:
        ours = summed(sm, sm.grad(total_in_smelt(program), argnums=places(program)), program)
        theirs = summed(jax.numpy, jax.grad(total_in_jax(program), argnums=places(program)), program)
        got = sm.grad(ours, argnums=places(program))(*in_smelt(program.inputs))
        sm.realize(*got)
        expected = jax.jit(jax.grad(theirs, argnums=places(program)))(*program.inputs)
        yield from paired("the second derivative of input", got, expected)

    agree(check, random_program(seed))


@pytest.mark.parametrize("seed", FEWER)
def test_hessians_times_vectors(jax: Any, seed: int) -> None:
    def check(program: Program) -> Iterator[Pair]:
        ts = tuple(tangents(program))
        gradient = sm.grad(total_in_smelt(program), argnums=places(program))
        _, got = sm.jvp(gradient, in_smelt(program.inputs), in_smelt(ts))
        sm.realize(*got)
        theirs = jax.grad(total_in_jax(program), argnums=places(program))
        expected = jax.jit(lambda x, t: jax.jvp(theirs, x, t)[1])(program.inputs, ts)
        yield from paired("the product for input", got, expected)

    agree(check, random_program(seed))
