"""How the tests run: verified after every pass, with a cache of their own, sampled unless SMELT_TEST_ALL=1.

Generated examples are the same at every run, so that a change is judged by itself; SMELT_TEST_FUZZ=1 seeks new ones.

Tests that fix `max_examples` themselves escape the two profiles; leave it to the profile wherever that is enough.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
TEST_ALL = os.environ.get("SMELT_TEST_ALL") == "1"

# smelt reads its settings when it is first imported, which is after this file and before any test module. The kernels
# of earlier runs are kept so that repeated runs are fast, but never in the user's own cache.
os.environ["SMELT_CACHE_DIR"] = str(ROOT / "build" / "test-cache")
os.environ["SMELT_VERIFY"] = "1"
os.environ.setdefault("POCL_CACHE_DIR", str(ROOT / "build" / "pocl-cache"))

# A busy machine must not fail a test, so nothing here depends on time.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _UNTIMED, max_examples=25, derandomize=True)
settings.register_profile("all", _UNTIMED, max_examples=200, derandomize=True)
settings.register_profile("fuzz", _UNTIMED, max_examples=500, derandomize=False, print_blob=True)
settings.load_profile("fuzz" if os.environ.get("SMELT_TEST_FUZZ") == "1" else "all" if TEST_ALL else "quick")


# Tests with these markers run only where a variable asks for them.
_OPTIONAL = {
    "slow": ("SMELT_TEST_ALL", ""),
    "opencl": ("SMELT_TEST_OPENCL", ", with pyopencl installed (make test-opencl)"),
    "peers": ("SMELT_TEST_PEERS", ", with jax installed (make test-peers)"),
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, (variable, reason) in _OPTIONAL.items():
        if os.environ.get(variable) == "1":
            continue
        skip = pytest.mark.skip(reason=f"{marker}: set {variable}=1{reason}")
        for item in items:
            if item.get_closest_marker(marker) is not None:
                item.add_marker(skip)


@pytest.fixture
def reference_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """In sampled runs the reference computes what a test asks for.

    For the many small calls whose compiled results other tests check, one at a time, compiling is most of the time.
    """
    if TEST_ALL:
        return
    from smelt import runtime
    from smelt.graph.interpret import interpret
    from smelt.graph.node import Node
    from smelt.graph.ops import Op

    def leaf(node: Node) -> Node:
        if node.op is Op.LEAF or node.leaf is not None:
            return node.leaf or node
        (value,) = interpret([node], lambda leaf: leaf.attribute.numpy())
        return runtime.leaf(runtime.Storage.of(value, copy=True))

    def realize(nodes: Sequence[Node]) -> list[Node]:
        return [leaf(node) for node in nodes]

    monkeypatch.setattr(runtime, "realize", realize)
