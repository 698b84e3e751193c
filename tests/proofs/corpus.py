"""Kernels to prove things about: those that functions and training steps become, on several processors.

Nothing is compiled: kernels are taken where they would be handed to the C compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

import smelt as sm
from smelt.compiler import Compiler, GraphKey, driver, trace
from smelt.compiler.compile import Stages
from smelt.compiler.units import Units
from smelt.compiler.work import Built
from smelt.cost.profile import Profile
from smelt.device.cpu import CPU
from smelt.graph.node import Node
from smelt.kernel import Kernel, Series, print_kernel
from smelt.transform.jit import Jit

_SIZES = {"cores": 4, "l1_bytes": 32 << 10, "l2_bytes": 1 << 20, "l3_bytes": 32 << 20}
_AMX = frozenset({"avx512f", "avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"})

PROFILES = {
    "server": Profile("server", "x86_64", 64, 32, features=_AMX, **_SIZES),
    "laptop": Profile("laptop", "x86_64", 32, 16, features=frozenset({"avx2", "fma"}), **_SIZES),
    "arm": Profile("arm", "aarch64", 16, 32, features=frozenset(), **_SIZES),
    "groups": Profile(
        "groups", "opencl", 1, 32, features=frozenset(), group_threads=256, group_bytes=32 << 10, **_SIZES
    ),
}


class _Board(CPU):
    """A processor that things are drawn up for and never built."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    @property
    def profile(self) -> Profile:
        return self._profile


class _Enough(Exception):
    """All kernels of a graph are known."""


def drawn_up(key: GraphKey, profile: Profile) -> list[Built]:
    """What the graph of a key becomes on a processor, kernel by kernel."""
    found: list[Built] = []

    def finish(units: Units) -> None:
        raise _Enough

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Units, "add", lambda units, built: found.append(built))
        patch.setattr(Units, "finish", finish)
        with pytest.raises(_Enough):
            driver.compile_key(key, _Board(profile), Compiler(), Stages(), "", explain=False)
    return found


def kernels(key: GraphKey, profile: Profile) -> list[Kernel]:
    """Kernels without routines, which are written by hand."""
    found = (built.kernel for built in drawn_up(key, profile))
    parts = (part for kernel in found for part in (kernel.parts if isinstance(kernel, Series) else (kernel,)))
    return [part for part in parts if isinstance(part, Kernel)]


def kernels_of(nodes: Sequence[Node], profile: Profile) -> list[Kernel]:
    """The kernels of values that are computed together."""
    return kernels(trace(nodes).key, profile)


def kernels_of_call(function: Callable[..., Any], arguments: Sequence[Any], profile: Profile) -> list[Kernel]:
    """The kernels of a compiled function."""
    return kernels(Jit(function).graph_key(*arguments)[0], profile)


def distinct(found: Sequence[Kernel]) -> Iterator[Kernel]:
    """Kernels without those that differ in nothing but their names."""
    seen: set[str] = set()
    for kernel in found:
        text = print_kernel(kernel).split("\n", 1)[1]
        if text not in seen:
            seen.add(text)
            yield kernel


class Net(sm.nn.Module):
    """A bit of everything that networks are made of."""

    def __init__(self) -> None:
        self.conv, self.norm = sm.nn.Conv2d(3, 6, 3, padding=1), sm.nn.BatchNorm2d(6)
        self.attention, self.last = sm.nn.MultiheadAttention(6, 2, batch_first=True), sm.nn.Linear(6, 5)

    def __call__(self, x: sm.Tensor) -> sm.Tensor:
        x = sm.max_pool2d(self.norm(self.conv(x)).relu(), 2)
        x = sm.swapaxes(x.reshape((x.shape[0], 6, -1)), 1, 2)
        return self.last(self.attention(x, x, x)[0]).mean(axis=1)


def training_step() -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A whole step, and its arguments."""
    net, optimizer = Net(), sm.optim.AdamW(lr=1e-3)

    def step(net: Net, state: Any, x: sm.Tensor, y: sm.Tensor) -> Any:
        loss, slopes = sm.value_and_grad(lambda m: sm.nn.losses.cross_entropy(m(x), y))(net)
        return *optimizer.update(net, slopes, state), loss

    return step, (net, optimizer.init(net), sm.zeros(7, 3, 10, 14), sm.zeros(7, dtype=sm.int64))
