"""Plans on disk: found again by later processes, and ignored if they are damaged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from smelt import dtypes
from smelt.config import configure
from smelt.diskcache import disk_cache
from smelt.egraph import RULES, Planner, Pricing
from smelt.egraph import plan as planning
from smelt.egraph.found import load
from smelt.egraph.islands import Starts, islands
from smelt.graph import Node, build, private_nodes
from smelt.graph.text import print_graph
from tests.egraph.flops import FLOPS
from tests.graph.random_graphs import leaf

PRICING = Pricing("here", FLOPS.form, lambda roots: float(len(print_graph(roots))))


def roots() -> list[Node]:
    x, a, b = (leaf(dtypes.float32, shape) for shape in ((5, 70), (70, 2), (2, 70)))
    return [build.matmul(x, build.matmul(a, b))]


def test_a_plan_is_found_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with configure(cache_dir=tmp_path, disk_cache=True), private_nodes():
        first: list[object] = []
        Planner(RULES).planned(roots(), PRICING, lambda _, plan: first.append(plan))
        monkeypatch.setattr(planning, "saturate", lambda *_: pytest.fail("it was found before"))
        again: list[object] = []
        Planner(RULES).planned(roots(), PRICING, lambda _, plan: again.append(plan))
        assert [str(plan.report) for plan in first] == [str(plan.report) for plan in again]  # type: ignore[attr-defined]
        assert [plan[:2] for plan in first] == [plan[:2] for plan in again]  # type: ignore[index]


def test_what_is_no_plan_is_ignored(tmp_path: Path) -> None:
    with configure(cache_dir=tmp_path, disk_cache=True), private_nodes():
        planner = Planner(RULES)
        planner.planned(roots(), PRICING)
        [island] = islands(roots(), Starts(RULES))
        [path] = [path for path in (tmp_path / "plans").iterdir() if path.is_file()]
        cache = disk_cache()
        assert cache is not None
        data = cache.load_bytes("plans", path.name)
        assert data is not None and load(path.name, island.frozen()) is not None
        draw = random.Random(0)
        whole = json.loads(data)
        damaged = [b"", b"[]", b"{}", b"[" * 100_000, data[:-1], data.replace(b"contract", b"permute")]
        damaged += [json.dumps(whole | {"before": value}).encode() for value in (-1, "x", None, 1e999)]
        damaged += [json.dumps(whole | {"found": [{**whole["found"][0], "inputs": [9, 9, 9]}]}).encode()]
        damaged += [json.dumps(whole | {"found": [{**whole["found"][0], "graph": "graph leaves(0) dims()"}]}).encode()]
        for _ in range(300):
            at = draw.randrange(len(data))
            damaged.append(data[:at] + bytes([draw.randrange(256)]) + data[at + draw.randrange(3) :])
        for text in damaged:
            cache.store_bytes("plans", path.name, text)
            found = load(path.name, island.frozen())
            if found is not None:
                for one in found.alternatives:
                    outputs = one.outputs.over(island.inputs)
                    assert [node.shape for node in outputs] == [node.shape for node in island.outputs]
