"""The planning suite: how long the search for equal programs takes.

What is timed is that search alone, over a graph that greedy rules have been through, as the compiler does it; each time
in a process that has planned nothing yet.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import smelt as sm
from smelt import runtime
from smelt.bench.compiling import adam_step
from smelt.bench.first_calls import child_task
from smelt.bench.models import Transformer, parameters
from smelt.bench.report import Row
from smelt.bench.timing import private_cache
from smelt.compiler import planning
from smelt.dtypes import float32
from smelt.egraph import Weighed
from smelt.graph import Node, build, make_leaf, private_nodes, topological
from smelt.rewrite import rewrite
from smelt.tensor import node_of

FIRST_SECONDS, AGAIN_SECONDS, LINEAR = 0.5, 0.15, 1.3
BARRED_NODES = 5000  # up to which the bars in seconds are meant
DEFAULT, MOST = "exact", "fast"  # contracts
RANDOM_NODES = (6_250, 12_500, 25_000, 50_000)


class Timed(NamedTuple):
    """`run(nodes, quick)` gives the rows."""

    summary: str
    run: Callable[[int, bool], list[Row]]


def training_rows(nodes: int, quick: bool) -> list[Row]:
    """A training step, planned for the first time and once more."""
    nodes = min(nodes, 500) if quick else nodes
    rows = []
    for contracts in (DEFAULT, MOST):
        options = {"nodes": nodes, "contracts": contracts}
        found = [_fresh("plan_training", options) for _ in range(1 if quick else 3)]
        one, is_judged = found[0], not quick and nodes <= BARRED_NODES
        name = f"training step of {one['nodes']} nodes, {contracts}"
        told = f"{one['written']} nodes as traced, {one['layers']} layers; {one['islands']} different islands, "
        told += f"{one['changed']} of them changed"
        for word, key, bar in (("first", "first", FIRST_SECONDS), ("remembered", "again", AGAIN_SECONDS)):
            seconds = statistics.median(result[key] for result in found)
            rows.append(Row(f"{name}: {word}", seconds, "s", bar if is_judged else None, detail=told))
    return rows


def random_rows(nodes: int, quick: bool) -> list[Row]:
    """Random graphs with every rule: seconds, and how those of a node grow with the graph."""
    sizes = [size // 50 for size in RANDOM_NODES] if quick else RANDOM_NODES
    found = [_fresh("plan_random", {"nodes": size, "contracts": MOST}) for size in sizes]
    each = [result["first"] / result["nodes"] for result in found]
    rows = []
    for result, seconds in zip(found, each, strict=True):
        told = f"{1e6 * seconds:.1f} µs for each node"
        rows.append(Row(f"random graph of {result['nodes']} nodes, {MOST}", result["first"], "s", detail=told))
    worst = max(each) / each[0]
    told = ", ".join(f"{seconds / each[0]:.2f}" for seconds in each) + " times the seconds per node of the smallest"
    return [*rows, Row("random graphs: beyond linear", worst, "×", None if quick else LINEAR, detail=told)]


def first_call_rows(nodes: int, quick: bool) -> list[Row]:
    """First calls of a training step with a cold cache, with the search and without, in alternation."""
    options = {"size": "tiny" if quick else "small", "calls": 1}
    times: dict[str, list[float]] = {"off": [], DEFAULT: [], MOST: []}
    for _ in range(1 if quick else 3):
        for contracts, taken in times.items():
            with private_cache() as environment:
                found = child_task("training", options, environment | {"SMELT_CONTRACTS": contracts})
            taken.append(float(found["first"]))
    rows = []
    for contracts, taken in times.items():
        more = statistics.median(b - a for a, b in zip(times["off"], taken, strict=True))
        told = f"calls of {', '.join(f'{seconds:.2f}' for seconds in taken)} s"
        told += "" if contracts == "off" else f"; {more:+.2f} s, the median of pairs with off"
        rows.append(Row(f"first call, cold cache, {contracts}", statistics.median(taken), "s", detail=told))
    return rows


def _fresh(task: str, options: Mapping[str, Any]) -> dict[str, Any]:
    with private_cache() as environment:
        return child_task(task, dict(options), environment)


MEASURES: Mapping[str, Timed] = {
    "training": Timed("a transformer's training step, planned for the first time and again", training_rows),
    "random": Timed("random graphs of 6,250 to 50,000 nodes, with every rule", random_rows),
    "first-call": Timed(
        "the first call of a training step with a cold cache, with the search and without", first_call_rows
    ),
}


# --- in a process of its own


def plan_training(nodes: int, contracts: str) -> dict[str, Any]:
    """Plan the graph of an Adam step of a transformer that has about so many nodes."""
    one, two = (len(topological(_step(layers))) for layers in (1, 2))
    layers = max(1, 1 + round((nodes - one) / (two - one)))
    roots = _step(layers)
    with private_nodes():
        rewritten = rewrite(roots)
        times = planned(rewritten, contracts)
        weighed: list[Weighed] = []
        planning.plans(contracts, runtime.default_device().profile, weighed.append)(rewritten)
    own = {one.written: one for one in weighed if one.accepted}
    return {
        **times,
        "layers": layers,
        "written": len(topological(roots)),
        "islands": len(own),
        "changed": sum(bool(one.chosen) for one in own.values()),
    }


def _step(layers: int) -> list[Node]:
    """The results of a step, of which nothing is computed."""
    model = Transformer(layers=layers, width=256, heads=4, length=128, vocabulary=512)
    arrays = parameters(model)
    weights, means, squares = ({name: sm.asarray(array) for name, array in arrays.items()} for _ in range(3))
    tokens = sm.asarray(np.zeros((4, model.length), np.int64))
    *state, steps, loss = adam_step(model)(weights, means, squares, sm.asarray(0.0), tokens, tokens)
    results = [tensor for part in state for tensor in part.values()]
    return [node_of(tensor, "planning") for tensor in (*results, steps, loss)]


def plan_random(nodes: int, contracts: str) -> dict[str, Any]:
    """Plan a graph that is drawn."""
    with private_nodes():
        return planned(rewrite(random_graph(nodes)), contracts)


def planned(roots: Sequence[Node], contracts: str) -> dict[str, Any]:
    """The seconds of planning a graph for the first time and once more."""
    plan = planning.plans(contracts, runtime.default_device().profile)
    seconds = []
    for _ in range(2):
        # The processor's time: the same on a quiet machine, and planning has one thread.
        began = time.process_time()
        plan(roots)
        seconds.append(time.process_time() - began)
    return {"nodes": len(topological(roots)), "first": seconds[0], "again": seconds[1]}


_SIDE, _LEAVES, _NEAR = 64, 64, 24
_BINARY, _UNARY = ("add", "add", "sub", "mul", "mul", "div", "max"), ("exp", "tanh", "neg", "abs", "log1p")


def random_graph(nodes: int, seed: int = 0) -> list[Node]:
    """The results that nobody reads of about so many nodes, most of which read what is near."""
    generator = random.Random(seed)
    leaves = [make_leaf(float32, (_SIDE, _SIDE), ("drawn", number)) for number in range(_LEAVES)]
    made: list[Node] = []
    unread: dict[Node, None] = {}
    count = 0
    while count < nodes:
        near = made[-_NEAR:]
        a, b = (generator.choice(near if near and generator.random() < 0.8 else leaves) for _ in "ab")
        node, more = _drawn(generator, a, b)
        for source in (a, b):
            unread.pop(source, None)
        made.append(node)
        unread[node] = None
        count += more
    return list(unread)


def _drawn(generator: random.Random, a: Node, b: Node) -> tuple[Node, int]:
    """A node of the same shape, and how many it takes: what networks are made of, and what rules look for."""
    kind = generator.choices(range(6), (60, 25, 5, 5, 2, 3))[0]
    match kind:
        case 0:
            return build.binary(generator.choice(_BINARY), a, b), 1
        case 1:
            return build.unary(generator.choice(_UNARY), build.binary("add", a, b)), 2
        case 2:
            return build.matmul(a, b), 1
        case 3:
            rows = build.reduce(generator.choice(("add", "max")), a, (1,), keep_axes=True)
            return build.binary("mul", b, build.broadcast_to(rows, b.shape)), 4
        case 4:
            return build.matmul(build.concat([a, b], 1), build.concat([b, a], 0)), 3
    return build.binary("add", build.composite("softmax", a, axis=1), b), 2
