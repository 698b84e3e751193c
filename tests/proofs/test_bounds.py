"""Every load and store of a corpus of kernels stays inside its buffer: proven by an SMT solver that knows nothing of
smelt's own proofs.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pytest

import smelt as sm
from smelt.kernel import Kernel
from smelt.kernel.ir import For, If, Load, Statement, Store
from tests.op_table import OPS
from tests.ops.spec import OpSpec
from tests.test_op_table import cases

pytest.importorskip("z3", reason="the prover is z3: make proofs")

from tests.proofs.bounds import Prover
from tests.proofs.corpus import PROFILES, distinct, kernels, kernels_of, kernels_of_call, training_step

NAMES = list(PROFILES)
FEW = 61  # of how many functions a sampled run looks at one


def check(found: Iterable[Kernel], least: int) -> None:
    """Prove all kernels; there must be at least so many obligations."""
    outcomes: Counter[str] = Counter()
    failures: list[str] = []
    for kernel in distinct(list(found)):
        prover = Prover(kernel).run()
        outcomes += prover.found
        failures += prover.failures
    assert not failures, f"{len(failures)} of {outcomes}:\n" + "\n".join(failures[:8])
    assert outcomes["proven"] >= least, outcomes
    # Symbolic sizes are the solver's to decide; that it mostly can is what makes this a proof.
    assert 20 * (outcomes["sampled"] + outcomes["unreachable"]) <= outcomes["proven"], outcomes


def kernels_of_functions(specs: Sequence[OpSpec], shift: int) -> Iterable[Kernel]:
    """Each function on another processor in turn."""
    for number, spec in enumerate(specs):
        dtype = sm.float32 if sm.float32 in spec.dtypes else spec.dtypes[0]
        nodes = [case.node for case in cases(spec, spec.samples(dtype), dtype)]
        lazy = [node for node in nodes if node.leaf is None and node.op.value != "leaf"]
        if lazy:
            yield from kernels_of(lazy, PROFILES[NAMES[(number + shift) % len(NAMES)]])


def test_accesses_of_some_functions_are_inside() -> None:
    check(kernels_of_functions(OPS[::FEW], 0), 100)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(4))
def test_accesses_of_all_functions_are_inside(part: int) -> None:
    check(kernels_of_functions(OPS[part::4], part), 1000)


@pytest.mark.parametrize("profile", ["server", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_accesses_of_a_training_step_are_inside(profile: str) -> None:
    step, arguments = training_step()
    check(kernels_of_call(step, arguments, PROFILES[profile]), 400)


def norms(x: sm.Tensor, w: sm.Tensor, b: sm.Tensor) -> Any:
    h = (x @ w + b).gelu()
    return h.softmax(-1), h.sum(0), sm.concat([h, x[:, :5]], axis=1), h.T @ h, sm.cumsum(x, 0), sm.argmax(x, 0), x[::-1]


def pairs(x: sm.Tensor, y: sm.Tensor) -> Any:
    s = x @ y.T
    distances = (x[:, None, :] - y[None, :, :]).abs().max(-1)
    return s.softmax(-1), s.T.reshape(-1), distances, sm.concat([x, y]), s.reshape(-1).sum(), sm.cumsum(s, 1)


def attention(q: sm.Tensor, k: sm.Tensor, v: sm.Tensor) -> Any:
    return sm.scaled_dot_product_attention(q, k, v)


def lookups(x: sm.Tensor, i: sm.Tensor) -> Any:
    return x[i], sm.one_hot(i % 5, 5), x.at[0].set(1.0)


def learning(w: sm.Tensor, x: sm.Tensor, y: sm.Tensor) -> Any:
    loss, slope = sm.value_and_grad(lambda w: sm.nn.losses.cross_entropy((x @ w).relu(), y))(w)
    return w - 0.1 * slope, loss


N, M = sm.Dim("n", 1, 4096), sm.Dim("m", 1, 1000)
SYMBOLIC: dict[Callable[..., Any], tuple[list[Any], Callable[[], tuple[sm.Tensor, ...]]]] = {
    norms: ([(N, 64), None, None], lambda: (sm.zeros(97, 64), sm.zeros(64, 32), sm.zeros(32))),
    pairs: ([(N, 24), (M, 24)], lambda: (sm.zeros(9, 24), sm.zeros(7, 24))),
    attention: (
        [(2, 3, N, 8), (2, 3, M, 8), (2, 3, M, 8)],
        lambda: (sm.zeros(2, 3, 9, 8), sm.zeros(2, 3, 7, 8), sm.zeros(2, 3, 7, 8)),
    ),
    lookups: ([(M, 7), (N,)], lambda: (sm.zeros(9, 7), sm.zeros(6, dtype=sm.int64))),
    learning: ([None, (M, 20), (M,)], lambda: (sm.zeros(20, 10), sm.zeros(16, 20), sm.zeros(16, dtype=sm.int64))),
}


@pytest.mark.parametrize("profile", ["server", *(pytest.param(name, marks=pytest.mark.slow) for name in NAMES[1:])])
def test_accesses_are_inside_for_every_size_at_once(profile: str) -> None:
    found: list[Kernel] = []
    for function, (shapes, arguments) in SYMBOLIC.items():
        found += kernels(sm.jit(function, shapes=shapes).graph_key(*arguments())[0], PROFILES[profile])
    assert any(kernel.parameters for kernel in found)
    check(found, 300)


# --- the prover itself


def changed(body: Sequence[Statement], change: Callable[[Load | Store], Statement]) -> list[Statement]:
    """A body with its loads and stores changed."""
    found: list[Statement] = []
    for statement in body:
        match statement:
            case For():
                found.append(dataclasses.replace(statement, body=changed(statement.body, change)))
            case If():
                inner, other = changed(statement.body, change), changed(statement.other, change)
                found.append(dataclasses.replace(statement, body=inner, other=other))
            case Load() | Store():
                found.append(change(statement))
            case _:
                found.append(statement)
    return found


def padded() -> Kernel:
    """A kernel that needs masks."""
    x = sm.asarray([[1.0] * 5] * 3)
    [kernel] = kernels_of([sm.pad(x, ((1, 2), (0, 3)))._node], PROFILES["laptop"])
    assert Prover(kernel).run().failures == []
    return kernel


FAULTS: dict[str, Callable[[Load | Store], Statement]] = {
    "one too far": lambda s: dataclasses.replace(s, index=tuple(i + 1 for i in s.index)),
    "one too early": lambda s: dataclasses.replace(s, index=tuple(i - 1 for i in s.index)),
    "no mask": lambda s: dataclasses.replace(s, mask=()),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_the_prover_finds_faults(fault: str) -> None:
    kernel = padded()
    prover = Prover(dataclasses.replace(kernel, body=tuple(changed(kernel.body, FAULTS[fault])))).run()
    assert prover.found["wrong"] >= 1
    assert "fails at" in prover.failures[0]


def test_the_prover_sees_what_contradicts_itself() -> None:
    kernel = padded()
    never = changed(kernel.body, lambda s: dataclasses.replace(s, mask=(*s.mask, *(m._replace(a=m.b) for m in s.mask))))
    assert Prover(dataclasses.replace(kernel, body=tuple(never))).run().found["unreachable"] >= 1
