"""How far a compiled function may differ from what is written: `jit(contracts=)`, `sm.configure`, the environment."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import smelt as sm
from smelt.device.toolchain import compile_count
from smelt.errors import ArgumentError
from smelt.transform.explain import examine
from tests.fuse.running import Array


def head(x: sm.Tensor, w: sm.Tensor) -> sm.Tensor:
    return (x @ w).sum(axis=0)


def arrays() -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((64, 24)).astype(np.float32), rng.standard_normal((24, 40)).astype(np.float32)


def rules(contracts: str | None) -> set[str]:
    x, w = map(sm.asarray, arrays())
    return {
        rule for plan in examine(sm.jit(head, contracts=contracts), x, w).plans if plan.accepted for rule in plan.rules
    }


def test_a_contract_says_what_may_be_done() -> None:
    x, w = map(sm.asarray, arrays())
    expected = head(x, w).numpy()
    for contracts in ("off", "exact", "reassociates", "regroups", "fast"):
        np.testing.assert_allclose(sm.jit(head, contracts=contracts)(x, w).numpy(), expected, rtol=1e-4, atol=1e-4)
    assert not rules("off") and not rules("exact") and not rules(None)
    assert rules("regroups") == {"sum_factors_first"}


def test_what_is_compiled_in_a_block_has_its_contract() -> None:
    x, w = map(sm.asarray, arrays())
    with sm.configure(contracts="regroups"):
        key, _ = sm.jit(head).graph_key(x, w)
        assert key.contracts == "regroups" and rules(None) == {"sum_factors_first"}
        assert sm.jit(head, contracts="exact").graph_key(x, w)[0].contracts == "exact", "what is said nearer counts"
    assert sm.jit(head).graph_key(x, w)[0].contracts == "exact"
    dynamic = sm.jit(head, dynamic=True, contracts="regroups")
    for rows in (64, 32, 16):
        np.testing.assert_allclose(dynamic(x[:rows], w).numpy(), head(x[:rows], w).numpy(), rtol=1e-4, atol=1e-4)


def test_hints_tell_what_another_contract_would_gain() -> None:
    x, w = map(sm.asarray, arrays())
    [hint] = examine(head, x, w).plans
    assert not hint.accepted and hint.contract == "regroups" and 'contracts="regroups" would make this' in str(hint)


def test_rules_see_the_literals_of_a_function() -> None:
    """Else they are arguments, so that a number that changes compiles nothing anew."""

    def capped(x: sm.Tensor) -> sm.Tensor:
        return sm.softmax((x / 30).tanh() * 30, axis=-1)

    x = sm.asarray(np.random.default_rng(3).standard_normal((64, 512)).astype(np.float32))
    assert sm.jit(capped).graph_key(x)[0].scalars == 1
    assert sm.jit(capped, contracts="fast").graph_key(x)[0].scalars == 0
    with sm.configure(contracts="fast"):
        reports = [one.report for one in examine(capped, x).plans if one.accepted]
    assert any("softmax_unshifted" in report for report in reports), "whether it pays is another matter"


def test_a_literal_that_changes_compiles_no_more_than_a_few_programs() -> None:
    """A rate that a closure holds, say; shapes that change are no reason to see less."""
    rate = 0.25
    step = sm.jit(lambda x: x - rate * x.tanh(), contracts="regroups")
    x = sm.asarray(np.linspace(-1, 1, 24, dtype=np.float32))
    counts = []
    for k in range(8):
        rate = 0.25 + 0.0625 * k
        before = compile_count()
        np.testing.assert_allclose(step(x).numpy(), x.numpy() - rate * np.tanh(x.numpy()), rtol=1e-5)
        counts.append(compile_count() - before)
        assert step.graph_key(x)[0].scalars == int(k >= 3)
    assert counts[4:] == [0, 0, 0, 0]
    rate = 0.25
    assert step.graph_key(x)[0].scalars == 0  # as it was compiled
    assert step.graph_key(x[:12])[0].scalars == 0


def test_mistakes() -> None:
    with pytest.raises(ArgumentError, match=r"(?s)no contract 'loose'.*fast, off\."):
        sm.jit(head, contracts="loose")
    with pytest.raises(ArgumentError, match="no setting 'contract'"), sm.configure(contract="fast"):
        pass
    with pytest.raises(ArgumentError, match="contracts='loose'"), sm.configure(contracts="loose"):
        pass
    run = [sys.executable, "-c", "import smelt"]
    environment = {**os.environ, "SMELT_CONTRACTS": "loose"}
    said = subprocess.run(run, env=environment, capture_output=True, text=True, check=False)
    assert said.returncode and "SMELT_CONTRACTS" in said.stderr and "regroups" in said.stderr
