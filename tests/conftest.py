"""How the tests run: verified after every pass, with a cache of their own, sampled unless SMELT_TEST_ALL=1.

Generated examples are the same at every run, so that a change is judged by itself; SMELT_TEST_FUZZ=1 seeks new ones.

Tests that fix `max_examples` themselves escape the two profiles; leave it to the profile wherever that is enough.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.turns import TEST_ALL, in_shard, in_turn

ROOT = Path(__file__).resolve().parent.parent

# smelt reads its settings when it is first imported, which is after these lines and before any test module. The kernels
# of earlier runs are kept so that repeated runs are fast, but never in the user's own cache.
os.environ["SMELT_CACHE_DIR"] = str(ROOT / "build" / "test-cache")
os.environ["SMELT_DATA_DIR"] = str(ROOT / "build" / "test-data")  # which nobody makes: nothing is tuned
os.environ["SMELT_VERIFY"] = "1"
os.environ.setdefault("POCL_CACHE_DIR", str(ROOT / "build" / "pocl-cache"))

# A busy machine must not fail a test, so nothing here depends on time.
_UNTIMED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("quick", _UNTIMED, max_examples=20, derandomize=True)
settings.register_profile("all", _UNTIMED, max_examples=200, derandomize=True)
settings.register_profile("fuzz", _UNTIMED, max_examples=500, derandomize=False, print_blob=True)
settings.load_profile("fuzz" if os.environ.get("SMELT_TEST_FUZZ") == "1" else "all" if TEST_ALL else "quick")


# Tests with these markers run only where a variable asks for them.
_OPTIONAL = {
    "slow": ("SMELT_TEST_ALL", ""),
    "opencl": ("SMELT_TEST_OPENCL", ", with pyopencl installed (make test-opencl)"),
    "peers": ("SMELT_TEST_PEERS", ", with jax installed (make test-peers)"),
    "site": ("SMELT_TEST_SITE", ", with sphinx and others installed (make test-docs)"),
}


def pytest_configure(config: pytest.Config) -> None:
    """The processor that kernels are chosen for, before any test module asks."""
    name = os.environ.get("SMELT_TEST_PROFILE")
    if name:
        from tests.profiles import BY_NAME, emulated

        stack = ExitStack()
        stack.enter_context(emulated(BY_NAME[name]))
        config.add_cleanup(stack.close)


def pytest_collection_finish() -> None:
    """Modules and tests stay until the end: collecting garbage, as many tests do, need not go through them."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    chosen = in_shard(in_turn(items))
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
    for marker, (variable, reason) in _OPTIONAL.items():
        if os.environ.get(variable) == "1":
            continue
        skip = pytest.mark.skip(reason=f"{marker}: set {variable}=1{reason}")
        for item in items:
            if item.get_closest_marker(marker) is not None:
                item.add_marker(skip)


@pytest.fixture
def own_database(tmp_path: Path) -> Iterator[None]:
    """A cache and a database of tuned choices that no other test sees."""
    from smelt.config import configure

    with configure(cache_dir=tmp_path / "cache", disk_cache=True, data_dir=tmp_path / "data"):
        yield
