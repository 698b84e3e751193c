"""Each family of rewrite rules switched off in turn changes no result beyond its float contract."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import smelt as sm
from smelt import runtime
from smelt.config import configure
from smelt.rewrite import FAMILIES
from tests.interpreted import interpreted

rng = np.random.default_rng(11)


def floats(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


A, B, V, IDS = floats(17, 33), floats(33, 19), floats(33), rng.integers(-9, 9, (17, 33))


def programs() -> dict[str, sm.Tensor]:
    """Programs in which every family finds something to do."""
    a, b, v, ids = sm.asarray(A), sm.asarray(B), sm.asarray(V), sm.asarray(IDS)
    return {
        "identity": (a * 1 + 0 * ids.astype(sm.float32)).T.T - 0,
        "constant": a + (sm.ones((3,)) * 2).sum() * sm.full((33,), 3),
        "integers": (ids * 0 + ids * 1 - 0) | (ids & -1),
        "movement": sm.concat([a[:, 3:9], a[:, 9:20]], axis=1).reshape(17 * 17).reshape(17, 17).T[::-1][::-1],
        "padding": sm.pad(a, ((1, 2), (0, 3)))[1:-2, :-3] + v,
        "reduction": a.sum(1).sum(0) + sm.broadcast_to(v, (5, 33)).sum(0).mean() + a.max(-1).max(-1),
        "contraction": (a[:, :, None] * b[None]).sum(1),
        "batched": (a.reshape(17, 1, 33) @ b).reshape(17, 19).softmax(-1),
        "network": sm.layer_norm((a @ b).gelu(), sm.ones((19,)), sm.zeros((19,))),
    }


@pytest.mark.parametrize("family", [*FAMILIES, "all of them"])
def test_results_without_a_family(family: str) -> None:
    wanted = programs()
    expected = dict(zip(wanted, interpreted([*wanted.values()]), strict=True))
    off = frozenset(FAMILIES) if family == "all of them" else frozenset({family})
    with configure(disabled_rules=off):
        runtime.current().clear_caches()
        fresh = programs()
        sm.realize(*fresh.values())
    for name, value in fresh.items():
        got = value.numpy()
        if got.dtype.kind == "f":
            np.testing.assert_allclose(got, expected[name], rtol=2e-5, atol=2e-5, err_msg=name)
        else:
            np.testing.assert_array_equal(got, expected[name], err_msg=name)
