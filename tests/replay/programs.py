"""The corpus: every public function, its gradients, loops, and steps of networks, as keys of graphs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import smelt as sm
from smelt.bench.models import Transformer, forward, parameters
from smelt.bench.train import in_smelt
from smelt.bench.train.cases import CASES
from smelt.compiler import GraphKey, trace
from smelt.graph.ops import Op
from smelt.transform.jit import Jit
from tests.derive.checking import subject
from tests.derive.test_gradcheck import EXCLUDED
from tests.op_table import FAMILIES
from tests.ops.spec import OpSpec
from tests.replay.loops import LOOPS
from tests.test_op_table import cases

_TYPES = (sm.float32, sm.bfloat16, sm.int32, sm.int8)
_SMALL = Transformer(layers=2, width=96, heads=3, length=65, vocabulary=211)


def programs() -> Iterator[tuple[str, Callable[[], GraphKey | None]]]:
    """Names, and what makes the key; None where there is nothing to compute."""
    seen: Counter[str] = Counter()
    for family, specs in FAMILIES.items():
        for spec in specs:
            seen[spec.name] += 1
            name = spec.name if seen[spec.name] == 1 else f"{spec.name} ({seen[spec.name]})"
            for dtype in [one for one in _TYPES if one in spec.dtypes] or spec.dtypes[:1]:
                yield f"{name} {dtype}", _later(_function, spec, dtype)
            if family != "random" and sm.float64 in spec.dtypes and spec.name not in EXCLUDED:
                yield f"{name} gradient", _later(_gradient, spec)
    for name, (function, arguments) in LOOPS.items():
        yield f"loop: {name}", _later(_call, function, arguments)
    yield from NETWORKS.items()


def _later(make: Callable[..., GraphKey | None], *given: Any) -> Callable[[], GraphKey | None]:
    return lambda: make(*given)


def _key(tensors: list[sm.Tensor]) -> GraphKey | None:
    lazy = [x._node for x in tensors if x._node.leaf is None and x._node.op is not Op.LEAF]
    return trace(lazy).key if lazy else None


def _function(spec: OpSpec, dtype: sm.DType) -> GraphKey | None:
    return _key([case.tensor for case in cases(spec, spec.samples(dtype), dtype)])


def _gradient(spec: OpSpec) -> GraphKey | None:
    found: list[sm.Tensor] = []
    for seed, sample in enumerate(spec.samples(sm.float64)):
        one = subject(spec, sample, seed)
        if one is not None:
            found += sm.grad(one.call)([sm.asarray(x) for x in one.arrays])
    return _key(found)


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> GraphKey:
    return Jit(function).graph_key(*arguments)[0]


def _forward() -> GraphKey:
    weights = {name: sm.from_numpy(x) for name, x in parameters(_SMALL).items()}
    x = sm.asarray(np.zeros((1, _SMALL.length, _SMALL.width), np.float32))
    return _call(lambda w, x: forward(w, x, _SMALL.layers, _SMALL.heads), (weights, x))


def _step(case: str) -> GraphKey:
    model, optimizer = in_smelt.network(case), sm.optim.Adam(lr=1e-3)
    x, y = (sm.asarray(part) for part in CASES[case].batch())

    def step(model: sm.nn.Module, state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        loss, slopes = sm.value_and_grad(lambda m: sm.cross_entropy(m(x), y.reshape(-1)))(model)
        return (*optimizer.update(model, slopes, state), loss)

    return Jit(step).graph_key(model, optimizer.init(model), x, y)[0]


NETWORKS: dict[str, Callable[[], GraphKey]] = {
    "network: transformer forward": _forward,
    **{f"network: {case} step": _later(_step, case) for case in CASES},  # type: ignore[dict-item]
}
